//! A program that maps a file and stores to it, which stamps nothing: what small files are read twice for.

use crate::bursts::beside;
use crate::harness::{BUSY, Backend, Tree, both_back_ends, has, sha256};
use serde_json::json;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Files up to this size are read twice.
const DIGEST_LIMIT: usize = 1 << 20;

/// What is stored in turn: every character of one byte that JSON does not escape, but the dash. No burst comes round to
/// the letter with which it began, so that two reads of one call cannot meet one letter in two states.
fn alphabet() -> String {
    ('!'..='~').filter(|letter| !['"', '\\', '-'].contains(letter)).collect()
}

/// Stores through a mapping: to the first byte, then the same letter to the last byte, then the next letter. An order is
/// how many letters, how many microseconds to rest after each store, and whether to keep changing a byte in the middle
/// meanwhile.
const STORER: &str = r"
import mmap, sys, time
path, letters = sys.argv[1], sys.argv[2].encode()
file = open(path, 'r+b')
view = mmap.mmap(file.fileno(), 0)
middle = len(view) // 2
at = 0
def rest(microseconds, restless):
    end = time.perf_counter_ns() + microseconds * 1000
    turn = at
    while time.perf_counter_ns() < end:
        if restless:
            turn += 1
            view[middle] = letters[turn % len(letters)]
for line in sys.stdin:
    count, microseconds, restless = map(int, line.split())
    for _ in range(count):
        at = (at + 1) % len(letters)
        for byte in 0, -1:
            view[byte] = letters[at]
            rest(microseconds, restless)
    print('done', flush=True)
";

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

/// A program that is given orders and answers each when it is carried out. Killed and waited for on drop.
struct Python {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Python {
    fn start(script: &str, path: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", script]).arg(path).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (orders, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, orders, answers: BufReader::new(answers).lines() }
    }

    fn order(&mut self, order: impl Display) {
        writeln!(self.orders, "{order}").unwrap();
        assert_eq!(self.answers.next().unwrap().unwrap(), "done");
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A file of two lines with a dash, one at either end, and others between them.
fn content(size: usize) -> String {
    let filler = "x".repeat(63) + "\n";
    let mut content = "!-\n".to_owned() + &filler.repeat(size / 64 + 1);
    content.truncate(size - 3);
    content + "\n-!"
}

/// What was seen of the two ends.
#[derive(Debug, Default)]
struct Seen {
    /// Pages of a state, and those of them that the file was in for a moment only: between the near and the far store.
    pages: usize,
    midway: usize,
    busy: usize,
    torn: usize,
}

impl Seen {
    fn ends(&mut self, near: u8, far: u8) {
        let letters = alphabet();
        let place = |letter| letters.bytes().position(|known| known == letter).unwrap();
        match (place(near) + letters.len() - place(far)) % letters.len() {
            0 => self.pages += 1,
            1 => (self.pages, self.midway) = (self.pages + 1, self.midway + 1),
            _ => self.torn += 1,
        }
    }
}

/// Stores beside both readers, to a file of this size of which one page holds all.
fn stored_to(backend: Backend, size: usize, busy: usize) {
    let tree = Tree::with(&[("f", &content(size))]);
    let mut python = Python::start(STORER, &tree.path("f"), &[&alphabet()]);
    let mut burst = |number: usize| {
        let order = match number % 5 {
            // Lasts longer than all tries of one call, and lets none of them have its two equal reads.
            0 => (85, 2_000, 1),
            // Rests for longer than two reads take, also between near and far.
            1 => (4, 20_000, 0),
            dense => (1 + number % 85, [0, 5, 25][dense - 2], 0),
        };
        python.order(format_args!("{} {} {}", order.0, order.1, order.2));
    };
    // The control: whoever just reads sees ends that were never there together.
    let file = File::open(tree.path("f")).unwrap();
    let end = |at: usize| {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at as u64).unwrap();
        byte[0]
    };
    beside(Seen::default(), &mut burst, |seen| {
        let near = end(0);
        tree.read("f");
        seen.ends(near, end(size - 1));
        seen.torn >= 1 && seen.pages >= 1
    });
    let mut server = tree.serve_with(backend, &["--include", "**", "--max-result-bytes", "4194304"]);
    for (tool, arguments) in
        [("read_text_file", json!({ "path": "f" })), ("search_text", json!({ "path": "f", "query": "-" }))]
    {
        beside(Seen::default(), &mut burst, |seen| {
            match server.call(tool, arguments.clone()) {
                Ok(page) if page.skipped()["changing_files"] == 1 => {
                    assert!(page.items().is_empty());
                    seen.busy += 1;
                }
                Ok(page) => {
                    assert_eq!(page.cursor(), None);
                    let text = page.column("text").concat();
                    if tool == "read_text_file" {
                        assert_eq!((text.len(), page.hash()), (size, &*sha256(text.as_bytes())));
                    }
                    seen.ends(text.as_bytes()[0], *text.as_bytes().last().unwrap());
                    assert_eq!(seen.torn, 0, "{tool}: a page of two states");
                }
                Err(refused) => {
                    assert_eq!((tool, &*refused.text), ("read_text_file", BUSY));
                    seen.busy += 1;
                }
            }
            seen.pages >= 10 && seen.midway >= 1 && seen.busy >= busy
        });
    }
}

both_back_ends! {
    // CWE-367: a small file's page whose two ends were never there together, under stamps that are all the same.
    fn pages_beside_stores_through_a_mapping_are_of_one_state(backend) {
        if has("python3") {
            stored_to(backend, 100, 0);
            stored_to(backend, 20_000, 0);
        }
    }

    // CWE-367: the same of the largest file that is read twice, whole in one page.
    fn a_page_of_1_mib_beside_stores_through_a_mapping_is_of_one_state(backend) {
        if has("python3") {
            stored_to(backend, DIGEST_LIMIT, 1);
        }
    }

    // CWE-367: a cursor bound to another state of the file than the one its page showed.
    fn a_byte_flipped_through_a_mapping_is_bound_as_it_was_shown(backend) {
        if !has("python3") {
            return;
        }
        let tree = Tree::with(&[("f", &"a".repeat(8192))]);
        let mut python = Python::start(FLIPPER, &tree.path("f"), &[]);
        let mut server = tree.serve(backend);
        let (mut accepted, mut stale) = (0, 0);
        // Rounds enough for both outcomes, also on a machine that runs the one process before the other.
        for round in 0..2000 {
            if round >= 60 && accepted > 0 && stale > 0 {
                break;
            }
            python.order("go");
            let Ok(page) = server.call("read_text_file", json!({ "path": "f", "limit": 1 })) else { continue };
            python.order("stop");
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
        assert!(accepted > 0 && stale > 0, "{accepted} accepted, {stale} stale");
    }
}
