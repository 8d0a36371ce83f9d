//! Short calls beside long ones, a panic in a tool, and writes that nobody waits for any more.

use crate::harness::{Backend, DEADLINE, Server, both_back_ends, finished};
use crate::lifecycle::{UNBOUNDED, begin, call, cancel, ended_well, listing, serve, signal, tree};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Instant;

fn until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < DEADLINE, "{what} does not come about");
        std::thread::yield_now();
    }
}

// CWE-400: searches take the places of reads.
#[test]
fn short_calls_are_answered_while_more_searches_run_than_may_and_walks_wait_for_these() {
    let tree = tree();
    let mut server = serve(&tree);
    let searches: Vec<Value> = (0..12).map(|number| json!(format!("s{number}"))).collect();
    searches.iter().for_each(|id| begin(&mut server, id));
    server.send_line(&call(&json!("walk"), "list_directory", json!({ "path": "small" })));
    for number in 0..20 {
        let written = json!({ "path": "new", "content": number.to_string() });
        assert_eq!(server.ok("write_text_file", written).structured["path"], "new");
        assert_eq!(server.text("new"), number.to_string());
        assert_eq!(server.text("small/b.txt"), "beta\n");
    }
    searches.iter().for_each(|id| server.send_line(&cancel(id)));
    let answer = server.next_message();
    assert_eq!(answer["id"], "walk");
    assert_eq!(server.judge("list_directory", &answer).unwrap().column("path"), ["small/b.txt"]);
}

// CWE-755: a fault takes the server, or a place, with it.
#[test]
fn a_panic_in_a_tool_is_an_internal_error_and_takes_no_place_with_it() {
    let tree = tree();
    let mut server = tree.serve_with(Backend::Openat2, &["--include", "**", "--test-tools"]);
    // Far more than may be at work at one time.
    for number in 0..20 {
        let id = json!(format!("p{number}"));
        server.send_line(&call(&id, "search_files", json!({ "query": "panic" })));
        let error = json!({ "code": -32603, "message": "internal error" });
        assert_eq!(server.next_message(), json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        listing(&mut server, &id);
    }
    let finished = server.end();
    assert_eq!((finished.status.code(), finished.stdout.as_str()), (Some(0), ""));
    // Where it happened, and nothing of what it was about.
    for line in finished.stderr.lines() {
        let number = line.strip_prefix("internal error in calls.rs, line ").unwrap_or_else(|| panic!("{line}"));
        assert!(number.parse::<u32>().is_ok(), "{line}");
    }
    assert_eq!(finished.stderr.lines().count(), 20);
}

both_back_ends! {
    // CWE-755: a closed standard error turns a fault into the end.
    fn a_panic_that_nobody_hears_of_is_survived_too(backend) {
        let tree = tree();
        let mut command = crate::harness::binary();
        command.arg("--root").arg(tree.root()).args(["--include", "**", "--test-tools"]);
        if backend == Backend::Components {
            command.arg("--test-component-walk");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stderr.take());
        let mut stdin = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for id in 0..3 {
            writeln!(stdin, "{}", call(&json!(id), "search_files", json!({ "query": "panic" }))).unwrap();
            let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32603)));
        }
        drop(stdin);
        assert_eq!(finished(child).status.code(), Some(0));
    }
}

// CWE-755: a signal of a closed pipe ends the server.
#[test]
fn sigpipe_ends_nothing() {
    let tree = tree();
    let mut server = serve(&tree);
    listing(&mut server, &json!(1));
    signal("-PIPE", server.pid());
    listing(&mut server, &json!(2));
    ended_well(&server.end());
}

// CWE-755: streams that were never open cause a panic.
#[test]
fn a_server_started_without_any_open_stream_ends_without_a_panic() {
    let tree = tree();
    let script = r#"exec "$0" "$@" <&- >&- 2>&-"#;
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_ptc-fs-mcp"), "--root"]).arg(tree.root()).args(UNBOUNDED);
    assert_eq!(command.status().unwrap().code(), Some(0));
}

/// Sends a write that takes a while, and waits until it has begun.
fn begin_write(server: &mut Server, content: &str) {
    server.request("tools/list", json!({}));
    let idle = server.descriptors();
    server.send_line(&call(&json!("w"), "write_text_file", json!({ "path": "new", "content": content })));
    let before = std::cell::Cell::new(idle);
    until("the write", || before.replace(server.descriptors()) > idle);
}

// CWE-460: a cancellation leaves half of a write.
#[test]
fn a_write_that_has_begun_is_carried_to_its_end_though_it_is_cancelled() {
    let tree = tree();
    let options = ["--include", "**", "--max-write-bytes", "33554432"];
    let content = "x".repeat(33_000_000);
    let mut server = tree.serve_with(Backend::Openat2, &options);
    begin_write(&mut server, &content);
    server.send_line(&cancel(&json!("w")));
    // Its id is free at once, and it is never answered itself.
    listing(&mut server, &json!("w"));
    until("the file", || tree.path("new").exists());
    assert!(tree.read("new") == content.as_bytes(), "the file is whole");
    listing(&mut server, &json!("after"));
    ended_well(&server.end());
}

// CWE-460: a closed output leaves half of a write.
#[test]
fn a_write_whose_host_closes_the_output_leaves_the_whole_file_or_none() {
    let tree = tree();
    let content = "x".repeat(8_000_000);
    let request = call(&json!("w"), "write_text_file", json!({ "path": "new", "content": content }));
    let mut command = crate::harness::binary();
    command.arg("--root").arg(tree.root()).args(["--include", "**", "--max-write-bytes", "8000000"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{request}").unwrap();
    until("the file", || tree.path("new").exists());
    assert!(tree.read("new") == content.as_bytes());
    drop(stdin);
    let finished = finished(child);
    assert_eq!((finished.status.code(), finished.stderr.as_str()), (Some(0), ""));
}
