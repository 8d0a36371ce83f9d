//! Rules that hold for every pattern and every path, against a matcher that is written as the contract reads.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use proptest::prelude::*;
use ptc_fs_mcp::{RelPath, Selector};

/// The contract, spelled naively: segment by segment, `**` crossing any number of them, one more at the end.
fn matches(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern, path) {
        ([], []) => true,
        (["**"], _) => !path.is_empty(),
        (["**", rest @ ..], _) => matches(rest, path) || (!path.is_empty() && matches(pattern, &path[1..])),
        ([first, rest @ ..], [name, names @ ..]) => segment(first.as_bytes(), name.as_bytes()) && matches(rest, names),
        _ => false,
    }
}

/// `*` stands for any bytes of one segment.
fn segment(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => segment(rest, name) || (!name.is_empty() && segment(pattern, &name[1..])),
        ([first, rest @ ..], [byte, bytes @ ..]) => first == byte && segment(rest, bytes),
        _ => false,
    }
}

fn split(text: &str) -> Vec<&str> {
    text.split('/').collect()
}

/// Whether an exclude matches the path or any directory above it.
fn covers(exclude: &str, path: &str) -> bool {
    let path = split(path);
    (1..=path.len()).any(|length| matches(&split(exclude), &path[..length]))
}

fn patterns() -> impl Strategy<Value = String> {
    let piece = prop_oneof![3 => Just("a"), 2 => Just("b"), 2 => Just("*"), 1 => Just("[a]"), 1 => Just("{b}"), 1 => Just("é"), 1 => Just("\u{2028}")];
    let name = proptest::collection::vec(piece, 1..4).prop_map(|pieces| pieces.concat().replace("**", "*"));
    let segment = prop_oneof![3 => name.prop_map(|name| name.replace("**", "*")), 1 => Just("**".to_owned()), 1 => Just("*".to_owned())];
    proptest::collection::vec(segment, 1..5)
        .prop_map(|segments| segments.join("/"))
        .prop_filter("two stars stand alone", |pattern| pattern.split('/').all(|s| s == "**" || !s.contains("**")))
}

fn paths() -> impl Strategy<Value = String> {
    let piece = prop_oneof![4 => Just("a"), 3 => Just("b"), 1 => Just("[a]"), 1 => Just("{b}"), 1 => Just("é"), 1 => Just("\u{2028}")];
    let name = proptest::collection::vec(piece, 1..4).prop_map(|pieces| pieces.concat());
    proptest::collection::vec(name, 1..5).prop_map(|segments| segments.join("/"))
}

const FORBIDDEN: [char; 3] = ['\\', '\0', '\u{85}'];

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn patterns_match_as_the_contract_reads(include in patterns(), exclude in patterns(), path in paths()) {
        let selector = Selector::new(&[&include], &[&exclude]).unwrap();
        let parsed = RelPath::parse(&path).unwrap();
        let expected = matches(&split(&include), &split(&path)) && !covers(&exclude, &path);
        prop_assert_eq!(selector.selects(&parsed), expected);
        prop_assert_eq!(selector.excludes(&parsed), covers(&exclude, &path));
    }

    #[test]
    fn a_path_that_parses_is_its_own_only_spelling(text in "[a./\\\\C:\u{0}\u{85}é]{0,8}") {
        if let Ok(path) = RelPath::parse(&text) {
            let segments: Vec<&str> = path.as_str().split('/').collect();
            prop_assert!(path.is_root() || segments.iter().all(|s| !s.is_empty() && *s != "." && *s != ".."));
            prop_assert!(!path.as_str().contains(FORBIDDEN));
            prop_assert_eq!(RelPath::parse(path.as_str()).unwrap(), path);
        }
    }
}
