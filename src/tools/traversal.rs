//! What the paging tools share: the scope that a cursor is bound to, and the order of its checks.

use super::Context;
use super::arguments::Arguments;
use crate::cursor::{Cursor, Digest, Digester};
use crate::error::ToolError;
use crate::root::Moment;

/// One call of a paging tool, at the beginning of a traversal or in the middle of one.
pub(super) struct Traversal<'a> {
    context: Context<'a>,
    scope: Digest,
    resumed: Option<Cursor>,
    /// When this page looks at the filesystem. Taken before it does.
    pub(super) now: Moment,
}

impl<'a> Traversal<'a> {
    /// Binds the call to its tool, its arguments (but for `cursor` and `limit`) and the options that decide what is
    /// served, and verifies the cursor's signature and scope.
    pub(super) fn begin(
        context: Context<'a>,
        tool: &'static str,
        arguments: Arguments<'_>,
        bound: &[&str],
    ) -> Result<Self, ToolError> {
        let limits = context.root.limits();
        let mut scope = context.key.digest("scope");
        scope.field(tool.as_bytes());
        bound.iter().for_each(|argument| scope.field(argument.as_bytes()));
        scope.field(context.root.selector().fingerprint());
        scope.field(&limits.max_file_bytes.map_or([0; 8], u64::to_le_bytes));
        scope.field(&limits.max_depth.to_le_bytes());
        scope.field(&[limits.allow_mounts.into(), limits.deny_hardlinks.into()]);
        let scope = scope.finish();
        let cursor = arguments.optional_string("cursor")?;
        let resumed = cursor.map(|text| context.key.open(text, &scope)).transpose()?;
        Ok(Self { context, scope, resumed, now: Moment::now() })
    }

    /// When the state that the cursor is bound to was observed; for a first page, now.
    pub(super) fn observed(&self) -> Moment {
        self.resumed.as_ref().map_or(self.now, |cursor| Moment(cursor.observed))
    }

    /// Where to begin; zeros for a first page.
    pub(super) fn position<const N: usize>(&self) -> Result<[u64; N], ToolError> {
        match &self.resumed {
            None => Ok([0; N]),
            Some(cursor) => cursor.position.as_slice().try_into().map_err(|_| ToolError::BadCursor),
        }
    }

    /// Begins the digest of a state.
    pub(super) fn state(&self) -> Digester {
        self.context.key.digest("state")
    }

    /// Fails when the cursor was issued over another state.
    pub(super) fn verify(&self, state: Digest) -> Result<(), ToolError> {
        match &self.resumed {
            Some(cursor) if cursor.state != state => Err(ToolError::StaleCursor),
            _ => Ok(()),
        }
    }

    /// The cursor for the next page.
    pub(super) fn next(&self, state: Digest, position: &[u64]) -> String {
        self.context.key.seal(&Cursor { scope: self.scope, state, observed: self.now.0, position: position.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Key;
    use crate::root::{Root, Watch};
    use crate::tools::reply::Content;
    use crate::{Config, RelPath, tools};
    use base64::Engine as _;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;
    use serde_json::{Value, json};

    /// The same cursor with another position, as only the holder of the key could make it.
    fn moved(key: &Key, sealed: &str, position: impl FnOnce(&mut [u64])) -> String {
        let fields = BASE64_URL_SAFE_NO_PAD.decode(sealed.split('.').next().unwrap()).unwrap();
        let mut numbers: Vec<u64> =
            fields[80..].chunks(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect();
        position(&mut numbers);
        key.seal(&Cursor {
            scope: fields[..32].try_into().unwrap(),
            state: fields[32..64].try_into().unwrap(),
            observed: i128::from_le_bytes(fields[64..80].try_into().unwrap()),
            position: numbers,
        })
    }

    // CWE-129: a position that is signed, but lies beyond what there is, is used.
    #[test]
    fn a_signed_position_out_of_range_is_no_cursor() {
        let directory = tempfile::tempdir().unwrap();
        let config = Config::builder().root(directory.path()).include("**").build().unwrap();
        let root = Root::open_ambient(&config).unwrap();
        for name in ["a1", "a2", "a3"] {
            let path = RelPath::parse(name).unwrap();
            root.replace(root.serve(&path).unwrap(), "needle\n".repeat(1000).as_bytes()).unwrap();
        }
        let (key, watch) = (Key::random().unwrap(), Watch::default());
        let context = Context { root: &root, key: &key, watch: &watch };
        for (name, arguments) in [
            ("list_directory", json!({})),
            ("search_files", json!({ "query": "a" })),
            ("search_text", json!({ "query": "needle" })),
            ("read_text_file", json!({ "path": "a1" })),
        ] {
            let tool = tools::TOOLS.iter().find(|tool| tool.name == name).unwrap();
            let call = |cursor: Option<&str>| {
                let mut arguments = arguments.as_object().unwrap().clone();
                arguments.insert("limit".to_owned(), json!(1));
                cursor.map(|cursor| arguments.insert("cursor".to_owned(), Value::from(cursor)));
                tool.call(context, &arguments).map(|reply| match reply.content {
                    Content::Page { next_cursor, .. } => next_cursor.unwrap(),
                    Content::Record(record) => record,
                })
            };
            let sealed = call(None).unwrap();
            assert!(call(Some(&moved(&key, &sealed, |_| {}))).is_ok(), "{name}");
            for beyond in [1_000_000, u64::MAX] {
                let cursor = moved(&key, &sealed, |numbers| numbers[0] = beyond);
                let refused = call(Some(&cursor)).unwrap_err();
                // Which contents belong to the state of a search depends on how far it has come.
                let stale = name == "search_text" && refused == ToolError::StaleCursor;
                assert!(stale || refused == ToolError::BadCursor, "{name} {beyond}: {refused:?}");
            }
        }
    }
}
