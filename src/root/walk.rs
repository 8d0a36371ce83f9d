//! The tree beneath a directory, in the order of whole paths, from held descriptors.
//!
//! Directories are read with `getdents`; its type decides, files are not looked at unless a limit makes their own
//! state matter. Excluded and unreachable directories are never opened. What could not be reported is counted in
//! [`Skipped`], so that a shorter answer never looks complete; what policy leaves out (links, special files, excluded
//! and oversize files) is not.

use cap_std::fs::Dir;
use rustix::fs::{FileType, RawDir};
use rustix::io::Errno;
use std::ops::ControlFlow::{self, Break, Continue};

use super::fact::Fact;
use super::file::Opened;
use super::resolve::Obstacle;
use super::{Root, read_failed};
use crate::error::ToolError;
use crate::path::{self, MAX_CHARS, Name, RelPath};
use crate::selector::Reach;

/// Bytes of directory entries that one `getdents` call may return: about 500 entries of common length.
const ENTRIES_BUFFER: usize = 32 * 1024;

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

    /// The counts of two pages of one traversal. Every page's walk meets the same directories and names, while files
    /// and lines are read by one page each.
    pub(crate) fn merge(self, later: Self) -> Self {
        Self {
            unreadable_directories: self.unreadable_directories.max(later.unreadable_directories),
            too_deep_directories: self.too_deep_directories.max(later.too_deep_directories),
            mount_points: self.mount_points.max(later.mount_points),
            folding_directories: self.folding_directories.max(later.folding_directories),
            unrepresentable_names: self.unrepresentable_names.max(later.unrepresentable_names),
            unreadable_files: self.unreadable_files + later.unreadable_files,
            undecodable_lines: self.undecodable_lines + later.undecodable_lines,
            changing_files: self.changing_files + later.changing_files,
            vanished_files: self.vanished_files + later.vanished_files,
        }
    }

    fn directory(&mut self, obstacle: Obstacle) -> Result<(), ToolError> {
        match obstacle {
            Obstacle::Absent => {}
            Obstacle::Mount => self.mount_points += 1,
            Obstacle::Folding => self.folding_directories += 1,
            Obstacle::Denied => self.unreadable_directories += 1,
            Obstacle::Failed(errno) => return Err(read_failed(errno)),
        }
        Ok(())
    }

    fn file(&mut self, obstacle: Obstacle) -> Result<(), ToolError> {
        match obstacle {
            Obstacle::Absent => self.vanished_files += 1,
            Obstacle::Mount => self.mount_points += 1,
            Obstacle::Folding | Obstacle::Denied => self.unreadable_files += 1,
            Obstacle::Failed(errno) => return Err(read_failed(errno)),
        }
        Ok(())
    }
}

/// What an entry of a listing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    /// With something served beneath it.
    Directory,
}

/// One entry of a directory that is served.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// A served file as a walk meets it.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    /// From the root.
    pub(crate) path: &'a str,
    root: &'a Root,
    dir: &'a Dir,
    name: &'a str,
}

impl<'a> Found<'a> {
    /// The file's state, without opening it; `None`, and counted, when it vanished or was exchanged.
    pub(crate) fn fact(&self, skipped: &mut Skipped) -> Result<Option<Fact>, ToolError> {
        match Fact::of_name(self.dir, self.name) {
            Ok(fact) if !fact.is_regular() => skipped.file(Obstacle::Absent)?,
            Ok(fact) if !self.root.on_served_mount(&fact) => skipped.file(Obstacle::Mount)?,
            Ok(fact) => return Ok(Some(fact)),
            Err(errno) => skipped.file(errno.into())?,
        }
        Ok(None)
    }

    /// Opens the file; `None`, and counted, where that is not possible.
    pub(crate) fn open(&self, skipped: &mut Skipped) -> Result<Option<Opened<'a>>, ToolError> {
        match self.root.open_in(self.dir, self.name) {
            Ok(opened) => Ok(Some(opened)),
            Err(obstacle) => skipped.file(obstacle).map(|()| None),
        }
    }
}

