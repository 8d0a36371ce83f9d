//! `search_text`: lines of served files that hold a literal.

mod source;
mod state;

use memchr::memmem::Finder;
use serde::Serialize;
use serde_json::json;

use crate::error::ToolError;
use crate::page::{Item, MAX_ITEMS, Page};
use crate::root::{Fact, Found, Work};
use crate::text::{Ended, Mark, Scan};
use crate::tools::arguments::Arguments;
use crate::tools::traversal::Traversal;
use crate::tools::{Context, Lane, Reply, Tool, schema};
use source::{Cost, Source};
use state::{Position, State};

const NAME: &str = "search_text";

/// What opening a file counts as, in bytes scanned, so that a page over many small files ends as well: a page opens at
/// most 131,072 files at the default of `--max-scan-bytes`.
const LEAST_FILE: u64 = 1024;

pub(super) const TOOL: Tool = Tool {
    name: NAME,
    title: "Search text",
    description: "Finds lines that contain the query, sorted by path and line. The query is a literal, case-sensitive \
                  part of one line, not a pattern; each matching line is one item. path narrows the search to one \
                  directory or file. text is the line, or for a long line the part around the match, at most 1024 \
                  bytes. A page may be empty and still have a next_cursor when much had to be scanned: call again with \
                  it as cursor until it is null.",
    writes: false,
    lane: Lane::Long,
    arguments: &["query", "path", "cursor", "limit"],
    input: |_| {
        let own = json!({
            "query": schema::query("Literal part of one line, at most 256 bytes."),
            "path": schema::string("Directory or file to search, relative to the root. Default: the root."),
        });
        schema::closed(schema::reader(own, "Most items wanted; more than 200 is 200."), &["query"])
    },
    output: || {
        let properties = json!({
            "path": schema::string("Relative to the root."),
            "line": schema::integer("Number of the line, from 1.", 1),
            "text": schema::string("The line without its ending, or the part around the match."),
        });
        schema::page(schema::closed(properties, &["path", "line", "text"]))
    },
    run,
};

#[derive(Serialize)]
struct Line<'a> {
    path: &'a str,
    line: u64,
    text: &'a str,
}

impl Item for Line<'_> {
    /// `path NUL line NUL text LF`
    fn evidence(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.path.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(self.line.to_string().as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(self.text.as_bytes());
        bytes.push(b'\n');
    }
}

/// The state is every file in scope, by path and fingerprint; of those already searched that were racy, the content
/// too. Files are searched in the order of their paths until the page is full or its bytes are spent; the others are
/// only looked at.
fn run(context: Context<'_>, arguments: Arguments<'_>) -> Result<Reply, ToolError> {
    let query = arguments.query()?;
    let scope = arguments.scope()?;
    let limit = arguments.limit(MAX_ITEMS)?;
    let traversal = Traversal::begin(context, NAME, arguments, &[query, scope.as_str()])?;
    let start = Position::decode(traversal.position()?);

    let limits = context.root.limits();
    let mut search = Search {
        finder: Finder::new(query),
        page: Page::new(limits.max_result_bytes, limit),
        budget: limits.max_scan_bytes,
        buffer: Vec::new(),
        files: 0,
        start,
        stopped: None,
        issued: State::at(traversal.now, traversal.state()),
        resumed: State::at(traversal.observed(), traversal.state()),
    };
    let mut work = Work::new(context.watch);
    context.root.visit(&scope, &mut work, &mut |found, work| {
        work.go_on()?;
        search.file(found, work)
    })?;
    let Search { page, files, stopped, issued, resumed, .. } = search;
    traversal.verify(resumed.finish())?;
    if start.file > files {
        return Err(ToolError::BadCursor);
    }
    let next_cursor = stopped.map(|position| traversal.next(issued.finish(), &position.encode()));
    Ok(Reply::page(page, next_cursor, work.skipped))
}

/// One page's work over the files of its scope.
struct Search<'q> {
    finder: Finder<'q>,
    page: Page,
    budget: u64,
    buffer: Vec<u8>,
    /// Files in the state so far. One that vanished is in no state, so it is not counted either.
    files: u64,
    start: Position,
    /// Where the next page begins; while `None`, files are searched.
    stopped: Option<Position>,
    /// The state as the next cursor will be bound to it, and as the given one was.
    issued: State,
    resumed: State,
}

