//! What a tool returns, before any protocol: the structured result, and counts of what was left out.

use serde_json::{Map, Value};

use crate::page::{Page, content_hash};
use crate::root::Skipped;

/// A call's result.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) content: Content,
    pub(crate) skipped: Skipped,
}

/// The structured result.
#[derive(Debug)]
pub(crate) enum Content {
    /// Of a reader: items, and where the next ones begin.
    Page {
        /// The items as JSON, with commas between them.
        items: String,
        next_cursor: Option<String>,
        /// The bytes that `content_hash` digests.
        evidence: Vec<u8>,
    },
    /// Of a writer: one JSON object.
    Record(String),
}

impl Reply {
    pub(crate) fn page(page: Page, next_cursor: Option<String>, skipped: Skipped) -> Self {
        let (items, evidence) = page.into_parts();
        Self { content: Content::Page { items, next_cursor, evidence }, skipped }
    }

    pub(crate) fn record(json: String) -> Self {
        Self { content: Content::Record(json), skipped: Skipped::default() }
    }

    /// The structured result as JSON. A cursor's alphabet needs no escapes.
    pub(crate) fn json(&self) -> String {
        match &self.content {
            Content::Record(json) => json.clone(),
            Content::Page { items, next_cursor, evidence } => {
                let cursor = next_cursor.as_ref().map_or("null".to_owned(), |cursor| format!("\"{cursor}\""));
                let hash = content_hash(evidence);
                format!("{{\"items\":[{items}],\"next_cursor\":{cursor},\"content_hash\":\"{hash}\"}}")
            }
        }
    }
}

/// What was left out, as JSON; `None` when nothing was.
pub(crate) fn counts(skipped: &Skipped) -> Option<Map<String, Value>> {
    let counts: Map<String, Value> = skipped.counts().map(|(name, count)| (name.to_owned(), count.into())).collect();
    (!counts.is_empty()).then_some(counts)
}
