//! A process that is short of descriptors or of places: it says so, or serves on, and recovers.

use super::{failed, still_usable};
use crate::harness::{DEADLINE, Refusal, Server, Tree, both_back_ends, has};
use crate::lifecycle::{UNBOUNDED, begin, cancel};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Instant;

/// Lets a running server have descriptors with numbers below this one.
fn limit_descriptors(server: &Server, below: usize) {
    let arguments = [format!("--pid={}", server.pid()), format!("--nofile={below}:")];
    assert!(Command::new("prlimit").args(arguments).status().unwrap().success());
}

/// Leaves a server so many descriptors beside those it holds. What it inherited may have any number, so free ones are
/// counted.
fn leave_descriptors(server: &Server, free: usize) {
    let held = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
    let held: BTreeSet<usize> =
        held.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    limit_descriptors(server, (0..).filter(|number| !held.contains(number)).nth(free).unwrap());
}

both_back_ends! {
    // CWE-755: a walk that runs out of descriptors leaves out what it could not open, and looks complete.
    fn a_walk_that_runs_out_of_descriptors_fails_and_reads_go_on(backend) {
        if !has("prlimit") {
            return;
        }
        let deep = format!("deep{}/f", "/d".repeat(39));
        let tree = Tree::with(&[("ok.txt", "fine"), ("d/g", "fine"), (&deep, "fine")]);
        let walks = [
            ("search_files", json!({ "query": "/" })),
            ("search_text", json!({ "query": "fine" })),
            ("list_directory", json!({})),
        ];
        let mut server = tree.serve(backend);
        let all = |server: &mut Server| {
            assert_eq!(server.all("search_files", json!({ "query": "/" }), "path"), ["d/g", &deep]);
            assert_eq!(server.all("search_text", json!({ "query": "fine" }), "path"), ["d/g", &deep, "ok.txt"]);
            assert_eq!(server.all("list_directory", json!({}), "name"), ["d", "deep", "ok.txt"]);
        };
        all(&mut server);
        let descriptors = server.descriptors();
        leave_descriptors(&server, 12);
        for (tool, arguments) in &walks {
            assert_eq!(server.call(tool, arguments.clone()).unwrap_err(), Refusal::new("read failed", "io"), "{tool}");
            still_usable(&mut server);
            assert_eq!(server.text("d/g"), "fine");
        }
        assert_eq!(server.all("search_text", json!({ "query": "fine", "path": "d" }), "path"), ["d/g"]);
        server.ok("write_text_file", json!({ "path": "w", "content": "w" }));
        std::fs::remove_file(tree.path("w")).unwrap();
        assert_eq!(server.descriptors(), descriptors, "what failed gave back what it had opened");

        // Not a single one is left.
        leave_descriptors(&server, 0);
        for (tool, arguments) in walks.iter().chain(&[("read_text_file", json!({ "path": "ok.txt" }))]) {
            assert_eq!(server.call(tool, arguments.clone()).unwrap_err(), Refusal::new("read failed", "io"), "{tool}");
        }
        let refused = server.call("write_text_file", json!({ "path": "ok.txt", "content": "x" })).unwrap_err();
        assert_eq!(refused, Refusal::new("write failed", "io"));
        assert_eq!(tree.names(), ["d", "deep", "ok.txt"]);

        limit_descriptors(&server, 1024);
        all(&mut server);
        still_usable(&mut server);
        let walked = ["search_files", "search_text", "list_directory"].map(|tool| failed(tool, "read", 24)).concat();
        let told = failed("read_text_file", "read", 24) + &failed("write_text_file", "write", 24);
        assert_eq!(server.end().stderr, walked.repeat(2) + &told);
        tree.outside_is_untouched();
    }

    // CWE-400: searches take all places, and a read waits for them.
    fn reads_are_answered_while_32_searches_wait_or_run(backend) {
        let tree = Tree::with(&[("ok.txt", "fine"), ("d/g", "fine")]);
        std::fs::File::create(tree.path("huge")).unwrap().set_len(1 << 40).unwrap();
        let mut server = tree.serve_with(backend, &UNBOUNDED);
        still_usable(&mut server);
        let descriptors = server.descriptors();
        let searches: Vec<Value> = (0..32).map(|number| json!(format!("s{number}"))).collect();
        searches.iter().for_each(|id| begin(&mut server, id));
        for _ in 0..50 {
            still_usable(&mut server);
            assert_eq!(server.text("d/g"), "fine");
        }
        server.ok("write_text_file", json!({ "path": "w", "content": "w" }));
        assert!(server.resident() < 100_000_000, "{} bytes", server.resident());
        searches.iter().for_each(|id| server.send_line(&cancel(id)));
        // A walk needs one of the places that the searches had.
        assert_eq!(server.all("search_files", json!({ "query": "g" }), "path"), ["d/g", "huge"]);
        let started = Instant::now();
        while server.descriptors() != descriptors {
            assert!(started.elapsed() < DEADLINE, "cancelled searches keep their descriptors");
            still_usable(&mut server);
        }
        tree.outside_is_untouched();
    }
}
