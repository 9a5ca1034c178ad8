//! Which files of earlier runs may be deleted \[R-13].
//!
//! Owns: the plan. Does not own: listing, nor finding out what is referred to. Never by age.

use crate::fact::Garbage;
use crate::rules::{Rule, Rules};
use std::collections::BTreeSet;
use tidegate_model::ids::Epoch;

/// A file that was found by the prefix of a run of this job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Found {
    /// The file.
    pub file: Garbage,
    /// The run whose prefix its name starts with.
    pub epoch: Epoch,
}

/// What a run knows of itself when it thinks of cleaning.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnRun {
    /// Its epoch.
    pub epoch: Epoch,
    /// A checkpoint record of this very epoch is complete.
    pub has_record: bool,
    /// A snapshot of this very epoch is visible.
    pub has_snapshot: bool,
}

/// Which files go.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CleanPlan {
    /// Not yet: an older run may still publish.
    NotYet,
    /// These, and the runs that are then clean.
    Delete {
        /// Files, sorted.
        files: Vec<Garbage>,
        /// Earlier runs of which nothing unreferenced is left afterwards; their registrations may go
        /// \[R-2].
        clean_runs: Vec<Epoch>,
    },
}

/// Plans the cleaning. `referenced` is everything that a snapshot, changelog, tag, branch, retained
/// record or pending committable refers to, read *after* `found` was listed (B27).
pub fn plan(
    own: &OwnRun,
    found: &[Found],
    referenced: &BTreeSet<Garbage>,
    rules: Rules,
) -> CleanPlan {
    let record = own.has_record || !rules.on(Rule::CleanAfterRecord);
    let snapshot = own.has_snapshot || !rules.on(Rule::CleanAfterSnapshot);
    if !(record && snapshot) {
        return CleanPlan::NotYet;
    }
    let earlier = |f: &&Found| f.epoch < own.epoch || !rules.on(Rule::CleanEarlierRuns);
    let unreferenced =
        |f: &&Found| !referenced.contains(&f.file) || !rules.on(Rule::CleanUnreferenced);
    let clean_runs: BTreeSet<Epoch> = found.iter().filter(earlier).map(|f| f.epoch).collect();
    let files: BTreeSet<Garbage> = found
        .iter()
        .filter(earlier)
        .filter(unreferenced)
        .map(|f| f.file)
        .collect();
    CleanPlan::Delete {
        files: files.into_iter().collect(),
        clean_runs: clean_runs.into_iter().collect(),
    }
}
