//! What a client that asked for it hears of a call that takes long.

use crate::harness::{Backend, Server, Tree};
use crate::lifecycle::{UNBOUNDED, cancel, listing, serve, tree};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// More than twice what a call works before it is spoken of.
const LONG: Duration = Duration::from_millis(700);

fn search(id: &Value, token: &Value) -> String {
    let mut params =
        Server::with_meta(json!({ "name": "search_text", "arguments": { "query": "needle", "path": "huge" } }));
    params["_meta"]["progressToken"] = token.clone();
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

/// How far a call has come, after the shape of the notification was checked.
fn progress(message: &Value, token: &Value) -> f64 {
    let progress = message["params"]["progress"].as_f64().unwrap_or_else(|| panic!("{message}"));
    let text = message["params"]["message"].as_str().unwrap();
    let params = json!({ "progressToken": token, "progress": progress, "message": text });
    assert_eq!(*message, json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }));
    let [entries, bytes] = *text
        .split(|character: char| !character.is_ascii_digit())
        .filter_map(|number| number.parse::<f64>().ok())
        .collect::<Vec<_>>()
    else {
        panic!("{text}")
    };
    assert_eq!(text, format!("{entries} directory entries met, {bytes} bytes read"));
    assert!((entries + bytes - progress).abs() < 0.5, "{message}");
    progress
}

/// Fails when anything but the answers to these calls comes for a while.
fn is_silent(server: &mut Server) {
    let started = Instant::now();
    let mut number = 0;
    while started.elapsed() < LONG {
        number += 1;
        server.request("server/discover", json!({}));
    }
    assert!(number > 10);
}

#[test]
fn progress_increases_under_its_token_and_ends_with_the_call() {
    let tree = tree();
    let mut server = serve(&tree);
    for token in [json!("t"), json!(7), json!(-1), json!(""), json!("\u{1f600} \"\n")] {
        server.send_line(&search(&json!("s"), &token));
        let mut before = 0.0;
        for _ in 0..3 {
            let now = progress(&server.next_message(), &token);
            assert!(now > before, "{now} after {before}");
            before = now;
        }
        server.send_line(&cancel(&json!("s")));
        // What was written before the cancellation was read comes before this answer.
        let id = server.send_request("server/discover", json!({}));
        loop {
            let message = server.next_message();
            if message["id"] == id {
                break;
            }
            before = progress(&message, &token).max(before);
        }
        is_silent(&mut server);
    }
}

#[test]
fn a_call_that_is_answered_is_not_spoken_of_afterwards() {
    let tree = tree();
    // As much as takes a second or more.
    let mut server = tree.serve_with(Backend::Openat2, &["--include", "**", "--max-scan-bytes", "1000000000"]);
    server.send_line(&search(&json!("s"), &json!("t")));
    let mut notifications = 0;
    let answer = loop {
        let message = server.next_message();
        if message.get("id").is_some() {
            break message;
        }
        progress(&message, &json!("t"));
        notifications += 1;
    };
    assert!(notifications > 0, "it took long enough to be spoken of");
    assert!(server.judge("search_text", &answer).unwrap().cursor().is_some());
    is_silent(&mut server);
}

#[test]
fn there_are_at_most_ten_notifications_a_second() {
    let tree = tree();
    let mut server = serve(&tree);
    let asked = Instant::now();
    server.send_line(&search(&json!("s"), &json!("t")));
    for _ in 0..21 {
        progress(&server.next_message(), &json!("t"));
    }
    // None may come sooner, however late it is read: the first after a quarter of a second, then ten a second.
    assert!(asked.elapsed() > Duration::from_millis(2250), "{:?}", asked.elapsed());
}

#[test]
fn a_short_call_and_one_without_a_token_are_not_spoken_of() {
    let tree = tree();
    let mut server = serve(&tree);
    let mut params = Server::with_meta(json!({ "name": "read_text_file", "arguments": { "path": "a.txt" } }));
    params["_meta"]["progressToken"] = json!("t");
    server.send_line(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string());
    assert_eq!(server.next_message()["id"], 1);
    for token in [json!(null), json!(1.5), json!({}), json!(["t"]), json!(true), json!("x".repeat(1025))] {
        server.send_line(&search(&json!("s"), &token));
        is_silent(&mut server);
        server.send_line(&cancel(&json!("s")));
    }
    listing(&mut server, &json!("after"));
}

#[test]
fn walks_are_spoken_of_by_the_entries_they_met() {
    let tree = Tree::new();
    for directory in 0..200 {
        std::fs::create_dir(tree.path(format!("d{directory}"))).unwrap();
    }
    std::fs::File::create(tree.path("huge")).unwrap().set_len(1 << 40).unwrap();
    let mut server = tree.serve_with(Backend::Openat2, &UNBOUNDED);
    server.send_line(&search(&json!("s"), &json!("t")));
    let message = server.next_message();
    progress(&message, &json!("t"));
    // `huge` is named itself, so that no entry is met on the way to it.
    assert!(message["params"]["message"].as_str().unwrap().starts_with("0 directory entries met, "), "{message}");
    server.send_line(&cancel(&json!("s")));

    let mut params = Server::with_meta(json!({ "name": "search_text", "arguments": { "query": "needle" } }));
    params["_meta"]["progressToken"] = json!("whole");
    server.send_line(&json!({ "jsonrpc": "2.0", "id": "w", "method": "tools/call", "params": params }).to_string());
    let message = loop {
        let message = server.next_message();
        if message["params"]["progressToken"] == "whole" {
            break message;
        }
    };
    progress(&message, &json!("whole"));
    assert!(message["params"]["message"].as_str().unwrap().starts_with("201 directory entries met, "), "{message}");
}
