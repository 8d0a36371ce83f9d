//! One pattern: its grammar, its refusals with the spelling that was meant, and the globs it stands for.
//!
//! globset knows more syntax than is wanted here (`?`, sets, lists). What its author would read differently than it
//! would match is refused; brackets and braces that remain are escaped, so that they match themselves.

use crate::error::shown;

/// Longest pattern, in bytes.
const MAX_BYTES: usize = 1024;

/// Most segments of a pattern.
const MAX_SEGMENTS: usize = 64;

/// What a pattern is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Include,
    Exclude,
}

impl Side {
    /// The option that takes it.
    pub(super) fn option(self) -> &'static str {
        match self {
            Self::Include => "--include",
            Self::Exclude => "--exclude",
        }
    }
}

/// The segments of a valid pattern, each already in globset's spelling.
#[derive(Debug)]
pub(super) struct Pattern {
    segments: Vec<String>,
}

impl Pattern {
    /// Applies the grammar; the error says what to write instead.
    pub(super) fn parse(text: &str, side: Side) -> Result<Self, String> {
        // "build/" is how everyone spells "the directory build, with all in it"; for an exclude that is what `build`
        // means. An include of a directory selects nothing, so there the slash is answered with the right spelling.
        let text = if side == Side::Exclude { text.strip_suffix('/').unwrap_or(text) } else { text };
        if let Some(advice) = refusal(text, side) {
            return Err(advice.in_words(side));
        }
        Ok(Self { segments: text.split('/').map(escape).collect() })
    }

    pub(super) fn glob(&self) -> String {
        self.segments.join("/")
    }

    /// What an exclude covers: what it matches, and everything beneath that.
    pub(super) fn globs_with_all_beneath(&self) -> [String; 2] {
        [self.glob(), format!("{}/**", self.glob())]
    }

    /// Directories beneath which this exclude leaves nothing: those it covers, and those all of whose children it
    /// covers. A tail of `**`s, or of `*` with any `**`s before it, matches every child.
    pub(super) fn globs_of_closed_directories(&self) -> Vec<String> {
        let mut globs = Vec::from(self.globs_with_all_beneath());
        globs.extend(self.stem().filter(|stem| !stem.is_empty()).map(|stem| stem.join("/")));
        globs
    }

    /// Whether this exclude leaves nothing in the root at all.
    pub(super) fn closes_root(&self) -> bool {
        self.stem().is_some_and(<[String]>::is_empty)
    }

    /// What stands before a tail that matches every child, if there is such a tail.
    fn stem(&self) -> Option<&[String]> {
        let mut stem = self.segments.as_slice();
        if let [rest @ .., last] = stem
            && last == "*"
        {
            stem = rest;
        }
        while let [rest @ .., last] = stem
            && last == "**"
        {
            stem = rest;
        }
        (stem.len() < self.segments.len()).then_some(stem)
    }

    /// Directories beneath which this include can match: everything from its first `**` on, and before that every
    /// proper beginning of the pattern.
    pub(super) fn globs_of_reached_directories(&self) -> Vec<String> {
        let crossing = self.segments.iter().position(|segment| segment == "**");
        let fixed = crossing.unwrap_or(self.segments.len().saturating_sub(1));
        let mut globs: Vec<String> =
            (1..=fixed).filter_map(|count| self.segments.get(..count)).map(|beginning| beginning.join("/")).collect();
        if let Some(beginning) = crossing.and_then(|count| self.segments.get(..=count)) {
            globs.push(beginning.join("/"));
        }
        globs
    }

    /// Whether a path of one segment can match.
    pub(super) fn can_match_in_root(&self) -> bool {
        let mut rest = self.segments.as_slice();
        while let [first, tail @ ..] = rest
            && first == "**"
            && !tail.is_empty()
        {
            rest = tail;
        }
        rest.len() == 1
    }
}

/// Why a pattern is refused, for its author.
enum Advice {
    /// This spelling says it.
    Write(String),
    /// No spelling does.
    Say(String),
}

impl Advice {
    /// One spelling may mend one fault of several, so it is mended on until it is accepted. Bounded by the kinds of
    /// faults there are.
    fn in_words(mut self, side: Side) -> String {
        for _ in 0..16 {
            match self {
                Self::Say(text) => return text,
                Self::Write(spelling) => match refusal(&spelling, side) {
                    None => return format!("write {}", printable(&spelling)),
                    Some(further) => self = further,
                },
            }
        }
        "see the README for the two wildcards there are".to_owned()
    }
}

