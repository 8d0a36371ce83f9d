//! The contract, told by the built binary over real standard input and output.
//!
//! | file | speaks for |
//! |---|---|
//! | `harness` | a root with an `outside` beside it, a server process, one call and its checks |
//! | `confinement` | paths, links, special files, mounts, selection |
//! | `list` | `list_directory` |
//! | `search_files`, `search_text` | the two searches |
//! | `read` | `read_text_file` |
//! | `write` | `write_text_file` |
//! | `cursors` | what fails, what survives, and what a cursor tells |
//! | `protocol` | methods, errors, lines, the end |
//! | `cli` | options, start-up errors, the `call` command |
//! | `scale` | 100,000 files, large files, bounded memory |
//!
//! A test named in `both_back_ends!` runs once with `openat2` and once with the component walk. Needs the feature
//! `test-hooks`; everything that needs root to be set up says so and is required where `CI` is set.

#![allow(
    unreachable_pub,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stderr,
    reason = "tests set up real files, drive the real binary, and fail by panicking"
)]

mod confinement;
mod harness;
mod list;
mod read;
mod scale;
mod search_files;
mod search_text;
