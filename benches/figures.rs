//! The figures that the README states, measured on the built binary: `cargo bench --bench figures`.
//!
//! Each line is a median of interleaved runs on one machine in one run; each bound is asserted. Needs `find`.

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
use serde_json::json;
use std::process::{Command, Stdio};
use std::time::Duration;

fn main() {
    start_and_memory();
    walk();
}

fn serve(tree: &Tree) -> Server {
    let mut command = harness::binary();
    command.arg("--root").arg(tree.root()).args(["--include", "**"]);
    Server::start(command)
}

fn start_and_memory() {
    let tree = Tree::with(&[("a.txt", "hello")]);
    let mut resident = 0;
    let start = median((0..RUNS).map(|_| {
        timed(|| {
            let mut server = serve(&tree);
            server.request("server/discover", json!({}));
            resident = resident.max(server.resident());
        })
    }));
    println!("start to first answer       {:8.2} ms   (below 10)", milliseconds(start));
    println!("resident memory when idle   {:8.2} MB   (below 10)", resident as f64 / 1e6);
    let mut server = serve(&tree);
    server.ok("read_text_file", json!({ "path": "a.txt" }));
    let call = json!({ "name": "read_text_file", "arguments": { "path": "a.txt" } });
    let read = median((0..500).map(|_| timed(|| drop(server.request("tools/call", call.clone())))));
    println!("read of 5 bytes, round trip {:8.3} ms", milliseconds(read));
    assert!(start < Duration::from_millis(10) && resident < 10_000_000);
}

/// 100,000 files in 1,000 directories.
fn walk() {
    let tree = Tree::new();
    for directory in 0..1000 {
        std::fs::create_dir(tree.path(format!("d{directory:04}"))).unwrap();
        for file in 0..100 {
            std::fs::write(tree.path(format!("d{directory:04}/f{file:02}.txt")), "line\n").unwrap();
        }
    }
    let mut server = serve(&tree);
    let find = || {
        let mut find = Command::new("find");
        assert!(find.arg(tree.root()).args(["-type", "f"]).stdout(Stdio::null()).status().unwrap().success());
    };
    let mut call = |tool: &str, arguments: serde_json::Value| {
        let arguments = json!({ "name": tool, "arguments": arguments });
        let answer = server.request("tools/call", arguments);
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    };
    find();
    let (mut finds, mut names, mut lists, mut texts) = (vec![], vec![], vec![], vec![]);
    for run in 0..RUNS {
        finds.push(timed(find));
        names.push(timed(|| call("search_files", json!({ "query": "f99" }))));
        lists.push(timed(|| call("list_directory", json!({}))));
        if run < 5 {
            texts.push(timed(|| call("search_text", json!({ "query": "absent" }))));
        }
    }
    let (find, name, list) = (median(finds), median(names), median(lists));
    let bound = find.mul_f64(1.5) + Duration::from_millis(20);
    println!("find -type f, 100,000 files {:8.2} ms", milliseconds(find));
    println!(
        "search_files, one page      {:8.2} ms   (below {:.2}: 1.5 x find + 20)",
        milliseconds(name),
        milliseconds(bound)
    );
    println!("list_directory of the root  {:8.2} ms", milliseconds(list));
    println!("search_text, no match       {:8.2} ms", milliseconds(median(texts)));
    assert!(name < bound);
}
