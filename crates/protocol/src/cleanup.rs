//! Which files of earlier runs may be deleted \[R-13].
//!
//! Owns: the plan. Does not own: listing, nor finding out what is referred to. Never by age.

use crate::fact::Garbage;
use crate::rules::Rules;
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
    let _ = rules;
    if !(own.has_record && own.has_snapshot) {
        return CleanPlan::NotYet;
    }
    let earlier = found.iter().filter(|f| f.epoch < own.epoch);
    let mut clean_runs: Vec<Epoch> = earlier.clone().map(|f| f.epoch).collect();
    clean_runs.sort_unstable();
    clean_runs.dedup();
    let mut files: Vec<Garbage> = earlier
        .map(|f| f.file)
        .filter(|f| !referenced.contains(f))
        .collect();
    files.sort_unstable();
    files.dedup();
    CleanPlan::Delete { files, clean_runs }
}
