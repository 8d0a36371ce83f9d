//! Lines that are meant to break the reader of lines, with a filesystem behind it. The rest stands in `tests/wire`.

use super::still_usable;
use crate::harness::{Server, Tree, both_back_ends};
use serde_json::{Value, json};

/// A line's error, which has no id.
fn unread(code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "error": { "code": code, "message": message } })
}

/// A write whose arguments are this text.
fn write(id: u64, arguments: &str) -> String {
    let params = Server::with_meta(json!({ "name": "write_text_file", "arguments": "HERE" })).to_string();
    let params = params.replace("\"HERE\"", arguments);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
}

both_back_ends! {
    // CWE-789: a line is held in memory before its length is judged.
    fn a_line_of_100_mb_is_refused_in_bounded_memory(backend) {
        let tree = Tree::with(&[("ok.txt", "fine")]);
        let mut server = tree.serve(backend);
        still_usable(&mut server);
        let (before, after) = (write(1, r#"{"path":"w","content":"HERE"}"#), "x".repeat(100_000_000));
        let (before, rest) = before.split_once("HERE").unwrap();
        for part in [before, &after, rest, "\n"] {
            server.send_bytes(part.as_bytes());
        }
        assert_eq!(server.next_message(), unread(-32600, "the line is too long"));
        assert!(server.resident() < 60_000_000, "{} bytes", server.resident());
        still_usable(&mut server);
        assert_eq!(tree.names(), ["ok.txt"]);
    }

    // CWE-674: a message is read by a function that calls itself for each level.
    fn a_nesting_of_200_000_levels_ends_nothing(backend) {
        let tree = Tree::with(&[("ok.txt", "fine")]);
        let mut server = tree.serve(backend);
        let arrays = "[".repeat(200_000) + &"]".repeat(200_000);
        let objects = r#"{"path":"#.repeat(200_000) + "1" + &"}".repeat(200_000);
        for (id, deep) in [(1, &arrays), (2, &objects)] {
            server.send_line(&write(id, &format!(r#"{{"path":{deep},"content":"x"}}"#)));
            let error = json!({ "code": -32602, "message": "params are nested deeper than 100 levels" });
            assert_eq!(server.next_message(), json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            still_usable(&mut server);
        }
        assert_eq!(tree.names(), ["ok.txt"]);
    }

    // CWE-436: of two members of one name whoever stands between reads the one, and the server the other.
    fn an_argument_given_twice_is_refused_and_neither_is_written(backend) {
        let tree = Tree::with(&[("ok.txt", "fine")]);
        let mut server = tree.serve(backend);
        for (id, arguments) in [
            r#"{"path":"a","path":"b","content":"x"}"#, r#"{"path":"a","p\u0061th":"b","content":"x"}"#,
            r#"{"path":"a","content":"x","content":"x"}"#,
        ].iter().enumerate() {
            server.send_line(&write(id as u64, arguments));
            let error = json!({ "code": -32602, "message": "a member of params is given twice" });
            assert_eq!(server.next_message(), json!({ "jsonrpc": "2.0", "id": id, "error": error }), "{arguments}");
        }
        still_usable(&mut server);
        assert_eq!(tree.names(), ["ok.txt"]);
    }

    // CWE-20: what is no message, or several, is taken for a call.
    fn no_part_of_a_batch_or_of_a_broken_line_is_carried_out(backend) {
        let tree = Tree::with(&[("ok.txt", "fine")]);
        let mut server = tree.serve(backend);
        let call = write(1, r#"{"path":"w","content":"x"}"#);
        let not_json = unread(-32700, "the line is not JSON");
        let no_object = unread(-32600, "a message is one JSON object");
        for (line, answer) in [
            (format!("[{call}]"), &no_object),
            (format!("[{call},{call}]"), &no_object),
            (format!("{call}{call}"), &not_json),
            (format!("\u{feff}{call}"), &not_json),
            (format!("{call},"), &not_json),
            (call.replace(r#""id":1,"#, ""), &json!(null)),
            (call[..call.len() - 1].to_owned(), &not_json),
            ("7".to_owned(), &no_object),
            ("\"w\"".to_owned(), &no_object),
        ] {
            server.send_line(&line);
            if !answer.is_null() {
                assert_eq!(server.next_message(), *answer, "{line}");
            }
            still_usable(&mut server);
            assert_eq!(tree.names(), ["ok.txt"], "{line}");
        }
        server.send_line(&format!("{call}\r"));
        assert_eq!(server.next_message()["result"]["isError"], false, "the line itself is one that is carried out");
        assert_eq!(tree.names(), ["ok.txt", "w"]);
        // The end of the input in the middle of a write.
        server.send_bytes(&write(2, r#"{"path":"v","content":"x"}"#).as_bytes()[..call.len() - 9]);
        let finished = server.end();
        assert_eq!((finished.status.code(), finished.stderr.as_str()), (Some(0), ""));
        assert_eq!(serde_json::from_str::<Value>(&finished.stdout).unwrap(), not_json);
        assert_eq!(tree.names(), ["ok.txt", "w"]);
    }
}
