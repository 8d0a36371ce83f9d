//! The `call` command.

use crate::cli::{another_user, refused, set_mode, with};
use crate::harness::{Backend, Finished, Tree, binary, finish, finished, is_root, sha256};
use serde_json::{Value, json};

fn call(tree: &Tree, words: &[&str]) -> Finished {
    finish(binary().args(with(tree, &[&["call"], words].concat())))
}

/// The one line that a call printed.
#[track_caller]
fn printed(finished: &Finished) -> Value {
    assert_eq!(finished.status.code(), Some(0), "{finished:?}");
    let line = finished.stdout.strip_suffix('\n').unwrap();
    assert!(!line.contains('\n'), "one line: {line}");
    serde_json::from_str(line).unwrap()
}

#[track_caller]
fn answer(tree: &Tree, tool: &str, arguments: &Value) -> Value {
    let finished = call(tree, &[tool, &arguments.to_string()]);
    assert_eq!(finished.stderr, "");
    printed(&finished)
}

#[test]
fn a_call_of_each_tool_prints_its_result() {
    let tree = Tree::with(&[("a.txt", "alpha\n"), ("d/b.txt", "beta\n")]);
    assert_eq!(
        answer(&tree, "list_directory", &json!({})),
        json!({
            "items": [{ "name": "a.txt", "kind": "file", "path": "a.txt" }, { "name": "d", "kind": "directory", "path": "d" }],
            "content_hash": sha256(b"file\0a.txt\ndirectory\0d\n"),
        })
    );
    assert_eq!(
        answer(&tree, "search_files", &json!({ "query": "b.t" })),
        json!({ "items": [{ "path": "d/b.txt" }], "content_hash": sha256(b"d/b.txt\n") })
    );
    assert_eq!(
        answer(&tree, "search_text", &json!({ "query": "et" })),
        json!({ "items": [{ "path": "d/b.txt", "line": 1, "text": "beta" }], "content_hash": sha256(b"d/b.txt\x001\0beta\n") })
    );
    assert_eq!(
        answer(&tree, "read_text_file", &json!({ "path": "a.txt" })),
        json!({ "items": [{ "byte_offset": 0, "text": "alpha\n" }], "content_hash": sha256(b"alpha\n") })
    );
    assert_eq!(
        answer(&tree, "write_text_file", &json!({ "path": "new.txt", "content": "hello" })),
        json!({ "path": "new.txt", "bytes": 5, "content_hash": sha256(b"hello") })
    );
    assert_eq!(tree.read("new.txt"), b"hello");
}

#[test]
fn a_call_without_arguments_is_one_with_none() {
    let tree = Tree::with(&[("a.txt", "")]);
    let finished = call(&tree, &["list_directory"]);
    assert_eq!(printed(&finished), answer(&tree, "list_directory", &json!({})));
    let finished = call(&tree, &["read_text_file"]);
    assert_eq!((finished.status.code(), finished.stderr.as_str()), (Some(1), "path must be a string\n"));
}

#[test]
fn a_call_joins_the_items_of_all_pages() {
    let tree = Tree::new();
    for number in 0..450 {
        tree.write(&format!("f{number:03}"), "needle\n");
    }
    let text: String = (0..5000).map(|number| format!("line {number} \u{e9}\n")).collect();
    tree.write("big.txt", &text);
    let mut server = tree.serve(Backend::Openat2);
    for (tool, arguments, member, count) in [
        ("list_directory", json!({}), "path", 451),
        ("list_directory", json!({ "limit": 7 }), "path", 451),
        ("search_files", json!({ "query": "f" }), "path", 450),
        ("search_text", json!({ "query": "needle" }), "path", 450),
        ("read_text_file", json!({ "path": "big.txt" }), "text", 0),
    ] {
        let pages = server.pages(tool, arguments.clone());
        assert!(pages.len() > 1, "{tool} has many pages");
        let items: Vec<&Value> = pages.iter().flat_map(|page| page.items()).collect();
        assert!(count == 0 || items.len() == count, "{tool}");
        let answer = answer(&tree, tool, &arguments);
        let members: Vec<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(members, ["items", "content_hash"], "{tool}");
        assert_eq!(answer["items"], json!(items), "{tool}");
        if member == "text" {
            let joined: String =
                answer["items"].as_array().unwrap().iter().map(|item| item["text"].as_str().unwrap()).collect();
            assert_eq!(joined, text);
            assert_eq!(answer["content_hash"], sha256(text.as_bytes()), "the hash is of all that was returned");
        }
    }
}

