//! The tools as an MCP server, revision 2026-07-28: which method gets which answer.
//!
//! rmcp's `Service` is implemented directly, not its `ServerHandler`: one `match` over the request shows every method
//! there is, and the checks of `_meta` stand before it for all of them. Tool work runs on blocking threads, so that a
//! slow disk or a panic in a tool cannot take the connection with it.

mod answer;
mod ask;
mod meta;

use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolResult, ClientNotification, ClientRequest, ErrorCode, JsonObject, ListToolsResult, ServerConfig,
    ServerResult,
};
use rmcp::service::{NotificationContext, RequestContext, Service, serve_directly_with_ct};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use ask::Ask;

use crate::cursor::Key;
use crate::error::{ConfigError, ToolError};
use crate::root::Root;
use crate::tools::{self, Context, Tool};
use crate::transport::Lines;

/// What a call is given to finish after the end of input.
const GRACE: Duration = Duration::from_secs(1);

/// A server over one root. Clones share it.
#[derive(Debug, Clone)]
pub struct Server {
    shared: Arc<Shared>,
    /// Cancelled when the input of the connection has ended.
    ended: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    root: Root,
    key: Key,
    /// One permit a tool call at work.
    calls: Arc<Semaphore>,
}

impl Server {
    /// A server with a fresh key for its cursors.
    ///
    /// # Errors
    /// [`ConfigError::NoRandomness`] when the system gives no random bytes.
    pub fn new(root: Root) -> Result<Self, ConfigError> {
        let calls = Arc::new(Semaphore::new(root.limits().concurrent_calls.min(Semaphore::MAX_PERMITS)));
        Ok(Self { shared: Arc::new(Shared { root, key: Key::random()?, calls }), ended: CancellationToken::new() })
    }

    /// Whether there is a tool of that name.
    ///
    /// ```
    /// # use ptc_fs_mcp::{Config, Root, Server};
    /// # let server = Server::new(Root::open_ambient(Config::builder().root(".").include("**").build()?)?)?;
    /// assert!(server.offers("read_text_file"));
    /// assert!(!server.offers("run_command"));
    /// # Ok::<(), ptc_fs_mcp::ConfigError>(())
    /// ```
    #[must_use]
    pub fn offers(&self, tool: &str) -> bool {
        tools::find(tool).is_some()
    }

    /// Whether a write could ever succeed: some include can match a file directly in the root.
    #[must_use]
    pub fn can_write(&self) -> bool {
        self.shared.root.selector().serves_root_level()
    }

    /// Messages over a pair of byte streams, one a line, bounded as this server's limits say.
    ///
    /// Needs a tokio runtime.
    #[must_use]
    pub fn lines(
        &self,
        read: impl tokio::io::AsyncRead + Unpin + Send + 'static,
        write: impl tokio::io::AsyncWrite + Unpin + Send + 'static,
    ) -> Lines {
        Lines::over(read, write, self.longest_line())
    }

    /// Messages over standard input and output, one a line, whatever these are connected to.
    ///
    /// # Errors
    /// When the system gives no further thread.
    pub fn stdio_lines(&self) -> std::io::Result<Lines> {
        Lines::stdio(self.longest_line())
    }

