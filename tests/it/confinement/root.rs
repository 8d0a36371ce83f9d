//! The root is pinned at the start: its path is never looked at again.

use crate::harness::{Server, Tree, both_back_ends};
use serde_json::json;

/// Every tool serves the tree with `ok.txt` in it, which now lies at `place`.
fn serves_the_old_tree(server: &mut Server, place: &std::path::Path) {
    assert_eq!(server.text("ok.txt"), "fine");
    assert_eq!(server.all("list_directory", json!({}), "name"), ["d", "ok.txt"]);
    assert_eq!(server.all("search_files", json!({ "query": "f" }), "path"), ["d/f"]);
    assert_eq!(server.all("search_text", json!({ "query": "i" }), "path"), ["d/f", "ok.txt"]);
    server.ok("write_text_file", json!({ "path": "new", "content": "n" }));
    assert_eq!(std::fs::read(place.join("new")).unwrap(), b"n");
    std::fs::remove_file(place.join("new")).unwrap();
}

both_back_ends! {
    // CWE-367: the root's path is resolved again after it was judged.
    fn a_root_that_is_moved_stays_served(backend) {
        let tree = Tree::with(&[("ok.txt", "fine"), ("d/f", "i")]);
        let mut server = tree.serve(backend);
        let moved = tree.above().join("moved");
        serves_the_old_tree(&mut server, &tree.root());
        std::fs::rename(tree.root(), &moved).unwrap();
        serves_the_old_tree(&mut server, &moved);
    }

    // CWE-367: what replaces the root's path is served in its place.
    fn what_takes_the_place_of_the_root_is_not_served(backend) {
        let tree = Tree::with(&[("ok.txt", "fine"), ("d/f", "i")]);
        let mut server = tree.serve(backend);
        let moved = tree.above().join("moved");
        // The answer proves that the start is over.
        serves_the_old_tree(&mut server, &tree.root());
        std::fs::rename(tree.root(), &moved).unwrap();
        tree.write("other.txt", "i");
        serves_the_old_tree(&mut server, &moved);
        std::fs::remove_dir_all(tree.root()).unwrap();
        std::os::unix::fs::symlink(tree.outside(), tree.root()).unwrap();
        serves_the_old_tree(&mut server, &moved);
        tree.outside_is_untouched();
    }

    // CWE-703: a root that is gone looks like an empty one.
    fn a_root_that_is_removed_is_gone_to_every_tool(backend) {
        let tree = Tree::with(&[("ok.txt", "fine")]);
        let mut server = tree.serve(backend);
        assert_eq!(server.text("ok.txt"), "fine");
        std::fs::remove_dir_all(tree.root()).unwrap();
        for replaced in [false, true] {
            if replaced {
                tree.write("ok.txt", "fine");
            }
            for (tool, arguments) in [
                ("list_directory", json!({})),
                ("list_directory", json!({ "path": "d" })),
                ("search_files", json!({ "query": "o" })),
                ("search_text", json!({ "query": "o" })),
                ("search_text", json!({ "query": "o", "path": "ok.txt" })),
                ("read_text_file", json!({ "path": "ok.txt" })),
                ("write_text_file", json!({ "path": "ok.txt", "content": "x" })),
            ] {
                let refusal = server.call(tool, arguments).unwrap_err();
                assert_eq!((refusal.text.as_str(), refusal.kind.as_str()), ("root is gone", "io"), "{tool}");
            }
        }
        assert_eq!(tree.read("ok.txt"), b"fine");
    }
}
