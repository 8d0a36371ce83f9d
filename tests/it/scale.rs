//! Many files, many directories, and what a call does not look at.

use crate::harness::{Backend, Server, Tree, binary, both_back_ends, has};
use serde_json::json;
use std::collections::BTreeSet;

/// 1,000 directories of 100 files each; one file in a thousand holds `needle`.
fn hundred_thousand() -> Tree {
    let tree = Tree::new();
    for directory in 0..1000 {
        std::fs::create_dir(tree.path(format!("d{directory:03}"))).unwrap();
        for file in 0..100 {
            let content = if file == 50 && directory % 10 == 0 { "a needle\n" } else { "line\n" };
            std::fs::write(tree.path(format!("d{directory:03}/f{file:02}.txt")), content).unwrap();
        }
    }
    tree
}

// CWE-770: many files fail a walk, or are left out without a word.
#[test]
fn every_tool_works_over_100_000_files_in_1_000_directories() {
    let tree = hundred_thousand();
    for backend in [Backend::Openat2, Backend::Components] {
        let mut server = tree.serve(backend);
        let directories = server.all("list_directory", json!({}), "path");
        assert_eq!(directories, (0..1000).map(|n| format!("d{n:03}")).collect::<Vec<_>>());
        let found = server.all("search_files", json!({ "query": "f99" }), "path");
        assert_eq!(found, (0..1000).map(|n| format!("d{n:03}/f99.txt")).collect::<Vec<_>>());
        let lines = server.all("search_text", json!({ "query": "needle" }), "path");
        assert_eq!(lines, (0..100).map(|n| format!("d{:03}/f50.txt", n * 10)).collect::<Vec<_>>());
        assert_eq!(server.text("d999/f98.txt"), "line\n");
        let written = server.ok("write_text_file", json!({ "path": "new.txt", "content": "needle" }));
        assert_eq!(written.structured["bytes"], 6);
        std::fs::remove_file(tree.path("new.txt")).unwrap();
        let descriptors = server.descriptors();
        server.ok("search_files", json!({ "query": "absent" }));
        assert_eq!(server.descriptors(), descriptors, "a walk gives back what it opened");
    }
}

both_back_ends! {
    // CWE-770: a listing ends at some bound without a word.
    fn a_directory_of_more_than_4_096_files_is_listed_whole_and_each_file_once(backend) {
        let tree = Tree::new();
        for file in 0..4097 {
            std::fs::write(tree.path(format!("f{file:04}")), "").unwrap();
        }
        let mut server = tree.serve(backend);
        let pages = server.pages("list_directory", json!({}));
        let paths: Vec<String> = pages.iter().flat_map(|page| page.column("path")).collect();
        assert_eq!(paths, (0..4097).map(|n| format!("f{n:04}")).collect::<Vec<_>>());
        assert_eq!(pages.len(), 21, "200 items a page");
    }
}

/// The names that a call opened, from its system calls.
fn opened(tree: &Tree, backend: Backend, tool: &str, arguments: &serde_json::Value) -> BTreeSet<String> {
    let trace = tree.above().join(format!("trace-{tool}"));
    let mut command = std::process::Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=openat,openat2", "-o"]).arg(&trace);
    command.arg(binary().get_program()).arg("--root").arg(tree.root()).args(["--include", "**"]);
    if backend == Backend::Components {
        command.arg("--test-component-walk");
    }
    let mut server = Server::start(command);
    server.ok(tool, arguments.clone());
    assert!(server.end().status.success());
    let trace = std::fs::read_to_string(trace).unwrap();
    trace.lines().filter_map(|line| line.split('"').nth(1)).map(str::to_owned).collect()
}

both_back_ends! {
    // CWE-400: a listing costs a walk of all that lies beneath it.
    fn a_listing_stops_at_the_first_served_file_beneath_each_entry(backend) {
        if !has("strace") {
            return;
        }
        let tree = Tree::with(&[("a/file", ""), ("a/deep/x", ""), ("b/one/y", ""), ("c/file", "")]);
        let listed = opened(&tree, backend, "list_directory", &json!({}));
        for name in ["a", "b", "c", "one"] {
            assert!(listed.contains(name), "{name} has to be looked into: {listed:?}");
        }
        assert!(!listed.contains("deep"), "a file lies beside it: {listed:?}");
        let walked = opened(&tree, backend, "search_files", &json!({ "query": "x" }));
        assert!(walked.contains("deep"), "the trace shows what is opened: {walked:?}");
    }
}

// CWE-401: memory grows with each call, or with a file.
#[test]
fn memory_does_not_grow_with_calls_or_with_the_size_of_a_file() {
    let tree = Tree::new();
    tree.write("big", "0123456789abcde\n".repeat(2 << 20)); // 32 MiB
    let mut server = tree.serve(Backend::Openat2);
    server.ok("search_text", json!({ "query": "absent" }));
    let before = (server.resident(), server.descriptors());
    for _ in 0..20 {
        assert!(server.ok("search_text", json!({ "query": "absent" })).items().is_empty());
        assert!(server.ok("read_text_file", json!({ "path": "big" })).cursor().is_some());
    }
    let after = (server.resident(), server.descriptors());
    assert!(after.0 < before.0 + 4_000_000 && after.0 < 24_000_000, "{before:?} {after:?}");
    assert_eq!(after.1, before.1);
}
