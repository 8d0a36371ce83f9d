//! Which paths are served: the operator's includes and excludes, compiled once.
//!
//! One rule holds everywhere: a path is served when an include matches it and no exclude matches it or any directory
//! above it. This module also makes the two proofs that the root demands: [`Served`] for a file, [`Reach`] for a
//! directory beneath which an include can match. A tool that forgets to ask does not compile.

mod pattern;

use globset::{GlobSet, GlobSetBuilder};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::error::ConfigError;
use crate::path::RelPath;
use pattern::{Pattern, Side};

/// Most patterns that one option may be given.
const MAX_PATTERNS: usize = 256;

/// Compiled includes and excludes.
///
/// Two wildcards exist: `*` stays within a segment, `**` is a whole segment and crosses any number of them. Every other
/// character is literal.
///
/// ```
/// use ptc_fs_mcp::{RelPath, Selector};
/// let selector = Selector::new(&["src/**", "*.md"], &["src/secret"])?;
/// assert!(selector.selects(&RelPath::parse("src/deep/a.rs")?));
/// assert!(!selector.selects(&RelPath::parse("src/secret/key")?));
/// assert!(!selector.selects(&RelPath::parse("docs/a.md")?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Selector {
    include: GlobSet,
    exclude: GlobSet,
    /// Directories in which nothing at all can be served, because an exclude covers everything beneath them.
    closed: GlobSet,
    /// Directories beneath which an include can match.
    reach: GlobSet,
    root_closed: bool,
    root_level: bool,
    fingerprint: Vec<u8>,
}

impl Selector {
    /// Compiles the patterns.
    ///
    /// # Errors
    /// [`ConfigError::IncludeRequired`] without an include, [`ConfigError::Pattern`] for a pattern that could never
    /// match (with the spelling that would), [`ConfigError::TooManyPatterns`] for more than 256 of one kind or for
    /// patterns that cannot be compiled within 10 MiB.
    pub fn new<S: AsRef<str>>(includes: &[S], excludes: &[S]) -> Result<Self, ConfigError> {
        if includes.is_empty() {
            return Err(ConfigError::IncludeRequired);
        }
        let includes = parse_all(Side::Include, includes)?;
        let excludes = parse_all(Side::Exclude, excludes)?;
        let compile = |option, globs: BTreeSet<String>| compile(&globs).ok_or(ConfigError::TooManyPatterns { option });
        Ok(Self {
            include: compile("--include", includes.iter().map(Pattern::glob).collect())?,
            exclude: compile("--exclude", excludes.iter().flat_map(Pattern::globs_with_all_beneath).collect())?,
            closed: compile("--exclude", excludes.iter().flat_map(Pattern::globs_of_closed_directories).collect())?,
            reach: compile("--include", includes.iter().flat_map(Pattern::globs_of_reached_directories).collect())?,
            root_closed: excludes.iter().any(Pattern::closes_root),
            root_level: includes.iter().any(Pattern::can_match_in_root),
            fingerprint: fingerprint(&includes, &excludes),
        })
    }

    /// Whether the path is served.
    #[must_use]
    pub fn selects(&self, path: &RelPath) -> bool {
        // The root has no name, which `*` would match.
        !path.is_root() && self.selects_bytes(path.as_str().as_bytes())
    }

    /// Whether an exclude covers the path.
    ///
    /// ```
    /// # use ptc_fs_mcp::{RelPath, Selector};
    /// let selector = Selector::new(&["**"], &["**/private"])?;
    /// assert!(selector.excludes(&RelPath::parse("a/private/key")?));
    /// assert!(!selector.excludes(&RelPath::parse("a/public")?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn excludes(&self, path: &RelPath) -> bool {
        self.exclude.is_match(path.as_str())
    }

    /// Whether an include can match a file that lies directly in the root.
    ///
    /// ```
    /// # use ptc_fs_mcp::Selector;
    /// assert!(Selector::new(&["docs/**", "*.md"], &[])?.serves_root_level());
    /// assert!(!Selector::new(&["docs/**"], &[])?.serves_root_level());
    /// # Ok::<(), ptc_fs_mcp::ConfigError>(())
    /// ```
    #[must_use]
    pub fn serves_root_level(&self) -> bool {
        self.root_level
    }

    /// Proof that the path is served.
    pub(crate) fn serve<'a>(&self, path: &'a RelPath) -> Option<Served<'a>> {
        self.selects(path).then_some(Served(path))
    }

    /// Proof that something beneath the directory can be served.
    pub(crate) fn reach<'a>(&self, path: &'a RelPath) -> Option<Reach<'a>> {
        self.reaches_bytes(path.as_str().as_bytes()).then_some(Reach(path))
    }

    /// [`Selector::selects`] for a path as the system spells it, representable or not.
    pub(crate) fn selects_bytes(&self, path: &[u8]) -> bool {
        let path = OsStr::from_bytes(path);
        self.include.is_match(path) && !self.exclude.is_match(path)
    }

    /// Whether a directory, as the system spells it, is to be opened at all.
    pub(crate) fn reaches_bytes(&self, directory: &[u8]) -> bool {
        // The root has no name, which `*` would match.
        if directory.is_empty() {
            return !self.root_closed;
        }
        let path = OsStr::from_bytes(directory);
        self.reach.is_match(path) && !self.closed.is_match(path)
    }

    /// The patterns in one unambiguous spelling, for binding a cursor to what is served.
    pub(crate) fn fingerprint(&self) -> &[u8] {
        &self.fingerprint
    }
}

