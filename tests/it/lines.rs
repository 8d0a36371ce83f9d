//! What one line of standard input can be, and its exact answer.

use crate::harness::{Backend, Finished, Server, Tree, binary, finish_with};
use serde_json::{Value, json};

/// Longest line at the default limits.
const LONGEST: usize = 16 << 20;

/// A valid request without its id, which is put in as it is spelled.
fn request(id: &str) -> String {
    let params = Server::with_meta(json!({ "name": "search_files", "arguments": { "query": "a.txt" } }));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
}

/// The refusal of a line whose id is not known: it has no `id` at all.
fn nameless(code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "error": { "code": code, "message": message } })
}

/// The refusal of a request whose id is known.
fn named(id: Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// One connection that is asked something valid after every line, so that a line's answers are all that came before.
struct Connection {
    server: Server,
    probes: u64,
}

impl Connection {
    fn new(tree: &Tree) -> Self {
        Self { server: tree.serve(Backend::Openat2), probes: 0 }
    }

    /// Sends a line and gives all its answers. A call may be answered after the probe; a refusal stands before it.
    fn answers(&mut self, line: &[u8], call: bool) -> Vec<Value> {
        self.server.send_bytes(line);
        self.server.send_bytes(b"\n");
        self.probes += 1;
        let probe = json!(format!("probe {}", self.probes));
        let params = Server::with_meta(json!({}));
        self.server.send_line(
            &json!({ "jsonrpc": "2.0", "id": probe, "method": "server/discover", "params": params }).to_string(),
        );
        let mut answers = Vec::new();
        let mut probed = false;
        while !probed || (call && answers.is_empty()) {
            let answer = self.server.next_message();
            if answer["id"] == probe {
                assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
                probed = true;
            } else {
                answers.push(answer);
            }
        }
        answers
    }

    fn check(&mut self, line: &[u8], expected: Option<Value>) {
        let shown = String::from_utf8_lossy(line.get(..200).unwrap_or(line)).into_owned();
        assert_eq!(self.answers(line, false), Vec::from_iter(expected), "{shown:?}");
    }

    /// Fails unless the line is answered as the call that [`request`] makes, under this id.
    fn serves(&mut self, line: &[u8], id: &Value) {
        let shown = String::from_utf8_lossy(line.get(..200).unwrap_or(line)).into_owned();
        let answers = self.answers(line, true);
        let [answer] = answers.as_slice() else { panic!("{shown:?}: {answers:?}") };
        assert_eq!(answer["id"], *id, "{shown:?}");
        assert_eq!(answer["result"]["structuredContent"]["items"], json!([{ "path": "a.txt" }]), "{shown:?}: {answer}");
    }

    fn end(self) {
        let finished = self.server.end();
        assert_eq!(finished.status.code(), Some(0));
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("", ""));
    }
}

fn tree() -> Tree {
    Tree::with(&[("a.txt", "alpha\n")])
}

