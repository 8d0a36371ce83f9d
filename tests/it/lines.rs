//! Where a line ends, and how long it may be. What it is answered stands in `tests/wire`.

use crate::harness::{Backend, Server, Tree};
use serde_json::json;

/// Longest line at the default limits.
const LONGEST: usize = 16 << 20;

/// A valid request without its id, which is put in as it is spelled.
fn request(id: &str) -> String {
    let params = Server::with_meta(json!({ "name": "search_files", "arguments": { "query": "a.txt" } }));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
}

fn tree() -> Tree {
    Tree::with(&[("a.txt", "alpha\n")])
}

// CWE-20: what arrives together is taken for one message.
#[test]
fn where_a_write_ends_is_nothing_to_where_a_line_ends() {
    let tree = tree();
    let mut server = tree.serve(Backend::Openat2);
    for byte in (request("1") + "\n").as_bytes() {
        server.send_bytes(&[*byte]);
    }
    assert_eq!(server.next_message()["id"], 1);
    server.send_bytes(format!("{}\n\n{}\r\n{}", request("2"), request("3"), request("4")).as_bytes());
    let mut ids: Vec<u64> = (0..2).map(|_| server.next_message()["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [2, 3]);
    server.send_bytes(b"\n");
    assert_eq!(server.next_message()["id"], 4);
}

// CWE-703: the bound of a line refuses what another option allows.
#[test]
fn a_line_of_the_largest_write_is_read_even_when_every_byte_is_escaped() {
    let tree = tree();
    let most = 3 << 20;
    let mut server = tree.serve_with(Backend::Openat2, &["--include", "**", "--max-write-bytes", &most.to_string()]);
    let content = "\u{1}".repeat(most);
    let arguments = json!({ "path": "big", "content": content });
    assert!(arguments.to_string().len() > LONGEST, "the line is longer than 16 MiB");
    assert_eq!(server.ok("write_text_file", arguments).structured["bytes"], json!(most));
    assert_eq!(tree.read("big"), content.as_bytes());
}
