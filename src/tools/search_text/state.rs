//! What a traversal's cursor holds: where it stands, and the state that its pages rest on.

use crate::cursor::{Digest, Digester};
use crate::root::{DIGESTED, Fact, Moment};
use crate::text::Mark;

/// Bytes of racy files that one page digests at most: a tree full of busy logs costs no more than that.
const ALLOWANCE: u64 = 64 << 20;

/// Where a traversal stands: in which file of the scope, and where in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    pub(super) file: u64,
    pub(super) mark: Mark,
}

impl Position {
    /// Whether pages before this position have read anything of a file.
    pub(super) fn searched(&self, file: u64) -> bool {
        file < self.file || (file == self.file && self.mark != Mark::default())
    }

    /// `hit` and `broken` share a number: 0 for a line with neither, 1 for a broken one, and so on.
    pub(super) fn encode(&self) -> [u64; 6] {
        let Mark { lines, line_start, offset, hit, broken } = self.mark;
        let flags = u64::from(broken) | (u64::from(hit.is_some()) << 1);
        [self.file, lines, line_start, offset, hit.unwrap_or_default(), flags]
    }

    pub(super) fn decode([file, lines, line_start, offset, hit, flags]: [u64; 6]) -> Self {
        let hit = (flags & 2 != 0).then_some(hit);
        Self { file, mark: Mark { lines, line_start, offset, hit, broken: flags & 1 != 0 } }
    }
}

/// The state of a scope as it is observed at one time.
pub(super) struct State {
    digester: Digester,
    at: Moment,
    /// Bytes of racy files that may yet be digested. Files come in one order, so issue and resume spend it alike.
    allowance: u64,
}

impl State {
    pub(super) fn at(at: Moment, digester: Digester) -> Self {
        Self { digester, at, allowance: ALLOWANCE }
    }

    /// Whether a file's content belongs to the state beside its fingerprint.
    pub(super) fn wants(&self, fact: &Fact) -> bool {
        fact.racy(self.at) && fact.size <= self.allowance.min(DIGESTED)
    }

    /// Adds the next file.
    pub(super) fn add(&mut self, path: &str, fact: &Fact, content: Option<[u8; 32]>) {
        let content = content.filter(|_| self.wants(fact));
        if content.is_some() {
            self.allowance -= fact.size;
        }
        self.digester.field(path.as_bytes());
        self.digester.field(&fact.fingerprint());
        self.digester.field(content.as_ref().map_or(&[], <[u8; 32]>::as_slice));
    }
    pub(super) fn finish(self) -> Digest {
        self.digester.finish()
    }
}
