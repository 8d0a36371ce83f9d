//! The tools as an MCP server, revision 2026-07-28: which method gets which answer.
//!
//! rmcp's `Service` is implemented directly, not its `ServerHandler`: one `match` over the request shows every method
//! there is, and the checks of `_meta` stand before it for all of them. Tool work runs on blocking threads, so that a
//! slow disk or a panic in a tool cannot take the connection with it.

mod answer;
mod meta;

use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientNotification, ClientRequest, ErrorCode, ListToolsResult, ServerConfig,
    ServerResult,
};
use rmcp::service::{NotificationContext, RequestContext, Service, serve_directly_with_ct};
use rmcp::transport::IntoTransport;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::cursor::Key;
use crate::error::{ConfigError, ToolError};
use crate::root::Root;
use crate::tools::{self, Context, Tool};
use crate::transport::Lines;

/// What calls in flight are given to finish after the end of input.
const GRACE: Duration = Duration::from_secs(1);

/// A server over one root. Clones share it.
#[derive(Debug, Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    root: Root,
    key: Key,
    /// One permit a tool call at work.
    calls: Semaphore,
}

impl Server {
    /// A server with a fresh key for its cursors.
    ///
    /// # Errors
    /// [`ConfigError::NoRandomness`] when the system gives no random bytes.
    pub fn new(root: Root) -> Result<Self, ConfigError> {
        let calls = Semaphore::new(root.limits().concurrent_calls);
        Ok(Self { shared: Arc::new(Shared { root, key: Key::random()?, calls }) })
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
    /// Needs a tokio runtime.
    ///
    /// # Errors
    /// When the system gives no further thread.
    pub fn stdio_lines(&self) -> std::io::Result<Lines> {
        Lines::stdio(self.longest_line())
    }

    /// Serves until the transport's input ends; calls in flight are then given a second to finish.
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
    pub async fn serve<T, E, A>(self, transport: T)
    where
        T: IntoTransport<RoleServer, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        // rmcp gives calls five seconds after the end of input and does not cancel them.
        let ended = CancellationToken::new();
        let transport = crate::transport::Ending { inner: transport.into_transport(), ended: ended.clone() };
        let running = serve_directly_with_ct(self, transport, None, CancellationToken::new());
        tokio::select! {
            result = running.waiting() => {
                if let Err(error) = result {
                    tracing::error!("the connection's task failed: {}", if error.is_panic() { "panic" } else { "cancelled" });
                }
            }
            () = async { ended.cancelled().await; tokio::time::sleep(GRACE).await } => {}
        }
    }

    pub(crate) fn context(&self) -> Context<'_> {
        Context { root: &self.shared.root, key: &self.shared.key }
    }

    /// A line holds a write of the largest content, in which every byte may be escaped to six, or 16 MiB.
    fn longest_line(&self) -> usize {
        let content = self.shared.root.limits().max_write_bytes.saturating_mul(6).saturating_add(64 << 10);
        usize::try_from(content).unwrap_or(usize::MAX).max(16 << 20)
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let tool = tools::find(&params.name).ok_or_else(|| answer::unknown_tool(&params.name))?;
        let arguments = params.arguments.unwrap_or_default();
        let cancelled = || ErrorData::internal_error("cancelled", None); // never sent: rmcp drops it
        let _permit = tokio::select! {
            permit = self.shared.calls.acquire() => permit.map_err(|_| cancelled())?,
            () = context.ct.cancelled() => return Err(cancelled()),
        };
        let server = self.clone();
        let work = tokio::task::spawn_blocking(move || {
            let result = tool.call(server.context(), &arguments);
            if let Err(error) = &result {
                note(tool, error);
            }
            answer::tool_result(result)
        });
        work.await.map_err(|_| ErrorData::internal_error("internal error", None))
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
        meta::refuse_handshake(&request, &context.meta)?;
        meta::check(&context.meta)?;
        match request {
            ClientRequest::DiscoverRequest(_) => Ok(ServerResult::DiscoverResult(answer::discover())),
            ClientRequest::ListToolsRequest(request) => match request.params.and_then(|params| params.cursor) {
                Some(_) => Err(ErrorData::invalid_params(ToolError::BadCursor.to_string(), None)),
                None => Ok(ServerResult::ListToolsResult(self.list_tools())),
            },
            ClientRequest::CallToolRequest(request) => {
                self.call_tool(request.params, &context).await.map(ServerResult::CallToolResult)
            }
            // rmcp hands on a known method with params of another shape as a custom one.
            ClientRequest::CustomRequest(request) if meta::is_served(&request.method) => {
                Err(ErrorData::invalid_params(format!("params of {} are malformed", request.method), None))
            }
            _ => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "method not found", None)),
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
