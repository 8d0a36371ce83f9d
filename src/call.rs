//! One call without a protocol, followed to its last page: what the `call` command does.

use serde_json::{Map, Value};

use crate::error::ToolError;
use crate::page::content_hash;
use crate::root::{Skipped, Watch};
use crate::server::Server;
use crate::tools::{self, Content};

/// How far a call follows its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// To the last one; their items are joined.
    All,
    /// The first one only.
    First,
}

/// The result of [`Server::call`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// One JSON object: `path`, `bytes` and `content_hash` of a writer; of a reader the `items`, `more: true` if pages
    /// were left, and the `content_hash` of everything returned.
    pub json: String,
    /// One JSON object with counts of what was left out, or `None` when nothing was.
    pub skipped: Option<String>,
}

impl Server {
    /// Calls a tool by its name, on this thread and without a runtime. Following all pages, `limit` counts for the first one
    /// alone.
    ///
    /// ```
    /// use ptc_fs_mcp::{Config, Pages, Root, Server};
    /// let config = Config::builder().root("src").include("lib.rs").build()?;
    /// let server = Server::new(Root::open_ambient(&config)?)?;
    /// let answer = server.call("list_directory", &serde_json::Map::new(), Pages::First)?;
    /// assert!(answer.json.starts_with(r#"{"items":[{"name":"lib.rs","kind":"file","path":"lib.rs"}]"#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The tool's refusal, also of a later page; an unknown tool is a [`ToolError::BadArgument`].
    pub fn call(&self, tool: &str, arguments: &Map<String, Value>, pages: Pages) -> Result<Answer, ToolError> {
        let tool = self.find(tool).ok_or_else(|| ToolError::BadArgument("unknown tool".to_owned()))?;
        let mut arguments = arguments.clone();
        let mut joined = Joined::default();
        let watch = Watch::default();
        // Bounded: every page makes progress, and a traversal over a changing tree fails.
        loop {
            let reply = tool.call(self.context(&watch), &arguments)?;
            joined.skipped = joined.skipped.merge(reply.skipped);
            let (items, next_cursor, evidence) = match reply.content {
                Content::Record(json) => return Ok(Answer { json, skipped: None }),
                Content::Page { items, next_cursor, evidence } => (items, next_cursor, evidence),
            };
            // It would only make more pages of the same items.
            arguments.remove("limit");
            joined.add(&items, &evidence);
            match next_cursor {
                None => return Ok(joined.answer(false)),
                Some(_) if pages == Pages::First => return Ok(joined.answer(true)),
                Some(cursor) => arguments.insert("cursor".to_owned(), Value::String(cursor)),
            };
        }
    }
}

/// The pages so far.
#[derive(Debug, Default)]
struct Joined {
    items: String,
    evidence: Vec<u8>,
    skipped: Skipped,
}

impl Joined {
    fn add(&mut self, items: &str, evidence: &[u8]) {
        if !self.items.is_empty() && !items.is_empty() {
            self.items.push(',');
        }
        self.items.push_str(items);
        self.evidence.extend_from_slice(evidence);
    }

    fn answer(self, more: bool) -> Answer {
        let more = if more { "\"more\":true," } else { "" };
        let hash = content_hash(&self.evidence);
        let json = format!("{{\"items\":[{}],{more}\"content_hash\":\"{hash}\"}}", self.items);
        Answer { json, skipped: tools::counts(&self.skipped).map(|counts| Value::Object(counts).to_string()) }
    }
}
