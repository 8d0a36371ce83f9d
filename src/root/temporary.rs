//! An unfinished write: a nameless file where the filesystem has them, else one under a reserved name.
//!
//! Names are `.ptc-fs-mcp-` and 32 hexadecimal digits. They are served to nobody. Whatever goes wrong, dropping a
//! [`Temporary`] removes its name; what a killed process left behind is swept by the first write into its directory.

use cap_std::fs::Dir;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, RenameFlags};
use rustix::io::Errno;
use std::time::{Duration, Instant};

use super::Root;
use super::fact::{Fact, Moment};
use super::open::link_ambient_descriptor;
use crate::path::RESERVED_PREFIX;

/// A leftover younger than this may be another server's unfinished write.
const LEFTOVER: Duration = Duration::from_secs(60);

pub(super) struct Temporary<'d> {
    dir: &'d Dir,
    pub(super) fd: OwnedFd,
    name: Option<String>,
}

impl<'d> Temporary<'d> {
    /// An empty file that only this process can read, in the directory it will be published in.
    pub(super) fn create(dir: &'d Dir) -> Result<Self, Errno> {
        let owner = Mode::RUSR | Mode::WUSR;
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::openat(dir, ".", flags | OFlags::TMPFILE, owner) {
            Ok(fd) => return Ok(Self { dir, fd, name: None }),
            // What filesystems and kernels without nameless files answer.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {}
            Err(errno) => return Err(errno),
        }
        let name = reserved_name()?;
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let fd = rustix::fs::openat(dir, &name, flags, owner)?;
        Ok(Self { dir, fd, name: Some(name) })
    }

    /// Puts the file at a name that is free; `EEXIST` when it is not.
    pub(super) fn publish_new(&mut self, destination: &str) -> Result<(), Errno> {
        let Some(name) = self.name.clone() else {
            return self.link(destination);
        };
        match rustix::fs::renameat_with(self.dir, &name, self.dir, destination, RenameFlags::NOREPLACE) {
            // Network filesystems have no such rename. A link does not replace either; the temporary's own name then goes
            // when it is dropped.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                rustix::fs::linkat(self.dir, &name, self.dir, destination, AtFlags::empty())
            }
            renamed => renamed.map(|()| self.name = None),
        }
    }

    /// Gives the file its reserved name, if it has none yet.
    pub(super) fn give_name(&mut self) -> Result<(), Errno> {
        if self.name.is_none() {
            let name = reserved_name()?;
            self.link(&name)?;
            self.name = Some(name);
        }
        Ok(())
    }

    /// Puts the file, which has its reserved name, in the place of another.
    pub(super) fn publish_over(&mut self, destination: &str) -> Result<(), Errno> {
        let name = self.name.clone().ok_or(Errno::NOENT)?;
        rustix::fs::renameat(self.dir, &name, self.dir, destination)?;
        self.name = None;
        Ok(())
    }

    fn link(&self, name: &str) -> Result<(), Errno> {
        match link_ambient_descriptor(self.fd.as_fd(), self.dir, name) {
            // No /proc here: the privileged way.
            Err(Errno::NOENT) => rustix::fs::linkat(&self.fd, "", self.dir, name, AtFlags::EMPTY_PATH),
            result => result,
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // Nothing more can be done here; the name is swept by a write a minute later.
            rustix::fs::unlinkat(self.dir, name, AtFlags::empty()).ok();
        }
    }
}

impl Root {
    /// Removes what killed processes left unfinished in a directory, unless that was done within the last minute: what
    /// was too young then, since it may have been another server's work, is old enough only now.
    pub(super) fn sweep(&self, dir: &Dir, fact: &Fact) {
        const REMEMBERED: usize = 4096;
        let now = Instant::now();
        if let Ok(mut swept) = self.swept.lock() {
            if swept.get(&fact.identity()).is_some_and(|last| now.duration_since(*last) < LEFTOVER) {
                return;
            }
            if swept.len() >= REMEMBERED {
                swept.clear();
            }
            swept.insert(fact.identity(), now);
        }
        self.remove_leftovers(dir);
    }

    /// Failures, and what lies beyond so many entries, are left for a later write.
    fn remove_leftovers(&self, dir: &Dir) {
        let now = Moment::now();
        // A second descriptor, since listing moves the position that walks of the same directory share.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(listed) = rustix::fs::openat(dir, ".", flags, Mode::empty()) else { return };
        let mut buffer = Vec::with_capacity(32 * 1024);
        let mut entries = RawDir::new(&listed, buffer.spare_capacity_mut());
        for _ in 0..self.limits.walk_entries {
            let Some(Ok(entry)) = entries.next() else { return };
            let Some(name) = entry.file_name().to_str().ok().filter(|name| is_reserved_name(name)) else { continue };
            let is_leftover = |fact: Fact| fact.is_regular() && fact.links == 1 && fact.older_than(LEFTOVER, now);
            if self.look(dir, name).is_ok_and(is_leftover) {
                rustix::fs::unlinkat(dir, name, AtFlags::empty()).ok();
            }
        }
    }
}

fn reserved_name() -> Result<String, Errno> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|_| Errno::IO)?;
    Ok(format!("{RESERVED_PREFIX}{:032x}", u128::from_le_bytes(random)))
}

fn is_reserved_name(name: &str) -> bool {
    name.strip_prefix(RESERVED_PREFIX).is_some_and(|digits| {
        digits.len() == 32 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_shape_of_a_reserved_name_is_swept() {
        let name = reserved_name().unwrap();
        assert!(is_reserved_name(&name));
        assert!(!is_reserved_name(&name.replace("mcp", "xyz")));
        assert!(!is_reserved_name(&format!("{name}0")));
        assert!(!is_reserved_name(".ptc-fs-mcp-notes"));
        assert!(!is_reserved_name(&format!("{RESERVED_PREFIX}{}", "A".repeat(32))));
    }
}
