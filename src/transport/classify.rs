//! What one line is, as a pure function of its bytes.
//!
//! The envelope is read with its members left raw, so the id of a request is known even where its params cannot be
//! decoded: nested too deeply, or holding half of a surrogate pair. Only then are params decoded.

use serde::Deserialize;
use serde_json::error::Category;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::ids::Id;
use super::params::decode;

const CANCELLED: &str = "notifications/cancelled";

/// Of earlier revisions, and there told by its name alone, so its params may be anything.
const INITIALIZE: &str = "initialize";

/// One line, classified.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// Nothing to answer and nothing to do: a blank line, an answer to a question that was never asked, a notification
    /// that does not concern a server without state.
    Ignored,
    /// The client no longer waits for this request.
    Cancelled(Id),
    /// No message.
    Refused(Refusal),
    Request {
        id: Id,
        method: String,
        params: Option<Map<String, Value>>,
    },
}

/// An error answer to a line that is no message.
#[derive(Debug, PartialEq)]
pub(super) struct Refusal {
    id: Option<Id>,
    code: i32,
    text: &'static str,
}

impl Refusal {
    pub(super) fn too_long() -> Self {
        Self { id: None, code: -32600, text: "the line is too long" }
    }

    pub(super) fn in_use(id: Id) -> Self {
        Self { id: Some(id), code: -32600, text: "the id is in use" }
    }

    fn params(id: Id, text: &'static str) -> Self {
        Self { id: Some(id), code: -32602, text }
    }

    fn not_json() -> Self {
        Self { id: None, code: -32700, text: "the line is not JSON" }
    }

    fn invalid(id: Option<Id>, text: &'static str) -> Self {
        Self { id, code: -32600, text }
    }

    /// The answer as a line. Without an id there is no `id` member, as revision 2026-07-28 says.
    pub(super) fn line(&self) -> Vec<u8> {
        let error = json!({ "code": self.code, "message": self.text });
        let id = self.id.as_ref().map_or(String::new(), |id| format!("\"id\":{},", id.json()));
        format!("{{\"jsonrpc\":\"2.0\",{id}\"error\":{error}}}\n").into_bytes()
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Tells `null` from an absent member.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

pub(super) fn classify(line: &[u8]) -> Message {
    let Ok(text) = std::str::from_utf8(line) else {
        return Message::Refused(Refusal::not_json());
    };
    let text = text.trim_matches([' ', '\t', '\r']);
    if text.is_empty() {
        return Message::Ignored;
    }
    // serde would read an array as an envelope, member by member.
    if !text.starts_with('{') {
        return Message::Refused(match serde_json::from_str::<&RawValue>(text) {
            Ok(_) => Refusal::invalid(None, "a message is one JSON object"),
            Err(_) => Refusal::not_json(),
        });
    }
    match serde_json::from_str::<Envelope<'_>>(text) {
        Ok(envelope) => envelope.classify(),
        Err(error) => Message::Refused(match (serde_json::from_str::<&RawValue>(text), error.classify()) {
            (Err(_), _) => Refusal::not_json(),
            (Ok(_), Category::Data) => Refusal::invalid(None, "a member is given twice"),
            // As raw text it is JSON; half of a surrogate pair is no name.
            (Ok(_), _) => Refusal::invalid(None, "a member's name is malformed"),
        }),
    }
}

impl Envelope<'_> {
    fn classify(&self) -> Message {
        // This server asks nothing, so an answer belongs to nothing, however it looks: answered, it might be answered again.
        if self.method.is_none() && (self.result.is_some() || self.error.is_some()) {
            return Message::Ignored;
        }
        let id = match self.id.map(|id| Id::parse(id.get())) {
            None => None,
            Some(Some(id)) => Some(id),
            Some(None) => return Message::Refused(Refusal::invalid(None, "an id is a string or an integer")),
        };
        if self.jsonrpc.and_then(text).is_none_or(|version| version != "2.0") {
            return Message::Refused(Refusal::invalid(id, "jsonrpc must be \"2.0\""));
        }
        let Some(method) = self.method else {
            return Message::Refused(Refusal::invalid(id, "method is missing"));
        };
        let Some(method) = text(method) else {
            return Message::Refused(Refusal::invalid(id, "method must be a string"));
        };
        let Some(id) = id else {
            return self
                .params
                .filter(|_| method == CANCELLED)
                .and_then(cancelled)
                .map_or(Message::Ignored, Message::Cancelled);
        };
        match self.params.map(|params| decode(params.get())).transpose() {
            Ok(params) => Message::Request { id, method, params },
            Err(_) if method == INITIALIZE => Message::Request { id, method, params: None },
            Err(what) => Message::Refused(Refusal::params(id, what)),
        }
    }
}

/// A string's text, however it is spelled.
fn text(json: &RawValue) -> Option<String> {
    serde_json::from_str(json.get()).ok()
}

