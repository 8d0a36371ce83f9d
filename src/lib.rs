//! A filesystem MCP server over one confined root.
//!
//! The root is opened once and held as a directory descriptor; every file is reached from it, one component at a time,
//! and no link is followed at any position. Tools never see a host path.
//!
//! Reading order. What can be touched: `error`, `path`, `selector`, `config`, `root`. What is said about it: `text`,
//! `cursor`, `page`, `tools`, `server`, `transport`. ARCHITECTURE.md has the picture.
//!
//! ```
//! use ptc_fs_mcp::{Config, Pages, Root, Server};
//! use serde_json::json;
//!
//! let directory = tempfile::tempdir()?;
//! let config = Config::builder().root(directory.path()).include("*.md").build()?;
//! let server = Server::new(Root::open_ambient(&config)?)?;
//!
//! let note = json!({ "path": "note.md", "content": "hello" });
//! server.call("write_text_file", note.as_object().unwrap(), Pages::All)?;
//! let path = json!({ "path": "note.md" });
//! let read = server.call("read_text_file", path.as_object().unwrap(), Pages::All)?;
//! assert!(read.json.contains("hello"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod call;
mod config;
mod cursor;
mod error;
mod page;
mod path;
mod root;
mod selector;
mod server;
mod text;
mod tools;
mod transport;

pub use call::{Answer, Pages};
pub use config::{Config, ConfigBuilder, Limits};
pub use error::{ConfigError, ToolError};
pub use path::RelPath;
pub use root::Root;
pub use selector::Selector;
pub use server::Server;

/// This crate's version, which the server also tells its clients.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
