//! Replacing a file whole: a reader, a crash or a full disk leaves the old content or the new one.
//!
//! The new content is written beside its destination, flushed, given what the old file had (owner, group, mode,
//! access list, `user.*` attributes), and put in place by one link or rename. The old inode is never written to, so a
//! hard link to it elsewhere keeps its content. The directory is flushed last.

use cap_std::fs::Dir;
use rustix::fd::OwnedFd;
use rustix::fs::{Gid, Mode, OFlags, Uid, XattrFlags};
use rustix::io::Errno;

use super::Root;
use super::fact::Fact;
use super::file::handle;
use super::resolve::Obstacle;
use super::temporary::Temporary;
use crate::error::ToolError;
use crate::selector::Served;

/// How often a destination may be exchanged beside the write before it is given up: enough for ten servers that write
/// one name as fast as they can.
const TRIES: usize = 64;

/// The access list, as the kernel stores it.
const ACCESS_LIST: &str = "system.posix_acl_access";

/// A file that may be replaced: confirmed regular and writable through descriptors.
struct Replaced {
    fd: OwnedFd,
    fact: Fact,
}

impl Root {
    /// Puts `content` at a served path, atomically and durably. The path's directory exists.
    ///
    /// # Errors
    /// [`ToolError::NotWritable`] and [`ToolError::OwnershipLost`] before any byte lands; [`ToolError::WriteFailed`]
    /// with the old state in place; [`ToolError::NotDurable`] with the new one; [`ToolError::Changing`] when the
    /// destination was exchanged during each of 64 tries.
    pub(crate) fn replace(&self, served: Served<'_>, content: &[u8]) -> Result<(), ToolError> {
        self.must_exist()?;
        let (parent, name) = served.path().split();
        let dir = self.directory_at(parent).map_err(|obstacle| match obstacle {
            Obstacle::Failed(errno) => write_failed(errno),
            _ => ToolError::NotWritable,
        })?;
        for _ in 0..TRIES {
            let destination = self.destination(&dir, name)?;
            let directory = Fact::of(&dir).map_err(write_failed)?;
            self.sweep(&dir, &directory);
            if self.publish(&dir, name, destination, content)? {
                return rustix::fs::fsync(&dir).map_err(|errno| ToolError::NotDurable(errno.raw_os_error()));
            }
        }
        Err(ToolError::Changing)
    }

    /// What is to be replaced, or `None` where the name is free.
    fn destination(&self, dir: &Dir, name: &str) -> Result<Option<Replaced>, ToolError> {
        for _ in 0..TRIES {
            let seen = match handle(dir, name) {
                Ok(handle) => self.look(&handle, "").map_err(write_failed)?,
                Err(Errno::NOENT) => return Ok(None),
                Err(errno) => return Err(not_writable(errno)),
            };
            // A file without any write bit is its owner's "do not change this", which the kernel would let root ignore.
            let writable = seen.permissions & 0o222 != 0;
            if !seen.is_regular() || !writable || !self.on_served_mount(&seen) || self.hides(&seen) {
                return Err(ToolError::NotWritable);
            }
            // Nothing is ever written through this descriptor: opening it asks the kernel for permission.
            let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let fd = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
                Ok(fd) => fd,
                Err(Errno::NOENT) => continue, // removed in between
                Err(errno) => return Err(not_writable(errno)),
            };
            let fact = Fact::of(&fd).map_err(write_failed)?;
            if fact.identity() == seen.identity() {
                return Ok(Some(Replaced { fd, fact }));
            }
        }
        Err(ToolError::Changing)
    }

    /// Whether the content is in place; `false` when the destination was exchanged beside it, and nothing is changed.
    fn publish(&self, dir: &Dir, name: &str, destination: Option<Replaced>, content: &[u8]) -> Result<bool, ToolError> {
        let mut new = Temporary::create(dir).map_err(write_failed)?;
        // First what may refuse the write, then the content.
        let mode = match &destination {
            None => 0o600,
            Some(old) => {
                keep_ownership(old, &new.fd)?;
                old.fact.permissions & 0o777
            }
        };
        write_all(&new.fd, content).map_err(write_failed)?;
        // Last, since a change of owner or access list touches the mode. The umask has no say here.
        rustix::fs::fchmod(&new.fd, Mode::from_raw_mode(mode)).map_err(write_failed)?;
        rustix::fs::fsync(&new.fd).map_err(write_failed)?;
        match destination {
            None => match new.publish_new(name) {
                Err(Errno::EXIST) => return Ok(false),
                result => result.map_err(write_failed)?,
            },
            Some(old) => {
                new.give_name().map_err(write_failed)?;
                let now = handle(dir, name).and_then(|handle| self.look(&handle, ""));
                if !now.is_ok_and(|now| now.same_file_and_owner(&old.fact)) {
                    return Ok(false);
                }
                match new.publish_over(name) {
                    // In the last moment it was exchanged for a directory.
                    Err(Errno::ISDIR) => return Ok(false),
                    result => result.map_err(write_failed)?,
                }
            }
        }
        if let Ok(fact) = Fact::of(&new.fd) {
            self.note_published(&fact);
        }
        Ok(true)
    }
}

