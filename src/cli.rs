//! The command line: from words to a configuration, or to one lower-case line that says what is wrong.
//!
//! Options may stand before or after the `call` command. They are read in both places and joined: patterns add up, and
//! a value given twice is refused.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand};
use ptc_fs_mcp::{Config, ConfigError, Limits, VERSION};
use serde_json::{Map, Value};
use std::ffi::OsString;

/// What the process is to do.
pub(crate) enum Command {
    /// Serve MCP over standard input and output.
    Serve { config: Config, protocol: Protocol },
    /// Make one call.
    Call { config: Config, tool: String, arguments: Map<String, Value>, first_page: bool },
    /// Print a text on standard output.
    Print(String),
}

/// How MCP is spoken.
#[derive(Args, Default)]
pub(crate) struct Protocol {
    /// Also serve clients that open with the 2025-era initialize
    #[arg(long)]
    pub(crate) accept_legacy: bool,
    /// Let a search for panic panic, and have a tool echo
    #[cfg(feature = "test-hooks")]
    #[arg(long, hide = true)]
    pub(crate) test_tools: bool,
}

#[derive(Parser)]
#[command(
    name = "ptc-fs-mcp",
    about = "A filesystem MCP server over one confined root, on standard input and output.",
    override_usage = "ptc-fs-mcp --root <DIR> --include <GLOB>... [OPTIONS]\n       \
                      ptc-fs-mcp call <TOOL> [JSON] --root <DIR> --include <GLOB>... [OPTIONS]",
    disable_version_flag = true,
    disable_help_subcommand = true,
    subcommand_negates_reqs = true
)]
struct Words {
    #[command(flatten)]
    root: RootArgs,
    #[command(flatten)]
    protocol: Protocol,
    /// Print the version and exit
    #[arg(long)]
    version: bool,
    #[command(subcommand)]
    command: Option<Sub>,
}

#[derive(Subcommand)]
enum Sub {
    /// Make one tool call, print its result, and exit: 0, or 1 when it was refused
    #[command(override_usage = "ptc-fs-mcp call <TOOL> [JSON] --root <DIR> --include <GLOB>... [OPTIONS]")]
    Call {
        /// The tool's name, such as read_text_file
        tool: String,
        /// The tool's arguments as a JSON object
        json: Option<String>,
        /// Print the first page only, with "more": true when more follow
        #[arg(long)]
        page: bool,
        #[command(flatten)]
        root: RootArgs,
    },
}

#[derive(Args, Default)]
struct RootArgs {
    /// Directory to confine to, resolved once
    #[arg(long, value_name = "DIR")]
    root: Option<OsString>,
    /// Serve matching paths; repeatable
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Never serve matching paths, nor anything beneath them; repeatable
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Larger files are not served [default: no limit]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_file_bytes: Option<u64>,
    /// Largest content of one write [default: 65536]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_write_bytes: Option<u64>,
    /// Ceiling of one tool result, 36000 to 4194304 [default: 48000]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_result_bytes: Option<u64>,
    /// Bytes that one page of search_text may scan [default: 134217728]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_scan_bytes: Option<u64>,
    /// Deeper directories are not served [default: 64]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_depth: Option<u64>,
    /// Cross mount points below the root
    #[arg(long)]
    allow_mounts: bool,
    /// Do not serve files with more than one link
    #[arg(long)]
    deny_hardlinks: bool,
    /// Resolve paths as on a kernel without openat2
    #[cfg(feature = "test-hooks")]
    #[arg(long, hide = true)]
    test_component_walk: bool,
}

/// Reads the words after the program's name.
pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Command, String> {
    let words = match Words::try_parse_from(words) {
        Ok(words) => words,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp) => return Ok(Command::Print(error.to_string())),
        Err(error) => return Err(usage(&error)),
    };
    if words.version {
        return Ok(Command::Print(format!("{VERSION}\n")));
    }
    match words.command {
        None => {
            let config = words.root.config().map_err(|error| error.to_string())?;
            Ok(Command::Serve { config, protocol: words.protocol })
        }
        Some(Sub::Call { .. }) if words.protocol.accept_legacy => {
            Err("--accept-legacy has no use with call".to_owned())
        }
        Some(Sub::Call { tool, json, page, root }) => Ok(Command::Call {
            config: words.root.join(root)?.config().map_err(|error| error.to_string())?,
            tool,
            arguments: object(json.as_deref())?,
            first_page: page,
        }),
    }
}

