//! Options, start-up errors, and what is said on standard error.

use crate::harness::{Backend, Finished, Server, Tree, binary, finish, finish_with, is_root, skip};
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Fails unless these words are refused with exactly this line.
#[track_caller]
pub fn refused<S: AsRef<OsStr>>(words: &[S], text: &str) {
    let finished = finish(binary().args(words).env("RUST_BACKTRACE", "full"));
    let shown: Vec<_> = words.iter().map(AsRef::as_ref).collect();
    assert_eq!(finished.stderr, format!("{text}\n"), "{shown:?}");
    assert_eq!(finished.status.code(), Some(64), "{shown:?}");
    assert_eq!(finished.stdout, "", "{shown:?}");
}

/// Fails unless a server starts with these options, serves nothing since its input is empty, and has nothing to say.
#[track_caller]
pub fn accepted<S: AsRef<OsStr>>(words: &[S]) {
    silent(&finish(binary().args(words)));
}

#[track_caller]
fn silent(finished: &Finished) {
    assert_eq!(finished.stderr, "");
    assert_eq!((finished.status.code(), finished.stdout.as_str()), (Some(0), ""));
}

/// A valid command line on the tree, and then these words.
pub fn with<'a>(tree: &Tree, words: &[&'a str]) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec!["--root".into(), tree.root().into(), "--include".into(), "**".into()];
    all.extend(words.iter().map(|word: &&'a str| word.into()));
    all
}

pub fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// The binary, run by a user who owns nothing in the tree. Needs root.
pub fn another_user(tree: &Tree) -> Command {
    set_mode(tree.above(), 0o755);
    // Where the build lies, that user may not come. Were the copy written by this process, a child that another test
    // starts meanwhile could hold it open, and a program that is open for writing cannot be run.
    let program = tree.above().join("program");
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_ptc-fs-mcp")).arg(&program).status().unwrap().success());
    let mut command = Command::new(program);
    command.uid(65534).gid(65534);
    command
}

#[test]
fn a_start_without_a_root_or_an_include_is_refused() {
    let tree = Tree::new();
    let root = tree.root();
    let root = root.to_str().unwrap();
    refused::<&str>(&[], "--root is required");
    refused(&["--include", "**"], "--root is required");
    refused(&["call", "list_directory"], "--root is required");
    refused(&["--root", root], "at least one --include pattern is required");
    refused(&["--root", root, "--exclude", "a"], "at least one --include pattern is required");
    refused(&["call", "list_directory", "--root", root], "at least one --include pattern is required");
    accepted(&["--root", root, "--include", "**"]);
}

#[test]
fn a_missing_value_is_named() {
    let tree = Tree::new();
    refused(&["--root"], "missing value for --root");
    refused(&["--root", "--include", "**"], "missing value for --root");
    refused(&["--root", ".", "--include"], "missing value for --include");
    for option in
        ["--exclude", "--max-file-bytes", "--max-write-bytes", "--max-result-bytes", "--max-scan-bytes", "--max-depth"]
    {
        refused(&with(&tree, &[option]), &format!("missing value for {option}"));
        refused(&with(&tree, &[option, "--allow-mounts"]), &format!("missing value for {option}"));
    }
}

#[test]
fn an_unknown_option_is_named_and_the_nearest_known_one_suggested() {
    let tree = Tree::new();
    for (word, text) in [
        ("--nope", "unknown option --nope"),
        ("-x", "unknown option -x"),
        ("--includ", "unknown option --includ; did you mean --include?"),
        ("--max-depht", "unknown option --max-depht; did you mean --max-depth?"),
        ("--Allow-Mounts", "unknown option --Allow-Mounts; did you mean --allow-mounts?"),
        ("--page", "unknown option --page"),
        ("--no\np\u{1b}e", "unknown option --no\u{fffd}p\u{fffd}e"),
        ("foo", "unknown command foo"),
        ("cal", "unknown command cal; did you mean call?"),
    ] {
        refused(&with(&tree, &[word]), text);
    }
    refused(&["--nope"], "unknown option --nope");
}

#[test]
fn a_switch_takes_no_value() {
    let tree = Tree::new();
    for option in ["--allow-mounts", "--deny-hardlinks"] {
        accepted(&with(&tree, &[option]));
        refused(&with(&tree, &[&format!("{option}=1")]), &format!("{option} takes no value"));
    }
}

#[test]
fn a_number_is_a_positive_integer() {
    let tree = Tree::new();
    for option in ["--max-file-bytes", "--max-write-bytes", "--max-scan-bytes", "--max-depth"] {
        for value in
            ["0", "-1", "1.5", "-1.5", "abc", "", " 1", "1 ", "1e3", "0x10", "1_000", "99999999999999999999", "\u{661}"]
        {
            let text = format!("{option} must be a positive integer");
            refused(&with(&tree, &[option, value]), &text);
            refused(&with(&tree, &[&format!("{option}={value}")]), &text);
        }
        for value in ["1", "18446744073709551615"] {
            accepted(&with(&tree, &[option, value]));
            accepted(&with(&tree, &[&format!("{option}={value}")]));
        }
    }
}

#[test]
fn the_result_ceiling_is_between_its_bounds() {
    let tree = Tree::new();
    for value in ["0", "-1", "1.5", "abc", "", "35999", "4194305", "99999999999999999999"] {
        let text = "--max-result-bytes must be an integer from 36000 to 4194304";
        refused(&with(&tree, &["--max-result-bytes", value]), text);
    }
    for value in ["36000", "4194304"] {
        accepted(&with(&tree, &["--max-result-bytes", value]));
    }
}

#[test]
fn the_largest_numbers_overflow_nothing() {
    let tree = Tree::with(&[("d/a.txt", "alpha\n")]);
    let most = "18446744073709551615";
    let mut options = vec!["--include", "**", "--max-result-bytes", "4194304"];
    for option in ["--max-file-bytes", "--max-write-bytes", "--max-scan-bytes", "--max-depth"] {
        options.extend([option, most]);
    }
    let mut server = tree.serve_with(Backend::Openat2, &options);
    assert_eq!(server.text("d/a.txt"), "alpha\n");
    assert_eq!(server.all("search_text", json!({ "query": "alpha" }), "path"), ["d/a.txt"]);
    server.ok("write_text_file", json!({ "path": "b", "content": "b" }));
    silent(&server.end());
}

#[test]
fn a_single_value_given_twice_is_refused_wherever_the_two_stand() {
    let tree = Tree::new();
    let root = tree.root();
    let root = root.to_str().unwrap();
    for (option, value) in [
        ("--root", root),
        ("--max-file-bytes", "5"),
        ("--max-write-bytes", "5"),
        ("--max-result-bytes", "40000"),
        ("--max-scan-bytes", "5"),
        ("--max-depth", "5"),
    ] {
        let text = format!("{option} may be given only once");
        let mut base = vec!["--include", "**", option, value];
        if option != "--root" {
            base.extend(["--root", root]);
        }
        accepted(&base);
        refused(&[&base[..], &[option, value]].concat(), &text);
        refused(&[&base[..], &["call", "list_directory", option, value]].concat(), &text);
        refused(&[&["call", "list_directory"], &base[..], &[option, value]].concat(), &text);
    }
}

#[test]
fn help_and_the_version_go_to_the_output_and_succeed() {
    let version = finish(binary().arg("--version"));
    assert_eq!(version.stdout, concat!(env!("CARGO_PKG_VERSION"), "\n"));
    let help = finish(binary().arg("--help"));
    for option in [
        "--root <DIR>",
        "--include <GLOB>",
        "--exclude <GLOB>",
        "--max-file-bytes <N>",
        "--max-write-bytes <N>",
        "--max-result-bytes <N>",
        "--max-scan-bytes <N>",
        "--max-depth <N>",
        "--allow-mounts",
        "--deny-hardlinks",
        "--help",
        "--version",
        "call",
    ] {
        assert!(help.stdout.contains(option), "{option}");
    }
    assert!(!help.stdout.contains("--test-"), "hooks of the tests are no part of the product");
    let call = finish(binary().args(["call", "--help"]));
    assert!(call.stdout.contains("--page"));
    let tree = Tree::new();
    let among_others = finish(binary().args(with(&tree, &["--version"])));
    assert_eq!(among_others.stdout, version.stdout);
    for finished in [version, help, call, among_others] {
        assert_eq!((finished.status.code(), finished.stderr.as_str()), (Some(0), ""));
    }
}

// CWE-176: a word is altered to make it text.
#[test]
fn words_that_are_not_utf_8_are_refused_except_in_the_root() {
    let tree = Tree::new();
    let odd = OsString::from_vec(b"odd\xff".to_vec());
    let text = "arguments must be UTF-8; only --root may be any bytes";
    refused(&["--root".into(), tree.root().into(), "--include".into(), odd.clone()], text);
    refused(
        &["--root".into(), tree.root().into(), "--include".into(), "**".into(), "--exclude".into(), odd.clone()],
        text,
    );
    std::fs::create_dir(tree.root().join(&odd)).unwrap();
    accepted(&["--root".into(), tree.root().join(&odd).into_os_string(), "--include".into(), "**".into()]);
}

// CWE-59: the root is a link, which its owner can point elsewhere.
#[test]
fn a_root_that_is_no_directory_of_its_own_is_refused() {
    let tree = Tree::with(&[("file", ""), ("dir/sub/a", "")]);
    tree.fifo("fifo");
    tree.link("dir", "link");
    tree.link("nowhere", "dangling");
    tree.link("loop", "loop");
    tree.link("file", "to-file");
    let _socket = std::os::unix::net::UnixListener::bind(tree.path("socket")).unwrap();
    let link = "root must not be a symbolic link";
    let not_directory = "root is not a directory";
    let missing = "root does not exist";
    for (path, text) in [
        ("missing", missing),
        ("missing/", missing),
        ("missing/.", missing),
        ("dir/missing", missing),
        ("file", not_directory),
        ("file/", not_directory),
        ("file/.", not_directory),
        ("file/below", not_directory),
        ("fifo", not_directory),
        ("socket", not_directory),
        ("link", link),
        ("link/", link),
        ("link//", link),
        ("link/.", link),
        ("link/./", link),
        ("link/.//.", link),
        ("dangling", link),
        ("dangling/", link),
        ("loop", link),
        ("to-file", link),
    ] {
        let path = tree.path(path);
        refused(&[OsStr::new("--root"), path.as_os_str(), OsStr::new("--include"), OsStr::new("**")], text);
    }
    for path in ["dir", "dir/", "dir/.", "dir//./", "dir/sub", "link/sub", "dir/../dir"] {
        let path = tree.path(path);
        accepted(&[OsStr::new("--root"), path.as_os_str(), OsStr::new("--include"), OsStr::new("**")]);
    }
    refused(&["--root", "", "--include", "**"], missing);
    refused(&["--root=", "--include", "**"], missing);
    refused(&["--root", "/dev/null", "--include", "**"], not_directory);
}

// CWE-66: views of kernel state are served as files.
#[test]
fn a_root_on_a_kernel_filesystem_is_refused() {
    for path in ["/proc", "/proc/", "/proc/self/fd", "/proc/sys", "/sys", "/sys/kernel"] {
        assert!(std::fs::metadata(path).unwrap().is_dir());
        refused(&["--root", path, "--include", "**"], "root is on a kernel filesystem");
    }
}

// CWE-22: the root is another directory than the operator named.
#[test]
fn a_root_is_resolved_against_the_working_directory() {
    let tree = Tree::with(&[("a.txt", ""), ("-dash/b.txt", "")]);
    for (root, expected) in [(".", "\"path\":\"a.txt\""), ("./", "\"path\":\"a.txt\""), ("-dash", "\"path\":\"b.txt\"")]
    {
        let mut command = binary();
        command.current_dir(tree.root()).arg(format!("--root={root}")).args([
            "--include",
            "**",
            "call",
            "search_files",
        ]);
        let finished = finish(command.arg(r#"{"query":".txt"}"#));
        assert_eq!((finished.status.code(), finished.stderr.as_str()), (Some(0), ""), "{root}");
        assert!(finished.stdout.contains(expected), "{root}: {}", finished.stdout);
    }
}

// CWE-755: a root that cannot be opened looks like an empty one.
#[test]
fn a_root_that_may_not_be_opened_is_refused() {
    if !is_root() {
        return;
    }
    let tree = Tree::with(&[("open/a", ""), ("closed/a", ""), ("shut/open/a", "")]);
    set_mode(&tree.path("closed"), 0o700);
    set_mode(&tree.path("shut"), 0o700);
    let start = |path: &str| finish(another_user(&tree).arg("--root").arg(tree.path(path)).args(["--include", "**"]));
    for path in ["closed", "shut/open"] {
        let finished = start(path);
        assert_eq!(finished.stderr, "root cannot be opened\n", "{path}");
        assert_eq!((finished.status.code(), finished.stdout.as_str()), (Some(64), ""), "{path}");
    }
    silent(&start("open"));
}

#[test]
fn an_include_set_that_cannot_reach_the_root_level_is_warned_of_once() {
    let tree = Tree::with(&[("lib/a.txt", "alpha\n")]);
    for includes in [&["lib/**"][..], &["lib/**", "*/x"], &["*/**"], &["**/a/b"]] {
        let options: Vec<&str> = includes.iter().flat_map(|include| ["--include", include]).collect();
        let mut server = tree.serve_with(Backend::Openat2, &options);
        let refusal = server.call("write_text_file", json!({ "path": "a", "content": "" })).unwrap_err();
        assert!(refusal.text.starts_with("no --include pattern of this root matches a file in the root itself"));
        let finished = server.end();
        assert_eq!(finished.status.code(), Some(0));
        let [line] = finished.stderr.lines().collect::<Vec<_>>()[..] else {
            panic!("{includes:?}: {}", finished.stderr)
        };
        let warning =
            "no --include pattern matches a file in the root itself, so write_text_file will refuse every call";
        let fix = line.strip_prefix(warning).unwrap_or_else(|| panic!("{line}"));
        assert!(fix.contains("--include"), "{line}");
    }
}

#[test]
fn nothing_is_said_where_an_include_reaches_the_root_level() {
    let tree = Tree::with(&[("lib/a.txt", "alpha\n")]);
    for includes in [&["**"][..], &["lib/**", "*.md"], &["**/x"], &["a.txt"]] {
        let options: Vec<&str> = includes.iter().flat_map(|include| ["--include", include]).collect();
        let mut server = tree.serve_with(Backend::Openat2, &options);
        server.call("list_directory", json!({})).unwrap();
        server.call("read_text_file", json!({ "path": "missing" })).unwrap_err();
        silent(&server.end());
    }
}

#[test]
fn a_terminal_is_told_what_is_waited_for() {
    let tree = Tree::new();
    let said = tree.above().join("said");
    let program = r#""$PROGRAM" --root "$ROOT" --include '**' 2>"$SAID""#;
    let run = Command::new("script")
        .args(["-qec", program, "/dev/null"])
        .env("PROGRAM", env!("CARGO_BIN_EXE_ptc-fs-mcp"))
        .env("ROOT", tree.root())
        .env("SAID", &said)
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::null())
        .output();
    let Ok(output) = run else {
        skip("this test needs script(1)");
        return;
    };
    let said = std::fs::read_to_string(&said).unwrap();
    let [line] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!(line.starts_with("waiting for MCP messages on standard input"), "{line}");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

// CWE-15: whoever sets the environment changes what is served.
#[test]
fn no_environment_variable_changes_anything() {
    let tree = Tree::with(&[("a.txt", "alpha\n"), ("d/b.txt", "beta\n")]);
    let mut input = String::new();
    for (id, (method, params)) in [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("tools/call", json!({ "name": "list_directory", "arguments": {} })),
        ("tools/call", json!({ "name": "read_text_file", "arguments": { "path": "missing" } })),
        ("nope", json!({})),
    ]
    .into_iter()
    .enumerate()
    {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": Server::with_meta(params) });
        input += &format!("{request}\n");
    }
    let variables = [
        ("TOKIO_WORKER_THREADS", "0"),
        ("RUST_MIN_STACK", "99999999999999999"),
        ("RUST_LOG", "trace"),
        ("RUST_BACKTRACE", "full"),
        ("PORT", "1"),
        ("ALLOWED_PATHS", "/nope"),
        ("MAX_FILE_SIZE", "1"),
        ("COLUMNS", "20"),
        ("CLICOLOR_FORCE", "1"),
        ("NO_COLOR", "1"),
        ("LC_ALL", "tr_TR.UTF-8"),
        ("HOME", "/nonexistent"),
        ("TMPDIR", "/nonexistent"),
    ];
    let run = |words: &[OsString], input: &str| {
        let plain = finish_with(binary().args(words).env_clear(), input.as_bytes());
        let changed = finish_with(binary().args(words).envs(variables), input.as_bytes());
        let sorted = |finished: &Finished| {
            let mut lines: Vec<String> = finished.stdout.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        // Calls are answered in any order.
        assert_eq!(sorted(&plain), sorted(&changed));
        assert_eq!((plain.status.code(), &plain.stderr), (changed.status.code(), &changed.stderr));
        plain
    };
    let served = run(&with(&tree, &[]), &input);
    assert_eq!((served.stdout.lines().count(), served.stderr.as_str()), (5, ""));
    assert!(run(&["--help".into()], "").stdout.len() > 100);
    assert!(run(&with(&tree, &["--max-depth", "0"]), "").stderr.ends_with("positive integer\n"));
    assert!(run(&with(&tree, &["call", "list_directory"]), "").stdout.contains("a.txt"));
}
