//! What the connection costs, and how promptly calls stop and the process ends:
//! `cargo bench --features test-hooks --bench wire`.
//!
//! Each line is a median of one run on one machine; each bound is asserted. A read is measured against a tool of the same
//! server that only returns its text, and beside an echo server on rmcp's fastest transport for pipes, which is this
//! program itself.

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
mod measure;

use harness::{Server, Tree};
use measure::{RUNS, median, milliseconds, timed};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ProtocolVersion, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;

/// Calls of one round trip measurement.
const CALLS: usize = 2000;

fn main() {
    if std::env::args().nth(1).as_deref() == Some("echo") {
        return echo();
    }
    round_trips();
    beside_searches();
    cancellation();
    end();
}

/// A server over a file of 1 KiB, and one whose search takes far longer than any run.
fn serve(tree: &Tree) -> Server {
    let mut command = harness::binary();
    command.arg("--root").arg(tree.root()).args(["--include", "**", "--max-scan-bytes", "18446744073709551615"]);
    command.arg("--test-tools");
    Server::start(command)
}

fn tree() -> Tree {
    let tree = Tree::with(&[("kib", &"x".repeat(1024))]);
    std::fs::File::create(tree.path("huge")).unwrap().set_len(1 << 40).unwrap();
    tree
}

fn call(server: &mut Server, tool: &str, arguments: &Value) {
    let answer = server.request("tools/call", json!({ "name": tool, "arguments": arguments }));
    assert!(answer["result"]["content"].is_array(), "{answer}");
}

fn read(server: &mut Server) {
    call(server, "read_text_file", &json!({ "path": "kib" }));
}

/// Starts a search that does not end by itself.
fn search(server: &mut Server, id: &str) {
    let params = Server::with_meta(json!({ "name": "search_text", "arguments": { "query": "needle" } }));
    server.send_line(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string());
}

fn cancel(server: &mut Server, id: &str) {
    let params = json!({ "requestId": id });
    server.send_line(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }).to_string());
}

/// Each server has its own process, so that none of them finds what the one before it left in the caches.
fn round_trips() {
    let tree = tree();
    // About 1 KiB, and left alone for longer than a minute: a younger file is read twice.
    let mut command = harness::binary();
    command.args(["--root", env!("CARGO_MANIFEST_DIR"), "--include", "LICENSE"]);
    let mut server = Server::start(command);
    let mut echoing = serve(&tree);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("echo");
    let mut other = Server::start(command);
    let (settled, text) = (json!({ "path": "LICENSE" }), json!({ "text": "x".repeat(1024) }));
    let (mut reads, mut echoes, mut others) = (vec![], vec![], vec![]);
    for _ in 0..CALLS {
        reads.push(timed(|| call(&mut server, "read_text_file", &settled)));
        echoes.push(timed(|| call(&mut echoing, "echo", &text)));
        others.push(timed(|| call(&mut other, "echo", &text)));
    }
    let (read, echo, other) = (median(reads), median(echoes), median(others));
    let ratio = read.as_secs_f64() / echo.as_secs_f64();
    println!("read_text_file of 1 KiB     {:8.3} ms", milliseconds(read));
    println!("an echo of 1 KiB            {:8.3} ms", milliseconds(echo));
    println!("the one by the other        {ratio:8.2}      (at most 2)");
    println!("an echo server on rmcp      {:8.3} ms", milliseconds(other));
    assert!(ratio <= 2.0);
}

fn beside_searches() {
    let tree = tree();
    let mut server = serve(&tree);
    let searches: Vec<String> = (0..4).map(|number| format!("s{number}")).collect();
    searches.iter().for_each(|id| search(&mut server, id));
    let time = median((0..200).map(|_| timed(|| read(&mut server))));
    println!("... beside four searches    {:8.3} ms   (below 100)", milliseconds(time));
    assert!(time < Duration::from_millis(100));
}

