//! `search_text`.

use crate::harness::{Success, Tree, both_back_ends, sha256, while_touched};
use serde_json::{Value, json};

fn item(path: &str, line: u64, text: &str) -> Value {
    json!({ "path": path, "line": line, "text": text })
}

/// The hash of a page, from what it shows.
fn hash_of(page: &Success) -> String {
    let lines = page.items().iter().map(|item| {
        format!("{}\0{}\0{}\n", item["path"].as_str().unwrap(), item["line"], item["text"].as_str().unwrap())
    });
    sha256(lines.collect::<String>().as_bytes())
}

fn joined(pages: &[Success]) -> Vec<Value> {
    pages.iter().flat_map(|page| page.items().clone()).collect()
}

fn undecodable(pages: &[Success]) -> u64 {
    pages.iter().map(|page| page.skipped()["undecodable_lines"].as_u64().unwrap_or_default()).sum()
}

/// What is shown of a line, by the rule: its beginning, or where the match lies beyond that, from 512 before the match.
fn evidence(line: &str, query: &str) -> String {
    let hit = line.find(query).unwrap();
    let mut begin = if hit + query.len() <= 1024 { 0 } else { hit.saturating_sub(512) };
    while !line.is_char_boundary(begin) {
        begin -= 1;
    }
    let mut end = line.len().min(begin + 1024);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line[begin..end].to_owned()
}

