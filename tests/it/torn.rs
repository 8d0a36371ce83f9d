//! Both readers beside a writer that fills a file in place: no page, and no traversal, shows two states of it.

use crate::bursts::{BURST, LETTERS, beside, filled, filling, letters};
use crate::harness::{BUSY, Backend, Server, Tree, both_back_ends, sha256};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader};

/// Traversals of six pages.
pub const CALLS: [(&str, &str); 2] =
    [("read_text_file", r#"{ "path": "f" }"#), ("search_text", r#"{ "path": "f", "query": "-", "limit": 100 }"#)];

/// Blocks of 160 bytes.
pub const MOST: usize = 600;

/// What traversals beside a writer came to.
#[derive(Debug, Default)]
struct Seen {
    calls: usize,
    /// The letters that traversals were of, and how many came to their end.
    states: BTreeSet<u8>,
    whole: usize,
    /// How many pages followed another one.
    resumed: usize,
    /// Refusals: a stale cursor, a busy file.
    refused: usize,
}

/// What an item shows, of which file, and what the page's hash has of it.
fn shown(item: &Value) -> (String, String, String) {
    let text = item["text"].as_str().unwrap();
    match item["path"].as_str() {
        None => ("f".to_owned(), text.to_owned(), text.to_owned()),
        Some(path) => {
            let line = &item["line"];
            (path.to_owned(), format!("{line} {text}\n"), format!("{path}\0{line}\0{text}\n"))
        }
    }
}

/// What a whole traversal shows of a file that is filled with a letter.
fn expected(tool: &str, letter: u8) -> String {
    let content = filled(letter, MOST);
    if tool == "read_text_file" {
        return content;
    }
    let lines = (1..).zip(content.lines()).filter(|(_, line)| line.contains('-'));
    lines.map(|(number, line)| format!("{number} {line}\n")).collect()
}

/// Follows traversals beside bursts until enough of them ended, and were disturbed.
pub fn traversals_are_of_one_state(
    server: &mut Server,
    (tool, arguments): (&str, &str),
    burst: impl FnMut(usize) + Send,
) {
    let first: Value = serde_json::from_str(arguments).unwrap();
    let (mut next, mut joined) = (first.clone(), BTreeMap::<String, String>::new());
    beside(Seen::default(), burst, |seen| {
        seen.calls += 1;
        let resumes = next.get("cursor").is_some();
        let cursor = match server.call(tool, next.clone()) {
            // A file that is changing is left out by a search, and counted.
            Ok(page) if page.skipped()["changing_files"] == 1 => {
                assert!(page.items().is_empty());
                seen.refused += 1;
                None
            }
            Ok(page) => {
                let mut evidence = String::new();
                for (path, text, hashed) in page.items().iter().map(shown) {
                    joined.entry(path).or_default().push_str(&text);
                    evidence.push_str(&hashed);
                }
                assert_eq!(page.hash(), sha256(evidence.as_bytes()));
                for (path, text) in &joined {
                    let [letter] = letters(text)[..] else { panic!("two states of {path}: {text}") };
                    assert!(expected(tool, letter).starts_with(text), "not in order: {text}");
                    seen.states.insert(letter);
                }
                seen.resumed += usize::from(resumes);
                seen.whole += usize::from(page.cursor().is_none());
                page.cursor()
            }
            Err(refused) => {
                let stale = refused.kind == "stale_cursor" && resumes;
                assert!(stale || refused.text == BUSY, "{refused:?}");
                seen.refused += 1;
                None
            }
        };
        match cursor {
            Some(cursor) => next["cursor"] = json!(cursor),
            None => (next, joined) = (first.clone(), BTreeMap::new()),
        }
        seen.states.len() >= 10 && seen.resumed >= 3 && seen.refused >= 10 && seen.whole > 0
    });
}

/// The control: whoever just reads sees two states at once. No call is left alone here. It reads one block after the
/// other, since there are filesystems, XFS for one, where no write happens within a single `read`.
pub fn a_plain_read_is_torn(tree: &Tree, mut burst: impl FnMut(usize) + Send) {
    let read = || {
        let mut text = String::new();
        let mut file = BufReader::with_capacity(160, File::open(tree.path("f")).unwrap());
        while file.read_line(&mut text).unwrap() > 0 {}
        text
    };
    beside((), |number| burst(number * BURST), |()| letters(&read()).len() > 1);
}

fn fill(backend: Backend, blocks: fn(usize) -> usize) {
    let tree = Tree::with(&[("f", &filled(LETTERS[0], MOST))]);
    a_plain_read_is_torn(&tree, filling(&tree.path("f"), blocks));
    for call in CALLS {
        let mut server = tree.serve(backend);
        traversals_are_of_one_state(&mut server, call, filling(&tree.path("f"), blocks));
    }
}

both_back_ends! {
    // CWE-367: a page, or a traversal, that mixes two states of one length while a writer is in the middle of the file.
    fn pages_beside_a_writer_of_one_length_are_of_one_state(backend) {
        fill(backend, |_| MOST);
    }

    // CWE-367: a page, or a traversal, that mixes two states while the file grows and shrinks under it.
    fn pages_of_a_growing_and_shrinking_file_are_of_one_state(backend) {
        fill(backend, |write| MOST / 3 + write * 37 % (MOST * 2 / 3));
    }

    // CWE-367: a traversal that shows one file from before a rewrite of its bytes, and from after it.
    fn a_search_over_files_of_which_some_are_rewritten_shows_one_state_of_each(backend) {
        let tree = Tree::new();
        for path in ["d/a", "d/b", "d/c"] {
            tree.write(path, filled(LETTERS[0], 30));
        }
        // In turn a file that was searched before the others, and one that is yet to come.
        let (path, other) = (tree.path("d/a"), tree.path("d/c"));
        let (mut searched, mut to_come) = (filling(&path, |_| 30), filling(&other, |_| 30));
        let burst = |number: usize| match number % 2 {
            0 => searched(number / 2),
            _ => to_come(number / 2),
        };
        let mut server = tree.serve(backend);
        let call = ("search_text", r#"{ "path": "d", "query": "-", "limit": 25 }"#);
        traversals_are_of_one_state(&mut server, call, burst);
    }
}
