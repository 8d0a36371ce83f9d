//! Calls in flight, cancellation, many requests, many servers, and the end.

use crate::harness::{Backend, DEADLINE, Finished, Server, Tree, VERSION, binary, finish_with, finished};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;

/// A root whose `huge` takes a search far longer than any test, without taking space.
pub fn tree() -> Tree {
    let tree = Tree::with(&[("a.txt", "alpha\n"), ("small/b.txt", "beta\n")]);
    std::fs::File::create(tree.path("huge")).unwrap().set_len(1 << 40).unwrap();
    tree
}

pub const UNBOUNDED: [&str; 4] = ["--include", "**", "--max-scan-bytes", "18446744073709551615"];

pub fn serve(tree: &Tree) -> Server {
    tree.serve_with(Backend::Openat2, &UNBOUNDED)
}

pub fn message(id: &Value, method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": Server::with_meta(params) }).to_string()
}

pub fn call(id: &Value, tool: &str, arguments: Value) -> String {
    message(id, "tools/call", json!({ "name": tool, "arguments": arguments }))
}

/// A search that does not end while a test runs.
pub fn endless(id: &Value) -> String {
    call(id, "search_text", json!({ "query": "needle", "path": "huge" }))
}

pub fn cancel(id: &Value) -> String {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }).to_string()
}

fn in_use(id: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32600, "message": "the id is in use" } })
}

/// Starts an endless search, and fails unless it is in flight.
pub fn begin(server: &mut Server, id: &Value) {
    server.send_line(&endless(id));
    server.send_line(&message(id, "server/discover", json!({})));
    assert_eq!(server.next_message(), in_use(id));
}

pub fn listing(server: &mut Server, id: &Value) {
    server.send_line(&call(id, "list_directory", json!({ "path": "small" })));
    let answer = server.next_message();
    assert_eq!(answer["id"], *id);
    assert_eq!(server.judge("list_directory", &answer).unwrap().column("path"), ["small/b.txt"]);
}

pub fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

pub fn ended_well(finished: &Finished) {
    assert_eq!(finished.status.code(), Some(0), "{finished:?}");
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("", ""));
}

