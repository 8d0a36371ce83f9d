//! `write_text_file`: what it refuses, in which order, and what it stores.

use crate::harness::{Backend, NOT_WRITABLE, Refusal, Server, Success, Tree, binary, both_back_ends, sha256};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

const BASENAME: &str = "path must be one lowercase basename of letters, digits, dots, underscores, or hyphens";
const EXCLUDED: &str = "path matches an --exclude pattern of this root";
const UNSELECTED: &str = "path matches no --include pattern of this root";
const ROOT_LEVEL: &str = "no --include pattern of this root matches a file in the root itself, so ";

pub fn write(server: &mut Server, path: &str, content: &str) -> Result<Success, Refusal> {
    server.call("write_text_file", json!({ "path": path, "content": content }))
}

/// A server started by a shell that runs `script` first.
pub fn serve_after(tree: &Tree, backend: Backend, script: &str, options: &[&str]) -> Server {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{script}; exec \"$@\"")).arg("sh").arg(binary().get_program());
    command.arg("--root").arg(tree.root()).args(["--include", "**"]).args(options);
    if backend == Backend::Components {
        command.arg("--test-component-walk");
    }
    Server::start(command)
}

/// The rules in the order in which they are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Basename,
    Limit,
    Excluded,
    RootLevel,
    Unselected,
    Destination,
}

const RULES: [Rule; 6] =
    [Rule::Basename, Rule::Limit, Rule::Excluded, Rule::RootLevel, Rule::Unselected, Rule::Destination];

/// The refusal of a write that breaks exactly these rules.
fn breaking(backend: Backend, broken: &[Rule]) -> Refusal {
    let breaks = |rule| broken.contains(&rule);
    let name = if breaks(Rule::Basename) { "A.txt" } else { "a.txt" };
    let content = if breaks(Rule::Limit) { "12345" } else { "1234" };
    let include = match (breaks(Rule::RootLevel), breaks(Rule::Unselected)) {
        (true, _) => "lib/**",
        (false, true) => "*.md",
        (false, false) => "**",
    };
    let tree = Tree::new();
    if breaks(Rule::Destination) {
        tree.write(&format!("{name}/in"), "kept");
    }
    let before = tree.names();
    let exclude = if breaks(Rule::Excluded) { name } else { "other.txt" };
    let mut server = tree.serve_with(backend, &["--include", include, "--exclude", exclude, "--max-write-bytes", "4"]);
    let refused = write(&mut server, name, content).unwrap_err();
    assert_eq!(tree.names(), before, "{broken:?} left something behind");
    refused
}

fn is_of(rule: Rule, refused: &Refusal) -> bool {
    match rule {
        Rule::Basename => *refused == Refusal::new(BASENAME, "invalid_argument"),
        Rule::Limit => *refused == Refusal::new("content exceeds the 4-byte write limit", "limit"),
        Rule::Excluded => *refused == Refusal::new(EXCLUDED, "not_served"),
        Rule::RootLevel => {
            let fix = refused.text.strip_prefix(ROOT_LEVEL);
            fix.is_some_and(|fix| fix.contains("--include")) && refused.kind == "not_served"
        }
        Rule::Unselected => *refused == Refusal::new(UNSELECTED, "not_served"),
        Rule::Destination => *refused == Refusal::new(NOT_WRITABLE, "not_writable"),
    }
}

