//! Paths as text: what is refused before the filesystem is asked, and what is taken literally.

use super::{BAD_BASENAME, BAD_PATH, NOT_READABLE, NOT_SERVED, empty_page, nothing_is_at, still_usable};
use crate::harness::{Tree, both_back_ends};
use serde_json::json;

/// Everything that is not a plain relative path.
fn refused_paths(tree: &Tree) -> Vec<String> {
    let outside = tree.outside().join("s.txt");
    let mut paths: Vec<String> = [
        "../x",
        "..",
        ".",
        "./x",
        "x/.",
        "x/..",
        "./ok.txt",
        "d/../ok.txt",
        "d/./f.txt",
        "nope/../../outside/s.txt",
        "../outside/s.txt",
        "../root/ok.txt",
        "../root-evil/s.txt",
        "/",
        "/x",
        "//x",
        "/etc/passwd",
        "/etc/hostname",
        "/ok.txt",
        "C:\\x",
        "C:",
        "c:ok.txt",
        "C:/x",
        "\\\\?\\C:\\x",
        "\\",
        "a\\..\\b",
        "..\\outside\\s.txt",
        "\0",
        "ok.txt\0",
        "\0ok.txt",
        "ok.txt\0/../../x",
        "ok\n.txt",
        "ok.txt\r",
        "\t",
        "ok\u{7f}",
        "ok\u{85}",
        "\u{9b}31m",
        ".ptc-fs-mcp-0",
        "d/.ptc-fs-mcp-0/x",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.push(outside.to_str().unwrap().to_owned());
    paths.push(tree.path("ok.txt").to_str().unwrap().to_owned());
    paths.push("a/".repeat(600));
    paths.push("x".repeat(1025));
    paths.push("é".repeat(1025));
    paths
}

fn tree() -> Tree {
    let tree = Tree::with(&[("ok.txt", "fine"), ("d/f.txt", "SF")]);
    std::fs::create_dir(tree.above().join("root-evil")).unwrap();
    std::fs::write(tree.above().join("root-evil/s.txt"), crate::harness::SECRET).unwrap();
    tree
}

both_back_ends! {
    // CWE-22: a path that climbs, is absolute or holds NUL leads out of the root.
    fn a_path_that_is_not_plain_and_relative_is_refused_by_every_tool_that_takes_a_path(backend) {
        let tree = tree();
        let names = tree.names();
        let mut server = tree.serve(backend);
        for path in refused_paths(&tree) {
            for (tool, arguments) in [
                ("read_text_file", json!({ "path": path })),
                ("list_directory", json!({ "path": path })),
                ("search_text", json!({ "query": "S", "path": path })),
            ] {
                let refusal = server.call(tool, arguments).unwrap_err();
                assert_eq!((refusal.text.as_str(), refusal.kind.as_str()), (BAD_PATH, "invalid_argument"), "{tool} {path:?}");
            }
            let text = server.refused("write_text_file", json!({ "path": path, "content": "x" }));
            assert_eq!(text, BAD_BASENAME, "{path:?}");
        }
        still_usable(&mut server);
        assert_eq!(tree.names(), names);
        tree.outside_is_untouched();
    }

    // CWE-22: an argument that is checked less than `path` is used as one.
    fn a_hostile_string_in_any_other_argument_is_only_a_string(backend) {
        let tree = tree();
        let mut server = tree.serve(backend);
        for text in refused_paths(&tree) {
            for (tool, arguments) in [
                ("list_directory", json!({ "cursor": text })),
                ("search_files", json!({ "query": "ok", "cursor": text })),
                ("search_text", json!({ "query": "S", "cursor": text })),
                ("read_text_file", json!({ "path": "ok.txt", "cursor": text })),
            ] {
                let refusal = server.call(tool, arguments).unwrap_err();
                assert_eq!((refusal.text.as_str(), refusal.kind.as_str()), ("cursor is not valid", "invalid_cursor"));
            }
            for tool in ["search_files", "search_text"] {
                match server.call(tool, json!({ "query": text })) {
                    Ok(page) => {
                        let names = page.column("path");
                        assert!(names.iter().all(|name| name == "ok.txt" || name == "d/f.txt" || name == "w"), "{names:?}");
                    }
                    Err(refusal) => {
                        assert!(text.len() > 256 || text.contains(['\n', '\r']), "{text:?}: {refusal:?}");
                        assert_eq!(refusal.text, "query must be one line of at most 256 UTF-8 bytes");
                    }
                }
            }
            server.ok("write_text_file", json!({ "path": "w", "content": text }));
            assert_eq!(tree.read("w"), text.as_bytes());
            assert_eq!(server.text("w"), text);
        }
        still_usable(&mut server);
        tree.outside_is_untouched();
    }

    // CWE-41: a name is decoded or expanded after it was checked.
    fn what_other_programs_would_decode_or_expand_is_a_literal_name_that_is_not_there(backend) {
        let tree = tree();
        let mut server = tree.serve(backend);
        let long = "x".repeat(256);
        for path in [
            "file:///x", "file:///etc/passwd", "~/x", "~", "$HOME", "${HOME}/x", "%2e%2e/outside/s.txt", "%2e%2e%2foutside",
            "....//x", "...", "\u{ff0e}\u{ff0e}/outside/s.txt", "..\u{2215}outside\u{2215}s.txt", "\u{202e}txt.ko",
            "ok.txt\u{200b}", "ok.txt ", " ok.txt", "OK.TXT", "root-evil/s.txt", "root/ok.txt", "outside/s.txt", "d/f.txt/x",
            "ok.txt/x", "ok.txt:stream", "-rf", "*", "o?.txt", "[o]k.txt", long.as_str(),
        ] {
            nothing_is_at(&mut server, path);
        }
        still_usable(&mut server);
        tree.outside_is_untouched();
    }

    // CWE-770: a path of any length is worked on.
    fn a_path_of_1024_characters_is_taken_and_of_one_more_is_not(backend) {
        let tree = Tree::with(&[("ok.txt", "fine")]);
        let mut server = tree.serve(backend);
        let path = ["é".repeat(127), "é".repeat(127)].join("/").repeat(5).chars().take(1023).collect::<String>() + "x";
        assert_eq!(path.chars().count(), 1024);
        assert_eq!(server.refused("read_text_file", json!({ "path": path })), NOT_READABLE);
        assert_eq!(server.refused("read_text_file", json!({ "path": format!("{path}x") })), BAD_PATH);
        still_usable(&mut server);
    }

    // CWE-41: two spellings of one path are judged apart.
    fn empty_segments_collapse(backend) {
        let tree = tree();
        let mut server = tree.serve(backend);
        for path in ["d/f.txt", "d//f.txt", "d///f.txt", "d/f.txt/", "d//f.txt//"] {
            assert_eq!(server.text(path), "SF");
            assert_eq!(server.all("search_text", json!({ "query": "S", "path": path }), "path"), ["d/f.txt"]);
        }
        for path in ["d", "d/", "d//"] {
            assert_eq!(server.all("list_directory", json!({ "path": path }), "path"), ["d/f.txt"]);
            assert_eq!(server.all("search_text", json!({ "query": "S", "path": path }), "path"), ["d/f.txt"]);
        }
        still_usable(&mut server);
    }

    // CWE-41: another spelling of an excluded path passes the exclude.
    fn a_second_spelling_does_not_pass_an_exclude(backend) {
        let tree = Tree::with(&[("a/b/f.txt", "S"), ("a/c.txt", "S"), ("ok.txt", "fine")]);
        let mut server = tree.serve_with(backend, &["--include", "**", "--exclude", "a/b"]);
        assert_eq!(server.text("a/c.txt"), "S");
        for path in ["a/b", "a//b", "a/b/", "a//b//", "a/b/f.txt", "a//b/f.txt", "a/b//f.txt", "a/b/f.txt/"] {
            assert_eq!(server.refused("read_text_file", json!({ "path": path })), NOT_SERVED, "{path}");
            assert_eq!(server.ok("list_directory", json!({ "path": path })).structured, empty_page());
            assert_eq!(server.ok("search_text", json!({ "query": "S", "path": path })).structured, empty_page());
        }
        for path in ["a/./b/f.txt", "a/c/../b/f.txt"] {
            assert_eq!(server.refused("read_text_file", json!({ "path": path })), BAD_PATH);
        }
        assert_eq!(server.all("search_files", json!({ "query": "f" }), "path"), Vec::<String>::new());
        still_usable(&mut server);
    }

    // CWE-22: the empty path names something else than the root.
    fn the_root_is_a_directory_to_list_and_no_file_to_read(backend) {
        let tree = tree();
        let mut server = tree.serve(backend);
        assert_eq!(server.all("list_directory", json!({ "path": "" }), "name"), ["d", "ok.txt"]);
        assert_eq!(server.all("search_text", json!({ "query": "S", "path": "" }), "path"), ["d/f.txt"]);
        assert_eq!(server.refused("read_text_file", json!({ "path": "" })), "path must name a file");
        assert_eq!(server.refused("read_text_file", json!({ "path": "d" })), NOT_READABLE);
        still_usable(&mut server);
    }
}