/// A server whose output is read by the test itself, or not at all.
fn spawn(tree: &Tree) -> Child {
    let mut command = binary();
    command.arg("--root").arg(tree.root()).args(UNBOUNDED);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

// CWE-694: two requests share an id, and their answers are mixed up.
#[test]
fn an_id_in_use_is_refused_with_it_and_may_be_used_again_after_its_answer() {
    let tree = tree();
    let mut server = serve(&tree);
    for id in [json!(1_000_001), json!("a")] {
        begin(&mut server, &id);
        server.send_line(&call(&id, "list_directory", json!({})));
        assert_eq!(server.next_message(), in_use(&id));
        // A number and a string of the same digits are two ids.
        let other = if id.is_string() { json!(0) } else { json!("1000001") };
        listing(&mut server, &other);
        listing(&mut server, &other);
    }
}

#[test]
fn a_slow_call_keeps_no_other_waiting() {
    let tree = tree();
    let mut server = serve(&tree);
    begin(&mut server, &json!("slow"));
    for id in 0..20 {
        listing(&mut server, &json!(id));
    }
}

// CWE-400: a cancelled call goes on.
#[test]
fn a_cancelled_call_is_never_answered_and_its_id_is_free_at_once() {
    let tree = tree();
    let mut server = serve(&tree);
    for id in [json!("c"), json!(1_000_001)] {
        begin(&mut server, &id);
        server.send_line(&cancel(&id));
        listing(&mut server, &id);
        listing(&mut server, &json!("next"));
        // To cancel what is answered, or what was cancelled before, is nothing.
        server.send_line(&cancel(&id));
        server.send_line(&cancel(&json!("next")));
    }
    ended_well(&server.end());
}

#[test]
fn a_call_that_is_not_cancelled_is_answered_though_another_one_is() {
    let tree = tree();
    let mut server = serve(&tree);
    begin(&mut server, &json!("1"));
    for id in [json!(1), json!("2"), json!(null)] {
        server.send_line(&cancel(&id));
    }
    server.send_line(&message(&json!("1"), "server/discover", json!({})));
    assert_eq!(server.next_message(), in_use(&json!("1")));
}

// CWE-400: a cancelled call keeps its place.
#[test]
fn cancelled_calls_give_back_what_they_hold() {
    let tree = tree();
    let mut server = serve(&tree);
    listing(&mut server, &json!("before"));
    // Far more than run at one time.
    for number in 0..40 {
        let id = json!(format!("c{number}"));
        begin(&mut server, &id);
        server.send_line(&cancel(&id));
    }
    listing(&mut server, &json!("after"));
    ended_well(&server.end());
}

#[test]
fn calls_that_take_all_the_room_there_is_can_be_cancelled() {
    let tree = tree();
    let mut server = serve(&tree);
    let ids: Vec<Value> = (0..64).map(|number| json!(format!("c{number}"))).collect();
    ids.iter().for_each(|id| server.send_line(&endless(id)));
    ids.iter().for_each(|id| server.send_line(&cancel(id)));
    listing(&mut server, &json!("after"));
    ended_well(&server.end());
}

#[test]
fn a_call_that_waits_for_others_can_be_cancelled_too() {
    let tree = tree();
    let mut server = serve(&tree);
    for number in 0..12 {
        begin(&mut server, &json!(format!("c{number}")));
    }
    // The last of them wait for a place.
    for number in (0..12).rev() {
        server.send_line(&cancel(&json!(format!("c{number}"))));
    }
    listing(&mut server, &json!("after"));
}

#[test]
fn the_end_of_input_ends_the_process() {
    let tree = tree();
    ended_well(&serve(&tree).end());

    let mut server = serve(&tree);
    listing(&mut server, &json!(1));
    ended_well(&server.end());
}

#[test]
fn the_end_of_input_ends_the_process_with_a_call_in_flight() {
    let tree = tree();
    let mut server = serve(&tree);
    begin(&mut server, &json!(1));
    let finished = server.end();
    assert_eq!((finished.status.code(), finished.stderr.as_str()), (Some(0), ""));
}

#[test]
fn what_was_asked_before_the_end_of_input_is_answered() {
    let tree = tree();
    let input: String =
        (0..20).map(|id| call(&json!(id), "read_text_file", json!({ "path": "a.txt" })) + "\n").collect();
    let finished = finish_with(binary().arg("--root").arg(tree.root()).args(UNBOUNDED), input.as_bytes());
    assert_eq!((finished.status.code(), finished.stderr.as_str()), (Some(0), ""));
    let mut ids: Vec<u64> = finished
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_u64().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, Vec::from_iter(0..20));
}

#[test]
fn sigterm_and_sigint_end_the_process_with_success_while_the_input_is_open() {
    let tree = tree();
    for name in ["-TERM", "-INT"] {
        let mut server = serve(&tree);
        listing(&mut server, &json!(1));
        signal(name, server.pid());
        ended_well(&server.wait());

        let mut server = serve(&tree);
        begin(&mut server, &json!(1));
        signal(name, server.pid());
        ended_well(&server.wait());
    }
}

// CWE-755: a closed output causes a panic.
#[test]
fn a_host_that_closes_the_output_sees_no_panic() {
    let tree = tree();
    let mut child = spawn(&tree);
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    writeln!(stdin, "{}", message(&json!(1), "server/discover", json!({}))).unwrap();
    let mut answer = String::new();
    stdout.read_line(&mut answer).unwrap();
    assert!(answer.contains(VERSION), "it was at work: {answer}");
    drop(stdout);
    for id in 2..20 {
        // It may have ended by now.
        if writeln!(stdin, "{}", call(&json!(id), "read_text_file", json!({ "path": "a.txt" }))).is_err() {
            break;
        }
    }
    drop(stdin);
    let finished = finished(child);
    assert_eq!((finished.status.code(), finished.stderr.as_str()), (Some(0), ""));
}