impl Root {
    /// The served entries of a directory, sorted by name: its files, and the directories beneath which something is
    /// served. Looks no further beneath each than its first served file.
    pub(crate) fn list(&self, reach: Reach<'_>, skipped: &mut Skipped) -> Result<Vec<Entry>, ToolError> {
        self.must_exist()?;
        let mut entries = Vec::new();
        let Some(dir) = self.enter(reach, skipped)? else { return Ok(entries) };
        let mut reader = Reader::new(self, skipped);
        let frame = reader.frame(dir, reach.path().as_str())?;
        for name in frame.names() {
            match name.strip_suffix('/') {
                None => entries.push(Entry { name: name.to_owned(), kind: Kind::File }),
                Some(name) => {
                    let below = joined(&frame.path, name);
                    match self.child_directory(&frame.dir, name) {
                        Err(obstacle) => reader.skipped.directory(obstacle)?,
                        Ok(dir) => {
                            if reader.holds_served(dir, below)? {
                                entries.push(Entry { name: name.to_owned(), kind: Kind::Directory });
                            }
                        }
                    }
                }
            }
        }
        // Whole paths are sorted by their bytes, in which a directory's children follow `name/`; a listing shows the
        // names alone.
        entries.sort_unstable_by(|one, two| one.name.cmp(&two.name));
        Ok(entries)
    }

    /// Visits every served file of a scope, in the order of the bytes of whole paths. The scope is a directory, or one
    /// file; anything else holds nothing.
    pub(crate) fn visit(
        &self,
        scope: &RelPath,
        skipped: &mut Skipped,
        visitor: &mut dyn FnMut(&Found<'_>, &mut Skipped) -> Result<(), ToolError>,
    ) -> Result<(), ToolError> {
        self.must_exist()?;
        if let Some(reach) = self.selector.reach(scope)
            && let Some(dir) = self.enter(reach, skipped)?
        {
            return self.walk(dir, scope.as_str(), skipped, visitor);
        }
        let Some(served) = self.serve(scope) else { return Ok(()) };
        let (parent, name) = served.path().split();
        let dir = match self.directory_at(parent) {
            Ok(dir) => dir,
            Err(Obstacle::Failed(errno)) => return Err(read_failed(errno)),
            Err(_) => return Ok(()),
        };
        let found = Found { path: scope.as_str(), root: self, dir: &dir, name };
        match Fact::of_name(&dir, name) {
            Ok(fact) if fact.is_regular() && !self.hides(&fact) => visitor(&found, skipped),
            Ok(_) => Ok(()),
            Err(errno) => match Obstacle::from(errno) {
                Obstacle::Failed(errno) => Err(read_failed(errno)),
                _ => Ok(()),
            },
        }
    }

    /// A named directory, or `None` where there is none to be served.
    fn enter(&self, reach: Reach<'_>, skipped: &mut Skipped) -> Result<Option<Dir>, ToolError> {
        let path = reach.path().as_str();
        if path::depth(path) as u64 > self.limits.max_depth {
            return Ok(None);
        }
        match self.directory_at(path) {
            Ok(dir) => Ok(Some(dir)),
            Err(obstacle) => skipped.directory(obstacle).map(|()| None),
        }
    }

    /// Depth first, with one held descriptor a level; the depth is bounded by the length of a path.
    fn walk(
        &self,
        top: Dir,
        top_path: &str,
        skipped: &mut Skipped,
        visitor: &mut dyn FnMut(&Found<'_>, &mut Skipped) -> Result<(), ToolError>,
    ) -> Result<(), ToolError> {
        let mut reader = Reader::new(self, skipped);
        let mut frames = vec![reader.frame(top, top_path)?];
        let mut path = String::new();
        while let Some(frame) = frames.last_mut() {
            let at = frame.next;
            frame.next += 1;
            let frame = &*frame;
            let Some(name) = frame.name(at) else {
                frames.pop();
                continue;
            };
            path.clear();
            path.push_str(&frame.path);
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(name.strip_suffix('/').unwrap_or(name));
            let Some(directory) = name.strip_suffix('/') else {
                let found = Found { path: &path, root: self, dir: &frame.dir, name };
                visitor(&found, reader.skipped)?;
                continue;
            };
            match self.child_directory(&frame.dir, directory) {
                Ok(dir) => {
                    let below = reader.frame(dir, &path)?;
                    frames.push(below);
                }
                Err(obstacle) => reader.skipped.directory(obstacle)?,
            }
        }
        Ok(())
    }
}

/// One directory of a walk: its served files and reachable directories, sorted as whole paths are. All names lie in
/// one string, a directory's with a slash behind it.
struct Frame {
    dir: Dir,
    path: String,
    text: String,
    names: Vec<std::ops::Range<usize>>,
    next: usize,
}

impl Frame {
    fn name(&self, at: usize) -> Option<&str> {
        self.text.get(self.names.get(at)?.clone())
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter_map(|range| self.text.get(range.clone()))
    }
}

/// Reads directories for one walk and keeps its bounds.
struct Reader<'w> {
    root: &'w Root,
    skipped: &'w mut Skipped,
    entries: u64,
    files: u64,
}

impl<'w> Reader<'w> {
    fn new(root: &'w Root, skipped: &'w mut Skipped) -> Self {
        Self { root, skipped, entries: 0, files: 0 }
    }

