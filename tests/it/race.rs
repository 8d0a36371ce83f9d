//! Every tool, through the built binary, while another thread exchanges a part of the tree for something else: a link
//! out, a FIFO, a device, a directory, a real directory from outside.
//!
//! Whatever the moment, an answer holds what lies beneath the root, or is one of the fixed refusals. Each race counts what
//! it was given from inside, so that none passes because nothing happened, and tells its counts; a reader that checks
//! first and opens then is seen to be caught. `PTC_FS_MCP_RACE_TIMES` multiplies the rounds.

use crate::arena::{Arena, CONTENTS, OTHERS, OUTSIDE, Other, PARTS};
use crate::harness::{BUSY, Backend, DEADLINE, NOT_READABLE, NOT_WRITABLE, Server, both_back_ends, serve_at, sha256};
use crate::racer::{Outcome, Pair, Tally, at_least};
use rustix::io::Errno;
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// For each part, other, tool and back end.
const ROUNDS: u64 = 500;

/// A server whose start is over: it has pinned its root.
fn started(arena: &Arena, backend: Backend) -> Server {
    let mut server = serve_at(&arena.path("root"), backend, &["--include", "**"]);
    server.request("tools/list", json!({}));
    server
}

fn call(server: &mut Server, tool: &str, arguments: &Value) -> Value {
    server.request("tools/call", json!({ "name": tool, "arguments": arguments }))["result"].take()
}

/// The text of a refusal.
fn refusal(result: &Value) -> Option<&str> {
    (result["isError"] == true).then(|| result["content"][0]["text"].as_str().unwrap())
}

/// What a reader's answer is. Everything in it has to be known; it counts where it tells of the part, not of the rest.
fn judge(tool: &str, result: &Value, hashes: &[String]) -> Outcome {
    if result.to_string().contains(OUTSIDE) {
        return Outcome::Escaped;
    }
    if let Some(text) = refusal(result) {
        let fixed = tool == "read_text_file" && [NOT_READABLE, BUSY].contains(&text);
        return if fixed { Outcome::Nothing } else { Outcome::Escaped };
    }
    let items = result["structuredContent"]["items"].as_array().unwrap();
    let text = |item: &Value| item["text"].as_str().map(|text| CONTENTS.iter().position(|content| *content == text));
    let path = |item: &Value| item["path"].as_str().map(str::to_owned);
    let names = |path: &str| path.split('/').all(|name| ["a", "b", "f.txt", "other"].contains(&name));
    if !items.iter().all(|item| text(item) != Some(None) && path(item).is_none_or(|path| names(&path))) {
        return Outcome::Escaped;
    }
    if tool != "read_text_file" {
        let told = items.iter().any(|item| path(item).unwrap().starts_with("a/b/"));
        return if told { Outcome::Inside } else { Outcome::Nothing };
    }
    // Small files, which are one chunk.
    let content = items.first().and_then(|item| text(item).flatten());
    let hash = content.and_then(|content| hashes.get(content));
    let whole = items.len() == 1 && hash.is_some_and(|hash| result["structuredContent"]["content_hash"] == **hash);
    if whole { Outcome::Inside } else { Outcome::Escaped }
}

fn name(backend: Backend) -> String {
    match backend {
        Backend::Openat2 => "openat2".to_owned(),
        Backend::Components => "component walk".to_owned(),
        Backend::Without(Errno::NOSYS) => "openat2 answers ENOSYS".to_owned(),
        Backend::Without(Errno::PERM) => "openat2 answers EPERM".to_owned(),
        Backend::Without(error) => format!("openat2 answers {error:?}"),
    }
}

