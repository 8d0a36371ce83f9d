//! A generated root with a real `outside` beside it, a server process on it, and one call with the checks that hold
//! for every call.

use rustix::io::Errno;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

// The benches have it here, too.
#[path = "filter.rs"]
mod filter;

use filter::without_openat2;

/// Against a hang: far beyond what any answer takes.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Against a process that does not end: more than three times the second that calls in flight are given.
pub const END: Duration = Duration::from_secs(5);

/// Stands in every file outside of the root; no answer may hold it.
pub const SECRET: &str = "OUTSIDE-SECRET";

/// The revision that is served.
pub const VERSION: &str = "2026-07-28";

/// How paths are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Openat2,
    Components,
    /// The same because `openat2` fails with this error.
    Without(Errno),
}

/// Runs a test on both back ends: `both_back_ends! { fn name(backend) { .. } }`.
#[allow(unused_macros, reason = "the benches share this file and run no tests")]
macro_rules! both_back_ends {
    ($($(#[$attribute:meta])* fn $name:ident($backend:ident) $body:block)*) => {$(
        $(#[$attribute])*
        mod $name {
            use super::*;
            #[test]
            fn openat2() {
                run($crate::harness::Backend::Openat2);
            }
            #[test]
            fn component_walk() {
                run($crate::harness::Backend::Components);
            }
            fn run($backend: $crate::harness::Backend) $body
        }
    )*};
}
#[allow(unused_imports, reason = "the benches share this file and run no tests")]
pub(crate) use both_back_ends;

/// A directory with `root` and `outside` in it, removed on drop.
#[derive(Debug)]
pub struct Tree {
    dir: TempDir,
}

impl Tree {
    /// An empty root, and an `outside` with `s.txt` in it.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tree = Self { dir };
        std::fs::create_dir(tree.root()).unwrap();
        std::fs::create_dir(tree.outside()).unwrap();
        std::fs::write(tree.outside().join("s.txt"), SECRET).unwrap();
        tree
    }

    /// A root with these files.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let tree = Self::new();
        for (path, content) in files {
            tree.write(path, content);
        }
        tree
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    pub fn outside(&self) -> PathBuf {
        self.dir.path().join("outside")
    }

    /// The directory that holds both.
    pub fn above(&self) -> &Path {
        self.dir.path()
    }

    /// The host path of something in the root.
    pub fn path(&self, path: impl AsRef<OsStr>) -> PathBuf {
        self.root().join(path.as_ref())
    }

    /// The same for a name that is not UTF-8.
    pub fn path_bytes(&self, path: &[u8]) -> PathBuf {
        self.path(OsStr::from_bytes(path))
    }

    /// Writes a file in place, making its directories.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub fn read(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.path(path)).unwrap()
    }

    pub fn link(&self, target: impl AsRef<Path>, path: &str) {
        std::os::unix::fs::symlink(target, self.path(path)).unwrap();
    }

    pub fn fifo(&self, path: &str) {
        let status = Command::new("mkfifo").arg(self.path(path)).status().unwrap();
        assert!(status.success());
    }

    /// Every name in the root directory, sorted, hidden ones too.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.root())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Fails when anything outside was read into an answer's place, changed, or added.
    pub fn outside_is_untouched(&self) {
        let names: Vec<_> =
            std::fs::read_dir(self.outside()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["s.txt"]);
        assert_eq!(std::fs::read_to_string(self.outside().join("s.txt")).unwrap(), SECRET);
    }

    /// Starts a server on the root that serves everything.
    pub fn serve(&self, backend: Backend) -> Server {
        self.serve_with(backend, &["--include", "**"])
    }

    /// Starts a server on the root with these options.
    pub fn serve_with(&self, backend: Backend, options: &[&str]) -> Server {
        serve_at(&self.root(), backend, options)
    }
}

/// Starts a server on a root with these options.
pub fn serve_at(root: &Path, backend: Backend, options: &[&str]) -> Server {
    let mut command = binary();
    command.arg("--root").arg(root).args(options);
    match backend {
        Backend::Openat2 => Server::start(command),
        Backend::Components => {
            command.arg("--test-component-walk");
            Server::start(command)
        }
        Backend::Without(error) => without_openat2(error, || Server::start(command)),
    }
}

