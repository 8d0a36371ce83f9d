//! `write_text_file` when the disk is full, a system call fails, or the server is killed between two of them; and what
//! is done about leftovers.

use crate::harness::{BUSY, Backend, Mounted, Refusal, Server, Success, Tree, both_back_ends, has, is_root};
use crate::tracer::Tracer;
use crate::write::{serve_after, write};
use serde_json::json;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

/// What a replacement is made of.
const CALLS: &[&str] = &[
    "openat",
    "openat2",
    "statx",
    "getdents64",
    "fchmod",
    "fchown",
    "fgetxattr",
    "fsetxattr",
    "flistxattr",
    "fremovexattr",
    "fsync",
    "linkat",
    "unlinkat",
    "renameat",
    "renameat2",
    "pwrite64",
    "ioctl",
];

/// Waits for a server that was killed.
fn died(server: &mut Server) {
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(server.wait().status.signal(), Some(9));
}

fn reserved(tree: &Tree) -> Vec<String> {
    tree.names().into_iter().filter(|name| name.starts_with(".ptc-fs-mcp-")).collect()
}

fn old() -> String {
    "old ".repeat(5_000)
}

fn new() -> String {
    "new ".repeat(6_000)
}

/// What holds whatever failed: the destination is whole, it is what the answer says, and nothing is left beside it.
fn is_whole(tree: &Tree, name: &str, before: Option<&str>, answer: &Result<Success, Refusal>, what: &str) {
    let content = std::fs::read_to_string(tree.path(name)).ok();
    let replaced = match answer {
        Ok(_) => true,
        Err(refused) => refused.text == "written, but durability is not confirmed",
    };
    let expected = if replaced { Some(new()) } else { before.map(str::to_owned) };
    assert!(content == expected, "{what}: {answer:?} over {:?}", content.map(|text| text.len()));
    assert_eq!(reserved(tree), [""; 0], "{what}: {answer:?}");
    if let Err(refused) = answer {
        let known = [
            "write failed",
            "read failed",
            "written, but durability is not confirmed",
            "destination is not a writable regular file",
            "destination's owner or access list cannot be kept",
            BUSY,
        ];
        assert!(known.contains(&refused.text.as_str()), "{what}: {refused:?}");
    }
}

/// Makes every call of a replacement and of a first write fail once.
fn every_call_fails_once(backend: Backend, error: &str) {
    if !is_root() || !has("strace") {
        return;
    }
    assert!(each_call_fails_once(backend, error, true) > 14, "failures were injected");
    assert!(each_call_fails_once(backend, error, false) > 8, "failures were injected");
}

/// How many failures were injected.
fn each_call_fails_once(backend: Backend, error: &str, replace: bool) -> usize {
    let mut injected = 0;
    for call in CALLS {
        for nth in 1.. {
            let tree = Tree::new();
            let before = replace.then(old);
            if let Some(before) = &before {
                tree.write("a", before);
            }
            let mut server = tree.serve(backend);
            server.ok("list_directory", json!({}));
            let tracer = Tracer::attach(&server, &tree, Some(&format!("{call}:error={error}:when={nth}")));
            let answer = write(&mut server, "a", &new());
            let log = tracer.detach();
            is_whole(&tree, "a", before.as_deref(), &answer, &format!("{error} at {call} {nth}"));
            if !log.contains("(INJECTED)") {
                assert!(answer.is_ok(), "nothing was injected at {call} {nth}, and yet: {answer:?}");
                break;
            }
            injected += 1;
            assert!(write(&mut server, "a", &new()).is_ok(), "the next write succeeds");
        }
    }
    injected
}

/// Kills the server before every call of a replacement (or of a first write); returns how often it died.
fn every_call_kills_once(backend: Backend, replace: bool) -> usize {
    let mut killed = 0;
    for call in CALLS {
        for nth in 1.. {
            let tree = Tree::new();
            let before = replace.then(old);
            if let Some(before) = &before {
                tree.write("a", before);
            }
            let mut server = tree.serve(backend);
            server.ok("list_directory", json!({}));
            let tracer = Tracer::attach(&server, &tree, Some(&format!("{call}:signal=KILL:when={nth}")));
            let id = server.send_request(
                "tools/call",
                json!({
                    "name": "write_text_file", "arguments": { "path": "a", "content": new() },
                }),
            );
            let survived = server.answered(id);
            tracer.abandon();
            let content = std::fs::read_to_string(tree.path("a")).ok();
            if survived {
                assert_eq!(content, Some(new()));
                break;
            }
            died(&mut server);
            killed += 1;
            let whole = content == before || content == Some(new());
            assert!(whole, "killed at {call} {nth}: {:?} bytes", content.map(|text| text.len()));
            let left = reserved(&tree);
            assert!(left.len() <= 1, "{left:?}");
            // Whatever is left is nobody's, and the next server writes past it.
            let mut next = tree.serve(backend);
            let listed = next.all("list_directory", json!({}), "path");
            assert_eq!(listed, content.map_or(vec![], |_| vec!["a".to_owned()]));
            assert!(write(&mut next, "a", "later").is_ok());
            assert_eq!(tree.read("a"), b"later");
        }
    }
    killed
}

