//! The contract, told by the built binary over real standard input and output.
//!
//! | file | speaks for |
//! |---|---|
//! | `harness` | a root with an `outside` beside it, a server process, one call and its checks |
//! | `confinement` | attacks, each with its class of weakness: paths, links, mounts, sizes, messages, exhaustion |
//! | `race` | every tool beside exchanges of a part of the tree; `arena` and `racer` make them |
//! | `filtered` | a system without `openat2`; `filter` (the harness's) takes it away |
//! | `list` | `list_directory` |
//! | `search_files`, `search_text` | the two searches |
//! | `vanishing` | files that vanish beside a page |
//! | `read` | `read_text_file` |
//! | `read_changing` | the same of a file that changes under it, or is very large |
//! | `bursts` | a file changed in bursts beside calls |
//! | `torn` | both readers beside a writer in the middle of a file |
//! | `mapped` | both readers beside a program that stores through a mapping |
//! | `write` | `write_text_file`: its refusals, their order, what it stores |
//! | `write_kept` | what a replacement keeps, and which destinations it leaves alone |
//! | `write_faults` | a full disk, a failing or killed system call, leftovers |
//! | `write_races` | readers, listers and writers beside a writer |
//! | `cursors` | what fails and what survives |
//! | `cursors_rewritten` | changes that leave the inode, the size and the modification time |
//! | `coarse_time` | the same, and the readers beside a writer, where timestamps are whole seconds |
//! | `cursors_forged` | what is no cursor, and what a cursor tells |
//! | `protocol` | what holds for the answers to all methods |
//! | `meta` | what every request carries in its `_meta` |
//! | `schemas` | the published schemas, and that the tools keep to them |
//! | `wire` | the table of lines in `tests/wire`: what one line of input can be, and its exact answer |
//! | `lines` | where lines end, and how long they may be |
//! | `lifecycle` | calls in flight, cancellation, the end |
//! | `load` | short calls beside long ones, a panic in a tool, writes that nobody waits for |
//! | `progress` | what a client hears of a long call |
//! | `legacy` | clients of the 2025 era |
//! | `streams` | hosts that read late, not at all, or without blocking |
//! | `shortfalls` | a system that fails in the middle of a call; `tracer` makes it fail |
//! | `cli` | options and start-up errors |
//! | `globs` | which patterns are refused, with what advice |
//! | `call` | the `call` command |
//! | `clients` | clients that others made, in their own words |
//! | `examples` | what the README and `examples/` tell a host to run |
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

mod arena;
mod bursts;
mod call;
mod cli;
mod clients;
mod coarse_time;
mod confinement;
mod cursors;
mod cursors_forged;
mod cursors_rewritten;
mod examples;
mod filtered;
mod globs;
mod harness;
mod legacy;
mod lifecycle;
mod lines;
mod list;
mod load;
mod mapped;
mod meta;
mod progress;
mod protocol;
mod race;
mod racer;
mod read;
mod read_changing;
mod scale;
mod schemas;
mod search_files;
mod search_text;
mod shortfalls;
mod streams;
#[path = "../wire/table.rs"]
mod table;
mod torn;
mod tracer;
mod vanishing;
mod wire;
mod write;
mod write_faults;
mod write_kept;
mod write_races;
