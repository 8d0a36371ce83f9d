//! What a request asks for, whichever way it was decoded.
//!
//! Our line transport hands on a method and its params as they came. rmcp's own transports decode requests into types,
//! and are more lenient: a member of the wrong type may be gone by then.

use rmcp::model::{ClientRequest, JsonObject};
use serde_json::Value;

/// The methods that exist, and those that are told apart from unknown ones.
#[derive(Debug, PartialEq)]
pub(super) enum Ask {
    /// The handshake of earlier revisions, with the version it requests.
    Initialize {
        requested: String,
    },
    Ping,
    Discover,
    /// The list has one page, so that every cursor is a wrong one.
    ListTools {
        cursor: bool,
    },
    CallTool {
        name: String,
        arguments: JsonObject,
    },
    /// A method that exists, with params that it cannot have.
    Malformed(&'static str),
    Unknown,
}

impl Ask {
    pub(super) fn of(request: ClientRequest) -> Self {
        match request {
            ClientRequest::CustomRequest(request) => Self::raw(&request.method, request.params),
            ClientRequest::InitializeRequest(request) => {
                Self::Initialize { requested: request.params.protocol_version.to_string() }
            }
            ClientRequest::PingRequest(_) => Self::Ping,
            ClientRequest::DiscoverRequest(_) => Self::Discover,
            ClientRequest::ListToolsRequest(request) => {
                Self::ListTools { cursor: request.params.is_some_and(|params| params.cursor.is_some()) }
            }
            ClientRequest::CallToolRequest(request) => Self::CallTool {
                name: request.params.name.into_owned(),
                arguments: request.params.arguments.unwrap_or_default(),
            },
            _ => Self::Unknown,
        }
    }

    fn raw(method: &str, params: Option<Value>) -> Self {
        let mut params = match params {
            Some(Value::Object(params)) => params,
            _ => JsonObject::new(),
        };
        match method {
            "initialize" => {
                let requested = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
                Self::Initialize { requested: requested.to_owned() }
            }
            "ping" => Self::Ping,
            "server/discover" => Self::Discover,
            "tools/list" => Self::ListTools { cursor: params.contains_key("cursor") },
            "tools/call" => match (params.shift_remove("name"), params.shift_remove("arguments")) {
                (Some(Value::String(name)), None) => Self::CallTool { name, arguments: JsonObject::new() },
                (Some(Value::String(name)), Some(Value::Object(arguments))) => Self::CallTool { name, arguments },
                (Some(Value::String(_)), _) => Self::Malformed("arguments must be an object"),
                _ => Self::Malformed("name must be a string"),
            },
            _ => Self::Unknown,
        }
    }
}
