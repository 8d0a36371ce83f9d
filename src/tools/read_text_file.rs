//! `read_text_file`: the exact text of one file, in chunks.

use serde::Serialize;
use serde_json::json;

use super::arguments::Arguments;
use super::traversal::Traversal;
use super::{Context, Lane, Reply, Tool, schema};
use crate::error::ToolError;
use crate::page::{Item, Page};
use crate::root::{DIGESTED, Reading, Skipped, digest};
use crate::text::{CHUNK, chunk};

const NAME: &str = "read_text_file";

/// Chunks of a page at the default ceiling of 48,000 bytes; other ceilings have as many in proportion.
const CHUNKS: u64 = 8;
const DEFAULT_CEILING: u64 = 48_000;

pub(super) const TOOL: Tool = Tool {
    name: NAME,
    title: "Read text file",
    description: "Reads one UTF-8 text file exactly, in chunks of at most 2048 bytes; joined over all pages, the text \
                  of the chunks is the file, byte for byte. A page holds about 16 KB. Refuses a page that is not valid \
                  UTF-8, and a path that is missing or is no regular file. If next_cursor is not null, call again with it as cursor; if the file \
                  changed in between, that call says so: start again without a cursor.",
    writes: false,
    lane: Lane::Short,
    arguments: &["path", "cursor", "limit"],
    input: |_| {
        let own = json!({ "path": schema::string("File, relative to the root, such as src/main.rs.") });
        schema::closed(
            schema::reader(own, "Most chunks wanted; more than a page holds (usually 8) is what it holds."),
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
    let traversal = Traversal::begin(context, NAME, arguments, &[path.as_str()])?;
    let [begin] = traversal.position()?;

    let opened = context.root.open(served)?;
    let (read, fact) = opened.settled(|reading| {
        let (resumed, issued) = (reading.needs_digest(traversal.observed()), reading.needs_digest(traversal.now));
        let content = Content::read(reading, begin, limit, resumed || issued)?;
        context.watch.read(content.bytes.len() as u64);
        let (page, next) = content.fill(ceiling, limit);
        let resumed = resumed.then(|| content.digest(begin));
        let issued = issued.then(|| content.digest(*next.as_ref().unwrap_or(&begin)));
        Ok(Read { page, next, resumed, issued })
    })?;
    let state = |content: Option<[u8; 32]>| {
        let mut state = traversal.state();
        state.field(&fact.fingerprint());
        state.field(content.as_ref().map_or(&[], <[u8; 32]>::as_slice));
        state.finish()
    };
    traversal.verify(state(read.resumed))?;
    if begin > fact.size {
        return Err(ToolError::BadCursor);
    }
    // Only now: bytes that are no text may have been two states mixed, which `settled` has ruled out.
    let next = read.next?;
    let next_cursor = (next < fact.size).then(|| traversal.next(state(read.issued), &[next]));
    Ok(Reply::page(read.page, next_cursor, Skipped::default()))
}

/// What one pass came to.
struct Read {
    page: Page,
    /// Where the next page begins.
    next: Result<u64, ToolError>,
    /// Digests for the cursor that was given, and for the one to be issued, where their states need one.
    resumed: Option<[u8; 32]>,
    issued: Option<[u8; 32]>,
}

/// What one pass read: the bytes of the page and, where digests are needed, what these speak of.
struct Content {
    size: u64,
    /// Where the page begins in the file, and where `bytes` does.
    begin: u64,
    from: u64,
    bytes: Vec<u8>,
}

impl Content {
    fn read(reading: &mut Reading<'_>, begin: u64, limit: u64, digested: bool) -> Result<Self, ToolError> {
        let size = reading.fact().size;
        // Three bytes more, so that the last chunk is cut between characters as the others are.
        let page_end = begin.saturating_add(limit.saturating_mul(CHUNK as u64) + 3);
        let (from, to) = match digested {
            false => (begin, page_end),
            true if size <= DIGESTED => (0, size.max(page_end)),
            true => (begin.saturating_sub(DIGESTED), page_end),
        };
        Ok(Self { size, begin, from, bytes: reading.bytes(from, to.min(size))? })
    }

    /// Of all of it, or in a larger file of the last 8 MiB before `end`: a page that goes on there is no mix of two states
    /// if what went before it is the same in both.
    fn digest(&self, end: u64) -> [u8; 32] {
        if self.size <= DIGESTED {
            return digest(&self.bytes);
        }
        let index = |offset: u64| usize::try_from(offset.saturating_sub(self.from)).unwrap_or(usize::MAX);
        digest(self.bytes.get(index(end.saturating_sub(DIGESTED))..index(end)).unwrap_or_default())
    }

    /// A page with the chunks from `begin` on, and where the next one begins. That bytes are not UTF-8 is an outcome of the
    /// pass, not its failure.
    fn fill(&self, ceiling: u64, limit: u64) -> (Page, Result<u64, ToolError>) {
        let mut page = Page::new(ceiling, limit);
        let mut offset = self.begin;
        let skipped = usize::try_from(self.begin - self.from).unwrap_or(usize::MAX);
        let mut rest = self.bytes.get(skipped..).unwrap_or_default();
        while !rest.is_empty() && !page.has_all_items() {
            let complete = offset + rest.len() as u64 >= self.size;
            let (text, whole) = match chunk(rest, complete) {
                Ok(text) => (text, true),
                Err(valid) => (valid, false),
            };
            if !page.push(&Chunk { byte_offset: offset, text }) {
                break;
            }
            if !whole {
                return (page, Err(ToolError::NotUtf8));
            }
            offset += text.len() as u64;
            rest = rest.get(text.len()..).unwrap_or_default();
        }
        (page, Ok(offset))
    }
}
