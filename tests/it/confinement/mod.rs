//! What a client can reach, and what stays out of reach whatever it says and whatever lies in the tree.

mod depth;
mod exhaustion;
mod limits;
mod links;
mod messages;
mod mounts;
mod names;
mod paths;
mod patterns;
mod permissions;
mod root;
mod sizes;
mod special;
mod text;
mod unanswering;
mod unopened;
mod unwritable;

pub use crate::harness::{NOT_READABLE, NOT_WRITABLE};
use crate::harness::{Server, sha256};
use serde_json::{Value, json};

pub const BAD_PATH: &str = "path is not a relative path inside the root";
pub const NOT_SERVED: &str = "path is not served by this root";
pub const BAD_BASENAME: &str = "path must be one lowercase basename of letters, digits, dots, underscores, or hyphens";

/// All that standard error holds of a system's failure.
pub fn failed(tool: &str, what: &str, number: i32) -> String {
    format!(" WARN ptc_fs_mcp::server::calls: {tool}: {what} failed (os error {number})\n")
}

/// The one answer of a reader that has nothing to say.
pub fn empty_page() -> Value {
    json!({ "items": [], "next_cursor": null, "content_hash": sha256(b"") })
}

/// The readers agree that nothing can be read at the path or beneath it. Whatever lies there holds an `S`.
pub fn nothing_is_at(server: &mut Server, path: &str) {
    let refusal = server.call("read_text_file", json!({ "path": path })).unwrap_err();
    assert_eq!((refusal.text.as_str(), refusal.kind.as_str()), (NOT_READABLE, "not_readable"), "{path:?}");
    assert_eq!(server.ok("list_directory", json!({ "path": path })).structured, empty_page(), "{path:?}");
    assert_eq!(server.ok("search_text", json!({ "query": "S", "path": path })).structured, empty_page(), "{path:?}");
    let plain = path.trim_end_matches('/');
    let beneath = format!("{plain}/");
    let concerns = |found: &String| found == plain || found.starts_with(&beneath);
    for (tool, arguments, member) in [
        ("list_directory", json!({}), "path"),
        ("search_files", json!({ "query": plain }), "path"),
        ("search_text", json!({ "query": "S" }), "path"),
    ] {
        let found = server.all(tool, arguments, member);
        assert!(!found.iter().any(concerns), "{tool} tells of {path:?}: {found:?}");
    }
}

/// A write to the path is refused with the destination's text.
pub fn nothing_is_written_at(server: &mut Server, name: &str) {
    let refusal = server.call("write_text_file", json!({ "path": name, "content": "CLOBBER" })).unwrap_err();
    assert_eq!((refusal.text.as_str(), refusal.kind.as_str()), (NOT_WRITABLE, "not_writable"), "{name:?}");
}

/// The server answers as if nothing had been tried: `ok.txt` holds `fine`.
pub fn still_usable(server: &mut Server) {
    assert_eq!(server.text("ok.txt"), "fine");
}
