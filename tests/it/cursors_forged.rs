//! What is no cursor, in which order a cursor is checked, and what it tells whoever decodes it.

use crate::cursors::{INVALID, OTHER, STALE, files, first, list, read, stale, text, tree, with_cursor};
use crate::harness::{Refusal, Server, Tree, both_back_ends};
use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt as _;

const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// One traversal of more than one page for each reader.
fn calls() -> [(&'static str, Value); 4] {
    [list("d"), files(".md"), text("needle", "d"), read("d/long.txt")]
}

fn invalid() -> Refusal {
    Refusal { text: INVALID.to_owned(), kind: "invalid_cursor".to_owned() }
}

fn other() -> Refusal {
    Refusal { text: OTHER.to_owned(), kind: "invalid_cursor".to_owned() }
}

/// What a call answers to a cursor.
fn answer(server: &mut Server, (tool, arguments): &(&str, Value), cursor: &str) -> Refusal {
    match server.call(tool, with_cursor(arguments, cursor)) {
        Err(refused) => refused,
        Ok(page) => panic!("{tool} took {cursor:?}: {}", page.structured),
    }
}

/// Everything base64 that stands in a cursor, decoded.
fn decoded(cursor: &str) -> Vec<u8> {
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let engine = GeneralPurpose::new(&URL_SAFE, config);
    cursor.split('.').flat_map(|word| engine.decode(word).expect("base64url")).collect()
}

fn holds(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

both_back_ends! {
    // CWE-347: an altered cursor is taken.
    fn a_flipped_bit_at_any_position_is_no_cursor(backend) {
        let tree = tree();
        let mut server = tree.serve(backend);
        for call in calls() {
            let cursor = first(&mut server, &call);
            for position in 0..cursor.len() {
                for bit in [0, 1, 5] {
                    let mut bytes = cursor.clone().into_bytes();
                    bytes[position] ^= 1 << bit;
                    let flipped = String::from_utf8(bytes).unwrap();
                    assert_eq!(answer(&mut server, &call, &flipped), invalid(), "{position} {bit}");
                }
            }
            assert!(server.call(call.0, with_cursor(&call.1, &cursor)).is_ok(), "the cursor itself is taken");
        }
    }

    // CWE-347: an altered cursor is taken.
    fn a_shortened_or_lengthened_cursor_is_none(backend) {
        let tree = tree();
        let mut server = tree.serve(backend);
        for call in calls() {
            let cursor = first(&mut server, &call);
            for length in 0..cursor.len() {
                assert_eq!(answer(&mut server, &call, &cursor[..length]), invalid(), "{length}");
                assert_eq!(answer(&mut server, &call, &cursor[length + 1..]), invalid(), "{length}");
            }
            for text in [
                format!("{cursor}A"), format!("A{cursor}"), format!("{cursor}{cursor}"), format!("{cursor}.{cursor}"),
                format!("{cursor}."), format!(".{cursor}"), format!("{cursor}\n"), format!(" {cursor}"),
                format!("{cursor}\0"), cursor.to_uppercase(), cursor.to_lowercase(), cursor.chars().rev().collect(),
            ] {
                assert_eq!(answer(&mut server, &call, &text), invalid(), "{text:?}");
            }
        }
    }

    // CWE-347: a signature holds for more than one spelling.
    fn no_second_spelling_of_the_same_bytes_is_a_cursor(backend) {
        let tree = tree();
        let mut server = tree.serve(backend);
        for call in calls() {
            let cursor = first(&mut server, &call);
            let bytes = decoded(&cursor);
            let mut spellings = vec![
                format!("{cursor}="), format!("{cursor}=="), cursor.replace('.', "=."), cursor.replace('.', "==."),
                cursor.replace('.', "..") , cursor.replace('.', ""),
            ];
            if cursor.contains(['-', '_']) {
                spellings.push(cursor.replace('-', "+").replace('_', "/"));
            }
            // The last letter of a word has bits that no byte uses.
            let ends: Vec<usize> = cursor.match_indices('.').map(|(at, _)| at).chain([cursor.len()]).collect();
            let mut respelled = 0;
            for end in ends {
                for letter in LETTERS.chars() {
                    let text = format!("{}{letter}{}", &cursor[..end - 1], &cursor[end..]);
                    if text != cursor {
                        respelled += usize::from(decoded(&text) == bytes);
                        spellings.push(text);
                    }
                }
            }
            assert!(respelled > 0, "some of these spell the same bytes");
            for text in spellings {
                assert_eq!(answer(&mut server, &call, &text), invalid(), "{text}");
            }
        }
    }

    // CWE-345: a cursor is believed without a signature.
    fn what_never_was_a_cursor_is_none(backend) {
        let tree = tree();
        let mut server = tree.serve(backend);
        let long = "A".repeat(4_096);
        let longer = "A".repeat(4_097);
        for call in calls() {
            let cursor = first(&mut server, &call);
            let padded = format!("{cursor}{}", "A".repeat(4_097 - cursor.len()));
            for text in ["", ".", "..", "0", "null", "cursor", "\u{1f600}", &long, &longer, &padded, &"A.".repeat(50_000)] {
                assert_eq!(answer(&mut server, &call, text), invalid());
            }
            assert!(cursor.len() <= 4_096);
        }
    }

    // CWE-20: a cursor of another type is taken for none.
    fn a_cursor_that_is_not_a_string_is_a_bad_argument(backend) {
        let tree = tree();
        let mut server = tree.serve(backend);
        let bad = Refusal { text: "cursor must be a string".to_owned(), kind: "invalid_argument".to_owned() };
        for (tool, mut arguments) in calls() {
            for value in [json!(null), json!(0), json!(1.5), json!(true), json!([]), json!({}), json!(["x"])] {
                arguments["cursor"] = value;
                assert_eq!(server.call(tool, arguments.clone()).unwrap_err(), bad, "{arguments}");
            }
        }
    }

    // CWE-353: a cursor carries its position into another traversal.
    fn a_cursor_of_another_tool_or_other_arguments_is_for_a_different_traversal(backend) {
        let tree = tree();
        let mut server = tree.serve(backend);
        let calls = [
            list("d"), list(""), files(".md"), files("md"), files("d"), text("needle", "d"), text("needle", ""),
            text("needle", "d/a.md"), text("e", "d"), text("t", "d"), read("d/long.txt"), read("d/over.md"),
        ];
        let cursors: Vec<String> = calls.iter().map(|call| first(&mut server, call)).collect();
        for (issued, cursor) in cursors.iter().enumerate() {
            for (brought, call) in calls.iter().enumerate() {
                if issued == brought {
                    assert!(server.call(call.0, with_cursor(&call.1, cursor)).is_ok());
                } else {
                    assert_eq!(answer(&mut server, call, cursor), other(), "{:?} to {call:?}", calls[issued]);
                }
            }
        }
    }

    // CWE-41: two spellings of one path are two traversals.
    fn another_spelling_of_one_path_is_the_same_traversal(backend) {
        let tree = tree();
        let mut server = tree.serve(backend);
        for (call, path) in [(list("d"), "d//"), (text("needle", "d"), "d/"), (read("d/long.txt"), "d//long.txt")] {
            let cursor = first(&mut server, &call);
            let (tool, mut arguments) = call;
            arguments["path"] = json!(path);
            assert!(server.call(tool, with_cursor(&arguments, &cursor)).is_ok(), "{tool}");
        }
    }

    // CWE-345: a cursor of other options or another process is believed.
    fn a_cursor_of_another_process_is_none(backend) {
        let tree = tree();
        let (mut one, mut two) = (tree.serve(backend), tree.serve(backend));
        let mut narrower = tree.serve_with(backend, &["--include", "**", "--exclude", "other/**"]);
        for call in calls() {
            let cursor = first(&mut one, &call);
            assert_eq!(answer(&mut two, &call, &cursor), invalid());
            assert_eq!(answer(&mut narrower, &call, &cursor), invalid());
            assert!(one.call(call.0, with_cursor(&call.1, &cursor)).is_ok());
        }
    }

    // CWE-347: a forged cursor is told of the state, or a signed position out of range is used.
    fn the_signature_is_checked_before_the_scope_and_that_before_the_state(backend) {
        let tree = tree();
        let mut server = tree.serve(backend);
        let cursor = first(&mut server, &read("d/long.txt"));
        let mut forged = cursor.clone().into_bytes();
        forged[0] = if forged[0] == b'A' { b'B' } else { b'A' };
        let forged = String::from_utf8(forged).unwrap();
        tree.write("d/long.txt", "x".repeat(9_000));
        assert_eq!(answer(&mut server, &read("d/over.md"), &forged), invalid(), "forged, of another path, and stale");
        assert_eq!(answer(&mut server, &read("d/long.txt"), &forged), invalid(), "forged and stale");
        assert_eq!(answer(&mut server, &read("d/over.md"), &cursor), other(), "of another path and stale");
        assert_eq!(answer(&mut server, &list("d"), &cursor), other());
        assert_eq!(answer(&mut server, &read("d/long.txt"), &cursor), stale());
        tree.write("d/long.txt", "");
        assert_eq!(answer(&mut server, &read("d/long.txt"), &cursor).text, STALE, "the position lies beyond, too");
    }

    // CWE-703: a cursor that holds is refused.
    fn the_limit_may_change_between_pages(backend) {
        let tree = tree();
        let mut server = tree.serve(backend);
        for (tool, arguments) in calls() {
            let mut whole = arguments.clone();
            whole.as_object_mut().unwrap().remove("limit");
            let expected: Vec<Value> =
                server.pages(tool, whole.clone()).iter().flat_map(|page| page.items().clone()).collect();
            assert!(expected.len() > 3, "{tool}");
            let mut items = Vec::new();
            for limit in [Some(1), Some(2), None, Some(200)].iter().cycle() {
                whole["limit"] = json!(limit.unwrap_or(3));
                if limit.is_none() {
                    whole.as_object_mut().unwrap().remove("limit");
                }
                let page = server.ok(tool, whole.clone());
                items.extend(page.items().clone());
                match page.cursor() {
                    Some(cursor) => whole["cursor"] = json!(cursor),
                    None => break,
                }
            }
            assert_eq!(items, expected, "{tool}");
        }
    }

    // CWE-400: each use of a cursor leaves something behind.
    fn a_thousand_replays_give_one_page_and_cost_nothing(backend) {
        let tree = tree();
        let mut server = tree.serve(backend);
        for (tool, arguments) in calls() {
            let cursor = first(&mut server, &(tool, arguments.clone()));
            let arguments = with_cursor(&arguments, &cursor);
            let expected = server.ok(tool, arguments.clone());
            let replay = |server: &mut Server, times| {
                for _ in 0..times {
                    let page = server.ok(tool, arguments.clone());
                    assert_eq!((page.items(), page.hash()), (expected.items(), expected.hash()));
                }
            };
            replay(&mut server, 200);
            let (resident, descriptors) = (server.resident(), server.descriptors());
            replay(&mut server, 1_000);
            let grown = server.resident().saturating_sub(resident);
            assert!(grown < 4 << 20, "{tool}: {grown} bytes more");
            assert_eq!(server.descriptors(), descriptors, "{tool}");
        }
    }

    // CWE-200: a cursor tells of the host whoever decodes it.
    fn a_cursor_tells_no_path_inode_device_size_or_time(backend) {
        let tree = Tree::new();
        tree.write("distinct-dir/distinct-name.txt", "distinct needle\n".repeat(1_237));
        tree.write("distinct-dir/other-name.txt", "distinct needle\n".repeat(1_239));
        let mut server = tree.serve(backend);
        let meta = std::fs::metadata(tree.path("distinct-dir/distinct-name.txt")).unwrap();
        let numbers = [
            meta.ino(), meta.size(), meta.mtime() as u64, meta.mtime_nsec() as u64,
            meta.mtime() as u64 * 1_000_000_000 + meta.mtime_nsec() as u64,
            meta.ctime() as u64 * 1_000_000_000 + meta.ctime_nsec() as u64,
        ];
        assert!(meta.ino() > 255 && meta.mtime_nsec() > 65_535, "numbers that would not occur by chance");
        for call in [
            list("distinct-dir"), files("distinct"), text("needle", "distinct-dir"),
            read("distinct-dir/distinct-name.txt"),
        ] {
            let cursor = first(&mut server, &call);
            for text in [cursor.as_bytes(), &decoded(&cursor)] {
                for word in ["distinct", "name", "needle", ".txt", "/tmp", "search", "read_", "list_"] {
                    assert!(!holds(text, word.as_bytes()), "{word} stands in {cursor}");
                }
                for number in numbers {
                    let decimal = number.to_string();
                    assert!(decimal.len() < 5 || !holds(text, decimal.as_bytes()), "{number} stands in {cursor}");
                    let (little, big) = (number.to_le_bytes(), number.to_be_bytes());
                    assert!(!holds(text, &little) && !holds(text, &big), "{number} stands in {cursor}");
                    if number > u64::from(u16::MAX) {
                        assert!(!holds(text, &little[..4]) && !holds(text, &big[4..]), "{number} stands in {cursor}");
                    }
                }
            }
        }
    }
}

// CWE-200: the test above is blind.
#[test]
fn decoding_finds_what_is_there() {
    // Guards the test above: it would see a number or a word that a cursor did hold.
    let engine = base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let mut bytes = b"a/distinct-name".to_vec();
    bytes.extend(123_456_789_u64.to_le_bytes());
    let cursor = format!("{}.{}", engine.encode(&bytes), engine.encode([0; 32]));
    assert!(holds(&decoded(&cursor), b"distinct") && holds(&decoded(&cursor), &123_456_789_u64.to_le_bytes()));
}
