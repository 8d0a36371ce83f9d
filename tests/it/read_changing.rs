//! `read_text_file` of a file that changes under it, or is very large: whole states, and memory that stays flat.

use crate::bursts::beside;
use crate::harness::{BUSY, Tree, both_back_ends, sha256};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

both_back_ends! {
    // CWE-367: a page, or pages joined, that mix two states which one length, and one stamp, do not tell apart.
    fn a_page_is_never_a_mix_of_two_states_of_one_length(backend) {
        let variants = ["a\u{e9}", "b\u{e8}"].map(|text| text.repeat(10_000));
        let tree = Tree::with(&[("f", &variants[0])]);
        let file = File::options().write(true).open(tree.path("f")).unwrap();
        let mut writes = 0;
        // Odd and even numbers of writes in turn: it rests at the one variant twice, then at the other.
        let burst = |number: usize| {
            for _ in 0..1 + number % 40 {
                file.write_all_at(variants[writes % 2].as_bytes(), 0).unwrap();
                writes += 1;
            }
        };
        let mut server = tree.serve(backend);
        let (mut arguments, mut joined) = (json!({ "path": "f" }), String::new());
        let (mut seen, mut calls) = ([0, 0], 0);
        beside((), burst, |()| {
            calls += 1;
            match server.call("read_text_file", arguments.clone()) {
                Ok(page) => {
                    let text = page.column("text").concat();
                    assert_eq!(page.hash(), sha256(text.as_bytes()));
                    joined.push_str(&text);
                    let which = variants.iter().position(|whole| whole.starts_with(&joined));
                    seen[which.expect("a page, or pages, of two states")] += 1;
                    match page.cursor() {
                        Some(cursor) => arguments["cursor"] = json!(cursor),
                        None => (arguments, joined) = (json!({ "path": "f" }), String::new()),
                    }
                }
                Err(refused) => {
                    let stale = refused.kind == "stale_cursor" && arguments.get("cursor").is_some();
                    assert!(stale || refused.text == BUSY, "{refused:?}");
                    (arguments, joined) = (json!({ "path": "f" }), String::new());
                }
            }
            seen.iter().all(|times| *times >= 5) && calls >= 60
        });
        assert!(writes > 100);
    }

    // CWE-367: a page longer than any state of its file, or one that begins in one state and ends in another.
    fn a_growing_or_shrinking_file_gives_one_of_its_states(backend) {
        let whole = "0123456789abcdef".repeat(1_000);
        let tree = Tree::with(&[("f", "")]);
        let file = File::options().write(true).open(tree.path("f")).unwrap();
        let mut length = 0;
        let burst = |_| {
            for _ in 0..8 {
                length = (length + 160) % whole.len();
                match length {
                    // Shrinks to nothing, then grows piece by piece.
                    0..160 => file.set_len(0).unwrap(),
                    _ => file.write_all_at(&whole.as_bytes()[..length], 0).unwrap(),
                }
            }
        };
        let mut server = tree.serve(backend);
        beside(BTreeSet::new(), burst, |lengths| {
            match server.call("read_text_file", json!({ "path": "f" })) {
                Ok(page) => {
                    let text = page.column("text").concat();
                    assert!(whole.starts_with(&text), "{} bytes of no state", text.len());
                    assert_eq!(page.hash(), sha256(text.as_bytes()));
                    lengths.insert(text.len());
                }
                Err(refused) => assert_eq!(refused.text, BUSY),
            }
            lengths.len() >= 10
        });
    }

    // CWE-400: memory or time that grows with the size a file claims.
    fn a_sparse_file_of_8_gigabytes_answers_at_once_in_flat_memory(backend) {
        let tree = Tree::with(&[("small", "x")]);
        let file = File::create(tree.path("big")).unwrap();
        file.set_len(8 << 30).unwrap();
        let mut server = tree.serve(backend);
        server.until_quiet(&tree.path("big"));
        server.ok("read_text_file", json!({ "path": "small" }));
        let (resident, descriptors) = (server.resident(), server.descriptors());
        let mut arguments = json!({ "path": "big" });
        let mut offset = 0;
        for _ in 0..10 {
            let page = server.ok("read_text_file", arguments.clone());
            let text = page.column("text").concat();
            assert!(!text.is_empty() && text.bytes().all(|byte| byte == 0));
            assert_eq!(page.column("byte_offset")[0], offset.to_string());
            offset += text.len();
            arguments["cursor"] = json!(page.cursor().expect("there is more"));
        }
        let grown = server.resident().saturating_sub(resident);
        assert!(grown < 16 << 20, "{grown} bytes more");
        assert_eq!(server.descriptors(), descriptors);
    }

    // CWE-367: a removed file read on under its cursor.
    fn a_file_that_was_removed_after_its_first_page_is_not_readable(backend) {
        let tree = Tree::new();
        tree.write("f", "x".repeat(20_000));
        let mut server = tree.serve(backend);
        let page = server.ok("read_text_file", json!({ "path": "f" }));
        std::fs::remove_file(tree.path("f")).unwrap();
        let next = json!({ "path": "f", "cursor": page.cursor().unwrap() });
        assert_eq!(server.refused("read_text_file", next), "path is not a readable regular file");
    }
}
