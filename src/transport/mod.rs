//! Messages, one a line, between byte streams and rmcp.
//!
//! Everything a line can be is decided by [`classify`](classify::classify), a pure function; what is no message is
//! answered here and never reaches the server. Lines are bounded, and so is what is unanswered or unwritten: every line
//! that wants an answer takes a room until that is written, and without a free one no further line is read.

mod classify;
mod ids;
mod input;
mod messages;
mod output;
mod params;
mod split;
mod streams;

use rmcp::RoleServer;
use rmcp::model::{JsonRpcMessage, JsonRpcNotification, RequestId, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Serialize;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use classify::{Message, Refusal, classify};
use ids::{Id, Ids};
use output::Written;
use split::Line;
use streams::Streams;

/// Lines that are unanswered, or whose answers are unwritten, at one time. A long line takes a room for each 256 KiB, and
/// one of 16 MiB or more takes all.
const ROOMS: u32 = 64;
const ROOM: usize = 256 * 1024;

/// How long, after the end, an output that takes nothing is waited for.
const STALLED: Duration = Duration::from_secs(5);

/// A transport of JSON-RPC messages, one a line.
#[derive(Debug)]
pub(crate) struct Lines {
    /// `None` once closed.
    streams: Option<Streams>,
    ids: Arc<Mutex<Ids>>,
    rooms: Arc<Semaphore>,
    /// A request, or the refusal of a line, that waits for its rooms, and how many these are.
    next: Option<(Message, u32)>,
}

impl Lines {
    pub(crate) fn stdio(longest: usize) -> io::Result<Self> {
        Streams::stdio(longest).map(Self::new)
    }

    pub(crate) fn over(stream: impl AsyncRead + AsyncWrite + Send + 'static, longest: usize) -> Self {
        Self::new(Streams::over(stream, longest))
    }

    fn new(streams: Streams) -> Self {
        Self {
            streams: Some(streams),
            ids: Arc::default(),
            rooms: Arc::new(Semaphore::new(ROOMS as usize)),
            next: None,
        }
    }

    /// The message for the server that something is which has its room by now.
    fn admit(&self, message: Message, room: OwnedSemaphorePermit) -> Option<RxJsonRpcMessage<RoleServer>> {
        match message {
            Message::Ignored | Message::Cancelled(_) => None,
            Message::Refused(refusal) => self.refuse(&refusal, room),
            Message::Request { id, method, params } => {
                let admitted = self.ids().admit(id, room);
                match admitted {
                    Ok(ours) => {
                        Some(JsonRpcMessage::request(messages::request(method, params), RequestId::Number(ours)))
                    }
                    Err((id, room)) => self.refuse(&Refusal::in_use(id), room),
                }
            }
        }
    }

    /// A cancellation under our number of the request, if that is in flight.
    fn cancelled(&self, id: &Id) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.ids().cancel(id).map(messages::cancellation)
    }

    fn refuse(&self, refusal: &Refusal, room: OwnedSemaphorePermit) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.write(refusal.line(), room).ok();
        None
    }

    fn write(&self, line: Vec<u8>, room: OwnedSemaphorePermit) -> io::Result<()> {
        let streams = self.streams.as_ref().ok_or_else(gone)?;
        streams.output.send(line, Some(room))
    }

    /// An answer, if anyone waits for it.
    fn answer(&self, ours: Option<RequestId>, member: &str, value: &impl Serialize) -> io::Result<()> {
        let Some(RequestId::Number(ours)) = ours else { return Ok(()) };
        let waiting = self.ids().answer(ours);
        match waiting {
            Some((theirs, room)) => self.write(messages::answer(&theirs, member, value)?, room),
            None => Ok(()),
        }
    }

    /// Progress of a request, as long as that is waited for. It may be left out, and is where the reader is slow: what waited
    /// to be written could be read after the request was cancelled.
    fn tell(&self, message: &JsonRpcNotification<ServerNotification>) -> io::Result<()> {
        let streams = self.streams.as_ref().ok_or_else(gone)?;
        if !messages::progress_of(message).is_some_and(|ours| self.ids().waits(ours)) || !streams.output.is_idle() {
            return Ok(());
        }
        streams.output.send(messages::notification(message)?, None)
    }

    /// Cancelled when the input has ended, which may be while lines still wait for their rooms.
    pub(crate) fn ended(&self) -> CancellationToken {
        self.streams.as_ref().map(|streams| streams.ended.clone()).unwrap_or_default()
    }

    /// Cancelled when the output is gone.
    pub(crate) fn gone(&self) -> CancellationToken {
        self.streams.as_ref().map(|streams| streams.gone.clone()).unwrap_or_default()
    }

    fn ids(&self) -> MutexGuard<'_, Ids> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn classified(line: &Line) -> Message {
    match line {
        Line::Whole(bytes) => classify(bytes),
        Line::TooLong => Message::Refused(Refusal::too_long()),
    }
}

/// The rooms that a line takes.
fn rooms(line: &Line) -> u32 {
    match line {
        Line::Whole(bytes) => u32::try_from(bytes.len() / ROOM + 1).unwrap_or(ROOMS).min(ROOMS),
        Line::TooLong => 1,
    }
}

/// Until an output takes nothing for a while.
async fn stalled(written: &Written) {
    let mut before = written.bytes();
    loop {
        tokio::time::sleep(STALLED).await;
        let now = written.bytes();
        if now == before {
            return;
        }
        before = now;
    }
}

fn gone() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        std::future::ready(match message {
            JsonRpcMessage::Response(message) => self.answer(Some(message.id), "result", &message.result),
            JsonRpcMessage::Error(message) => self.answer(message.id, "error", &message.error),
            JsonRpcMessage::Notification(message) => self.tell(&message),
            // This server asks nothing.
            JsonRpcMessage::Request(_) => Ok(()),
        })
    }

    /// Safe to drop at any point: a line that was taken off the queue stands in `self` while anything is awaited.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let streams = self.streams.as_mut()?;
            if let Some((_, rooms)) = &self.next {
                let room = tokio::select! {
                    biased;
                    // Nobody reads the answers: what is asked from here on is not done.
                    () = streams.output.closed() => {
                        streams.gone.cancel();
                        return None;
                    }
                    room = Arc::clone(&self.rooms).acquire_many_owned(*rooms) => room.ok()?,
                    () = async { streams.ended.cancelled().await; stalled(streams.output.written()).await } => return None,
                };
                if let Some((message, _)) = self.next.take()
                    && let Some(message) = self.admit(message, room)
                {
                    return Some(message);
                }
                continue;
            }
            let line = tokio::select! {
                biased;
                () = streams.output.closed() => {
                    streams.gone.cancel();
                    return None;
                }
                line = streams.lines.recv() => line?,
            };
            match classified(&line) {
                Message::Ignored => {}
                // It is never answered, so it needs no room, and may even give one back.
                Message::Cancelled(id) => {
                    if let Some(message) = self.cancelled(&id) {
                        return Some(message);
                    }
                }
                message => self.next = Some((message, rooms(&line))),
            }
        }
    }

    /// Waits until what was sent is written, as long as it goes on.
    async fn close(&mut self) -> Result<(), io::Error> {
        let Some(streams) = self.streams.take() else { return Ok(()) };
        let Streams { output, done, tasks: _running, .. } = streams;
        let written = output.written().clone();
        drop(output);
        tokio::select! {
            result = done => result.map_err(|_: oneshot::error::RecvError| gone()),
            () = stalled(&written) => Err(gone()),
        }
    }
}
