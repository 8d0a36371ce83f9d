//! What every request must carry, checked on each one and remembered of none.

use rmcp::ErrorData;
use rmcp::model::{ErrorCode, ProtocolVersion, RequestMetaObject};
use serde_json::{Value, json};

/// The one revision that is served.
pub(super) const SUPPORTED: &[ProtocolVersion] = &[ProtocolVersion::V_2026_07_28];

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// Whether a request is of the 2025 era: it carries nothing that only the present revision knows.
pub(super) fn is_legacy(meta: &RequestMetaObject) -> bool {
    [VERSION, CAPABILITIES, CLIENT_INFO, LOG_LEVEL].iter().all(|key| !meta.contains_key(*key))
}

/// Answers the handshake of earlier revisions, which carries no `_meta` of this one. With it, the request is a modern one
/// for a method that is gone.
pub(super) fn refuse_handshake(requested: &str, meta: &RequestMetaObject) -> Result<(), ErrorData> {
    if meta.contains_key(VERSION) {
        return Ok(());
    }
    let text = "this server speaks MCP 2026-07-28, which has no initialize: begin with server/discover, or start the server \
                with --accept-legacy";
    Err(unsupported(text, requested))
}

/// The version comes first: one that is not served is the better answer than a key it may not know.
pub(super) fn check(meta: &RequestMetaObject) -> Result<(), ErrorData> {
    match meta.get(VERSION) {
        Some(Value::String(version)) if SUPPORTED.iter().all(|supported| supported.as_str() != version) => {
            return Err(unsupported("unsupported protocol version", version));
        }
        Some(Value::String(_)) => {}
        _ => return Err(needs(VERSION, "a string")),
    }
    if !meta.get(CAPABILITIES).is_some_and(Value::is_object) {
        return Err(needs(CAPABILITIES, "an object"));
    }
    if meta.contains_key(CLIENT_INFO) && meta.client_info().is_none() {
        return Err(needs(CLIENT_INFO, "a valid object with name and version"));
    }
    if meta.get(LOG_LEVEL).is_some_and(|level| !level.is_string() || meta.log_level().is_none()) {
        return Err(needs(LOG_LEVEL, "a level such as info"));
    }
    Ok(())
}

fn needs(key: &str, what: &str) -> ErrorData {
    ErrorData::invalid_params(format!("params._meta needs {key} to be {what}"), None)
}

fn unsupported(text: &'static str, requested: &str) -> ErrorData {
    let requested: String = requested.chars().take(64).collect();
    let data = json!({ "supported": SUPPORTED, "requested": requested });
    ErrorData::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, text, Some(data))
}
