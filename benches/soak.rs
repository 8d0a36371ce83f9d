//! That nothing grows: `cargo bench --bench soak` makes 100,000 mixed calls of one server, half of which fail, and holds
//! its resident memory and its descriptors against what they were after the first thousand.

#![allow(
    unreachable_pub,
    dead_code,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    unused_imports,
    reason = "a measurement sets up real files, drives the real binary, and fails by panicking"
)]

#[path = "../tests/it/harness.rs"]
mod harness;

use harness::{Server, Tree};
use serde_json::{Value, json};

const CALLS: usize = 100_000;

const FIRST: usize = 1_000;

/// Most growth of resident memory, in bytes.
const GROWTH: u64 = 5_000_000;

/// Calls in flight at a time; more than may be at work.
const TOGETHER: usize = 20;

/// What is asked in turn, and whether it is served.
fn calls() -> Vec<(Value, bool)> {
    let tool = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    vec![
        (tool("list_directory", json!({})), true),
        (tool("list_directory", json!({ "path": "../x" })), false),
        (tool("search_files", json!({ "query": "1" })), true),
        (tool("search_files", json!({ "query": "" })), false),
        (tool("search_text", json!({ "query": "line", "path": "d1" })), true),
        (tool("search_text", json!({ "query": "line", "cursor": "x" })), false),
        (tool("read_text_file", json!({ "path": "large" })), true),
        (tool("read_text_file", json!({ "path": "nope" })), false),
        (tool("write_text_file", json!({ "path": "new", "content": "x".repeat(1000) })), true),
        (tool("write_text_file", json!({ "path": "D", "content": "x" })), false),
        (tool("read_text_file", json!({ "path": "d2/f3" })), true),
        (tool("read_text_file", json!({ "path": "fifo" })), false),
        (tool("list_directory", json!({ "path": "d3", "limit": 1 })), true),
        (tool("nope", json!({})), false),
        (tool("search_files", json!({ "query": "absent" })), true),
        (json!({ "name": "list_directory", "arguments": [] }), false),
    ]
}

fn main() {
    let tree = Tree::new();
    for directory in 0..10 {
        for file in 0..10 {
            tree.write(&format!("d{directory}/f{file}"), "a line\nanother line\n");
        }
    }
    tree.write("large", "line\n".repeat(10_000));
    tree.fifo("fifo");
    let mut command = harness::binary();
    command.arg("--root").arg(tree.root()).args(["--include", "**"]);
    let mut server = Server::start(command);
    let calls = calls();
    let (mut resident, mut descriptors) = (0, 0);
    let (mut served, mut refused) = (0, 0);
    for batch in 0..CALLS / TOGETHER {
        let mut expected = std::collections::HashMap::new();
        for number in 0..TOGETHER {
            let (params, served) = &calls[(batch * TOGETHER + number) % calls.len()];
            expected.insert(server.send_request("tools/call", params.clone()), *served);
        }
        for _ in 0..TOGETHER {
            let answer = server.next_message();
            let id = answer["id"].as_u64().unwrap();
            let succeeded = answer["result"]["isError"] == false;
            assert_eq!(expected.remove(&id), Some(succeeded), "{answer}");
            if succeeded { served += 1 } else { refused += 1 }
        }
        if (batch + 1) * TOGETHER == FIRST {
            (resident, descriptors) = (server.resident(), server.descriptors());
        }
    }
    let (now, open) = (server.resident(), server.descriptors());
    println!("calls served, refused       {served:8} {refused}");
    println!("resident after 1,000 calls  {:8.2} MB", resident as f64 / 1e6);
    println!("... after 100,000           {:8.2} MB   (at most 5 more)", now as f64 / 1e6);
    println!("open descriptors            {descriptors:8} {open}   (the same)");
    assert!(served >= CALLS / 2 && refused >= CALLS / 2);
    assert!(now <= resident + GROWTH);
    assert_eq!(open, descriptors);
}
