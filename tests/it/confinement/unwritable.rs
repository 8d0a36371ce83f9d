//! Destinations that their owner, or the system, does not let the server change: refused, and whole.

use super::permissions::{NOBODY, hand_over, serve, unprivileged};
use super::{NOT_READABLE, NOT_WRITABLE, empty_page, failed, nothing_is_written_at, still_usable};
use crate::harness::{Mounted, Refusal, Server, Tree, both_back_ends, is_root};
use serde_json::json;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Stdio};

const SERVED: &[&str] = &["--include", "**"];

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Whether the unprivileged user may do this, in the words of the shell, with the path as `$1`.
fn user_may(script: &str, path: &Path) -> bool {
    let mut command = unprivileged(Path::new("sh"));
    command.args(["-c", script, "sh"]).arg(path).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap().success()
}

const READ: &str = "cat \"$1\"";
const OVERWRITE: &str = ": >> \"$1\"";
const ADD: &str = ": > \"$1/added\" && rm \"$1/added\"";

fn inode(path: &Path) -> (u64, u32, u32, u64) {
    let metadata = std::fs::metadata(path).unwrap();
    (metadata.ino(), metadata.mode(), metadata.uid(), metadata.size())
}

/// A file that cannot be overwritten keeps its content, its mode and its inode, and nothing lies beside it.
fn stays_whole(tree: &Tree, server: &mut Server, name: &str) {
    let (names, before, content) = (tree.names(), inode(&tree.path(name)), tree.read(name));
    nothing_is_written_at(server, name);
    assert_eq!((tree.names(), inode(&tree.path(name)), tree.read(name)), (names, before, content));
}

