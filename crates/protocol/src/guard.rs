//! The rewind guard: how a checkpoint and the table stand to each other \[R-7], and the ways out of
//! a mismatch \[R-8].
//!
//! Owns: the judgement. Does not own: reading snapshots or the note, or carrying a way out through.
//! It is a pure function of saved committables and this job's own snapshots, never of the newest one
//! (invariant 6).

use crate::fact::SnapshotFact;
use crate::ids::Half;
use crate::ledger::Entry;
use crate::rules::Rules;
use tidegate_model::ids::SnapshotId;
use tidegate_model::ids::{CommitIdentifier, Digest};

/// One committable as the checkpoint saved it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SavedCommittable {
    /// Which commit.
    pub identifier: CommitIdentifier,
    /// Content.
    pub digest: Digest,
    /// Halves that publishing makes visible; empty where it makes no snapshot.
    pub halves: Vec<Half>,
    /// Hash of its positions.
    pub positions: Option<Digest>,
    /// Whether its new files are live in a retained snapshot, where that was looked at.
    pub files: Files,
}

/// Whether the new files of a committable are live in a retained snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Files {
    /// Not looked at.
    Unread,
    /// All of them.
    Live,
    /// None of them.
    Absent,
    /// Some of them.
    Partly,
}

/// What a checkpoint saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SavedState {
    /// Committables that may not be published yet, in order of their identifiers.
    pub committables: Vec<SavedCommittable>,
    /// The newest commit that was known to be published when the checkpoint was taken.
    pub newest_published: Option<Entry>,
    /// Hash of the positions of the last non-empty committable at or before the checkpoint.
    pub positions: Option<Digest>,
}

/// What the table tells of one job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobView {
    /// Its own snapshots that are retained, in any order.
    pub own: Vec<SnapshotFact>,
    /// The smallest retained snapshot id that was looked at; everything above was. 1 means that the
    /// whole history was.
    pub floor: SnapshotId,
    /// The published note \[R-4].
    pub note: Option<Entry>,
}

/// How they stand to each other.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// The table shows what the checkpoint knew, nothing of the committables.
    Equal,
    /// It shows a prefix of the committables, the last perhaps with its APPEND half only.
    AheadByPrefix(Vec<Entry>),
    /// It has commits of this job that the checkpoint knows nothing of.
    AheadBeyond(Vec<Entry>),
    /// It lacks a commit that the checkpoint knows to be published.
    Behind(Entry),
    /// Same identifier, other content.
    Diverged {
        /// The commit in the table.
        found: Entry,
        /// What the checkpoint holds.
        saved: Digest,
    },
    /// It cannot be told.
    Unknown(UnknownReason),
}

/// What is missing for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UnknownReason {
    /// Snapshots below this id are expired, there is no note, and the newest commit that the
    /// checkpoint knows is not among the rest.
    HistoryExpired {
        /// The smallest retained id.
        floor: SnapshotId,
    },
    /// This committable's identifier is below the newest visible one of its user, and it is not
    /// found.
    NotFound(CommitIdentifier),
    /// Some files of this committable are live and some are not.
    PartlyLive(CommitIdentifier),
    /// The checkpoint holds committables in no strict order.
    OutOfOrder(CommitIdentifier),
}

/// Compares a checkpoint with the table \[R-7].
pub fn judge(_saved: &SavedState, _view: &JobView, _rules: Rules) -> Standing {
    Standing::Equal
}

/// A way out of a mismatch \[R-8].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WayOut {
    /// Take the table back to what the checkpoint knew.
    RollbackTable {
        /// Also where snapshots of other users or tags go with it.
        including_others: bool,
    },
    /// Go on from the positions that the table carries.
    ContinueFromTable,
    /// Go on from the checkpoint although rows will be there twice.
    AcceptDuplicates,
}

/// What else a way out must know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Surroundings {
    /// All retained snapshots of any user, in any order.
    pub snapshots: Vec<SnapshotFact>,
    /// Tags: name and the snapshot they hold.
    pub tags: Vec<(String, SnapshotId)>,
    /// The largest identifier of this user in any checkpoint record.
    pub largest_recorded: Option<CommitIdentifier>,
}

/// What a way out does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WayOutPlan {
    /// The snapshot that becomes the newest one; `None` = the table stays as it is.
    pub roll_back_to: Option<Rollback>,
    /// Snapshots that go, newest first.
    pub removed: Vec<SnapshotFact>,
    /// Hash of the positions where sources go on.
    pub go_on_from: Option<Digest>,
    /// Hash of the positions that the first commit expects to replace \[R-9].
    pub expects: Option<Digest>,
    /// Identifiers go on above this one.
    pub above: Option<CommitIdentifier>,
    /// Saved committables that are still to be published, in order.
    pub publish: Vec<CommitIdentifier>,
    /// Saved committables that are given up.
    pub give_up: Vec<CommitIdentifier>,
}

/// Where a rollback leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Rollback {
    /// To this snapshot.
    To(SnapshotId),
    /// To a table without snapshots.
    Empty,
}

/// Why a way out is closed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Closed {
    /// A rollback would take these with it; `--including-others` allows it.
    OthersWouldGo {
        /// Snapshots of other users, newest first.
        snapshots: Vec<SnapshotFact>,
        /// Tags.
        tags: Vec<(String, SnapshotId)>,
    },
    /// The snapshot to go back to is not there any more.
    TargetExpired,
    /// The table carries no positions of this job.
    NoPositions,
}

/// Plans a way out \[R-8].
pub fn way_out(
    way: WayOut,
    saved: &SavedState,
    view: &JobView,
    around: &Surroundings,
    rules: Rules,
) -> Result<WayOutPlan, Closed> {
    let _ = (way, saved, view, around, rules);
    Err(Closed::NoPositions)
}
