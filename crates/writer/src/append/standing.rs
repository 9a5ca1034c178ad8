//! What the taking half of an append writer knows of its groups while the other half works.
//!
//! Owns two notes: which groups have rows waiting, and how the core stood when it was last idle; and when a
//! generation is worth being encoded.

use super::core::AppendCore;
use crate::generation::Generation;
use crate::route::GroupId;
use crate::taking::Standing;

/// Rows of a group worth a flush while everything goes straight into encoders: a page of the
/// library's default, so that an open encoder keeps next to nothing that is not compressed yet.
const ROWS_PER_GROUP: usize = 20_480;

/// The same for a single group, whose batches go straight through.
const ROWS_OF_ONE_GROUP: usize = 16_384;

/// Most bytes of such a flush. More would be walked through memory that the processor's caches do not
/// hold and that is touched for the first time: at 64 MiB the same rows took some 7 % more CPU.
const FLUSH_BYTES: usize = 16 << 20;

/// Both notes.
#[derive(Debug, Default)]
pub(crate) struct AppendStanding {
    touched: Touched,
    summary: Summary,
    /// What an open encoder is counted with at least.
    encoder_bytes: usize,
}

/// Groups with rows in the generation.
#[derive(Debug, Default)]
struct Touched {
    groups: Vec<GroupId>,
    is: Vec<bool>,
    /// Those of them without an open file.
    fresh: usize,
}

/// What is known of the core while it works.
#[derive(Debug, Default)]
struct Summary {
    is_open: Vec<bool>,
    open: usize,
    open_bytes: usize,
    most_open: usize,
    spilled: bool,
}

impl AppendStanding {
    pub(crate) fn new(encoder_bytes: usize) -> Self {
        Self {
            encoder_bytes,
            ..Self::default()
        }
    }
}

impl Standing<AppendCore> for AppendStanding {
    fn held(&mut self, groups: impl Iterator<Item = GroupId>) {
        let Touched {
            groups: all,
            is,
            fresh,
        } = &mut self.touched;
        for group in groups {
            let index = group.index();
            if index >= is.len() {
                is.resize(index + 1, false);
            }
            if let Some(is) = is.get_mut(index).filter(|is| !**is) {
                *is = true;
                all.push(group);
                if !self.summary.is_open(group) {
                    *fresh += 1;
                }
            }
        }
    }

    fn sent(&mut self) {
        let Touched { groups, is, fresh } = &mut self.touched;
        for group in groups.drain(..) {
            if let Some(is) = is.get_mut(group.index()) {
                *is = false;
            }
        }
        *fresh = 0;
    }

    fn learn(&mut self, core: &AppendCore) {
        let Self {
            touched, summary, ..
        } = self;
        summary.is_open.clear();
        summary.is_open.extend(core.open_groups());
        summary.open = core.open();
        summary.open_bytes = core.open_bytes();
        summary.most_open = core.most_open();
        summary.spilled = core.has_spilled();
        let closed = |group: &&GroupId| !summary.is_open(**group);
        touched.fresh = touched.groups.iter().filter(closed).count();
    }

    fn forget(&mut self) {
        self.touched = Touched::default();
        self.summary.is_open.clear();
    }

    fn waits(&self) -> bool {
        self.summary.open > 0 || self.summary.spilled
    }

    fn due(&self, generation: &Generation, allowance: usize, overhead: usize) -> bool {
        let Self {
            touched, summary, ..
        } = self;
        let (bytes, rows) = (generation.bytes(), generation.rows());
        let groups = summary.open + touched.fresh;
        if !summary.spilled && groups <= summary.most_open {
            // Two generations at a time, and the encoders that they need.
            let encoders = summary.open_bytes.max(groups * self.encoder_bytes);
            let room = allowance.saturating_sub(encoders) * 3 / 8;
            let enough = match touched.groups.len() {
                0 | 1 => ROWS_OF_ONE_GROUP,
                groups => groups * ROWS_PER_GROUP,
            };
            return bytes >= FLUSH_BYTES.min(room.max(allowance / 16)) || rows >= enough;
        }
        // Two generations at a time: one is written while the next one fills.
        let fixed = summary.open_bytes + overhead + allowance / 4;
        let room = allowance.saturating_sub(fixed) / 2;
        bytes >= room.max(allowance / 16)
    }
}

impl Summary {
    fn is_open(&self, group: GroupId) -> bool {
        self.is_open.get(group.index()).copied().unwrap_or(false)
    }
}