/// Until the work has stopped: its place is free again, and a walk that waits for one is answered.
fn cancellation() {
    let tree = tree();
    let mut server = serve(&tree);
    let scan = json!({ "name": "search_text", "arguments": { "query": "needle" } });
    let next = json!({ "name": "list_directory", "arguments": { "path": "none" } });
    freed("cancelled scan to free place", &mut server, &scan, &next);

    // 100,000 files, each of which is looked at.
    let tree = Tree::new();
    for directory in 0..1000 {
        for file in 0..100 {
            tree.write(&format!("d{directory:04}/f{file:02}"), "");
        }
    }
    let mut command = harness::binary();
    command.arg("--root").arg(tree.root()).args(["--include", "**", "--max-file-bytes", "1000", "--test-tools"]);
    let mut server = Server::start(command);
    let walk = json!({ "name": "search_files", "arguments": { "query": "absent" } });
    let whole = median((0..5).map(|_| timed(|| drop(server.request("tools/call", walk.clone())))));
    println!("a whole walk, for itself    {:8.3} ms", milliseconds(whole));
    freed("cancelled walk to free place", &mut server, &walk, &next);
}

/// Four calls are begun and one of them is cancelled; then a fifth is answered.
fn freed(what: &str, server: &mut Server, long: &Value, next: &Value) {
    let mut times = vec![];
    for run in 0..RUNS {
        let ids: Vec<String> = (0..4).map(|number| format!("{run} {number}")).collect();
        for id in &ids {
            let params = Server::with_meta(long.clone());
            server.send_line(
                &json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string(),
            );
        }
        let waiting = server.send_request("tools/call", next.clone());
        // Which also lets the calls begin.
        for _ in 0..20 {
            call(server, "echo", &json!({ "text": "" }));
        }
        times.push(timed(|| {
            cancel(server, &ids[0]);
            assert!(server.answered(waiting));
        }));
        ids.iter().skip(1).for_each(|id| cancel(server, id));
    }
    let time = median(times);
    println!("{what}{:8.3} ms   (below 100)", milliseconds(time));
    assert!(time < Duration::from_millis(100));
}

fn end() {
    let tree = tree();
    let measure = |begin: &dyn Fn(&mut Server), end: &dyn Fn(Server) -> Option<i32>| {
        let times = (0..RUNS).map(|_| {
            let mut server = serve(&tree);
            server.request("server/discover", json!({}));
            begin(&mut server);
            let mut code = None;
            let time = timed(|| code = end(server));
            assert_eq!(code, Some(0));
            time
        });
        median(times)
    };
    let idle = |_: &mut Server| {};
    let signalled = |name: &'static str| {
        move |mut server: Server| {
            // By the shell, which has it built in; its start is measured with it.
            let kill = format!("kill {name} {}", server.pid());
            assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
            server.wait().status.code()
        }
    };
    for (what, time, bound) in [
        ("SIGTERM to exit, idle      ", measure(&idle, &signalled("-TERM")), 50),
        ("SIGINT to exit, idle       ", measure(&idle, &signalled("-INT")), 50),
        ("end of input to exit, idle ", measure(&idle, &|server| server.end().status.code()), 50),
        (
            "... with a call in flight  ",
            measure(&|server| search(server, "s"), &|server| server.end().status.code()),
            1500,
        ),
    ] {
        println!("{what} {:8.3} ms   (at most {bound})", milliseconds(time));
        assert!(time <= Duration::from_millis(bound));
    }
}

/// A server with one tool that returns the text it is given.
struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_protocol_version(ProtocolVersion::V_2026_07_28)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = request.arguments.as_ref().and_then(|arguments| arguments["text"].as_str()).unwrap_or_default();
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

fn echo() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let running = rmcp::service::serve_directly(Echo, rmcp::transport::stdio_pipes(), None);
        running.waiting().await.unwrap();
    });
    runtime.shutdown_background();
}
