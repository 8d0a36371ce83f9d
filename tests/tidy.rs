//! The architecture enforces itself: who may use whom, what no file may say, and what the dependencies may bring.
//!
//! The table below is ARCHITECTURE.md's, to the letter of each `use`. A new dependency is a change of the table, seen in
//! review.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests read the sources, run cargo, and fail by panicking"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Module, what it may use of this crate, and the outside crates it may name.
const RULES: &[(&str, &[&str], &[&str])] = &[
    ("error", &[], &["thiserror"]),
    ("path", &["error"], &[]),
    ("selector", &["path", "error"], &["globset"]),
    ("config", &["selector", "error"], &[]),
    ("root", &["config", "selector", "path", "error"], &["cap_std", "cap_fs_ext", "rustix", "blake3", "getrandom"]),
    ("text", &[], &["memchr"]),
    ("cursor", &["error"], &["hmac", "sha2", "base64", "getrandom"]),
    ("page", &[], &["serde", "serde_json", "sha2"]),
    ("tools", &["root", "path", "text", "cursor", "page", "config", "error"], &["serde", "serde_json", "memchr"]),
    ("call", &["server", "tools", "page", "root", "error"], &["serde_json"]),
    (
        "server",
        &["tools", "root", "cursor", "config", "error", "transport", "VERSION"],
        &["rmcp", "tokio", "tokio_util", "serde_json", "tracing"],
    ),
    ("transport", &[], &["rmcp", "tokio", "tokio_util", "serde", "serde_json", "memchr", "rustix"]),
    ("cli", &[], &["ptc_fs_mcp", "clap", "serde_json"]),
    ("diagnostics", &[], &["tracing", "tracing_subscriber"]),
    ("main", &[], &["ptc_fs_mcp", "tokio", "serde_json"]),
    ("lib", &[], &[]),
];

/// What only the named files may say, outside of comments and tests.
const RESERVED: &[(&str, &[&str])] = &[
    ("CWD", &["src/root/open.rs"]),
    ("/proc", &["src/root/open.rs"]),
    ("std::fs", &[]),
    ("std::path", &[]),
    ("std::{", &[]),
    ("super::super", &[]),
    ("rustix::fs::ABS", &[]),
    ("unsafe", &[]),
    ("#[allow", &[]),
    ("#[expect", &[]),
    ("\nstatic ", &[]),
    ("pub static ", &[]),
    (") static ", &[]),
    ("thread::sleep", &["src/root/file.rs"]),
    ("process::exit", &[]),
    ("std::env", &["src/main.rs"]),
    (
        "async ",
        &[
            "src/main.rs",
            "src/server/calls.rs",
            "src/server/mod.rs",
            "src/server/progress.rs",
            "src/server/service.rs",
            "src/transport/input.rs",
            "src/transport/mod.rs",
            "src/transport/output.rs",
            "src/transport/streams.rs",
        ],
    ),
    ("args_os", &["src/main.rs"]),
];

/// Longest source file without its tests, in lines. A longer one usually holds two ideas.
const LONGEST: usize = 270;

/// The files, and the directory, whose tests are attacks.
const ATTACKED: &[&str] = &[
    "coarse_time.rs",
    "confinement/",
    "cursors_rewritten.rs",
    "filtered.rs",
    "mapped.rs",
    "race.rs",
    "shortfalls.rs",
    "torn.rs",
    "write_faults.rs",
    "write_races.rs",
];

/// Fewest tests there are in them; a check that finds none would pass.
const ATTACKS: usize = 120;

fn sources() -> Vec<(String, String)> {
    let files = below("src");
    assert!(files.len() > 20, "the sources are found");
    files
}

/// Every file beneath a directory of the crate, sorted, with its text.
fn below(directory: &str) -> Vec<(String, String)> {
    fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { collect(&path, files) } else { files.push(path) }
        }
    }
    let mut files = Vec::new();
    collect(Path::new(directory), &mut files);
    files.sort();
    files.iter().map(|path| (path.to_str().unwrap().to_owned(), std::fs::read_to_string(path).unwrap())).collect()
}

/// A file's code: no comments, no tests.
fn code(text: &str) -> String {
    let body = text.split("#[cfg(test)]\nmod ").next().unwrap();
    // A file that is all tests.
    let body = if body.contains("\n#![cfg(test)]\n") { "" } else { body };
    let code = body.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    code.replace("cap_std::fs", "cap_std::FS")
}

/// The words that stand before a `::`, with the one before that where it is `crate`.
fn named_crates(code: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut own, mut outside) = (BTreeSet::new(), BTreeSet::new());
    let words: Vec<&str> = code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).collect();
    for word in words.iter().filter(|word| word.contains("::")) {
        let mut parts = word.split("::");
        match parts.next().unwrap() {
            "crate" => own.insert(parts.next().unwrap().to_owned()),
            first => outside.insert(first.to_owned()),
        };
    }
    (own, outside)
}

fn module(path: &str) -> &str {
    path.strip_prefix("src/").unwrap().split(['/', '.']).next().unwrap()
}

