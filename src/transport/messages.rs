//! Between this transport's messages and rmcp's.

use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotificationParam, ClientNotification, ClientRequest, CustomRequest, JsonRpcMessage, JsonRpcNotification,
    MetaObject, Notification, RequestId, RequestMetaObject, ServerNotification,
};
use rmcp::service::RxJsonRpcMessage;
use serde::Serialize;
use serde_json::{Map, Value};
use std::io;

use super::ids::Id;

/// A request as it came, with `_meta` where rmcp looks for it.
pub(super) fn request(method: String, mut params: Option<Map<String, Value>>) -> ClientRequest {
    let meta = params.as_mut().and_then(|params| params.shift_remove("_meta"));
    let mut request = CustomRequest::new(method, params.map(Value::Object));
    if let Some(Value::Object(meta)) = meta {
        request.extensions.insert(RequestMetaObject::from(MetaObject::from(meta)));
    }
    ClientRequest::CustomRequest(request)
}

/// The cancellation of the request that has this number of ours.
pub(super) fn cancellation(ours: i64) -> RxJsonRpcMessage<RoleServer> {
    let params = CancelledNotificationParam::new(Some(RequestId::Number(ours)), None);
    JsonRpcMessage::notification(ClientNotification::CancelledNotification(Notification::new(params)))
}

/// An answer's line, whose one member besides the id is `result` or `error`.
pub(super) fn answer(id: &Id, member: &str, value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"{member}\":", id.json()).into_bytes();
    serde_json::to_writer(&mut line, value)?;
    line.extend_from_slice(b"}\n");
    Ok(line)
}

/// Our number of the request whose progress a notification tells.
pub(super) fn progress_of(message: &JsonRpcNotification<ServerNotification>) -> Option<i64> {
    match &message.notification {
        ServerNotification::ProgressNotification(progress) => match progress.extensions.get::<RequestId>() {
            Some(RequestId::Number(ours)) => Some(*ours),
            _ => None,
        },
        _ => None,
    }
}

/// A notification's line.
pub(super) fn notification(message: &JsonRpcNotification<ServerNotification>) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}
