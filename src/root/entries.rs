//! What one directory holds that is served: its files and the directories worth opening.
//!
//! Entries come from `getdents`, whose type decides; a file is looked at only where a limit makes its own state matter.
//! Names that cannot be requested are left out and counted, if they would be served.

use cap_std::fs::Dir;
use rustix::fs::{FileType, RawDir, RawDirEntry};
use rustix::io::Errno;
use std::ops::ControlFlow::{self, Break, Continue};

use super::fact::Fact;
use super::resolve::Obstacle;
use super::work::Work;
use super::{Root, read_failed};
use crate::error::ToolError;
use crate::path::{self, MAX_CHARS, Name};

/// Bytes of directory entries that one `getdents` call may return: about 500 entries of common length.
const ENTRIES_BUFFER: usize = 32 * 1024;

/// What an entry of a listing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    /// With something served beneath it.
    Directory,
}

/// One directory of a walk: its served files and reachable directories, sorted as whole paths are. All names lie in
/// one string, a directory's with a slash behind it.
pub(super) struct Frame {
    pub(super) dir: Dir,
    pub(super) path: String,
    text: String,
    names: Vec<std::ops::Range<usize>>,
    pub(super) next: usize,
}

impl Frame {
    pub(super) fn name(&self, at: usize) -> Option<&str> {
        self.text.get(self.names.get(at)?.clone())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter_map(|range| self.text.get(range.clone()))
    }
}

/// Reads directories for one walk and keeps its bounds.
pub(super) struct Reader<'w, 't> {
    root: &'w Root,
    pub(super) work: &'w mut Work<'t>,
    entries: u64,
    files: u64,
}

impl<'w, 't> Reader<'w, 't> {
    pub(super) fn new(root: &'w Root, work: &'w mut Work<'t>) -> Self {
        Self { root, work, entries: 0, files: 0 }
    }

    /// Reads a directory of a walk.
    pub(super) fn frame(&mut self, dir: Dir, path: &str) -> Result<Frame, ToolError> {
        let (mut text, mut names) = (String::new(), Vec::new());
        self.read(&dir, path, &mut |name, kind| {
            let start = text.len();
            text.push_str(name);
            if kind == Kind::Directory {
                text.push('/');
            }
            names.push(start..text.len());
            Continue(())
        })?;
        names.sort_unstable_by(|one, two| text.get(one.clone()).cmp(&text.get(two.clone())));
        // A name that is renamed over while its directory is read may be met twice.
        names.dedup_by(|one, two| text.get(one.clone()) == text.get(two.clone()));
        Ok(Frame { dir, path: path.to_owned(), text, names, next: 0 })
    }

    /// Whether any file is served beneath a directory. Files are looked for before its subdirectories are opened.
    pub(super) fn holds_served(&mut self, dir: Dir, path: String) -> Result<bool, ToolError> {
        let mut levels = vec![self.probe(dir, path)?];
        loop {
            match levels.last_mut() {
                None => return Ok(false),
                Some(None) => return Ok(true),
                Some(Some((dir, path, subdirectories))) => match subdirectories.pop() {
                    None => {
                        levels.pop();
                    }
                    Some(name) => match self.root.child_directory(dir, &name) {
                        Ok(child) => {
                            let below = joined(path, &name);
                            let level = self.probe(child, below)?;
                            levels.push(level);
                        }
                        Err(obstacle) => self.work.skipped.directory(obstacle)?,
                    },
                },
            }
        }
    }

    /// `None` when a served file lies directly in the directory; otherwise its reachable subdirectories.
    fn probe(&mut self, dir: Dir, path: String) -> Result<Option<(Dir, String, Vec<String>)>, ToolError> {
        let mut subdirectories = Vec::new();
        let stopped = self.read(&dir, &path, &mut |name, kind| match kind {
            Kind::File => Break(()),
            Kind::Directory => {
                subdirectories.push(name.to_owned());
                Continue(())
            }
        })?;
        Ok(if stopped { None } else { Some((dir, path, subdirectories)) })
    }

