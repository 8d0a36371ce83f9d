//! Messages, one a line, between byte streams and rmcp.
//!
//! Everything a line can be is decided by [`classify`](classify::classify), a pure function; what is no message is
//! answered here and never reaches the server. Lines are bounded, and so is what is unanswered or unwritten: every line
//! takes a room until its answer is written, and without a free one no further line is read.

mod classify;
mod ids;
mod split;
mod streams;

use rmcp::RoleServer;
use rmcp::model::{
    ClientNotification, ClientRequest, CustomRequest, JsonRpcMessage, MetaObject, RequestId, RequestMetaObject,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Serialize;
use serde_json::{Value, json};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use classify::{Message, Refusal, classify};
use ids::Ids;
use split::Line;
use streams::Streams;

/// Lines that are unanswered, or whose answers are unwritten, at one time. A long line takes a room for each 256 KiB, and
/// one of 16 MiB or more takes all.
const ROOMS: u32 = 64;
const ROOM: usize = 256 * 1024;

/// How long, after the end, an output that takes nothing is waited for.
const STALLED: Duration = Duration::from_secs(5);

/// A transport of JSON-RPC messages, one a line. See [`crate::Server::lines`] and [`crate::Server::stdio_lines`].
#[derive(Debug)]
pub struct Lines {
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

    pub(crate) fn over(
        read: impl AsyncRead + Unpin + Send + 'static,
        write: impl AsyncWrite + Unpin + Send + 'static,
        longest: usize,
    ) -> Self {
        Self::new(Streams::over(read, write, longest))
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
            Message::Ignored | Message::Notification { .. } => None,
            Message::Refused(refusal) => self.refuse(&refusal, room),
            Message::Request { id, method, params } => {
                let Some(request) = request(method, params) else {
                    return self.refuse(&Refusal::params(id), room);
                };
                let admitted = self.ids().admit(id, room);
                match admitted {
                    Ok(ours) => Some(JsonRpcMessage::request(request, RequestId::Number(ours))),
                    Err((id, room)) => self.refuse(&Refusal::in_use(id), room),
                }
            }
        }
    }

    /// Only a cancellation concerns a server without state; what is malformed or unknown is ignored.
    fn notification(&self, method: &str, params: Option<Value>) -> Option<RxJsonRpcMessage<RoleServer>> {
        if method != "notifications/cancelled" {
            return None;
        }
        let mut params = params?;
        let id = ids::Id::parse(&params.get("requestId")?.to_string())?;
        let ours = self.ids().cancel(&id)?;
        *params.get_mut("requestId")? = json!(ours);
        let cancelled = json!({ "method": method, "params": params });
        serde_json::from_value::<ClientNotification>(cancelled).ok().map(JsonRpcMessage::notification)
    }

    fn refuse(&self, refusal: &Refusal, room: OwnedSemaphorePermit) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.write(refusal.line(), room).ok();
        None
    }

    fn write(&self, line: Vec<u8>, room: OwnedSemaphorePermit) -> io::Result<()> {
        let streams = self.streams.as_ref().ok_or_else(gone)?;
        streams.messages.send((line, room)).map_err(|_| gone())
    }

    /// An answer as a line, if anyone waits for it.
    fn answer(&self, message: TxJsonRpcMessage<RoleServer>) -> io::Result<()> {
        let (ours, line) = match message {
            JsonRpcMessage::Response(response) => (response.id, envelope("result", &response.result)?),
            JsonRpcMessage::Error(error) => (error.id.ok_or_else(gone)?, envelope("error", &error.error)?),
            // This server asks nothing and tells nothing unasked.
            _ => return Ok(()),
        };
        let RequestId::Number(ours) = ours else { return Ok(()) };
        let waiting = self.ids().answer(ours);
        match waiting {
            Some((theirs, room)) => {
                let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},", theirs.json());
                self.write([head.into_bytes(), line].concat(), room)
            }
            None => Ok(()),
        }
    }

    fn ids(&self) -> MutexGuard<'_, Ids> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rest of an answer's line, from its one member on.
fn envelope(member: &str, value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = format!("\"{member}\":").into_bytes();
    serde_json::to_writer(&mut line, value)?;
    line.extend_from_slice(b"}\n");
    Ok(line)
}

/// A request as it came, with `_meta` where rmcp looks for it; `None` when that is no object.
fn request(method: String, mut params: Option<Value>) -> Option<ClientRequest> {
    let meta = params.as_mut().and_then(Value::as_object_mut).and_then(|params| params.shift_remove("_meta"));
    let mut request = CustomRequest::new(method, params);
    match meta {
        None => {}
        Some(Value::Object(meta)) => {
            request.extensions.insert(RequestMetaObject::from(MetaObject::from(meta)));
        }
        Some(_) => return None,
    }
    Some(ClientRequest::CustomRequest(request))
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

fn gone() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        std::future::ready(self.answer(message))
    }

    /// Safe to drop at any point: a line that was taken off the queue stands in `self` while anything is awaited.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let streams = self.streams.as_mut()?;
            if let Some((_, rooms)) = &self.next {
                let room = tokio::select! {
                    room = Arc::clone(&self.rooms).acquire_many_owned(*rooms) => room.ok()?,
                    // Nobody reads the answers: what is asked from here on is not done.
                    () = streams.messages.closed() => return None,
                };
                if let Some((message, _)) = self.next.take()
                    && let Some(message) = self.admit(message, room)
                {
                    return Some(message);
                }
                continue;
            }
            let line = tokio::select! {
                line = streams.lines.recv() => line?,
                () = streams.messages.closed() => return None,
            };
            match classified(&line) {
                Message::Ignored => {}
                // It is never answered, so it needs no room, and may even give one back.
                Message::Notification { method, params } => {
                    if let Some(message) = self.notification(&method, params) {
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
        let Streams { messages, mut written, progress, tasks: _running, .. } = streams;
        drop(messages);
        let mut before = progress.load(Ordering::Relaxed);
        loop {
            match tokio::time::timeout(STALLED, &mut written).await {
                Ok(result) => return result.map_err(|_: oneshot::error::RecvError| gone()),
                Err(_) => {
                    let now = progress.load(Ordering::Relaxed);
                    if now == before {
                        return Err(gone());
                    }
                    before = now;
                }
            }
        }
    }
}

/// A transport that tells when its input has ended.
pub(crate) struct Ending<T> {
    pub(crate) inner: T,
    pub(crate) ended: CancellationToken,
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Ending<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let message = self.inner.receive().await;
        if message.is_none() {
            self.ended.cancel();
        }
        message
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.inner.close().await
    }
}
