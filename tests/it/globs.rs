//! Which patterns are refused at the start, and with which spelling in their place.

use crate::cli::{accepted, refused, with};
use crate::harness::{Tree, binary, finish};

// CWE-20: a pattern selects something else than its author meant.
#[test]
fn a_pattern_that_would_mean_something_else_is_refused_with_the_right_spelling() {
    let tree = Tree::new();
    for (pattern, advice) in [
        ("", "write **"),
        ("a?.txt", "write a*.txt"),
        ("src/?", "write src/*"),
        ("**.env", "write **/*.env"),
        ("src/**.rs", "write src/**/*.rs"),
        ("a**", "write a*"),
        ("a**b/c", "write a*b/c"),
        ("/src/**", "write src/**"),
        ("//src", "write src"),
        ("./src/**", "write src/**"),
        (".", "write **"),
        ("a/./b", "write a/b"),
        ("a/.", "write a"),
        ("a//b", "write a/b"),
        ("..", "nothing above the root is served; leave out .."),
        ("../a", "nothing above the root is served; leave out .."),
        ("a/../b", "nothing above the root is served; leave out .."),
        ("a/..", "nothing above the root is served; leave out .."),
        ("src\\a", "write src/a"),
        ("*.{ts,js}", "lists are not known; repeat the option: *.ts and *.js"),
        ("{a,b,c}/x", "lists are not known; repeat the option: a/x and b/x"),
        ("[!a].txt", "sets are not known; write * and narrow it with --exclude"),
        ("[^a].txt", "sets are not known; write * and narrow it with --exclude"),
    ] {
        for option in ["--include", "--exclude"] {
            let text = format!("{option} pattern can never match: {pattern} ({advice})");
            refused(&with(&tree, &[option, pattern]), &text);
            refused(&with(&tree, &["call", "list_directory", option, pattern]), &text);
        }
    }
}

// CWE-20: the advice leads to a pattern that is refused, too.
#[test]
fn an_advised_spelling_is_one_that_is_accepted() {
    let tree = Tree::new();
    for pattern in ["a?.txt", "**.env", "a**b/c", "/src/**", "//src", "./src/**", ".", "a//b", "src/", "src\\a", "/"] {
        accepted(&with(&tree, &["--include", &advised(&tree, pattern)]));
    }
}

// CWE-20: the advice mends one fault of two.
#[test]
fn an_advised_spelling_is_one_that_is_accepted_though_two_things_were_wrong() {
    let tree = Tree::new();
    let patterns = ["/a?.txt", "./**.env", "src//?", "/src/", ".\\src\\*.rs", "\\*", "src\\", "**a/**b", "a?/"];
    let refused_too: Vec<String> = patterns
        .iter()
        .map(|pattern| advised(&tree, pattern))
        .filter(|spelling| finish(binary().args(with(&tree, &["--include", spelling]))).status.code() != Some(0))
        .collect();
    assert_eq!(refused_too, Vec::<String>::new());
}

/// The spelling that the refusal of an include tells.
fn advised(tree: &Tree, pattern: &str) -> String {
    let finished = finish(binary().args(with(tree, &["--include", pattern])));
    let advice = finished.stderr.rsplit_once("(write ").unwrap_or_else(|| panic!("{pattern}: {}", finished.stderr)).1;
    advice.strip_suffix(")\n").unwrap().split(';').next().unwrap().to_owned()
}

// CWE-20: a pattern of slashes selects something else than its author meant.
#[test]
fn a_pattern_of_slashes_alone_is_everything() {
    let tree = Tree::new();
    refused(&with(&tree, &["--include", "/"]), "--include pattern can never match: / (write **)");
    refused(&with(&tree, &["--exclude", "/"]), "--exclude pattern can never match: / (write **)");
}

// CWE-41: a slash at the end makes an exclude match nothing.
#[test]
fn a_trailing_slash_is_refused_on_an_include_and_dropped_from_an_exclude() {
    let tree = Tree::new();
    refused(&with(&tree, &["--include", "src/"]), "--include pattern can never match: src/ (write src/**)");
    accepted(&with(&tree, &["--exclude", "src/"]));
}

// CWE-150: a pattern's escape sequence reaches the operator's terminal.
#[test]
fn a_control_character_in_a_pattern_is_refused_and_not_printed() {
    let tree = Tree::new();
    for pattern in ["a\nb", "\u{1b}[31m", "a\u{7f}", "a\u{85}", "\t"] {
        let shown = pattern.replace(char::is_control, "\u{fffd}");
        let advice = "control characters are never served; write * in their place";
        refused(
            &with(&tree, &["--include", pattern]),
            &format!("--include pattern can never match: {shown} ({advice})"),
        );
    }
}

// CWE-770: a pattern of any size is compiled.
#[test]
fn the_bounds_of_patterns_are_exact() {
    let tree = Tree::new();
    let never = "--include pattern can never match";
    accepted(&with(&tree, &["--include", &"a".repeat(1024)]));
    let shown = format!("{}\u{2026}", "a".repeat(120));
    refused(&with(&tree, &["--include", &"a".repeat(1025)]), &format!("{never}: {shown} (at most 1024 bytes)"));
    let shown = "\u{e9}".repeat(120);
    refused(
        &with(&tree, &["--include", &"\u{e9}".repeat(513)]),
        &format!("{never}: {shown}\u{2026} (at most 1024 bytes)"),
    );
    accepted(&with(&tree, &["--include", &vec!["a"; 64].join("/")]));
    let segments = vec!["a"; 65].join("/");
    let shown = segments.get(..120).unwrap();
    refused(&with(&tree, &["--include", &segments]), &format!("{never}: {shown}\u{2026} (at most 64 segments)"));
}

// CWE-770: any number of patterns is compiled.
#[test]
fn there_are_at_most_256_patterns_of_a_kind() {
    let tree = Tree::new();
    // `with` has one include of its own.
    for (option, most) in [("--include", 255), ("--exclude", 256)] {
        let words: Vec<&str> = [option, "a"].repeat(most);
        accepted(&with(&tree, &words));
        let words: Vec<&str> = [option, "a"].repeat(most + 1);
        refused(&with(&tree, &words), &format!("{option} patterns are too many or too complex"));
    }
}

// CWE-20: a character has a meaning that nobody wrote down.
#[test]
fn every_other_character_is_literal_and_starts_a_server() {
    let tree = Tree::new();
    for pattern in [
        "app/[id]/page.tsx",
        "{a}",
        "a{",
        "}",
        "[",
        "]",
        "!a",
        "#a",
        "a,b",
        " a ",
        "$HOME",
        "~",
        "%2e",
        "caf\u{e9}",
        ".env",
        "...",
    ] {
        accepted(&with(&tree, &["--include", pattern]));
        accepted(&with(&tree, &["--exclude", pattern]));
    }
    accepted(&with(&tree, &["--include=-a", "--exclude=--b"]));
}
