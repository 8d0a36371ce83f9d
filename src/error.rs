//! Everything that can go wrong, as two closed sets of fixed texts.
//!
//! [`ConfigError`] stops the start and is read by the operator. [`ToolError`] answers a call and is read by a model:
//! its text names the rule that was broken and never holds a host path, a link's target or an operating-system message.
//! The number of the system error that stood behind a refusal is kept apart, for the diagnostics of whoever runs the
//! server.

use thiserror::Error;

/// Why a server cannot start with this configuration. One lower-case line each.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No root was named.
    #[error("--root is required")]
    RootRequired,
    /// Without an include nothing is served.
    #[error("at least one --include pattern is required")]
    IncludeRequired,
    /// Nothing lies at the root's path.
    #[error("root does not exist")]
    RootMissing,
    /// A file, FIFO, socket or device lies at the root's path.
    #[error("root is not a directory")]
    RootNotDirectory,
    /// The root's last component is a link; what it points to could be exchanged by whoever owns the link.
    #[error("root must not be a symbolic link")]
    RootIsLink,
    /// The root lies on a filesystem whose files are views of kernel state.
    #[error("root is on a kernel filesystem")]
    RootOnKernelFilesystem,
    /// The root finds `SECRETS` under the name `secrets`, so that no exclude would hold.
    #[error("root is a directory that ignores the case of names")]
    RootFoldsCase,
    /// The process may not open the root.
    #[error("root cannot be opened")]
    RootUnreadable,
    /// A pattern that selects nothing, or something else than its author meant. Holds the option, the pattern and the
    /// right spelling.
    #[error("{option} pattern can never match: {pattern} ({advice})")]
    Pattern {
        /// `--include` or `--exclude`.
        option: &'static str,
        /// The pattern as given, shortened where it is long.
        pattern: String,
        /// What to write instead.
        advice: String,
    },
    /// More patterns, or more complex ones, than can be matched in linear time and bounded memory.
    #[error("{option} patterns are too many or too complex")]
    TooManyPatterns {
        /// `--include` or `--exclude`.
        option: &'static str,
    },
    /// A limit outside of its range. Holds the option and the rule.
    #[error("{option} must be {rule}")]
    Limit {
        /// The option's name.
        option: &'static str,
        /// What the value must be.
        rule: &'static str,
    },
    /// A tool, or a set of tools, that does not exist. Holds its name, shortened where it is long.
    #[error("unknown tool in --tools: {0}")]
    UnknownTool(String),
    /// A server without tools would serve nothing.
    #[error("--tools names no tool")]
    NoTools,
    /// A name or version of the server that is empty, longer than 64 characters, or holds a control character.
    #[error("name and version must be 1 to 64 characters without control characters")]
    Identity,
    /// The system gave no random bytes, so cursors could not be signed.
    #[error("no random source")]
    NoRandomness,
}

