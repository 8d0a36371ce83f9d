//! The confined root as a capability: everything that can be done to the filesystem, and nothing else.
//!
//! A [`Root`] is one open directory. Whatever is reached is reached from its descriptor, one component at a time, and
//! no link is followed at any position. Files are opened through [`Served`], directories through [`Reach`]: both are
//! made by the selector alone, so what is not selected cannot be named here.

mod entries;
mod fact;
mod file;
mod filesystem;
mod open;
mod race;
mod resolve;
mod skipped;
mod temporary;
mod walk;
mod work;
mod write;

use cap_std::fs::Dir;
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::Instant;

use crate::config::Limits;
use crate::error::ToolError;
use crate::path::{self, RelPath};
use crate::selector::{Selector, Served};

pub(crate) use entries::Kind;
pub(crate) use fact::{Fact, Moment};
pub(crate) use file::{DIGESTED, Reading, digest};
pub(crate) use skipped::Skipped;
pub(crate) use walk::Found;
pub(crate) use work::{Done, Watch, Work};

/// One pinned directory, the patterns that select in it, and the bounds of its use. See [`Root::open_ambient`].
#[derive(Debug)]
pub struct Root {
    /// A real descriptor, not an `O_PATH` one: it can be listed and flushed.
    dir: Dir,
    lookup: resolve::Lookup,
    /// The mount the root lies on; another one below it is not entered unless the operator allows it.
    mount: fact::Mount,
    /// Whether no server has to be asked for the state of any file that is served.
    local: bool,
    /// Whether files live in memory, where a writer through a mapping may leave every timestamp alone.
    memory: bool,
    selector: Selector,
    limits: Limits,
    /// When directories, by device and inode, were last rid of unfinished writes.
    swept: Mutex<HashMap<(u64, u64), Instant>>,
    /// Fingerprints of the files that this process put in place lately.
    published: Mutex<VecDeque<[u8; 56]>>,
}

impl Root {
    /// What is served, and within which bounds.
    pub(crate) fn selector(&self) -> &Selector {
        &self.selector
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Proof that a path is served: selected, and not deeper than directories are served.
    pub(crate) fn serve<'a>(&self, path: &'a RelPath) -> Option<Served<'a>> {
        let served = self.selector.serve(path)?;
        (path::depth(path.split().0) as u64 <= self.limits.max_depth).then_some(served)
    }

    /// Fails when the pinned directory was removed: an empty listing would look like an answer.
    fn must_exist(&self) -> Result<(), ToolError> {
        let fact = Fact::of(&self.dir).map_err(read_failed)?;
        if fact.links == 0 { Err(ToolError::RootGone) } else { Ok(()) }
    }

    /// Whether a file's own state decides that it is served, so that a listing has to look at each file.
    fn state_matters(&self) -> bool {
        self.limits.max_file_bytes.is_some() || self.limits.deny_hardlinks
    }

    /// Whether the operator's limits hide a file in this state.
    fn hides(&self, fact: &Fact) -> bool {
        self.limits.max_file_bytes.is_some_and(|most| fact.size > most)
            || (self.limits.deny_hardlinks && fact.links > 1)
    }

    /// What lies at a name, or behind a descriptor where the name is empty, without waiting for a filesystem on a mount
    /// that is not served: whoever mounted it may never answer.
    fn look(&self, dir: impl AsFd + Copy, name: &str) -> Result<Fact, Errno> {
        let fact = Fact::remembered(dir, name)?;
        if self.local || !self.on_served_mount(&fact) { Ok(fact) } else { Fact::of_name(dir, name) }
    }

    /// Whether something lies on a mount that is served.
    fn on_served_mount(&self, fact: &Fact) -> bool {
        self.limits.allow_mounts || fact.mount == self.mount
    }
}

/// The system refused something that is neither absence nor permission: the call fails, since a shorter answer would
/// look like a complete one.
fn read_failed(errno: Errno) -> ToolError {
    ToolError::ReadFailed(errno.raw_os_error())
}
