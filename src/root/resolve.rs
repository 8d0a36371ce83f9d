//! From a held directory to the next one: a single component at a time, never through a link, never onto another
//! mount, never into a directory that ignores case.
//!
//! Two ways lead there with one outcome. Where the kernel has `openat2` (Linux 5.6) and no filter forbids it, the
//! kernel itself enforces the rules. Elsewhere cap-std opens the name without following, and the mount is compared.
//! Components are taken singly under `openat2` too: a directory on the way that ignores case has to be seen before the
//! name beneath it is looked up, and one call for the whole path (about 1 us instead of 1 us a component) cannot.

use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::fact::Fact;
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
            Lookup::Openat2 => again(|| openat2_directory(parent, name, self.limits.allow_mounts))?,
            Lookup::Components => again(|| self.component_directory(parent, name))?,
        };
        // Without leave to cross mounts, every directory lies on the root's filesystem, which was judged at the start.
        let filesystem = if self.limits.allow_mounts { filesystem(&dir)? } else { 0 };
        if is_kernel_filesystem(filesystem) {
            return Err(Obstacle::Mount);
        }
        if folds_case(filesystem, inode_flags(&dir)) { Err(Obstacle::Folding) } else { Ok(dir) }
    }

    /// cap-std gives an `O_PATH` descriptor, which triggers no automount; the mount is known before the name is opened
    /// again, and what is opened must be the same.
    fn component_directory(&self, parent: &Dir, name: &str) -> Result<Dir, Obstacle> {
        let handle = parent.open_dir_nofollow(name).map_err(|error| Obstacle::from(errno(&error)))?;
        let seen = Fact::of(&handle)?;
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

fn openat2_directory(parent: &Dir, name: &str, allow_mounts: bool) -> Result<Dir, Obstacle> {
    let fd = rustix::fs::openat2(parent, name, directory_flags(), Mode::empty(), confined(allow_mounts))?;
    Ok(Dir::from(fd))
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

/// The filesystem's magic number (`statfs(2)`).
pub(super) fn filesystem(dir: impl AsFd) -> Result<u64, Errno> {
    // The field's type differs between architectures; all values fit 32 bits.
    Ok(u64::from(rustix::fs::fstatfs(dir)?.f_type as u32))
}

/// The inode's flags; none where the filesystem keeps none.
pub(super) fn inode_flags(dir: impl AsFd) -> u32 {
    rustix::fs::ioctl_getflags(dir).map_or(0, |flags| flags.bits())
}

/// Whether a directory finds `SECRETS/x` beneath an exclude on `secrets/**`.
pub(super) fn folds_case(filesystem: u64, inode_flags: u32) -> bool {
    const CASEFOLD_FL: u32 = 0x4000_0000;
    const MSDOS: u64 = 0x4d44;
    const EXFAT: u64 = 0x2011_bab0;
    const NTFS: u64 = 0x5346_544e;
    const NTFS3: u64 = 0x7366_746e;
    const CIFS: u64 = 0xff53_4d42;
    const SMB: u64 = 0x517b;
    const SMB2: u64 = 0xfe53_4d42;
    const HFS_PLUS: u64 = 0x482b;
    inode_flags & CASEFOLD_FL != 0 || [MSDOS, EXFAT, NTFS, NTFS3, CIFS, SMB, SMB2, HFS_PLUS].contains(&filesystem)
}

/// Filesystems whose files are views of kernel state: reading one may block, lie about its size or have effects.
pub(super) fn is_kernel_filesystem(magic: u64) -> bool {
    const PROC: u64 = 0x9fa0;
    const SYSFS: u64 = 0x6265_6572;
    const DEBUGFS: u64 = 0x6462_6720;
    const TRACEFS: u64 = 0x7472_6163;
    const SECURITYFS: u64 = 0x7363_6673;
    const CONFIGFS: u64 = 0x6265_6570;
    const CGROUP: u64 = 0x0027_e0eb;
    const CGROUP2: u64 = 0x6367_7270;
    const BPF: u64 = 0xcafe_4a11;
    const DEVPTS: u64 = 0x1cd1;
    [PROC, SYSFS, DEBUGFS, TRACEFS, SECURITYFS, CONFIGFS, CGROUP, CGROUP2, BPF, DEVPTS].contains(&magic)
}

/// Whether files live in memory only.
pub(super) fn is_memory_filesystem(filesystem: u64) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    const HUGETLBFS: u64 = 0x9584_58f6;
    [TMPFS, RAMFS, HUGETLBFS].contains(&filesystem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_ignore_case_are_known_by_flag_and_by_filesystem() {
        assert!(folds_case(0xef53, 0x4000_0000), "ext4 with the flag");
        assert!(folds_case(0xef53, 0x4008_0000), "the flag among others");
        for magic in [0x4d44, 0x2011_bab0, 0x5346_544e, 0x7366_746e, 0xff53_4d42, 0x517b, 0xfe53_4d42] {
            assert!(folds_case(magic, 0), "{magic:x}");
        }
        for magic in [0xef53, 0x0102_1994, 0x5846_5342, 0x9123_683e, 0x794c_7630, 0x6969] {
            assert!(!folds_case(magic, 0x8_0000), "{magic:x}");
        }
    }

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