/// Why a call was refused. The texts are part of the contract; [`ToolError::kind`] sorts them for programs.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ToolError {
    /// A path that is not a plain relative path; see [`crate::RelPath`] for the rules.
    #[error("path is not a relative path inside the root")]
    BadPath,
    /// An argument outside of the tool's input schema. Holds the text that names it.
    #[error("{0}")]
    BadArgument(String),
    /// No include selects the path, an exclude covers it, or it lies too deep.
    #[error("path is not served by this root")]
    NotServed,
    /// Missing, a link, a directory, a special file, or gone.
    #[error("path is not a readable regular file")]
    NotReadable,
    /// The page holds bytes that are not UTF-8.
    #[error("file is not valid UTF-8")]
    NotUtf8,
    /// The file is larger than the operator lets be served.
    #[error("file exceeds the --max-file-bytes limit")]
    FileTooLarge,
    /// Six reads in a row saw six states.
    #[error("the file is changing; try again")]
    Changing,
    /// The root directory was removed.
    #[error("root is gone")]
    RootGone,
    /// The system refused a read. Holds the system's error number, for diagnostics only.
    #[error("read failed")]
    ReadFailed(i32),
    /// The system refused a write; nothing was changed. Holds the system's error number, for diagnostics only.
    #[error("write failed")]
    WriteFailed(i32),
    /// The new content is in place, but the directory could not be flushed. Holds the system's error number.
    #[error("written, but durability is not confirmed")]
    NotDurable(i32),
    /// Not a cursor of this process, or altered.
    #[error("cursor is not valid")]
    BadCursor,
    /// A cursor of another tool, or of other arguments.
    #[error("cursor was issued for a different traversal")]
    OtherTraversal,
    /// What the cursor's pages rest on has changed.
    #[error("the filesystem changed since this cursor was issued; start the traversal again")]
    StaleCursor,
    /// A write's name is not one lower-case basename.
    #[error("path must be one lowercase basename of letters, digits, dots, underscores, or hyphens")]
    BadBasename,
    /// A write's content is longer than the operator allows. Holds the limit in bytes.
    #[error("content exceeds the {0}-byte write limit")]
    ContentTooLarge(u64),
    /// A write's name is hidden by an exclude, so that it could not be read back.
    #[error("path matches an --exclude pattern of this root")]
    WriteExcluded,
    /// No include can select any file that lies directly in the root.
    #[error(
        "no --include pattern of this root matches a file in the root itself, so nothing can be written; \
         the operator can add one, such as --include '*.md'"
    )]
    RootLevelUnserved,
    /// A write's name is selected by no include, so that it could not be read back.
    #[error("path matches no --include pattern of this root")]
    WriteUnselected,
    /// What lies at the write's name may not be replaced.
    #[error("destination is not a writable regular file")]
    NotWritable,
    /// The replacement could not be given the owner, group, access list or attributes of what it replaces.
    #[error("destination's owner or access list cannot be kept")]
    OwnershipLost,
    /// Nobody waits for the answer any more, so nobody reads this.
    #[error("cancelled")]
    Cancelled,
    /// A walk passed a bound of [`crate::Limits`]. Holds what was counted and the bound.
    #[error("the walk passes the limit of {limit} {what}")]
    WalkLimit {
        /// `files` or `entries`.
        what: &'static str,
        /// The bound.
        limit: u64,
    },
}

impl ToolError {
    /// The error's kind, one of a closed set: `stale_cursor`, `invalid_cursor`, `invalid_argument`, `not_served`,
    /// `not_readable`, `not_writable`, `limit`, `busy`, `io`.
    ///
    /// ```
    /// use ptc_fs_mcp::RelPath;
    /// let refusal = RelPath::parse("../x").unwrap_err();
    /// assert_eq!(refusal.kind(), "invalid_argument");
    /// assert_eq!(refusal.to_string(), "path is not a relative path inside the root");
    /// ```
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::BadPath | Self::BadArgument(_) | Self::BadBasename => "invalid_argument",
            Self::NotServed | Self::WriteExcluded | Self::RootLevelUnserved | Self::WriteUnselected => "not_served",
            Self::NotReadable | Self::NotUtf8 => "not_readable",
            Self::NotWritable | Self::OwnershipLost => "not_writable",
            Self::FileTooLarge | Self::ContentTooLarge(_) | Self::WalkLimit { .. } => "limit",
            Self::Changing | Self::Cancelled => "busy",
            Self::RootGone | Self::ReadFailed(_) | Self::WriteFailed(_) | Self::NotDurable(_) => "io",
            Self::BadCursor | Self::OtherTraversal => "invalid_cursor",
            Self::StaleCursor => "stale_cursor",
        }
    }

    /// The system's error number behind the refusal, where there was one: for the server's diagnostics, never for its
    /// client.
    pub(crate) fn os_error(&self) -> Option<i32> {
        match self {
            Self::ReadFailed(number) | Self::WriteFailed(number) | Self::NotDurable(number) => Some(*number),
            _ => None,
        }
    }
}

/// Somebody else's text, fit for one line of an error: at most so many characters, none of them a control character.
pub(crate) fn shown(text: &str, most: usize) -> String {
    let printable = |character: char| if character.is_control() { '\u{fffd}' } else { character };
    let mut line: String = text.chars().take(most).map(printable).collect();
    if text.chars().nth(most).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn foreign_text_is_shortened_and_cannot_break_a_line() {
        assert_eq!(shown("abc", 3), "abc");
        assert_eq!(shown("abcd", 3), "abc…");
        assert_eq!(shown("a\nb\u{1b}", 9), "a\u{fffd}b\u{fffd}");
    }
}
