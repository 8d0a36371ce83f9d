//! `write_text_file`: one whole file in the root, replaced or created at a stroke.

use serde::Serialize;
use serde_json::json;

use super::arguments::Arguments;
use super::{Context, Lane, Reply, Tool, schema};
use crate::error::ToolError;
use crate::page::content_hash;
use crate::path::RelPath;

/// Longest basename, in bytes: what filesystems allow.
const MAX_NAME: usize = 255;

pub(super) const TOOL: Tool = Tool {
    name: "write_text_file",
    title: "Write text file",
    description: "Writes one whole text file directly in the root: creates it, or replaces all of its content \
                  atomically. path is a bare name in lower case, such as notes.md, and cannot name a subdirectory; a \
                  name that the server does not serve is refused. A refusal changes nothing. To change part of a file, read all of it first and write all of \
                  it back.",
    writes: true,
    lane: Lane::Short,
    arguments: &["path", "content"],
    input: |limits| {
        let properties = json!({
            "path": {
                "type": "string",
                "description": "One basename: a lower-case letter or digit, then lower-case letters, digits, dots, underscores or hyphens.",
                "minLength": 1,
                "maxLength": MAX_NAME,
            },
            "content": {
                "type": "string",
                "description": format!("The file's whole content, at most {} bytes of UTF-8.", limits.write_bytes()),
                "maxLength": limits.write_bytes(),
            },
        });
        schema::closed(properties, &["path", "content"])
    },
    output: || {
        let properties = json!({
            "path": schema::string("As given."),
            "bytes": schema::integer("Length of the file.", 0),
            "content_hash": schema::content_hash("the bytes written"),
        });
        schema::closed(properties, &["path", "bytes", "content_hash"])
    },
    run,
};

#[derive(Serialize)]
struct Written<'a> {
    path: &'a str,
    bytes: u64,
    content_hash: String,
}

/// Every refusal but the last ones is decided on the arguments and the patterns alone, before the root is touched.
fn run(context: Context<'_>, arguments: Arguments<'_>) -> Result<Reply, ToolError> {
    let name = arguments.string("path")?;
    let content = arguments.string("content")?;
    if !is_basename(name) {
        return Err(ToolError::BadBasename);
    }
    let path = RelPath::parse(name)?;
    let most = context.root.limits().write_bytes();
    let bytes = content.len() as u64;
    if bytes > most {
        return Err(ToolError::ContentTooLarge(most));
    }
    let selector = context.root.selector();
    if selector.excludes(&path) {
        return Err(ToolError::WriteExcluded);
    }
    if !selector.serves_root_level() {
        return Err(ToolError::RootLevelUnserved);
    }
    let served = context.root.serve(&path).ok_or(ToolError::WriteUnselected)?;
    context.root.replace(served, content.as_bytes())?;
    let written = Written { path: name, bytes, content_hash: content_hash(content.as_bytes()) };
    serde_json::to_string(&written).map(Reply::record).map_err(|_| ToolError::WriteFailed(0))
}

/// `^[a-z0-9][a-z0-9._-]{0,254}$`
fn is_basename(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    matches!(name.as_bytes(), [first, rest @ ..]
        if plain(*first) && rest.len() < MAX_NAME && rest.iter().all(|byte| plain(*byte) || b"._-".contains(byte)))
}

#[cfg(test)]
mod tests {
    use super::is_basename;

    #[test]
    fn only_one_lower_case_basename_is_taken() {
        for name in ["a", "0", "notes.md", "a-b_c.d", "a..", "x".repeat(255).as_str()] {
            assert!(is_basename(name), "{name}");
        }
        for name in
            ["", ".a", "-a", "_a", "A", "aB", "a b", "a/b", "../a", "a\n", "é", "a\\", "c:", "x".repeat(256).as_str()]
        {
            assert!(!is_basename(name), "{name:?}");
        }
    }
}
