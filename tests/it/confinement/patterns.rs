//! Patterns over names that are hard to match: of many bytes, of many lines, of characters of many bytes.

use super::still_usable;
use crate::harness::{DEADLINE, Tree, both_back_ends};
use serde_json::json;
use std::time::Instant;

/// Patterns over `d\u{e9}/m\u{2028}e/aXz.txt`, for whatever character X is: what an include of each selects, and what an
/// exclude of each hides. They differ where a pattern matches a directory.
const FORMS: &[(&str, bool, bool)] = &[
    ("**", true, true),
    ("**/*", true, true),
    ("*", false, true),
    ("*/*", false, true),
    ("*/*/*", true, true),
    ("*/*/*/*", false, false),
    ("d\u{e9}/**", true, true),
    ("d\u{e9}", false, true),
    ("de/**", false, false),
    ("de\u{301}/**", false, false),
    ("d\u{e9}/*", false, true),
    ("d\u{e9}/*/a*.txt", true, true),
    ("d*/m*e/a*z.txt", true, true),
    ("d*/m*e", false, true),
    ("**/m*e/**", true, true),
    ("**/a*", true, true),
    ("**/*z.txt", true, true),
    ("**/a*z.txt", true, true),
    ("**/a*y.txt", false, false),
    ("**/a*z*t", true, true),
    ("**/*a*z*", true, true),
    ("a*z.txt", false, false),
    ("d\u{e9}/**/a*z.txt", true, true),
    ("d\u{e9}/**/b*z.txt", false, false),
    ("**/z*", false, false),
    ("**/az.txt", false, false),
];

both_back_ends! {
    // CWE-176: a wildcard stops at a line break, or within a character.
    fn every_form_of_a_pattern_covers_line_breaks_and_characters_of_any_length(backend) {
        let place = |between: &str| format!("d\u{e9}/m\u{2028}e/a{between}z.txt");
        let tree = Tree::with(&[("ok.txt", "fine")]);
        let mut speakable = ["\u{e9}", "e\u{301}", "\u{2028}", "\u{2029}", "\u{202e}", "\u{1f600}", " "].map(place).to_vec();
        speakable.sort();
        // Not served, but counted where a pattern selects them: the count is the witness.
        let unspeakable = ["\n", "\r", "\r\n", "\u{85}", "\u{b}"].map(place);
        for path in speakable.iter().chain(&unspeakable) {
            tree.write(path, "i");
        }
        for byte in [b'\xff', b'\xc3'] {
            let place = ["d\u{e9}/m\u{2028}e/a".as_bytes(), &[byte], b"z.txt"].concat();
            std::fs::write(tree.path_bytes(&place), "i").unwrap();
        }
        let all = json!({ "unrepresentable_names": unspeakable.len() + 2 });
        for (pattern, selects, hides) in FORMS {
            for (options, served) in [
                (vec!["--include", "ok.txt", "--include", pattern], *selects),
                (vec!["--include", "**", "--exclude", pattern], !*hides),
            ] {
                let mut server = tree.serve_with(backend, &options);
                let page = server.ok("search_text", json!({ "query": "i", "path": "d\u{e9}" }));
                let expected = if served { (speakable.clone(), &all) } else { (Vec::new(), &json!(null)) };
                assert_eq!((page.column("path"), page.skipped()), expected, "{options:?}");
                for path in &speakable {
                    assert_eq!(server.call("read_text_file", json!({ "path": path })).is_ok(), served, "{options:?} {path:?}");
                }
            }
        }
    }

    // CWE-1333: a pattern takes time exponential in its stars, or in the length of a name.
    fn patterns_of_many_stars_take_linear_time_on_paths_of_1_000_characters(backend) {
        let tree = Tree::with(&[("ok.txt", "fine")]);
        let mut paths: Vec<String> =
            (0..40).map(|number| [format!("{number:02}{}", "a".repeat(248)), "a".repeat(250), "a".repeat(250), "a".repeat(248)].join("/")).collect();
        paths.extend((0..10).map(|number| format!("{number}{}", "/a".repeat(60))));
        paths.sort();
        for path in &paths {
            tree.write(path, "i");
        }
        let patterns: Vec<String> = (0..128)
            .flat_map(|number| [format!("{}b{number}", "*a".repeat(3 + number % 8)), format!("**/*a/{}b{number}", "**/*".repeat(1 + number % 8).replace("***", "*/**"))])
            .collect();
        assert_eq!(patterns.len(), 256);
        let started = Instant::now();
        for (option, served) in [("--exclude", true), ("--include", false)] {
            let mut options = vec!["--include", if served { "**" } else { "ok.txt" }];
            options.extend(patterns.iter().take(if served { 256 } else { 255 }).flat_map(|pattern| [option, pattern]));
            let mut server = tree.serve_with(backend, &options);
            let found = server.all("search_text", json!({ "query": "i" }), "path");
            let expected: Vec<String> = if served { paths.clone() } else { Vec::new() };
            assert_eq!(found.into_iter().filter(|path| path != "ok.txt").collect::<Vec<_>>(), expected);
            for path in &paths {
                assert_eq!(server.call("read_text_file", json!({ "path": path })).is_ok(), served);
            }
            still_usable(&mut server);
        }
        assert!(started.elapsed() < DEADLINE, "{:?}", started.elapsed());
    }
}
