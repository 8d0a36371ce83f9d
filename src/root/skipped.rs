//! Counts of what a walk or a scan could not report, so that a shorter answer never looks complete.
//!
//! What policy leaves out (links, special files, excluded and oversize files, unfinished writes) is not counted.

use super::read_failed;
use super::resolve::Obstacle;
use crate::error::ToolError;

/// Counts of what a walk or a scan left out.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Skipped {
    pub(crate) unreadable_directories: u64,
    pub(crate) unreadable_files: u64,
    pub(crate) too_deep_directories: u64,
    pub(crate) mount_points: u64,
    pub(crate) folding_directories: u64,
    pub(crate) unrepresentable_names: u64,
    pub(crate) undecodable_lines: u64,
    pub(crate) changing_files: u64,
    pub(crate) vanished_files: u64,
}

impl Skipped {
    /// The counts that are not zero, under their published names.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("unreadable_directories", self.unreadable_directories),
            ("unreadable_files", self.unreadable_files),
            ("too_deep_directories", self.too_deep_directories),
            ("mount_points", self.mount_points),
            ("folding_directories", self.folding_directories),
            ("unrepresentable_names", self.unrepresentable_names),
            ("undecodable_lines", self.undecodable_lines),
            ("changing_files", self.changing_files),
            ("vanished_files", self.vanished_files),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
    }

    /// The counts of two pages of one traversal. Every page's walk meets the same directories and names; a file is read
    /// by one page.
    pub(crate) fn merge(self, later: Self) -> Self {
        Self {
            unreadable_directories: self.unreadable_directories.max(later.unreadable_directories),
            unreadable_files: self.unreadable_files + later.unreadable_files,
            too_deep_directories: self.too_deep_directories.max(later.too_deep_directories),
            mount_points: self.mount_points.max(later.mount_points),
            folding_directories: self.folding_directories.max(later.folding_directories),
            unrepresentable_names: self.unrepresentable_names.max(later.unrepresentable_names),
            undecodable_lines: self.undecodable_lines + later.undecodable_lines,
            changing_files: self.changing_files + later.changing_files,
            vanished_files: self.vanished_files + later.vanished_files,
        }
    }

    /// Counts a directory that was not entered; fails where the system did.
    pub(super) fn directory(&mut self, obstacle: Obstacle) -> Result<(), ToolError> {
        match obstacle {
            Obstacle::Absent => {}
            // Renames ran beside every lookup of the name: what lies beneath is not known.
            Obstacle::Changing => self.unreadable_directories += 1,
            Obstacle::Mount => self.mount_points += 1,
            Obstacle::Folding => self.folding_directories += 1,
            Obstacle::Denied => self.unreadable_directories += 1,
            Obstacle::Failed(errno) => return Err(read_failed(errno)),
        }
        Ok(())
    }

    /// The same for a file.
    pub(super) fn file(&mut self, obstacle: Obstacle) -> Result<(), ToolError> {
        match obstacle {
            Obstacle::Absent => self.vanished_files += 1,
            Obstacle::Changing => self.changing_files += 1,
            Obstacle::Mount => self.mount_points += 1,
            Obstacle::Folding | Obstacle::Denied => self.unreadable_files += 1,
            Obstacle::Failed(errno) => return Err(read_failed(errno)),
        }
        Ok(())
    }
}
