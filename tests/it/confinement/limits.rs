//! Depth and size: what lies beyond the operator's limits is not served by any tool.

use super::{NOT_READABLE, NOT_SERVED, NOT_WRITABLE, empty_page};
use crate::harness::{Tree, both_back_ends};
use serde_json::json;

both_back_ends! {
    // CWE-674: a walk goes as deep as the tree does.
    fn directories_below_the_depth_are_skipped_counted_and_not_readable(backend) {
        let tree = Tree::with(&[("0", "i"), ("a/1", "i"), ("a/b/2", "i"), ("a/b/c/3", "i"), ("a/b/c/d/4", "i"), ("a/b/x/3", "i")]);
        let mut server = tree.serve_with(backend, &["--include", "**", "--max-depth", "2"]);
        assert_eq!(server.text("a/b/2"), "i");
        for path in ["a/b/c/3", "a/b/c/d/4", "a/b/x/3", "a/b/c/missing"] {
            let text = server.refused("read_text_file", json!({ "path": path }));
            assert!([NOT_SERVED, NOT_READABLE].contains(&text.as_str()), "{path}: {text}");
            assert_eq!(server.ok("search_text", json!({ "query": "i", "path": path })).structured, empty_page());
        }
        for path in ["a/b/c", "a/b/c/d"] {
            assert_eq!(server.ok("list_directory", json!({ "path": path })).structured, empty_page());
            assert_eq!(server.ok("search_text", json!({ "query": "i", "path": path })).structured, empty_page());
        }
        for (tool, arguments, found) in [
            ("list_directory", json!({ "path": "a/b" }), vec!["a/b/2"]),
            ("search_files", json!({ "query": "b/" }), vec!["a/b/2"]),
            ("search_text", json!({ "query": "i" }), vec!["0", "a/1", "a/b/2"]),
        ] {
            let page = server.ok(tool, arguments);
            assert_eq!(page.column("path"), found, "{tool}");
            assert_eq!(page.skipped(), &json!({ "too_deep_directories": 2 }), "{tool}");
        }
    }

    // CWE-193: the limit is one off.
    fn directories_at_the_depth_are_served(backend) {
        let tree = Tree::with(&[("a/b/2", "i"), ("a/b/c/3", "i")]);
        let mut server = tree.serve_with(backend, &["--include", "**", "--max-depth", "3"]);
        assert_eq!(server.text("a/b/c/3"), "i");
        let page = server.ok("search_files", json!({ "query": "/" }));
        assert_eq!(page.column("path"), ["a/b/2", "a/b/c/3"]);
        assert_eq!(page.skipped(), &json!(null));
    }

    // CWE-674: without an option nothing bounds the depth.
    fn sixty_four_levels_are_served_where_nothing_else_is_said(backend) {
        let tree = Tree::new();
        let deepest = vec!["d"; 64].join("/");
        tree.write(&format!("{deepest}/f"), "i");
        tree.write(&format!("{deepest}/d/f"), "i");
        let mut server = tree.serve(backend);
        let page = server.ok("search_files", json!({ "query": "f" }));
        assert_eq!(page.column("path"), [format!("{deepest}/f")]);
        assert_eq!(page.skipped(), &json!({ "too_deep_directories": 1 }));
        assert_eq!(server.text(&format!("{deepest}/f")), "i");
        assert!(server.call("read_text_file", json!({ "path": format!("{deepest}/d/f") })).is_err());
    }

    // CWE-200: a count tells of what an exclude hides.
    fn a_too_deep_directory_that_is_excluded_is_not_counted(backend) {
        let tree = Tree::with(&[("a/1", "i"), ("a/b/2", "i")]);
        let mut server = tree.serve_with(backend, &["--include", "**", "--exclude", "a/b", "--max-depth", "1"]);
        let page = server.ok("search_files", json!({ "query": "a" }));
        assert_eq!((page.column("path"), page.skipped()), (vec!["a/1".to_owned()], &json!(null)));
    }

    // CWE-770: a tool serves a file over the limit, or the limit is one off.
    fn a_file_of_exactly_the_size_limit_is_served_and_one_byte_more_is_not(backend) {
        let tree = Tree::with(&[("at", "0123456789"), ("over", "0123456789S"), ("d/over", "0123456789S")]);
        let mut server = tree.serve_with(backend, &["--include", "**", "--max-file-bytes", "10"]);
        assert_eq!(server.text("at"), "0123456789");
        for path in ["over", "d/over"] {
            let refusal = server.call("read_text_file", json!({ "path": path })).unwrap_err();
            assert_eq!((refusal.text.as_str(), refusal.kind.as_str()), ("file exceeds the --max-file-bytes limit", "limit"));
            assert_eq!(server.ok("search_text", json!({ "query": "0", "path": path })).structured, empty_page());
        }
        for (tool, arguments) in [
            ("list_directory", json!({})),
            ("search_files", json!({ "query": "t" })),
            ("search_text", json!({ "query": "0" })),
        ] {
            let page = server.ok(tool, arguments);
            assert_eq!((page.column("path"), page.skipped()), (vec!["at".to_owned()], &json!(null)), "{tool}");
        }
        assert_eq!(server.all("search_files", json!({ "query": "over" }), "path"), Vec::<String>::new());
        assert_eq!(server.refused("write_text_file", json!({ "path": "over", "content": "x" })), NOT_WRITABLE);
        assert_eq!(tree.read("over"), b"0123456789S");
        tree.write("over", "small");
        assert_eq!(server.text("over"), "small");
    }

    // CWE-770: a write makes a file that is over the limit.
    fn the_size_limit_bounds_writes_too(backend) {
        let tree = Tree::new();
        let mut server = tree.serve_with(backend, &["--include", "**", "--max-file-bytes", "10"]);
        server.ok("write_text_file", json!({ "path": "at", "content": "0123456789" }));
        let text = server.refused("write_text_file", json!({ "path": "over", "content": "01234567890" }));
        assert_eq!(text, "content exceeds the 10-byte write limit");
        assert_eq!(tree.names(), ["at"]);
    }
}
