//! One regular file, opened without ever blocking, and read so that what was read is one state of it.
//!
//! The type is decided on an `O_PATH` descriptor, which opens nothing: a FIFO, socket or device is never read or waited
//! for. Between that and the open the name may be exchanged, so the open does not block and the inode is compared.

use blake3::Hasher;
use cap_std::fs::Dir;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::time::Duration;

use super::fact::{Fact, Moment};
use super::filesystem;
use super::resolve::{Obstacle, is_systemic};
use super::{Root, read_failed};
use crate::error::ToolError;
use crate::selector::Served;

/// Tries before a file counts as changing.
const TRIES: usize = 6;

/// Between tries, and between the two reads of a racy file: longer than a write system call usually takes.
const PAUSE: Duration = Duration::from_millis(2);

/// Unsettled files up to this size are read twice, and digested whole.
const SMALL: u64 = 1 << 20;

/// Racy files up to this size are digested whole; of larger ones, at most so much. Digesting must be much faster than a
/// log is appended to, and a program that keeps touching a sparse file of a terabyte must not hold a call.
pub(crate) const DIGESTED: u64 = 8 << 20;

/// A digest of content, to be bound to a state.
pub(crate) fn digest(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

/// A regular file that may be served.
#[derive(Debug)]
pub(crate) struct Opened<'r> {
    root: &'r Root,
    fd: OwnedFd,
    memory: bool,
}

impl Root {
    /// Opens a served file for reading.
    pub(crate) fn open(&self, served: Served<'_>) -> Result<Opened<'_>, ToolError> {
        self.must_exist()?;
        let (parent, name) = served.path().split();
        let dir = self.directory_at(parent).map_err(Obstacle::refusal)?;
        self.open_in(&dir, name).map_err(Obstacle::refusal)
    }

    /// Opens a regular file by its name in a held directory.
    pub(super) fn open_in(&self, dir: &Dir, name: &str) -> Result<Opened<'_>, Obstacle> {
        for _ in 0..TRIES {
            let handle = handle(dir, name)?;
            let seen = self.look(&handle, "")?;
            if !seen.is_regular() {
                return Err(Obstacle::Absent);
            }
            if !self.on_served_mount(&seen) {
                return Err(Obstacle::Mount);
            }
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let fd = rustix::fs::openat(dir, name, flags, Mode::empty())?;
            if Fact::of(&fd)?.identity() == seen.identity() {
                let mut memory = self.memory;
                if self.limits.allow_mounts {
                    let filesystem = filesystem::magic(&fd)?;
                    if filesystem::is_kernel_filesystem(filesystem) {
                        return Err(Obstacle::Mount);
                    }
                    memory = filesystem::is_memory_filesystem(filesystem);
                }
                return Ok(Opened { root: self, fd, memory });
            }
            // Replaced in between, as every atomic write does: look again.
        }
        Err(Obstacle::Changing)
    }

    /// Remembers a file in the state in which this process put it in place: nobody is in the middle of writing it.
    pub(super) fn note_published(&self, fact: &Fact) {
        const REMEMBERED: usize = 64;
        if let Ok(mut published) = self.published.lock() {
            published.truncate(REMEMBERED - 1);
            published.push_front(fact.fingerprint());
        }
    }

    fn was_published(&self, fact: &Fact) -> bool {
        self.published.lock().is_ok_and(|published| published.contains(&fact.fingerprint()))
    }
}

/// What lies at a name, whatever it is, without opening it.
pub(super) fn handle(dir: &Dir, name: &str) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

impl Opened<'_> {
    /// Runs `pass` until it has seen one state of the file from beginning to end, and returns what it made of it.
    ///
    /// The fingerprint must be the same before and after. Where that proves nothing, because the file is racy or is
    /// small and unsettled, the pass runs twice and must be given the same bytes.
    ///
    /// # Errors
    /// [`ToolError::Changing`] after six tries; [`ToolError::FileTooLarge`] and [`ToolError::NotReadable`] where the
    /// operator's limits hide the file in its present state; whatever `pass` fails with.
    pub(crate) fn settled<T>(
        &self,
        mut pass: impl FnMut(&mut Reading<'_>) -> Result<T, ToolError>,
    ) -> Result<(T, Fact), ToolError> {
        for attempt in 0..TRIES {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            let before = self.fact()?;
            let now = Moment::now();
            let racy = before.racy(now);
            let twice = racy || self.small_and_unsettled(&before, now);
            let mut reading = Reading { file: self, fact: before, delivered: twice.then(Hasher::new) };
            let mut value = pass(&mut reading)?;
            if twice {
                if racy && !self.root.was_published(&before) {
                    std::thread::sleep(PAUSE);
                }
                let mut again = Reading { file: self, fact: before, delivered: Some(Hasher::new()) };
                value = pass(&mut again)?;
                if again.delivered() != reading.delivered() {
                    continue;
                }
            }
            if self.fact()?.fingerprint() == before.fingerprint() {
                return Ok((value, before));
            }
        }
        Err(ToolError::Changing)
    }

    pub(super) fn fact(&self) -> Result<Fact, ToolError> {
        let fact = Fact::of(&self.fd).map_err(read_failed)?;
        if self.root.limits.max_file_bytes.is_some_and(|most| fact.size > most) {
            return Err(ToolError::FileTooLarge);
        }
        if self.root.hides(&fact) { Err(ToolError::NotReadable) } else { Ok(fact) }
    }

    fn small_and_unsettled(&self, fact: &Fact, at: Moment) -> bool {
        fact.size <= SMALL && (self.memory || fact.unsettled(at))
    }
}

/// One pass over a file in what should be one state.
#[derive(Debug)]
pub(crate) struct Reading<'f> {
    file: &'f Opened<'f>,
    fact: Fact,
    delivered: Option<Hasher>,
}

impl Reading<'_> {
    /// The state in which the pass found the file.
    pub(crate) fn fact(&self) -> &Fact {
        &self.fact
    }

    /// Fills the buffer from an offset in bytes, or as far as the file goes; returns how far that was.
    ///
    /// # Errors
    /// [`ToolError::ReadFailed`] where the system failed, [`ToolError::NotReadable`] where this file's content cannot be
    /// had.
    pub(crate) fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize, ToolError> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pread(&self.file.fd, rest, offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(errno) if is_systemic(errno) => return Err(read_failed(errno)),
                Err(_) => return Err(ToolError::NotReadable),
            }
        }
        if let (Some(hasher), Some(bytes)) = (&mut self.delivered, buffer.get(..filled)) {
            hasher.update(bytes);
        }
        Ok(filled)
    }

    /// Whether, at the given time, the fingerprint alone could not tell two states of this file apart.
    pub(crate) fn needs_digest(&self, at: Moment) -> bool {
        self.fact.racy(at) || self.file.small_and_unsettled(&self.fact, at)
    }

    /// The bytes from an offset on, up to another or as far as the file goes. What is made of them, a page and the
    /// digests that speak of it, is of one read and so of one state.
    pub(crate) fn bytes(&mut self, from: u64, to: u64) -> Result<Vec<u8>, ToolError> {
        let mut bytes = vec![0; usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX)];
        let filled = self.read(from, &mut bytes)?;
        bytes.truncate(filled);
        Ok(bytes)
    }

    fn delivered(&self) -> Option<blake3::Hash> {
        self.delivered.as_ref().map(Hasher::finalize)
    }
}
