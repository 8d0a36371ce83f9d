//! Mount points below the root: not crossed unless the operator says so. Setting one up needs root.

use super::{NOT_READABLE, empty_page, nothing_is_at, nothing_is_written_at, still_usable};
use crate::harness::{Mounted, Tree, both_back_ends, is_root};
use serde_json::json;
use std::path::{Path, PathBuf};

/// A root with an empty directory `d/m` and an empty file `f.txt`, and a source beside it.
fn tree() -> (Tree, PathBuf) {
    let tree = Tree::with(&[("ok.txt", "fine"), ("d/keep", "x"), ("f.txt", "")]);
    std::fs::create_dir(tree.path("d/m")).unwrap();
    let source = tree.above().join("source");
    std::fs::create_dir_all(source.join("deep")).unwrap();
    std::fs::write(source.join("deep/m.txt"), "STRANGE").unwrap();
    std::fs::write(source.join("f"), "STRANGE").unwrap();
    (tree, source)
}

const SERVED: &[&str] = &["--include", "**", "--allow-mounts"];

both_back_ends! {
    // CWE-66: a walk crosses into another filesystem.
    fn a_directory_mounted_below_the_root_is_skipped_and_counted(backend) {
        if !is_root() {
            return;
        }
        let (tree, source) = tree();
        let _mounted = Mounted::bind(&source, tree.path("d/m"));
        assert_eq!(tree.read("d/m/deep/m.txt"), b"STRANGE");
        let mut server = tree.serve(backend);
        for path in ["d/m", "d/m/deep", "d/m/deep/m.txt"] {
            nothing_is_at(&mut server, path);
        }
        for (tool, arguments) in [
            ("list_directory", json!({ "path": "d" })),
            ("search_files", json!({ "query": "x" })),
            ("search_text", json!({ "query": "STRANGE" })),
        ] {
            assert_eq!(server.ok(tool, arguments).skipped(), &json!({ "mount_points": 1 }), "{tool}");
        }
        assert_eq!(server.all("list_directory", json!({ "path": "d" }), "name"), ["keep"]);
        still_usable(&mut server);
    }

    // CWE-703: what the operator allows is refused.
    fn a_directory_mounted_below_the_root_is_served_where_mounts_are_allowed(backend) {
        if !is_root() {
            return;
        }
        let (tree, source) = tree();
        let _mounted = Mounted::bind(&source, tree.path("d/m"));
        let mut server = tree.serve_with(backend, SERVED);
        assert_eq!(server.text("d/m/deep/m.txt"), "STRANGE");
        let page = server.ok("list_directory", json!({ "path": "d" }));
        assert_eq!((page.column("name"), page.skipped()), (vec!["keep".to_owned(), "m".to_owned()], &json!(null)));
        assert_eq!(server.all("search_text", json!({ "query": "STRANGE" }), "path"), ["d/m/deep/m.txt", "d/m/f"]);
        still_usable(&mut server);
    }

    // CWE-66: a walk crosses into another filesystem.
    fn a_memory_filesystem_below_the_root_is_skipped_or_served_likewise(backend) {
        if !is_root() {
            return;
        }
        let (tree, _) = tree();
        let _mounted = Mounted::tmpfs(tree.path("d/m"));
        tree.write("d/m/f", "STRANGE");
        let mut server = tree.serve(backend);
        nothing_is_at(&mut server, "d/m");
        nothing_is_at(&mut server, "d/m/f");
        assert_eq!(server.ok("search_files", json!({ "query": "x" })).skipped(), &json!({ "mount_points": 1 }));
        let mut server = tree.serve_with(backend, SERVED);
        assert_eq!(server.text("d/m/f"), "STRANGE");
        assert_eq!(server.all("search_text", json!({ "query": "STRANGE" }), "path"), ["d/m/f"]);
        still_usable(&mut server);
    }

    // CWE-66: a file that covers another is read, also one of the kernel.
    fn the_content_of_a_file_mounted_below_the_root_is_not_served(backend) {
        if !is_root() {
            return;
        }
        for source in [tree().1.join("f"), PathBuf::from("/proc/version")] {
            let (tree, own) = tree();
            let source = if source.starts_with("/proc") { source } else { own.join("f") };
            let _mounted = Mounted::bind(&source, tree.path("f.txt"));
            assert!(!tree.read("f.txt").is_empty());
            let mut server = tree.serve(backend);
            assert_eq!(server.refused("read_text_file", json!({ "path": "f.txt" })), NOT_READABLE);
            let page = server.ok("search_text", json!({ "query": "i" }));
            assert_eq!((page.column("path"), page.skipped()), (vec!["ok.txt".to_owned()], &json!({ "mount_points": 1 })));
            assert_eq!(server.ok("search_text", json!({ "query": "r", "path": "f.txt" })).structured, empty_page());
            nothing_is_written_at(&mut server, "f.txt");
            still_usable(&mut server);
        }
    }

    // CWE-200: a listing tells more than the name that was there before.
    fn a_file_mounted_below_the_root_is_listed_by_the_name_it_covers_unless_files_are_looked_at(backend) {
        if !is_root() {
            return;
        }
        let (tree, source) = tree();
        let _mounted = Mounted::bind(&source.join("f"), tree.path("f.txt"));
        // The name is the root's own; telling what covers it would cost a look at every file.
        let names = tree.serve(backend).all("list_directory", json!({}), "name");
        assert!(names.contains(&"f.txt".to_owned()));
        nothing_is_at(&mut tree.serve_with(backend, &["--include", "**", "--max-file-bytes", "1000000"]), "f.txt");
    }

    // CWE-66: views of kernel state are served as files.
    fn a_kernel_filesystem_below_the_root_is_not_served_even_where_mounts_are_allowed(backend) {
        if !is_root() {
            return;
        }
        let (tree, _) = tree();
        let _mounted = Mounted::new(&["-t", "proc"], Path::new("proc"), tree.path("d/m"));
        let _bound = Mounted::bind(Path::new("/proc/version"), tree.path("f.txt"));
        assert!(!tree.read("d/m/version").is_empty() && !tree.read("f.txt").is_empty());
        let mut server = tree.serve_with(backend, SERVED);
        for path in ["d/m/version", "d/m/self/environ", "f.txt"] {
            assert_eq!(server.refused("read_text_file", json!({ "path": path })), NOT_READABLE);
        }
        let page = server.ok("search_text", json!({ "query": "i" }));
        assert_eq!((page.column("path"), page.skipped()), (vec!["ok.txt".to_owned()], &json!({ "mount_points": 2 })));
        still_usable(&mut server);
    }

    // CWE-703: what the operator allows is refused.
    fn a_file_mounted_below_the_root_is_served_where_mounts_are_allowed(backend) {
        if !is_root() {
            return;
        }
        let (tree, source) = tree();
        let _mounted = Mounted::bind(&source.join("f"), tree.path("f.txt"));
        let mut server = tree.serve_with(backend, SERVED);
        assert_eq!(server.text("f.txt"), "STRANGE");
        assert_eq!(server.all("search_text", json!({ "query": "STRANGE" }), "path"), ["f.txt"]);
        still_usable(&mut server);
    }
}
