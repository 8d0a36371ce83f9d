//! `search_files`.

use crate::harness::{Tree, both_back_ends, sha256};
use serde_json::json;

both_back_ends! {
    fn paths_are_sorted_by_the_bytes_of_the_whole_path(backend) {
        let tree = Tree::with(&[("a0", ""), ("a/b", ""), ("a.txt", ""), ("a-b", ""), ("a/b.c/d", ""), ("a/b-c", ""), ("A", ""), ("é-a", "")]);
        let mut server = tree.serve(backend);
        let page = server.ok("search_files", json!({ "query": "a" }));
        let paths = ["a-b", "a.txt", "a/b", "a/b-c", "a/b.c/d", "a0", "é-a"];
        let expected = json!({
            "items": paths.map(|path| json!({ "path": path })),
            "next_cursor": null,
            "content_hash": sha256("a-b\na.txt\na/b\na/b-c\na/b.c/d\na0\né-a\n".as_bytes()),
        });
        assert_eq!(page.structured, expected);
    }

    fn the_query_is_a_literal_part_of_the_path_and_no_glob(backend) {
        let tree = Tree::with(&[("[x].txt", ""), ("star*.txt", ""), ("a.txt", ""), ("x", ""), ("dir/q?", ""), ("{a,b}", ""), ("Upper", "")]);
        let mut server = tree.serve(backend);
        for (query, found) in [
            ("[x]", vec!["[x].txt"]),
            ("*", vec!["star*.txt"]),
            ("?", vec!["dir/q?"]),
            ("{a,b}", vec!["{a,b}"]),
            ("r/q", vec!["dir/q?"]),
            ("/", vec!["dir/q?"]),
            ("dir", vec!["dir/q?"]),
            (".txt", vec!["[x].txt", "a.txt", "star*.txt"]),
            ("upper", vec![]),
            ("Upper", vec!["Upper"]),
            ("**", vec![]),
            ("a.txt", vec!["a.txt"]),
            ("a?txt", vec![]),
            (".*", vec![]),
            (" ", vec![]),
            ("../", vec![]),
        ] {
            assert_eq!(server.all("search_files", json!({ "query": query }), "path"), found, "{query}");
        }
    }

    fn files_are_found_and_directories_are_not(backend) {
        let tree = Tree::with(&[("needle/f", ""), ("d/needle", "")]);
        std::fs::create_dir(tree.path("needle-empty")).unwrap();
        let mut server = tree.serve(backend);
        assert_eq!(server.all("search_files", json!({ "query": "needle" }), "path"), ["d/needle", "needle/f"]);
    }

    fn only_what_is_served_is_found(backend) {
        let tree = Tree::with(&[("a.md", ""), ("a.txt", ""), ("hidden/a.md", ""), ("d/a.md", "")]);
        let mut server = tree.serve_with(backend, &["--include", "**/*.md", "--exclude", "hidden"]);
        assert_eq!(server.all("search_files", json!({ "query": "a" }), "path"), ["a.md", "d/a.md"]);
    }

    fn pages_join_to_every_path_once(backend) {
        let tree = Tree::new();
        let mut paths: Vec<String> = (0..450).map(|n| format!("d{}/f{n}", n % 7)).collect();
        paths.iter().for_each(|path| tree.write(path, ""));
        paths.sort();
        let mut server = tree.serve(backend);
        let pages = server.pages("search_files", json!({ "query": "f" }));
        assert_eq!(pages.iter().map(|page| page.items().len()).collect::<Vec<_>>(), [200, 200, 50]);
        assert_eq!(pages.iter().flat_map(|page| page.column("path")).collect::<Vec<_>>(), paths);
        for page in pages {
            let evidence: String = page.column("path").iter().map(|path| format!("{path}\n")).collect();
            assert_eq!(page.hash(), sha256(evidence.as_bytes()));
        }
        assert_eq!(server.all("search_files", json!({ "query": "f1", "limit": 7 }), "path").len(), 111);
    }

    fn a_query_is_one_line_of_bounded_length_with_something_in_it(backend) {
        let tree = Tree::with(&[("a", "")]);
        let mut server = tree.serve(backend);
        let line = "query must be one line of at most 256 UTF-8 bytes";
        for tool in ["search_files", "search_text"] {
            for (arguments, text) in [
                (json!({ "query": "" }), "query must be a non-empty string"),
                (json!({}), "query must be a non-empty string"),
                (json!({ "query": "x".repeat(257) }), line),
                (json!({ "query": "é".repeat(129) }), line),
                (json!({ "query": "a\nb" }), line),
                (json!({ "query": "a\r" }), line),
            ] {
                assert_eq!(server.refused(tool, arguments), text);
            }
            server.ok(tool, json!({ "query": "é".repeat(128) }));
        }
    }
}
