//! The tools, as a table. A tool is a synchronous function from checked arguments to a reply or a refusal.
//!
//! Nothing here knows a host path, a runtime or the protocol. To add a tool: one file, one row.

mod arguments;
mod list_directory;
mod offer;
mod read_text_file;
mod reply;
mod schema;
mod search_files;
mod search_text;
mod traversal;
mod write_text_file;

use serde_json::{Map, Value};

use crate::config::Limits;
use crate::cursor::Key;
use crate::error::ToolError;
use crate::root::{Root, Watch};
use arguments::Arguments;
pub(crate) use offer::Offer;
pub(crate) use reply::{Content, Reply, counts};

/// What a call works on.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) root: &'a Root,
    pub(crate) key: &'a Key,
    pub(crate) watch: &'a Watch,
}

/// How long a tool's calls may take. Each lane has its own places at work, so that no read waits for a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Walks a tree or scans files.
    Long,
    /// Touches one file.
    Short,
}

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// For the model that chooses: when to use it, what it refuses, what to do next.
    pub(crate) description: &'static str,
    /// Whether it changes the filesystem. What changes is replaced whole: destructive, and idempotent.
    pub(crate) writes: bool,
    pub(crate) lane: Lane,
    /// The names of its arguments; a test holds them equal to the schema's.
    arguments: &'static [&'static str],
    pub(crate) input: fn(&Limits) -> Value,
    pub(crate) output: fn() -> Value,
    run: fn(Context<'_>, Arguments<'_>) -> Result<Reply, ToolError>,
}

/// Every tool, in the order in which they are listed.
const TOOLS: &[Tool] =
    &[list_directory::TOOL, search_files::TOOL, search_text::TOOL, read_text_file::TOOL, write_text_file::TOOL];

impl Tool {
    /// Makes one call.
    pub(crate) fn call(&self, context: Context<'_>, arguments: &Map<String, Value>) -> Result<Reply, ToolError> {
        (self.run)(context, Arguments::new(arguments, self.arguments)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_takes_the_arguments_that_its_schema_names() {
        for tool in TOOLS {
            let schema = (tool.input)(&Limits::DEFAULT);
            let named: Vec<&str> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(named, tool.arguments, "{}", tool.name);
        }
    }
}