#[test]
fn a_call_for_one_page_says_whether_there_is_more_and_has_no_cursor() {
    let tree = Tree::with(&[("a", ""), ("b", ""), ("c", "")]);
    let mut server = tree.serve(Backend::Openat2);
    for (limit, more) in [(2, true), (3, false)] {
        let arguments = json!({ "limit": limit });
        let page = server.ok("list_directory", arguments.clone());
        assert_eq!(page.cursor().is_some(), more, "{limit}");
        let finished = call(&tree, &["list_directory", &arguments.to_string(), "--page"]);
        let mut expected = json!({ "items": page.items(), "content_hash": page.hash() });
        if more {
            expected["more"] = json!(true);
        }
        assert_eq!(printed(&finished), expected);
        assert_eq!(finished.stderr, "");
    }
}

#[test]
fn a_refused_call_tells_why_on_standard_error_alone() {
    let tree = Tree::with(&[("a.txt", "alpha\n"), ("bad.txt", "")]);
    tree.write("bad.txt", [b'x'; 30_000].iter().chain(b"\xff").copied().collect::<Vec<u8>>());
    for (tool, arguments, text) in [
        ("read_text_file", json!({ "path": "missing" }), "path is not a readable regular file"),
        ("read_text_file", json!({ "path": "../a" }), "path is not a relative path inside the root"),
        ("read_text_file", json!({ "path": "a.txt", "x": 1 }), "unknown argument: x"),
        ("read_text_file", json!({ "path": "bad.txt" }), "file is not valid UTF-8"),
        ("list_directory", json!({ "limit": 0 }), "limit must be a positive integer"),
        ("list_directory", json!({ "cursor": "x" }), "cursor is not valid"),
        ("search_text", json!({ "query": "" }), "query must be a non-empty string"),
        (
            "write_text_file",
            json!({ "path": "A", "content": "" }),
            "path must be one lowercase basename of letters, digits, dots, underscores, or hyphens",
        ),
    ] {
        let finished = call(&tree, &[tool, &arguments.to_string()]);
        assert_eq!(finished.stderr, format!("{text}\n"), "{tool} {arguments}");
        assert_eq!((finished.status.code(), finished.stdout.as_str()), (Some(1), ""), "{tool} {arguments}");
    }
    // The page before the invalid byte stands by itself.
    let first = call(&tree, &["read_text_file", r#"{"path":"bad.txt"}"#, "--page"]);
    assert_eq!(printed(&first)["more"], true);
}

#[test]
fn a_call_that_names_no_tool_or_gives_no_object_is_a_usage_error() {
    let tree = Tree::new();
    let arguments = "the arguments of a call are one JSON object, such as '{\"path\":\"a.txt\"}'";
    for (words, text) in [
        (&["call"][..], "call needs the name of a tool"),
        (&["call", "nope"], "unknown tool nope"),
        (&["call", ""], "unknown tool "),
        (&["call", "List_Directory"], "unknown tool List_Directory"),
        (&["call", "nope", "{}"], "unknown tool nope"),
        (&["call", "list_directory", ""], arguments),
        (&["call", "list_directory", "{"], arguments),
        (&["call", "list_directory", "[]"], arguments),
        (&["call", "list_directory", "null"], arguments),
        (&["call", "list_directory", "\"a\""], arguments),
        (&["call", "list_directory", "{} {}"], arguments),
        (&["call", "list_directory", "path=a"], arguments),
        (&["call", "list_directory", "{}", "extra"], "unexpected word extra"),
        (&["call", "list_directory", "--nope"], "unknown option --nope"),
    ] {
        refused(&with(&tree, words), text);
    }
}

#[test]
fn options_may_stand_before_and_after_the_command() {
    let tree = Tree::with(&[("a.md", ""), ("b.txt", ""), ("c.key", "")]);
    let root = tree.root();
    let root = root.to_str().unwrap();
    let expected = "{\"items\":[{\"name\":\"a.md\",\"kind\":\"file\",\"path\":\"a.md\"},\
                    {\"name\":\"b.txt\",\"kind\":\"file\",\"path\":\"b.txt\"}]";
    let before = ["--root", root, "--include", "*.md", "--include", "*.txt"];
    for words in [
        [&before[..], &["call", "list_directory"]].concat(),
        [&["call"], &before[..], &["list_directory"]].concat(),
        [&["call", "list_directory"], &before[..]].concat(),
        [&["call", "list_directory"], &before[..], &["{}"]].concat(),
        vec!["--root", root, "--include", "*.md", "call", "list_directory", "{}", "--include", "*.txt"],
        vec!["--include", "**", "call", "list_directory", "--exclude", "*.key", "--root", root],
        vec!["--exclude", "*.key", "call", "list_directory", "--include", "**", "--root", root],
    ] {
        let finished = finish(binary().args(&words));
        assert_eq!((finished.status.code(), finished.stderr.as_str()), (Some(0), ""), "{words:?}");
        assert!(finished.stdout.starts_with(expected), "{words:?}: {}", finished.stdout);
    }
    // Limits and switches hold on either side, too.
    tree.write("long.md", "12345");
    std::fs::hard_link(tree.path("b.txt"), tree.path("twin.txt")).unwrap();
    let listing = |words: &[&str]| finish(binary().args(words)).stdout;
    let base = ["--root", root, "--include", "**"];
    for option in [&["--max-file-bytes", "4"][..], &["--deny-hardlinks"]] {
        let before = listing(&[&base[..], option, &["call", "list_directory"]].concat());
        let after = listing(&[&base[..], &["call", "list_directory"], option].concat());
        let hidden = if option.len() == 1 { "twin.txt" } else { "long.md" };
        assert!(listing(&[&base[..], &["call", "list_directory"]].concat()).contains(hidden));
        assert!(!before.contains(hidden) && before.contains("a.md"), "{before}");
        assert_eq!(before, after);
    }
}

#[test]
fn what_a_call_left_out_is_counted_on_standard_error() {
    let tree = Tree::with(&[("a.txt", "needle\n")]);
    std::fs::write(tree.path_bytes(b"odd\xff"), "needle\n").unwrap();
    tree.write("broken.txt", b"needle \xff\n");
    let finished = call(&tree, &["list_directory"]);
    assert_eq!(printed(&finished)["items"].as_array().unwrap().len(), 2);
    assert_eq!(finished.stderr, "skipped: {\"unrepresentable_names\":1}\n");

    let finished = call(&tree, &["search_text", r#"{"query":"needle"}"#]);
    assert_eq!(printed(&finished)["items"], json!([{ "path": "a.txt", "line": 1, "text": "needle" }]));
    let counts = finished.stderr.strip_prefix("skipped: ").unwrap();
    let counts: Value = serde_json::from_str(counts).unwrap();
    assert_eq!(counts, json!({ "unrepresentable_names": 1, "undecodable_lines": 1 }));
}

#[test]
fn what_every_page_of_a_call_left_out_is_counted_once() {
    let tree = Tree::with(&[("a", ""), ("b", ""), ("c", "")]);
    std::fs::write(tree.path_bytes(b"odd\xff"), "").unwrap();
    let mut server = tree.serve(Backend::Openat2);
    assert!(server.pages("list_directory", json!({ "limit": 1 })).len() > 1);
    let finished = call(&tree, &["list_directory", r#"{"limit":1}"#]);
    assert_eq!(printed(&finished)["items"].as_array().unwrap().len(), 3);
    assert_eq!(finished.stderr, "skipped: {\"unrepresentable_names\":1}\n");
}

#[test]
fn a_call_warns_of_nothing_and_needs_no_input() {
    let tree = Tree::with(&[("lib/a.txt", "")]);
    let mut command = binary();
    command.arg("--root").arg(tree.root()).args(["--include", "lib/**", "call", "list_directory"]);
    let finished = finish(&mut command);
    assert_eq!((finished.status.code(), finished.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_call_whose_output_nobody_reads_ends_without_a_panic() {
    let tree = Tree::with(&[("big.txt", &"x".repeat(1 << 20))]);
    let mut child = binary()
        .args(with(&tree, &["call", "read_text_file", r#"{"path":"big.txt"}"#]))
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let finished = finished(child);
    assert!(finished.status.code().is_some(), "no signal ended it");
    assert!(!finished.stderr.contains("internal error"), "{}", finished.stderr);
}

#[test]
fn an_unreadable_directory_is_counted_and_the_rest_is_printed() {
    if !is_root() {
        return;
    }
    let tree = Tree::with(&[("a.txt", ""), ("shut/b.txt", "")]);
    set_mode(&tree.path("shut"), 0o700);
    let mut command = another_user(&tree);
    let finished = finish(command.args(with(&tree, &["call", "search_files", r#"{"query":".txt"}"#])));
    assert_eq!(printed(&finished)["items"], json!([{ "path": "a.txt" }]));
    assert_eq!(finished.stderr, "skipped: {\"unreadable_directories\":1}\n");
}

#[test]
fn a_write_that_passes_the_file_size_limit_is_refused_and_the_process_says_so() {
    let tree = Tree::with(&[("a", "old")]);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -c 0; ulimit -f 16; exec \"$0\" \"$@\""]).arg(binary().get_program());
    let content = json!({ "path": "a", "content": "x".repeat(60_000) }).to_string();
    command.args(["call", "write_text_file", &content, "--include", "**", "--root"]).arg(tree.root());
    let finished = finish(&mut command);
    assert_eq!((finished.status.code(), finished.stderr.as_str()), (Some(1), "write failed\n"));
    assert_eq!(tree.read("a"), b"old");
}
