//! Which lines of a file hold a literal.
//!
//! [`Scan`] works on windows of bounded size, however long the file or its lines are, and can stop anywhere: its
//! [`Mark`] says where, also in the middle of a line.

use memchr::memmem::Finder;

/// Longest piece of a line shown as evidence, in bytes.
const EVIDENCE: usize = 1024;

/// How far before the match a window into a long line begins, in bytes.
const LEAD: u64 = 512;

/// Bytes read at a time. A shorter window is read where less may be scanned, but never less than the least one.
const WINDOW: u64 = 256 * 1024;
const LEAST_WINDOW: u64 = 2048;

/// Where a scan stands. The default is the beginning of a file.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Lines before the present one.
    pub(crate) lines: u64,
    /// Where the present line begins, in bytes from the beginning of the file.
    pub(crate) line_start: u64,
    /// How far the present line has been looked at: `line_start` or, inside a long line, beyond.
    pub(crate) offset: u64,
    /// Where in the present line the first match was found.
    pub(crate) hit: Option<u64>,
    /// Whether bytes that are not UTF-8 were found in the present line.
    pub(crate) broken: bool,
}

impl Mark {
    fn next_line(&mut self, start: u64) {
        *self = Self { lines: self.lines + 1, line_start: start, offset: start, hit: None, broken: false };
    }
}

/// How a scan ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With the file.
    File,
    /// A line was not taken; the mark stands before it.
    Full,
    /// Its bytes were used up.
    Spent,
}

/// Fills a buffer from an offset in bytes, or as far as the file goes, and says how far that was.
pub(crate) type Read<'s, E> = dyn FnMut(u64, &mut [u8]) -> Result<usize, E> + 's;

/// A scan of one file for a literal that holds no line break.
pub(crate) struct Scan<'s, E> {
    pub(crate) finder: &'s Finder<'s>,
    pub(crate) read: &'s mut Read<'s, E>,
    /// Takes the number (from 1) and the evidence of a matching line, or refuses it.
    pub(crate) take: &'s mut dyn FnMut(u64, &str) -> bool,
    /// Reused from scan to scan: making one of a window's size costs more than reading a small file.
    pub(crate) buffer: &'s mut Vec<u8>,
    pub(crate) mark: Mark,
    /// Bytes that may yet be scanned.
    pub(crate) budget: u64,
    /// Matching lines that were left out since they are not UTF-8.
    pub(crate) undecodable: u64,
}

