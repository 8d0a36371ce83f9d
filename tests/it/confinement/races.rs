//! A process beside the server exchanges what lies at a name while calls run. Every outcome is the inside's or a
//! refusal, and some calls succeed: a server that refused everything would pass otherwise.

use super::{NOT_READABLE, NOT_WRITABLE, still_usable};
use crate::harness::{Tree, both_back_ends};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;
use std::path::PathBuf;
use std::sync::mpsc::channel;

const ROUNDS: usize = 300;
const CHANGING: &str = "the file is changing; try again";

/// Runs `call` beside bursts of exchanges of two names. The bursts differ in length, so that some calls meet a tree
/// that keeps still.
fn beside_exchanges(one: PathBuf, other: PathBuf, mut call: impl FnMut(usize)) {
    std::thread::scope(|scope| {
        let (sender, bursts) = channel::<usize>();
        scope.spawn(move || {
            for burst in bursts {
                for _ in 0..burst {
                    renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                }
            }
        });
        for round in 0..ROUNDS {
            sender.send(round % 23).unwrap();
            call(round);
        }
        drop(sender);
    });
}

both_back_ends! {
    fn a_directory_exchanged_with_a_link_to_outside_never_leads_outside(backend) {
        let tree = Tree::with(&[("d/s.txt", "INSIDE"), ("ok.txt", "fine")]);
        tree.link(tree.outside(), "link");
        let mut server = tree.serve(backend);
        let mut successes = [0; 3];
        beside_exchanges(tree.path("d"), tree.path("link"), |_| {
            match server.call("read_text_file", json!({ "path": "d/s.txt" })) {
                Ok(page) => {
                    assert_eq!(page.column("text"), ["INSIDE"]);
                    successes[0] += 1;
                }
                Err(refusal) => assert!([NOT_READABLE, CHANGING].contains(&refusal.text.as_str()), "{refusal:?}"),
            }
            let names = server.all("list_directory", json!({ "path": "d" }), "name");
            assert!(names.is_empty() || names == ["s.txt"], "{names:?}");
            successes[1] += names.len();
            for path in ["d", ""] {
                let page = server.ok("search_text", json!({ "query": "SIDE", "path": path }));
                assert!(page.column("text").iter().all(|text| text == "INSIDE"));
                successes[2] += page.items().len();
            }
        });
        assert!(successes.iter().all(|count| *count > 0), "{successes:?}");
        tree.outside_is_untouched();
    }

    fn an_ancestor_exchanged_with_a_link_to_outside_never_leads_outside(backend) {
        let tree = Tree::with(&[("a/b/s.txt", "INSIDE"), ("ok.txt", "fine")]);
        std::fs::create_dir_all(tree.above().join("evil/b")).unwrap();
        std::fs::write(tree.above().join("evil/b/s.txt"), crate::harness::SECRET).unwrap();
        tree.link("../evil", "link");
        let mut server = tree.serve(backend);
        let mut successes = [0; 2];
        beside_exchanges(tree.path("a"), tree.path("link"), |_| {
            match server.call("read_text_file", json!({ "path": "a/b/s.txt" })) {
                Ok(page) => {
                    assert_eq!(page.column("text"), ["INSIDE"]);
                    successes[0] += 1;
                }
                Err(refusal) => assert!([NOT_READABLE, CHANGING].contains(&refusal.text.as_str()), "{refusal:?}"),
            }
            successes[1] += server.ok("search_files", json!({ "query": "s.txt" })).items().len();
        });
        assert!(successes.iter().all(|count| *count > 0), "{successes:?}");
    }

    fn a_file_exchanged_with_a_link_is_read_and_written_inside_or_not_at_all(backend) {
        let tree = Tree::with(&[("f", "INSIDE"), ("ok.txt", "fine")]);
        tree.link(tree.outside().join("s.txt"), "link");
        let mut server = tree.serve(backend);
        let mut read = 0;
        beside_exchanges(tree.path("f"), tree.path("link"), |_| {
            match server.call("read_text_file", json!({ "path": "f" })) {
                Ok(page) => {
                    assert_eq!(page.column("text"), ["INSIDE"]);
                    read += 1;
                }
                Err(refusal) => assert!([NOT_READABLE, CHANGING].contains(&refusal.text.as_str()), "{refusal:?}"),
            }
        });
        let mut written = 0;
        beside_exchanges(tree.path("f"), tree.path("link"), |_| {
            match server.call("write_text_file", json!({ "path": "f", "content": "INSIDE" })) {
                Ok(_) => written += 1,
                Err(refusal) => assert!([NOT_WRITABLE, CHANGING].contains(&refusal.text.as_str()), "{refusal:?}"),
            }
        });
        assert!(read > 0 && written > 0, "{read} {written}");
        assert_eq!(tree.names(), ["f", "link", "ok.txt"]);
        tree.outside_is_untouched();
    }

    fn a_file_exchanged_with_a_fifo_blocks_no_call(backend) {
        let tree = Tree::with(&[("f", "INSIDE"), ("ok.txt", "fine")]);
        tree.fifo("fifo");
        let mut server = tree.serve(backend);
        let mut successes = 0;
        beside_exchanges(tree.path("f"), tree.path("fifo"), |round| {
            let answer = match round % 3 {
                0 => server.call("write_text_file", json!({ "path": "f", "content": "INSIDE" })),
                1 => server.call("read_text_file", json!({ "path": "f" })),
                _ => server.call("search_text", json!({ "query": "INSIDE", "path": "f" })),
            };
            match answer {
                Ok(_) => successes += 1,
                Err(refusal) => {
                    assert!([NOT_READABLE, NOT_WRITABLE, CHANGING].contains(&refusal.text.as_str()), "{refusal:?}");
                }
            }
        });
        assert!(successes > 0);
        still_usable(&mut server);
    }
}