/// Runs something while another thread sets a file's times to now, over and over: its timestamps are never evidence.
pub fn while_touched<T>(path: &Path, run: impl FnOnce() -> T) -> T {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    std::thread::scope(|scope| {
        // Dropped also when `run` panics.
        let (_running, ended) = channel::<()>();
        let (begun, first) = channel();
        scope.spawn(move || {
            while ended.try_recv() == Err(TryRecvError::Empty) {
                file.set_modified(SystemTime::now()).unwrap();
                begun.send(()).ok();
            }
        });
        first.recv().unwrap();
        drop(first);
        run()
    })
}

/// The built binary.
pub fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_ptc-fs-mcp"))
}

/// What a process left behind.
#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// Runs the binary to its end with nothing on its standard input.
pub fn finish(command: &mut Command) -> Finished {
    finish_with(command, b"")
}

/// Runs the binary to its end with this on its standard input, of which it may leave some unread.
pub fn finish_with(command: &mut Command, input: &[u8]) -> Finished {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input).ok());
        finished(child)
    })
}

/// Waits for a process that is ending, reads what it still says, and kills it where it does not end.
pub fn finished(child: Child) -> Finished {
    let pid = child.id().to_string();
    let (ended, end) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if end.recv_timeout(DEADLINE) == Err(RecvTimeoutError::Timeout) {
                // Its status then has no code.
                Command::new("kill").args(["-KILL", &pid]).status().ok();
            }
        });
        let output = child.wait_with_output().unwrap();
        drop(ended);
        Finished {
            status: output.status,
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    })
}

/// A tool's successful result.
#[derive(Debug, Clone)]
pub struct Success {
    /// `structuredContent`.
    pub structured: Value,
    /// The result's `_meta`.
    pub meta: Value,
    /// Length of the serialised result, in bytes.
    pub size: usize,
}

impl Success {
    pub fn items(&self) -> &Vec<Value> {
        self.structured["items"].as_array().unwrap()
    }

    /// One member of every item.
    pub fn column(&self, member: &str) -> Vec<String> {
        self.items()
            .iter()
            .map(|item| match &item[member] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            })
            .collect()
    }

    pub fn cursor(&self) -> Option<String> {
        self.structured["next_cursor"].as_str().map(str::to_owned)
    }

    pub fn hash(&self) -> &str {
        self.structured["content_hash"].as_str().unwrap()
    }

    /// What was left out; null when nothing was.
    pub fn skipped(&self) -> &Value {
        &self.meta["ptc-fs-mcp/skipped"]
    }
}

/// A tool's refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub text: String,
    pub kind: String,
}

impl Refusal {
    pub fn new(text: &str, kind: &str) -> Self {
        Self { text: text.to_owned(), kind: kind.to_owned() }
    }
}

/// Fixed texts that several files speak of.
pub const NOT_READABLE: &str = "path is not a readable regular file";
pub const NOT_WRITABLE: &str = "destination is not a writable regular file";
pub const BUSY: &str = "the file is changing; try again";

/// Sets a flag when the one side of a test ends, also when it fails.
pub struct Done<'a>(pub &'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A running server. Killed and waited for on drop.
#[derive(Debug)]
pub struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
    command: String,
    next_id: u64,
    validators: Option<HashMap<String, jsonschema::Validator>>,
    /// The ceiling that results are held to.
    pub ceiling: usize,
}

