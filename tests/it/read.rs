//! `read_text_file`: exact text in pages, and what is refused.

use crate::harness::{NOT_READABLE, Refusal, Server, Success, Tree, both_back_ends, has, is_root, sha256};
use serde_json::{Value, json};
use std::io::BufRead as _;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

const NOT_SERVED: &str = "path is not served by this root";
const BAD_PATH: &str = "path is not a relative path inside the root";

/// Longest chunk, in bytes.
const CHUNK: usize = 2_048;

fn read(server: &mut Server, path: &str) -> Result<Success, Refusal> {
    server.call("read_text_file", json!({ "path": path }))
}

/// Reads a file to its end and checks all that holds of pages; returns them.
fn is_read_exactly(server: &mut Server, path: &str, content: &str, limit: Option<u64>) -> Vec<Success> {
    let mut arguments = json!({ "path": path });
    if let Some(limit) = limit {
        arguments["limit"] = json!(limit);
    }
    let pages = server.pages("read_text_file", arguments);
    let mut offset = 0;
    for page in &pages {
        let begin = offset;
        for item in page.items() {
            assert_eq!(item["byte_offset"], json!(offset), "contiguous");
            let text = item["text"].as_str().unwrap();
            assert!((1..=CHUNK).contains(&text.len()), "{} bytes at {offset}", text.len());
            assert!(content[offset..].starts_with(text), "other text at {offset}");
            offset += text.len();
        }
        assert_eq!(page.hash(), sha256(&content.as_bytes()[begin..offset]));
        assert!(begin < offset || content.is_empty(), "an empty page");
    }
    assert_eq!(offset, content.len());
    pages
}

/// Holds a write lease on a file until its input ends.
const HOLDER: &str = "
import fcntl, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = open(sys.argv[1], 'r+')
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('held', flush=True)
sys.stdin.read()
";

