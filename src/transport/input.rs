//! The input: bytes to lines. Its end is told as soon as it is known, before the last lines are taken.
//!
//! While the server takes no further line, nothing is read, and an end that stands behind the unread bytes would go unseen.
//! Of a pipe or a socket the kernel tells it all the same.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use std::io::{ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::split::{Line, Splitter};
use super::streams::wait;

/// Bytes read at a time.
const READ: usize = 64 * 1024;

/// How often a held up input is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Whether the reader waits for a line to be taken.
#[derive(Debug, Default)]
pub(super) struct HeldUp {
    now: AtomicBool,
    begun: Notify,
}

impl HeldUp {
    /// Hands on a line; `false` when nobody takes lines any more.
    fn send(&self, lines: &Sender<Line>, line: Line) -> bool {
        match lines.try_send(line) {
            Ok(()) => true,
            Err(TrySendError::Closed(_)) => false,
            Err(TrySendError::Full(line)) => {
                self.now.store(true, Ordering::SeqCst);
                self.begun.notify_one();
                let sent = lines.blocking_send(line).is_ok();
                self.now.store(false, Ordering::SeqCst);
                sent
            }
        }
    }
}

/// Tells the end of standard input while its reader is held up.
pub(super) async fn watch(held_up: Arc<HeldUp>, ended: CancellationToken) {
    loop {
        held_up.begun.notified().await;
        while held_up.now.load(Ordering::SeqCst) {
            if is_hung_up() {
                return ended.cancel();
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Whether nobody can write to standard input any more. A file has no such state.
fn is_hung_up() -> bool {
    let input = rustix::stdio::stdin();
    poll(&mut [PollFd::new(&input, PollFlags::RDHUP)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
        .is_ok_and(|ready| ready > 0)
}

/// Reads on a thread of its own. An input that cannot be read has ended.
pub(super) fn read_all(
    mut input: impl Read + AsFd,
    longest: usize,
    lines: &Sender<Line>,
    held_up: &HeldUp,
    end: DropGuard,
) {
    let mut splitter = Splitter::new(longest);
    let mut buffer = vec![0; READ];
    loop {
        match input.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait(&input, PollFlags::IN),
            Ok(0) | Err(_) => break,
            Ok(count) => {
                for line in splitter.push(buffer.get(..count).unwrap_or_default()) {
                    if !held_up.send(lines, line) {
                        return;
                    }
                }
            }
        }
    }
    drop(end);
    if let Some(line) = splitter.end() {
        lines.blocking_send(line).ok();
    }
}

/// The same of a stream within a runtime.
pub(super) async fn read_stream(mut read: impl AsyncRead + Unpin, longest: usize, lines: Sender<Line>, end: DropGuard) {
    let mut splitter = Splitter::new(longest);
    let mut buffer = vec![0; READ];
    while let Ok(count @ 1..) = read.read(&mut buffer).await {
        for line in splitter.push(buffer.get(..count).unwrap_or_default()) {
            if lines.send(line).await.is_err() {
                return;
            }
        }
    }
    drop(end);
    if let Some(line) = splitter.end() {
        lines.send(line).await.ok();
    }
}
