//! One page of a reader's result: items that fit under the ceiling, and the bytes that their hash speaks of.
//!
//! A page is fitted against the whole serialised result, in which every item stands twice: as structure, and escaped
//! once more in the text block. An item that does not fit is left to the next page, never dropped.

use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// Kept free for all of a result but its items: a cursor (twice, about 300 characters), the hash (twice), the counts
/// of what was left out, the server's name, and the frame around them. A test measures the longest.
pub(crate) const RESERVED: usize = 2_500;

/// Most items of a page; `read_text_file` has its own, smaller number.
pub(crate) const MAX_ITEMS: u64 = 200;

/// What stands in a page.
pub(crate) trait Item: Serialize {
    /// Appends the bytes that the page's `content_hash` digests for this item.
    fn evidence(&self, bytes: &mut Vec<u8>);
}

/// A page being filled.
#[derive(Debug)]
pub(crate) struct Page {
    /// The items as JSON, with commas between them.
    items: String,
    evidence: Vec<u8>,
    count: u64,
    /// Serialised size of the items, in bytes, with escapes.
    size: usize,
    room: usize,
    limit: u64,
}

/// A point to go back to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filled {
    items: usize,
    evidence: usize,
    count: u64,
    size: usize,
}

impl Page {
    /// An empty page for results of at most `ceiling` bytes and at most `limit` items.
    pub(crate) fn new(ceiling: u64, limit: u64) -> Self {
        let room = usize::try_from(ceiling).unwrap_or(usize::MAX).saturating_sub(RESERVED);
        Self { items: String::new(), evidence: Vec::new(), count: 0, size: 0, room, limit }
    }

    /// Adds an item; `false`, and nothing is added, when the page is full.
    pub(crate) fn push(&mut self, item: &impl Item) -> bool {
        if self.has_all_items() {
            return false;
        }
        // A struct of strings and numbers always serialises.
        let Ok(json) = serde_json::to_string(item) else { return false };
        let escapes = json.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
        let size = 2 * json.len() + escapes + 2;
        if self.size + size > self.room {
            return false;
        }
        if self.count > 0 {
            self.items.push(',');
        }
        self.items.push_str(&json);
        item.evidence(&mut self.evidence);
        self.count += 1;
        self.size += size;
        true
    }

    /// Whether the page holds as many items as it may.
    pub(crate) fn has_all_items(&self) -> bool {
        self.count >= self.limit
    }

    pub(crate) fn filled(&self) -> Filled {
        Filled { items: self.items.len(), evidence: self.evidence.len(), count: self.count, size: self.size }
    }

    /// Takes back everything since a point: what was read there turned out to be no single state.
    pub(crate) fn go_back(&mut self, to: Filled) {
        self.items.truncate(to.items);
        self.evidence.truncate(to.evidence);
        (self.count, self.size) = (to.count, to.size);
    }

    pub(crate) fn into_parts(self) -> (String, Vec<u8>) {
        (self.items, self.evidence)
    }
}

/// `sha256:` and the lower-case digest of the bytes.
pub(crate) fn content_hash(bytes: &[u8]) -> String {
    let mut text = String::from("sha256:");
    for byte in Sha256::digest(bytes) {
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from_digit(nibble.into(), 16).unwrap_or_default());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Text(String);

    impl Item for Text {
        fn evidence(&self, bytes: &mut Vec<u8>) {
            bytes.extend_from_slice(self.0.as_bytes());
        }
    }

    #[test]
    fn an_items_size_is_its_size_in_the_serialised_result() {
        for text in ["", "plain", "\"quoted\\\"", "\u{1}\u{1f}\n\t", "é\u{1f600}\u{7f}\u{2028}"] {
            let mut page = Page::new(1 << 20, 10);
            assert!(page.push(&Text(text.to_owned())) && page.push(&Text(text.to_owned())));
            let size = page.size;
            let (items, _) = page.into_parts();
            let block = serde_json::to_string(&items).unwrap();
            // Two commas of room stand for the one between the items; the block's own quotes belong to the frame.
            assert_eq!(size, items.len() + block.len() - 2 + 2, "{text:?}");
        }
    }

    #[test]
    fn a_full_page_takes_nothing_more_and_loses_nothing() {
        let mut page = Page::new(RESERVED as u64 + 40, 10);
        assert!(page.push(&Text("12345678".to_owned())));
        let before = page.filled();
        assert!(!page.push(&Text("1234567890".to_owned())));
        assert_eq!(page.filled().items, before.items);
        let mut page = Page::new(1 << 20, 1);
        assert!(page.push(&Text("a".to_owned())) && !page.push(&Text("b".to_owned())));
    }

    #[test]
    fn going_back_leaves_no_trace() {
        let mut page = Page::new(1 << 20, 10);
        page.push(&Text("a".to_owned()));
        let point = page.filled();
        page.push(&Text("b".to_owned()));
        page.go_back(point);
        assert_eq!(page.into_parts(), ("\"a\"".to_owned(), b"a".to_vec()));
    }

    #[test]
    fn the_hash_is_sha256_in_lower_case_hex() {
        assert_eq!(content_hash(b""), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
