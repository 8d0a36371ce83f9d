//! Text that is none, or not what it looks like, in a call: refused as a whole, or taken as it is.

use super::{BAD_BASENAME, nothing_is_at, still_usable};
use crate::harness::{Server, Tree, both_back_ends};
use serde_json::{Value, json};

/// One call of each tool with `HERE` in place of each text that a client gives.
fn calls() -> [(&'static str, Value); 7] {
    [
        ("read_text_file", json!({ "path": "HERE" })),
        ("list_directory", json!({ "path": "HERE" })),
        ("search_text", json!({ "query": "i", "path": "HERE" })),
        ("search_text", json!({ "query": "HERE" })),
        ("search_files", json!({ "query": "HERE" })),
        ("write_text_file", json!({ "path": "HERE", "content": "x" })),
        ("write_text_file", json!({ "path": "new.txt", "content": "HERE" })),
    ]
}

/// Sends a call with these bytes in place of `HERE`, and hands back its answer.
fn sent(server: &mut Server, (tool, arguments): &(&str, Value), bytes: &[u8]) -> Value {
    let params = Server::with_meta(json!({ "name": tool, "arguments": arguments }));
    let line = json!({ "jsonrpc": "2.0", "id": "raw", "method": "tools/call", "params": params }).to_string();
    let (before, after) = line.split_once("HERE").unwrap();
    server.send_bytes(&[before.as_bytes(), bytes, after.as_bytes(), b"\n"].concat());
    server.next_message()
}

both_back_ends! {
    // CWE-176: half of a character is replaced, and something else is named or written than was sent.
    fn half_of_a_surrogate_pair_is_refused_in_every_argument_with_nothing_written(backend) {
        let tree = Tree::with(&[("ok.txt", "fine"), ("\u{fffd}", "i"), ("?", "i")]);
        let names = tree.names();
        let mut server = tree.serve(backend);
        for half in [r"\ud800", r"\udc00", r"ok.txt\udfff", r"\ud83dx", r"\ude00\ud83d"] {
            for call in calls() {
                let refused = json!({ "jsonrpc": "2.0", "id": "raw", "error": { "code": -32602, "message": "params are malformed" } });
                assert_eq!(sent(&mut server, &call, half.as_bytes()), refused, "{half} {call:?}");
            }
        }
        assert_eq!(tree.names(), names);
        // The same call with both halves is served.
        assert_eq!(sent(&mut server, &calls()[6], br"\ud83d\ude00")["result"]["isError"], false);
        assert_eq!(tree.read("new.txt"), "\u{1f600}".as_bytes());
        still_usable(&mut server);
        tree.outside_is_untouched();
    }

    // CWE-176: bytes that are not UTF-8 are replaced, and something else is named or written than was sent.
    fn bytes_that_are_not_utf_8_are_refused_in_every_argument_with_nothing_written(backend) {
        let tree = Tree::with(&[("ok.txt", "fine"), ("\u{fffd}", "i")]);
        std::fs::write(tree.path_bytes(b"\xff"), "i").unwrap();
        let names = tree.names();
        let mut server = tree.serve(backend);
        // A byte that is never one, a character cut short, a surrogate, a slash and a NUL spelled too long, a number too large.
        for bytes in [b"\xff".as_slice(), b"caf\xc3", b"\xed\xa0\x80", b"..\xc0\xaf", b"ok.txt\xc0\x80", b"\xf4\x90\x80\x80"] {
            for call in calls() {
                let refused = json!({ "jsonrpc": "2.0", "error": { "code": -32700, "message": "the line is not JSON" } });
                assert_eq!(sent(&mut server, &call, bytes), refused, "{bytes:?} {call:?}");
            }
        }
        assert_eq!(tree.names(), names);
        assert_eq!(sent(&mut server, &calls()[6], "caf\u{e9}".as_bytes())["result"]["isError"], false);
        assert_eq!(tree.read("new.txt"), "caf\u{e9}".as_bytes());
        still_usable(&mut server);
        tree.outside_is_untouched();
    }

    // CWE-41: a mark or an invisible character is dropped from a name or a text, and another one is meant.
    fn what_cannot_be_seen_is_a_character_like_any_other(backend) {
        for unseen in ["\u{feff}", "\u{200b}", "\u{202e}", "\u{2066}", "\u{ad}", "\u{e0020}", "\u{301}"] {
            let tree = Tree::with(&[("ok.txt", "fine"), ("hidden/f", "i")]);
            let mut server = tree.serve_with(backend, &["--include", "**", "--exclude", "hidden"]);
            for name in [format!("{unseen}ok.txt"), format!("ok.txt{unseen}"), format!("hidden{unseen}/f"), format!("{unseen}hidden/f")] {
                nothing_is_at(&mut server, &name);
                let refusal = server.refused("write_text_file", json!({ "path": name, "content": "x" }));
                assert_eq!(refusal, BAD_BASENAME);
            }
            let content = format!("{unseen}a{unseen}\n{unseen}");
            server.ok("write_text_file", json!({ "path": "w", "content": content }));
            assert_eq!((server.text("w"), tree.read("w")), (content.clone(), content.into_bytes()));
            let found = server.ok("search_text", json!({ "query": unseen }));
            assert_eq!(found.column("line"), ["1", "2"], "{unseen:?}");
            assert_eq!(server.all("search_text", json!({ "query": "fi" }), "path"), ["ok.txt"]);
            still_usable(&mut server);
        }
    }
}