/// Proof that a path is included and not excluded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served<'a>(&'a RelPath);

impl<'a> Served<'a> {
    pub(crate) fn path(self) -> &'a RelPath {
        self.0
    }
}

/// Proof that an include can match beneath a directory, and that no exclude covers all of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach<'a>(&'a RelPath);

impl<'a> Reach<'a> {
    pub(crate) fn path(self) -> &'a RelPath {
        self.0
    }
}

fn parse_all<S: AsRef<str>>(side: Side, texts: &[S]) -> Result<Vec<Pattern>, ConfigError> {
    let option = side.option();
    if texts.len() > MAX_PATTERNS {
        return Err(ConfigError::TooManyPatterns { option });
    }
    texts
        .iter()
        .map(|text| {
            Pattern::parse(text.as_ref(), side).map_err(|advice| ConfigError::Pattern {
                option,
                pattern: pattern::printable(text.as_ref()),
                advice,
            })
        })
        .collect()
}

/// `None` when the patterns together need more than globset's bound of 10 MiB.
fn compile(globs: &BTreeSet<String>) -> Option<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        let glob = globset::GlobBuilder::new(glob)
            .literal_separator(true)
            .backslash_escape(false)
            .empty_alternates(false)
            .build()
            .ok()?;
        set.add(glob);
    }
    set.build().ok()
}

