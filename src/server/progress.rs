//! What a client that asked for it hears of a call that takes long.

use rmcp::RoleServer;
use rmcp::model::{
    NumberOrString, ProgressNotification, ProgressNotificationParam, ProgressToken, RequestMetaObject,
    ServerNotification,
};
use rmcp::service::RequestContext;
use std::convert::Infallible;
use std::time::Duration;

use crate::root::{Done, Watch};

/// A shorter call is not spoken of.
const FIRST: Duration = Duration::from_millis(250);

/// Eight notifications a second at most.
const EVERY: Duration = Duration::from_millis(125);

/// A longer token is not repeated, in bytes.
const LONGEST_TOKEN: usize = 1024;

/// Tells the client of a request how far its call has come, for as long as this is polled: every time more than before,
/// which is the directory entries met and the bytes read together. Without a token, and while nothing was done, it is
/// silent.
pub(super) async fn tell(watch: &Watch, context: &RequestContext<RoleServer>) -> Infallible {
    let Some(token) = token(&context.meta) else { return std::future::pending().await };
    let mut told = 0.0;
    tokio::time::sleep(FIRST).await;
    loop {
        let Done { entries, bytes } = watch.done();
        let progress = entries as f64 + bytes as f64;
        if progress > told {
            told = progress;
            let mut param = ProgressNotificationParam::new(token.clone(), progress);
            param.message = Some(format!("{entries} directory entries met, {bytes} bytes read"));
            let mut notification = ProgressNotification::new(param);
            // By this the transport knows whether the request is still waited for.
            notification.extensions.insert(context.id.clone());
            context.peer.send_notification(ServerNotification::ProgressNotification(notification)).await.ok();
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn token(meta: &RequestMetaObject) -> Option<ProgressToken> {
    meta.get_progress_token().filter(|token| match &token.0 {
        NumberOrString::Number(_) => true,
        NumberOrString::String(text) => text.len() <= LONGEST_TOKEN,
    })
}
