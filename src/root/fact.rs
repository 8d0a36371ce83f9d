//! What the system says of a file, and what that is worth.
//!
//! A file's fingerprint is device, inode, size, modification and change time. Timestamps are coarser than writes are
//! fast, so a fingerprint is evidence only once the file has been left alone for a while: [`Fact::racy`] and
//! [`Fact::unsettled`] say when it has not.

use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, Statx, StatxFlags};
use rustix::io::Errno;
use rustix::path::Arg;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MILLISECOND: i128 = 1_000_000;
const SECOND: i128 = 1_000 * MILLISECOND;

/// A point in time, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) i128);

impl Moment {
    pub(crate) fn now() -> Self {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => Self(i128::try_from(since.as_nanos()).unwrap_or(i128::MAX)),
            Err(before) => Self(-i128::try_from(before.duration().as_nanos()).unwrap_or(i128::MAX)),
        }
    }

    fn of(seconds: i64, nanoseconds: u32) -> Self {
        Self(i128::from(seconds) * SECOND + i128::from(nanoseconds))
    }
}

/// The mount something lies on. `st_dev` alone misses a bind mount of the same device, so it decides only where the
/// kernel (before Linux 5.8) has no mount identity to give.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mount {
    id: Option<u64>,
    device: u64,
}

impl PartialEq for Mount {
    fn eq(&self, other: &Self) -> bool {
        match (self.id, other.id) {
            (Some(one), Some(two)) => one == two,
            _ => self.device == other.device,
        }
    }
}

/// One `statx` of something that is open, or of a name in an open directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fact {
    pub(super) mount: Mount,
    pub(super) kind: FileType,
    pub(super) permissions: u32,
    pub(super) owner: u32,
    pub(super) group: u32,
    pub(super) links: u32,
    pub(super) inode: u64,
    /// In bytes.
    pub(crate) size: u64,
    modified: Moment,
    pub(super) changed: Moment,
}

impl Fact {
    /// Of an open descriptor.
    pub(super) fn of(fd: impl AsFd) -> Result<Self, Errno> {
        Self::statx(fd, "", AtFlags::EMPTY_PATH)
    }

    /// Of a name in a directory, or of a descriptor where the name is empty; a link is described, not followed.
    pub(super) fn of_name(dir: impl AsFd, name: impl Arg) -> Result<Self, Errno> {
        Self::statx(dir, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)
    }

    /// What the kernel remembers of a name, or of a descriptor where the name is empty: no server is asked, which may
    /// never answer. Mount, kind and inode are right; the rest may be out of date where there is a server.
    pub(super) fn remembered(dir: impl AsFd, name: impl Arg) -> Result<Self, Errno> {
        Self::statx(dir, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC)
    }

