//! The revisions of 2025, for clients that have not moved yet: what differs from the present one.
//!
//! Nothing is remembered of a handshake: a client of that era is known by each of its requests, which carry no version.

use rmcp::ErrorData;
use rmcp::model::{ProtocolVersion, ServerResult};

use super::answer::{self, Identity};
use crate::tools::Offer;

/// Newest first: it is the answer to a client that asks for any other.
const SUPPORTED: [ProtocolVersion; 2] = [ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2025_06_18];

pub(super) fn initialize(requested: &str, tools: &Offer, identity: &Identity) -> Result<ServerResult, ErrorData> {
    if requested.is_empty() {
        return Err(ErrorData::invalid_params("protocolVersion must be a string", None));
    }
    let [newest, _] = &SUPPORTED;
    let mut result = answer::config(identity);
    result.protocol_version = SUPPORTED.iter().find(|version| version.as_str() == requested).unwrap_or(newest).clone();
    result.instructions = Some(answer::instructions(tools));
    Ok(ServerResult::InitializeResult(result))
}

/// Takes out what a result has gained since.
pub(super) fn without_modern_members(mut result: ServerResult) -> ServerResult {
    match &mut result {
        ServerResult::CallToolResult(result) => result.result_type = None,
        ServerResult::ListToolsResult(result) => {
            (result.result_type, result.ttl_ms, result.cache_scope) = (None, None, None);
        }
        _ => {}
    }
    result
}
