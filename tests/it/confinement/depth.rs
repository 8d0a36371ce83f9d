//! Directories within directories, deeper than any path can say.

use super::{NOT_READABLE, NOT_SERVED, still_usable};
use crate::harness::{Mounted, Server, Tree, both_back_ends, is_root};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags};
use serde_json::json;

/// Levels of the deepest directory.
const DEEP: usize = 4000;

/// A chain of directories `top/d/d/..`, with a file `f` at these levels. The host's own paths end far above the last
/// one, so each is made from the one above it, which is held.
fn chain(tree: &Tree, top: &str, files_at: &[usize]) {
    let open = |parent: &OwnedFd, name: &str| {
        rustix::fs::openat(parent, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
    };
    let mut held = rustix::fs::openat(CWD, tree.root(), OFlags::RDONLY, Mode::empty()).unwrap();
    for level in 1..=DEEP {
        let name = if level == 1 { top } else { "d" };
        rustix::fs::mkdirat(&held, name, Mode::RWXU).unwrap();
        held = open(&held, name);
        if files_at.contains(&level) {
            let file = rustix::fs::openat(&held, "f", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
            rustix::io::write(&file, b"needle").unwrap();
        }
    }
}

/// The path of the file at a level.
fn file(top: &str, level: usize) -> String {
    format!("{top}{}/f", "/d".repeat(level - 1))
}

/// Both searches find the files at these levels of `a`, and count so much.
fn finds(server: &mut Server, levels: &[usize], skipped: &serde_json::Value) {
    let expected: Vec<String> = levels.iter().rev().map(|level| file("a", *level)).collect();
    for (tool, query) in [("search_files", "/f"), ("search_text", "needle")] {
        let page = server.ok(tool, json!({ "query": query }));
        assert_eq!((page.column("path"), page.skipped()), (expected.clone(), skipped), "{tool}");
    }
    for level in levels {
        assert_eq!(server.text(&file("a", *level)), "needle");
    }
}

both_back_ends! {
    // CWE-674: a walk goes as deep as the tree does.
    fn directories_4_000_deep_end_no_walk_and_are_counted_where_it_stops(backend) {
        if !is_root() {
            return;
        }
        let tree = Tree::new();
        // Gone with its mount: nothing has to go down there again.
        let _mounted = Mounted::tmpfs(tree.root());
        tree.write("ok.txt", "fine");
        chain(&tree, "a", &[34, 64, 65, 500, DEEP]);
        chain(&tree, "bare", &[65, DEEP]);
        let too_deep = json!({ "too_deep_directories": 2 });

        let mut server = tree.serve(backend);
        still_usable(&mut server);
        let descriptors = server.descriptors();
        finds(&mut server, &[34, 64], &too_deep);
        // Beneath `a` a file is met before any limit is.
        let page = server.ok("list_directory", json!({}));
        assert_eq!((page.column("name"), page.skipped()), (vec!["a".to_owned(), "ok.txt".to_owned()], &json!({ "too_deep_directories": 1 })));
        for level in [65, 500] {
            assert_eq!(server.refused("read_text_file", json!({ "path": file("a", level) })), NOT_SERVED);
        }
        still_usable(&mut server);
        assert_eq!(server.descriptors(), descriptors);

        let mut server = tree.serve_with(backend, &["--include", "**", "--max-depth", "34"]);
        finds(&mut server, &[34], &too_deep);
        assert_eq!(server.refused("read_text_file", json!({ "path": file("a", 64) })), NOT_SERVED);

        let mut server = tree.serve_with(backend, &["--include", "**", "--max-depth", "33"]);
        finds(&mut server, &[], &too_deep);
        still_usable(&mut server);
        tree.outside_is_untouched();
    }

    // CWE-770: a walk holds a descriptor for each level of a tree that is deeper than any path can say.
    fn where_the_depth_is_all_but_unlimited_the_length_of_a_path_ends_the_walk(backend) {
        if !is_root() {
            return;
        }
        let tree = Tree::new();
        let _mounted = Mounted::tmpfs(tree.root());
        tree.write("ok.txt", "fine");
        chain(&tree, "a", &[34, 65, 500, 511, 512, DEEP]);
        let mut server = tree.serve_with(backend, &["--include", "**", "--max-depth", "18446744073709551615"]);
        still_usable(&mut server);
        let descriptors = server.descriptors();
        // `a`, 511 times `/d`, and `/f` are 1,025 characters; so are the names of the directory beside that file.
        finds(&mut server, &[34, 65, 500, 511], &json!({ "unrepresentable_names": 2 }));
        assert_eq!(file("a", 511).len(), 1023);
        assert_eq!(server.refused("read_text_file", json!({ "path": file("b", 511) })), NOT_READABLE);
        still_usable(&mut server);
        assert_eq!(server.descriptors(), descriptors);
        tree.outside_is_untouched();
    }
}
