//! `read_text_file`: the exact text of one file, in chunks.

use serde::Serialize;
use serde_json::json;

use super::arguments::Arguments;
use super::traversal::Traversal;
use super::{Context, Reply, Tool, schema};
use crate::error::ToolError;
use crate::page::{Item, Page};
use crate::root::Skipped;
use crate::text::{CHUNK, chunk};

const NAME: &str = "read_text_file";

/// Chunks of a page at the default ceiling of 48,000 bytes; other ceilings have as many in proportion.
const CHUNKS: u64 = 8;
const DEFAULT_CEILING: u64 = 48_000;

pub(super) const TOOL: Tool = Tool {
    name: NAME,
    title: "Read text file",
    description: "Reads one UTF-8 text file exactly, in chunks of at most 2048 bytes; joined over all pages, the text \
                  of the chunks is the file, byte for byte. Refuses a page that is not valid UTF-8, and everything \
                  that is not a regular file. If next_cursor is not null, call again with it as cursor; if the file \
                  changed in between, that call says so: start again without a cursor.",
    writes: false,
    input: |_| {
        let own = json!({ "path": schema::string("File, relative to the root, such as src/main.rs.") });
        schema::closed(
            schema::reader(own, "Most chunks wanted; a page holds 8 unless the server is set up otherwise."),
            &["path"],
        )
    },
    output: || {
        let properties = json!({
            "byte_offset": schema::integer("Where the chunk begins in the file.", 0),
            "text": schema::string("The chunk."),
        });
        schema::page(schema::closed(properties, &["byte_offset", "text"]))
    },
    run,
};

#[derive(Serialize)]
struct Chunk<'a> {
    byte_offset: u64,
    text: &'a str,
}

impl Item for Chunk<'_> {
    /// The chunk's bytes.
    fn evidence(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.text.as_bytes());
    }
}

/// The state is the file's fingerprint and, where that could not tell two states apart, a digest of its content. A
/// cursor says at which byte the next page begins.
fn run(context: Context<'_>, arguments: Arguments<'_>) -> Result<Reply, ToolError> {
    let path = arguments.file()?;
    let ceiling = context.root.limits().max_result_bytes;
    let limit = arguments.limit(CHUNKS * ceiling / DEFAULT_CEILING)?;
    let served = context.root.serve(&path).ok_or(ToolError::NotServed)?;
    let mut traversal = Traversal::begin(context, NAME, arguments, &[path.as_str()])?;
    let [begin] = traversal.position()?;

    let most = usize::try_from(limit).unwrap_or(usize::MAX).saturating_mul(CHUNK) + 3;
    let opened = context.root.open(served)?;
    opened.let_settle()?;
    traversal.look_again();
    let ((bytes, resumed, issued), fact) = opened.settled(|reading| {
        let (observed, now) = (reading.needs_digest(traversal.observed()), reading.needs_digest(traversal.now));
        let digest = if observed || now { Some(reading.digest()?) } else { None };
        let mut bytes = vec![0; most];
        let filled = reading.read(begin, &mut bytes)?;
        bytes.truncate(filled);
        Ok((bytes, digest.filter(|_| observed), digest.filter(|_| now)))
    })?;
    let state = |content: Option<[u8; 32]>| {
        let mut state = traversal.state();
        state.field(&fact.fingerprint());
        state.field(content.as_ref().map_or(&[], <[u8; 32]>::as_slice));
        state.finish()
    };
    traversal.verify(state(resumed))?;
    if begin > fact.size {
        return Err(ToolError::BadCursor);
    }

    let mut page = Page::new(ceiling, limit);
    let mut offset = begin;
    let mut rest = bytes.as_slice();
    while !rest.is_empty() && !page.has_all_items() {
        let complete = offset + rest.len() as u64 >= fact.size;
        let text = chunk(rest, complete).ok_or(ToolError::NotUtf8)?;
        if !page.push(&Chunk { byte_offset: offset, text }) {
            break;
        }
        offset += text.len() as u64;
        rest = rest.get(text.len()..).unwrap_or_default();
    }
    let next_cursor = (offset < fact.size).then(|| traversal.next(state(issued), &[offset]));
    Ok(Reply::page(page, next_cursor, Skipped::default()))
}