/// The first reason to refuse a pattern, or `None`.
fn refusal(text: &str, side: Side) -> Option<Advice> {
    let write = |spelling: &str| Some(Advice::Write(spelling.to_owned()));
    let say = |text: &str| Some(Advice::Say(text.to_owned()));
    if text.is_empty() {
        return write("**");
    }
    if text.len() > MAX_BYTES {
        return Some(Advice::Say(format!("at most {MAX_BYTES} bytes")));
    }
    if text.contains(char::is_control) {
        return say("control characters are never served; write * in their place");
    }
    if text.contains('\\') {
        return write(&text.replace('\\', "/"));
    }
    if text.starts_with('/') {
        let rest = text.trim_start_matches('/');
        return write(if rest.is_empty() { "**" } else { rest });
    }
    let plain: Vec<&str> = text.split('/').filter(|segment| !matches!(*segment, "" | ".")).collect();
    if plain.contains(&"..") {
        return say("nothing above the root is served; leave out ..");
    }
    if plain.is_empty() {
        return write("**");
    }
    if side == Side::Include && text.ends_with('/') {
        return write(&format!("{}/**", plain.join("/")));
    }
    if plain.len() != text.split('/').count() {
        return write(&plain.join("/"));
    }
    if plain.len() > MAX_SEGMENTS {
        return Some(Advice::Say(format!("at most {MAX_SEGMENTS} segments")));
    }
    if text.contains('?') {
        return write(&text.replace('?', "*"));
    }
    if let Some(index) = plain.iter().position(|segment| segment.contains("**") && *segment != "**") {
        let segment = plain.get(index)?;
        let spelled = match segment.strip_prefix("**") {
            Some(rest) if !rest.contains("**") => format!("**/*{rest}"),
            _ => segment.replace("**", "*"),
        };
        let all: Vec<&str> = plain
            .iter()
            .enumerate()
            .map(|(at, segment)| if at == index { spelled.as_str() } else { segment })
            .collect();
        return write(&all.join("/"));
    }
    if text.contains("[!") || text.contains("[^") {
        return say("sets are not known; write * and narrow it with --exclude");
    }
    list(text).map(|items| Advice::Say(format!("lists are not known; repeat the option: {items}")))
}

/// The first two spellings that a list such as `{a,b}` stands for.
fn list(text: &str) -> Option<String> {
    text.match_indices('{').find_map(|(at, _)| {
        let (before, rest) = text.split_at_checked(at)?;
        let (inside, after) = rest.strip_prefix('{')?.split_once('}')?;
        let (first, others) = inside.split_once(',')?;
        let second = others.split(',').next().unwrap_or_default();
        Some(printable(&format!("{before}{first}{after} and {before}{second}{after}")))
    })
}

/// Brackets and braces in globset's spelling for the literal character.
fn escape(segment: &str) -> String {
    let mut glob = String::with_capacity(segment.len());
    for character in segment.chars() {
        match character {
            '[' | ']' | '{' | '}' => glob.extend(['[', character, ']']),
            _ => glob.push(character),
        }
    }
    glob
}

/// A pattern fit for one line of an error.
pub(super) fn printable(text: &str) -> String {
    shown(text, 120)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_its_author_would_read_differently_is_refused_with_the_right_spelling() {
        for (text, advice) in [
            ("", "write **"),
            ("a?.txt", "write a*.txt"),
            ("**.env", "write **/*.env"),
            ("a/**.env", "write a/**/*.env"),
            ("a**b", "write a*b"),
            ("***", "write **/**"),
            ("/", "write **"),
            ("/src/**", "write src/**"),
            ("./src/**", "write src/**"),
            (".", "write **"),
            ("src/./a", "write src/a"),
            ("src/../a", "nothing above the root is served; leave out .."),
            ("..", "nothing above the root is served; leave out .."),
            ("a//b", "write a/b"),
            ("src/", "write src/**"),
            ("src\\a", "write src/a"),
            ("a\nb", "control characters are never served; write * in their place"),
            ("*.{ts,js}", "lists are not known; repeat the option: *.ts and *.js"),
            ("{a,b,c}/x", "lists are not known; repeat the option: a/x and b/x"),
            ("{id}/*.{key,pem}", "lists are not known; repeat the option: {id}/*.key and {id}/*.pem"),
            ("[!a]", "sets are not known; write * and narrow it with --exclude"),
            ("/a?.txt", "write a*.txt"),
            ("./**.env", "write **/*.env"),
            ("**a/**b", "write **/*a/**/*b"),
            (".\\src\\*.rs", "write src/*.rs"),
            ("a?/", "write a*/**"),
            ("/*.{a,b}", "lists are not known; repeat the option: *.a and *.b"),
            ("[^a]", "sets are not known; write * and narrow it with --exclude"),
        ] {
            assert_eq!(Pattern::parse(text, Side::Include).err().as_deref(), Some(advice), "{text:?}");
        }
    }

    #[test]
    fn an_advised_spelling_is_itself_accepted() {
        for text in [
            "", "a?.txt", "**.env", "a**b", "***", "/", "/src/**", "./x", ".", "a//b", "src/", "//", "/**", "x/***y/z",
            "\\?/",
        ] {
            let advice = Pattern::parse(text, Side::Include).unwrap_err();
            assert!(Pattern::parse(advice.strip_prefix("write ").unwrap(), Side::Include).is_ok(), "{text}: {advice}");
        }
    }

    #[test]
    fn a_trailing_slash_is_dropped_from_an_exclude_only() {
        assert_eq!(Pattern::parse("build/", Side::Exclude).unwrap().glob(), "build");
        assert!(Pattern::parse("build/", Side::Include).is_err());
        assert!(Pattern::parse("build//", Side::Exclude).is_err());
    }

    #[test]
    fn bounds_are_exact() {
        assert!(Pattern::parse(&"a".repeat(MAX_BYTES), Side::Include).is_ok());
        assert!(Pattern::parse(&"a".repeat(MAX_BYTES + 1), Side::Include).is_err());
        assert!(Pattern::parse(&vec!["a"; MAX_SEGMENTS].join("/"), Side::Include).is_ok());
        assert!(Pattern::parse(&vec!["a"; MAX_SEGMENTS + 1].join("/"), Side::Include).is_err());
    }
}