fn fingerprint(includes: &[Pattern], excludes: &[Pattern]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for patterns in [includes, excludes] {
        for pattern in patterns {
            bytes.extend_from_slice(pattern.glob().as_bytes());
            bytes.push(0); // no pattern holds a NUL
        }
        bytes.push(0);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(includes: &[&str], excludes: &[&str]) -> Selector {
        Selector::new(includes, excludes).unwrap()
    }

    fn selects(includes: &[&str], excludes: &[&str], path: &str) -> bool {
        selector(includes, excludes).selects_bytes(path.as_bytes())
    }

    #[test]
    fn includes_follow_the_two_wildcards_and_nothing_else() {
        for (include, path, expected) in [
            ("lib/**", "lib/a.ts", true),
            ("lib/**", "lib/deep/a.ts", true),
            ("lib/**", "lib", false),
            ("lib/*", "lib/a.ts", true),
            ("lib/*", "lib/deep/a.ts", false),
            ("**/x", "x", true),
            ("**/x", "a/b/x", true),
            ("**/x", "a/xx", false),
            ("**", "a", true),
            ("**", "a/b/c", true),
            ("a/**/b", "a/b", true),
            ("a/**/b", "a/x/y/b", true),
            ("a/**/**/b", "a/b", true),
            ("*/**", "a", false),
            ("*/**", "a/b", true),
            ("*", "a\nb", true),
            ("*.txt", "\u{2028}\u{85}.txt", true),
            ("*", "caf\u{e9}", true),
            ("*", "a/b", false),
            ("*.TXT", "a.txt", false),
            ("[x].txt", "[x].txt", true),
            ("[x].txt", "x.txt", false),
            ("app/[id]/page.tsx", "app/[id]/page.tsx", true),
            ("app/[id]/page.tsx", "app/i/page.tsx", false),
            ("{a}", "{a}", true),
            ("{a}", "a", false),
            ("a{", "a{", true),
            ("a}b]c", "a}b]c", true),
            ("a,b", "a,b", true),
            ("!a", "!a", true),
            ("#a", "#a", true),
            (".hidden", ".hidden", true),
            ("*", ".hidden", true),
            ("a b", "a b", true),
        ] {
            assert_eq!(selects(&[include], &[], path), expected, "{include} on {path:?}");
        }
    }

    #[test]
    fn an_exclude_covers_everything_beneath_what_it_names() {
        for (exclude, path, expected) in [
            ("secret", "secret", false),
            ("secret", "secret/a", false),
            ("secret", "secret/a/b", false),
            ("secret/", "secret/a", false),
            ("secret", "secrets", true),
            ("secret", "a/secret", true),
            ("**/.git", ".git/config", false),
            ("**/.git", "a/.git/x/y", false),
            ("secret/*", "secret/a", false),
            ("secret/*", "secret/a/b", false),
            ("*.key", "a.key", false),
            ("*.key", "b.key/inside", false),
            ("*.key", "d/a.key", true),
            ("a/b", "a/b", false),
            ("a/b", "a/bc", true),
        ] {
            assert_eq!(selects(&["**"], &[exclude], path), expected, "{exclude} on {path}");
        }
    }

    #[test]
    fn only_directories_beneath_which_an_include_can_match_are_reached() {
        for (include, directory, expected) in [
            ("**", "a/b/c", true),
            ("*.md", "docs", false),
            ("src/**", "src", true),
            ("src/**", "src/a/b", true),
            ("src/**", "docs", false),
            ("src/*/x.rs", "src/a", true),
            ("src/*/x.rs", "src/a/b", false),
            ("src/*.rs", "src", true),
            ("src/*.rs", "src/deep", false),
            ("a*/b/**", "ax", true),
            ("a*/b/**", "ax/c", false),
            ("a*/b/**", "ax/b/c/d", true),
            ("**/x/y", "any/where", true),
            ("a/b/c", "a/b", true),
            ("a/b/c", "a/b/c", false),
        ] {
            let selector = selector(&[include], &[]);
            assert_eq!(selector.reaches_bytes(directory.as_bytes()), expected, "{include} on {directory}");
            assert!(selector.reaches_bytes(b""));
        }
    }

    #[test]
    fn a_directory_is_closed_when_an_exclude_covers_all_that_lies_beneath() {
        for (exclude, directory, expected) in [
            ("a", "a", false),
            ("a", "a/b", false),
            ("a/**", "a", false),
            ("a/*", "a", false),
            ("a/**/**", "a", false),
            ("a/**/*", "a", false),
            ("a/*/**", "a", true),
            ("a/*/**", "a/b", false),
            ("a/*.txt", "a", true),
            ("**/.git/**", "x/.git", false),
            ("**/.git/**", "x", true),
            ("**", "", false),
            ("**/*", "", false),
            ("*", "", false),
            ("*/*", "", true),
            ("*/*", "a", false),
            ("*/**", "", true),
            ("a", "", true),
        ] {
            let selector = selector(&["**"], &[exclude]);
            assert_eq!(selector.reaches_bytes(directory.as_bytes()), expected, "{exclude} on {directory:?}");
        }
    }

    #[test]
    fn whether_a_root_level_file_can_be_selected_is_known() {
        for (include, expected) in [
            ("*.md", true),
            ("**", true),
            ("**/*.md", true),
            ("**/**/x", true),
            ("x", true),
            ("lib/**", false),
            ("*/x", false),
            ("**/a/b", false),
            ("*/**", false),
        ] {
            assert_eq!(selector(&[include], &[]).serves_root_level(), expected, "{include}");
        }
    }

    #[test]
    fn hostile_patterns_stay_linear() {
        let includes: Vec<String> = (0..MAX_PATTERNS).map(|n| format!("*a*a*a*a*b{n}")).collect();
        let excludes: Vec<String> = (0..MAX_PATTERNS).map(|n| format!("**/*a/**/*b{n}")).collect();
        let selector = Selector::new(&includes, &excludes).unwrap();
        let name = "a".repeat(1000);
        for _ in 0..1000 {
            assert!(!selector.selects_bytes(name.as_bytes()));
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig {
            cases: 2000,
            failure_persistence: None,
            ..Default::default()
        })]

        /// Else a walk would miss it.
        #[test]
        fn every_directory_above_a_selected_path_is_reached(
            include in "(a|b|\\*|\\*\\*)(/(a|b|a\\*|\\*|\\*\\*)){0,3}",
            exclude in "(a|b|\\*|\\*\\*)(/(a|b|a\\*|\\*|\\*\\*)){0,3}",
            path in "[ab]{1,2}(/[ab]{1,2}){0,4}",
        ) {
            let selector = selector(&[&include], &[&exclude]);
            if selector.selects_bytes(path.as_bytes()) {
                for (at, _) in path.match_indices('/') {
                    proptest::prop_assert!(selector.reaches_bytes(path.split_at(at).0.as_bytes()));
                }
                proptest::prop_assert!(selector.reaches_bytes(b""));
            }
        }
    }

    #[test]
    fn patterns_beyond_the_bounds_are_refused() {
        let many = vec!["a"; MAX_PATTERNS + 1];
        assert_eq!(Selector::new(&many, &[]).err(), Some(ConfigError::TooManyPatterns { option: "--include" }));
        assert_eq!(Selector::new::<&str>(&[], &[]).err(), Some(ConfigError::IncludeRequired));
    }
}
