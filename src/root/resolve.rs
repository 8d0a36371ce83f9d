//! From a held directory to the next one: a single component at a time, never through a link, never onto another
//! mount, never into a directory that ignores case.
//!
//! Two ways lead there with one outcome. Where the kernel has `openat2` (Linux 5.6) and no filter forbids it, the
//! kernel itself enforces the rules. Elsewhere cap-std opens the name without following, and the mount is compared.
//! Components are taken singly under `openat2` too: a directory on the way that ignores case has to be seen before the
//! name beneath it is looked up, and one call for the whole path (about 1 us instead of 1 us a component) cannot.

use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::fact::Fact;
use super::filesystem::{self, folds_case, inode_flags, is_kernel_filesystem};
use super::{Root, read_failed};
use crate::error::ToolError;

/// How directories are opened, chosen once at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lookup {
    /// By `openat2`.
    Openat2,
    /// By `openat` of single names, with the mount compared afterwards.
    Components,
}

impl Lookup {
    /// Asks the kernel on the root itself. A later refusal is then the file's own answer, not a missing call.
    pub(super) fn probe(root: &Dir) -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::openat2(root, ".", flags, Mode::empty(), confined(false)) {
            Ok(_) => Self::Openat2,
            Err(_) => Self::Components,
        }
    }
}

/// Why something in the tree was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// Not there, not of the wanted type, a link, or exchanged meanwhile.
    Absent,
    /// On another mount.
    Mount,
    /// A directory that ignores case.
    Folding,
    /// Exchanged at every try to open it.
    Changing,
    /// The process has no permission.
    Denied,
    /// The system failed.
    Failed(Errno),
}

impl From<Errno> for Obstacle {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP | Errno::NAMETOOLONG | Errno::NXIO => {
                Self::Absent
            }
            Errno::NODEV | Errno::STALE => Self::Absent,
            Errno::XDEV => Self::Mount,
            // A lease on the file is being broken for us.
            Errno::AGAIN | Errno::INTR => Self::Changing,
            errno if is_systemic(errno) => Self::Failed(errno),
            // No permission, no key, a broken inode: one entry's own trouble.
            _ => Self::Denied,
        }
    }
}

/// Whether an error says that the system (or this code) failed, rather than that one file cannot be had: too few
/// descriptors, too little memory, a failing disk. An answer that went on would look complete.
pub(super) fn is_systemic(errno: Errno) -> bool {
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::IO];
    let wrong = [Errno::BADF, Errno::INVAL, Errno::FAULT, Errno::NOSYS];
    short.contains(&errno) || wrong.contains(&errno)
}

impl Obstacle {
    /// What a client hears of a file that it asked for by name.
    pub(super) fn refusal(self) -> ToolError {
        match self {
            Self::Absent | Self::Mount | Self::Folding | Self::Denied => ToolError::NotReadable,
            Self::Changing => ToolError::Changing,
            Self::Failed(errno) => read_failed(errno),
        }
    }
}

impl Root {
    /// Opens a directory by its path from the root. `path` was proved by the selector; it holds no `.` or `..`.
    pub(super) fn directory_at(&self, path: &str) -> Result<Dir, Obstacle> {
        // Opened again rather than duplicated: a duplicate shares its position in the listing with every other one.
        let mut dir = Dir::from(rustix::fs::openat(&self.dir, ".", directory_flags(), Mode::empty())?);
        for name in path.split('/').filter(|name| !name.is_empty()) {
            dir = self.child_directory(&dir, name)?;
        }
        Ok(dir)
    }

    /// Opens one directory by its name in a held one, on a descriptor that can be listed.
    pub(super) fn child_directory(&self, parent: &Dir, name: &str) -> Result<Dir, Obstacle> {
        let dir = match self.lookup {
            Lookup::Openat2 => again(|| self.openat2_directory(parent, name))?,
            Lookup::Components => again(|| self.component_directory(parent, name))?,
        };
        // Without leave to cross mounts, every directory lies on the root's filesystem, which was judged at the start.
        let filesystem = if self.limits.allow_mounts { filesystem::magic(&dir)? } else { 0 };
        if is_kernel_filesystem(filesystem) {
            return Err(Obstacle::Mount);
        }
        if folds_case(filesystem, inode_flags(&dir)?) { Err(Obstacle::Folding) } else { Ok(dir) }
    }

    /// The kernel has one error for a mount and for a directory that was moved away beside the lookup; only the first
    /// is still there.
    fn openat2_directory(&self, parent: &Dir, name: &str) -> Result<Dir, Obstacle> {
        let confined = confined(self.limits.allow_mounts);
        match rustix::fs::openat2(parent, name, directory_flags(), Mode::empty(), confined) {
            Ok(fd) => Ok(Dir::from(fd)),
            Err(Errno::XDEV) if self.on_served_mount(&Fact::remembered(parent, name)?) => Err(Obstacle::Changing),
            Err(errno) => Err(errno.into()),
        }
    }

    /// cap-std gives an `O_PATH` descriptor, which triggers no automount; the mount is known before the name is opened
    /// again, and what is opened must be the same.
    fn component_directory(&self, parent: &Dir, name: &str) -> Result<Dir, Obstacle> {
        let handle = parent.open_dir_nofollow(name).map_err(|error| Obstacle::from(errno(&error)))?;
        let seen = Fact::remembered(&handle, "")?;
        if !self.on_served_mount(&seen) {
            return Err(Obstacle::Mount);
        }
        let dir = Dir::from(rustix::fs::openat(parent, name, directory_flags(), Mode::empty())?);
        if Fact::of(&dir)?.identity() == seen.identity() { Ok(dir) } else { Err(Obstacle::Changing) }
    }
}

/// A rename ran beside the lookup (`openat2` says so with `EAGAIN`); a bounded number of tries is enough for any honest
/// one.
fn again(lookup: impl Fn() -> Result<Dir, Obstacle>) -> Result<Dir, Obstacle> {
    const TRIES: usize = 16;
    (1..TRIES).map(|_| lookup()).find(|result| !matches!(result, Err(Obstacle::Changing))).unwrap_or_else(lookup)
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC
}

fn confined(allow_mounts: bool) -> ResolveFlags {
    let links = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    if allow_mounts { links } else { links | ResolveFlags::NO_XDEV }
}

/// cap-std speaks in `std::io::Error`.
fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::LOOP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_permission_and_failure_are_told_apart() {
        for (errno, obstacle) in [
            (Errno::NOENT, Obstacle::Absent),
            (Errno::LOOP, Obstacle::Absent),
            (Errno::XDEV, Obstacle::Mount),
            (Errno::ACCESS, Obstacle::Denied),
            (Errno::AGAIN, Obstacle::Changing),
            (Errno::NOKEY, Obstacle::Denied),
            (Errno::MFILE, Obstacle::Failed(Errno::MFILE)),
            (Errno::NFILE, Obstacle::Failed(Errno::NFILE)),
            (Errno::IO, Obstacle::Failed(Errno::IO)),
            (Errno::NOMEM, Obstacle::Failed(Errno::NOMEM)),
        ] {
            assert_eq!(Obstacle::from(errno), obstacle);
        }
    }
}