both_back_ends! {
    fn an_empty_file_is_one_page_without_items(backend) {
        let tree = Tree::with(&[("empty", "")]);
        let page = tree.serve(backend).ok("read_text_file", json!({ "path": "empty" }));
        assert_eq!(page.structured, json!({ "items": [], "next_cursor": null, "content_hash": sha256(b"") }));
    }

    fn text_comes_back_byte_for_byte(backend) {
        for content in ["a\r\nb\rc\n", "\u{feff}bom", "no final newline", "\n\n", "cost $& $1 $$", "tab\tnul\0del\u{7f}"] {
            let tree = Tree::with(&[("f", content)]);
            let mut server = tree.serve(backend);
            let page = server.ok("read_text_file", json!({ "path": "f" }));
            assert_eq!(page.column("text").concat(), content);
            assert_eq!(page.hash(), sha256(content.as_bytes()));
        }
    }

    fn ten_megabytes_come_back_byte_for_byte(backend) {
        let tree = Tree::new();
        let content: String = (0..).map(|line| format!("line {line} \u{e9}\u{20ac}\u{1f600}\n")).take(520_000).collect();
        assert!(content.len() > 10_000_000);
        tree.write("f", &content);
        let mut server = tree.serve_with(backend, &["--include", "**", "--max-result-bytes", "4194304"]);
        assert!(is_read_exactly(&mut server, "f", &content, None).len() > 2);
    }

    fn characters_of_every_width_come_back_whole_around_every_chunk_boundary(backend) {
        let tree = Tree::new();
        let mut server = tree.serve(backend);
        for character in ["x", "\u{e9}", "\u{20ac}", "\u{1f600}"] {
            for boundary in [CHUNK, 2 * CHUNK, 8 * CHUNK] {
                for before in boundary - 4..=boundary + 1 {
                    let content = format!("{}{character}end", "a".repeat(before));
                    tree.write("f", &content);
                    is_read_exactly(&mut server, "f", &content, None);
                    is_read_exactly(&mut server, "f", &content, Some(1));
                }
            }
            let content = character.repeat(20_000);
            tree.write("f", &content);
            assert!(is_read_exactly(&mut server, "f", &content, None).len() > 1);
        }
    }

    fn text_that_escapes_to_many_times_its_size_pages_through_under_any_ceiling(backend) {
        let content = "\u{1}".repeat(100_000);
        let tree = Tree::with(&[("f", &content), ("quotes", &"\"\\".repeat(50_000))]);
        for ceiling in ["36000", "48000", "1000000", "4194304"] {
            let mut server = tree.serve_with(backend, &["--include", "**", "--max-result-bytes", ceiling]);
            is_read_exactly(&mut server, "f", &content, None);
            is_read_exactly(&mut server, "quotes", &"\"\\".repeat(50_000), None);
        }
    }

    fn a_page_has_as_many_chunks_as_the_ceiling_gives_and_a_limit_only_lowers_that(backend) {
        let tree = Tree::new();
        tree.write("f", "x".repeat(400 * CHUNK));
        for (ceiling, most) in [("36000", 6), ("48000", 8), ("96000", 16), ("95999", 15), ("1200000", 200)] {
            let mut server = tree.serve_with(backend, &["--include", "**", "--max-result-bytes", ceiling]);
            for (limit, items) in [
                (json!(1), 1),
                (json!(most - 1), most - 1),
                (json!(most), most),
                (json!(most + 1), most),
                (json!(200_000), most),
                (json!(u64::MAX), most),
                (json!(2.0), 2),
            ] {
                let page = server.ok("read_text_file", json!({ "path": "f", "limit": limit }));
                assert_eq!(page.items().len(), items, "limit {limit} under {ceiling}");
            }
            assert_eq!(read(&mut server, "f").unwrap().items().len(), most);
        }
    }

    fn the_page_with_the_first_invalid_byte_is_refused_and_earlier_pages_stand(backend) {
        let tree = Tree::new();
        let mut server = tree.serve(backend);
        let invalid = Refusal::new("file is not valid UTF-8", "not_readable");
        for broken in [&b"\xff"[..], b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf", b"\x80"] {
            for tail in [&b""[..], b"tail"] {
                // Eight chunks of one page are whole; what is broken follows at once, and on the third page.
                for whole in [0, 1, 8 * CHUNK, 8 * CHUNK + 1, 16 * CHUNK + CHUNK / 2] {
                    let content = [&b"a".repeat(whole), broken, tail].concat();
                    tree.write("f", &content);
                    let mut arguments = json!({ "path": "f" });
                    for _ in 0..whole / (8 * CHUNK) {
                        let page = server.ok("read_text_file", arguments.clone());
                        assert_eq!(page.column("text").concat(), "a".repeat(8 * CHUNK));
                        arguments["cursor"] = json!(page.cursor().unwrap());
                    }
                    let refused = server.call("read_text_file", arguments).unwrap_err();
                    assert_eq!(refused, invalid, "{broken:?} after {whole}, then {tail:?}");
                    assert_eq!(tree.read("f"), content);
                }
            }
        }
    }

    fn bad_arguments_are_named(backend) {
        let tree = Tree::with(&[("f", "text")]);
        let mut server = tree.serve(backend);
        let mut cases: Vec<(Value, String)> = [
            (json!({}), "path must be a string"),
            (json!({ "path": null }), "path must be a string"),
            (json!({ "path": 1 }), "path must be a string"),
            (json!({ "path": ["f"] }), "path must be a string"),
            (json!({ "path": { "f": 1 } }), "path must be a string"),
            (json!({ "path": true }), "path must be a string"),
            (json!({ "path": "" }), "path must name a file"),
            (json!({ "path": "/" }), BAD_PATH),
            (json!({ "path": "//" }), BAD_PATH),
            (json!({ "path": "/f" }), BAD_PATH),
            (json!({ "path": "." }), BAD_PATH),
            (json!({ "path": "./f" }), BAD_PATH),
            (json!({ "path": "../root/f" }), BAD_PATH),
            (json!({ "path": "x/../f" }), BAD_PATH),
            (json!({ "path": "f\0" }), BAD_PATH),
            (json!({ "path": "f\n" }), BAD_PATH),
            (json!({ "path": "\u{85}f" }), BAD_PATH),
            (json!({ "path": "a\\f" }), BAD_PATH),
            (json!({ "path": "C:f" }), BAD_PATH),
            (json!({ "path": "f", "offset": 0 }), "unknown argument: offset"),
            (json!({ "Path": "f" }), "unknown argument: Path"),
            (json!({ "path": "f", "": 0 }), "unknown argument: "),
        ]
        .map(|(arguments, text)| (arguments, text.to_owned()))
        .into();
        for limit in [json!(0), json!(-1), json!(1.5), json!("5"), json!(null), json!(true), json!([1]), json!(-0.0)] {
            cases.push((json!({ "path": "f", "limit": limit }), "limit must be a positive integer".to_owned()));
        }
        cases.push((json!({ "path": "x".repeat(1_025) }), BAD_PATH.to_owned()));
        for (arguments, text) in cases {
            let refused = server.call("read_text_file", arguments.clone()).unwrap_err();
            assert_eq!(refused, Refusal::new(&text, "invalid_argument"), "{arguments}");
        }
        assert!(read(&mut server, "f").is_ok() && read(&mut server, "f/").is_ok());
    }

    fn what_is_not_there_to_be_read_has_one_text(backend) {
        let tree = Tree::with(&[("dir/f", "x"), ("f", "x")]);
        tree.link("f", "in-root");
        tree.link("../outside/s.txt", "out");
        tree.link("nothing", "dangling");
        tree.link("dir", "to-dir");
        tree.link("../outside", "to-outside");
        tree.fifo("fifo");
        let socket = UnixListener::bind(tree.path("socket")).unwrap();
        let mut paths = vec![
            "missing", "dir", "dir/", "dir/missing", "f/x", "in-root", "out", "dangling", "to-dir", "to-dir/f",
            "to-outside/s.txt", "fifo", "socket", "missing/f",
        ];
        let long = "x".repeat(256);
        paths.push(&long);
        if is_root() {
            assert!(Command::new("mknod").arg(tree.path("zero")).args(["c", "1", "5"]).status().unwrap().success());
            paths.push("zero");
        }
        let mut server = tree.serve(backend);
        for path in paths {
            assert_eq!(read(&mut server, path).unwrap_err(), Refusal::new(NOT_READABLE, "not_readable"), "{path}");
        }
        assert_eq!(server.text("dir/f"), "x");
        drop(socket);
    }

    fn what_is_not_selected_has_another_whether_it_is_there_or_not(backend) {
        let tree = Tree::with(&[("a.md", "x"), ("b.txt", "x"), ("secret/c.md", "x"), ("deep/secret/d.md", "x")]);
        tree.link("a.md", "link.txt");
        let mut server = tree.serve_with(backend, &["--include", "**/*.md", "--exclude", "**/secret"]);
        for path in ["b.txt", "link.txt", "missing.txt", "secret/c.md", "secret/missing.md", "deep/secret/d.md", "secret"] {
            assert_eq!(read(&mut server, path).unwrap_err(), Refusal::new(NOT_SERVED, "not_served"), "{path}");
        }
        assert_eq!(read(&mut server, "missing.md").unwrap_err(), Refusal::new(NOT_READABLE, "not_readable"));
        assert_eq!(server.text("a.md"), "x");
    }

    fn a_file_over_the_size_limit_is_refused_and_one_of_that_size_is_read(backend) {
        let tree = Tree::with(&[("over", "12345678901"), ("exact", "1234567890"), ("empty", "")]);
        let mut server = tree.serve_with(backend, &["--include", "**", "--max-file-bytes", "10"]);
        assert_eq!(read(&mut server, "over").unwrap_err(), Refusal::new("file exceeds the --max-file-bytes limit", "limit"));
        assert_eq!(server.text("exact"), "1234567890");
        assert_eq!(server.text("empty"), "");
        tree.write("exact", "12345678901");
        assert!(read(&mut server, "exact").is_err(), "it grew past the limit");
    }

    fn a_file_with_two_links_is_read_unless_the_operator_denies_them(backend) {
        let tree = Tree::with(&[("a", "x"), ("single", "x")]);
        std::fs::hard_link(tree.path("a"), tree.path("b")).unwrap();
        assert_eq!(tree.serve(backend).text("b"), "x");
        let mut server = tree.serve_with(backend, &["--include", "**", "--deny-hardlinks"]);
        for name in ["a", "b"] {
            assert_eq!(read(&mut server, name).unwrap_err(), Refusal::new(NOT_READABLE, "not_readable"));
        }
        assert_eq!(server.text("single"), "x");
    }

    fn an_invalid_byte_that_belongs_to_the_next_page_leaves_this_one_alone(backend) {
        let tree = Tree::new();
        // Every byte takes 13 in the result, so that a page holds one chunk of them.
        tree.write("f", [vec![1; 4000], vec![0xff]].concat());
        let mut server = tree.serve(backend);
        let page = server.ok("read_text_file", json!({ "path": "f" }));
        assert_eq!(page.column("text"), ["\u{1}".repeat(2048)]);
        let next = json!({ "path": "f", "cursor": page.cursor().unwrap() });
        assert_eq!(server.refused("read_text_file", next), "file is not valid UTF-8");
    }

    fn a_file_that_a_lease_holds_is_busy_and_ends_no_search(backend) {
        if !has("python3") {
            return;
        }
        let tree = Tree::with(&[("held", "needle"), ("free", "needle")]);
        let held = tree.path("held");
        let mut python = std::process::Command::new("python3");
        python.args(["-c", HOLDER]).arg(&held).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut python = python.spawn().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(python.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        let mut server = tree.serve(backend);
        let page = server.ok("search_text", json!({ "query": "needle" }));
        assert_eq!((page.column("path"), page.skipped()), (vec!["free".to_owned()], &json!({ "changing_files": 1 })));
        assert_eq!(server.refused("read_text_file", json!({ "path": "held" })), "the file is changing; try again");
        drop(python.stdin.take());
        assert!(python.wait().unwrap().success());
        assert_eq!(server.text("held"), "needle");
    }
}
