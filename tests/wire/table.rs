//! What is said on the wire, as one table, and the one check that every transport passes: each line gets exactly its
//! answer, byte for byte, and the connection is still usable after it.
//!
//! The table is `lines.txt` beside this file, and the lines that are too long to be read there.

use serde_json::value::RawValue;
use std::collections::{BTreeSet, HashMap};

/// A message cut short, and the answer that it gets when the input ends there.
pub const HALF: (&str, &str) = (
    r#"{"jsonrpc":"2.0","id":"half","method":"server/disc"#,
    r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"the line is not JSON"}}"#,
);

/// Longest line at the default limits.
const LONGEST: usize = 16 << 20;

/// One line and what it gets, both without line feeds.
pub struct Row {
    pub what: String,
    pub line: Vec<u8>,
    pub answer: Option<String>,
}

/// Names a line that fails a test, however that happens.
struct Named<'a>(&'a str);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("at the line that is {}", self.0);
        }
    }
}

/// The client's end of a connection to a server whose root holds `a.txt` with `alpha\n`.
pub trait Connection {
    fn send(&mut self, bytes: &[u8]);
    /// The next line of output, without its line feed.
    fn next(&mut self) -> String;
}

/// Sends every line of the table, and after each a request that must be answered. A call may be answered after that
/// request, so the order of the two is left open.
pub fn check(connection: &mut impl Connection) {
    for (number, row) in rows().into_iter().enumerate() {
        let _named = Named(&row.what);
        let (request, alive) = probe(number);
        connection.send(&row.line);
        connection.send(format!("\n{request}\n").as_bytes());
        let expected = 1 + usize::from(row.answer.is_some());
        let mut answers: Vec<String> = (0..expected).map(|_| shown(&connection.next())).collect();
        let usable = answers.iter().position(|answer| *answer == alive).unwrap_or_else(|| panic!("{answers:?}"));
        answers.remove(usable);
        assert_eq!(answers.pop(), row.answer);
    }
}