/// The request that a cancellation names, whatever else it says. The id is read from its text, as a request's is.
fn cancelled(params: &RawValue) -> Option<Id> {
    #[derive(Deserialize)]
    struct Cancelled<'a> {
        #[serde(borrow, rename = "requestId")]
        id: &'a RawValue,
    }
    serde_json::from_str::<Cancelled<'_>>(params.get()).ok().and_then(|cancelled| Id::parse(cancelled.id.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(line: &str) -> (Option<Id>, i32) {
        match classify(line.as_bytes()) {
            Message::Refused(refusal) => (refusal.id, refusal.code),
            other => panic!("{line}: {other:?}"),
        }
    }

    fn number(id: i64) -> Option<Id> {
        Some(Id::Integer(id.to_string()))
    }

    #[test]
    fn requests_and_notifications_are_told_apart_by_their_id() {
        let line = br#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":[1]}}"#;
        let params = json!({ "x": [1] }).as_object().cloned();
        assert_eq!(classify(line), Message::Request { id: Id::Integer("1".into()), method: "a".into(), params });
        let line = br#" {"method":"a","jsonrpc":"2.0"} "#;
        assert_eq!(classify(line), Message::Ignored);
    }

    #[test]
    fn a_cancellation_names_a_request_and_is_ignored_if_it_does_not() {
        let cancelled = |params: &str| {
            let line = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled"{params}}}"#);
            classify(line.as_bytes())
        };
        for id in ["7", "\"a\"", "18446744073709551616"] {
            let message = cancelled(&format!(r#","params":{{"reason":5,"requestId":{id}}}"#));
            assert_eq!(message, Message::Cancelled(Id::parse(id).unwrap()));
        }
        for params in [
            "",
            ",\"params\":{}",
            ",\"params\":{\"requestId\":null}",
            ",\"params\":{\"requestId\":1.5}",
            ",\"params\":7",
        ] {
            assert_eq!(cancelled(params), Message::Ignored, "{params}");
        }
    }

    #[test]
    fn blank_lines_and_answers_are_ignored() {
        for line in ["", "  ", "\r", "\t"] {
            assert_eq!(classify(line.as_bytes()), Message::Ignored, "{line:?}");
        }
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","error":{}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{}}"#,
            r#"{"id":1,"result":null}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"result":{},"error":{}}"#,
        ] {
            assert_eq!(classify(line.as_bytes()), Message::Ignored, "{line:?}");
        }
    }

    #[test]
    fn what_is_not_json_is_a_parse_error_without_id() {
        for line in ["x", "{", "{]", "[1", "\"a", "{\"jsonrpc\":\"2.0\",\"id\":1,", "\u{feff}{}", "{}{}", "\0", "nul"] {
            assert_eq!(refusal(line), (None, -32700), "{line:?}");
        }
        assert_eq!(classify(b"{\"a\":\"\xff\"}"), Message::Refused(Refusal::not_json()));
    }

    #[test]
    fn json_that_is_no_message_is_an_invalid_request() {
        for line in ["1", "null", "true", "\"a\"", "[]", r#"[{"jsonrpc":"2.0","id":1,"method":"a"}]"#, "{}"] {
            assert_eq!(refusal(line), (None, -32600), "{line}");
        }
        for id in ["null", "1.5", "true", "[]", "{}", "1.0", "1e300"] {
            assert_eq!(refusal(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a"}}"#)), (None, -32600), "{id}");
        }
        for line in [
            r#"{"jsonrpc":"1.0","id":7,"method":"a"}"#,
            r#"{"id":7,"method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":7}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":1}"#,
        ] {
            assert_eq!(refusal(line), (number(7), -32600), "{line}");
        }
        assert_eq!(refusal(r#"{"jsonrpc":"2.0","id":7,"id":8,"method":"a"}"#), (None, -32600));
    }

    #[test]
    fn params_that_cannot_be_decoded_are_refused_with_the_id() {
        let deep = "[".repeat(200_000) + &"]".repeat(200_000);
        let wide = format!("{{\"a\":[{}1]}}", "1,".repeat(200_000));
        for params in [
            deep.as_str(),
            &wide,
            &format!("{{\"a\":{deep}}}"),
            r#"{"a":"\ud800"}"#,
            "[]",
            "1",
            "null",
            "\"a\"",
            r#"{"a":1e999}"#,
        ] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"a","params":{params}}}"#);
            assert_eq!(refusal(&line), (number(7), -32602), "{}", line.get(..80).unwrap_or(&line));
            let line = format!(r#"{{"jsonrpc":"2.0","method":"a","params":{params}}}"#);
            assert_eq!(classify(line.as_bytes()), Message::Ignored);
        }
    }

    #[test]
    fn an_error_without_an_id_has_no_id_member() {
        let line = String::from_utf8(Refusal::not_json().line()).unwrap();
        assert_eq!(line, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,\"message\":\"the line is not JSON\"}}\n");
    }
}