both_back_ends! {
    // CWE-755: a failing disk leaves half a file.
    fn a_failing_disk_leaves_the_old_file_whole_or_the_new_one(backend) {
        every_call_fails_once(backend, "EIO");
    }

    // CWE-755: a full disk leaves half a file.
    fn a_full_disk_at_any_call_leaves_the_old_file_whole_or_the_new_one(backend) {
        every_call_fails_once(backend, "ENOSPC");
    }

    // CWE-755: an interrupted call leaves half a file.
    fn an_interrupted_call_leaves_the_old_file_whole_or_the_new_one(backend) {
        every_call_fails_once(backend, "EINTR");
    }

    // CWE-460: a killed process leaves half a file.
    fn a_kill_between_two_calls_leaves_the_old_file_whole_or_the_new_one(backend) {
        if !is_root() || !has("strace") {
            return;
        }
        assert!(every_call_kills_once(backend, true) > 12, "it was killed");
    }

    // CWE-460: a killed process leaves half a file.
    fn a_kill_between_two_calls_of_a_first_write_leaves_nothing_or_the_whole_file(backend) {
        if !is_root() || !has("strace") {
            return;
        }
        assert!(every_call_kills_once(backend, false) > 6, "it was killed");
    }

    // CWE-754: a write that may not last is told as one that does.
    fn a_failed_flush_of_the_file_writes_nothing_and_one_of_the_directory_says_so(backend) {
        if !is_root() || !has("strace") {
            return;
        }
        for before in [None, Some(old())] {
            for (nth, text, written) in
                [(1, "write failed", false), (2, "written, but durability is not confirmed", true)]
            {
                let tree = Tree::new();
                if let Some(before) = &before {
                    tree.write("a", before);
                }
                let mut server = tree.serve(backend);
                server.ok("list_directory", json!({}));
                let tracer = Tracer::attach(&server, &tree, Some(&format!("fsync:error=EIO:when={nth}")));
                let refused = write(&mut server, "a", &new()).unwrap_err();
                drop(tracer);
                assert_eq!(refused, Refusal::new(text, "io"));
                let expected = if written { Some(new()) } else { before.clone() };
                assert_eq!(std::fs::read_to_string(tree.path("a")).ok(), expected);
                assert_eq!(reserved(&tree), [""; 0]);
            }
        }
    }

    // CWE-377: the file that is written first has a name that others could use.
    fn a_filesystem_without_nameless_files_is_written_all_the_same(backend) {
        if !is_root() || !has("strace") {
            return;
        }
        // Some know no rename that does not replace, either.
        for (before, further) in [(None, ""), (None, "renameat2:error=EINVAL"), (Some(old()), "")] {
            let mut named = 0;
            for nth in 1..=8 {
                let tree = Tree::new();
                if let Some(before) = &before {
                    tree.write("a", before);
                }
                let mut server = tree.serve(backend);
                server.ok("list_directory", json!({}));
                let tracer = Tracer::attach(&server, &tree, Some(&format!("openat:error=EOPNOTSUPP:when={nth} {further}")));
                let answer = write(&mut server, "a", &new());
                let log = tracer.detach();
                is_whole(&tree, "a", before.as_deref(), &answer, &format!("openat {nth}"));
                if log.lines().any(|line| line.contains("O_TMPFILE") && line.contains("(INJECTED)")) {
                    assert!(answer.is_ok());
                    assert_eq!(tree.names(), ["a"]);
                    assert!(log.lines().any(|line| line.contains(".ptc-fs-mcp-") && line.contains("O_EXCL")));
                    let refused = |line: &str| line.contains("RENAME_NOREPLACE") && line.contains("(INJECTED)");
                    assert_eq!(log.lines().any(refused), !further.is_empty());
                    named += 1;
                }
            }
            assert_eq!(named, 1, "one of the opens made the nameless file");
        }
    }

    // CWE-770: a full disk leaves half a file.
    fn a_full_disk_leaves_the_old_content_and_no_name(backend) {
        if !is_root() || !has("strace") {
            return;
        }
        let tree = Tree::new();
        let mounted = Mounted::new(&["-t", "tmpfs", "-o", "size=128k,mode=755"], Path::new("none"), tree.root());
        tree.write("a", old());
        tree.write("ballast", vec![b'x'; 80 * 1024]);
        let mut server = tree.serve(backend);
        for name in ["a", "fresh"] {
            let refused = write(&mut server, name, &"n".repeat(60_000)).unwrap_err();
            assert_eq!(refused, Refusal::new("write failed", "io"));
            assert_eq!(tree.names(), ["a", "ballast"]);
            assert_eq!(tree.read("a"), old().as_bytes());
        }
        assert_eq!(server.text("a"), old());
        std::fs::remove_file(tree.path("ballast")).unwrap();
        assert!(write(&mut server, "a", &"n".repeat(60_000)).is_ok(), "there is room again");
        drop(server);
        drop(mounted);
    }

    // CWE-770: a full disk leaves an empty file.
    fn a_filesystem_without_a_free_inode_leaves_the_old_content_and_no_name(backend) {
        if !is_root() || !has("strace") {
            return;
        }
        let tree = Tree::new();
        let mounted = Mounted::new(&["-t", "tmpfs", "-o", "size=1m,nr_inodes=3,mode=755"], Path::new("none"), tree.root());
        tree.write("a", "old");
        tree.write("b", "old");
        let mut server = tree.serve(backend);
        for name in ["a", "fresh"] {
            assert_eq!(write(&mut server, name, "new").unwrap_err(), Refusal::new("write failed", "io"));
            assert_eq!(tree.names(), ["a", "b"]);
        }
        std::fs::remove_file(tree.path("b")).unwrap();
        assert!(write(&mut server, "a", "new").is_ok());
        assert_eq!(tree.names(), ["a"]);
        drop(server);
        drop(mounted);
    }

    // CWE-755: a short write is taken for a whole one.
    fn a_write_cut_short_by_a_size_limit_leaves_the_old_content_and_no_name(backend) {
        let tree = Tree::with(&[("a", &old())]);
        // The kernel writes up to the limit and then fails. `ulimit -f` counts in units of 512 or 1,024 bytes.
        let mut server = serve_after(&tree, backend, "trap '' XFSZ; ulimit -f 16", &[]);
        for name in ["a", "fresh"] {
            assert_eq!(write(&mut server, name, &new()).unwrap_err(), Refusal::new("write failed", "io"));
            assert_eq!(tree.names(), ["a"]);
            assert_eq!(tree.read("a"), old().as_bytes());
        }
        assert!(write(&mut server, "a", "short").is_ok());
    }

    // CWE-755: a short write is taken for a whole one.
    fn a_write_cut_short_goes_on_where_it_ended(backend) {
        if !is_root() || !has("strace") {
            return;
        }
        for before in [None, Some(old())] {
            let tree = Tree::new();
            if let Some(before) = &before {
                tree.write("a", before);
            }
            let mut server = tree.serve(backend);
            server.ok("list_directory", json!({}));
            let pid = server.pid();
            let limit = |bytes: &str| {
                let mut command = Command::new("prlimit");
                let status = command.arg(format!("--pid={pid}")).arg(format!("--fsize={bytes}")).status();
                assert!(status.unwrap().success());
            };
            // The kernel writes as far as the limit goes; then the process is stopped, and the limit lifted.
            limit("10000:unlimited");
            let tracer = Tracer::attach(&server, &tree, Some("pwrite64:signal=STOP:when=1"));
            let id = server.send_request(
                "tools/call",
                json!({ "name": "write_text_file", "arguments": { "path": "a", "content": new() } }),
            );
            tracer.until("stopped by SIGSTOP");
            limit("unlimited");
            server.go_on();
            assert!(server.answered(id));
            let log = tracer.detach();
            let writes: Vec<&str> = log.lines().filter(|line| line.contains("pwrite64(")).collect();
            assert!(writes.len() == 2 && writes[0].ends_with("= 10000"), "{writes:?}");
            assert_eq!(tree.read("a"), new().as_bytes());
            assert_eq!(tree.names(), ["a"]);
        }
    }

    // CWE-755: a signal ends the server.
    fn the_signal_for_a_file_too_large_does_not_end_the_server(backend) {
        let tree = Tree::with(&[("a", &old())]);
        let mut server = serve_after(&tree, backend, "ulimit -c 0; ulimit -f 16", &[]);
        assert_eq!(write(&mut server, "a", &new()).unwrap_err(), Refusal::new("write failed", "io"));
        assert_eq!(tree.read("a"), old().as_bytes());
        assert_eq!(tree.names(), ["a"]);
        assert!(write(&mut server, "a", "short").is_ok());
    }

    // CWE-459: an unfinished write is served, or another server's is removed.
    fn a_young_leftover_is_nobodys_and_stays(backend) {
        let leftover = format!(".ptc-fs-mcp-{}", "0123456789abcdef".repeat(2));
        let tree = Tree::with(&[("a", "old needle"), (&leftover, "leftover needle")]);
        let mut server = tree.serve(backend);
        for round in 0..2 {
            assert_eq!(server.all("list_directory", json!({}), "path"), ["a"]);
            assert_eq!(server.all("search_files", json!({ "query": "p" }), "path"), [""; 0]);
            assert_eq!(server.all("search_text", json!({ "query": "needle" }), "path"), ["a"]);
            assert_eq!(server.all("search_text", json!({ "query": "needle", "path": "" }), "path"), ["a"]);
            let bad = Refusal::new("path is not a relative path inside the root", "invalid_argument");
            assert_eq!(server.call("read_text_file", json!({ "path": leftover })).unwrap_err(), bad);
            assert_eq!(server.call("list_directory", json!({ "path": leftover })).unwrap_err(), bad);
            let search = json!({ "query": "needle", "path": leftover });
            assert_eq!(server.call("search_text", search).unwrap_err(), bad);
            assert!(write(&mut server, &leftover, "x").unwrap_err().text.starts_with("path must be one lowercase"));
            assert!(write(&mut server, "a", &format!("round {round} needle")).is_ok());
            assert_eq!(tree.read(&leftover), b"leftover needle", "it may be another server's unfinished write");
        }
    }

    // CWE-459: unfinished writes pile up.
    fn a_leftover_older_than_a_minute_is_swept_and_nothing_else_is(backend) {
        if !is_root() || !has("strace") {
            return;
        }
        let leftover = format!(".ptc-fs-mcp-{}", "0123456789abcdef".repeat(2));
        let others = [
            format!(".ptc-fs-mcp-{}", "0".repeat(31)),
            format!(".ptc-fs-mcp-{}", "0".repeat(33)),
            format!(".ptc-fs-mcp-{}", "A".repeat(32)),
            format!(".ptc-fs-mcp-{}", "g".repeat(32)),
            format!("x.ptc-fs-mcp-{}", "0".repeat(32)),
            ".ptc-fs-mcp-notes".to_owned(),
        ];
        // As many hexadecimal digits, but not the one kind of file that a write leaves behind.
        let [linked, directory, link] = ["1", "2", "3"].map(|digit| format!(".ptc-fs-mcp-{}", digit.repeat(32)));
        let tree = Tree::with(&[("a", "old"), (&leftover, "leftover")]);
        others.iter().for_each(|name| tree.write(name, "kept"));
        tree.write(&linked, "kept");
        std::fs::hard_link(tree.path(&linked), tree.path("twin")).unwrap();
        std::fs::create_dir(tree.path(&directory)).unwrap();
        tree.link("a", &link);
        let before = tree.names();

        // A change time cannot be set, so the answers about the leftover are altered: which ones, a first write tells.
        // Each write is the first of its server: within a minute a server looks only once.
        let fresh = || {
            let mut server = tree.serve(backend);
            server.ok("list_directory", json!({}));
            server
        };
        let mut server = fresh();
        let tracer = Tracer::attach(&server, &tree, None);
        assert!(write(&mut server, "a", "first").is_ok());
        let log = tracer.detach();
        assert_eq!(tree.names(), before, "all of it is young");
        let statx: Vec<&str> = log.lines().filter(|line| line.contains(" statx(")).collect();
        let asked = |name: &str| statx.iter().position(|line| line.contains(name)).expect("it is looked at") + 1;
        for (name, swept) in [(&linked, false), (&directory, false), (&link, false), (&leftover, true)] {
            let aged = format!("statx:poke_exit=@arg5={}:when={}", aged(&tree, name), asked(name));
            let mut server = fresh();
            let tracer = Tracer::attach(&server, &tree, Some(&aged));
            assert!(write(&mut server, "a", "again").is_ok());
            drop(tracer);
            assert_eq!(!tree.names().contains(name), swept, "{name}");
        }
        let expected: Vec<String> = before.into_iter().filter(|name| *name != leftover).collect();
        assert_eq!(tree.names(), expected);
    }
}

/// The first 112 bytes of `struct statx` for a file as it is, but last changed in 1970; in hexadecimal.
fn aged(tree: &Tree, name: &str) -> String {
    let meta = std::fs::symlink_metadata(tree.path(name)).unwrap();
    let mut bytes = Vec::new();
    bytes.extend(0x17ff_u32.to_ne_bytes());
    bytes.extend(4096_u32.to_ne_bytes());
    bytes.extend(0_u64.to_ne_bytes());
    for field in [meta.nlink() as u32, meta.uid(), meta.gid(), meta.mode()] {
        bytes.extend(field.to_ne_bytes());
    }
    for field in [meta.ino(), meta.size(), meta.blocks(), 0] {
        bytes.extend(field.to_ne_bytes());
    }
    // Access, birth and change time: seconds, and nanoseconds with padding.
    for second in [1000_u64, 1000, 1000] {
        bytes.extend(second.to_ne_bytes().into_iter().chain(7_u64.to_ne_bytes()));
    }
    assert_eq!(bytes.len(), 112);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
