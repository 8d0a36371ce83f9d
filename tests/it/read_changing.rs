//! `read_text_file` of a file that changes under it, or is very large: whole states, and memory that stays flat.

use crate::harness::{BUSY, DEADLINE, Done, Tree, both_back_ends, has, sha256};
use serde_json::json;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

/// Flips the first byte of a file through a mapping as fast as it can, between one line of input and the next.
const FLIPPER: &str = r#"
import mmap, sys, threading
file = open(sys.argv[1], 'r+b')
view = mmap.mmap(file.fileno(), 0)
go, still, moving = threading.Event(), threading.Event(), threading.Event()
def flip():
    while True:
        still.set()
        go.wait()
        still.clear()
        while go.is_set():
            view[0] = 97
            moving.set()
            if go.is_set():
                view[0] = 98
threading.Thread(target=flip, daemon=True).start()
for line in sys.stdin:
    if line == 'go\n':
        still.clear()
        moving.clear()
        go.set()
        moving.wait()
    else:
        go.clear()
        still.wait()
    print('done', flush=True)
"#;

both_back_ends! {
    fn a_page_is_never_a_mix_of_two_states_of_one_length(backend) {
        let variants = ["a\u{e9}", "b\u{e8}"].map(|text| text.repeat(10_000));
        let tree = Tree::with(&[("f", &variants[0])]);
        let (calls, done) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let file = File::options().write(true).open(tree.path("f")).unwrap();
                let (mut writes, mut bursts) = (0_usize, 0);
                while !done.load(SeqCst) {
                    // A burst beside a call, then rest until that call ends, so that some calls must succeed. Odd and
                    // even numbers of writes in turn: it ends on the one variant twice, then on the other.
                    let before = calls.load(SeqCst);
                    for _ in 0..1 + bursts % 40 {
                        file.write_all_at(variants[writes % 2].as_bytes(), 0).unwrap();
                        writes += 1;
                    }
                    bursts += 1;
                    while calls.load(SeqCst) == before && !done.load(SeqCst) {
                        std::thread::yield_now();
                    }
                }
                assert!(writes > 100);
            });
            let _done = Done(&done);
            let mut server = tree.serve(backend);
            let (mut seen, mut arguments, mut joined) = ([0, 0], json!({ "path": "f" }), String::new());
            let started = Instant::now();
            while seen.iter().any(|times| *times < 5) || calls.load(SeqCst) < 60 {
                assert!(started.elapsed() < DEADLINE, "{seen:?} of {calls:?} calls");
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
                calls.fetch_add(1, SeqCst);
            }
        });
    }

    fn a_growing_or_shrinking_file_gives_one_of_its_states(backend) {
        let whole = "0123456789abcdef".repeat(1_000);
        let tree = Tree::with(&[("f", "")]);
        let (calls, done) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let file = File::options().write(true).open(tree.path("f")).unwrap();
                let mut length = 0;
                while !done.load(SeqCst) {
                    let before = calls.load(SeqCst);
                    for _ in 0..8 {
                        length = (length + 160) % whole.len();
                        match length {
                            // Shrinks to nothing, then grows piece by piece.
                            0..160 => file.set_len(0).unwrap(),
                            _ => file.write_all_at(&whole.as_bytes()[..length], 0).unwrap(),
                        }
                    }
                    while calls.load(SeqCst) == before && !done.load(SeqCst) {
                        std::thread::yield_now();
                    }
                }
            });
            let _done = Done(&done);
            let mut server = tree.serve(backend);
            let mut lengths = std::collections::BTreeSet::new();
            let started = Instant::now();
            while lengths.len() < 10 {
                assert!(started.elapsed() < DEADLINE, "{lengths:?}");
                match server.call("read_text_file", json!({ "path": "f" })) {
                    Ok(page) => {
                        let text = page.column("text").concat();
                        assert!(whole.starts_with(&text), "{} bytes of no state", text.len());
                        assert_eq!(page.hash(), sha256(text.as_bytes()));
                        lengths.insert(text.len());
                    }
                    Err(refused) => assert_eq!(refused.text, BUSY),
                }
                calls.fetch_add(1, SeqCst);
            }
        });
    }

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

    fn a_file_that_was_removed_after_its_first_page_is_not_readable(backend) {
        let tree = Tree::new();
        tree.write("f", "x".repeat(20_000));
        let mut server = tree.serve(backend);
        let page = server.ok("read_text_file", json!({ "path": "f" }));
        std::fs::remove_file(tree.path("f")).unwrap();
        let next = json!({ "path": "f", "cursor": page.cursor().unwrap() });
        assert_eq!(server.refused("read_text_file", next), "path is not a readable regular file");
    }

    fn a_byte_flipped_through_a_mapping_is_bound_as_it_was_shown(backend) {
        if !has("python3") {
            return;
        }
        let tree = Tree::with(&[("f", &"a".repeat(8192))]);
        let mut python = std::process::Command::new("python3");
        python.args(["-c", FLIPPER]).arg(tree.path("f")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut python = python.spawn().unwrap();
        let (mut orders, mut answers) = (python.stdin.take().unwrap(), BufReader::new(python.stdout.take().unwrap()).lines());
        let mut order = |word: &str| {
            writeln!(orders, "{word}").unwrap();
            assert_eq!(answers.next().unwrap().unwrap(), "done");
        };
        let mut server = tree.serve(backend);
        let (mut accepted, mut stale) = (0, 0);
        // Rounds enough for both outcomes, also on a machine that runs the one process before the other.
        for round in 0..2000 {
            if round >= 60 && accepted > 0 && stale > 0 {
                break;
            }
            order("go");
            let Ok(page) = server.call("read_text_file", json!({ "path": "f", "limit": 1 })) else { continue };
            order("stop");
            let now = tree.read("f")[0];
            let shown = page.column("text")[0].as_bytes()[0];
            match server.call("read_text_file", json!({ "path": "f", "limit": 1, "cursor": page.cursor().unwrap() })) {
                Ok(_) => {
                    assert_eq!(shown, now, "the page showed one state and its cursor holds the other");
                    accepted += 1;
                }
                Err(refusal) => {
                    assert_eq!(refusal.kind, "stale_cursor");
                    assert_ne!(shown, now, "nothing changed");
                    stale += 1;
                }
            }
        }
        drop(orders);
        assert!(python.wait().unwrap().success());
        assert!(accepted > 0 && stale > 0, "{accepted} accepted, {stale} stale");
    }
}
