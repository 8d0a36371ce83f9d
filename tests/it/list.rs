//! `list_directory`.

use crate::harness::{Success, Tree, both_back_ends, sha256};
use serde_json::{Value, json};

/// The hash of a page, from what it shows.
fn hash_of(page: &Success) -> String {
    let lines = page
        .items()
        .iter()
        .map(|item| format!("{}\0{}\n", item["kind"].as_str().unwrap(), item["path"].as_str().unwrap()));
    sha256(lines.collect::<String>().as_bytes())
}

fn file(path: &str) -> Value {
    json!({ "name": path.rsplit('/').next().unwrap(), "kind": "file", "path": path })
}

both_back_ends! {
    fn a_listing_shows_names_kinds_and_paths_sorted_by_the_bytes_of_the_name(backend) {
        let tree = Tree::with(&[
            ("b", "x"), ("a/inner", "x"), ("a.txt", "x"), ("a-b", "x"), ("B", "x"), ("é", "x"), ("z", "x"), ("a0", "x"), (".h", "x"),
        ]);
        let mut server = tree.serve(backend);
        let page = server.ok("list_directory", json!({}));
        let directory = json!({ "name": "a", "kind": "directory", "path": "a" });
        let items =
            [file(".h"), file("B"), directory, file("a-b"), file("a.txt"), file("a0"), file("b"), file("z"), file("é")];
        let evidence = "file\0.h\nfile\0B\ndirectory\0a\nfile\0a-b\nfile\0a.txt\nfile\0a0\nfile\0b\nfile\0z\nfile\0é\n";
        let expected = json!({ "items": items, "next_cursor": null, "content_hash": sha256(evidence.as_bytes()) });
        assert_eq!(page.structured, expected);
        assert_eq!(page.skipped(), &json!(null));
    }

    fn a_subdirectory_is_listed_with_paths_from_the_root(backend) {
        let tree = Tree::with(&[("a/b/f", "x"), ("a/b/c/g", "x"), ("a/h", "x")]);
        let mut server = tree.serve(backend);
        let directory = json!({ "name": "c", "kind": "directory", "path": "a/b/c" });
        for path in ["a/b", "a//b", "a/b/", "a//b//"] {
            let page = server.ok("list_directory", json!({ "path": path }));
            assert_eq!(page.items(), &vec![directory.clone(), file("a/b/f")]);
            assert_eq!(page.hash(), sha256(b"directory\0a/b/c\nfile\0a/b/f\n"));
        }
    }

    fn a_directory_is_listed_only_when_something_served_lies_beneath_it(backend) {
        let tree = Tree::with(&[("deep/er/and/er/f.md", "x"), ("other/f.txt", "x"), ("hidden/f.md", "x"), ("f.md", "x")]);
        std::fs::create_dir_all(tree.path("empty/empty")).unwrap();
        let mut server = tree.serve_with(backend, &["--include", "**/*.md", "--exclude", "hidden"]);
        assert_eq!(server.all("list_directory", json!({}), "name"), ["deep", "f.md"]);
        assert_eq!(server.all("list_directory", json!({ "path": "deep/er/and" }), "name"), ["er"]);
        tree.write("other/f.md", "x");
        tree.write("empty/empty/f.md", "x");
        assert_eq!(server.all("list_directory", json!({}), "name"), ["deep", "empty", "f.md", "other"]);
        std::fs::remove_file(tree.path("deep/er/and/er/f.md")).unwrap();
        assert_eq!(server.all("list_directory", json!({}), "name"), ["empty", "f.md", "other"]);
    }

    fn whatever_is_not_a_served_directory_gives_one_and_the_same_empty_page(backend) {
        let tree = Tree::with(&[("f.md", "x"), ("d/f.md", "x"), ("hidden/f.md", "x"), ("unserved/f.txt", "x"), ("part/f.md", "x")]);
        std::fs::create_dir(tree.path("empty")).unwrap();
        tree.link("d", "link");
        tree.link(tree.outside(), "out");
        tree.fifo("fifo");
        let options = ["--include", "*.md", "--include", "d/**", "--include", "hidden/**", "--exclude", "hidden"];
        let mut server = tree.serve_with(backend, &options);
        assert_eq!(server.all("list_directory", json!({ "path": "d" }), "name"), ["f.md"]);
        let empty = json!({ "items": [], "next_cursor": null, "content_hash": sha256(b"") });
        let reference = server.ok("list_directory", json!({ "path": "missing" }));
        assert_eq!(reference.structured, empty);
        for path in ["missing/deep", "unserved", "hidden", "empty", "link", "out", "fifo", "f.md", "d/f.md", "f.md/x", "part"] {
            let page = server.ok("list_directory", json!({ "path": path }));
            assert_eq!((&page.structured, &page.meta), (&empty, &reference.meta), "{path}");
        }
    }

    fn a_limit_pages_through_every_entry_once(backend) {
        let names: Vec<String> = (0..10).map(|n| format!("f{n}")).collect();
        let tree = Tree::new();
        names.iter().for_each(|name| tree.write(name, "x"));
        let mut server = tree.serve(backend);
        for limit in [1, 3, 5, 9, 10, 11] {
            let pages = server.pages("list_directory", json!({ "limit": limit }));
            assert_eq!(pages.iter().flat_map(|page| page.column("name")).collect::<Vec<_>>(), names);
            assert_eq!(pages.len(), 10_usize.div_ceil(limit));
            for page in &pages {
                assert!(page.items().len() <= limit);
                assert_eq!(page.hash(), hash_of(page));
            }
        }
    }

    fn a_page_that_does_not_fit_under_the_ceiling_goes_on_in_the_next(backend) {
        let names: Vec<String> = (0..120).map(|n| format!("{n:03}{}", "\"".repeat(240))).collect();
        let tree = Tree::new();
        names.iter().for_each(|name| tree.write(name, "x"));
        let mut server = tree.serve_with(backend, &["--include", "**", "--max-result-bytes", "36000"]);
        let pages = server.pages("list_directory", json!({}));
        assert!(pages.len() > 1 && pages[0].items().len() < 120);
        assert_eq!(pages.iter().flat_map(|page| page.column("name")).collect::<Vec<_>>(), names);
        // Were one item more to fit, the page would have held it.
        let item = pages[0].size / pages[0].items().len();
        assert!(pages[0].size + item + item / 4 > 36_000, "{}", pages[0].size);
    }

    fn three_thousand_entries_come_exactly_once_each_and_at_most_200_at_a_time(backend) {
        let tree = Tree::new();
        let mut names: Vec<String> = (0..3000).map(|n| format!("f{n}")).collect();
        for name in &names {
            std::fs::write(tree.path(name), "").unwrap();
        }
        names.sort();
        let mut server = tree.serve(backend);
        for arguments in [json!({}), json!({ "limit": 1_000_000 })] {
            let pages = server.pages("list_directory", arguments);
            assert_eq!(pages.iter().map(|page| page.items().len()).collect::<Vec<_>>(), [200; 15]);
            assert_eq!(pages.iter().flat_map(|page| page.column("name")).collect::<Vec<_>>(), names);
        }
    }

    fn a_listing_is_live(backend) {
        let tree = Tree::with(&[("a", "x")]);
        let mut server = tree.serve(backend);
        assert_eq!(server.all("list_directory", json!({}), "name"), ["a"]);
        server.ok("write_text_file", json!({ "path": "b", "content": "x" }));
        assert_eq!(server.all("list_directory", json!({}), "name"), ["a", "b"]);
        std::fs::remove_file(tree.path("a")).unwrap();
        assert_eq!(server.all("list_directory", json!({}), "name"), ["b"]);
        std::fs::remove_file(tree.path("b")).unwrap();
        assert_eq!(server.all("list_directory", json!({}), "name"), Vec::<String>::new());
    }
}
