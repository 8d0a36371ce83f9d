//! Which method gets which answer, in revision 2026-07-28 and, where it is accepted, in those of 2025.
//!
//! rmcp's `Service` is implemented directly, not its `ServerHandler`: one `match` over the request shows every method
//! there is, and the checks of `_meta` stand before it for all of them.

use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::model::{ClientNotification, ClientRequest, ErrorCode, ServerConfig, ServerResult};
use rmcp::service::{NotificationContext, RequestContext, Service};
use std::borrow::Cow;

use super::ask::Ask;
use super::{Server, answer, legacy, meta};
use crate::error::ToolError;

impl Service<RoleServer> for Server {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let ask = Ask::of(request);
        if self.legacy && meta::is_legacy(&context.meta) {
            return match ask {
                Ask::Initialize { requested } => legacy::initialize(&requested, &self.tools, &self.identity),
                Ask::Ping => Ok(ServerResult::empty(())),
                ask => self.answer(ask, context).await.map(legacy::without_modern_members),
            };
        }
        if let Ask::Initialize { requested } = &ask {
            meta::refuse_handshake(requested, &context.meta)?;
        }
        meta::check(&context.meta)?;
        match ask {
            Ask::Discover => Ok(answer::discover(&self.tools, &self.identity).into()),
            ask => self.answer(ask, context).await,
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
        answer::config(&self.identity)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [rmcp::model::ProtocolVersion]> {
        Cow::Borrowed(meta::SUPPORTED)
    }
}

impl Server {
    /// What both eras are answered alike.
    async fn answer(&self, ask: Ask, context: RequestContext<RoleServer>) -> Result<ServerResult, ErrorData> {
        match ask {
            Ask::ListTools { cursor: false } => {
                Ok(answer::tool_list(&self.tools, self.shared.root.limits(), &self.identity).into())
            }
            Ask::ListTools { cursor: true } => Err(ErrorData::invalid_params(ToolError::BadCursor.to_string(), None)),
            #[cfg(feature = "test-hooks")]
            Ask::CallTool { name, arguments } if self.test_tools && name == "echo" => {
                Ok(ServerResult::CallToolResult(answer::echo(&arguments, &self.identity)))
            }
            Ask::CallTool { name, arguments } => {
                let tool = self.find(&name).ok_or_else(|| answer::unknown_tool(&name))?;
                self.call_tool(tool, arguments, context).await.map(ServerResult::CallToolResult)
            }
            Ask::Malformed(what) => Err(ErrorData::invalid_params(what, None)),
            Ask::Initialize { .. } | Ask::Ping | Ask::Discover | Ask::Unknown => {
                Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "method not found", None))
            }
        }
    }
}