impl Server {
    pub fn start(mut command: Command) -> Self {
        let shown = format!("{command:?}");
        let ceiling = command
            .get_args()
            .skip_while(|argument| *argument != "--max-result-bytes")
            .nth(1)
            .map_or(48_000, |value| value.to_str().unwrap().parse().unwrap());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().unwrap();
        let mut errors = child.stderr.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { break };
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).unwrap();
            text
        });
        Self { child, stdin, lines, stderr: Some(stderr), command: shown, next_id: 0, validators: None, ceiling }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub fn send_line(&mut self, line: &str) {
        self.send_bytes(line.as_bytes());
        self.send_bytes(b"\n");
    }

    /// The next line of standard output.
    pub fn next_line(&self) -> String {
        match self.lines.recv_timeout(DEADLINE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("no answer within {DEADLINE:?} from {}", self.command),
            Err(RecvTimeoutError::Disconnected) => panic!("{} ended", self.command),
        }
    }

    /// The next message of standard output.
    pub fn next_message(&self) -> Value {
        serde_json::from_str(&self.next_line()).expect("standard output carries messages only")
    }

    /// Whether the request is answered before the process ends.
    pub fn answered(&self, id: u64) -> bool {
        match self.lines.recv_timeout(DEADLINE) {
            Ok(line) => serde_json::from_str::<Value>(&line).unwrap()["id"] == json!(id),
            Err(RecvTimeoutError::Timeout) => panic!("no answer within {DEADLINE:?} from {}", self.command),
            Err(RecvTimeoutError::Disconnected) => false,
        }
    }

    /// `params` with the `_meta` that every request carries.
    pub fn with_meta(mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        params
    }

    /// Sends a request and returns its id.
    pub fn send_request(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": Self::with_meta(params) });
        self.send_line(&request.to_string());
        id
    }

    /// One request and its answer, the whole message.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_request(method, params);
        let answer = self.next_message();
        assert_eq!(answer["id"], json!(id), "{answer}");
        answer
    }

    /// One tool call: its result, or its refusal. Checks what holds for every result.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Result<Success, Refusal> {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        self.judge(tool, &answer)
    }

    /// Checks one answer to a `tools/call`: the shapes, the schema, the ceiling, and that nothing of the host is in it.
    pub fn judge(&mut self, tool: &str, answer: &Value) -> Result<Success, Refusal> {
        let text = answer.to_string();
        assert!(!text.contains(SECRET), "an answer holds what lies outside: {text}");
        let result = &answer["result"];
        assert!(result.is_object(), "{tool}: {answer}");
        assert_eq!(result["resultType"], "complete");
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "ptc-fs-mcp");
        let [block] = result["content"].as_array().unwrap().as_slice() else { panic!("not one block: {answer}") };
        assert_eq!(block["type"], "text");
        let block = block["text"].as_str().unwrap();
        if result["isError"] == true {
            assert!(result.get("structuredContent").is_none(), "{answer}");
            assert!(block.len() <= 1000, "{block}");
            assert!(!block.contains("/tmp") && !block.contains("os error"), "{block}");
            let kind = result["_meta"]["ptc-fs-mcp/error"].as_str().unwrap().to_owned();
            return Err(Refusal { text: block.to_owned(), kind });
        }
        let structured = result["structuredContent"].clone();
        assert_eq!(serde_json::from_str::<Value>(block).unwrap(), structured, "the text repeats the structure");
        let size = result.to_string().len();
        assert!(size <= self.ceiling, "{tool}: {size} bytes are over the ceiling of {}", self.ceiling);
        if let Some(items) = structured.get("items") {
            let members: Vec<&str> = structured.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(members, ["items", "next_cursor", "content_hash"]);
            assert!(items.is_array() && (structured["next_cursor"].is_string() || structured["next_cursor"].is_null()));
        }
        self.validate(tool, &structured);
        Ok(Success { structured, meta: result["_meta"].clone(), size })
    }

    /// Against the output schema that this server published.
    fn validate(&mut self, tool: &str, structured: &Value) {
        if self.validators.is_none() {
            let listed = self.request("tools/list", json!({}));
            let validators = listed["result"]["tools"].as_array().unwrap().iter().map(|tool| {
                let validator = jsonschema::draft202012::new(&tool["outputSchema"]).unwrap();
                (tool["name"].as_str().unwrap().to_owned(), validator)
            });
            self.validators = Some(validators.collect());
        }
        let validator = &self.validators.as_ref().unwrap()[tool];
        if let Err(error) = validator.validate(structured) {
            panic!("{tool}: {error}");
        }
    }

    /// A call that must succeed.
    pub fn ok(&mut self, tool: &str, arguments: Value) -> Success {
        match self.call(tool, arguments.clone()) {
            Ok(success) => success,
            Err(refusal) => panic!("{tool} {arguments}: {refusal:?}"),
        }
    }

    /// A call that must be refused; the refusal's text.
    pub fn refused(&mut self, tool: &str, arguments: Value) -> String {
        match self.call(tool, arguments.clone()) {
            Err(refusal) => refusal.text,
            Ok(success) => panic!("{tool} {arguments}: {}", success.structured),
        }
    }

    /// Follows a traversal to its end: every page.
    pub fn pages(&mut self, tool: &str, arguments: Value) -> Vec<Success> {
        let mut arguments = arguments;
        let mut pages = Vec::new();
        loop {
            let page = self.ok(tool, arguments.clone());
            let cursor = page.cursor();
            pages.push(page);
            match cursor {
                Some(cursor) => arguments["cursor"] = json!(cursor),
                None => return pages,
            }
            assert!(pages.len() < 100_000, "the traversal does not end");
        }
    }

    /// Follows a traversal to its end: one member of every item.
    pub fn all(&mut self, tool: &str, arguments: Value, member: &str) -> Vec<String> {
        self.pages(tool, arguments).iter().flat_map(|page| page.column(member)).collect()
    }

    /// The whole text of a file, over all pages.
    pub fn text(&mut self, path: &str) -> String {
        self.all("read_text_file", json!({ "path": path }), "text").concat()
    }

    /// Ends the input and waits for the process; its status, what it still wrote, and its standard error.
    pub fn end(mut self) -> Finished {
        self.stdin = None;
        self.wait()
    }

    /// Waits for a process that is ending.
    pub fn wait(&mut self) -> Finished {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(started.elapsed() < END, "{} does not end", self.command);
            std::thread::yield_now();
        };
        let stdout: Vec<String> = self.lines.iter().collect();
        let stderr = self.stderr.take().unwrap().join().unwrap();
        assert!(!stderr.contains(SECRET));
        Finished { status, stdout: stdout.join("\n"), stderr }
    }

    /// Keeps the server answering until a file has been left alone for so long that its timestamps are evidence.
    pub fn until_quiet(&mut self, path: &Path) {
        self.until_older(path, Duration::from_millis(100));
    }

    /// Keeps the server answering until a file has been left alone for so long.
    pub fn until_older(&mut self, path: &Path, age: Duration) {
        let changed = || {
            let metadata = std::fs::metadata(path).unwrap();
            Duration::new(metadata.ctime().try_into().unwrap(), metadata.ctime_nsec().try_into().unwrap())
        };
        while SystemTime::now().duration_since(UNIX_EPOCH).unwrap() < changed() + age {
            self.request("tools/list", json!({}));
        }
    }

    /// Lets a stopped process go on.
    pub fn go_on(&self) {
        assert!(Command::new("kill").arg("-CONT").arg(self.pid().to_string()).status().unwrap().success());
    }

    /// Resident memory in bytes, from `/proc`.
    pub fn resident(&self) -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.pid())).unwrap();
        statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    /// Open descriptors, from `/proc`.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Whichever of these fails, the process is gone.
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            let stderr = self.stderr.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
            eprintln!("command: {}\nstandard error: {stderr}", self.command);
        }
    }
}