/// A reader beside each exchange.
fn reads(backend: Backend, parts: &[&'static str], tool: &str, arguments: &Value) {
    let hashes = CONTENTS.map(|content| sha256(content.as_bytes()));
    let mut total = Tally::default();
    for (part, other) in parts.iter().flat_map(|part| OTHERS.map(|other| (*part, other))) {
        let Some(arena) = Arena::new(part, other) else { continue };
        let mut server = started(&arena, backend);
        let pair = Pair::new(arena.places());
        let mut tally = Tally { rounds: at_least(ROUNDS), ..Tally::default() };
        pair.rounds(tally.rounds, |rest| {
            let result = call(&mut server, tool, arguments);
            rest();
            tally.count(judge(tool, &result, &hashes), || format!("{part} {other:?}: {result}"));
        });
        tally.exchanges = pair.exchanges();
        assert!(tally.inside > 0, "{tool} {part} {other:?}: nothing was given");
        // The pinned root is not reached by its path.
        assert!(part != "root" || tally.nothing == 0, "{tool} {other:?}: {tally:?}");
        arena.evil_is_untouched();
        total.add(tally);
    }
    total.conclude(&format!("{tool}, {}", name(backend)));
}

/// What is written in a turn: long enough to be seen torn.
fn variant(turn: u64) -> String {
    format!("{turn} INSIDE ").repeat(400)
}

/// Whether a content is whole: of the arena, or of any turn.
fn is_whole(content: &str) -> bool {
    let turn = content.split_once(' ').and_then(|(turn, _)| turn.parse().ok());
    CONTENTS.contains(&content) || turn.is_some_and(|turn| variant(turn) == content)
}

/// The contents of the regular files among these.
fn contents(places: &[PathBuf]) -> Vec<String> {
    let regular = places.iter().filter(|path| std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file()));
    regular.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

/// The writer beside each exchange of its destination, or of the root's path.
fn writes(backend: Backend) {
    let mut total = Tally::default();
    for (part, other) in ["root/f.txt", "root"].into_iter().flat_map(|part| OTHERS.map(|other| (part, other))) {
        let Some(arena) = Arena::new(part, other) else { continue };
        let mut server = started(&arena, backend);
        let places = arena.places();
        let is_root = |path: &Path, inode| std::fs::metadata(path).is_ok_and(|meta| meta.ino() == inode);
        let inode = std::fs::metadata(arena.path("root")).unwrap().ino();
        let pair = Pair::new(places.clone());
        let mut tally = Tally { rounds: at_least(ROUNDS), ..Tally::default() };
        let mut turn = 0;
        pair.rounds(tally.rounds, |rest| {
            turn += 1;
            let result = call(&mut server, "write_text_file", &json!({ "path": "f.txt", "content": variant(turn) }));
            rest();
            // Wherever the pinned directory lies now.
            let root = places.iter().find(|path| is_root(path, inode)).unwrap_or(&places[0]);
            let files = if part == "root" { vec![root.join("f.txt")] } else { places.to_vec() };
            let found = contents(&files);
            let outcome = match refusal(&result) {
                _ if !found.iter().all(|content| is_whole(content)) => Outcome::Escaped,
                None if found.contains(&variant(turn)) => Outcome::Inside,
                Some(NOT_WRITABLE | BUSY) if !found.contains(&variant(turn)) => Outcome::Nothing,
                _ => Outcome::Escaped,
            };
            tally.count(outcome, || format!("{part} {other:?}: {found:?} {result}"));
            // In the last moment the destination may be exchanged once more, and is replaced whatever it is.
            if part != "root" && found.len() == 2 {
                std::fs::remove_file(&places[1]).unwrap();
                arena.make_other();
            }
        });
        tally.exchanges = pair.exchanges();
        assert!(tally.inside > 0, "{part} {other:?}: nothing was written");
        assert!(part != "root" || tally.nothing == 0, "{other:?}: {tally:?}");
        arena.nothing_is_left_over();
        arena.evil_is_untouched();
        total.add(tally);
    }
    total.conclude(&format!("write_text_file, {}", name(backend)));
}

both_back_ends! {
    // CWE-367: what is listed is not what was judged.
    fn a_listing_holds_nothing_from_outside(backend) {
        reads(backend, &PARTS, "list_directory", &json!({ "path": "a/b" }));
    }

    // CWE-367: what is found is not what was judged.
    fn a_search_of_names_finds_nothing_outside(backend) {
        reads(backend, &PARTS, "search_files", &json!({ "query": "f.txt" }));
    }

    // CWE-367: what is searched is not what was judged.
    fn a_search_of_text_finds_nothing_outside(backend) {
        reads(backend, &PARTS, "search_text", &json!({ "query": "SIDE" }));
    }

    // CWE-367: what is read is not what was judged.
    fn a_read_returns_nothing_from_outside(backend) {
        reads(backend, &PARTS, "read_text_file", &json!({ "path": "a/b/f.txt" }));
    }

    // CWE-367: what is written is not what was judged.
    fn a_write_lands_in_the_root_or_nowhere(backend) {
        writes(backend);
    }
}

// CWE-367: the same where the kernel does not refuse links itself.
#[test]
fn nothing_from_outside_is_answered_where_a_filter_takes_openat2_away() {
    for error in [Errno::NOSYS, Errno::PERM] {
        let backend = Backend::Without(error);
        reads(backend, &["root/a/b"], "list_directory", &json!({ "path": "a/b" }));
        reads(backend, &["root/a"], "search_text", &json!({ "query": "SIDE" }));
        reads(backend, &["root/a/b/f.txt", "root/a/b"], "read_text_file", &json!({ "path": "a/b/f.txt" }));
    }
}

/// Reads until the outside is seen. `read` looks first and opens then, as a server without descriptors would.
fn is_caught(part: &'static str, read: impl Fn(&Path, &Path) -> Option<String>) {
    let arena = Arena::new(part, Other::Link).unwrap();
    let pair = Pair::new(arena.places());
    let begun = Instant::now();
    let mut caught = false;
    while !caught {
        assert!(begun.elapsed() < DEADLINE, "{} exchanges led nowhere", pair.exchanges());
        pair.storm(100, Duration::from_micros(10), || {
            caught |= read(&arena.path("root"), &arena.path("root/a/b/f.txt")).is_some_and(|text| text == OUTSIDE);
        });
    }
}

// CWE-367: the control of all races. These exchanges, at this pace, lead a reader outside that checks by name.
#[test]
fn a_reader_that_looks_first_and_opens_then_is_caught() {
    is_caught("root/a/b/f.txt", |_, path| {
        let regular = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
        regular.then(|| std::fs::read_to_string(path).ok()).flatten()
    });
}

// CWE-367: the same of a directory on the way.
#[test]
fn a_reader_that_resolves_first_and_opens_then_is_caught() {
    is_caught("root/a/b", |root, path| {
        let inside = path.canonicalize().is_ok_and(|resolved| resolved.starts_with(root));
        inside.then(|| std::fs::read_to_string(path).ok()).flatten()
    });
}
