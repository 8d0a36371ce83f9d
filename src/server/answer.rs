//! Results in the protocol's shapes.

use rmcp::ErrorData;
use rmcp::model::{
    CacheScope, CallToolResult, ContentBlock, DiscoverResult, Implementation, JsonObject, ListToolsResult, MetaObject,
    ServerCapabilities, ServerConfig, Tool as Listed, ToolAnnotations,
};
use serde_json::{Value, json};

use super::meta::SUPPORTED;
use crate::VERSION;
use crate::config::Limits;
use crate::error::{ConfigError, ToolError, shown};
use crate::tools::{Offer, Reply, Tool, counts};

/// Longest name, and longest version, of a server, in characters.
const LONGEST_NAME: usize = 64;

/// How long a client may keep the answers that stay the same while the process lives, in milliseconds.
const TTL: u64 = 300_000;

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
const SKIPPED: &str = "ptc-fs-mcp/skipped";
const ERROR: &str = "ptc-fs-mcp/error";

/// What a server says of itself in every result.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    name: String,
    version: String,
}

impl Default for Identity {
    fn default() -> Self {
        Self { name: "ptc-fs-mcp".to_owned(), version: VERSION.to_owned() }
    }
}

impl Identity {
    /// Bounded, since a page is fitted beside it.
    pub(super) fn new(name: String, version: String) -> Result<Self, ConfigError> {
        let fits = |text: &str| {
            !text.is_empty() && text.chars().nth(LONGEST_NAME).is_none() && !text.contains(char::is_control)
        };
        if fits(&name) && fits(&version) { Ok(Self { name, version }) } else { Err(ConfigError::Identity) }
    }

    fn meta(&self) -> MetaObject {
        let mut meta = MetaObject::new();
        meta.insert(SERVER_INFO.to_owned(), json!({ "name": self.name, "version": self.version }));
        meta
    }
}

pub(super) fn config(identity: &Identity) -> ServerConfig {
    ServerConfig::new(capabilities()).with_server_info(Implementation::new(&*identity.name, &*identity.version))
}

/// For the model, of the tools that there are.
pub(super) fn instructions(tools: &Offer) -> String {
    let offered = |names: &[&'static str]| -> Vec<&str> {
        names.iter().copied().filter(|name| tools.find(name).is_some()).collect()
    };
    let mut text = "Files under one root directory; paths are relative to it, with forward slashes.".to_owned();
    let first = offered(&["list_directory", "search_files"]);
    if !first.is_empty() {
        text += &format!(" Begin with {}.", first.join(" or "));
    }
    if tools.iter().any(|tool| !tool.writes) {
        text += " Results come in pages: while next_cursor is not null, call again with the same arguments and it as \
                 cursor. If a cursor is refused because the filesystem changed, start again without it.";
    }
    text
}

pub(super) fn discover(tools: &Offer, identity: &Identity) -> DiscoverResult {
    let mut result = DiscoverResult::new(SUPPORTED.to_vec(), capabilities());
    result.instructions = Some(instructions(tools));
    result.ttl_ms = TTL;
    result.cache_scope = CacheScope::Private;
    result.meta = Some(identity.meta());
    result
}

pub(super) fn tool_list(tools: &Offer, limits: &Limits, identity: &Identity) -> ListToolsResult {
    ListToolsResult {
        meta: Some(identity.meta()),
        ttl_ms: Some(TTL),
        cache_scope: Some(CacheScope::Private),
        tools: tools.iter().map(|tool| listed(tool, limits)).collect(),
        ..ListToolsResult::default()
    }
}

fn listed(tool: &Tool, limits: &Limits) -> Listed {
    let annotations =
        ToolAnnotations::new().read_only(!tool.writes).destructive(tool.writes).idempotent(true).open_world(false);
    let mut listed = Listed::new(tool.name, tool.description, object((tool.input)(limits)));
    listed.title = Some(tool.title.to_owned());
    listed.output_schema = Some(object((tool.output)()).into());
    listed.annotations = Some(annotations);
    listed
}

/// A reply as structure and as text, or a refusal as text alone.
pub(super) fn tool_result(result: Result<Reply, ToolError>, identity: &Identity) -> CallToolResult {
    let mut meta = identity.meta();
    let mut answer = CallToolResult::default();
    match result {
        Ok(reply) => {
            let json = reply.json();
            if let Some(counts) = counts(&reply.skipped) {
                meta.insert(SKIPPED.to_owned(), Value::Object(counts));
            }
            // It was written a moment ago; were it ever not JSON, the text still holds all of it.
            answer.structured_content = serde_json::from_str(&json).ok();
            answer.content = vec![ContentBlock::text(json)];
            answer.is_error = Some(false);
        }
        Err(error) => {
            meta.insert(ERROR.to_owned(), json!(error.kind()));
            answer.content = vec![ContentBlock::text(error.to_string())];
            answer.is_error = Some(true);
        }
    }
    answer.meta = Some(meta);
    answer
}

/// What a tool without any work of its own would answer: what calls are measured against.
#[cfg(feature = "test-hooks")]
pub(super) fn echo(arguments: &JsonObject, identity: &Identity) -> CallToolResult {
    let text = arguments.get("text").and_then(Value::as_str).unwrap_or_default();
    let mut answer = CallToolResult::success(vec![ContentBlock::text(text)]);
    answer.meta = Some(identity.meta());
    answer
}

pub(super) fn unknown_tool(name: &str) -> ErrorData {
    ErrorData::invalid_params(format!("Unknown tool: {}", shown(name, 80)), None)
}

fn capabilities() -> ServerCapabilities {
    ServerCapabilities::builder().enable_tools().build()
}

fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::{Cursor, Key};
    use crate::page::{Page, RESERVED};
    use crate::root::Skipped;

    #[test]
    fn everything_but_the_items_fits_what_a_page_keeps_free() {
        let longest = Cursor { scope: [0; 32], state: [0; 32], observed: 0, position: vec![0; 8] };
        let cursor = Key::random().unwrap().seal(&longest);
        let skipped = Skipped {
            unreadable_directories: u64::MAX,
            unreadable_files: u64::MAX,
            too_deep_directories: u64::MAX,
            mount_points: u64::MAX,
            folding_directories: u64::MAX,
            unrepresentable_names: u64::MAX,
            undecodable_lines: u64::MAX,
            changing_files: u64::MAX,
            vanished_files: u64::MAX,
        };
        let reply = Reply::page(Page::new(48_000, 1), Some(cursor), skipped);
        // Four bytes a character; a quote is two.
        let name = "\u{1f600}".repeat(LONGEST_NAME);
        let identity = Identity::new(name.clone(), name).unwrap();
        let result = serde_json::to_string(&tool_result(Ok(reply), &identity)).unwrap();
        assert!((1_000..=RESERVED).contains(&result.len()), "{}", result.len());
    }
}
