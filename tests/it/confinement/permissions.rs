//! What the process may not open: skipped, counted, and no obstacle to the rest.

use super::{NOT_READABLE, empty_page, nothing_is_written_at, still_usable};
use crate::harness::{Backend, Server, Tree, binary, both_back_ends};
use serde_json::json;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

pub const NOBODY: u32 = 65_534;

pub fn runs_as_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A command without privileges: root could open anything.
pub fn unprivileged(program: &Path) -> Command {
    if !runs_as_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={NOBODY}")).arg(format!("--regid={NOBODY}")).arg("--clear-groups").arg(program);
    command
}

/// Gives everything in the root, and the way to it, to the unprivileged user.
pub fn hand_over(tree: &Tree) {
    std::fs::set_permissions(tree.above(), PermissionsExt::from_mode(0o755)).unwrap();
    if runs_as_root() {
        let status =
            Command::new("chown").arg("-R").arg(format!("{NOBODY}:{NOBODY}")).arg(tree.root()).status().unwrap();
        assert!(status.success());
    }
}

/// Takes all permissions away, and proves that this had an effect.
fn close(tree: &Tree, path: &str) {
    std::fs::set_permissions(tree.path(path), PermissionsExt::from_mode(0o000)).unwrap();
    let program = Path::new(if tree.path(path).is_dir() { "ls" } else { "cat" });
    let opened =
        unprivileged(program).arg(tree.path(path)).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(!opened.success(), "{path} can be opened");
    let opened = unprivileged(Path::new("cat")).arg(tree.path("ok.txt")).stdout(Stdio::null()).status().unwrap();
    assert!(opened.success(), "the root cannot be read");
}

/// Opens it again, so that the tree can be removed.
fn open(tree: &Tree, path: &str) {
    std::fs::set_permissions(tree.path(path), PermissionsExt::from_mode(0o700)).unwrap();
}

/// A server without privileges on the root.
pub fn serve(tree: &Tree, backend: Backend, options: &[&str]) -> Server {
    let mut command = unprivileged(Path::new(binary().get_program()));
    command.arg("--root").arg(tree.root()).args(options);
    if backend == Backend::Components {
        command.arg("--test-component-walk");
    }
    Server::start(command)
}

both_back_ends! {
    // CWE-755: one directory that cannot be opened fails the walk, or is dropped without a word.
    fn an_unreadable_directory_is_skipped_and_counted_and_the_rest_is_served(backend) {
        let tree = Tree::with(&[("ok.txt", "fine"), ("a/f", "i"), ("closed/f", "i"), ("z/f", "i")]);
        hand_over(&tree);
        close(&tree, "closed");
        let mut server = serve(&tree, backend, &["--include", "**"]);
        let skipped = json!({ "unreadable_directories": 1 });
        for (tool, arguments, found) in [
            ("search_files", json!({ "query": "f" }), vec!["a/f", "z/f"]),
            ("search_text", json!({ "query": "i" }), vec!["a/f", "ok.txt", "z/f"]),
            ("list_directory", json!({}), vec!["a", "ok.txt", "z"]),
        ] {
            let page = server.ok(tool, arguments);
            assert_eq!((page.column("path"), page.skipped()), (found.into_iter().map(str::to_owned).collect(), &skipped));
        }
        for (tool, arguments) in
            [("list_directory", json!({ "path": "closed" })), ("search_text", json!({ "query": "i", "path": "closed" }))]
        {
            let page = server.ok(tool, arguments);
            assert_eq!((&page.structured, page.skipped()), (&empty_page(), &skipped), "{tool}");
        }
        assert_eq!(server.refused("read_text_file", json!({ "path": "closed/f" })), NOT_READABLE);
        still_usable(&mut server);
        open(&tree, "closed");
        assert_eq!(server.text("closed/f"), "i");
        assert_eq!(server.ok("search_files", json!({ "query": "f" })).skipped(), &json!(null));
    }

    // CWE-200: a count tells of what an exclude hides.
    fn an_unreadable_directory_that_is_excluded_is_not_counted(backend) {
        let tree = Tree::with(&[("ok.txt", "fine"), ("closed/f", "i")]);
        hand_over(&tree);
        close(&tree, "closed");
        for options in [["--include", "**", "--exclude", "closed"], ["--include", "*.txt", "--include", "other/**"]] {
            let mut server = serve(&tree, backend, &options);
            for (tool, arguments) in [
                ("list_directory", json!({})),
                ("search_files", json!({ "query": "f" })),
                ("search_text", json!({ "query": "i" })),
                ("list_directory", json!({ "path": "closed" })),
            ] {
                assert_eq!(server.ok(tool, arguments).skipped(), &json!(null));
            }
        }
        open(&tree, "closed");
    }

    // CWE-755: one file that cannot be opened fails the search, or is dropped without a word.
    fn an_unreadable_file_is_listed_and_what_it_holds_is_skipped_and_counted(backend) {
        let tree = Tree::with(&[("ok.txt", "fine"), ("closed", "i")]);
        hand_over(&tree);
        close(&tree, "closed");
        let mut server = serve(&tree, backend, &["--include", "**"]);
        assert_eq!(server.all("list_directory", json!({}), "name"), ["closed", "ok.txt"], "listings are blind to content");
        assert_eq!(server.refused("read_text_file", json!({ "path": "closed" })), NOT_READABLE);
        let page = server.ok("search_text", json!({ "query": "i" }));
        assert_eq!((page.column("path"), page.skipped()), (vec!["ok.txt".to_owned()], &json!({ "unreadable_files": 1 })));
        let page = server.ok("search_text", json!({ "query": "i", "path": "closed" }));
        assert_eq!((&page.structured, page.skipped()), (&empty_page(), &json!({ "unreadable_files": 1 })));
        nothing_is_written_at(&mut server, "closed");
        still_usable(&mut server);
    }
}