both_back_ends! {
    // CWE-732: a rename, which asks for the directory's permission alone, replaces a file that is read-only.
    fn a_read_only_file_is_replaced_neither_by_its_owner_nor_by_root(backend) {
        if !is_root() {
            return;
        }
        for mode in [0o444, 0o400] {
            let tree = Tree::with(&[("ok.txt", "fine"), ("kept", "old")]);
            hand_over(&tree);
            set_mode(&tree.path("kept"), mode);
            assert!(!user_may(OVERWRITE, &tree.path("kept")) && user_may(READ, &tree.path("kept")));
            assert!(user_may(ADD, &tree.root()), "the directory would let it be replaced");
            for mut server in [serve(&tree, backend, SERVED), tree.serve(backend)] {
                stays_whole(&tree, &mut server, "kept");
                assert_eq!(server.text("kept"), "old");
                server.ok("write_text_file", json!({ "path": "ok.txt", "content": "fine" }));
                still_usable(&mut server);
            }
            tree.outside_is_untouched();
        }
    }

    // CWE-732: who owns the directory reads, or replaces, another user's file in it.
    fn a_file_of_root_is_neither_read_nor_replaced_by_another_user_in_its_own_root(backend) {
        if !is_root() {
            return;
        }
        let tree = Tree::with(&[("ok.txt", "fine"), ("roots", "roots own")]);
        hand_over(&tree);
        chown(tree.path("roots"), Some(0), Some(0)).unwrap();
        set_mode(&tree.path("roots"), 0o600);
        assert!(!user_may(READ, &tree.path("roots")) && !user_may(OVERWRITE, &tree.path("roots")));
        assert!(user_may(ADD, &tree.root()), "the directory would let it be replaced");
        let mut server = serve(&tree, backend, SERVED);
        stays_whole(&tree, &mut server, "roots");
        let refused = server.call("read_text_file", json!({ "path": "roots" })).unwrap_err();
        assert_eq!(refused, Refusal::new(NOT_READABLE, "not_readable"));
        let page = server.ok("search_text", json!({ "query": "n" }));
        assert_eq!((page.column("path"), page.skipped()), (vec!["ok.txt".to_owned()], &json!({ "unreadable_files": 1 })));
        still_usable(&mut server);
        // What can be read and not written is no different to a write.
        set_mode(&tree.path("roots"), 0o644);
        stays_whole(&tree, &mut server, "roots");
        assert_eq!(server.text("roots"), "roots own");
        chown(tree.path("roots"), Some(NOBODY), Some(NOBODY)).unwrap();
        server.ok("write_text_file", json!({ "path": "roots", "content": "new" }));
        tree.outside_is_untouched();
    }

    // CWE-755: where no name can be made beside it, a file is overwritten in place, or lost.
    fn a_directory_that_takes_no_names_keeps_its_files_as_they_are(backend) {
        if !is_root() {
            return;
        }
        let tree = Tree::with(&[("ok.txt", "fine"), ("kept", "old")]);
        hand_over(&tree);
        set_mode(&tree.root(), 0o555);
        assert!(user_may(OVERWRITE, &tree.path("kept")) && !user_may(ADD, &tree.root()));
        let mut server = serve(&tree, backend, SERVED);
        let before = inode(&tree.path("kept"));
        for name in ["kept", "new"] {
            let refused = server.call("write_text_file", json!({ "path": name, "content": "CLOBBER" })).unwrap_err();
            assert_eq!(refused, Refusal::new("write failed", "io"), "{name}");
        }
        assert_eq!((tree.names(), inode(&tree.path("kept"))), (vec!["kept".to_owned(), "ok.txt".to_owned()], before));
        assert_eq!(server.text("kept"), "old");
        still_usable(&mut server);
        set_mode(&tree.root(), 0o755);
        server.ok("write_text_file", json!({ "path": "kept", "content": "new" }));
        tree.outside_is_untouched();
    }

    // CWE-755: a filesystem that becomes read-only ends the server, or loses the old content.
    fn a_read_only_mount_is_read_and_keeps_its_files_as_they_are(backend) {
        if !is_root() {
            return;
        }
        let tree = Tree::new();
        let _mounted = Mounted::tmpfs(tree.root());
        tree.write("ok.txt", "fine");
        tree.write("kept", "old");
        let mut early = tree.serve(backend);
        early.ok("write_text_file", json!({ "path": "kept", "content": "older" }));
        let remount = |how: &str| {
            let status = Command::new("mount").args(["-o", how]).arg(tree.root()).status().unwrap();
            assert!(status.success(), "{how}");
        };
        // The mount alone, and then the filesystem.
        for how in ["remount,bind,ro", "remount,ro"] {
            remount(how);
            assert!(std::fs::write(tree.path("new"), "x").is_err(), "{how}");
            for server in [&mut early, &mut tree.serve(backend)] {
                stays_whole(&tree, server, "kept");
                let refused = server.call("write_text_file", json!({ "path": "new", "content": "CLOBBER" })).unwrap_err();
                assert_eq!(refused, Refusal::new("write failed", "io"), "{how}");
                assert_eq!(tree.names(), ["kept", "ok.txt"]);
                assert_eq!(server.text("kept"), "older");
                still_usable(server);
            }
        }
        remount("remount,rw");
        early.ok("write_text_file", json!({ "path": "kept", "content": "new" }));
        assert_eq!(early.end().stderr, failed("write_text_file", "write", 30).repeat(2));
        tree.outside_is_untouched();
    }

    // CWE-732: a root without permissions is opened by a way around them, or looks like an empty one.
    fn a_root_that_its_user_may_not_open_is_refused_at_the_start_and_unreadable_after_it(backend) {
        if !is_root() {
            return;
        }
        let tree = Tree::with(&[("ok.txt", "fine"), ("d/f", "i")]);
        hand_over(&tree);
        let mut server = serve(&tree, backend, SERVED);
        still_usable(&mut server);
        set_mode(&tree.root(), 0o000);
        assert!(!user_may("ls \"$1\"", &tree.root()));
        let late = serve(&tree, backend, SERVED).wait();
        assert_eq!((late.status.code(), late.stdout.as_str(), late.stderr.as_str()), (Some(64), "", "root cannot be opened\n"));
        for path in ["ok.txt", "d/f"] {
            let refused = server.call("read_text_file", json!({ "path": path })).unwrap_err();
            assert_eq!(refused, Refusal::new(NOT_READABLE, "not_readable"));
        }
        for (tool, arguments) in [("list_directory", json!({})), ("search_files", json!({ "query": "f" })), ("search_text", json!({ "query": "i" }))] {
            let page = server.ok(tool, arguments);
            assert_eq!((&page.structured, page.skipped()), (&empty_page(), &json!({ "unreadable_directories": 1 })), "{tool}");
        }
        let refused = server.call("write_text_file", json!({ "path": "ok.txt", "content": "CLOBBER" })).unwrap_err();
        assert_eq!(refused, Refusal::new(NOT_WRITABLE, "not_writable"));
        set_mode(&tree.root(), 0o755);
        still_usable(&mut server);
        tree.outside_is_untouched();
    }
}
