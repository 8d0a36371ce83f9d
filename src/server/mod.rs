//! The tools as an MCP server: what it is made of, and one connection from its beginning to its end.

mod answer;
mod ask;
mod calls;
mod legacy;
mod meta;
mod progress;
mod service;

use rmcp::service::serve_directly_with_ct;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use answer::Identity;
use calls::Lanes;

use crate::cursor::Key;
use crate::error::ConfigError;
use crate::root::{Root, Watch};
use crate::tools::{Context, Offer, Tool};
use crate::transport::Lines;

/// A server over one root. Clones share the root, the key of its cursors, and the places for calls at work; each has its
/// own tools and identity.
#[derive(Debug, Clone)]
pub struct Server {
    shared: Arc<Shared>,
    tools: Offer,
    identity: Identity,
    /// Whether requests of the 2025 era are served, too.
    legacy: bool,
    #[cfg(feature = "test-hooks")]
    test_tools: bool,
    /// Cancelled when the input of the connection has ended.
    ended: CancellationToken,
    /// Cancelled when its output is gone.
    gone: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    root: Root,
    key: Key,
    lanes: Lanes,
}

impl Server {
    /// A server with all tools, and a fresh key for its cursors.
    ///
    /// ```
    /// # use ptc_fs_mcp::{Config, Root, Server};
    /// let config = Config::builder().root(".").include("**/*.md").build()?;
    /// let server = Server::new(Root::open_ambient(&config)?)?;
    /// # drop(server);
    /// # Ok::<(), ptc_fs_mcp::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// [`ConfigError::NoRandomness`] when the system gives no random bytes.
    pub fn new(root: Root) -> Result<Self, ConfigError> {
        let lanes = Lanes::new(root.limits());
        Ok(Self {
            shared: Arc::new(Shared { root, key: Key::random()?, lanes }),
            tools: Offer::default(),
            identity: Identity::default(),
            legacy: false,
            #[cfg(feature = "test-hooks")]
            test_tools: false,
            ended: CancellationToken::new(),
            gone: CancellationToken::new(),
        })
    }

    /// Offers these of its tools only: names of tools, and the sets `read-only`, `default` and `all`. A tool that is not
    /// named does not exist for clients, nor for this method if it is called again: it can only narrow.
    ///
    /// ```
    /// # use ptc_fs_mcp::{Config, Root, Server};
    /// # let config = Config::builder().root(".").include("**").build()?;
    /// let server = Server::new(Root::open_ambient(&config)?)?;
    /// let reader = server.clone().with_tools(["read_text_file", "search_text"])?;
    /// assert!(server.offers("write_text_file") && !reader.offers("write_text_file"));
    /// # Ok::<(), ptc_fs_mcp::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// [`ConfigError::UnknownTool`], or [`ConfigError::NoTools`] when none is named.
    pub fn with_tools<S: AsRef<str>>(self, names: impl IntoIterator<Item = S>) -> Result<Self, ConfigError> {
        Ok(Self { tools: self.tools.narrowed(names)?, ..self })
    }

    /// Tells clients this name and version instead of `ptc-fs-mcp` and [`crate::VERSION`].
    ///
    /// ```
    /// # use ptc_fs_mcp::{Config, Root, Server};
    /// # let server = Server::new(Root::open_ambient(&Config::builder().root(".").include("**").build()?)?)?;
    /// let server = server.with_identity("notes", "2.1.0")?;
    /// # drop(server);
    /// # Ok::<(), ptc_fs_mcp::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// [`ConfigError::Identity`] when one of them is empty, longer than 64 characters, or holds a control character.
    pub fn with_identity(self, name: impl Into<String>, version: impl Into<String>) -> Result<Self, ConfigError> {
        Ok(Self { identity: Identity::new(name.into(), version.into())?, ..self })
    }

    /// Also serves clients that open with the `initialize` of 2025-11-25 or 2025-06-18: the same tools, with the same
    /// results. Whether a request is of that era is decided for each one, by what its `_meta` lacks.
    ///
    /// ```
    /// # use ptc_fs_mcp::{Config, Root, Server};
    /// # let server = Server::new(Root::open_ambient(&Config::builder().root(".").include("**").build()?)?)?;
    /// let server = server.accept_legacy();
    /// # drop(server);
    /// # Ok::<(), ptc_fs_mcp::ConfigError>(())
    /// ```
    #[must_use]
    pub fn accept_legacy(self) -> Self {
        Self { legacy: true, ..self }
    }

