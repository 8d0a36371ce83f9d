//! `list_directory`: the served entries of one directory.

use serde::Serialize;
use serde_json::json;

use super::arguments::Arguments;
use super::traversal::Traversal;
use super::{Context, Lane, Reply, Tool, schema};
use crate::error::ToolError;
use crate::page::{Item, MAX_ITEMS, Page};
use crate::root::{Kind, Work};

const NAME: &str = "list_directory";

pub(super) const TOOL: Tool = Tool {
    name: NAME,
    title: "List directory",
    description: "Lists the files and directories directly inside one directory, sorted by name. Use it to find your \
                  way; use search_files to find a file by name anywhere. A directory is listed only if something \
                  served lies beneath it. A path that is missing, not served, or a file gives an empty page. If next_cursor is \
                  not null, call again with it as cursor.",
    writes: false,
    lane: Lane::Long,
    arguments: &["path", "cursor", "limit"],
    input: |_| {
        let own =
            json!({ "path": schema::string("Directory, relative to the root, such as src/lib. Default: the root.") });
        schema::closed(schema::reader(own, "Most items wanted; more than 200 is 200."), &[])
    },
    output: || {
        let kind = json!({ "type": "string", "enum": ["file", "directory"] });
        let properties = json!({ "name": schema::string("Last segment of path."), "kind": kind, "path": schema::string("Relative to the root.") });
        schema::page(schema::closed(properties, &["name", "kind", "path"]))
    },
    run,
};

#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    kind: &'static str,
    path: String,
}

impl Item for Line<'_> {
    /// `kind NUL path LF`
    fn evidence(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.kind.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(self.path.as_bytes());
        bytes.push(b'\n');
    }
}

/// The state is the whole listing: a cursor fails when an entry comes, goes or changes its kind, and survives whatever
/// happens deeper. It says how many entries earlier pages returned.
fn run(context: Context<'_>, arguments: Arguments<'_>) -> Result<Reply, ToolError> {
    let directory = arguments.scope()?;
    let limit = arguments.limit(MAX_ITEMS)?;
    let traversal = Traversal::begin(context, NAME, arguments, &[directory.as_str()])?;
    let [returned] = traversal.position()?;

    let mut work = Work::new(context.watch);
    let entries = match context.root.selector().reach(&directory) {
        None => Vec::new(),
        Some(reach) => context.root.list(reach, &mut work)?,
    };
    let mut state = traversal.state();
    for entry in &entries {
        state.field(&[matches!(entry.kind, Kind::Directory).into()]);
        state.field(entry.name.as_bytes());
    }
    let state = state.finish();
    traversal.verify(state)?;

    let mut page = Page::new(context.root.limits().max_result_bytes, limit);
    let rest =
        usize::try_from(returned).ok().and_then(|returned| entries.get(returned..)).ok_or(ToolError::BadCursor)?;
    let mut next = returned;
    let mut full = false;
    for entry in rest {
        let path = match directory.as_str() {
            "" => entry.name.clone(),
            above => format!("{above}/{}", entry.name),
        };
        let kind = match entry.kind {
            Kind::File => "file",
            Kind::Directory => "directory",
        };
        if !page.push(&Line { name: &entry.name, kind, path }) {
            full = true;
            break;
        }
        next += 1;
    }
    let next_cursor = full.then(|| traversal.next(state, &[next]));
    Ok(Reply::page(page, next_cursor, work.skipped))
}
