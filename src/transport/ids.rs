//! Request ids: the client's outside, our own numbers inside.
//!
//! rmcp pairs answers with requests by id. With numbers that are never used twice, a late answer to a cancelled request
//! cannot be taken for the answer to a new one under the same id. And an integer may be longer than rmcp's.

use std::collections::HashMap;
use tokio::sync::OwnedSemaphorePermit;

/// A client's id: a string, or an integer of any length.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Id {
    Text(String),
    Integer(String),
}

impl Id {
    /// From valid JSON; `None` for what is neither.
    pub(super) fn parse(json: &str) -> Option<Self> {
        if json.starts_with('"') {
            return serde_json::from_str(json).ok().map(Self::Text);
        }
        let digits = json.strip_prefix('-').unwrap_or(json);
        let integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        integer.then(|| Self::Integer(json.to_owned()))
    }

    pub(super) fn json(&self) -> String {
        match self {
            Self::Integer(digits) => digits.clone(),
            Self::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
        }
    }
}

/// The requests in flight, each with the room that its answer will take.
#[derive(Debug, Default)]
pub(super) struct Ids {
    next: i64,
    ours: HashMap<Id, i64>,
    theirs: HashMap<i64, (Id, OwnedSemaphorePermit)>,
}

impl Ids {
    /// A number for a new request, or its room back while its id is in use.
    pub(super) fn admit(&mut self, theirs: Id, room: OwnedSemaphorePermit) -> Result<i64, (Id, OwnedSemaphorePermit)> {
        if self.ours.contains_key(&theirs) {
            return Err((theirs, room));
        }
        let number = self.next;
        self.next += 1;
        self.ours.insert(theirs.clone(), number);
        self.theirs.insert(number, (theirs, room));
        Ok(number)
    }

    /// Whether a request is still to be answered.
    pub(super) fn waits(&self, ours: i64) -> bool {
        self.theirs.contains_key(&ours)
    }

    /// The client's id of a request that is now answered; `None` when it was cancelled.
    pub(super) fn answer(&mut self, ours: i64) -> Option<(Id, OwnedSemaphorePermit)> {
        let (theirs, room) = self.theirs.remove(&ours)?;
        self.ours.remove(&theirs);
        Some((theirs, room))
    }

    /// The number of a request that the client no longer waits for. Its id may be used again at once.
    pub(super) fn cancel(&mut self, theirs: &Id) -> Option<i64> {
        let number = self.ours.remove(theirs)?;
        self.theirs.remove(&number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::sync::Semaphore;

    fn room() -> OwnedSemaphorePermit {
        Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap()
    }

    fn id(json: &str) -> Id {
        Id::parse(json).unwrap()
    }

    #[test]
    fn an_id_is_a_string_or_an_integer_of_any_length() {
        for json in ["1", "-5", "0", "99999999999999999999999", "\"a\"", "\"\"", "\"\\n\""] {
            assert_eq!(id(json).json(), json);
        }
        for json in ["null", "1.5", "1.0", "1e3", "true", "[]", "{}", "-"] {
            assert_eq!(Id::parse(json), None, "{json}");
        }
        assert_eq!(id("\"\\u0061\""), id("\"a\""));
        assert_ne!(id("1"), id("\"1\""));
    }

    #[test]
    fn an_id_is_refused_while_in_use_and_free_after_its_answer() {
        let mut ids = Ids::default();
        let ours = ids.admit(id("\"a\""), room()).unwrap();
        assert!(ids.admit(id("\"a\""), room()).is_err());
        assert_eq!(ids.answer(ours).unwrap().0, id("\"a\""));
        assert_ne!(ids.admit(id("\"a\""), room()).unwrap(), ours);
    }

    #[test]
    fn a_cancelled_id_is_free_and_its_late_answer_goes_nowhere() {
        let mut ids = Ids::default();
        let first = ids.admit(id("1"), room()).unwrap();
        assert_eq!(ids.cancel(&id("1")), Some(first));
        let second = ids.admit(id("1"), room()).unwrap();
        assert!(ids.answer(first).is_none());
        assert!(!ids.waits(first) && ids.waits(second));
        assert_eq!(ids.answer(second).unwrap().0, id("1"));
        assert_eq!(ids.cancel(&id("1")), None);
    }
}
