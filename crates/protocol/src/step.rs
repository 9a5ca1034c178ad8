//! What the executor shall do next, and how it ends.
//!
//! Owns: [`Step`], [`Draft`], [`Outcome`]. Does not own: the decision which step comes
//! ([`Attempt`](crate::Attempt)).

use crate::committable::Changes;
use crate::fact::{Garbage, SnapshotFact};
use crate::ids::{FileId, Half, ObjectId, PartitionId, Token};
use crate::ledger::Entry;
use crate::merge::MergePlan;
use std::sync::Arc;
use tidegate_model::ids::{BucketId, SchemaId, SnapshotId};
use tidegate_model::ids::{CommitIdentifier, CommitUser, Digest, Epoch, JobName};
use tidegate_model::snapshot::CommitKind;

/// The next thing to do. Answer with [`Attempt::observe`](crate::Attempt::observe).
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Read the newest snapshot *from the store* → `Latest`.
    ReadLatest,
    /// Read the snapshots of these ids, both included → `History`.
    ReadHistory {
        /// Smallest id.
        from: SnapshotId,
        /// Largest id.
        to: SnapshotId,
    },
    /// Read all live files of these partitions in the base → `Live`.
    ReadLive {
        /// The snapshot to read.
        base: SnapshotId,
        /// Partitions.
        partitions: Vec<PartitionId>,
    },
    /// Read the bucket counts of these partitions in the base → `Buckets`.
    ReadBuckets {
        /// The snapshot to read.
        base: SnapshotId,
        /// Partitions.
        partitions: Vec<PartitionId>,
    },
    /// Look whether these files exist → `Absent`.
    CheckFiles(Vec<FileId>),
    /// Make the objects of this plan durable → `Written`.
    Write(WritePlan),
    /// Create `snapshot-<draft.id>` if absent, always from the same bytes for the same draft →
    /// `Created`, `ExistsOurs`, `ExistsTheirs`, `Unknown`, `PutRefused`.
    Publish(Draft),
    /// Read this one snapshot again, *from the store* → `Again`. The answer tells whether a create
    /// landed in the history that readers see.
    ReadAgain(SnapshotId),
    /// Find the smallest and the largest snapshot id, by listing → `Retained`. Only where a create
    /// cannot be confirmed by its base.
    FindRetained,
    /// The snapshot counts: tell readers, best effort → `Announced`.
    Announce(Draft),
    /// Delete → `Deleted`.
    Delete(Vec<Garbage>),
    /// Wait [`Settings::back_off_millis`](crate::Settings::back_off_millis) of this number →
    /// `Waited` or `TimedOut`.
    BackOff(u32),
    /// The end.
    Done(Outcome),
}

impl Step {
    /// True for steps that read or write anything but the snapshot: they may fail without harm.
    pub(crate) fn may_fail(&self) -> bool {
        match self {
            Self::ReadLatest
            | Self::ReadHistory { .. }
            | Self::ReadLive { .. }
            | Self::ReadBuckets { .. }
            | Self::CheckFiles(_)
            | Self::Write(_) => true,
            Self::Publish(_)
            | Self::ReadAgain(_)
            | Self::FindRetained
            | Self::Announce(_)
            | Self::Delete(_)
            | Self::BackOff(_)
            | Self::Done(_) => false,
        }
    }
}

/// The objects of one attempt, before the snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WritePlan {
    /// Which half.
    pub half: Half,
    /// Changes to write as delta manifests (and changelog manifests) with their lists; `None` where
    /// those of an earlier attempt are used again.
    pub delta: Option<Arc<Changes>>,
    /// The base manifest list, with what is merged on the way.
    pub base: MergePlan,
    /// A new index manifest; `None` = the old one is carried over \[C-45].
    pub index: Option<IndexPlan>,
}

/// A new index manifest \[C-45].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexPlan {
    /// The state it starts from.
    pub from: Option<ObjectId>,
    /// The changes, whose index parts apply.
    pub changes: Arc<Changes>,
}

/// A snapshot that has been decided but is not yet visible.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Draft {
    /// Number: that of the base + 1.
    pub id: SnapshotId,
    /// Its uuid.
    pub token: Token,
    /// Identity of the base: `tidegate.based-on`.
    pub based_on: Option<Token>,
    /// Which half.
    pub half: Half,
    /// Kind.
    pub kind: CommitKind,
    /// Who commits.
    pub user: CommitUser,
    /// Which commit of that user.
    pub identifier: CommitIdentifier,
    /// The job.
    pub job: Option<JobName>,
    /// The run.
    pub epoch: Option<Epoch>,
    /// Content.
    pub digest: Digest,
    /// Hash of the positions; an empty one leaves those of the last commit that was not \[R-9].
    pub positions: Option<Digest>,
    /// It changes nothing.
    pub empty: bool,
    /// Newest schema \[C-39].
    pub schema: SchemaId,
    /// All manifests before this commit.
    pub base_list: ObjectId,
    /// This commit's changes.
    pub delta_list: ObjectId,
    /// This commit's changelog.
    pub changelog_list: Option<ObjectId>,
    /// Index manifest, carried over or new.
    pub index: Option<ObjectId>,
    /// Epoch milliseconds; above the base's (B59).
    pub time_millis: i64,
    /// Rows in all live files \[C-40].
    pub total_records: i64,
    /// Rows added minus rows removed \[C-40].
    pub delta_records: i64,
    /// Rows of the changelog \[C-40].
    pub changelog_records: Option<i64>,
    /// Event time \[C-38].
    pub watermark: Option<i64>,
    /// Statistics carried over \[C-27j].
    pub statistics: Option<ObjectId>,
    /// Next free row id, carried over.
    pub next_row_id: Option<i64>,
}

