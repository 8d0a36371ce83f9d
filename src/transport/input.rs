//! The input: bytes to lines. Its end is told as soon as it is known, before the last lines are taken.

use rustix::event::PollFlags;
use rustix::fd::AsFd;
use std::io::{ErrorKind, Read};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::mpsc::Sender;
use tokio_util::sync::DropGuard;

use super::split::{Line, Splitter};
use super::streams::wait;

/// Bytes read at a time.
const READ: usize = 64 * 1024;

/// Reads on a thread of its own. An input that cannot be read has ended.
pub(super) fn read_all(mut input: impl Read + AsFd, longest: usize, lines: &Sender<Line>, end: DropGuard) {
    let mut splitter = Splitter::new(longest);
    let mut buffer = vec![0; READ];
    loop {
        match input.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait(&input, PollFlags::IN),
            Ok(0) | Err(_) => break,
            Ok(count) => {
                for line in splitter.push(buffer.get(..count).unwrap_or_default()) {
                    if lines.blocking_send(line).is_err() {
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
