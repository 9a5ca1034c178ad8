//! Which checkpoint records may go.
//!
//! Owns: the rule *older records beyond `retain` go once a newer one is complete and published*.
//! Does not own: deleting them.

use crate::rules::{Rule, Rules};
use std::collections::BTreeSet;
use tidegate_model::ids::CheckpointId;

/// One checkpoint record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// The checkpoint.
    pub id: CheckpointId,
    /// Every expected message is in it.
    pub complete: bool,
    /// All its committables are visible (an empty one counts as visible).
    pub published: bool,
    /// A person made it, and only a person removes it.
    pub savepoint: bool,
}

/// Records that may be deleted, oldest first, so that a stop in between leaves no gap. The `retain`
/// newest complete and published ones stay (at least one), and everything above the oldest of those.
pub fn removable(records: &[Record], retain: u32, rules: Rules) -> Vec<CheckpointId> {
    let complete = |r: &&Record| r.complete || !rules.on(Rule::RetainComplete);
    let published = |r: &&Record| r.published || !rules.on(Rule::RetainPublished);
    let by_us = |r: &&Record| !r.savepoint || !rules.on(Rule::RetainSavepoints);
    let settled: BTreeSet<CheckpointId> = records
        .iter()
        .filter(complete)
        .filter(published)
        .map(|r| r.id)
        .collect();
    let keep = usize::try_from(retain.max(1)).unwrap_or(usize::MAX);
    let Some(at) = settled.len().checked_sub(keep) else {
        return Vec::new();
    };
    let Some(&oldest_kept) = settled.iter().nth(at) else {
        return Vec::new();
    };
    let older = records.iter().filter(|r| r.id < oldest_kept);
    let gone: BTreeSet<CheckpointId> = older.filter(by_us).map(|r| r.id).collect();
    gone.into_iter().collect()
}
