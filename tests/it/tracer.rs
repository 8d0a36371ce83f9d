//! `strace` on a running server: it tells the calls that a tool makes, makes the n-th of one kind fail, or kills the
//! process before it.
//!
//! Its counts are per thread, and only a thread that works for a tool makes calls of these kinds once the server is up.

use crate::harness::{DEADLINE, Server, Tree};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Instant;

/// Everything that a tool asks of the system.
const TRACED: &str = "%file,%desc,openat2,statx,getdents64,ioctl";

/// `strace` on a running server, until drop.
pub struct Tracer {
    strace: Child,
    log: PathBuf,
}

impl Tracer {
    /// Attaches and waits until it is. `inject` holds any number of strace's expressions, with spaces between them.
    pub fn attach(server: &Server, tree: &Tree, inject: Option<&str>) -> Self {
        let log = tree.above().join("strace.log");
        let mut command = Command::new("strace");
        command.args(["-f", "-v", "-s", "256", "-e", &format!("trace={TRACED}")]).arg("-o").arg(&log);
        for inject in inject.unwrap_or_default().split_whitespace() {
            command.args(["-e", &format!("inject={inject}")]);
        }
        command.args(["-p", &server.pid().to_string()]);
        let mut strace = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (attached, wait) = channel();
        let stderr = strace.stderr.take().unwrap();
        // Reads on, so that later messages never block the tracer.
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if line.contains("attached") {
                    attached.send(()).ok();
                }
            }
        });
        let tracer = Self { strace, log };
        wait.recv_timeout(DEADLINE).expect("strace attaches");
        tracer
    }

    /// Waits until something was traced.
    pub fn until(&self, traced: &str) {
        let started = Instant::now();
        while !std::fs::read_to_string(&self.log).unwrap().contains(traced) {
            assert!(started.elapsed() < DEADLINE, "{traced:?} is not traced");
            std::thread::yield_now();
        }
    }

    /// Detaches; what was traced.
    pub fn detach(mut self) -> String {
        self.end();
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Ends the tracer at once: one whose process was killed may wait for it for ever.
    pub fn abandon(mut self) {
        self.strace.kill().unwrap();
        self.strace.wait().unwrap();
    }

    fn end(&mut self) {
        if self.strace.try_wait().unwrap().is_none() {
            Command::new("kill").arg("-INT").arg(self.strace.id().to_string()).status().unwrap();
            self.strace.wait().unwrap();
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.end();
    }
}
