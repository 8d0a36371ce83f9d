//! `search_text`: lines of served files that hold a literal.

use memchr::memmem::Finder;
use serde::Serialize;
use serde_json::json;

use super::arguments::Arguments;
use super::traversal::Traversal;
use super::{Context, Reply, Tool, schema};
use crate::cursor::Digester;
use crate::error::ToolError;
use crate::page::{Item, MAX_ITEMS, Page};
use crate::root::{Found, Moment, Reading, Skipped};
use crate::text::{Ended, Mark, Scan};

const NAME: &str = "search_text";

pub(super) const TOOL: Tool = Tool {
    name: NAME,
    title: "Search text",
    description: "Finds lines that contain the query, sorted by path and line. The query is a literal, case-sensitive \
                  part of one line, not a pattern. path narrows the search to one directory or file. text is the line, \
                  or for a long line the part around the match, at most 1024 bytes. A page may be empty and still have \
                  a next_cursor when much had to be scanned: call again with it as cursor until it is null.",
    writes: false,
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

/// Where a traversal stands: in which file of the scope, and where in it.
#[derive(Debug, Clone, Copy)]
struct Position {
    file: u64,
    mark: Mark,
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
        start,
        stopped: None,
        now: traversal.now,
        observed: traversal.observed(),
        issued: traversal.state(),
        resumed: traversal.state(),
    };
    let (mut skipped, mut file) = (Skipped::default(), 0);
    context.root.visit(&scope, &mut skipped, &mut |found, skipped| {
        search.file(file, found, skipped)?;
        file += 1;
        Ok(())
    })?;
    let Search { page, stopped, issued, resumed, .. } = search;
    traversal.verify(resumed.finish())?;
    let next_cursor = stopped.map(|position| traversal.next(issued.finish(), &position.encode()));
    Ok(Reply::page(page, next_cursor, skipped))
}

/// One page's work over the files of its scope.
struct Search<'q> {
    finder: Finder<'q>,
    page: Page,
    budget: u64,
    buffer: Vec<u8>,
    start: Position,
    /// Where the next page begins; while `None`, files are searched.
    stopped: Option<Position>,
    /// When this page observes, and when the cursor's page did.
    now: Moment,
    observed: Moment,
    /// The state as the next cursor will be bound to it, and as the given one was.
    issued: Digester,
    resumed: Digester,
}

impl Search<'_> {
    fn file(&mut self, file: u64, found: &Found<'_>, skipped: &mut Skipped) -> Result<(), ToolError> {
        let earlier = self.start.searched(file);
        let here = self.stopped.is_none() && file >= self.start.file;
        let mark = if file == self.start.file { self.start.mark } else { Mark::default() };
        let (mut fingerprint, mut content) = (None, Content::default());
        if earlier || here {
            // A file that is only looked at again is opened only if its fingerprint was no evidence.
            let fact = found.fact(skipped)?;
            fingerprint = fact.map(|fact| fact.fingerprint());
            let racy = fact.is_some_and(|fact| fact.racy(self.observed) || fact.racy(self.now));
            if fact.is_some()
                && (here || racy)
                && let Some(seen) = self.read(file, here.then_some(mark), found, skipped)?
            {
                (fingerprint, content) = (Some(seen.fingerprint), seen.content);
            }
        } else if let Some(fact) = found.fact(skipped)? {
            fingerprint = Some(fact.fingerprint());
        }
        let Some(fingerprint) = fingerprint else { return Ok(()) };
        // Of a file that a cursor's pages have not read, the fingerprint alone is in its state.
        let read_by_now = self.stopped.is_none_or(|stopped| stopped.searched(file));
        for (state, digest) in [
            (&mut self.resumed, content.observed.filter(|_| earlier)),
            (&mut self.issued, content.now.filter(|_| read_by_now)),
        ] {
            state.field(found.path.as_bytes());
            state.field(&fingerprint);
            state.field(digest.as_ref().map_or(&[], <[u8; 32]>::as_slice));
        }
        Ok(())
    }

    /// Reads a file in one state: searches it from a mark, if there is one, and digests it where that is needed.
    /// `None`, and counted, when that was not possible.
    fn read(
        &mut self,
        file: u64,
        mark: Option<Mark>,
        found: &Found<'_>,
        skipped: &mut Skipped,
    ) -> Result<Option<Seen>, ToolError> {
        let Some(opened) = found.open(skipped)? else { return Ok(None) };
        let filled = self.page.filled();
        let read = opened.settled(|reading| {
            self.page.go_back(filled);
            let (observed, now) = (reading.fact().racy(self.observed), reading.fact().racy(self.now));
            let digest = if observed || now { Some(reading.digest()?) } else { None };
            let content = Content { observed: digest.filter(|_| observed), now: digest.filter(|_| now) };
            let scanned = mark.map(|mark| self.scan(mark, found.path, reading)).transpose()?;
            Ok((content, scanned))
        });
        let ((content, scanned), fact) = match read {
            Ok(read) => read,
            Err(error) => {
                self.page.go_back(filled);
                match error {
                    ToolError::Changing => skipped.changing_files += 1,
                    // Grown past a limit, or linked, since the walk looked: policy, which is not counted.
                    ToolError::FileTooLarge | ToolError::NotReadable => {}
                    other => return Err(other),
                }
                return Ok(None);
            }
        };
        if let Some(scanned) = scanned {
            self.budget = scanned.budget;
            skipped.undecodable_lines += scanned.undecodable;
            if scanned.ended != Ended::File {
                self.stopped = Some(Position { file, mark: scanned.mark });
            }
        }
        Ok(Some(Seen { fingerprint: fact.fingerprint(), content }))
    }

    fn scan(&mut self, mark: Mark, path: &str, reading: &mut Reading<'_>) -> Result<Scanned, ToolError> {
        let Self { page, buffer, .. } = self;
        let mut scan = Scan {
            finder: &self.finder,
            read: &mut |offset, buffer| reading.read(offset, buffer),
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

/// What one pass over a file came to.
struct Scanned {
    ended: Ended,
    mark: Mark,
    budget: u64,
    undecodable: u64,
}

/// The state in which a file was read.
struct Seen {
    fingerprint: [u8; 56],
    content: Content,
}

/// Digests of a file's content, where it was racy at the one time or the other.
#[derive(Default)]
struct Content {
    observed: Option<[u8; 32]>,
    now: Option<[u8; 32]>,
}

impl Position {
    /// Whether pages before this position have read anything of a file.
    fn searched(&self, file: u64) -> bool {
        file < self.file || (file == self.file && self.mark != Mark::default())
    }

    /// `hit` and `broken` share a number: 0 for a line with neither, 1 for a broken one, and so on.
    fn encode(&self) -> [u64; 6] {
        let Mark { lines, line_start, offset, hit, broken } = self.mark;
        let flags = u64::from(broken) | (u64::from(hit.is_some()) << 1);
        [self.file, lines, line_start, offset, hit.unwrap_or_default(), flags]
    }

    fn decode([file, lines, line_start, offset, hit, flags]: [u64; 6]) -> Self {
        let hit = (flags & 2 != 0).then_some(hit);
        Self { file, mark: Mark { lines, line_start, offset, hit, broken: flags & 1 != 0 } }
    }
}