    /// Hands on the served files and the reachable directories of one directory, in no order; `true` when it was told
    /// to stop.
    fn read(
        &mut self,
        dir: &Dir,
        path: &str,
        each: &mut dyn FnMut(&str, Kind) -> ControlFlow<()>,
    ) -> Result<bool, ToolError> {
        self.work.go_on()?;
        let too_deep = path::depth(path) as u64 >= self.root.limits.max_depth;
        let mut full = Vec::from(path.as_bytes());
        if !full.is_empty() {
            full.push(b'/');
        }
        let base = full.len();
        let mut buffer = Vec::with_capacity(ENTRIES_BUFFER);
        let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(Errno::INTR) => continue,
                Err(Errno::NOENT) => break, // the directory itself was removed
                Err(errno) => return Err(read_failed(errno)),
            };
            let bytes = entry.file_name().to_bytes();
            if matches!(bytes, b"." | b"..") {
                continue;
            }
            self.entries += 1;
            self.work.met();
            if self.entries.is_multiple_of(1024) {
                self.work.go_on()?;
            }
            within(self.entries, self.root.limits.walk_entries, "entries")?;
            full.truncate(base);
            full.extend_from_slice(bytes);
            let Some(kind) = self.kind(dir, &full, &entry)? else { continue };
            let name = match Name::of(bytes) {
                Name::Reserved => continue,
                Name::Plain(name) if speakable(&full) => name,
                _ => {
                    self.work.skipped.unrepresentable_names += 1;
                    continue;
                }
            };
            match kind {
                Kind::Directory if too_deep => {
                    self.work.skipped.too_deep_directories += 1;
                    continue;
                }
                Kind::Directory => {}
                Kind::File => {
                    if self.root.state_matters() && !self.served_as_it_is(dir, name)? {
                        continue;
                    }
                    self.files += 1;
                    within(self.files, self.root.limits.walk_files, "files")?;
                }
            }
            if each(name, kind).is_break() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the operator's limits let a file be served in its present state.
    fn served_as_it_is(&mut self, dir: &Dir, name: &str) -> Result<bool, ToolError> {
        match self.root.look(dir, name) {
            Ok(fact) if fact.is_regular() && !self.root.on_served_mount(&fact) => {
                self.work.skipped.file(Obstacle::Mount).map(|()| false)
            }
            Ok(fact) => Ok(fact.is_regular() && !self.root.hides(&fact)),
            Err(errno) => self.work.skipped.file(errno.into()).map(|()| false),
        }
    }

    /// What an entry is, if it is selected or worth opening. Where the filesystem does not say its type, it is looked
    /// at, but never if it is excluded.
    fn kind(&mut self, dir: &Dir, path: &[u8], entry: &RawDirEntry<'_>) -> Result<Option<Kind>, ToolError> {
        let selector = &self.root.selector;
        let (file, directory) = (selector.selects_bytes(path), selector.reaches_bytes(path));
        let kind = match entry.file_type() {
            FileType::Unknown if file || directory => match Fact::remembered(dir, entry.file_name()) {
                Ok(fact) => fact.kind,
                Err(errno) => return self.work.skipped.file(errno.into()).map(|()| None),
            },
            kind => kind,
        };
        Ok(match kind {
            FileType::RegularFile if file => Some(Kind::File),
            FileType::Directory if directory => Some(Kind::Directory),
            _ => None,
        })
    }
}

fn within(count: u64, limit: u64, what: &'static str) -> Result<(), ToolError> {
    if count > limit { Err(ToolError::WalkLimit { what, limit }) } else { Ok(()) }
}

/// Whether a whole path, of segments that can be spelled, can be requested.
fn speakable(path: &[u8]) -> bool {
    let short =
        path.len() <= MAX_CHARS || std::str::from_utf8(path).is_ok_and(|text| text.chars().nth(MAX_CHARS).is_none());
    short && std::str::from_utf8(path).is_ok_and(|text| !path::has_drive_prefix(text))
}

/// A name behind its directory's path.
pub(super) fn joined(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}