    fn statx(fd: impl AsFd, name: impl Arg, flags: AtFlags) -> Result<Self, Errno> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
        let Statx {
            stx_mask,
            stx_nlink,
            stx_uid,
            stx_gid,
            stx_mode,
            stx_ino,
            stx_size,
            stx_mtime,
            stx_ctime,
            stx_dev_major,
            stx_dev_minor,
            stx_mnt_id,
            ..
        } = rustix::fs::statx(fd, name, flags | AtFlags::NO_AUTOMOUNT, wanted)?;
        let device = (u64::from(stx_dev_major) << 32) | u64::from(stx_dev_minor);
        let has_id = stx_mask & StatxFlags::MNT_ID.bits() != 0;
        Ok(Self {
            mount: Mount { id: has_id.then_some(stx_mnt_id), device },
            kind: FileType::from_raw_mode(stx_mode.into()),
            permissions: u32::from(stx_mode) & 0o7777,
            owner: stx_uid,
            group: stx_gid,
            links: stx_nlink,
            inode: stx_ino,
            size: stx_size,
            modified: Moment::of(stx_mtime.tv_sec, stx_mtime.tv_nsec),
            changed: Moment::of(stx_ctime.tv_sec, stx_ctime.tv_nsec),
        })
    }

    pub(super) fn is_regular(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    /// Device and inode: which file this is, whatever its state.
    pub(super) fn identity(&self) -> (u64, u64) {
        (self.mount.device, self.inode)
    }

    /// Whether this is the same file with the same mode, owner and group, whatever became of its content.
    pub(super) fn same_file_and_owner(&self, other: &Self) -> bool {
        let owned = |fact: &Self| (fact.identity(), fact.permissions, fact.owner, fact.group);
        owned(self) == owned(other)
    }

    /// Device, inode, size, modification and change time: equal for two states of one file only where timestamps
    /// could not tell them apart.
    pub(crate) fn fingerprint(&self) -> [u8; 56] {
        let mut bytes = [0; 56];
        let (device, inode) = self.identity();
        let fields = device
            .to_le_bytes()
            .into_iter()
            .chain(inode.to_le_bytes())
            .chain(self.size.to_le_bytes())
            .chain(self.modified.0.to_le_bytes())
            .chain(self.changed.0.to_le_bytes());
        bytes.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
        bytes
    }

    /// Whether a further write could, at the given time, have left the fingerprint as it is. The kernel stamps the
    /// change time before it copies, in ticks of up to 10 ms (twice that here), or of 2 s where a filesystem keeps
    /// whole seconds only. A change time in the future is racy too.
    pub(crate) fn racy(&self, at: Moment) -> bool {
        let whole_seconds = self.changed.0 % SECOND == 0 && self.modified.0 % SECOND == 0;
        let window = if whole_seconds { 2 * SECOND } else { 20 * MILLISECOND };
        self.changed.0 > at.0 - window
    }

    /// Whether the file changed within a minute of the given time: a program that maps it may still be storing to it,
    /// and such stores stamp nothing until their pages are written back.
    pub(crate) fn unsettled(&self, at: Moment) -> bool {
        self.changed.0 > at.0 - 60 * SECOND
    }

    /// Whether the last change lies more than an age before the given time.
    pub(super) fn older_than(&self, age: Duration, at: Moment) -> bool {
        self.changed.0 < at.0 - i128::try_from(age.as_nanos()).unwrap_or(i128::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(at: i128) -> Fact {
        Fact {
            mount: Mount { id: Some(1), device: 1 },
            kind: FileType::RegularFile,
            permissions: 0o644,
            owner: 0,
            group: 0,
            links: 1,
            inode: 1,
            size: 0,
            modified: Moment(at),
            changed: Moment(at),
        }
    }

    #[test]
    fn a_file_is_racy_for_two_ticks_after_its_change() {
        let file = changed(1_000 * SECOND + 1);
        assert!(file.racy(Moment(file.changed.0)));
        assert!(file.racy(Moment(file.changed.0 + 20 * MILLISECOND - 1)));
        assert!(!file.racy(Moment(file.changed.0 + 20 * MILLISECOND)));
    }

    #[test]
    fn a_file_with_whole_second_times_is_racy_for_two_seconds() {
        let file = changed(1_000 * SECOND);
        assert!(file.racy(Moment(file.changed.0 + 2 * SECOND - 1)));
        assert!(!file.racy(Moment(file.changed.0 + 2 * SECOND)));
    }

    #[test]
    fn a_change_in_the_future_is_racy_and_unsettled() {
        let file = changed(1_000 * SECOND + 1);
        assert!(file.racy(Moment(0)) && file.unsettled(Moment(0)));
    }

    #[test]
    fn a_file_settles_after_a_minute() {
        let file = changed(1_000 * SECOND + 1);
        assert!(file.unsettled(Moment(file.changed.0 + 60 * SECOND - 1)));
        assert!(!file.unsettled(Moment(file.changed.0 + 60 * SECOND)));
    }

    #[test]
    fn mounts_compare_by_identity_and_by_device_where_there_is_none() {
        let mount = |id, device| Mount { id, device };
        assert!(mount(Some(1), 1) != mount(Some(2), 1));
        assert!(mount(Some(1), 1) == mount(Some(1), 2));
        assert!(mount(None, 1) == mount(Some(2), 1));
        assert!(mount(None, 1) != mount(None, 2));
    }

    #[test]
    fn every_field_of_a_fingerprint_counts() {
        let file = changed(5);
        let others = [
            Fact { mount: Mount { id: Some(1), device: 2 }, ..file },
            Fact { inode: 2, ..file },
            Fact { size: 2, ..file },
            Fact { modified: Moment(6), ..file },
            Fact { changed: Moment(6), ..file },
        ];
        for other in others {
            assert_ne!(other.fingerprint(), file.fingerprint());
        }
    }
}
