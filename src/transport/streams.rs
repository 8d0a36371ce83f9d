//! Both ends of a connection, running.
//!
//! Standard input and output have a thread each, so that a pipe, a socket, a file and a terminal are the same. Whoever
//! made them may have left them non-blocking; then they are waited for.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::AsFd;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::input::{HeldUp, read_all, read_stream, watch};
use super::output::{Output, To, output};
use super::split::Line;

/// Lines read ahead of the server.
const READ_AHEAD: usize = 2;

/// Said, so that no environment variable decides it.
const STACK: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct Streams {
    pub(super) lines: mpsc::Receiver<Line>,
    pub(super) output: Output,
    /// Resolves when all messages are written, or fails when nobody reads them.
    pub(super) done: oneshot::Receiver<()>,
    /// Cancelled when the input has ended.
    pub(super) ended: CancellationToken,
    /// Cancelled when the output is gone, so that nobody would hear an answer.
    pub(super) gone: CancellationToken,
    /// What ends with these streams.
    pub(super) tasks: JoinSet<()>,
}

impl Streams {
    pub(super) fn stdio(longest: usize) -> io::Result<Self> {
        let (sender, lines) = mpsc::channel(READ_AHEAD);
        let (output, queue) = output(To::Stdout);
        let (all, done) = oneshot::channel();
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned()).stack_size(STACK);
        let ended = CancellationToken::new();
        let end = ended.clone().drop_guard();
        let held_up = Arc::<HeldUp>::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(watch(Arc::clone(&held_up), ended.clone()));
        thread("stdin").spawn(move || read_all(io::stdin().lock(), longest, &sender, &held_up, end))?;
        thread("stdout").spawn(move || {
            if queue.write_all(io::stdout().lock()).is_ok() {
                all.send(()).ok();
            }
        })?;
        Ok(Self { lines, output, done, ended, gone: CancellationToken::new(), tasks })
    }

    pub(super) fn over(stream: impl AsyncRead + AsyncWrite + Send + 'static, longest: usize) -> Self {
        let (read, write) = tokio::io::split(Box::pin(stream));
        let (sender, lines) = mpsc::channel(READ_AHEAD);
        let (output, queue) = output(To::Stream);
        let (all, done) = oneshot::channel();
        let mut tasks = JoinSet::new();
        let ended = CancellationToken::new();
        tasks.spawn(read_stream(read, longest, sender, ended.clone().drop_guard()));
        tasks.spawn(async move {
            if queue.write_stream(write).await.is_ok() {
                all.send(()).ok();
            }
        });
        Self { lines, output, done, ended, gone: CancellationToken::new(), tasks }
    }
}

/// Waits until a non-blocking descriptor can go on, or until trying again will say what is wrong with it.
pub(super) fn wait(descriptor: &impl AsFd, flags: PollFlags) {
    poll(&mut [PollFd::new(descriptor, flags)], None).ok();
}