impl<E> Scan<'_, E> {
    /// Scans on from the mark until the file ends, a line is refused, or the budget is spent.
    pub(crate) fn run(&mut self) -> Result<Ended, E> {
        let mut buffer = std::mem::take(self.buffer);
        let ended = self.windows(&mut buffer);
        *self.buffer = buffer;
        ended
    }

    fn windows(&mut self, buffer: &mut Vec<u8>) -> Result<Ended, E> {
        // Each turn moves the mark on, by a line or within one, or returns.
        loop {
            if self.budget == 0 {
                return Ok(Ended::Spent);
            }
            // Inside a line, what could still be the beginning of a match is looked at again.
            let overlap = self.finder.needle().len() as u64;
            let base = self.mark.line_start.max(self.mark.offset.saturating_sub(overlap));
            let length = self.budget.clamp(LEAST_WINDOW, WINDOW);
            let length = to_index(length);
            if buffer.len() < length {
                buffer.resize(length, 0);
            }
            let filled = (self.read)(base, buffer.get_mut(..length).unwrap_or_default())?;
            let last = filled < length;
            let window = buffer.get(..filled).unwrap_or_default();
            let before = self.mark.offset;
            let taken = self.window(window, base, last)?;
            self.budget = self.budget.saturating_sub(self.mark.offset.saturating_sub(before));
            if !taken {
                return Ok(Ended::Full);
            }
            if last {
                return Ok(Ended::File);
            }
        }
    }

    /// Scans one window; `false` when a line was refused.
    fn window(&mut self, window: &[u8], base: u64, last: bool) -> Result<bool, E> {
        let mut at = 0;
        if self.mark.offset > self.mark.line_start {
            let looked = to_index(self.mark.offset - base);
            let rest = window.get(looked..).unwrap_or_default();
            let newline = memchr::memchr(b'\n', rest);
            let end = match newline {
                Some(end) => looked + end,
                None if last => window.len(),
                None => {
                    self.look(window, base);
                    return Ok(true);
                }
            };
            if !self.finish_long_line(window.get(..end).unwrap_or_default(), base, newline.is_some())? {
                return Ok(false);
            }
            at = (end + 1).min(window.len());
            self.mark.next_line(base + at as u64);
        }
        let rest = window.get(at..).unwrap_or_default();
        let whole = match memchr::memrchr(b'\n', rest) {
            _ if last => rest.len(),
            Some(end) => end + 1,
            None if at > 0 => return Ok(true),
            None => {
                // One line fills the window.
                self.look(rest, base);
                return Ok(true);
            }
        };
        Ok(self.whole_lines(rest.get(..whole).unwrap_or_default(), base + at as u64))
    }

    /// Scans lines that lie in memory from beginning to end; `false` when one was refused.
    fn whole_lines(&mut self, lines: &[u8], base: u64) -> bool {
        let mut at = 0;
        while let Some(rest) = lines.get(at..).filter(|rest| !rest.is_empty()) {
            let Some(hit) = self.finder.find(rest) else {
                self.mark.lines += memchr::memchr_iter(b'\n', rest).count() as u64;
                at = lines.len();
                break;
            };
            let (before, after) = rest.split_at_checked(hit).unwrap_or((rest, &[]));
            let start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
            let newline = memchr::memchr(b'\n', after);
            let end = newline.map_or(rest.len(), |newline| hit + newline);
            self.mark.lines += memchr::memchr_iter(b'\n', before).count() as u64;
            self.mark.line_start = base + (at + start) as u64;
            self.mark.offset = self.mark.line_start;
            let line = rest.get(start..end).unwrap_or_default();
            match std::str::from_utf8(without_ending(line, newline.is_some())) {
                Err(_) => self.undecodable += 1,
                Ok(text) => {
                    let shown = evidence_start((hit - start) as u64, self.finder.needle().len());
                    if !(self.take)(self.mark.lines + 1, evidence(text, to_index(shown))) {
                        return false;
                    }
                }
            }
            at += (end + 1).min(rest.len());
            self.mark.lines += 1;
        }
        self.mark.line_start = base + at as u64;
        self.mark.offset = self.mark.line_start;
        true
    }

    /// Looks at a window of a long line that goes on beyond it.
    fn look(&mut self, window: &[u8], base: u64) {
        self.find(window, base);
        let looked = to_index(self.mark.offset - base);
        let fresh = window.get(looked..).unwrap_or_default();
        self.mark.offset = base + window.len() as u64;
        if !self.mark.broken
            && let Err(error) = std::str::from_utf8(fresh)
        {
            match error.error_len() {
                Some(_) => self.mark.broken = true,
                // A character is cut by the window's end: it is looked at again, whole.
                None => self.mark.offset = base + (looked + error.valid_up_to()) as u64,
            }
        }
    }

    /// `window` ends where the line does; `false` when the line was refused.
    fn finish_long_line(&mut self, window: &[u8], base: u64, newline: bool) -> Result<bool, E> {
        self.find(window, base);
        let fresh = window.get(to_index(self.mark.offset - base)..).unwrap_or_default();
        self.mark.broken |= std::str::from_utf8(fresh).is_err();
        let Some(hit) = self.mark.hit else { return Ok(true) };
        if self.mark.broken {
            self.undecodable += 1;
            return Ok(true);
        }
        let start = self.mark.line_start;
        let end = base + without_ending(window, newline).len() as u64;
        let shown = start + evidence_start(hit - start, self.finder.needle().len());
        // Three bytes more before it, so that a character across the beginning is whole.
        let from = start.max(shown.saturating_sub(3));
        let mut bytes = vec![0; to_index(end.min(shown + EVIDENCE as u64) - from)];
        let filled = (self.read)(from, &mut bytes)?;
        bytes.truncate(filled);
        let lead = bytes.iter().take_while(|byte| is_continuation(**byte)).count();
        let text = valid_beginning(bytes.get(lead..).unwrap_or_default());
        let taken = (self.take)(self.mark.lines + 1, evidence(text, to_index(shown - from).saturating_sub(lead)));
        if !taken {
            // The line is found again from its beginning.
            self.mark = Mark { offset: start, hit: None, ..self.mark };
        }
        Ok(taken)
    }

    fn find(&mut self, window: &[u8], base: u64) {
        if self.mark.hit.is_none() {
            self.mark.hit = self.finder.find(window).map(|hit| base + hit as u64);
        }
    }
}

/// Where in a line its evidence begins: with the line, or before a match that would not be seen there.
fn evidence_start(hit: u64, needle: usize) -> u64 {
    if hit + needle as u64 > EVIDENCE as u64 { hit.saturating_sub(LEAD) } else { 0 }
}

/// At most 1,024 bytes of `text`, from the character at or before `start`, ending between characters.
fn evidence(text: &str, start: usize) -> &str {
    let start = text.floor_char_boundary(start);
    text.get(start..text.floor_char_boundary(start + EVIDENCE)).unwrap_or_default()
}