    /// Lets a search for `panic` panic, and has a tool `echo`, not listed, that returns its `text`. Tests only.
    #[cfg(feature = "test-hooks")]
    #[must_use]
    pub fn test_tools(self) -> Self {
        Self { test_tools: true, ..self }
    }

    /// Whether a tool of that name is offered.
    ///
    /// ```
    /// # use ptc_fs_mcp::{Config, Root, Server};
    /// # let server = Server::new(Root::open_ambient(&Config::builder().root(".").include("**").build()?)?)?;
    /// assert!(server.offers("read_text_file"));
    /// assert!(!server.offers("run_command"));
    /// # Ok::<(), ptc_fs_mcp::ConfigError>(())
    /// ```
    #[must_use]
    pub fn offers(&self, tool: &str) -> bool {
        self.find(tool).is_some()
    }

    /// Whether a write could ever succeed: a tool that writes is offered, and some include can match a file directly in
    /// the root.
    ///
    /// ```
    /// # use ptc_fs_mcp::{Config, Root, Server};
    /// # let server = Server::new(Root::open_ambient(&Config::builder().root(".").include("*.md").build()?)?)?;
    /// assert!(server.can_write());
    /// assert!(!server.with_tools(["read-only"])?.can_write());
    /// # Ok::<(), ptc_fs_mcp::ConfigError>(())
    /// ```
    #[must_use]
    pub fn can_write(&self) -> bool {
        self.tools.iter().any(|tool| tool.writes) && self.shared.root.selector().serves_root_level()
    }

    /// Serves one client over a stream of bytes, one message a line, until the input ends. Calls in flight are then given
    /// a second to finish, and what was answered is written for as long as it is read. Two streams are made one by
    /// `tokio::io::join`. To end it from this side, drop the future or abort its task.
    ///
    /// What whoever runs the program should know goes to `tracing` under the target `ptc_fs_mcp`. At the level of debug, the
    /// target `rmcp` logs whole requests, and with them content: a subscriber should not show it.
    ///
    /// Needs a tokio runtime with its timer (`enable_time`), whose blocking threads are more than
    /// [`crate::Limits::long_calls`], or short calls wait for long ones.
    ///
    /// ```
    /// # use ptc_fs_mcp::{Config, Root, Server};
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # let server = Server::new(Root::open_ambient(&Config::builder().root(".").include("**").build()?)?)?;
    /// # runtime.block_on(async {
    /// let (client, transport) = tokio::io::duplex(4096);
    /// let serving = tokio::spawn(server.serve(transport));
    /// // A client speaks over its end, and closes it.
    /// drop(client);
    /// serving.await
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn serve(self, transport: impl AsyncRead + AsyncWrite + Send + 'static) {
        let lines = Lines::over(transport, self.longest_line());
        self.serve_lines(lines).await;
    }

    /// The same over standard input and output, whatever these are connected to. Once in a process, which leaves both to
    /// the server from then on.
    ///
    /// ```no_run
    /// # use ptc_fs_mcp::{Config, Root, Server};
    /// # let server = Server::new(Root::open_ambient(&Config::builder().root(".").include("**").build()?)?)?;
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// runtime.block_on(server.serve_stdio())?;
    /// runtime.shutdown_background(); // a thread may sit in a read of standard input
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the system gives no further thread.
    pub async fn serve_stdio(self) -> std::io::Result<()> {
        let lines = Lines::stdio(self.longest_line())?;
        self.serve_lines(lines).await;
        Ok(())
    }

    async fn serve_lines(self, lines: Lines) {
        let server = Self { ended: lines.ended(), gone: lines.gone(), ..self };
        let running = serve_directly_with_ct(server, lines, None, CancellationToken::new());
        if let Err(error) = running.waiting().await {
            tracing::error!("the connection's task failed: {}", if error.is_panic() { "panic" } else { "cancelled" });
        }
    }

    pub(crate) fn find(&self, tool: &str) -> Option<&'static Tool> {
        self.tools.find(tool)
    }

    pub(crate) fn context<'a>(&'a self, watch: &'a Watch) -> Context<'a> {
        self.shared.context(watch)
    }

    /// A line holds a write of the largest content, in which every byte may be escaped to six, or 16 MiB.
    fn longest_line(&self) -> usize {
        let content = self.shared.root.limits().max_write_bytes.saturating_mul(6).saturating_add(64 << 10);
        usize::try_from(content).unwrap_or(usize::MAX).max(16 << 20)
    }
}

impl Shared {
    fn context<'a>(&'a self, watch: &'a Watch) -> Context<'a> {
        Context { root: &self.root, key: &self.key, watch }
    }
}