impl Search<'_> {
    fn file(&mut self, found: &Found<'_>, work: &mut Work<'_>) -> Result<(), ToolError> {
        let Some(mut fact) = found.fact(work)? else { return Ok(()) };
        let file = self.files;
        self.files += 1;
        let earlier = self.start.searched(file);
        let here = self.stopped.is_none() && file >= self.start.file;
        let mut content = None;
        // A file of an earlier page is opened again only if its fingerprint is no evidence.
        if here || (earlier && (self.resumed.wants(&fact) || self.issued.wants(&fact))) {
            let mark = here.then(|| if file == self.start.file { self.start.mark } else { Mark::default() });
            let skipped = work.skipped;
            if let Some(seen) = self.read(file, mark, found, work)? {
                (content, fact) = (seen.content, seen.fact);
            }
            if !here {
                // What the page that searched the file has counted is not counted again.
                work.skipped = skipped;
            }
        }
        // Of a file that a cursor's pages have not read, the fingerprint alone is in its state.
        let read_by_now = self.stopped.is_none_or(|stopped| stopped.searched(file));
        self.resumed.add(found.path, &fact, content.filter(|_| earlier));
        self.issued.add(found.path, &fact, content.filter(|_| read_by_now));
        Ok(())
    }

    /// Reads a file in one state: searches it from a mark, if there is one, and digests it where a state wants that.
    /// `None`, and counted, when that was not possible.
    fn read(
        &mut self,
        file: u64,
        mark: Option<Mark>,
        found: &Found<'_>,
        work: &mut Work<'_>,
    ) -> Result<Option<Seen>, ToolError> {
        let Some(opened) = found.open(work)? else { return Ok(None) };
        let filled = self.page.filled();
        // Every pass has the whole budget, so that two passes over one state do the same. What they cost is charged
        // below, and once they have cost all of it there is no further one.
        let mut cost = Cost::default();
        let read = opened.settled(|reading| {
            self.page.go_back(filled);
            let mut source = Source::begin(reading, &mut cost, self.budget, work)?;
            let fact = source.fact();
            let content = match self.resumed.wants(&fact) || self.issued.wants(&fact) {
                true => Some(source.digest()?),
                false => None,
            };
            let scanned = mark.map(|mark| self.scan(mark, found.path, &mut source)).transpose()?;
            Ok((content, scanned))
        });
        let ((content, scanned), fact) = match read {
            Ok(read) => read,
            Err(error) => {
                self.page.go_back(filled);
                self.budget = self.budget.saturating_sub(cost.bytes.max(LEAST_FILE));
                match error {
                    ToolError::Changing => work.skipped.changing_files += 1,
                    ToolError::NotReadable => work.skipped.unreadable_files += 1,
                    // Grown past the limit since the walk looked: policy, which is not counted.
                    ToolError::FileTooLarge => {}
                    other => return Err(other),
                }
                return Ok(None);
            }
        };
        if let Some(scanned) = scanned {
            // A scan, and the pass that confirms it, are charged once; what more it took is charged, too.
            let cost = LEAST_FILE.max(cost.bytes / 2);
            self.budget = scanned.budget.min(self.budget.saturating_sub(cost));
            work.skipped.undecodable_lines += scanned.undecodable;
            if scanned.ended != Ended::File {
                self.stopped = Some(Position { file, mark: scanned.mark });
            }
        }
        Ok(Some(Seen { content, fact }))
    }

    fn scan(&mut self, mark: Mark, path: &str, source: &mut Source<'_, '_>) -> Result<Scanned, ToolError> {
        let Self { page, buffer, .. } = self;
        let mut scan = Scan {
            finder: &self.finder,
            read: &mut |offset, buffer| source.read(offset, buffer),
            take: &mut |line, text| page.push(&Line { path, line, text }),
            buffer,
            mark,
            budget: self.budget,
            undecodable: 0,
        };
        let ended = scan.run()?;
        Ok(Scanned { ended, mark: scan.mark, budget: scan.budget, undecodable: scan.undecodable })
    }
}

/// The state in which a file was read, with a digest of its content where a state wanted one.
struct Seen {
    content: Option<[u8; 32]>,
    fact: Fact,
}

/// What one pass over a file came to.
struct Scanned {
    ended: Ended,
    mark: Mark,
    budget: u64,
    undecodable: u64,
}
