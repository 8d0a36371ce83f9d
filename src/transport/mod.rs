//! Messages, one a line, between byte streams and rmcp.
//!
//! Everything a line can be is decided by [`classify`](classify::classify), a pure function; what is no message is
//! answered here and never reaches the server. Lines are bounded; after one that is too long, the next is read as
//! usual. Standard input is read by a thread of our own, so that a pipe, a socket, a file and a terminal are the same.

mod classify;
mod ids;
mod split;

use rmcp::RoleServer;
use rmcp::model::{ClientNotification, ClientRequest, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use classify::{Message, Refusal, classify};
use ids::Ids;
use split::{Line, Splitter};

/// Lines read ahead of the server, and messages written behind it.
const QUEUE: usize = 8;

/// Bytes read at a time.
const READ: usize = 64 * 1024;

/// A transport of JSON-RPC messages, one a line. See [`crate::Server::lines`] and [`crate::Server::stdio_lines`].
#[derive(Debug)]
pub struct Lines {
    incoming: mpsc::Receiver<Line>,
    outgoing: Option<mpsc::Sender<Vec<u8>>>,
    written: Option<oneshot::Receiver<()>>,
    ids: Arc<Mutex<Ids>>,
    /// Answers to lines that were no message, not yet handed to the writer.
    owed: VecDeque<Vec<u8>>,
}

impl Lines {
    pub(crate) fn stdio(longest: usize) -> io::Result<Self> {
        let (lines, incoming) = mpsc::channel(QUEUE);
        let (outgoing, messages) = mpsc::channel(QUEUE);
        let (done, written) = oneshot::channel();
        std::thread::Builder::new().name("stdin".to_owned()).spawn(move || read_stdin(longest, &lines))?;
        std::thread::Builder::new().name("stdout".to_owned()).spawn(move || write_stdout(messages, done))?;
        Ok(Self::new(incoming, outgoing, written))
    }

    pub(crate) fn over(
        read: impl AsyncRead + Unpin + Send + 'static,
        write: impl AsyncWrite + Unpin + Send + 'static,
        longest: usize,
    ) -> Self {
        let (lines, incoming) = mpsc::channel(QUEUE);
        let (outgoing, messages) = mpsc::channel(QUEUE);
        let (done, written) = oneshot::channel();
        tokio::spawn(read_stream(read, longest, lines));
        tokio::spawn(write_stream(write, messages, done));
        Self::new(incoming, outgoing, written)
    }

    fn new(incoming: mpsc::Receiver<Line>, outgoing: mpsc::Sender<Vec<u8>>, written: oneshot::Receiver<()>) -> Self {
        let ids = Arc::default();
        Self { incoming, outgoing: Some(outgoing), written: Some(written), ids, owed: VecDeque::new() }
    }

    /// The message that a line is for the server, if it is one.
    fn take(&mut self, line: Line) -> Option<RxJsonRpcMessage<RoleServer>> {
        let message = match &line {
            Line::Whole(bytes) => classify(bytes),
            Line::TooLong => Message::Refused(Refusal::too_long()),
        };
        match message {
            Message::Ignored => None,
            Message::Refused(refusal) => self.owe(refusal),
            Message::Notification { method, params } => self.notification(&method, params),
            Message::Request { id, method, params } => {
                let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(ours) = ids.admit(&id) else {
                    drop(ids);
                    return self.owe(Refusal::in_use(id));
                };
                match serde_json::from_value::<ClientRequest>(envelope(&method, params)) {
                    Ok(request) => Some(JsonRpcMessage::request(request, ours)),
                    Err(_) => {
                        ids.answer(&ours);
                        drop(ids);
                        self.owe(Refusal::params(id))
                    }
                }
            }
        }
    }

    /// A notification that is malformed is ignored, like one that is unknown.
    fn notification(&mut self, method: &str, params: Option<Value>) -> Option<RxJsonRpcMessage<RoleServer>> {
        let mut notification = serde_json::from_value(envelope(method, params)).ok()?;
        if let ClientNotification::CancelledNotification(cancelled) = &mut notification {
            let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
            let ours = ids.cancel(cancelled.params.request_id.as_ref()?)?;
            cancelled.params.request_id = Some(ours);
        }
        Some(JsonRpcMessage::notification(notification))
    }

    fn owe(&mut self, refusal: Refusal) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.owed.push_back(refusal.line());
        None
    }
}