impl RootArgs {
    /// The options before the command and those after it, as if all stood in one place.
    fn join(self, after: Self) -> Result<Self, String> {
        fn once<T>(option: &str, before: Option<T>, after: Option<T>) -> Result<Option<T>, String> {
            match (before, after) {
                (Some(_), Some(_)) => Err(format!("{option} may be given only once")),
                (before, after) => Ok(before.or(after)),
            }
        }
        Ok(Self {
            root: once("--root", self.root, after.root)?,
            include: [self.include, after.include].concat(),
            exclude: [self.exclude, after.exclude].concat(),
            max_file_bytes: once("--max-file-bytes", self.max_file_bytes, after.max_file_bytes)?,
            max_write_bytes: once("--max-write-bytes", self.max_write_bytes, after.max_write_bytes)?,
            max_result_bytes: once("--max-result-bytes", self.max_result_bytes, after.max_result_bytes)?,
            max_scan_bytes: once("--max-scan-bytes", self.max_scan_bytes, after.max_scan_bytes)?,
            max_depth: once("--max-depth", self.max_depth, after.max_depth)?,
            allow_mounts: self.allow_mounts || after.allow_mounts,
            deny_hardlinks: self.deny_hardlinks || after.deny_hardlinks,
            #[cfg(feature = "test-hooks")]
            test_component_walk: self.test_component_walk || after.test_component_walk,
        })
    }

    fn config(self) -> Result<Config, ConfigError> {
        let mut config = Config::builder().limits(Limits {
            max_file_bytes: self.max_file_bytes,
            max_write_bytes: self.max_write_bytes.unwrap_or(Limits::DEFAULT.max_write_bytes),
            max_result_bytes: self.max_result_bytes.unwrap_or(Limits::DEFAULT.max_result_bytes),
            max_scan_bytes: self.max_scan_bytes.unwrap_or(Limits::DEFAULT.max_scan_bytes),
            max_depth: self.max_depth.unwrap_or(Limits::DEFAULT.max_depth),
            allow_mounts: self.allow_mounts,
            deny_hardlinks: self.deny_hardlinks,
            ..Limits::DEFAULT
        });
        config = config.root(self.root.ok_or(ConfigError::RootRequired)?);
        config = self.include.into_iter().fold(config, |config, pattern| config.include(pattern));
        config = self.exclude.into_iter().fold(config, |config, pattern| config.exclude(pattern));
        #[cfg(feature = "test-hooks")]
        {
            config = config.test_component_walk(self.test_component_walk);
        }
        config.build()
    }
}

fn object(json: Option<&str>) -> Result<Map<String, Value>, String> {
    match json.map(serde_json::from_str) {
        None => Ok(Map::new()),
        Some(Ok(Value::Object(object))) => Ok(object),
        Some(_) => Err("the arguments of a call are one JSON object, such as '{\"path\":\"a.txt\"}'".to_owned()),
    }
}

/// clap's findings as one lower-case line.
fn usage(error: &clap::Error) -> String {
    let word = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        Some(ContextValue::Strings(words)) => words.first().map(String::as_str),
        _ => None,
    };
    // "--root <DIR>" is shown to whom the option is known.
    let option = |kind| word(kind).and_then(|word| word.split_whitespace().next()).unwrap_or("an option").to_owned();
    let given = option(ContextKind::InvalidArg);
    let value = word(ContextKind::InvalidValue).unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument if given.starts_with('-') => {
            let given = word(ContextKind::InvalidArg).map_or(given.as_str(), |word| word).to_owned();
            let hint = word(ContextKind::SuggestedArg).map(|known| format!("; did you mean {known}?"));
            format!("unknown option {}{}", shown(&given), hint.unwrap_or_default())
        }
        ErrorKind::UnknownArgument => format!("unexpected word {}", shown(&given)),
        ErrorKind::InvalidSubcommand => {
            let given = word(ContextKind::InvalidSubcommand).unwrap_or_default();
            let hint = word(ContextKind::SuggestedSubcommand).map(|known| format!("; did you mean {known}?"));
            format!("unknown command {}{}", shown(given), hint.unwrap_or_default())
        }
        ErrorKind::InvalidValue if value.is_empty() => format!("missing value for {given}"),
        ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => format!("missing value for {given}"),
        ErrorKind::ValueValidation | ErrorKind::InvalidValue if given == "--max-result-bytes" => {
            format!("{given} must be an integer from 36000 to 4194304")
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => format!("{given} must be a positive integer"),
        ErrorKind::ArgumentConflict => format!("{given} may be given only once"),
        ErrorKind::MissingRequiredArgument => "call needs the name of a tool".to_owned(),
        ErrorKind::InvalidUtf8 => "arguments must be UTF-8; only --root may be any bytes".to_owned(),
        ErrorKind::TooManyValues => format!("{given} takes no value"),
        _ => "the command line cannot be read; see --help".to_owned(),
    }
}

/// A word fit for one line.
fn shown(word: &str) -> String {
    word.chars().take(80).map(|character| if character.is_control() { '\u{fffd}' } else { character }).collect()
}
