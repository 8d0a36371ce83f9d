//! Where a scan gets its bytes: from the file, or from the one read that was digested.

use crate::error::ToolError;
use crate::root::{Fact, Reading, Work, digest};

/// Where a pass gets its bytes, and what that costs.
pub(super) struct Source<'s, 'f> {
    reading: &'s mut Reading<'f>,
    /// All of the file, once it was digested: digest and evidence are of one read.
    whole: Option<Vec<u8>>,
    cost: &'s mut Cost,
    work: &'s Work<'s>,
}

impl<'s, 'f> Source<'s, 'f> {
    /// Begins a pass: the first, the one that confirms it, and further ones only within the budget.
    pub(super) fn begin(
        reading: &'s mut Reading<'f>,
        cost: &'s mut Cost,
        budget: u64,
        work: &'s Work<'s>,
    ) -> Result<Self, ToolError> {
        cost.passes += 1;
        if cost.passes > 2 && cost.bytes > budget {
            return Err(ToolError::Changing);
        }
        Ok(Self { reading, whole: None, cost, work })
    }

    /// The state in which the pass found the file.
    pub(super) fn fact(&self) -> Fact {
        *self.reading.fact()
    }

    /// A digest of the whole content, which is then what the scan reads.
    pub(super) fn digest(&mut self) -> Result<[u8; 32], ToolError> {
        let whole = self.reading.bytes(0, self.reading.fact().size)?;
        self.spend(whole.len());
        let content = digest(&whole);
        self.whole = Some(whole);
        Ok(content)
    }

    /// Fills a buffer from an offset, or as far as the file goes.
    pub(super) fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize, ToolError> {
        self.work.go_on()?;
        let Some(whole) = &self.whole else {
            let count = self.reading.read(offset, buffer)?;
            self.spend(count);
            return Ok(count);
        };
        let rest = usize::try_from(offset).ok().and_then(|offset| whole.get(offset..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        Ok(count)
    }

    fn spend(&mut self, bytes: usize) {
        self.cost.bytes += bytes as u64;
        self.work.read(bytes as u64);
    }
}

/// What the passes over one file have cost so far.
#[derive(Default)]
pub(super) struct Cost {
    passes: u32,
    pub(super) bytes: u64,
}