// CWE-833: both sides wait for the other to read.
#[test]
fn a_host_that_writes_200_requests_before_it_reads_gets_200_answers() {
    let tree = tree();
    tree.write("page", "x".repeat(20_000));
    let mut child = spawn(&tree);
    let mut stdin = child.stdin.take().unwrap();
    for id in 0..200 {
        let line = match id % 4 {
            0 => call(&json!(id), "read_text_file", json!({ "path": "page" })),
            1 => message(&json!(id), "tools/list", json!({})),
            2 => call(&json!(id), "list_directory", json!({})),
            _ => message(&json!(id), "nope", json!({})),
        };
        writeln!(stdin, "{line}").unwrap();
    }
    let stdout = child.stdout.take().unwrap();
    let (sender, answers) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut ids: Vec<u64> = (0..200)
        .map(|_| {
            serde_json::from_str::<Value>(&answers.recv_timeout(DEADLINE).unwrap()).unwrap()["id"].as_u64().unwrap()
        })
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, Vec::from_iter(0..200));
    drop(stdin);
    let finished = finished(child);
    assert_eq!((finished.status.code(), finished.stderr.as_str()), (Some(0), ""));
    assert_eq!(answers.recv_timeout(DEADLINE).ok(), None, "no answer too many");
}

#[test]
fn a_host_that_does_not_read_cannot_keep_the_process_from_its_end() {
    let tree = tree();
    tree.write("page", "x".repeat(20_000));
    for signalled in [true, false] {
        let mut child = spawn(&tree);
        let mut stdin = child.stdin.take().unwrap();
        // Far more than a pipe holds, and than are read.
        for id in 0..100 {
            writeln!(stdin, "{}", call(&json!(id), "read_text_file", json!({ "path": "page" }))).unwrap();
        }
        let mut stdout = child.stdout.take().unwrap();
        let mut first = [0];
        stdout.read_exact(&mut first).unwrap();
        assert_eq!(first, *b"{", "it is answering");
        if signalled {
            signal("-TERM", child.id());
        } else {
            drop(stdin);
        }
        let finished = finished(child);
        assert_eq!((finished.status.code(), finished.stderr.as_str()), (Some(0), ""));
        drop(stdout);
    }
}

#[test]
fn ten_servers_start_at_once_on_one_root() {
    let tree = Tree::with(&[("small/b.txt", "beta\n")]);
    let mut servers: Vec<Server> = (0..10).map(|_| tree.serve(Backend::Openat2)).collect();
    let names: Vec<String> = (0..10).map(|number| format!("w{number}")).collect();
    for (server, name) in servers.iter_mut().zip(&names) {
        server.send_line(&call(&json!("w"), "write_text_file", json!({ "path": name, "content": "x" })));
    }
    for server in &mut servers {
        let answer = server.next_message();
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        listing(server, &json!(1));
    }
    for server in servers {
        ended_well(&server.end());
    }
    assert_eq!(tree.names(), [&["small".to_owned()], &names[..]].concat());
}

#[test]
fn a_server_starts_without_touching_the_root() {
    let tree = Tree::with(&[("a.txt", "alpha\n")]);
    let before = std::fs::metadata(tree.root()).unwrap().modified().unwrap();
    let mut server = tree.serve(Backend::Openat2);
    server.request("server/discover", json!({}));
    server.request("tools/list", json!({}));
    ended_well(&server.end());
    assert_eq!(tree.names(), ["a.txt"]);
    assert_eq!(std::fs::metadata(tree.root()).unwrap().modified().unwrap(), before);
}

#[test]
fn the_input_may_be_a_file_and_the_output_too() {
    let tree = tree();
    let (input, output) = (tree.above().join("input"), tree.above().join("output"));
    std::fs::write(&input, message(&json!(1), "server/discover", json!({})) + "\n").unwrap();
    let status = binary()
        .arg("--root")
        .arg(tree.root())
        .args(UNBOUNDED)
        .stdin(std::fs::File::open(&input).unwrap())
        .stdout(std::fs::File::create(&output).unwrap())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0));
    let answer: Value = serde_json::from_str(&std::fs::read_to_string(&output).unwrap()).unwrap();
    assert_eq!(answer["result"]["supportedVersions"], json!([VERSION]));
}
