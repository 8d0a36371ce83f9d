//! `write_text_file` beside readers, listers and other writers: whole files only, and no name that is nobody's.

use crate::harness::{BUSY, Backend, DEADLINE, Done, Server, Tree, both_back_ends, sha256};
use crate::write::write;
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

fn variant(letter: &str) -> String {
    format!("{letter} ").repeat(30_000)
}

/// Writes the two variants in turn, at least so often, and until `enough`; returns how often.
fn alternate(tree: &Tree, backend: Backend, least: usize, enough: &AtomicBool) -> usize {
    let mut server = tree.serve(backend);
    alternate_with(&mut server, &[variant("a"), variant("b")], least, enough)
}

fn alternate_with(server: &mut Server, variants: &[String; 2], least: usize, enough: &AtomicBool) -> usize {
    let started = Instant::now();
    // Ten times what so many writes take.
    let deadline = DEADLINE + Duration::from_millis(10) * least as u32;
    let mut writes = 0;
    while writes < least || !enough.load(SeqCst) {
        assert!(started.elapsed() < deadline, "nobody has seen enough after {writes} writes");
        write(server, "a.txt", &variants[writes % 2]).unwrap();
        writes += 1;
    }
    writes
}

both_back_ends! {
    // CWE-362: a reader sees a file half written.
    fn a_reader_sees_whole_variants_only(backend) {
        let tree = Tree::with(&[("a.txt", &variant("a"))]);
        let variants = [variant("a"), variant("b")].map(|text| (sha256(text.as_bytes()), text));
        let (enough, done) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // One page holds all of it here.
                let mut server =
                    tree.serve_with(backend, &["--include", "**", "--max-result-bytes", "4194304"]);
                let mut seen = [0, 0];
                while !done.load(SeqCst) {
                    let page = match server.call("read_text_file", json!({ "path": "a.txt" })) {
                        Ok(page) => page,
                        Err(refused) => {
                            assert_eq!(refused.text, BUSY);
                            continue;
                        }
                    };
                    assert_eq!(page.cursor(), None);
                    let text = page.column("text").concat();
                    let which = variants.iter().position(|(hash, whole)| text == *whole && page.hash() == hash);
                    seen[which.expect("a page that is neither variant")] += 1;
                    enough.store(seen.iter().all(|times| *times >= 10), SeqCst);
                }
            });
            let _done = Done(&done);
            let writes = alternate(&tree, backend, 400, &enough);
            assert!(writes >= 400 && enough.load(SeqCst));
        });
        assert_eq!(tree.names(), ["a.txt"]);
    }

    // CWE-362: pages of two states are joined.
    fn a_traversal_over_several_pages_ends_in_one_variant_or_fails(backend) {
        let tree = Tree::with(&[("a.txt", &variant("a"))]);
        let variants = [variant("a"), variant("b")];
        let (enough, done) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut server = tree.serve(backend);
                let mut pages = [0, 0];
                let mut arguments = json!({ "path": "a.txt" });
                let mut joined = String::new();
                while !done.load(SeqCst) {
                    match server.call("read_text_file", arguments.clone()) {
                        Ok(page) => {
                            let text = page.column("text").concat();
                            assert_eq!(page.hash(), sha256(text.as_bytes()));
                            joined.push_str(&text);
                            let which = variants.iter().position(|whole| whole.starts_with(&joined));
                            pages[which.expect("pages of two variants were joined")] += 1;
                            match page.cursor() {
                                Some(cursor) => arguments["cursor"] = json!(cursor),
                                None => {
                                    assert!(variants.contains(&joined));
                                    (arguments, joined) = (json!({ "path": "a.txt" }), String::new());
                                }
                            }
                        }
                        Err(refused) => {
                            assert!(["stale_cursor", "busy"].contains(&refused.kind.as_str()), "{refused:?}");
                            (arguments, joined) = (json!({ "path": "a.txt" }), String::new());
                        }
                    }
                    enough.store(pages.iter().all(|count| *count >= 5), SeqCst);
                }
            });
            let _done = Done(&done);
            alternate(&tree, backend, 100, &enough);
        });
    }

    // CWE-377: an unfinished write is seen under its name.
    fn a_lister_never_sees_a_name_that_is_not_served(backend) {
        let tree = Tree::with(&[("a.txt", &variant("a")), ("b.txt", "beside it")]);
        let (enough, done) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut server = tree.serve(backend);
                let mut rounds = 0;
                while !done.load(SeqCst) {
                    let listed = server.ok("list_directory", json!({}));
                    let found = server.ok("search_files", json!({ "query": "t" }));
                    for (page, tool) in [(listed, "list_directory"), (found, "search_files")] {
                        // A directory that is read while a name in it is exchanged may miss that name or give it
                        // twice; it never gives one that is nobody's.
                        let paths = page.column("path");
                        assert!(paths.iter().all(|path| path == "a.txt" || path == "b.txt"), "{tool}: {paths:?}");
                        assert!(paths.contains(&"b.txt".to_owned()), "{tool}: {paths:?}");
                    }
                    rounds += 1;
                    enough.store(rounds >= 50, SeqCst);
                }
            });
            let _done = Done(&done);
            let variants = ["one", "other"].map(str::to_owned);
            alternate_with(&mut tree.serve(backend), &variants, 10_000, &enough);
        });
        assert_eq!(tree.names(), ["a.txt", "b.txt"]);
    }

    // CWE-362: two writers make one torn file.
    fn two_servers_that_write_one_name_leave_a_whole_variant_at_every_moment(backend) {
        let tree = Tree::with(&[("a.txt", &variant("a"))]);
        let variants = [variant("a"), variant("b")];
        let (written, at_work) = (AtomicUsize::new(0), AtomicUsize::new(2));
        std::thread::scope(|scope| {
            for text in &variants {
                scope.spawn(|| {
                    let mut server = tree.serve(backend);
                    for _ in 0..100 {
                        match write(&mut server, "a.txt", text) {
                            Ok(_) => written.fetch_add(1, SeqCst),
                            Err(refused) => {
                                assert_eq!(refused.text, BUSY);
                                0
                            }
                        };
                    }
                    at_work.fetch_sub(1, SeqCst);
                });
            }
            while at_work.load(SeqCst) > 0 {
                let content = std::fs::read_to_string(tree.path("a.txt")).unwrap();
                assert!(variants.contains(&content), "{} bytes of neither variant", content.len());
            }
        });
        assert!(written.load(SeqCst) > 100, "only {} writes succeeded", written.load(SeqCst));
        assert_eq!(tree.names(), ["a.txt"]);
        assert!(variants.contains(&String::from_utf8(tree.read("a.txt")).unwrap()));
    }

    // CWE-362: two writers make one torn file, or two.
    fn of_two_first_writes_none_is_torn_and_one_name_is_left(backend) {
        for _ in 0..20 {
            let tree = Tree::new();
            let variants = [variant("a"), variant("b")];
            std::thread::scope(|scope| {
                for text in &variants {
                    scope.spawn(|| {
                        let mut server = tree.serve(backend);
                        assert!(write(&mut server, "a.txt", text).is_ok());
                    });
                }
            });
            assert!(variants.contains(&String::from_utf8(tree.read("a.txt")).unwrap()));
            assert_eq!(tree.names(), ["a.txt"]);
        }
    }
}
