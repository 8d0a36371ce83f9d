//! What is known of a filesystem by its magic number, and of a directory by its inode's flags: whether names ignore
//! case, whether files are views of kernel state, live in memory, or are a server's.
//!
//! The numbers are those of `linux/magic.h` and of the filesystems' own sources. Each decision is a function of numbers
//! alone. A filesystem that ignores case and says so in neither way is not recognised: XFS, ZFS or JFS made with that
//! option, a FUSE or 9P server that does it behind the kernel's back.

use rustix::fd::AsFd;
use rustix::io::Errno;

/// The filesystem's magic number (`statfs(2)`).
pub(super) fn magic(dir: impl AsFd) -> Result<u64, Errno> {
    // The field's type differs between architectures; all values fit 32 bits.
    Ok(u64::from(rustix::fs::fstatfs(dir)?.f_type as u32))
}

/// The inode's flags (`FS_IOC_GETFLAGS`); none where the filesystem keeps none. Any other failure is the caller's: a
/// directory whose flags could not be had may ignore case.
pub(super) fn inode_flags(dir: impl AsFd) -> Result<u32, Errno> {
    match rustix::fs::ioctl_getflags(dir) {
        Ok(flags) => Ok(flags.bits()),
        // What filesystems without flags answer, the last two from FUSE.
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => Ok(0),
        Err(errno) => Err(errno),
    }
}

/// Whether a directory finds `SECRETS/x` beneath an exclude on `secrets/**`.
pub(super) fn folds_case(magic: u64, inode_flags: u32) -> bool {
    const CASEFOLD_FL: u32 = 0x4000_0000;
    const MSDOS: u64 = 0x4d44;
    const EXFAT: u64 = 0x2011_bab0;
    const NTFS: u64 = 0x5346_544e;
    const NTFS3: u64 = 0x7366_746e;
    const CIFS: u64 = 0xff53_4d42;
    const SMB: u64 = 0x517b;
    const SMB2: u64 = 0xfe53_4d42;
    const HFS: u64 = 0x4244;
    const HFS_PLUS: u64 = 0x482b;
    const HPFS: u64 = 0xf995_e849;
    const AFFS: u64 = 0xadff;
    const VBOXSF: u64 = 0x786f_4256;
    let folding = [MSDOS, EXFAT, NTFS, NTFS3, CIFS, SMB, SMB2, HFS, HFS_PLUS, HPFS, AFFS, VBOXSF];
    inode_flags & CASEFOLD_FL != 0 || folding.contains(&magic)
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

/// Filesystems of this kernel alone, whose state no server has to be asked for.
pub(super) fn is_local_filesystem(magic: u64) -> bool {
    const EXT: u64 = 0xef53;
    const XFS: u64 = 0x5846_5342;
    const BTRFS: u64 = 0x9123_683e;
    const F2FS: u64 = 0xf2f5_2010;
    [EXT, XFS, BTRFS, F2FS].contains(&magic) || is_memory_filesystem(magic)
}

/// Whether files live in memory only.
pub(super) fn is_memory_filesystem(magic: u64) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    const HUGETLBFS: u64 = 0x9584_58f6;
    [TMPFS, RAMFS, HUGETLBFS].contains(&magic)
}

#[cfg(test)]
mod tests {
    use super::*;

    // CWE-178: an exclude is passed by the case of a name.
    #[test]
    fn directories_that_ignore_case_are_known_by_flag_and_by_filesystem() {
        // Filesystem, flags of the directory, whether it ignores case.
        for (name, magic, flags, folds) in [
            ("ext4", 0xef53, 0, false),
            ("ext4, extents", 0xef53, 0x0008_0000, false),
            ("ext4, all flags but one", 0xef53, !0x4000_0000, false),
            ("ext4, folding", 0xef53, 0x4000_0000, true),
            ("ext4, folding among others", 0xef53, 0x4008_0000, true),
            ("f2fs, folding", 0xf2f5_2010, 0x4000_0000, true),
            ("f2fs", 0xf2f5_2010, 0, false),
            ("tmpfs, folding", 0x0102_1994, 0x4000_0000, true),
            ("tmpfs", 0x0102_1994, 0, false),
            ("bcachefs, folding", 0xca45_1a4e, 0x4000_0000, true),
            ("xfs", 0x5846_5342, 0, false),
            ("btrfs", 0x9123_683e, 0, false),
            ("overlayfs", 0x794c_7630, 0, false),
            ("nfs", 0x6969, 0, false),
            ("fuse", 0x6573_5546, 0, false),
            ("9p", 0x0102_1997, 0, false),
            ("vfat", 0x4d44, 0, true),
            ("exfat", 0x2011_bab0, 0, true),
            ("ntfs", 0x5346_544e, 0, true),
            ("ntfs3", 0x7366_746e, 0, true),
            ("cifs", 0xff53_4d42, 0, true),
            ("smb", 0x517b, 0, true),
            ("smb2", 0xfe53_4d42, 0, true),
            ("hfs", 0x4244, 0, true),
            ("hfs+", 0x482b, 0, true),
            ("hpfs", 0xf995_e849, 0, true),
            ("affs", 0xadff, 0, true),
            ("vboxsf", 0x786f_4256, 0, true),
        ] {
            assert_eq!(folds_case(magic, flags), folds, "{name}");
        }
    }
}
