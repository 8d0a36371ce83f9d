//! Bytes into lines of bounded length.

use std::collections::VecDeque;

/// What stands between two line feeds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Without its line feed.
    Whole(Vec<u8>),
    /// Longer than allowed; its bytes are gone.
    TooLong,
}

/// Holds at most one line that is not yet whole.
#[derive(Debug)]
pub(super) struct Splitter {
    longest: usize,
    line: Vec<u8>,
    too_long: bool,
}

impl Splitter {
    pub(super) fn new(longest: usize) -> Self {
        Self { longest, line: Vec::new(), too_long: false }
    }

    /// The lines that end in these bytes.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> VecDeque<Line> {
        let mut lines = VecDeque::new();
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
            self.extend(line);
            lines.extend(self.end_line());
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.extend(bytes);
        lines
    }

    /// What was left without a line feed at the end of input.
    pub(super) fn end(mut self) -> Option<Line> {
        if self.line.is_empty() && !self.too_long { None } else { self.end_line() }
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.line.len() + bytes.len() > self.longest {
            self.too_long = true;
            self.line = Vec::new();
        } else if !self.too_long {
            self.line.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self) -> Option<Line> {
        let line = std::mem::take(&mut self.line);
        Some(if std::mem::take(&mut self.too_long) { Line::TooLong } else { Line::Whole(line) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(longest: usize, parts: &[&str]) -> Vec<Line> {
        let mut splitter = Splitter::new(longest);
        let mut lines: Vec<Line> = parts.iter().flat_map(|part| splitter.push(part.as_bytes())).collect();
        lines.extend(splitter.end());
        lines
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_are_found_however_the_bytes_arrive() {
        for parts in [&["ab\nc\n"][..], &["a", "b\n", "c\n"], &["ab", "\nc", "\n"]] {
            assert_eq!(lines(10, parts), [whole("ab"), whole("c")]);
        }
        assert_eq!(lines(10, &["\n\n"]), [whole(""), whole("")]);
    }

    #[test]
    fn a_last_line_without_a_line_feed_is_a_line() {
        assert_eq!(lines(10, &["a\nb"]), [whole("a"), whole("b")]);
        assert_eq!(lines(10, &[]), []);
    }

    #[test]
    fn a_line_over_the_limit_is_dropped_and_the_next_is_read() {
        assert_eq!(lines(3, &["abc\nabcd\nx\n"]), [whole("abc"), Line::TooLong, whole("x")]);
        assert_eq!(lines(3, &["ab", "cd", "ef", "g\nx\n"]), [Line::TooLong, whole("x")]);
        assert_eq!(lines(3, &["abcd"]), [Line::TooLong]);
    }

    #[test]
    fn a_long_line_takes_no_memory() {
        let mut splitter = Splitter::new(3);
        for _ in 0..1000 {
            splitter.push(&[b'x'; 1000]);
            assert!(splitter.line.capacity() <= 4096);
        }
    }
}
