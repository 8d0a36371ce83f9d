//! The two ends of the connection, in the hands of a host that reads late, not at all, or without blocking.

use crate::harness::{Backend, DEADLINE, END, Mounted, Tree, binary, both_back_ends, is_root};
use rustix::fs::OFlags;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

fn call(id: usize, tool: &str, arguments: &Value) -> String {
    let params = json!({
        "name": tool,
        "arguments": arguments,
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

fn server(tree: &Tree) -> Command {
    server_on(tree, Backend::Openat2)
}

fn server_on(tree: &Tree, backend: Backend) -> Command {
    let mut command = binary();
    command.arg("--root").arg(tree.root()).args(["--include", "**"]);
    if backend == Backend::Components {
        command.arg("--test-component-walk");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Ends with the test, whatever happens.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn resident(child: &Child) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{}/statm", child.id())).unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Until a server does nothing any more: all its threads sleep, and it has read no further in its input between two looks.
fn until_at_rest(child: &Child) -> u64 {
    let look = || {
        let info = std::fs::read_to_string(format!("/proc/{}/fdinfo/0", child.id())).unwrap();
        let position = info.lines().next().unwrap().strip_prefix("pos:").unwrap().trim().parse::<u64>().unwrap();
        let asleep = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().all(|task| {
            let stat = std::fs::read_to_string(task.unwrap().path().join("stat"));
            stat.is_ok_and(|stat| stat.rsplit(')').next().unwrap().trim_start().starts_with('S'))
        });
        (asleep, position)
    };
    let started = Instant::now();
    let mut last = (false, 0);
    // A thread is seldom seen asleep while it works, and never so often.
    let mut equal = 0;
    while equal < 200 {
        assert!(started.elapsed() < DEADLINE, "it goes on and on");
        let now = look();
        equal = if now.0 && now == last && now.1 > 0 { equal + 1 } else { 0 };
        last = now;
    }
    last.1
}

both_back_ends! {
    // CWE-770: answers that nobody reads pile up in memory.
    fn requests_whose_answers_nobody_reads_wait_in_bounded_memory_and_are_all_answered(backend) {
        const REQUESTS: usize = 10_000;
        let tree = Tree::with(&[("f", &"x".repeat(16_000))]);
        let requests: String = (0..REQUESTS).map(|id| call(id, "read_text_file", &json!({ "path": "f" })) + "\n").collect();
        let file = tree.above().join("requests");
        std::fs::write(&file, requests).unwrap();
        // From a file, so that the input has ended before anything is read.
        let mut child = Running(server_on(&tree, backend).stdin(std::fs::File::open(&file).unwrap()).spawn().unwrap());
        let stdout = child.0.stdout.take().unwrap();
        let read = until_at_rest(&child.0);
        assert!(read < std::fs::metadata(&file).unwrap().len() / 2, "it stopped reading: {read}");
        let held = resident(&child.0);
        assert!(held < 40_000_000, "{held} bytes while nobody reads");
        let mut answered = vec![false; REQUESTS];
        for line in BufReader::new(stdout).lines() {
            let answer: Value = serde_json::from_str(&line.unwrap()).expect("every line is whole");
            let id = usize::try_from(answer["id"].as_u64().unwrap()).unwrap();
            assert_eq!(answer["result"]["isError"], false);
            assert!(!std::mem::replace(&mut answered[id], true), "{id} is answered once");
        }
        assert!(answered.iter().all(|answered| *answered));
        assert_eq!(child.0.wait().unwrap().code(), Some(0));
    }
}

// CWE-755: a stream that is not ready for the moment ends the server.
#[test]
fn standard_input_and_output_may_be_non_blocking() {
    let tree = Tree::with(&[("f", &"x".repeat(16_000))]);
    let (input, mut requests) = std::io::pipe().unwrap();
    let (answers, output) = std::io::pipe().unwrap();
    for end in [std::os::fd::AsFd::as_fd(&input), std::os::fd::AsFd::as_fd(&output)] {
        rustix::fs::fcntl_setfl(end, rustix::fs::fcntl_getfl(end).unwrap() | OFlags::NONBLOCK).unwrap();
    }
    let mut child = Running(server(&tree).stdin(input).stdout(output).spawn().unwrap());
    let mut lines = BufReader::new(answers).lines();
    for id in 0..3 {
        // Between two requests the input has nothing to give.
        writeln!(requests, "{}", call(id, "list_directory", &json!({}))).unwrap();
        let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["id"], id);
    }
    // And here the output has no room for what is answered.
    for id in 0..20 {
        writeln!(requests, "{}", call(id, "read_text_file", &json!({ "path": "f" }))).unwrap();
    }
    drop(requests);
    let rest: Vec<Value> = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert_eq!(rest.len(), 20);
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
}

both_back_ends! {
    // CWE-755: work goes on for nobody.
    fn a_host_that_closes_the_output_gets_nothing_more_done(backend) {
        const REQUESTS: usize = 3000;
        let tree = Tree::new();
        let write = |number: usize| json!({ "path": format!("f{number}"), "content": "x" });
        let requests: String = (0..REQUESTS).map(|number| call(number, "write_text_file", &write(number)) + "\n").collect();
        let file = tree.above().join("requests");
        std::fs::write(&file, requests).unwrap();
        let mut child = Running(server_on(&tree, backend).stdin(std::fs::File::open(&file).unwrap()).spawn().unwrap());
        drop(child.0.stdout.take());
        // The first answers meet the closed output. What was admitted by then is done, and nothing after it.
        assert_eq!(child.0.wait().unwrap().code(), Some(0));
        assert!(tree.names().len() < REQUESTS / 2, "{} files", tree.names().len());
    }
}

// CWE-789: small arguments take many times their size.
#[test]
fn calls_that_wait_with_many_small_arguments_take_bounded_memory() {
    let tree = Tree::new();
    std::fs::File::create(tree.path("huge")).unwrap().set_len(1 << 40).unwrap();
    let mut command = server(&tree);
    command.args(["--max-scan-bytes", "18446744073709551615"]);
    let mut child = Running(command.spawn().unwrap());
    let mut requests = child.0.stdin.take().unwrap();
    for id in 0..4 {
        writeln!(requests, "{}", call(id, "search_text", &json!({ "query": "needle" }))).unwrap();
    }
    // The most that params may hold, in the shape that takes most room.
    let small = vec![json!({ "": 0 }); 4_900];
    for id in 4..60 {
        writeln!(requests, "{}", call(id, "search_text", &json!({ "query": "needle", "z": small }))).unwrap();
    }
    let one_more = json!({ "z": vec![small.clone(); 3] });
    writeln!(requests, "{}", call(99, "search_text", &one_more)).unwrap();
    // It stands behind all others, and needs no place.
    let mut answer = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(
        (&answer["id"], &answer["error"]["message"]),
        (&json!(99), &json!("params hold more than 10000 values"))
    );
    let held = resident(&child.0);
    assert!(held < 200_000_000, "{held} bytes");
}

// CWE-400: work goes on for nobody.
#[test]
fn a_host_that_closes_the_output_stops_the_calls_at_work() {
    let tree = Tree::with(&[("a.txt", "a")]);
    std::fs::File::create(tree.path("huge")).unwrap().set_len(1 << 40).unwrap();
    let mut command = server(&tree);
    command.args(["--max-scan-bytes", "18446744073709551615"]);
    let mut child = Running(command.spawn().unwrap());
    let mut requests = child.0.stdin.take().unwrap();
    let mut answers = BufReader::new(child.0.stdout.take().unwrap());
    writeln!(requests, "{}", call(0, "search_text", &json!({ "query": "needle" }))).unwrap();
    writeln!(requests, "{}", call(1, "read_text_file", &json!({ "path": "a.txt" }))).unwrap();
    let mut answer = String::new();
    answers.read_line(&mut answer).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&answer).unwrap()["id"], 1);
    drop(answers);
    // An answer meets the closed output; the input stays open.
    writeln!(requests, "{}", call(2, "read_text_file", &json!({ "path": "a.txt" }))).unwrap();
    let started = Instant::now();
    while child.0.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < END - std::time::Duration::from_secs(1), "it waits for the search");
        std::thread::yield_now();
    }
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
}

