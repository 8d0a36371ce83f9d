//! The one file with ambient authority: it turns a host path into the pinned root.
//!
//! This happens once, before anything is served. The path is never looked at again: moving the directory keeps it
//! served, and replacing what lies at the path changes nothing. The functions here that name something in the whole
//! filesystem have `ambient` in their names.

use cap_std::fs::Dir;
use rustix::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Mutex;

use super::Root;
use super::fact::Fact;
use super::filesystem::{
    self, folds_case, inode_flags, is_kernel_filesystem, is_local_filesystem, is_memory_filesystem,
};
use super::resolve::Lookup;
use crate::config::Config;
use crate::error::ConfigError;

impl Root {
    /// Opens the configuration's root directory, which may not be a link, and pins it.
    ///
    /// ```
    /// use ptc_fs_mcp::{Config, Root};
    /// let root = Root::open_ambient(&Config::builder().root(".").include("**/*.md").build()?)?;
    /// # drop(root);
    /// # Ok::<(), ptc_fs_mcp::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// A [`ConfigError`] that says why this directory cannot be a root.
    pub fn open_ambient(config: &Config) -> Result<Self, ConfigError> {
        let path = config.root.as_deref().ok_or(ConfigError::RootRequired)?;
        Self::pin(Dir::from(open_ambient_directory(path)?), config)
    }

    /// Pins a directory that the caller holds already, and needs no path: the configuration's own is not looked at.
    ///
    /// ```
    /// use cap_std::ambient_authority;
    /// use cap_std::fs::Dir;
    /// use ptc_fs_mcp::{Config, Root};
    /// let held = Dir::open_ambient_dir(".", ambient_authority())?;
    /// let root = Root::from_dir(held, &Config::builder().include("**/*.md").build()?)?;
    /// # drop(root);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A [`ConfigError`] that says why this directory cannot be a root.
    pub fn from_dir(dir: Dir, config: &Config) -> Result<Self, ConfigError> {
        // Opened again: an `O_PATH` descriptor can be neither listed nor flushed, and a duplicate would share the place
        // in the listing with the caller's.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::openat(&dir, ".", flags, Mode::empty()) {
            Ok(own) => Self::pin(Dir::from(own), config),
            Err(Errno::NOTDIR) => Err(ConfigError::RootNotDirectory),
            Err(_) => Err(ConfigError::RootUnreadable),
        }
    }

    fn pin(dir: Dir, config: &Config) -> Result<Self, ConfigError> {
        let fact = Fact::of(&dir).map_err(|_| ConfigError::RootUnreadable)?;
        let filesystem = filesystem::magic(&dir).map_err(|_| ConfigError::RootUnreadable)?;
        if is_kernel_filesystem(filesystem) {
            return Err(ConfigError::RootOnKernelFilesystem);
        }
        if folds_case(filesystem, inode_flags(&dir).map_err(|_| ConfigError::RootUnreadable)?) {
            return Err(ConfigError::RootFoldsCase);
        }
        #[cfg(feature = "test-hooks")]
        let forced = config.component_walk;
        #[cfg(not(feature = "test-hooks"))]
        let forced = false;
        Ok(Self {
            lookup: if forced { Lookup::Components } else { Lookup::probe(&dir) },
            mount: fact.mount,
            local: is_local_filesystem(filesystem) && !config.limits.allow_mounts,
            memory: is_memory_filesystem(filesystem),
            dir,
            selector: config.selector.clone(),
            limits: config.limits,
            swept: Mutex::new(HashMap::new()),
            published: Mutex::new(VecDeque::new()),
        })
    }
}

/// A trailing slash (or `/.`) would make the kernel follow a link at the end of the path, so both are taken off first.
fn open_ambient_directory(path: &OsStr) -> Result<OwnedFd, ConfigError> {
    let mut bytes = path.as_bytes();
    while let Some(rest) = bytes.strip_suffix(b"/").or_else(|| bytes.strip_suffix(b"/.")) {
        bytes = rest;
    }
    let bytes = if bytes.is_empty() && !path.is_empty() { b"/" } else { bytes };
    let path = OsStr::from_bytes(bytes);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(|errno| match errno {
        // The kernel says ENOTDIR for a link, too.
        Errno::NOTDIR | Errno::LOOP => match is_ambient_link(path) {
            true => ConfigError::RootIsLink,
            false => ConfigError::RootNotDirectory,
        },
        Errno::NOENT => ConfigError::RootMissing,
        _ => ConfigError::RootUnreadable,
    })
}

/// Whether the path itself is a symbolic link.
fn is_ambient_link(path: &OsStr) -> bool {
    rustix::fs::readlinkat(CWD, path, Vec::new()).is_ok()
}

/// Gives an open, nameless file a name in a directory that is held. The descriptor is addressed through `/proc`, which
/// works for every user; `AT_EMPTY_PATH`, the other way, needs privileges before Linux 6.10.
pub(super) fn link_ambient_descriptor(file: BorrowedFd<'_>, dir: &Dir, name: &str) -> Result<(), Errno> {
    let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(CWD, descriptor, dir, name, AtFlags::SYMLINK_FOLLOW)
}
