//! Tool calls at work: their lanes, the threads they run on, and what stops them.
//!
//! Work runs on blocking threads, so that a slow disk or a panic in a tool cannot take the connection with it. Long calls
//! and short ones have places of their own; who finds none waits in order.

use rmcp::model::{CallToolResult, JsonObject};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use super::{Server, answer, progress};
use crate::config::Limits;
use crate::error::ToolError;
use crate::root::Watch;
use crate::tools::{Lane, Reply, Tool};

/// What a call is given to finish after the end of input.
const GRACE: Duration = Duration::from_secs(1);

/// One permit a call at work.
#[derive(Debug)]
pub(super) struct Lanes {
    long: Arc<Semaphore>,
    short: Arc<Semaphore>,
}

impl Lanes {
    pub(super) fn new(limits: &Limits) -> Self {
        let places = |calls: usize| Arc::new(Semaphore::new(calls.min(Semaphore::MAX_PERMITS)));
        Self { long: places(limits.long_calls), short: places(limits.short_calls) }
    }

    async fn enter(&self, lane: Lane) -> Result<OwnedSemaphorePermit, AcquireError> {
        let places = match lane {
            Lane::Long => &self.long,
            Lane::Short => &self.short,
        };
        Arc::clone(places).acquire_owned().await
    }
}

/// Stops a call's work when nobody waits for it any more, whatever the reason.
struct StopOnDrop(Arc<Watch>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Server {
    pub(super) async fn call_tool(
        &self,
        tool: &'static Tool,
        arguments: JsonObject,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let watch = StopOnDrop(Arc::default());
        let overdue = async {
            self.ended.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            result = self.work(tool, arguments, &watch.0, &context) => result,
            () = overdue => Err(ErrorData::internal_error("the input ended before the call did", None)),
            () = self.gone.cancelled() => Err(ErrorData::internal_error("the output is gone", None)), // nobody hears it
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)), // rmcp drops it
        }
    }

    /// The permit goes with the work, until its thread has noticed that it is to stop.
    async fn work(
        &self,
        tool: &'static Tool,
        arguments: JsonObject,
        watch: &Arc<Watch>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let failed = || ErrorData::internal_error("internal error", None);
        let permit = self.shared.lanes.enter(tool.lane).await.map_err(|_| failed())?;
        let server = self.clone();
        let watched = Arc::clone(watch);
        let work = move || {
            let _permit = permit;
            answer::tool_result(server.run(tool, &arguments, &watched), &server.identity)
        };
        // tokio panics where the system gives no thread, and this request would never be answered.
        let work = catch_unwind(AssertUnwindSafe(|| tokio::task::spawn_blocking(work))).map_err(|_| failed())?;
        tokio::select! {
            result = work => result.map_err(|_| failed()),
            never = progress::tell(watch, context) => match never {},
        }
    }

    fn run(&self, tool: &Tool, arguments: &JsonObject, watch: &Watch) -> Result<Reply, ToolError> {
        // A write that nobody waits for by now is not begun; one that is begun is carried to its end.
        watch.go_on()?;
        #[cfg(feature = "test-hooks")]
        assert!(
            !(self.test_tools && arguments.get("query").is_some_and(|query| query == "panic")),
            "a test asked for it"
        );
        let result = tool.call(self.context(watch), arguments);
        if let Err(error) = &result {
            note(tool, error);
        }
        result
    }
}

/// For whoever runs the server: what the system said, which no client hears. Neither paths nor content.
fn note(tool: &Tool, error: &ToolError) {
    if let Some(number) = error.os_error() {
        tracing::warn!("{}: {error} (os error {number})", tool.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Root};

    #[test]
    fn a_write_that_nobody_waits_for_is_not_begun() {
        let directory = tempfile::tempdir().unwrap();
        let config = Config::builder().root(directory.path()).include("**").build().unwrap();
        let server = Server::new(Root::open_ambient(&config).unwrap()).unwrap();
        let write = server.find("write_text_file").unwrap();
        let serde_json::Value::Object(arguments) = serde_json::json!({ "path": "new", "content": "x" }) else { return };
        let watch = Watch::default();
        watch.stop();
        assert_eq!(server.run(write, &arguments, &watch).unwrap_err(), ToolError::Cancelled);
        let listing = || server.call("list_directory", &JsonObject::new(), crate::Pages::All).unwrap().json;
        assert!(!listing().contains("new"));
        server.run(write, &arguments, &Watch::default()).unwrap();
        assert!(listing().contains("new"));
    }
}