both_back_ends! {
    fn matching_lines_come_with_path_number_and_text_sorted_by_path_then_line(backend) {
        let tree = Tree::with(&[("b", "x\nneedle 1\n\nneedle 2"), ("a/b", "needle\n"), ("a-b", "a needle"), ("a.txt", "none"), ("a0", "needle")]);
        let page = tree.serve(backend).ok("search_text", json!({ "query": "needle" }));
        let items = [
            item("a-b", 1, "a needle"), item("a/b", 1, "needle"), item("a0", 1, "needle"), item("b", 2, "needle 1"),
            item("b", 4, "needle 2"),
        ];
        let evidence = "a-b\x001\0a needle\na/b\x001\0needle\na0\x001\0needle\nb\x002\0needle 1\nb\x004\0needle 2\n";
        let expected = json!({ "items": items, "next_cursor": null, "content_hash": sha256(evidence.as_bytes()) });
        assert_eq!(page.structured, expected);
        assert_eq!(page.skipped(), &json!(null));
    }

    fn lines_end_with_a_newline_and_evidence_is_without_its_ending(backend) {
        for (content, items) in [
            ("needle", vec![item("f", 1, "needle")]),
            ("needle\n", vec![item("f", 1, "needle")]),
            ("\n\nneedle", vec![item("f", 3, "needle")]),
            ("x\r\nneedle\r\ny", vec![item("f", 2, "needle")]),
            ("x\ry needle\rz\nneedle", vec![item("f", 1, "x\ry needle\rz"), item("f", 2, "needle")]),
            ("needle\r\r\n", vec![item("f", 1, "needle\r")]),
            ("\u{feff}needle\n", vec![item("f", 1, "\u{feff}needle")]),
            ("a needle and a needle\n", vec![item("f", 1, "a needle and a needle")]),
            ("nee\ndle", vec![]),
            ("", vec![]),
            ("\tneedle \0 \u{7f}", vec![item("f", 1, "\tneedle \0 \u{7f}")]),
            ("x\u{2028}needle\u{85}y\u{b}z\u{c}", vec![item("f", 1, "x\u{2028}needle\u{85}y\u{b}z\u{c}")]),
        ] {
            let tree = Tree::with(&[("f", content)]);
            let page = tree.serve(backend).ok("search_text", json!({ "query": "needle" }));
            assert_eq!(page.items(), &items, "{content:?}");
            assert_eq!(page.hash(), hash_of(&page));
        }
    }

    fn a_carriage_return_that_no_newline_follows_is_part_of_the_line(backend) {
        let tree = Tree::with(&[("f", "needle\r")]);
        let page = tree.serve(backend).ok("search_text", json!({ "query": "needle" }));
        assert_eq!(page.items(), &vec![item("f", 1, "needle\r")]);
    }

    fn the_query_is_literal_and_keeps_its_case(backend) {
        let content = format!("{}!\n(a+)+$\na.c\nabc\nNEEDLE\n[x]\n\\d\n", "a".repeat(40));
        let tree = Tree::with(&[("f", &content)]);
        let mut server = tree.serve(backend);
        for (query, lines) in [
            ("(a+)+$", vec!["2"]), ("a.c", vec!["3"]), ("needle", vec![]), ("NEEDLE", vec!["5"]), ("[x]", vec!["6"]), ("\\d", vec!["7"]),
            (".*", vec![]), ("^", vec![]), ("a!", vec!["1"]),
        ] {
            assert_eq!(server.all("search_text", json!({ "query": query }), "line"), lines, "{query}");
        }
        let forty = "a".repeat(40);
        assert_eq!(server.all("search_text", json!({ "query": forty }), "line"), ["1"]);
    }

    fn the_path_narrows_the_search_to_a_directory_or_a_file(backend) {
        let tree = Tree::with(&[("a/f", "needle"), ("a/b/f", "needle"), ("ab", "needle"), ("a.txt", "needle"), ("h/f", "needle")]);
        tree.link("a", "link");
        tree.fifo("fifo");
        let mut server = tree.serve_with(backend, &["--include", "**", "--exclude", "h"]);
        for (path, found) in [
            ("a", vec!["a/b/f", "a/f"]), ("a/", vec!["a/b/f", "a/f"]), ("a//b", vec!["a/b/f"]), ("a/f", vec!["a/f"]), ("ab", vec!["ab"]),
            ("", vec!["a.txt", "a/b/f", "a/f", "ab"]),
        ] {
            assert_eq!(server.all("search_text", json!({ "query": "needle", "path": path }), "path"), found, "{path}");
        }
        let empty = json!({ "items": [], "next_cursor": null, "content_hash": sha256(b"") });
        let reference = server.ok("search_text", json!({ "query": "needle", "path": "missing" }));
        for path in ["h", "h/f", "link", "link/f", "fifo", "a/f/x", "missing/x"] {
            let page = server.ok("search_text", json!({ "query": "needle", "path": path }));
            assert_eq!((&page.structured, &page.meta), (&empty, &reference.meta), "{path}");
        }
    }

    fn evidence_is_at_most_1024_bytes_and_shows_the_match(backend) {
        let mut lines = Vec::new();
        for fill in ["x", "é", "€", "😀"] {
            for shift in 0..4 {
                for length in [0, 500, 508, 512, 1012, 1016, 1018, 1024, 1030, 1536, 1540, 3000] {
                    let filler = fill.repeat(length / fill.len() + 1);
                    lines.push(format!("{}{filler}needle{}", "x".repeat(shift), fill.repeat(700)));
                    lines.push(format!("{}{filler}needle", "x".repeat(shift)));
                }
            }
        }
        // A match that ends with the 1,024th byte, one that begins with the next, and one of many.
        lines.push(format!("{}needle{}", "x".repeat(1018), "y".repeat(2000)));
        lines.push(format!("{}needle{}", "x".repeat(1024), "y".repeat(2000)));
        lines.push(format!("{}needle{}needle", "x".repeat(2000), "y".repeat(2000)));
        lines.push("needle".repeat(400));
        lines.push(format!("{}needle", "\u{1}".repeat(2000)));
        let tree = Tree::with(&[("f", &(lines.join("\r\n") + "\r\n"))]);
        let expected: Vec<Value> =
            lines.iter().zip(1..).map(|(line, number)| item("f", number, &evidence(line, "needle"))).collect();
        for options in [vec!["--include", "**"], vec!["--include", "**", "--max-scan-bytes", "1"]] {
            let pages = tree.serve_with(backend, &options).pages("search_text", json!({ "query": "needle" }));
            for (got, wanted) in joined(&pages).iter().zip(&expected) {
                assert_eq!(got, wanted, "{options:?}");
                let text = got["text"].as_str().unwrap();
                assert!(text.len() <= 1024 && text.contains("needle"));
            }
            assert_eq!(joined(&pages).len(), expected.len());
            assert!(pages.iter().all(|page| page.hash() == hash_of(page)));
        }
    }

    fn a_line_that_is_not_utf8_is_skipped_whole_and_counted_when_it_matches(backend) {
        let long = "y".repeat(300_000);
        let mut content = b"needle \xff\n\xff only\nneedle good\n\xe2\x82 needle\r\nneedle \xc3".to_vec();
        content.extend_from_slice(format!("\nneedle {long}").as_bytes());
        content.extend_from_slice(b"\xff\n");
        content.extend_from_slice(b"\xff");
        content.extend_from_slice(format!("{long} needle\nlast needle\n").as_bytes());
        content.extend_from_slice(b"\xed\xa0\x80 needle \n\xff");
        let tree = Tree::new();
        tree.write("f", &content);
        for scan in ["1", "5000", "100000000"] {
            let options = ["--include", "**", "--max-scan-bytes", scan];
            let pages = tree.serve_with(backend, &options).pages("search_text", json!({ "query": "needle" }));
            assert_eq!(joined(&pages), [item("f", 3, "needle good"), item("f", 8, "last needle")], "{scan}");
            assert_eq!(undecodable(&pages), 6, "{scan}");
        }
    }

    fn a_file_without_a_matching_broken_line_counts_nothing(backend) {
        let tree = Tree::new();
        tree.write("f", b"\xff\nneedle\n\xfe\n");
        let page = tree.serve(backend).ok("search_text", json!({ "query": "needle" }));
        assert_eq!((page.items(), page.skipped()), (&vec![item("f", 2, "needle")], &json!(null)));
    }

    fn a_small_scan_budget_ends_with_the_items_of_one_page(backend) {
        let mut expected = Vec::new();
        let tree = Tree::with(&[("empty", "")]);
        for file in 0..6 {
            let mut content = String::new();
            for line in 1..=40_u64 {
                let text = match (line + file) % 9 {
                    0 => format!("line {line} needle"),
                    1 => format!("{}needle{}", "é".repeat(700 * usize::try_from(line).unwrap() / 2), "z".repeat(3000)),
                    _ => format!("{line} {}", "nothing ".repeat(20)),
                };
                if text.contains("needle") {
                    expected.push(item(&format!("f{file}"), line, &evidence(&text, "needle")));
                }
                content += &text;
                content += if line % 2 == 0 { "\n" } else { "\r\n" };
            }
            tree.write(&format!("f{file}"), content);
        }
        let whole = tree.serve(backend).pages("search_text", json!({ "query": "needle" }));
        assert_eq!(joined(&whole), expected);
        for scan in ["1", "3000", "70000"] {
            let mut server = tree.serve_with(backend, &["--include", "**", "--max-scan-bytes", scan]);
            let pages = server.pages("search_text", json!({ "query": "needle" }));
            assert_eq!(joined(&pages), expected, "{scan}");
            assert!(pages.len() > whole.len());
            if scan != "70000" {
                let empty = pages.iter().filter(|page| page.items().is_empty() && page.cursor().is_some()).count();
                assert!(empty > 0, "a page that found nothing within its budget is empty and goes on");
            }
        }
    }

    fn a_limit_pages_through_every_item_once(backend) {
        let tree = Tree::new();
        let content: String = (1..=250).map(|n| format!("needle {n}\n")).collect();
        tree.write("a", &content);
        tree.write("b", &content);
        let mut server = tree.serve(backend);
        let expected: Vec<Value> =
            ["a", "b"].iter().flat_map(|file| (1..=250).map(move |n| item(file, n, &format!("needle {n}")))).collect();
        for (limit, pages) in [(7, 72), (100, 5), (200, 3), (5000, 3)] {
            let found = server.pages("search_text", json!({ "query": "needle", "limit": limit }));
            assert_eq!((joined(&found), found.len()), (expected.clone(), pages), "{limit}");
            assert!(found.iter().all(|page| page.hash() == hash_of(page)));
        }
    }

    fn a_page_that_does_not_fit_under_the_ceiling_goes_on_in_the_next(backend) {
        let tree = Tree::new();
        let lines: Vec<String> = (0..50).map(|n| format!("needle {n} {}", "\u{1}\"\\".repeat(300))).collect();
        tree.write("f", lines.join("\n"));
        let mut server = tree.serve_with(backend, &["--include", "**", "--max-result-bytes", "36000"]);
        let pages = server.pages("search_text", json!({ "query": "needle" }));
        assert!(pages.len() > 1);
        assert_eq!(pages.iter().flat_map(|page| page.column("text")).collect::<Vec<_>>(), lines);
    }

    // CWE-770: a long line is held, or answered, whole.
    fn a_needle_at_the_end_of_a_huge_line_is_found_with_the_text_around_it(backend) {
        let line = format!("{}needle!", "x".repeat(3 << 20));
        let tree = Tree::with(&[("f", &line), ("g", &format!("{line}\nneedle"))]);
        let expected = evidence(&line, "needle");
        assert_eq!(expected.len(), 519);
        for scan in ["100000", "1000000", "134217728"] {
            let mut server = tree.serve_with(backend, &["--include", "**", "--max-scan-bytes", scan]);
            let pages = server.pages("search_text", json!({ "query": "needle" }));
            assert_eq!(joined(&pages), [item("f", 1, &expected), item("g", 1, &expected), item("g", 2, "needle")], "{scan}");
        }
    }

    fn a_match_across_any_boundary_of_what_is_read_at_a_time_is_found(backend) {
        let tree = Tree::new();
        for shift in 0..8 {
            for window in [2048_usize, 256 * 1024] {
                tree.write(&format!("{window}-{shift}"), format!("{}needle{}", "x".repeat(window - shift), "y".repeat(10_000)));
                tree.write(&format!("{window}-{shift}-lines"), format!("{}\nneedle\n", "x".repeat(window - shift)));
            }
        }
        for scan in ["2048", "134217728"] {
            let mut server = tree.serve_with(backend, &["--include", "**", "--max-scan-bytes", scan]);
            let found = server.all("search_text", json!({ "query": "needle" }), "path");
            assert_eq!(found, tree.names(), "{scan}");
        }
    }

    // CWE-400: a file of 1 TiB is searched to its end in one call.
    fn a_page_over_a_quiet_sparse_file_is_bounded(backend) {
        let tree = Tree::with(&[("a", "needle")]);
        std::fs::File::create(tree.path("sparse")).unwrap().set_len(1 << 40).unwrap();
        let mut server = tree.serve_with(backend, &["--include", "**", "--max-scan-bytes", "1000000"]);
        server.until_quiet(&tree.path("sparse"));
        let page = server.ok("search_text", json!({ "query": "needle" }));
        assert_eq!(page.items(), &vec![item("a", 1, "needle")]);
        let next = server.ok("search_text", json!({ "query": "needle", "cursor": page.cursor().unwrap() }));
        assert!(next.items().is_empty() && next.cursor().is_some());
    }

    // CWE-400: a file of 1 TiB is searched to its end, over and over.
    fn a_page_over_a_sparse_file_that_is_being_touched_is_bounded(backend) {
        let tree = Tree::with(&[("a", "needle")]);
        std::fs::File::create(tree.path("sparse")).unwrap().set_len(1 << 40).unwrap();
        let mut server = tree.serve_with(backend, &["--include", "**", "--max-scan-bytes", "1000000"]);
        let page = while_touched(&tree.path("sparse"), || server.ok("search_text", json!({ "query": "needle" })));
        assert_eq!(page.items(), &vec![item("a", 1, "needle")]);
        assert!(page.cursor().is_some() || page.skipped() == &json!({ "changing_files": 1 }), "{}", page.meta);
    }
}
