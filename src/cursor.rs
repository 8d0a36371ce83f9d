//! Cursors that fail rather than tear: where a traversal stands, what it is, and the state that its pages rest on,
//! signed so that nobody else can make one.
//!
//! A cursor is two base64url words with a dot between them: the fields, and an HMAC-SHA256 over the first word as it
//! is spelled. States are keyed digests, so a cursor discloses no inode, device or size. Checks run in a fixed order:
//! signature, scope, state, position.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::error::{ConfigError, ToolError};

/// Longest cursor that is looked at, in characters.
const MAX_CHARS: usize = 4096;

/// Most numbers of a position.
const MAX_POSITION: usize = 8;

/// Length of a key, in bytes: SHA-256's block, which HMAC uses as it is.
const KEY: usize = 64;

/// The key of one process. Cursors of another process do not verify under it.
#[derive(Clone)]
pub(crate) struct Key([u8; KEY]);

impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Key(..)")
    }
}

/// A keyed digest of a scope or a state.
pub(crate) type Digest = [u8; 32];

/// A verified cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The tool, its arguments, and the options that decide what is served.
    pub(crate) scope: Digest,
    /// What the traversal's pages rest on.
    pub(crate) state: Digest,
    /// When that was observed, in nanoseconds since 1970: what was racy then stays so for this cursor.
    pub(crate) observed: i128,
    /// Where the next page begins; the tool knows what the numbers mean.
    pub(crate) position: Vec<u64>,
}

impl Key {
    /// A key from the system's random source.
    pub(crate) fn random() -> Result<Self, ConfigError> {
        let mut key = [0; KEY];
        getrandom::fill(&mut key).map_err(|_| ConfigError::NoRandomness)?;
        Ok(Self(key))
    }

    /// Begins a digest of the fields of `what`.
    pub(crate) fn digest(&self, what: &'static str) -> Digester {
        let mut digester = Digester(self.mac());
        digester.field(what.as_bytes());
        digester
    }

    /// The cursor in the one spelling that will be accepted.
    pub(crate) fn seal(&self, cursor: &Cursor) -> String {
        let mut fields = Vec::with_capacity(2 * 32 + 16 + 8 * cursor.position.len());
        fields.extend_from_slice(&cursor.scope);
        fields.extend_from_slice(&cursor.state);
        fields.extend_from_slice(&cursor.observed.to_le_bytes());
        cursor.position.iter().for_each(|number| fields.extend_from_slice(&number.to_le_bytes()));
        let fields = URL_SAFE_NO_PAD.encode(fields);
        let signature = self.signature(&fields);
        format!("{fields}.{signature}")
    }

    /// Verifies a cursor against the scope of the call that brings it.
    ///
    /// # Errors
    /// [`ToolError::BadCursor`] for anything this key did not seal, in any other spelling too;
    /// [`ToolError::OtherTraversal`] when its scope is another.
    pub(crate) fn open(&self, text: &str, scope: &Digest) -> Result<Cursor, ToolError> {
        if text.len() > MAX_CHARS {
            return Err(ToolError::BadCursor);
        }
        let (fields, signature) = text.split_once('.').ok_or(ToolError::BadCursor)?;
        if !self.equal(signature, &self.signature(fields)) {
            return Err(ToolError::BadCursor);
        }
        let fields = URL_SAFE_NO_PAD.decode(fields).map_err(|_| ToolError::BadCursor)?;
        let cursor = decode(&fields).ok_or(ToolError::BadCursor)?;
        if cursor.scope == *scope { Ok(cursor) } else { Err(ToolError::OtherTraversal) }
    }

    fn signature(&self, fields: &str) -> String {
        let mut digester = self.digest("cursor");
        digester.field(fields.as_bytes());
        URL_SAFE_NO_PAD.encode(digester.finish())
    }

    /// Compares two spellings in constant time, by comparing a MAC of each.
    fn equal(&self, given: &str, expected: &str) -> bool {
        let mut mac = self.mac();
        mac.update(expected.as_bytes());
        let expected = mac.finalize().into_bytes();
        let mut mac = self.mac();
        mac.update(given.as_bytes());
        mac.verify_slice(&expected).is_ok()
    }

    fn mac(&self) -> Hmac<Sha256> {
        Hmac::<Sha256>::new(&self.0.into())
    }
}

fn decode(fields: &[u8]) -> Option<Cursor> {
    let (scope, rest) = fields.split_first_chunk::<32>()?;
    let (state, rest) = rest.split_first_chunk::<32>()?;
    let (observed, rest) = rest.split_first_chunk::<16>()?;
    let (numbers, []) = rest.as_chunks::<8>() else { return None };
    if numbers.len() > MAX_POSITION {
        return None;
    }
    Some(Cursor {
        scope: *scope,
        state: *state,
        observed: i128::from_le_bytes(*observed),
        position: numbers.iter().map(|number| u64::from_le_bytes(*number)).collect(),
    })
}

/// Digests fields one by one; each is preceded by its length, so that no two lists of fields read alike.
pub(crate) struct Digester(Hmac<Sha256>);

impl Digester {
    pub(crate) fn field(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> Digest {
        self.0.finalize().into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPE: Digest = [1; 32];

    fn key() -> Key {
        Key([7; KEY])
    }

    fn cursor() -> Cursor {
        Cursor { scope: SCOPE, state: [2; 32], observed: -5, position: vec![1, u64::MAX] }
    }

    #[test]
    fn a_sealed_cursor_opens_to_what_was_sealed() {
        assert_eq!(key().open(&key().seal(&cursor()), &SCOPE), Ok(cursor()));
    }

    #[test]
    fn no_other_spelling_opens() {
        let sealed = key().seal(&cursor());
        for index in 0..sealed.len() {
            for replacement in ['A', 'B', '_', '.', '=', ' '] {
                let mut text: Vec<char> = sealed.chars().collect();
                if text[index] != replacement {
                    text[index] = replacement;
                    let text: String = text.into_iter().collect();
                    assert_eq!(key().open(&text, &SCOPE), Err(ToolError::BadCursor), "{index} {replacement}");
                }
            }
            assert_eq!(key().open(sealed.split_at(index).0, &SCOPE), Err(ToolError::BadCursor));
        }
        for text in [format!("{sealed}="), format!("{sealed} "), sealed.replace('.', ".."), String::new(), ".".into()] {
            assert_eq!(key().open(&text, &SCOPE), Err(ToolError::BadCursor));
        }
    }

    #[test]
    fn a_cursor_of_another_key_or_scope_is_refused() {
        let sealed = key().seal(&cursor());
        assert_eq!(Key([8; KEY]).open(&sealed, &SCOPE), Err(ToolError::BadCursor));
        assert_eq!(key().open(&sealed, &[9; 32]), Err(ToolError::OtherTraversal));
    }

    #[test]
    fn a_long_text_is_refused_unread() {
        assert_eq!(key().open(&"A".repeat(MAX_CHARS + 1), &SCOPE), Err(ToolError::BadCursor));
    }

    #[test]
    fn digests_tell_lists_of_fields_apart() {
        let digest = |fields: &[&str]| {
            let mut digester = key().digest("t");
            fields.iter().for_each(|field| digester.field(field.as_bytes()));
            digester.finish()
        };
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_ne!(digest(&["a"]), digest(&["a", ""]));
        assert_ne!(digest(&[]), digest(&["t"]));
    }
}
