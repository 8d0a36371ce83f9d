//! A system that fails in the middle of a call: a shorter answer must never look like a complete one.
//!
//! Every call that a reader makes of the system fails once, with what a dying disk, too little memory or too few
//! descriptors would answer. Directories that ignore case, of which the machine may have none, are made of answers that
//! are altered on their way.

use crate::confinement::{NOT_READABLE, empty_page, nothing_is_at};
use crate::harness::{Backend, Refusal, Tree, binary, both_back_ends, finish, has, is_root};
use crate::tracer::Tracer;
use serde_json::{Value, json};

/// What a reader is made of.
const CALLS: [&str; 6] = ["openat", "openat2", "statx", "getdents64", "pread64", "ioctl"];

fn readers() -> [(&'static str, Value); 5] {
    [
        ("list_directory", json!({ "path": "a" })),
        ("search_files", json!({ "query": "f" })),
        ("search_text", json!({ "query": "i" })),
        ("search_text", json!({ "query": "i", "path": "a/b/f" })),
        ("read_text_file", json!({ "path": "a/b/f" })),
    ]
}

/// Makes each call of these kinds fail once in each reader; how often one did.
fn every_call_fails_once(backend: Backend, error: &str, calls: &[&str]) -> usize {
    let tree = Tree::with(&[("a/b/f", "i"), ("a/g", "i"), ("h", "i")]);
    let mut server = tree.serve(backend);
    let mut injected = 0;
    for (tool, arguments) in readers() {
        let whole = server.ok(tool, arguments.clone());
        for call in calls {
            for nth in 1.. {
                let tracer = Tracer::attach(&server, &tree, Some(&format!("{call}:error={error}:when={nth}")));
                let answer = server.call(tool, arguments.clone());
                let log = tracer.detach();
                if !log.contains("(INJECTED)") {
                    let answer = answer.unwrap_or_else(|refused| panic!("{tool}: nothing failed, and yet {refused:?}"));
                    assert_eq!((answer.structured, answer.meta), (whole.structured.clone(), whole.meta.clone()));
                    break;
                }
                let failed = Refusal::new("read failed", "io");
                assert_eq!(answer.map(|page| page.structured), Err(failed), "{tool}: {error} at {call} {nth}\n{log}");
                injected += 1;
            }
        }
    }
    injected
}

both_back_ends! {
    // CWE-755: a failing disk makes an answer shorter.
    fn a_failing_disk_fails_the_call(backend) {
        if !is_root() || !has("strace") {
            return;
        }
        assert!(every_call_fails_once(backend, "EIO", &CALLS) > 60);
    }

    // CWE-755: too little memory makes an answer shorter.
    fn a_want_of_memory_fails_the_call(backend) {
        if !is_root() || !has("strace") {
            return;
        }
        assert!(every_call_fails_once(backend, "ENOMEM", &CALLS) > 60);
    }

    // CWE-769: too few descriptors make an answer shorter.
    fn a_want_of_descriptors_fails_the_call(backend) {
        if !is_root() || !has("strace") {
            return;
        }
        for error in ["EMFILE", "ENFILE"] {
            assert!(every_call_fails_once(backend, error, &["openat", "openat2"]) > 15);
        }
    }
}

/// The inode's flags of a directory that ignores case, as `FS_IOC_GETFLAGS` gives them.
const FOLDS: &str = "ioctl:poke_exit=@arg3=00000040";

both_back_ends! {
    // CWE-178: an exclude is passed by the case of a name.
    fn a_directory_that_ignores_case_is_not_entered_and_is_counted(backend) {
        if !is_root() || !has("strace") {
            return;
        }
        let tree = Tree::with(&[("ok.txt", "fine"), ("d/f", "S")]);
        let mut server = tree.serve(backend);
        assert_eq!(server.text("d/f"), "S");
        let tracer = Tracer::attach(&server, &tree, Some(FOLDS));
        nothing_is_at(&mut server, "d");
        nothing_is_at(&mut server, "d/f");
        for (tool, arguments) in [
            ("list_directory", json!({})),
            ("search_files", json!({ "query": "." })),
            ("search_text", json!({ "query": "i" })),
        ] {
            let page = server.ok(tool, arguments);
            assert_eq!((page.column("path"), page.skipped()), (vec!["ok.txt".into()], &json!({ "folding_directories": 1 })));
        }
        let page = server.ok("list_directory", json!({ "path": "d" }));
        assert_eq!((&page.structured, page.skipped()), (&empty_page(), &json!({ "folding_directories": 1 })));
        drop(tracer);
        assert_eq!(server.text("d/f"), "S", "it was the flag");
    }

    // CWE-178: a directory whose flags cannot be had is taken for one that tells names apart.
    fn a_directory_whose_flags_are_refused_is_not_entered_and_is_counted(backend) {
        if !is_root() || !has("strace") {
            return;
        }
        let tree = Tree::with(&[("ok.txt", "fine"), ("d/f", "S")]);
        let mut server = tree.serve(backend);
        server.ok("list_directory", json!({}));
        for (error, entered) in [("EPERM", false), ("EACCES", false), ("ENOTTY", true), ("EOPNOTSUPP", true), ("ENOSYS", true)] {
            let tracer = Tracer::attach(&server, &tree, Some(&format!("ioctl:error={error}")));
            let page = server.ok("search_text", json!({ "query": "S" }));
            let read = server.call("read_text_file", json!({ "path": "d/f" }));
            drop(tracer);
            if entered {
                assert_eq!((page.column("path"), page.skipped()), (vec!["d/f".into()], &json!(null)), "{error}");
                assert_eq!(read.unwrap().column("text"), ["S"]);
            } else {
                assert_eq!((page.items().len(), page.skipped()), (0, &json!({ "unreadable_directories": 1 })), "{error}");
                assert_eq!(read.unwrap_err().text, NOT_READABLE);
            }
        }
    }

    // CWE-178: an exclude is passed by the case of a name, on another filesystem.
    fn a_filesystem_that_ignores_case_is_not_entered_where_mounts_are_allowed(backend) {
        if !is_root() || !has("strace") {
            return;
        }
        let tree = Tree::with(&[("ok.txt", "fine"), ("d/f", "S")]);
        let mut server = tree.serve_with(backend, &["--include", "**", "--allow-mounts"]);
        assert_eq!(server.text("d/f"), "S");
        // The magic number of vfat.
        let tracer = Tracer::attach(&server, &tree, Some("fstatfs:poke_exit=@arg2=444d000000000000"));
        nothing_is_at(&mut server, "d/f");
        let page = server.ok("search_files", json!({ "query": "." }));
        assert_eq!((page.column("path"), page.skipped()), (vec!["ok.txt".into()], &json!({ "folding_directories": 1 })));
        drop(tracer);
        assert_eq!(server.text("d/f"), "S", "it was the magic number");
    }
}

/// What the server says at its start where answers of the system are altered.
fn started_under(tree: &Tree, inject: &str) -> (Option<i32>, String) {
    let mut command = std::process::Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("inject={inject}")]).arg(binary().get_program());
    let finished = finish(command.arg("--root").arg(tree.root()).args(["--include", "**"]));
    (finished.status.code(), finished.stderr)
}

// CWE-178: an exclude is passed by the case of a name.
#[test]
fn a_root_that_ignores_case_is_refused() {
    if !is_root() || !has("strace") {
        return;
    }
    let tree = Tree::with(&[("ok.txt", "fine")]);
    let refused = (Some(64), "root is a directory that ignores the case of names\n".to_owned());
    for inject in [FOLDS, "fstatfs:poke_exit=@arg2=444d000000000000"] {
        assert_eq!(started_under(&tree, inject), refused, "{inject}");
    }
    let unreadable = (Some(64), "root cannot be opened\n".to_owned());
    for inject in ["ioctl:error=EPERM", "ioctl:error=EIO", "fstatfs:error=EIO", "statx:error=EIO"] {
        assert_eq!(started_under(&tree, inject), unreadable, "{inject}");
    }
    assert_eq!(started_under(&tree, "ioctl:error=ENOTTY"), (Some(0), String::new()));
}
