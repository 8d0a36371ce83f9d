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
