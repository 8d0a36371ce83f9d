//! The two ends: bytes to lines, and messages to bytes.
//!
//! Standard input and output have a thread each, so that a pipe, a socket, a file and a terminal are the same. Whoever
//! made them may have left them non-blocking; then they are waited for.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::AsFd;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::split::{Line, Splitter};

/// Lines read ahead of the server.
const READ_AHEAD: usize = 2;

/// Bytes read at a time.
const READ: usize = 64 * 1024;

/// Bytes written at a time.
const STEP: usize = 4096;

/// Said, so that no environment variable decides it.
const STACK: usize = 256 * 1024;

/// A message to the client, with the room it takes until it is written.
pub(super) type Outgoing = (Vec<u8>, OwnedSemaphorePermit);

/// Both ends, running.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) lines: mpsc::Receiver<Line>,
    /// Unbounded by itself: every message comes with its room.
    pub(super) messages: mpsc::UnboundedSender<Outgoing>,
    /// Resolves when all messages are written, or fails when nobody reads them.
    pub(super) written: oneshot::Receiver<()>,
    /// Cancelled when the input has ended.
    pub(super) ended: CancellationToken,
    /// Bytes written so far.
    pub(super) progress: Arc<AtomicU64>,
    /// What ends with these streams.
    pub(super) tasks: JoinSet<()>,
}

impl Streams {
    pub(super) fn stdio(longest: usize) -> io::Result<Self> {
        let (sender, lines) = mpsc::channel(READ_AHEAD);
        let (messages, queue) = mpsc::unbounded_channel();
        let (done, written) = oneshot::channel();
        let progress = Arc::<AtomicU64>::default();
        let counter = Arc::clone(&progress);
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned()).stack_size(STACK);
        let ended = CancellationToken::new();
        let end = ended.clone().drop_guard();
        thread("stdin").spawn(move || read_all(io::stdin().lock(), longest, &sender, end))?;
        thread("stdout").spawn(move || {
            if write_all(io::stdout().lock(), queue, &counter).is_ok() {
                done.send(()).ok();
            }
        })?;
        Ok(Self { lines, messages, written, ended, progress, tasks: JoinSet::new() })
    }

    pub(super) fn over(stream: impl AsyncRead + AsyncWrite + Send + 'static, longest: usize) -> Self {
        let (read, write) = tokio::io::split(Box::pin(stream));
        let (sender, lines) = mpsc::channel(READ_AHEAD);
        let (messages, queue) = mpsc::unbounded_channel();
        let (done, written) = oneshot::channel();
        let progress = Arc::<AtomicU64>::default();
        let counter = Arc::clone(&progress);
        let mut tasks = JoinSet::new();
        let ended = CancellationToken::new();
        tasks.spawn(read_stream(read, longest, sender, ended.clone().drop_guard()));
        tasks.spawn(async move {
            if write_stream(write, queue, &counter).await.is_ok() {
                done.send(()).ok();
            }
        });
        Self { lines, messages, written, ended, progress, tasks }
    }
}

/// An input that cannot be read has ended. The guard says so as soon as that is known, before the last lines are taken.
fn read_all(mut input: impl Read + AsFd, longest: usize, lines: &mpsc::Sender<Line>, end: DropGuard) {
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

/// Ends with the queue, or fails when the output is gone; then the queue closes, which is how others learn of it.
fn write_all(
    mut output: impl Write + AsFd,
    mut queue: mpsc::UnboundedReceiver<Outgoing>,
    progress: &AtomicU64,
) -> io::Result<()> {
    while let Some((message, _room)) = queue.blocking_recv() {
        let mut rest = message.as_slice();
        while !rest.is_empty() {
            // A blocking write returns only when all of it is taken, so little by little, or a slow reader looks like none.
            match output.write(rest.get(..STEP).unwrap_or(rest)) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    progress.fetch_add(count as u64, Ordering::Relaxed);
                    rest = rest.get(count..).unwrap_or_default();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => wait(&output, PollFlags::OUT),
                Err(error) => return Err(error),
            }
        }
        while let Err(error) = output.flush() {
            match error.kind() {
                ErrorKind::Interrupted => {}
                ErrorKind::WouldBlock => wait(&output, PollFlags::OUT),
                _ => return Err(error),
            }
        }
    }
    Ok(())
}

/// Waits until a non-blocking descriptor can go on, or until trying again will say what is wrong with it.
fn wait(descriptor: &impl AsFd, flags: PollFlags) {
    poll(&mut [PollFd::new(descriptor, flags)], None).ok();
}

async fn read_stream(mut read: impl AsyncRead + Unpin, longest: usize, lines: mpsc::Sender<Line>, end: DropGuard) {
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

async fn write_stream(
    mut write: impl AsyncWrite + Unpin,
    mut queue: mpsc::UnboundedReceiver<Outgoing>,
    progress: &AtomicU64,
) -> io::Result<()> {
    while let Some((message, _room)) = queue.recv().await {
        let mut rest = message.as_slice();
        while !rest.is_empty() {
            let count = write.write(rest).await?;
            if count == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            progress.fetch_add(count as u64, Ordering::Relaxed);
            rest = rest.get(count..).unwrap_or_default();
        }
        write.flush().await?;
    }
    Ok(())
}