/// A request that shows that a connection is usable, and its answer.
pub fn probe(number: usize) -> (String, String) {
    let names = Names::of_the_table();
    let expand = |text: &str| names.expand(&text.replace("$NUMBER", &number.to_string()));
    (
        expand(r#"{"jsonrpc":"2.0","id":"probe $NUMBER","method":"server/discover","params":{$META}}"#),
        expand(r#"{"jsonrpc":"2.0","id":"probe $NUMBER","result":$DISCOVERED}"#),
    )
}

/// An answer as the table shows it: what stands in the list of tools is told by tests of its own.
pub fn shown(answer: &str) -> String {
    match answer.split_once(r#""tools":[{"#) {
        Some((before, tools)) if tools.ends_with("}]}}") => format!(r#"{before}"tools":["..."]}}}}"#),
        _ => answer.to_owned(),
    }
}

/// The whole table. No id is answered twice, so that all lines may be sent before any answer is read.
pub fn rows() -> Vec<Row> {
    let mut rows = written();
    rows.extend(deep());
    rows.extend(long());
    let ids: Vec<String> = rows.iter().filter_map(|row| row.answer.as_deref()).filter_map(id).collect();
    assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "an id stands in two rows");
    rows
}

fn id(answer: &str) -> Option<String> {
    let answer: HashMap<String, Box<RawValue>> = serde_json::from_str(answer).unwrap();
    answer.get("id").map(|id| id.get().to_owned())
}

const TEXT: &str = include_str!("lines.txt");

/// The names that the table gives to text which it repeats.
struct Names(Vec<(String, String)>);

impl Names {
    fn of_the_table() -> Self {
        let mut names = Self(vec![("$VERSION".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
        for (name, text) in
            TEXT.lines().filter(|line| line.starts_with('$')).map(|line| line.split_once(" = ").unwrap())
        {
            names.0.push((name.to_owned(), names.expand(text)));
        }
        names
    }

    fn expand(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, meaning)| text.replace(name, meaning))
    }
}

/// The rows of `lines.txt`.
fn written() -> Vec<Row> {
    let names = Names::of_the_table();
    let mut rows: Vec<Row> = Vec::new();
    let mut what = None;
    for (number, text) in TEXT.lines().enumerate() {
        let at = format!("line {} of lines.txt", number + 1);
        match (text.get(..1), text.get(2..).unwrap_or_default()) {
            (None | Some("#" | "$"), _) => {}
            (Some("="), said) => {
                assert_eq!(what.replace(format!("{said} ({at})")), None, "{at}: the last one has no line")
            }
            (Some(">"), line) => {
                let what = what.take().unwrap_or_else(|| panic!("{at}: what is this line?"));
                rows.push(Row { what, line: bytes(&names.expand(line)), answer: None });
            }
            (Some("<"), answer) => {
                let row = rows.last_mut().filter(|_| what.is_none()).unwrap_or_else(|| panic!("{at}: of which line?"));
                assert_eq!(row.answer.replace(names.expand(answer)), None, "{at}: a second answer");
            }
            _ => panic!("{at}"),
        }
    }
    rows
}

/// Text in which `\xNN` is a byte.
fn bytes(text: &str) -> Vec<u8> {
    let mut parts = text.split(r"\x");
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at(2);
        bytes.push(u8::from_str_radix(digits, 16).unwrap());
        bytes.extend_from_slice(rest.as_bytes());
    }
    bytes
}

fn row(what: &str, line: &str, answer: Option<&str>) -> Row {
    let names = Names::of_the_table();
    Row { what: what.to_owned(), line: names.expand(line).into_bytes(), answer: answer.map(|text| names.expand(text)) }
}

/// Nesting of 200,000 wherever it can stand, and the bounds of params.
fn deep() -> Vec<Row> {
    const DEEP: usize = 200_000;
    let arrays = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let objects = r#"{"a":"#.repeat(DEEP) + "1" + &"}".repeat(DEEP);
    let wide = |values: usize| vec!["1"; values].join(",");
    let discover = |id: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"server/discover","params":{params}}}"#)
    };
    let discovered = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":$DISCOVERED}}"#);
    let refused = |id: &str, what: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":"{id}","error":{{"code":-32602,"message":"{what}"}}}}"#)
    };
    let too_deep = |id: &str| refused(id, "params are nested deeper than 100 levels");
    let no_json = r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"the line is not JSON"}}"#;
    let no_object = r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"a message is one JSON object"}}"#;
    let no_id = r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"an id is a string or an integer"}}"#;
    let no_method =
        r#"{"jsonrpc":"2.0","id":"deep method","error":{"code":-32600,"message":"method must be a string"}}"#;
    let deep = arrays(DEEP);
    vec![
        row("deep arrays alone", &deep, Some(no_object)),
        row(
            "deep objects alone",
            &objects,
            Some(r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"jsonrpc must be \"2.0\""}}"#),
        ),
        row("deep arrays that are not closed", &"[".repeat(DEEP), Some(no_json)),
        row(
            "a request that ends within deep params",
            &format!(r#"{{"jsonrpc":"2.0","id":1,"params":{}"#, "[".repeat(DEEP)),
            Some(no_json),
        ),
        row("deep arrays as params", &discover("deep params", &deep), Some(&too_deep("deep params"))),
        row("deep objects as params", &discover("deep objects", &objects), Some(&too_deep("deep objects"))),
        row(
            "deep arrays within params",
            &discover("deep within", &format!(r#"{{"a":{deep},$META}}"#)),
            Some(&too_deep("deep within")),
        ),
        row("deep arrays as an id", &format!(r#"{{"jsonrpc":"2.0","id":{deep},"method":"ping"}}"#), Some(no_id)),
        row(
            "deep arrays as a method",
            &format!(r#"{{"jsonrpc":"2.0","id":"deep method","method":{deep}}}"#),
            Some(no_method),
        ),
        row(
            "deep arrays as a member that nobody knows",
            &format!(
                r#"{{"jsonrpc":"2.0","id":"deep member","method":"server/discover","params":{{$META}},"more":{deep}}}"#
            ),
            Some(&discovered("deep member")),
        ),
        row("a notification with deep params", &format!(r#"{{"jsonrpc":"2.0","method":"a","params":{deep}}}"#), None),
        row(
            "a cancellation of deep arrays",
            &format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{deep}}}}}"#),
            None,
        ),
        row("an answer with a deep result", &format!(r#"{{"jsonrpc":"2.0","id":1,"result":{deep}}}"#), None),
        // The params themselves are one level.
        row(
            "params of 100 levels",
            &discover("100", &format!(r#"{{"a":{},$META}}"#, arrays(99))),
            Some(&discovered("100")),
        ),
        row(
            "params of 101 levels",
            &discover("101", &format!(r#"{{"a":{},$META}}"#, arrays(100))),
            Some(&too_deep("101")),
        ),
        row(
            "params of very many values",
            &discover("many", &format!(r#"{{"a":[{}],$META}}"#, wide(200_000))),
            Some(&refused("many", "params hold more than 10000 values")),
        ),
        row(
            "params of many values",
            &discover("fewer", &format!(r#"{{"a":[{}],$META}}"#, wide(9_900))),
            Some(&discovered("fewer")),
        ),
    ]
}

/// Lines of 16 MiB and longer, and an id that is long.
fn long() -> Vec<Row> {
    let padded = |id: &str, length: usize| {
        let call = r#"{"name":"read_text_file","arguments":{"path":"a.txt"},$META}"#;
        let line = format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{call}}}"#);
        let line = Names::of_the_table().expand(&line);
        let blanks = " ".repeat(length - line.len());
        line + &blanks
    };
    let too_long = Some(r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"the line is too long"}}"#);
    let id = "x".repeat(10_000);
    vec![
        row(
            "a request with a long id",
            &format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"ping","params":{{$META}}}}"#),
            Some(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","error":{{"code":-32601,"message":"method not found"}}}}"#)),
        ),
        row("a call of 16 MiB", &padded("16 MiB", LONGEST), Some(r#"{"jsonrpc":"2.0","id":"16 MiB","result":$READ}"#)),
        row("a call of one byte more", &padded("more", LONGEST + 1), too_long),
        row("blanks of one byte more", &" ".repeat(LONGEST + 1), too_long),
        row("48 MiB of no JSON", &"x".repeat(3 * LONGEST), too_long),
    ]
}
