//! The tree beneath a directory, in the order of whole paths, from held descriptors.
//!
//! Nothing is resolved from the root again: a directory is opened from its parent's descriptor, a file from its
//! directory's. Excluded and unreachable directories are never opened.

use cap_std::fs::Dir;

use super::entries::{Kind, Reader, joined};
use super::fact::Fact;
use super::file::Opened;
use super::resolve::Obstacle;
use super::work::Work;
use super::{Root, read_failed};
use crate::error::ToolError;
use crate::path::{self, RelPath};
use crate::selector::Reach;

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
    pub(crate) fn fact(&self, work: &mut Work<'_>) -> Result<Option<Fact>, ToolError> {
        match self.root.look(self.dir, self.name) {
            Ok(fact) if !fact.is_regular() => work.skipped.file(Obstacle::Absent)?,
            Ok(fact) if !self.root.on_served_mount(&fact) => work.skipped.file(Obstacle::Mount)?,
            Ok(fact) => return Ok(Some(fact)),
            Err(errno) => work.skipped.file(errno.into())?,
        }
        Ok(None)
    }

    /// Opens the file; `None`, and counted, where that is not possible.
    pub(crate) fn open(&self, work: &mut Work<'_>) -> Result<Option<Opened<'a>>, ToolError> {
        match self.root.open_in(self.dir, self.name) {
            Ok(opened) => Ok(Some(opened)),
            Err(obstacle) => work.skipped.file(obstacle).map(|()| None),
        }
    }
}

impl Root {
    /// The served entries of a directory, sorted by name: its files, and the directories beneath which something is
    /// served. Looks no further beneath each than its first served file.
    pub(crate) fn list(&self, reach: Reach<'_>, work: &mut Work<'_>) -> Result<Vec<Entry>, ToolError> {
        self.must_exist()?;
        let mut entries = Vec::new();
        let Some(dir) = self.enter(reach, work)? else { return Ok(entries) };
        let mut reader = Reader::new(self, work);
        let frame = reader.frame(dir, reach.path().as_str())?;
        for name in frame.names() {
            match name.strip_suffix('/') {
                None => entries.push(Entry { name: name.to_owned(), kind: Kind::File }),
                Some(name) => {
                    let below = joined(&frame.path, name);
                    match self.child_directory(&frame.dir, name) {
                        Err(obstacle) => reader.work.skipped.directory(obstacle)?,
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
        work: &mut Work<'_>,
        visitor: &mut dyn FnMut(&Found<'_>, &mut Work<'_>) -> Result<(), ToolError>,
    ) -> Result<(), ToolError> {
        self.must_exist()?;
        if let Some(reach) = self.selector.reach(scope)
            && let Some(dir) = self.enter(reach, work)?
        {
            return self.walk(dir, scope.as_str(), work, visitor);
        }
        let Some(served) = self.serve(scope) else { return Ok(()) };
        let (parent, name) = served.path().split();
        let dir = match self.directory_at(parent) {
            Ok(dir) => dir,
            Err(Obstacle::Failed(errno)) => return Err(read_failed(errno)),
            Err(_) => return Ok(()),
        };
        let found = Found { path: scope.as_str(), root: self, dir: &dir, name };
        match self.look(&dir, name) {
            Ok(fact) if fact.is_regular() && !self.hides(&fact) => visitor(&found, work),
            Ok(_) => Ok(()),
            Err(errno) => match Obstacle::from(errno) {
                Obstacle::Failed(errno) => Err(read_failed(errno)),
                _ => Ok(()),
            },
        }
    }

    /// A named directory, or `None` where there is none to be served.
    fn enter(&self, reach: Reach<'_>, work: &mut Work<'_>) -> Result<Option<Dir>, ToolError> {
        let path = reach.path().as_str();
        if path::depth(path) as u64 > self.limits.max_depth {
            return Ok(None);
        }
        match self.directory_at(path) {
            Ok(dir) => Ok(Some(dir)),
            Err(obstacle) => work.skipped.directory(obstacle).map(|()| None),
        }
    }

    /// Depth first, with one held descriptor a level; the depth is bounded by the length of a path.
    fn walk(
        &self,
        top: Dir,
        top_path: &str,
        work: &mut Work<'_>,
        visitor: &mut dyn FnMut(&Found<'_>, &mut Work<'_>) -> Result<(), ToolError>,
    ) -> Result<(), ToolError> {
        let mut reader = Reader::new(self, work);
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
                visitor(&found, reader.work)?;
                continue;
            };
            match self.child_directory(&frame.dir, directory) {
                Ok(dir) => {
                    let below = reader.frame(dir, &path)?;
                    frames.push(below);
                }
                Err(obstacle) => reader.work.skipped.directory(obstacle)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::root::Watch;

    /// Three directories with two files each.
    fn tree() -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        let config = Config::builder().root(directory.path()).include("**").build().unwrap();
        let root = Root::open_ambient(&config).unwrap();
        for name in ["a", "b", "c"] {
            root.dir.create_dir(name).unwrap();
            for file in ["1", "2"] {
                root.dir.write(format!("{name}/{file}"), "x").unwrap();
            }
        }
        (directory, root)
    }

    /// How many files a walk visits of which nobody waits for more than so many.
    fn visited(stop_after: usize) -> (usize, Result<(), ToolError>) {
        let (_directory, root) = tree();
        let watch = Watch::default();
        let mut work = Work::new(&watch);
        let mut visited = 0;
        if stop_after == 0 {
            watch.stop();
        }
        let walked = root.visit(&RelPath::root(), &mut work, &mut |_, _| {
            visited += 1;
            if visited == stop_after {
                watch.stop();
            }
            Ok(())
        });
        (visited, walked)
    }

    #[test]
    fn a_walk_that_nobody_waits_for_opens_no_further_directory() {
        assert_eq!(visited(0), (0, Err(ToolError::Cancelled)));
        assert_eq!(visited(1), (2, Err(ToolError::Cancelled)));
        assert_eq!(visited(3), (4, Err(ToolError::Cancelled)));
        assert_eq!(visited(7), (6, Ok(())));
    }

    #[test]
    fn a_listing_that_nobody_waits_for_ends() {
        let (_directory, root) = tree();
        let watch = Watch::default();
        let path = RelPath::root();
        let list =
            || root.list(root.selector().reach(&path).unwrap(), &mut Work::new(&watch)).map(|entries| entries.len());
        assert_eq!(list(), Ok(3));
        watch.stop();
        assert_eq!(list(), Err(ToolError::Cancelled));
    }
}
