//! One call's work in the tree: what it left out so far, and whether anyone still waits for it.

use super::Skipped;
use crate::error::ToolError;

/// Handed down to everything that can take long.
pub(crate) struct Work<'a> {
    pub(crate) skipped: Skipped,
    stopped: &'a dyn Fn() -> bool,
}

impl<'a> Work<'a> {
    pub(crate) fn new(stopped: &'a dyn Fn() -> bool) -> Self {
        Self { skipped: Skipped::default(), stopped }
    }

    /// Fails once nobody waits for the call any more. To be asked where work could go on for long: before each
    /// directory, each file and each window of a scan.
    pub(crate) fn go_on(&self) -> Result<(), ToolError> {
        if (self.stopped)() { Err(ToolError::Cancelled) } else { Ok(()) }
    }
}