/// Something mounted, and unmounted again whatever happens. Needs root.
pub struct Mounted(PathBuf);

impl Mounted {
    pub fn new(arguments: &[&str], from: &Path, at: PathBuf) -> Self {
        let status = Command::new("mount").args(arguments).arg(from).arg(&at).status().unwrap();
        assert!(status.success(), "mount {arguments:?} {from:?} {at:?}");
        Self(at)
    }

    pub fn bind(from: &Path, at: PathBuf) -> Self {
        Self::new(&["--bind"], from, at)
    }

    pub fn tmpfs(at: PathBuf) -> Self {
        Self::new(&["-t", "tmpfs"], Path::new("none"), at)
    }

    /// A new ext4, in an image that is written here. With inodes of 128 bytes its timestamps are whole seconds.
    pub fn ext4(inode_bytes: u32, image: &Path, at: PathBuf) -> Self {
        std::fs::File::create(image).unwrap().set_len(8 << 20).unwrap();
        let mut command = Command::new("mkfs.ext4");
        let made = command.args(["-q", "-I", &inode_bytes.to_string()]).arg(image).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        Self::new(&["-o", "loop"], image, at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a server that a failed test leaves behind may still hold it.
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status().is_ok_and(|status| status.success());
        assert!(unmounted || std::thread::panicking(), "{:?} stays mounted", self.0);
    }
}

/// Says on the terminal why a test stops here, which the test runner would keep to itself. `CI` forbids that.
pub fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none(), "{reason}, and CI runs all tests");
    std::io::stderr().write_all(format!("skipped: {reason}\n").as_bytes()).unwrap();
}

/// Whether the test runs as root. Where it does not, a test that needs root says so and stops; `CI` forbids that.
pub fn is_root() -> bool {
    let root =
        std::fs::metadata("/proc/self").map(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata)).unwrap() == 0;
    if !root {
        skip("this test needs root");
    }
    root
}

/// Whether a program that a test drives is here. Where it is not, the test says so and stops; `CI` forbids that.
pub fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        skip(&format!("this test needs {program}"));
    }
    found
}

/// `sha256:` of the bytes, computed apart from the server's code.
pub fn sha256(bytes: &[u8]) -> String {
    let mut child = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    format!("sha256:{}", output.split_whitespace().next().unwrap())
}
