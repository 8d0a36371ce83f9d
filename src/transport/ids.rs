//! Request ids: the client's outside, our own numbers inside.
//!
//! rmcp pairs answers with requests by id. With numbers that are never used twice, a late answer to a cancelled request
//! cannot be taken for the answer to a new one under the same id.

use rmcp::RoleServer;
use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::service::TxJsonRpcMessage;
use std::collections::HashMap;

/// The requests in flight. As many entries as those.
#[derive(Debug, Default)]
pub(super) struct Ids {
    next: i64,
    ours: HashMap<RequestId, i64>,
    theirs: HashMap<i64, RequestId>,
}

impl Ids {
    /// A number for a new request, or `None` while its id is in use.
    pub(super) fn admit(&mut self, theirs: &RequestId) -> Option<RequestId> {
        if self.ours.contains_key(theirs) {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.ours.insert(theirs.clone(), number);
        self.theirs.insert(number, theirs.clone());
        Some(RequestId::Number(number))
    }

    /// The client's id of a request that is now answered; `None` when it was cancelled.
    pub(super) fn answer(&mut self, ours: &RequestId) -> Option<RequestId> {
        let RequestId::Number(number) = ours else { return None };
        let theirs = self.theirs.remove(number)?;
        self.ours.remove(&theirs);
        Some(theirs)
    }

    /// The number of a request that the client no longer waits for. Its id may be used again at once.
    pub(super) fn cancel(&mut self, theirs: &RequestId) -> Option<RequestId> {
        let number = self.ours.remove(theirs)?;
        self.theirs.remove(&number);
        Some(RequestId::Number(number))
    }

    /// A message to the client, with the client's id; `None` for an answer that nobody waits for.
    pub(super) fn restore(&mut self, message: TxJsonRpcMessage<RoleServer>) -> Option<TxJsonRpcMessage<RoleServer>> {
        match message {
            JsonRpcMessage::Response(mut response) => {
                response.id = self.answer(&response.id)?;
                Some(JsonRpcMessage::Response(response))
            }
            JsonRpcMessage::Error(mut error) => {
                error.id = match error.id {
                    Some(id) => Some(self.answer(&id)?),
                    None => None,
                };
                Some(JsonRpcMessage::Error(error))
            }
            other => Some(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_refused_while_in_use_and_free_after_its_answer() {
        let (mut ids, id) = (Ids::default(), RequestId::String("a".into()));
        let ours = ids.admit(&id).unwrap();
        assert_eq!(ids.admit(&id), None);
        assert_eq!(ids.answer(&ours), Some(id.clone()));
        assert_ne!(ids.admit(&id), Some(ours));
    }

    #[test]
    fn a_cancelled_id_is_free_and_its_late_answer_goes_nowhere() {
        let (mut ids, id) = (Ids::default(), RequestId::Number(1));
        let first = ids.admit(&id).unwrap();
        assert_eq!(ids.cancel(&id), Some(first.clone()));
        let second = ids.admit(&id).unwrap();
        assert_eq!(ids.answer(&first), None);
        assert_eq!(ids.answer(&second), Some(id.clone()));
        assert_eq!(ids.cancel(&id), None);
    }

    #[test]
    fn the_number_1_and_the_string_1_are_two_ids() {
        let mut ids = Ids::default();
        assert!(ids.admit(&RequestId::Number(1)).is_some() && ids.admit(&RequestId::String("1".into())).is_some());
    }
}