fn valid_beginning(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            bytes.get(..error.valid_up_to()).and_then(|valid| std::str::from_utf8(valid).ok()).unwrap_or_default()
        }
    }
}

/// A carriage return belongs to the line's ending only before a newline.
fn without_ending(line: &[u8], newline: bool) -> &[u8] {
    line.strip_suffix(b"\r").filter(|_| newline).unwrap_or(line)
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// An offset within a window, which fits memory.
fn to_index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    type Lines = Vec<(u64, String)>;

    /// Follows a scan to its end in pages of at most `budget` bytes and `limit` lines.
    fn scan(content: &[u8], needle: &str, budget: u64, limit: usize) -> (Lines, u64) {
        let finder = Finder::new(needle);
        let (mut lines, mut undecodable, mut mark) = (Lines::new(), 0, Mark::default());
        for _ in 0..100_000 {
            let mut page = Lines::new();
            let mut scan = Scan {
                finder: &finder,
                read: &mut |offset, buffer: &mut [u8]| {
                    let rest = &content[content.len().min(to_index(offset))..];
                    let count = rest.len().min(buffer.len());
                    buffer[..count].copy_from_slice(&rest[..count]);
                    Ok::<_, Infallible>(count)
                },
                take: &mut |line, text| {
                    let room = page.len() < limit;
                    if room {
                        page.push((line, text.to_owned()));
                    }
                    room
                },
                buffer: &mut Vec::new(),
                mark,
                budget,
                undecodable: 0,
            };
            let Ok(ended) = scan.run();
            let progress = scan.mark != mark;
            (mark, undecodable) = (scan.mark, undecodable + scan.undecodable);
            assert!(ended == Ended::File || progress || !page.is_empty(), "a page made no progress");
            lines.append(&mut page);
            if ended == Ended::File {
                return (lines, undecodable);
            }
        }
        panic!("the traversal does not end");
    }

    /// The contract, spelled naively.
    fn reference(content: &[u8], needle: &str) -> (Lines, u64) {
        let (mut lines, mut undecodable) = (Lines::new(), 0);
        let body = content.strip_suffix(b"\n").unwrap_or(content);
        if content.is_empty() {
            return (lines, 0);
        }
        let ended = body.len() < content.len();
        let count = body.split(|byte| *byte == b'\n').count();
        for (number, line) in body.split(|byte| *byte == b'\n').enumerate() {
            let ending: &[u8] = if ended || number + 1 < count { b"\r" } else { b"" };
            let Some(hit) = memchr::memmem::find(line, needle.as_bytes()) else { continue };
            let Ok(text) = std::str::from_utf8(line.strip_suffix(ending).unwrap_or(line)) else {
                undecodable += 1;
                continue;
            };
            let mut start = if hit + needle.len() > 1024 { hit - hit.min(512) } else { 0 };
            while !text.is_char_boundary(start) {
                start -= 1;
            }
            let mut end = text.len().min(start + 1024);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            lines.push((number as u64 + 1, text.get(start..end).unwrap().to_owned()));
        }
        (lines, undecodable)
    }

    fn content() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            4 => Just(b"needle".to_vec()),
            2 => Just(b"need".to_vec()),
            3 => Just(b"\n".to_vec()),
            1 => Just(b"\r\n".to_vec()),
            1 => Just(b"\r".to_vec()),
            1 => Just(b"\xff".to_vec()),
            1 => Just("\u{feff}".as_bytes().to_vec()),
            2 => (1usize..900).prop_map(|count| "é".repeat(count).into_bytes()),
            2 => (1usize..3000).prop_map(|count| vec![b'x'; count]),
            2 => (1usize..700).prop_map(|count| "\u{1f600}".repeat(count).into_bytes()),
        ];
        proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_scan_in_pages_finds_what_the_contract_says(content in content(), budget in 1u64..9000, limit in 1usize..5) {
            prop_assert_eq!(scan(&content, "needle", budget, limit), reference(&content, "needle"));
        }

        #[test]
        fn one_byte_queries_too(content in content(), budget in 1u64..5000) {
            prop_assert_eq!(scan(&content, "e", budget, 3), reference(&content, "e"));
        }
    }

    #[test]
    fn lines_longer_than_a_window_are_one_line() {
        let long = [vec![b'a'; 700_000], b"needle".to_vec(), vec![b'b'; 700_000], b"\nneedle".to_vec()].concat();
        for budget in [3000, 300_000, u64::MAX] {
            assert_eq!(scan(&long, "needle", budget, 9), reference(&long, "needle"));
        }
    }
}
