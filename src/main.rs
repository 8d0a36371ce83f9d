//! The binary: parse, open the root, build the runtime, serve; in that order, so that the root is pinned before any
//! thread exists.

mod cli;
mod diagnostics;

use ptc_fs_mcp::{Config, Limits, Pages, Root, Server};
use serde_json::{Map, Value};
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// `EX_USAGE` of sysexits.h: a wrong command line or configuration.
const USAGE: u8 = 64;

/// `EX_OSERR`: the system gives no thread.
const OS_ERROR: u8 = 71;

/// On every architecture that is supported.
const SIGXFSZ: i32 = 25;

/// Said, so that no environment variable decides it. In bytes, tokio's own default.
const STACK: usize = 2 << 20;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| complain(&place(panic))));
    match run() {
        Ok(code) => code,
        Err(line) => {
            complain(&line);
            ExitCode::from(USAGE)
        }
    }
}

fn speaking(server: Server, protocol: &cli::Protocol) -> Server {
    #[cfg(feature = "test-hooks")]
    let server = if protocol.test_tools { server.test_tools() } else { server };
    if protocol.accept_legacy { server.accept_legacy() } else { server }
}

/// A panic's message may quote what the code was working on, so only its place is told.
fn place(panic: &std::panic::PanicHookInfo<'_>) -> String {
    match panic.location() {
        Some(place) => format!("internal error in {}, line {}", file_name(place.file()), place.line()),
        None => "internal error".to_owned(),
    }
}

fn run() -> Result<ExitCode, String> {
    let open = |config: Config| Root::open_ambient(&config).and_then(Server::new).map_err(|error| error.to_string());
    let done = match cli::parse(std::env::args_os())? {
        cli::Command::Print(text) => Ok(print(&text)),
        cli::Command::Serve { config, protocol } => serve(speaking(open(config)?, &protocol)),
        cli::Command::Call { config, tool, arguments, first_page } => {
            let server = open(config)?;
            if !server.offers(&tool) {
                return Err(format!("unknown tool {}", tool.escape_debug()));
            }
            call(&server, &tool, &arguments, if first_page { Pages::First } else { Pages::All })
        }
    };
    // The system's words would say no more than this.
    Ok(done.unwrap_or_else(|_| {
        complain("cannot start: the system gives no thread or no signal handler");
        ExitCode::from(OS_ERROR)
    }))
}

fn call(server: &Server, tool: &str, arguments: &Map<String, Value>, pages: Pages) -> std::io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _within = runtime.enter();
    let _too_large = survive_large_files()?;
    match server.call(tool, arguments, pages) {
        Err(refusal) => {
            complain(&refusal.to_string());
            Ok(ExitCode::from(1))
        }
        Ok(answer) => {
            if let Some(counts) = answer.skipped {
                complain(&format!("skipped: {counts}"));
            }
            Ok(print(&format!("{}\n", answer.json)))
        }
    }
}

fn serve(server: Server) -> std::io::Result<ExitCode> {
    if !server.can_write() {
        complain(
            "no --include pattern matches a file in the root itself, so write_text_file will refuse every call; add one \
             such as --include '*.md' to allow writing",
        );
    }
    if std::io::stdin().is_terminal() {
        complain("waiting for MCP messages on standard input; a host starts this program by itself (see --help)");
    }
    let queue = diagnostics::show_own_warnings()?;
    let panics = queue.clone();
    std::panic::set_hook(Box::new(move |panic| panics.say(&place(panic))));
    // One thread for all messages: of two, each message would wake both. Tools have threads of their own.
    // Not more of those than calls at work: a place is free a moment before its thread is, and each thread that is started
    // in that moment keeps memory of its own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(Limits::DEFAULT.long_calls + Limits::DEFAULT.short_calls)
        .thread_stack_size(STACK)
        .enable_all()
        .build()?;
    let ended = runtime.block_on(async {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let _too_large = survive_large_files()?;
        tokio::select! {
            served = server.serve_stdio() => served?,
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(ExitCode::SUCCESS)
    });
    // A blocking thread may sit in a read of standard input, or in a call that nobody waits for.
    runtime.shutdown_background();
    queue.finish();
    ended
}

/// By default the process ends in the middle of a write that passes the file size limit.
fn survive_large_files() -> std::io::Result<Signal> {
    signal(SignalKind::from_raw(SIGXFSZ))
}

fn print(text: &str) -> ExitCode {
    let mut stdout = std::io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(1),
    }
}

/// One line on standard error; where nobody reads it, nothing can be said.
fn complain(line: &str) {
    writeln!(std::io::stderr(), "{line}").ok();
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
