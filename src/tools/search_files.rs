//! `search_files`: served files whose path contains a literal.

use memchr::memmem::Finder;
use serde::Serialize;
use serde_json::json;

use super::arguments::Arguments;
use super::traversal::Traversal;
use super::{Context, Lane, Reply, Tool, schema};
use crate::error::ToolError;
use crate::page::{Item, MAX_ITEMS, Page};
use crate::path::RelPath;
use crate::root::Work;

const NAME: &str = "search_files";

pub(super) const TOOL: Tool = Tool {
    name: NAME,
    title: "Search file names",
    description: "Finds files whose path contains the query, sorted by path. The query is a literal, case-sensitive \
                  substring, not a glob: .rs finds every path with .rs in it. Looks at names only; use search_text \
                  for content. If next_cursor is not null, call again with it as cursor.",
    writes: false,
    lane: Lane::Long,
    arguments: &["query", "cursor", "limit"],
    input: |_| {
        let own = json!({ "query": schema::query("Literal part of the path, at most 256 bytes.") });
        schema::closed(schema::reader(own, "Most items wanted; more than 200 is 200."), &["query"])
    },
    output: || {
        let properties = json!({ "path": schema::string("Relative to the root.") });
        schema::page(schema::closed(properties, &["path"]))
    },
    run,
};

#[derive(Serialize)]
struct Match<'a> {
    path: &'a str,
}

impl Item for Match<'_> {
    /// `path LF`
    fn evidence(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.path.as_bytes());
        bytes.push(b'\n');
    }
}

/// The state is the set of matching paths, whatever the files hold. A cursor says how many earlier pages returned.
fn run(context: Context<'_>, arguments: Arguments<'_>) -> Result<Reply, ToolError> {
    let query = arguments.query()?;
    let limit = arguments.limit(MAX_ITEMS)?;
    let traversal = Traversal::begin(context, NAME, arguments, &[query])?;
    let [returned] = traversal.position()?;

    let finder = Finder::new(query);
    let mut page = Page::new(context.root.limits().max_result_bytes, limit);
    let mut state = traversal.state();
    let mut work = Work::new(context.watch);
    let (mut seen, mut next) = (0, None);
    context.root.visit(&RelPath::root(), &mut work, &mut |found, _| {
        if finder.find(found.path.as_bytes()).is_some() {
            state.field(found.path.as_bytes());
            if seen >= returned && next.is_none() && !page.push(&Match { path: found.path }) {
                next = Some(seen);
            }
            seen += 1;
        }
        Ok(())
    })?;
    let state = state.finish();
    traversal.verify(state)?;
    if returned > seen {
        return Err(ToolError::BadCursor);
    }
    let next_cursor = next.map(|next| traversal.next(state, &[next]));
    Ok(Reply::page(page, next_cursor, work.skipped))
}
