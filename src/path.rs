//! What a client may call a file: the path contract, decided on the text alone.
//!
//! A [`RelPath`] exists only if its text names something beneath the root in one way. Nothing is resolved, decoded,
//! trimmed, folded or normalised here or later: what is not a plain relative path is refused before any system call.

use crate::error::ToolError;

/// Longest path, in Unicode scalar values.
pub(crate) const MAX_CHARS: usize = 1024;

/// Names that begin so belong to unfinished writes and are served to nobody.
pub(crate) const RESERVED_PREFIX: &str = ".ptc-fs-mcp-";

/// A relative path in POSIX form, without `.`, `..`, backslashes, control characters or a drive prefix, at most 1,024
/// characters long. The empty path is the root.
///
/// ```
/// use ptc_fs_mcp::RelPath;
/// assert_eq!(RelPath::parse("lib//a.rs")?.as_str(), "lib/a.rs");
/// assert!(RelPath::parse("lib/../a.rs").is_err());
/// assert!(RelPath::parse("/etc/passwd").is_err());
/// # Ok::<(), ptc_fs_mcp::ToolError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelPath(String);

impl RelPath {
    /// Applies the path contract. Empty segments collapse: `lib//a` and `lib/a/` are `lib/a`.
    ///
    /// # Errors
    /// [`ToolError::BadPath`] for everything that is not a plain relative path.
    pub fn parse(text: &str) -> Result<Self, ToolError> {
        if text.starts_with('/') || has_drive_prefix(text) || text.chars().nth(MAX_CHARS).is_some() {
            return Err(ToolError::BadPath);
        }
        let mut path = String::with_capacity(text.len());
        for segment in text.split('/').filter(|segment| !segment.is_empty()) {
            let Name::Plain(segment) = Name::of(segment.as_bytes()) else {
                return Err(ToolError::BadPath);
            };
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(segment);
        }
        // A drive prefix hidden behind nothing but slashes cannot occur: a leading slash was refused above.
        Ok(Self(path))
    }

    /// The root itself.
    pub(crate) fn root() -> Self {
        Self(String::new())
    }

    /// The path's text, without leading, trailing or doubled slashes.
    ///
    /// ```
    /// # use ptc_fs_mcp::RelPath;
    /// assert_eq!(RelPath::parse("lib//a.rs/")?.as_str(), "lib/a.rs");
    /// # Ok::<(), ptc_fs_mcp::ToolError>(())
    /// ```
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the root itself.
    ///
    /// ```
    /// # use ptc_fs_mcp::RelPath;
    /// assert!(RelPath::parse("")?.is_root() && !RelPath::parse("a")?.is_root());
    /// # Ok::<(), ptc_fs_mcp::ToolError>(())
    /// ```
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The directory's text (empty for the root) and the last segment.
    pub(crate) fn split(&self) -> (&str, &str) {
        self.0.rsplit_once('/').unwrap_or(("", &self.0))
    }
}

/// How deep a directory lies: 0 for the root, 1 for its children.
pub(crate) fn depth(directory: &str) -> usize {
    directory.split('/').filter(|segment| !segment.is_empty()).count()
}

/// A name as it stands in a directory, sorted by what a client could do with it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Name<'a> {
    /// Can be requested.
    Plain(&'a str),
    /// An unfinished write.
    Reserved,
    /// Not UTF-8, or with a character that the path contract refuses.
    Unspeakable,
}

impl<'a> Name<'a> {
    /// Judges one segment. It holds no slash.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Self::Unspeakable;
        };
        if text.starts_with(RESERVED_PREFIX) {
            return Self::Reserved;
        }
        if text.is_empty() || text == "." || text == ".." || text.contains('\\') || text.contains(char::is_control) {
            return Self::Unspeakable;
        }
        Self::Plain(text)
    }
}

/// `C:` at the beginning means a drive to half of the world's programs, so such a path is refused, and such a name in
/// the root cannot be requested.
pub(crate) fn has_drive_prefix(text: &str) -> bool {
    matches!(text.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_relative_path_is_taken_as_it_is() {
        for text in [
            "a",
            "a/b",
            "a b",
            " lead",
            "trail ",
            "-rf",
            "~",
            "$HOME",
            "%2e%2e",
            "....",
            "...",
            "a.",
            ".hidden",
            "ab:c",
            "1:x",
            "café",
            "cafe\u{301}",
            "\u{ff0e}\u{ff0e}",
            "\u{202e}x",
            "\u{200b}",
            "\"q\"",
            "[x].txt",
            "*",
            "?",
            "dir/C:x",
        ] {
            assert_eq!(RelPath::parse(text).as_ref().map(RelPath::as_str), Ok(text));
        }
    }

    #[test]
    fn empty_segments_collapse_and_the_empty_path_is_the_root() {
        for (text, path) in [("", ""), ("a/", "a"), ("a//b", "a/b"), ("a///b//", "a/b")] {
            assert_eq!(RelPath::parse(text).unwrap().as_str(), path);
        }
        assert!(RelPath::parse("").unwrap().is_root());
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "/",
            "//x",
            "/etc/passwd",
            ".",
            "..",
            "./x",
            "x/.",
            "x/..",
            "../x",
            "a/../b",
            "a/./b",
            "nope/../../x",
            "a\\b",
            "\\",
            "..\\x",
            "\\\\?\\C:\\x",
            "C:\\x",
            "C:",
            "c:x",
            "z:/x",
            "a:b",
            "a\0b",
            "\0",
            "a\nb",
            "a\rb",
            "a\tb",
            "a\u{7f}",
            "a\u{85}b",
            "\u{1b}[0m",
            ".ptc-fs-mcp-",
            ".ptc-fs-mcp-00/x",
            "a/.ptc-fs-mcp-x",
        ] {
            assert_eq!(RelPath::parse(text), Err(ToolError::BadPath), "{text:?}");
        }
    }

    #[test]
    fn length_is_counted_in_characters() {
        assert!(RelPath::parse(&"é".repeat(MAX_CHARS)).is_ok());
        assert!(RelPath::parse(&"é".repeat(MAX_CHARS + 1)).is_err());
    }

    #[test]
    fn a_path_splits_into_its_directory_and_its_name() {
        assert_eq!(RelPath::parse("a/b/c").unwrap().split(), ("a/b", "c"));
        assert_eq!(RelPath::parse("c").unwrap().split(), ("", "c"));
        assert_eq!((depth(""), depth("a"), depth("a/b")), (0, 1, 2));
    }

    #[test]
    fn names_from_a_directory_are_judged_by_the_same_rules() {
        assert_eq!(Name::of(b"a"), Name::Plain("a"));
        assert_eq!(Name::of(b"caf\xe9"), Name::Unspeakable);
        assert_eq!(Name::of(b"a\nb"), Name::Unspeakable);
        assert_eq!(Name::of(b".ptc-fs-mcp-0"), Name::Reserved);
    }
}
