//! One call's work in the tree: what it left out so far, how far it has come, and whether anyone still waits for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Skipped;
use crate::error::ToolError;

/// What a call and whoever waits for it know of each other. Shared between their threads; nothing else is ordered by it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    stopped: AtomicBool,
    entries: AtomicU64,
    bytes: AtomicU64,
}

/// How far a call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Done {
    /// Directory entries met.
    pub(crate) entries: u64,
    /// Bytes of files read.
    pub(crate) bytes: u64,
}

impl Watch {
    /// Nobody waits for the call any more.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Fails once nobody waits for the call any more.
    pub(crate) fn go_on(&self) -> Result<(), ToolError> {
        if self.stopped.load(Ordering::Relaxed) { Err(ToolError::Cancelled) } else { Ok(()) }
    }

    /// So many more bytes of files were read.
    pub(crate) fn read(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn done(&self) -> Done {
        Done { entries: self.entries.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }
}

/// Handed down to everything that can take long.
pub(crate) struct Work<'a> {
    pub(crate) skipped: Skipped,
    watch: &'a Watch,
}

impl<'a> Work<'a> {
    pub(crate) fn new(watch: &'a Watch) -> Self {
        Self { skipped: Skipped::default(), watch }
    }

    /// Fails once nobody waits for the call any more. To be asked where work could go on for long: before each
    /// directory, each file and each window of a scan.
    pub(crate) fn go_on(&self) -> Result<(), ToolError> {
        self.watch.go_on()
    }

    /// One more directory entry was met.
    pub(crate) fn met(&self) {
        self.watch.entries.fetch_add(1, Ordering::Relaxed);
    }

    /// So many more bytes of files were read.
    pub(crate) fn read(&self, bytes: u64) {
        self.watch.read(bytes);
    }
}