#[test]
fn modules_use_what_the_table_allows() {
    let outside_crates: BTreeSet<&str> = RULES.iter().flat_map(|(_, _, outside)| outside.iter().copied()).collect();
    let mut seen = BTreeSet::new();
    for (path, text) in sources() {
        let row = RULES.iter().find(|(name, ..)| *name == module(&path));
        assert!(row.is_some(), "{path} is in no row of the table");
        let (_, own, outside) = row.unwrap();
        let (used_own, used_outside) = named_crates(&code(&text));
        for used in used_own {
            assert!(own.contains(&used.as_str()) || used == module(&path), "{path} uses crate::{used}");
            seen.insert(format!("{} {used}", module(&path)));
        }
        for used in used_outside.iter().filter(|used| outside_crates.contains(used.as_str())) {
            assert!(outside.contains(&used.as_str()), "{path} names {used}");
            seen.insert(format!("{} {used}", module(&path)));
        }
    }
    for (name, own, outside) in RULES {
        for allowed in own.iter().chain(*outside) {
            assert!(seen.contains(&format!("{name} {allowed}")), "{name} no longer uses {allowed}: narrow the table");
        }
    }
}

#[test]
fn reserved_words_stand_only_where_they_may() {
    for (path, text) in sources() {
        for (word, allowed) in RESERVED {
            assert!(!code(&text).contains(word) || allowed.contains(&path.as_str()), "{path} says {word:?}");
        }
    }
}

#[test]
fn every_file_begins_with_its_contract_and_holds_one_idea() {
    for (path, text) in sources() {
        assert!(text.starts_with("//! "), "{path} does not say what is true because it exists");
        let lines = text.split("#[cfg(test)]\nmod ").next().unwrap().lines().count();
        assert!(lines <= LONGEST, "{path} has {lines} lines");
    }
}

#[test]
fn every_attack_names_the_class_of_weakness_it_guards_against() {
    let of_attacks = |path: &str| ATTACKED.iter().any(|place| path.starts_with(&format!("tests/it/{place}")));
    let mut found = 0;
    for (path, text) in below("tests/it").into_iter().filter(|(path, _)| of_attacks(path)) {
        let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
        for (at, line) in lines.iter().enumerate() {
            // In `both_back_ends!` a test has an argument without a type; elsewhere it has an attribute.
            let Some(name) = line.strip_prefix("fn ") else { continue };
            let between = |line: &&&str| line.starts_with("#[") || line.starts_with("///");
            let attributes = lines[..at].iter().rev().take_while(between).count();
            if !name.contains("(backend)") && !lines[at - attributes..at].contains(&"#[test]") {
                continue;
            }
            found += 1;
            let above = at.checked_sub(attributes + 1).map_or("", |at| lines[at]);
            let class = above.strip_prefix("// CWE-").and_then(|said| said.split_once(": "));
            let named = class.is_some_and(|(number, what)| number.parse::<u16>().is_ok() && !what.is_empty());
            assert!(named, "{path}, line {}: no `// CWE-<number>: ` above {name}", at + 1);
        }
    }
    assert!(found >= ATTACKS, "{found} tests are found");
}

#[test]
fn what_the_security_page_says_is_shown_by_tests_that_exist() {
    let files: Vec<(String, String)> = below("tests").into_iter().chain(below("src")).collect();
    let page = std::fs::read_to_string("SECURITY.md").unwrap();
    let named: Vec<(&str, &str)> =
        page.split('`').skip(1).step_by(2).filter_map(|text| text.split_once("::")).collect();
    assert!(named.len() > 40, "{} tests are named", named.len());
    for (file, test) in named {
        let (name, function) = (format!("/{file}.rs"), format!("fn {test}("));
        assert!(
            files.iter().any(|(path, text)| path.ends_with(&name) && text.contains(&function)),
            "SECURITY.md names {file}::{test}, which is no test"
        );
    }
}

#[test]
fn the_dependencies_bring_no_second_way_to_the_filesystem() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "-e", "normal,features", "--prefix", "none", "--no-dedupe"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    let lines: BTreeSet<&str> = tree.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    for absent in ["walkdir v", "ignore v", "glob v", "openssl v"] {
        assert!(!lines.iter().any(|line| line.starts_with(absent)), "{absent}");
    }
    for absent in ["fs", "process", "full", "net"] {
        assert!(!lines.contains(format!("tokio feature \"{absent}\"").as_str()), "tokio's {absent} is on");
    }
    assert!(lines.contains("tokio feature \"rt-multi-thread\""), "features are listed at all");
    // Below 4.0.3, without openat2, `open_dir("link/")` leaves the root (GHSA-hp8f-xmx4-4qrg).
    for name in ["cap-std", "cap-fs-ext", "cap-primitives"] {
        let line = lines.iter().find(|line| line.starts_with(&format!("{name} v"))).unwrap();
        let version: Vec<u32> = line.split(" v").nth(1).unwrap().split('.').map(|n| n.parse().unwrap()).collect();
        assert!(version >= vec![4, 0, 3], "{line}");
    }
}