// CWE-400: calls keep the process alive when its host is gone.
#[test]
fn long_calls_do_not_keep_the_process_after_the_end_of_input_though_all_rooms_are_taken() {
    let tree = Tree::new();
    std::fs::File::create(tree.path("huge")).unwrap().set_len(1 << 40).unwrap();
    let mut command = server(&tree);
    command.args(["--max-scan-bytes", "18446744073709551615"]);
    let mut child = Running(command.spawn().unwrap());
    let mut requests = child.0.stdin.take().unwrap();
    // More than rooms and what is read ahead: the end stands behind lines that are not read.
    for id in 0..80 {
        writeln!(requests, "{}", call(id, "search_text", &json!({ "query": "needle" }))).unwrap();
    }
    drop(requests);
    let answers: Vec<Value> = BufReader::new(child.0.stdout.take().unwrap())
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    assert_eq!(answers.len(), 80);
    for answer in answers {
        let error = json!({ "code": -32603, "message": "the input ended before the call did" });
        assert_eq!(answer["error"], error);
    }
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
}

// CWE-400: a cancelled call keeps its place.
#[test]
fn a_cancellation_with_a_senseless_reason_is_a_cancellation() {
    let tree = Tree::with(&[("a.txt", "a")]);
    std::fs::File::create(tree.path("huge")).unwrap().set_len(1 << 40).unwrap();
    let mut command = server(&tree);
    command.args(["--max-scan-bytes", "18446744073709551615"]);
    let mut child = Running(command.spawn().unwrap());
    let mut requests = child.0.stdin.take().unwrap();
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    // Each would hold one of eight places.
    for id in 0..40 {
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "reason": 7, "requestId": id } });
        writeln!(requests, "{}\n{cancel}", call(id, "search_text", &json!({ "query": "needle" }))).unwrap();
    }
    writeln!(requests, "{}", call(99, "read_text_file", &json!({ "path": "a.txt" }))).unwrap();
    let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(99), &json!(false)));
}

// CWE-400: diagnostics that nobody reads stop the server.
#[test]
fn standard_error_may_be_left_unread() {
    if !is_root() {
        return;
    }
    let tree = Tree::new();
    let _mounted = Mounted::new(&["-t", "tmpfs", "-o", "ro"], std::path::Path::new("none"), tree.root());
    let mut child = Running(server(&tree).spawn().unwrap());
    let mut requests = child.0.stdin.take().unwrap();
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    for id in 0..3000 {
        writeln!(requests, "{}", call(id, "write_text_file", &json!({ "path": "f", "content": "x" }))).unwrap();
        let answer: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "write failed");
    }
    let unread = rustix::io::ioctl_fionread(child.0.stderr.as_ref().unwrap()).unwrap();
    assert!(unread > 40_000, "the pipe is as good as full: {unread}");
}