/// By offset, so that a try that the kernel cut short or interrupted is continued where it ended.
fn write_all(fd: &OwnedFd, content: &[u8]) -> Result<(), Errno> {
    let mut written = 0;
    while let Some(rest) = content.get(written..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pwrite(fd, rest, written as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Owner, group, access list and `user.*` attributes, all or nothing. Set-id bits are dropped; `security.*` and
/// `trusted.*` attributes are the kernel's to give.
fn keep_ownership(old: &Replaced, new: &OwnedFd) -> Result<(), ToolError> {
    let lost = |_: Errno| ToolError::OwnershipLost;
    let fresh = Fact::of(new).map_err(write_failed)?;
    let owner = (old.fact.owner != fresh.owner).then(|| Uid::from_raw(old.fact.owner));
    let group = (old.fact.group != fresh.group).then(|| Gid::from_raw(old.fact.group));
    if owner.is_some() || group.is_some() {
        rustix::fs::fchown(new, owner, group).map_err(lost)?;
    }
    match attribute(&old.fd, ACCESS_LIST).map_err(lost)? {
        Some(list) => rustix::fs::fsetxattr(new, ACCESS_LIST, &list, XattrFlags::empty()).map_err(lost)?,
        // The directory's default list may have given the new file one that the old had not.
        None => match rustix::fs::fremovexattr(new, ACCESS_LIST) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(lost(errno)),
        },
    }
    for name in attribute_names(&old.fd).map_err(lost)? {
        if let Some(value) = attribute(&old.fd, &name).map_err(lost)? {
            rustix::fs::fsetxattr(new, name.as_str(), &value, XattrFlags::empty()).map_err(lost)?;
        }
    }
    Ok(())
}

/// The kernel's bound on a value and on a list of names, in bytes (`xattr(7)`).
const ATTRIBUTE_BYTES: usize = 65_536;

fn attribute(fd: &OwnedFd, name: &str) -> Result<Option<Vec<u8>>, Errno> {
    let mut value = vec![0; ATTRIBUTE_BYTES];
    match rustix::fs::fgetxattr(fd, name, value.as_mut_slice()) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn attribute_names(fd: &OwnedFd) -> Result<Vec<String>, Errno> {
    let mut list = vec![0; ATTRIBUTE_BYTES];
    let length = match rustix::fs::flistxattr(fd, list.as_mut_slice()) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => 0,
        Err(errno) => return Err(errno),
    };
    list.truncate(length);
    list.split(|byte| *byte == 0)
        .filter(|name| name.starts_with(b"user."))
        .map(|name| String::from_utf8(name.to_vec()).map_err(|_| Errno::ILSEQ))
        .collect()
}

fn write_failed(errno: Errno) -> ToolError {
    ToolError::WriteFailed(errno.raw_os_error())
}

/// An open that was refused: the system's failures are failures, everything else is the destination's.
fn not_writable(errno: Errno) -> ToolError {
    match errno {
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO => write_failed(errno),
        // Another program's lease on it is being broken for us.
        Errno::AGAIN | Errno::INTR => ToolError::Changing,
        _ => ToolError::NotWritable,
    }
}
