//! What the server says on standard error while it serves, without ever waiting for a reader.
//!
//! A host may leave standard error unread. Lines go to a thread through a short queue; when that is full, they are
//! dropped, and the calls that caused them go on.

use std::io::{self, Write};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::time::Duration;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;

/// Lines that wait for a reader.
const QUEUE: usize = 64;

/// How long the last lines may take at the end of the process.
const LAST: Duration = Duration::from_millis(100);

enum Said {
    Line(Vec<u8>),
    /// Answered when all before it is written.
    End(Sender<()>),
}

/// Shows this crate's warnings. rmcp's messages hold whole requests, and with them content.
pub(crate) fn show_own_warnings() -> io::Result<Queue> {
    let (lines, queue) = sync_channel(QUEUE);
    std::thread::Builder::new().name("stderr".to_owned()).stack_size(64 * 1024).spawn(move || {
        while let Ok(said) = queue.recv() {
            match said {
                Said::Line(line) if io::stderr().write_all(&line).is_err() => return,
                Said::Line(_) => {}
                Said::End(written) => written.send(()).unwrap_or_default(),
            }
        }
    })?;
    let own = Targets::new().with_target("ptc_fs_mcp", tracing::Level::WARN);
    let layer = tracing_subscriber::fmt::layer().with_writer(Queue(lines.clone())).without_time().with_ansi(false);
    // There is no other subscriber to be in the way.
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(own).with(layer)).ok();
    Ok(Queue(lines))
}

/// Lines on their way to standard error.
#[derive(Clone)]
pub(crate) struct Queue(SyncSender<Said>);

impl Queue {
    /// Says a line, or drops it.
    pub(crate) fn say(&self, line: &str) {
        self.0.try_send(Said::Line(format!("{line}\n").into_bytes())).ok();
    }

    /// Waits a moment for what was said to be written; not at all where nobody reads it.
    pub(crate) fn finish(&self) {
        let (written, all) = channel();
        if self.0.try_send(Said::End(written)).is_ok() {
            all.recv_timeout(LAST).ok();
        }
    }
}

impl<'a> MakeWriter<'a> for Queue {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

impl Write for &Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.try_send(Said::Line(line.to_vec())).ok();
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
