//! What is not served is not even looked at. The system calls are the witness, told by `strace`.

use crate::harness::{Backend, Server, Tree, binary, both_back_ends, has};
use serde_json::{Value, json};
use std::process::Command;

/// Every call that names a file, made by a server that answered these calls. `-D` makes the server the direct child.
fn traced(tree: &Tree, backend: Backend, options: &[&str], calls: &[(&str, Value)]) -> String {
    let file = tree.above().join("trace");
    let mut command = Command::new("strace");
    command.args(["-D", "-f", "-s", "4096", "-e", "trace=%file,openat2,getdents64", "-o"]).arg(&file);
    command.arg(binary().get_program()).arg("--root").arg(tree.root()).args(options);
    if backend == Backend::Components {
        command.arg("--test-component-walk");
    }
    let mut server = Server::start(command);
    for (tool, arguments) in calls {
        drop(server.call(tool, arguments.clone()));
    }
    assert!(server.end().status.success());
    let trace = std::fs::read_to_string(file).unwrap();
    // The command line names what is excluded.
    trace.lines().filter(|line| !line.contains("execve(")).map(|line| format!("{line}\n")).collect()
}

fn calls(directory: &str, file: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("list_directory", json!({})),
        ("list_directory", json!({ "path": directory })),
        ("search_files", json!({ "query": "f" })),
        ("search_text", json!({ "query": "i" })),
        ("search_text", json!({ "query": "i", "path": directory })),
        ("search_text", json!({ "query": "i", "path": file })),
        ("read_text_file", json!({ "path": file })),
    ]
}

both_back_ends! {
    // CWE-200: what an exclude hides is opened before it is left out.
    fn an_excluded_directory_is_never_opened_nor_looked_at(backend) {
        if !has("strace") {
            return;
        }
        let tree = Tree::with(&[("keptdir/f", "i"), ("hiddendir/f", "i"), ("keptdir/hiddendir/f", "i")]);
        let options = ["--include", "**", "--exclude", "**/hiddendir"];
        let trace = traced(&tree, backend, &options, &calls("hiddendir", "hiddendir/f"));
        assert!(trace.contains("\"keptdir\""), "a served directory is seen in the trace");
        assert!(!trace.contains("hiddendir"), "{trace}");
    }

    // CWE-200: what no include reaches is opened before it is left out.
    fn a_directory_that_no_include_reaches_is_never_opened_nor_looked_at(backend) {
        if !has("strace") {
            return;
        }
        let tree = Tree::with(&[("keptdir/f", "i"), ("otherdir/f", "i"), ("keptdir/deepdir/f", "i")]);
        let trace = traced(&tree, backend, &["--include", "keptdir/*"], &calls("otherdir", "otherdir/f"));
        assert!(trace.contains("\"keptdir\""), "a served directory is seen in the trace");
        assert!(!trace.contains("otherdir") && !trace.contains("deepdir"), "{trace}");
    }

    // CWE-200: what an exclude hides is looked at before it is left out.
    fn an_excluded_file_is_never_opened_nor_looked_at(backend) {
        if !has("strace") {
            return;
        }
        let tree = Tree::with(&[("keptdir/f", "i"), ("keptdir/hidden.key", "i")]);
        let options = ["--include", "**", "--exclude", "**/*.key", "--max-file-bytes", "100"];
        let trace = traced(&tree, backend, &options, &calls("keptdir", "keptdir/hidden.key"));
        assert!(trace.contains("\"f\""), "a served file is seen in the trace");
        assert!(!trace.contains("hidden.key"), "{trace}");
    }
}