fn envelope(method: &str, params: Option<Value>) -> Value {
    match params {
        Some(params) => json!({ "method": method, "params": params }),
        None => json!({ "method": method }),
    }
}

/// The other end is gone.
#[derive(Debug, thiserror::Error)]
#[error("nobody reads the output")]
pub struct Closed;

impl Transport<RoleServer> for Lines {
    type Error = Closed;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Closed>> + Send + 'static {
        let line = self.ids.lock().unwrap_or_else(PoisonError::into_inner).restore(message).and_then(|message| {
            let mut line = serde_json::to_vec(&message).ok()?;
            line.push(b'\n');
            Some(line)
        });
        let outgoing = self.outgoing.clone();
        async move {
            match (line, outgoing) {
                (None, _) => Ok(()), // an answer to what was cancelled meanwhile
                (Some(line), Some(outgoing)) => outgoing.send(line).await.map_err(|_| Closed),
                (Some(_), None) => Err(Closed),
            }
        }
    }

    /// Safe to drop at any point: what is taken off a queue is kept in `self` first.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            while !self.owed.is_empty() {
                let permit = self.outgoing.as_ref()?.reserve().await.ok()?;
                if let Some(line) = self.owed.pop_front() {
                    permit.send(line);
                }
            }
            let line = self.incoming.recv().await?;
            if let Some(message) = self.take(line) {
                return Some(message);
            }
        }
    }

    /// Waits until what was sent is written.
    async fn close(&mut self) -> Result<(), Closed> {
        self.outgoing = None;
        match self.written.take() {
            Some(written) => written.await.map_err(|_| Closed),
            None => Ok(()),
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

fn read_stdin(longest: usize, lines: &mpsc::Sender<Line>) {
    let mut splitter = Splitter::new(longest);
    let mut buffer = vec![0; READ];
    let mut stdin = io::stdin().lock();
    loop {
        let count = match stdin.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // An input that cannot be read has ended.
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        for line in splitter.push(buffer.get(..count).unwrap_or_default()) {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    }
    if let Some(line) = splitter.end() {
        lines.blocking_send(line).ok();
    }
}

/// Ends with the queue or with an output that nobody reads; both close the queue, which later sends see.
fn write_stdout(mut messages: mpsc::Receiver<Vec<u8>>, done: oneshot::Sender<()>) {
    let mut stdout = io::stdout().lock();
    while let Some(message) = messages.blocking_recv() {
        if stdout.write_all(&message).and_then(|()| stdout.flush()).is_err() {
            return;
        }
    }
    done.send(()).ok();
}

async fn read_stream(mut read: impl AsyncRead + Unpin, longest: usize, lines: mpsc::Sender<Line>) {
    let mut splitter = Splitter::new(longest);
    let mut buffer = vec![0; READ];
    while let Ok(count @ 1..) = read.read(&mut buffer).await {
        for line in splitter.push(buffer.get(..count).unwrap_or_default()) {
            if lines.send(line).await.is_err() {
                return;
            }
        }
    }
    if let Some(line) = splitter.end() {
        lines.send(line).await.ok();
    }
}

async fn write_stream(
    mut write: impl AsyncWrite + Unpin,
    mut messages: mpsc::Receiver<Vec<u8>>,
    done: oneshot::Sender<()>,
) {
    while let Some(message) = messages.recv().await {
        if write.write_all(&message).await.is_err() || write.flush().await.is_err() {
            return;
        }
    }
    done.send(()).ok();
}
