//! Where `openat2` is missing (`ENOSYS`) or forbidden (`EPERM`), the other back end serves the same tree.

use crate::confinement::{nothing_is_at, nothing_is_written_at, still_usable};
use crate::harness::{Backend, Mounted, Tree, is_root};
use rustix::io::Errno;
use serde_json::json;

const FILTERS: [Backend; 2] = [Backend::Without(Errno::NOSYS), Backend::Without(Errno::PERM)];

// CWE-703: a call that is missing is taken for a file that is.
#[test]
fn a_tree_is_served_without_openat2() {
    for backend in FILTERS {
        let tree = Tree::with(&[("ok.txt", "fine"), ("a/b/f.txt", "INSIDE")]);
        let mut server = tree.serve(backend);
        assert_eq!(server.text("a/b/f.txt"), "INSIDE");
        assert_eq!(server.all("list_directory", json!({ "path": "a" }), "path"), ["a/b"]);
        assert_eq!(server.all("search_files", json!({ "query": "f" }), "path"), ["a/b/f.txt"]);
        assert_eq!(server.all("search_text", json!({ "query": "INSIDE" }), "path"), ["a/b/f.txt"]);
        server.ok("write_text_file", json!({ "path": "new", "content": "n" }));
        assert_eq!(tree.read("new"), b"n");
    }
}

// CWE-59: a link is followed where the kernel does not refuse it.
#[test]
fn no_link_is_followed_without_openat2() {
    for backend in FILTERS {
        let tree = Tree::with(&[("ok.txt", "fine"), ("real/f.txt", "INSIDE")]);
        tree.link(tree.outside(), "out");
        tree.link("real", "in");
        tree.link("../outside/s.txt", "file");
        tree.link("/proc/self/root", "proc");
        let mut server = tree.serve(backend);
        for path in ["out", "out/", "out/s.txt", "in", "in/f.txt", "file", "proc", "proc/etc/passwd"] {
            nothing_is_at(&mut server, path);
        }
        for name in ["out", "in", "file", "proc"] {
            nothing_is_written_at(&mut server, name);
        }
        assert_eq!(server.text("real/f.txt"), "INSIDE");
        still_usable(&mut server);
        tree.outside_is_untouched();
    }
}

// CWE-653: a mount is crossed where the kernel does not refuse it.
#[test]
fn no_mount_is_crossed_without_openat2() {
    if !is_root() {
        return;
    }
    for backend in FILTERS {
        let tree = Tree::with(&[("ok.txt", "fine"), ("d/f.txt", "INSIDE")]);
        std::fs::create_dir(tree.path("d/m")).unwrap();
        // Of the same device, so that only the mount's own identity tells.
        let mounted = Mounted::bind(&tree.outside(), tree.path("d/m"));
        let mut server = tree.serve(backend);
        nothing_is_at(&mut server, "d/m");
        nothing_is_at(&mut server, "d/m/s.txt");
        assert_eq!(server.ok("search_files", json!({ "query": "f" })).skipped(), &json!({ "mount_points": 1 }));
        assert_eq!(server.text("d/f.txt"), "INSIDE");
        still_usable(&mut server);
        drop(server);
        drop(mounted);
        tree.outside_is_untouched();
    }
}