both_back_ends! {
    fn every_broken_rule_has_its_text_and_kind(backend) {
        for rule in RULES {
            let refused = breaking(backend, &[rule]);
            assert!(is_of(rule, &refused), "{rule:?}: {refused:?}");
        }
    }

    fn of_two_broken_rules_the_earlier_one_is_told(backend) {
        for (index, earlier) in RULES.iter().enumerate() {
            for later in &RULES[index + 1..] {
                let refused = breaking(backend, &[*earlier, *later]);
                assert!(is_of(*earlier, &refused), "{earlier:?} and {later:?}: {refused:?}");
            }
        }
    }

    fn only_one_lower_case_basename_is_taken(backend) {
        let tree = Tree::with(&[("sub/x", "kept")]);
        let mut server = tree.serve(backend);
        let long = "x".repeat(256);
        let hidden = format!(".ptc-fs-mcp-{}", "0".repeat(32));
        for name in [
            "", ".", "..", ".a", "-a", "_a", "A", "aB", "a b", " a", "a ", "a/", "/a", "sub/x", "sub//x", "../a",
            "../outside/s.txt", "a\n", "a\0", "a\\b", "C:\\x.txt", "c:", "caf\u{e9}", "\u{ff41}", "a*", "~", "$HOME",
            "%61", "file:///a", &long, &hidden,
        ] {
            assert_eq!(write(&mut server, name, "x").unwrap_err(), Refusal::new(BASENAME, "invalid_argument"), "{name:?}");
        }
        assert_eq!(tree.names(), ["sub"]);
        let longest = "x".repeat(255);
        let mut names = vec!["a", "0", "notes.md", "a-b_c.d", "a..", "con", "nul.txt", longest.as_str()];
        for name in &names {
            let written = write(&mut server, name, name).unwrap();
            assert_eq!(
                written.structured,
                json!({ "path": name, "bytes": name.len(), "content_hash": sha256(name.as_bytes()) })
            );
            assert_eq!(tree.read(name), name.as_bytes());
        }
        names.push("sub");
        names.sort_unstable();
        assert_eq!(tree.names(), names);
        tree.outside_is_untouched();
    }

    fn arguments_of_the_wrong_shape_are_named(backend) {
        let tree = Tree::new();
        let mut server = tree.serve(backend);
        for (arguments, text) in [
            (json!({ "path": "a", "content": "", "mode": 7 }), "unknown argument: mode"),
            (json!({ "path": "A", "content": 1, "cursor": "x" }), "unknown argument: cursor"),
            (json!({ "content": "" }), "path must be a string"),
            (json!({ "path": null, "content": "" }), "path must be a string"),
            (json!({ "path": 1, "content": "" }), "path must be a string"),
            (json!({ "path": ["a"], "content": "" }), "path must be a string"),
            (json!({ "path": "a" }), "content must be a string"),
            (json!({ "path": "a", "content": null }), "content must be a string"),
            (json!({ "path": "a", "content": { "a": 1 } }), "content must be a string"),
            (json!({ "path": "a", "content": ["x"] }), "content must be a string"),
        ] {
            let refused = server.call("write_text_file", arguments.clone()).unwrap_err();
            assert_eq!(refused, Refusal::new(text, "invalid_argument"), "{arguments}");
        }
        assert_eq!(tree.names(), [""; 0]);
    }

    fn content_of_exactly_the_limit_is_written_and_one_byte_more_is_not(backend) {
        for (options, most) in [
            (&["--max-write-bytes", "10"][..], 10),
            (&["--max-write-bytes", "10", "--max-file-bytes", "6"], 6),
            (&["--max-write-bytes", "6", "--max-file-bytes", "10"], 6),
            (&["--max-file-bytes", "6"], 6),
            (&["--max-write-bytes", "1"], 1),
            (&[], 65_536),
            (&["--max-file-bytes", "100000"], 65_536),
        ] {
            let tree = Tree::new();
            let mut server = tree.serve_with(backend, &[&["--include", "**"], options].concat());
            let text = format!("content exceeds the {most}-byte write limit");
            let over = "x".repeat(most + 1);
            assert_eq!(write(&mut server, "a", &over).unwrap_err(), Refusal::new(&text, "limit"), "{options:?}");
            assert_eq!(tree.names(), [""; 0]);
            let exact = "x".repeat(most);
            assert_eq!(write(&mut server, "a", &exact).unwrap().structured["bytes"], json!(most));
            assert_eq!(write(&mut server, "a", &over).unwrap_err(), Refusal::new(&text, "limit"), "{options:?}");
            assert_eq!(server.text("a"), exact, "the old content stays, and can be read back");
        }
    }

    fn the_limit_counts_bytes_not_characters(backend) {
        let tree = Tree::new();
        let mut server = tree.serve_with(backend, &["--include", "**", "--max-write-bytes", "8"]);
        for (content, fits) in [
            ("\u{e9}".repeat(4), true),
            ("\u{e9}".repeat(4) + "x", false),
            ("\u{1f600}".repeat(2), true),
            ("\u{1f600}".repeat(3), false),
            ("\0".repeat(8), true),
            ("\0".repeat(9), false),
        ] {
            assert_eq!(write(&mut server, "a", &content).is_ok(), fits, "{content:?}");
        }
    }

    fn content_is_stored_exactly(backend) {
        let tree = Tree::new();
        let mut server = tree.serve(backend);
        for content in [
            "", "\n", "\r\n", "a\r\nb\rc\n", "\u{feff}bom", "no final newline", "cost $& $1 $$ ${x}", "nul\0inside\0",
            "\u{2028}\u{2029}\u{85}", "\u{fffd}\u{ffff}\u{10ffff}", "e\u{301} \u{e9}", "\\n \\u0041 %41 &amp;",
            " \t trailing \t ", "\u{202e}bidi\u{200b}", "\u{7f}\u{1b}[0m",
        ] {
            let written = write(&mut server, "a", content).unwrap();
            assert_eq!(tree.read("a"), content.as_bytes(), "{content:?}");
            assert_eq!(written.hash(), sha256(content.as_bytes()));
            assert_eq!(written.structured["bytes"], json!(content.len()));
        }
    }

    fn a_write_is_seen_by_the_next_call_with_the_same_hash(backend) {
        let tree = Tree::new();
        let mut server = tree.serve(backend);
        for round in 0..50 {
            let content = format!("round {round} {}", "x".repeat(round * 40));
            let written = write(&mut server, "notes.md", &content).unwrap();
            let page = server.ok("read_text_file", json!({ "path": "notes.md" }));
            assert_eq!(page.column("text").concat(), content);
            assert_eq!(page.hash(), written.hash());
            assert_eq!(server.all("list_directory", json!({}), "path"), ["notes.md"]);
            let query = format!("round {round} ");
            assert_eq!(server.all("search_text", json!({ "query": query }), "path"), ["notes.md"]);
        }
    }

    // CWE-176: half of a character is replaced, and other content is written than was sent.
    fn a_lone_surrogate_in_content_is_refused_with_nothing_written(backend) {
        let tree = Tree::with(&[("old", "old")]);
        let mut server = tree.serve(backend);
        for (id, (name, content)) in
            [("new", "\\ud800"), ("old", "x\\udc00"), ("new", "\\ud83d\\u0041"), ("old", "\\udc00\\ud800")]
                .iter()
                .enumerate()
        {
            let mut params = Server::with_meta(json!({ "name": "write_text_file" }));
            params["arguments"] = json!({ "path": name, "content": "CONTENT" });
            let request = json!({ "jsonrpc": "2.0", "id": id + 1000, "method": "tools/call", "params": params });
            server.send_line(&request.to_string().replace("CONTENT", content));
            let answer = server.next_message();
            assert_eq!(answer["error"]["code"], json!(-32602), "{content}: {answer}");
            assert_eq!(answer["id"], json!(id + 1000));
        }
        assert_eq!(tree.names(), ["old"]);
        assert_eq!(tree.read("old"), b"old");
        assert!(write(&mut server, "new", "\u{1f600}").is_ok(), "a pair of surrogates is one character");
    }

    // CWE-276: a new file is open to others.
    fn a_new_file_is_0600_whatever_the_umask(backend) {
        for umask in ["000", "022", "077", "777"] {
            let tree = Tree::new();
            let mut server = serve_after(&tree, backend, &format!("umask {umask}"), &[]);
            write(&mut server, "a", "x").unwrap();
            let mode = std::fs::metadata(tree.path("a")).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o600, "umask {umask}");
        }
    }

    // CWE-703: a write into a root that is gone succeeds.
    fn a_removed_root_is_told_and_takes_no_write(backend) {
        let tree = Tree::new();
        let mut server = tree.serve(backend);
        assert!(write(&mut server, "a", "x").is_ok());
        std::fs::remove_dir_all(tree.root()).unwrap();
        assert_eq!(write(&mut server, "a", "x").unwrap_err(), Refusal::new("root is gone", "io"));
        std::fs::create_dir(tree.root()).unwrap();
        assert_eq!(write(&mut server, "a", "x").unwrap_err(), Refusal::new("root is gone", "io"));
        assert_eq!(tree.names(), [""; 0], "another directory at the same path is another root");
    }
}

#[test]
fn the_published_limit_is_the_smaller_one() {
    let tree = Tree::new();
    let mut server = tree.serve_with(Backend::Openat2, &["--include", "**", "--max-file-bytes", "77"]);
    let listed = server.request("tools/list", json!({}));
    let tool = listed["result"]["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "write_text_file");
    assert_eq!(tool.unwrap()["inputSchema"]["properties"]["content"]["maxLength"], Value::from(77));
}