/// How the commit of one committable ended.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// At least one half became visible by this attempt, and nothing is left to publish.
    Published(Done),
    /// Everything was visible before.
    AlreadyPublished(Done),
    /// Nothing to publish and no snapshot made.
    Empty,
    /// Somebody else goes on with this job: stop, never skip \[R-5].
    Fenced(Fence),
    /// Refused for a reason that a retry cannot cure.
    Refused(Refusal),
    /// Not settled; everything is kept, the same committable may be offered again \[R-6].
    Undecided(Undecided),
    /// A commit that was visible is not any more \[R-14].
    Replaced(Replacement),
}

/// The visible halves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Done {
    /// Where the APPEND half is visible.
    pub append: Option<Entry>,
    /// Where the COMPACT half is visible.
    pub compact: Option<Entry>,
    /// Parts of the COMPACT half that were left out because their inputs are gone \[R-15].
    pub dropped: Vec<DroppedPart>,
    /// What should have been deleted and could not be.
    pub left: Vec<Garbage>,
}

/// A bucket whose compaction came too late.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DroppedPart {
    /// Partition.
    pub partition: PartitionId,
    /// Bucket.
    pub bucket: BucketId,
    /// Inputs that are not live any more.
    pub dead: Vec<FileId>,
    /// Live files of the output level whose keys its outputs would meet \[C-30].
    pub met: Vec<FileId>,
}

impl DroppedPart {
    /// True where the base shows that it lost: its outputs are nobody's. Of a half that was overtaken, or
    /// of which nobody can tell, they may be in use.
    pub fn has_lost(&self) -> bool {
        !self.dead.is_empty() || !self.met.is_empty()
    }
}

/// Why a commit is fenced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fence {
    /// Same identifier, other content.
    Content {
        /// What the table has.
        found: Entry,
    },
    /// A newer run of this job has committed.
    Epoch {
        /// Its snapshot.
        found: SnapshotFact,
    },
    /// The source positions in the table are not those that this commit expects to replace \[R-9].
    Positions {
        /// Expected; `None` = it is the first one of its job.
        expected: Option<Digest>,
        /// Recorded; `None` where the job has no commit in the table.
        found: Option<Digest>,
    },
    /// A larger identifier of this user is visible and this one is not.
    Overtaken {
        /// The newest commit of the user.
        found: Entry,
    },
}

/// Why a commit is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// One file stands twice in the committable (B22).
    FileTwice(FileId),
    /// Files to be added are live already, not all of them by a commit of ours.
    AlreadyLive(Vec<FileId>),
    /// Files to be removed are not live.
    NotLive(Vec<FileId>),
    /// Files of a restored committable do not exist \[C-5].
    FilesMissing(Vec<FileId>),
    /// The partition has another bucket count \[C-24], \[C-25].
    BucketCount {
        /// Partition.
        partition: PartitionId,
        /// What the table (or another file of this commit) has.
        found: i32,
        /// What this commit brings.
        ours: i32,
    },
    /// Whether it was published cannot be told: these ids of the history are gone.
    HistoryMissing {
        /// Smallest missing id that would have to be looked at.
        from: SnapshotId,
        /// Largest.
        to: SnapshotId,
    },
    /// Record counts leave the range of i64 \[C-40].
    CountOverflow,
    /// The table has reached the largest snapshot id.
    IdsExhausted,
    /// The commit user is closed: 2^63-1 was published \[R-12].
    UserClosed,
    /// The race was lost more often than `commit.max-retries` allows, or `commit.timeout` is over.
    /// Nothing of the attempt is visible; the committable may be offered again.
    RetriesExhausted {
        /// Attempts made.
        attempts: u32,
        /// What stood in the way last.
        why: String,
    },
    /// The store refused for good.
    Store(String),
}

/// Everything that is known of a commit whose outcome is not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Undecided {
    /// The snapshot that may land, or may have landed.
    pub draft: Box<Draft>,
    /// Halves that are visible.
    pub done: Done,
    /// Objects of this attempt, all kept.
    pub kept: Vec<ObjectId>,
}

/// A snapshot of ours that another committer put over or that a rollback removed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replacement {
    /// What was visible.
    pub ours: Entry,
    /// What stands under its number now; `None` where nothing does.
    pub by: Option<SnapshotFact>,
    /// True where the same committable shall be offered again: exactly our id was taken over, on
    /// our parent, and no later commit of ours is concerned. False = *behind* \[R-7].
    pub offer_again: bool,
}
