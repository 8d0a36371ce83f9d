//! The output: messages to bytes, in order.
//!
//! Writing may have to wait for the reader, so it has a thread or a task of its own. Where nothing waits before it, a
//! message is first offered to the kernel without waiting, which spares that thread's awakening.

use rustix::event::PollFlags;
use rustix::fd::AsFd;
use rustix::io::{ReadWriteFlags, pwritev2};
use std::io::{self, ErrorKind, IoSlice, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::streams::wait;

/// Bytes written at a time.
const STEP: usize = 4096;

/// "At the present position", which is all that a pipe or socket has.
const HERE: u64 = u64::MAX;

/// A message to the client, with the room that an answer takes until it is written.
type Outgoing = (Vec<u8>, Option<OwnedSemaphorePermit>);

/// Where messages are handed in.
#[derive(Debug)]
pub(super) struct Output {
    /// Unbounded by itself: answers come with their rooms, and other messages only while nothing waits.
    queue: mpsc::UnboundedSender<Outgoing>,
    written: Written,
    to: To,
}

/// Where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    Stdout,
    Stream,
}

/// Where they are taken out, to be written.
#[derive(Debug)]
pub(super) struct Queue {
    messages: mpsc::UnboundedReceiver<Outgoing>,
    written: Written,
}

/// What both know of what was written.
#[derive(Debug, Clone, Default)]
pub(super) struct Written {
    bytes: Arc<AtomicU64>,
    /// Messages handed in that are not yet written.
    waiting: Arc<AtomicUsize>,
}

impl Written {
    /// So far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Both ends of the output's queue.
pub(super) fn output(to: To) -> (Output, Queue) {
    let (queue, messages) = mpsc::unbounded_channel();
    let written = Written::default();
    (Output { queue, written: written.clone(), to }, Queue { messages, written })
}

impl Output {
    /// Whether all that was handed in is written.
    pub(super) fn is_idle(&self) -> bool {
        self.written.waiting.load(Ordering::Acquire) == 0
    }

    /// Fails when the output is gone.
    pub(super) fn send(&self, mut message: Vec<u8>, room: Option<OwnedSemaphorePermit>) -> io::Result<()> {
        if self.to == To::Stdout && self.is_idle() {
            let written = at_once(&message);
            self.written.add(written);
            message.drain(..written);
            if message.is_empty() {
                return Ok(());
            }
        }
        self.written.waiting.fetch_add(1, Ordering::Relaxed);
        self.queue.send((message, room)).map_err(|_| ErrorKind::BrokenPipe.into())
    }

    pub(super) fn written(&self) -> &Written {
        &self.written
    }

    /// Resolves when the output is gone.
    pub(super) async fn closed(&self) {
        self.queue.closed().await;
    }
}

/// How much of a message standard output takes without waiting: none where the kernel cannot be asked, as for a terminal.
/// What else is wrong with it, the thread will find.
fn at_once(message: &[u8]) -> usize {
    pwritev2(rustix::stdio::stdout(), &[IoSlice::new(message)], HERE, ReadWriteFlags::NOWAIT).unwrap_or(0)
}

impl Queue {
    /// Ends with the queue, or fails when the output is gone; then the queue closes, which is how others learn of it.
    pub(super) fn write_all(mut self, mut output: impl Write + AsFd) -> io::Result<()> {
        while let Some((message, _room)) = self.messages.blocking_recv() {
            let mut rest = message.as_slice();
            while !rest.is_empty() {
                // A blocking write returns only when all of it is taken, so little by little, or a slow reader looks like none.
                match output.write(rest.get(..STEP).unwrap_or(rest)) {
                    Ok(0) => return Err(ErrorKind::WriteZero.into()),
                    Ok(count) => {
                        self.written.add(count);
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
            self.written.waiting.fetch_sub(1, Ordering::Release);
        }
        Ok(())
    }

    /// The same to a stream within a runtime.
    pub(super) async fn write_stream(mut self, mut write: impl AsyncWrite + Unpin) -> io::Result<()> {
        while let Some((message, _room)) = self.messages.recv().await {
            let mut rest = message.as_slice();
            while !rest.is_empty() {
                let count = write.write(rest).await?;
                if count == 0 {
                    return Err(ErrorKind::WriteZero.into());
                }
                self.written.add(count);
                rest = rest.get(count..).unwrap_or_default();
            }
            write.flush().await?;
            self.written.waiting.fetch_sub(1, Ordering::Release);
        }
        // Some streams, such as TLS, have an end of their own.
        write.shutdown().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::sync::Mutex;
    use std::task::{Context, Poll};
    use tokio::sync::Semaphore;

    /// Keeps what is done to it.
    #[derive(Default)]
    struct Recorder(Arc<Mutex<String>>);

    impl Recorder {
        fn keep(&self, what: &str) {
            self.0.lock().unwrap().push_str(what);
        }
    }

    impl AsyncWrite for Recorder {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.keep(std::str::from_utf8(bytes).unwrap());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.keep("|");
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.keep(".");
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn messages_are_flushed_one_by_one_and_the_stream_is_shut_down_at_its_end() {
        let recorder = Recorder::default();
        let record = Arc::clone(&recorder.0);
        let (output, queue) = output(To::Stream);
        let rooms = Arc::new(Semaphore::new(2));
        for message in ["one", "two"] {
            output.send(message.into(), Arc::clone(&rooms).try_acquire_owned().ok()).unwrap();
        }
        assert!(!output.is_idle());
        let written = output.written().clone();
        drop(output);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(queue.write_stream(recorder)).unwrap();
        assert_eq!(*record.lock().unwrap(), "one|two|.");
        assert_eq!((written.bytes(), written.waiting.load(Ordering::SeqCst)), (6, 0));
        assert_eq!(rooms.available_permits(), 2);
    }
}
