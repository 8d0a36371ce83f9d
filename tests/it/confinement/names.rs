//! Names as they stand in a directory: every one is itself, and what a client cannot spell is counted.

use super::{BAD_PATH, nothing_is_at, still_usable};
use crate::harness::{Tree, both_back_ends};
use serde_json::{Value, json};

/// Names that no client path can hold.
const UNSPEAKABLE: &[&[u8]] = &[
    b"a\xff",
    b"caf\xe9.txt",
    b"line\nfeed",
    b"return\r",
    b"tab\t",
    b"del\x7f",
    b"next\xc2\x85line",
    b"esc\x1b[0m",
    b"back\\slash",
    b"C:x",
    b"z:",
    b"a:b.txt",
    b"\xed\xa0\x80",
];

fn readers() -> [(&'static str, Value); 3] {
    [("list_directory", json!({})), ("search_files", json!({ "query": "." })), ("search_text", json!({ "query": "i" }))]
}

both_back_ends! {
    // CWE-755: one odd name fails the page, or is dropped without a word.
    fn a_name_that_cannot_be_spelled_is_left_out_and_counted(backend) {
        let tree = Tree::with(&[("ok.txt", "fine")]);
        for name in UNSPEAKABLE {
            std::fs::write(tree.path_bytes(name), "i").unwrap();
        }
        std::fs::create_dir(tree.path_bytes(b"dir\xff")).unwrap();
        std::fs::write(tree.path_bytes(b"dir\xff/f.txt"), "i").unwrap();
        let mut server = tree.serve(backend);
        for (tool, arguments) in readers() {
            let page = server.ok(tool, arguments);
            assert_eq!(page.column("path"), ["ok.txt"], "{tool}");
            assert_eq!(page.skipped(), &json!({ "unrepresentable_names": UNSPEAKABLE.len() + 1 }), "{tool}");
        }
        still_usable(&mut server);
    }

    // CWE-176: a name that is not UTF-8 is taken for another that was made of it.
    fn a_name_that_cannot_be_spelled_is_never_aliased(backend) {
        let tree = Tree::with(&[("ok.txt", "fine"), ("a\u{fffd}", "the other")]);
        std::fs::write(tree.path_bytes(b"a\xff"), "S").unwrap();
        let mut server = tree.serve(backend);
        assert_eq!(server.text("a\u{fffd}"), "the other");
        let page = server.ok("list_directory", json!({}));
        assert_eq!(page.column("name"), ["a\u{fffd}", "ok.txt"]);
        assert_eq!(page.skipped(), &json!({ "unrepresentable_names": 1 }));
        still_usable(&mut server);
    }

    // CWE-200: a count tells of names that an exclude hides.
    fn a_name_that_is_not_served_is_not_counted(backend) {
        let tree = Tree::with(&[("ok.txt", "fine")]);
        for name in [b"a\xff".as_slice(), b"b\nb", b"C:x"] {
            std::fs::write(tree.path_bytes(name), "i").unwrap();
        }
        std::fs::create_dir(tree.path_bytes(b"d\xff")).unwrap();
        std::fs::write(tree.path_bytes(b"d\xff/f"), "i").unwrap();
        for options in [
            ["--include", "**", "--exclude", "a*", "--exclude", "b*", "--exclude", "C*", "--exclude", "d*"].as_slice(),
            &["--include", "*.txt"],
        ] {
            let mut server = tree.serve_with(backend, options);
            for (tool, arguments) in readers() {
                let page = server.ok(tool, arguments);
                assert_eq!((page.column("path"), page.skipped()), (vec!["ok.txt".to_owned()], &json!(null)), "{tool}");
            }
        }
    }

    // CWE-200: a count tells of what is never served.
    fn an_unspeakable_link_or_fifo_is_not_counted(backend) {
        let tree = Tree::with(&[("ok.txt", "fine")]);
        std::os::unix::fs::symlink("ok.txt", tree.path_bytes(b"l\xff")).unwrap();
        tree.fifo("f\n");
        let mut server = tree.serve(backend);
        assert_eq!(server.ok("list_directory", json!({})).skipped(), &json!(null));
        still_usable(&mut server);
    }

    // CWE-176: a pattern ends at a line break, and what follows passes the exclude.
    fn line_breaks_in_names_do_not_slip_past_an_exclude(backend) {
        let tree = Tree::with(&[("ok.txt", "fine"), ("hidden/line\u{2028}sep", "i"), ("a\u{2028}b.key", "i"), ("kept\u{2028}x", "i")]);
        for name in ["hidden/\n", "hidden/\r", "hidden/\u{85}", "\n.key"] {
            std::fs::write(tree.path(name), "i").unwrap();
        }
        let mut server = tree.serve_with(backend, &["--include", "**", "--exclude", "hidden/**", "--exclude", "*.key"]);
        let page = server.ok("search_text", json!({ "query": "i" }));
        assert_eq!((page.column("path"), page.skipped()), (vec!["kept\u{2028}x".to_owned(), "ok.txt".to_owned()], &json!(null)));
        still_usable(&mut server);
    }

    // CWE-36: a drive prefix makes a path absolute.
    fn a_drive_prefix_counts_in_the_root_only(backend) {
        let tree = Tree::with(&[("ok.txt", "fine"), ("d/C:x", "deep"), ("ab:c", "two letters"), ("1:x", "digit")]);
        std::fs::write(tree.path("C:x"), "i").unwrap();
        let mut server = tree.serve(backend);
        assert_eq!(server.all("search_files", json!({ "query": ":" }), "path"), ["1:x", "ab:c", "d/C:x"]);
        assert_eq!(server.text("d/C:x"), "deep");
        assert_eq!(server.refused("read_text_file", json!({ "path": "C:x" })), BAD_PATH);
        assert_eq!(server.ok("list_directory", json!({})).skipped(), &json!({ "unrepresentable_names": 1 }));
        still_usable(&mut server);
    }

    // CWE-755: a path that is too long fails the walk, or is dropped without a word.
    fn a_path_of_1024_characters_is_served_and_a_longer_one_is_counted(backend) {
        let tree = Tree::new();
        let directory = vec!["d".repeat(250); 4].join("/");
        let (at, over) = (format!("{directory}/{}", "x".repeat(20)), format!("{directory}/{}", "y".repeat(21)));
        assert_eq!((at.len(), over.len()), (1024, 1025));
        tree.write(&at, "i");
        tree.write(&over, "i");
        let mut server = tree.serve(backend);
        for (tool, arguments) in [
            ("search_files", json!({ "query": "d" })),
            ("search_text", json!({ "query": "i" })),
            ("list_directory", json!({ "path": directory })),
        ] {
            let page = server.ok(tool, arguments);
            assert_eq!((page.column("path"), page.skipped()), (vec![at.clone()], &json!({ "unrepresentable_names": 1 })));
        }
        assert_eq!(server.text(&at), "i");
        assert_eq!(server.refused("read_text_file", json!({ "path": over })), BAD_PATH);
    }

    // CWE-200: an unfinished write is read.
    fn reserved_names_are_hidden_and_not_counted(backend) {
        let reserved = ".ptc-fs-mcp-0123456789abcdef0123456789abcdef";
        let tree = Tree::with(&[("ok.txt", "fine"), ("d/f", "i"), (".ptc-fs-mcp", "not reserved, i")]);
        for path in [reserved.to_owned(), format!("d/{reserved}"), ".ptc-fs-mcp-x/f".to_owned(), "only/.ptc-fs-mcp-".to_owned()] {
            tree.write(&path, "i");
        }
        let mut server = tree.serve(backend);
        for (tool, arguments, found) in [
            ("list_directory", json!({}), vec![".ptc-fs-mcp", "d", "ok.txt"]),
            ("search_files", json!({ "query": "ptc" }), vec![".ptc-fs-mcp"]),
            ("search_text", json!({ "query": "i" }), vec![".ptc-fs-mcp", "d/f", "ok.txt"]),
        ] {
            let page = server.ok(tool, arguments);
            assert_eq!((page.column("path"), page.skipped()), (found.into_iter().map(str::to_owned).collect(), &json!(null)));
        }
        for path in [reserved.to_owned(), format!("d/{reserved}"), ".ptc-fs-mcp-x/f".to_owned()] {
            assert_eq!(server.refused("read_text_file", json!({ "path": path })), BAD_PATH);
        }
        still_usable(&mut server);
    }

    // CWE-178: names are folded, trimmed or normalised, and the wrong file opens.
    fn names_that_look_alike_or_like_commands_are_each_themselves(backend) {
        let names = [
            "caf\u{e9}.txt", "cafe\u{301}.txt", "trail", "trail ", " lead", "lead", "\"q\"", "'q'", "-rf", "--", "~", "$HOME",
            "%2e%2e", "...", "a.", "A.txt", "a.txt", "[x].txt", "{a,b}", "star*.txt", "q?", "\u{202e}x", "x\u{200b}", "x",
            "\u{ff0e}\u{ff0e}", "NUL", "#", "!a", "&amp;", "\u{1f600}",
        ];
        let tree = Tree::new();
        for name in names {
            tree.write(name, format!("content of {name}"));
        }
        let mut server = tree.serve(backend);
        let mut sorted = names.map(str::to_owned).to_vec();
        sorted.sort();
        assert_eq!(server.all("list_directory", json!({}), "name"), sorted);
        for name in names {
            assert_eq!(server.text(name), format!("content of {name}"));
            assert_eq!(server.all("search_text", json!({ "query": "content", "path": name }), "path"), [name]);
            std::fs::remove_file(tree.path(name)).unwrap();
            nothing_is_at(&mut server, name);
        }
    }
}