    /// Serves until the input ends; calls in flight are then given a second to finish, and what was answered is written
    /// for as long as it is read. Needs a tokio runtime with its timer.
    ///
    /// ```
    /// # use ptc_fs_mcp::{Config, Root, Server};
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # let server = Server::new(Root::open_ambient(Config::builder().root(".").include("**").build()?)?)?;
    /// # runtime.block_on(async {
    /// let (client, server_side) = tokio::io::duplex(4096);
    /// let (read, write) = tokio::io::split(server_side);
    /// let lines = server.lines(read, write);
    /// drop(client); // the end of input
    /// server.serve(lines).await;
    /// # });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn serve(self, lines: Lines) {
        let server = Self { ended: lines.ended(), ..self };
        let running = serve_directly_with_ct(server, lines, None, CancellationToken::new());
        if let Err(error) = running.waiting().await {
            tracing::error!("the connection's task failed: {}", if error.is_panic() { "panic" } else { "cancelled" });
        }
    }

    pub(crate) fn context<'a>(&'a self, stopped: &'a dyn Fn() -> bool) -> Context<'a> {
        Context { root: &self.shared.root, key: &self.shared.key, stopped }
    }

    /// A line holds a write of the largest content, in which every byte may be escaped to six, or 16 MiB.
    fn longest_line(&self) -> usize {
        let content = self.shared.root.limits().max_write_bytes.saturating_mul(6).saturating_add(64 << 10);
        usize::try_from(content).unwrap_or(usize::MAX).max(16 << 20)
    }

    /// Whatever ends the call also stops its work. The permit goes with the work, until its thread has noticed.
    async fn call_tool(
        &self,
        tool: &'static Tool,
        arguments: JsonObject,
        cancelled: CancellationToken,
    ) -> Result<CallToolResult, ErrorData> {
        let stop = cancelled.child_token();
        let _stopped = stop.clone().drop_guard();
        let overdue = async {
            self.ended.cancelled().await;
            tokio::time::sleep(GRACE).await;
            ErrorData::internal_error("the input ended before the call did", None)
        };
        tokio::select! {
            result = self.work(tool, arguments, stop) => result,
            error = overdue => Err(error),
            () = cancelled.cancelled() => Err(ErrorData::internal_error("cancelled", None)), // rmcp drops it
        }
    }

    async fn work(
        &self,
        tool: &'static Tool,
        arguments: JsonObject,
        stop: CancellationToken,
    ) -> Result<CallToolResult, ErrorData> {
        let failed = || ErrorData::internal_error("internal error", None);
        let permit = self.shared.calls.clone().acquire_owned().await.map_err(|_| failed())?;
        let server = self.clone();
        let work = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let result = tool.call(server.context(&|| stop.is_cancelled()), &arguments);
            if let Err(error) = &result {
                note(tool, error);
            }
            answer::tool_result(result)
        });
        work.await.map_err(|_| failed())
    }
}

/// For whoever runs the server: what the system said, which no client hears. Neither paths nor content.
fn note(tool: &Tool, error: &ToolError) {
    if let Some(number) = error.os_error() {
        tracing::warn!("{}: {error} (os error {number})", tool.name);
    }
}

impl Service<RoleServer> for Server {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let ask = Ask::of(request);
        if let Ask::Initialize { requested } = &ask {
            meta::refuse_handshake(requested, &context.meta)?;
        }
        meta::check(&context.meta)?;
        match ask {
            Ask::Discover => Ok(ServerResult::DiscoverResult(answer::discover())),
            Ask::ListTools { cursor: false } => Ok(ServerResult::ListToolsResult(self.list_tools())),
            Ask::ListTools { cursor: true } => Err(ErrorData::invalid_params(ToolError::BadCursor.to_string(), None)),
            Ask::CallTool { name, arguments } => {
                let tool = tools::find(&name).ok_or_else(|| answer::unknown_tool(&name))?;
                self.call_tool(tool, arguments, context.ct).await.map(ServerResult::CallToolResult)
            }
            Ask::Malformed(what) => Err(ErrorData::invalid_params(what, None)),
            Ask::Initialize { .. } | Ask::Unknown => {
                Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "method not found", None))
            }
        }
    }

    async fn handle_notification(
        &self,
        _: ClientNotification,
        _: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // Cancellation is the transport loop's; no other notification concerns a server without state.
        Ok(())
    }

    fn get_info(&self) -> ServerConfig {
        answer::identity()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [rmcp::model::ProtocolVersion]> {
        Cow::Borrowed(meta::SUPPORTED)
    }
}

impl Server {
    fn list_tools(&self) -> ListToolsResult {
        answer::tool_list(tools::TOOLS, self.shared.root.limits())
    }
}