    fn frame(&mut self, dir: Dir, path: &str) -> Result<Frame, ToolError> {
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
        Ok(Frame { dir, path: path.to_owned(), text, names, next: 0 })
    }

    /// Whether any file is served beneath a directory. Files are looked for before its subdirectories are opened.
    fn holds_served(&mut self, dir: Dir, path: String) -> Result<bool, ToolError> {
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
                        Err(obstacle) => self.skipped.directory(obstacle)?,
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
            self.within(self.entries, self.root.limits.walk_entries, "entries")?;
            let kind = match entry.file_type() {
                FileType::Unknown => match Fact::of_name(dir, entry.file_name()) {
                    Ok(fact) => fact.kind,
                    Err(_) => continue,
                },
                kind => kind,
            };
            full.truncate(base);
            full.extend_from_slice(bytes);
            let kind = match kind {
                FileType::RegularFile if self.root.selector.selects_bytes(&full) => Kind::File,
                FileType::Directory if self.root.selector.reaches_bytes(&full) => Kind::Directory,
                _ => continue,
            };
            let name = match Name::of(bytes) {
                Name::Reserved => continue,
                Name::Plain(name) if speakable(&full) => name,
                _ => {
                    self.skipped.unrepresentable_names += 1;
                    continue;
                }
            };
            match kind {
                Kind::Directory if too_deep => {
                    self.skipped.too_deep_directories += 1;
                    continue;
                }
                Kind::Directory => {}
                Kind::File => {
                    if self.root.state_matters() && !self.served_as_it_is(dir, name)? {
                        continue;
                    }
                    self.files += 1;
                    self.within(self.files, self.root.limits.walk_files, "files")?;
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
        match Fact::of_name(dir, name) {
            Ok(fact) => Ok(fact.is_regular() && !self.root.hides(&fact)),
            Err(errno) => self.skipped.file(errno.into()).map(|()| false),
        }
    }

    fn within(&self, count: u64, limit: u64, what: &'static str) -> Result<(), ToolError> {
        if count > limit { Err(ToolError::WalkLimit { what, limit }) } else { Ok(()) }
    }
}

/// Whether a whole path, of segments that can be spelled, can be requested.
fn speakable(path: &[u8]) -> bool {
    let short =
        path.len() <= MAX_CHARS || std::str::from_utf8(path).is_ok_and(|text| text.chars().nth(MAX_CHARS).is_none());
    short && std::str::from_utf8(path).is_ok_and(|text| !path::has_drive_prefix(text))
}

fn joined(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}