#[test]
fn a_line_that_is_no_message_gets_its_answer_and_the_connection_stays_usable() {
    let tree = tree();
    let mut connection = Connection::new(&tree);
    let not_json = nameless(-32700, "the line is not JSON");
    let not_object = nameless(-32600, "a message is one JSON object");
    let not_id = nameless(-32600, "an id is a string or an integer");

    for line in ["", " ", "\t", "\r", " \t\r"] {
        connection.check(line.as_bytes(), None);
    }
    for line in ["x", "{", "}", "{]", "[1", "\"a", "nul", "{}{}", "{} x", "'{}'", "\0", "\0{}", "\u{feff}{}", "\u{a0}"]
    {
        connection.check(line.as_bytes(), Some(not_json.clone()));
    }
    for line in
        [&b"\xff\xfe"[..], b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", b"\xed\xa0\x80", b"{\"a\":\"\xc3\"}"]
    {
        connection.check(line, Some(not_json.clone()));
    }
    for line in ["1", "-0.5e3", "null", "true", "\"a\"", "[]", "[1,2]", "[[]]"] {
        connection.check(line.as_bytes(), Some(not_object.clone()));
    }
    connection.check(format!("[{}]", request("1")).as_bytes(), Some(not_object.clone()));
    connection.check(format!("[{},{}]", request("1"), request("2")).as_bytes(), Some(not_object.clone()));
    for id in ["null", "1.5", "-0.1", "true", "[]", "[1]", "{}", "1e300", "1.0"] {
        connection.check(request(id).as_bytes(), Some(not_id.clone()));
    }
    connection.check(request(r#""\ud800""#).as_bytes(), Some(not_id));
    connection.check(b"{}", Some(nameless(-32600, "jsonrpc must be \"2.0\"")));
    connection.end();
}

#[test]
fn a_request_that_is_malformed_is_refused_under_its_id() {
    let tree = tree();
    let mut connection = Connection::new(&tree);
    let version = "jsonrpc must be \"2.0\"";
    for (line, code, message) in [
        (r#"{"id":7,"method":"server/discover"}"#, -32600, version),
        (r#"{"jsonrpc":"1.0","id":7,"method":"server/discover"}"#, -32600, version),
        (r#"{"jsonrpc":2.0,"id":7,"method":"server/discover"}"#, -32600, version),
        (r#"{"jsonrpc":"2.0","id":7}"#, -32600, "method is missing"),
        (r#"{"jsonrpc":"2.0","id":7,"params":{}}"#, -32600, "method is missing"),
        (r#"{"jsonrpc":"2.0","id":7,"method":1}"#, -32600, "method must be a string"),
        (r#"{"jsonrpc":"2.0","id":7,"method":null}"#, -32600, "method must be a string"),
        (r#"{"jsonrpc":"2.0","id":7,"method":"server/discover","params":null}"#, -32602, "params are malformed"),
        (r#"{"jsonrpc":"2.0","id":7,"method":"server/discover","params":[]}"#, -32602, "params are malformed"),
        (r#"{"jsonrpc":"2.0","id":7,"method":"server/discover","params":1}"#, -32602, "params are malformed"),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"server/discover","params":{"a":"\ud800"}}"#,
            -32602,
            "params are malformed",
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"server/discover","params":{"\udfff":1}}"#,
            -32602,
            "params are malformed",
        ),
    ] {
        connection.check(line.as_bytes(), Some(named(json!(7), code, message)));
    }
    connection.end();
}

#[test]
fn a_member_given_twice_makes_a_line_no_message() {
    let tree = tree();
    let mut connection = Connection::new(&tree);
    let twice = nameless(-32600, "a member is given twice");
    connection.check(br#"{"jsonrpc":"2.0","id":7,"id":8,"method":"server/discover"}"#, Some(twice.clone()));
    connection.check(br#"{"jsonrpc":"2.0","id":7,"method":"ping","method":"server/discover"}"#, Some(twice));
    connection.end();
}

#[test]
fn an_answer_to_a_question_that_was_never_asked_is_ignored() {
    let tree = tree();
    let mut connection = Connection::new(&tree);
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}"#,
    ] {
        connection.check(line.as_bytes(), None);
    }
    connection.end();
}

#[test]
fn an_id_comes_back_as_it_was_given() {
    let tree = tree();
    let mut connection = Connection::new(&tree);
    for id in [
        json!(0),
        json!(-1),
        json!(9_007_199_254_740_993_i64),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(""),
        json!("1"),
        json!("null"),
        json!(" a\"\\\n\u{0}\u{e9}\u{1f600} "),
        json!("x".repeat(10_000)),
    ] {
        connection.serves(request(&id.to_string()).as_bytes(), &id);
    }
    connection.serves(request(r#""\ud83d\ude00""#).as_bytes(), &json!("\u{1f600}"));
    connection.end();
}

#[test]
fn white_space_around_a_message_is_nothing() {
    let tree = tree();
    let mut connection = Connection::new(&tree);
    connection.serves(format!("{}\r", request("1")).as_bytes(), &json!(1));
    connection.serves(format!(" \t{} ", request("2")).as_bytes(), &json!(2));
    connection.end();
}

#[test]
fn where_a_write_ends_is_nothing_to_where_a_line_ends() {
    let tree = tree();
    let mut server = tree.serve(Backend::Openat2);
    for byte in (request("1") + "\n").as_bytes() {
        server.send_bytes(&[*byte]);
    }
    assert_eq!(server.next_message()["id"], 1);
    server.send_bytes(format!("{}\n\n{}\r\n{}", request("2"), request("3"), request("4")).as_bytes());
    let mut ids: Vec<u64> = (0..2).map(|_| server.next_message()["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [2, 3]);
    server.send_bytes(b"\n");
    assert_eq!(server.next_message()["id"], 4);
}

#[test]
fn deep_nesting_is_refused_under_the_id_where_there_is_one() {
    let tree = tree();
    let mut connection = Connection::new(&tree);
    let deep = "[".repeat(200_000) + &"]".repeat(200_000);
    let objects = r#"{"a":"#.repeat(200_000) + "1" + &"}".repeat(200_000);
    let malformed = named(json!("deep"), -32602, "params are malformed");
    for params in [&format!(r#"{{"a":{deep}}}"#), &deep, &objects] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":"deep","method":"server/discover","params":{params}}}"#);
        connection.check(line.as_bytes(), Some(malformed.clone()));
    }
    connection.check(deep.as_bytes(), Some(nameless(-32600, "a message is one JSON object")));
    let line = request(&deep);
    connection.check(line.as_bytes(), Some(nameless(-32600, "an id is a string or an integer")));
    // Halves of the same, which are no JSON.
    connection.check("[".repeat(200_000).as_bytes(), Some(nameless(-32700, "the line is not JSON")));
    let line = format!(r#"{{"jsonrpc":"2.0","id":1,"params":{}"#, "[".repeat(200_000));
    connection.check(line.as_bytes(), Some(nameless(-32700, "the line is not JSON")));
    connection.end();
}

#[test]
fn a_line_of_16_mib_is_read_and_one_byte_more_is_refused_without_an_id() {
    let tree = tree();
    let mut connection = Connection::new(&tree);
    let padded = |length: usize| {
        let mut line = request("1").into_bytes();
        line.resize(length, b' ');
        line
    };
    connection.serves(&padded(LONGEST), &json!(1));
    connection.check(&padded(LONGEST + 1), Some(nameless(-32600, "the line is too long")));
    connection.check(&vec![b'x'; 3 * LONGEST], Some(nameless(-32600, "the line is too long")));
    connection.end();
}

#[test]
fn a_line_of_the_largest_write_is_read_even_when_every_byte_is_escaped() {
    let tree = tree();
    let most = 3 << 20;
    let mut server = tree.serve_with(Backend::Openat2, &["--include", "**", "--max-write-bytes", &most.to_string()]);
    let content = "\u{1}".repeat(most);
    let arguments = json!({ "path": "big", "content": content });
    assert!(arguments.to_string().len() > LONGEST, "the line is longer than 16 MiB");
    assert_eq!(server.ok("write_text_file", arguments).structured["bytes"], json!(most));
    assert_eq!(tree.read("big"), content.as_bytes());
}

#[test]
fn input_that_ends_in_the_middle_of_a_line_ends_that_line() {
    let tree = tree();
    let run = |input: &str| -> Finished {
        finish_with(binary().arg("--root").arg(tree.root()).args(["--include", "**"]), input.as_bytes())
    };
    let whole = run(&request("1"));
    assert_eq!(whole.status.code(), Some(0));
    let answer: Value = serde_json::from_str(&whole.stdout).unwrap();
    assert_eq!(answer["result"]["structuredContent"]["items"], json!([{ "path": "a.txt" }]));

    let half = request("1");
    for input in [&half[..half.len() / 2], &format!("{}\n{{\"jsonrpc\"", request("1"))] {
        let finished = run(input);
        assert_eq!((finished.status.code(), finished.stderr.as_str()), (Some(0), ""));
        let answers: Vec<Value> = finished.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(answers.iter().filter(|answer| **answer == nameless(-32700, "the line is not JSON")).count(), 1);
        assert_eq!(answers.len(), input.lines().count());
    }
}
