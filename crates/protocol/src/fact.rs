//! What the executor saw: the answers to [`Step`](crate::Step)s.
//!
//! Owns: the vocabulary of facts. Does not own: how they are found. Every fact speaks of the store
//! at the time of the step that asked; an executor may answer from memory only what cannot change
//! (content under an immutable name).

use crate::committable::Place;
use crate::ids::{FileId, ObjectId, PartitionId, Token};
use crate::merge::ManifestSummary;
use std::sync::Arc;
use tidegate_model::ids::{BucketId, SchemaId, SnapshotId};
use tidegate_model::ids::{CommitIdentifier, CommitUser, Digest, Epoch, JobName};
use tidegate_model::snapshot::CommitKind;

/// The identity part of one visible snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotFact {
    /// Number.
    pub id: SnapshotId,
    /// Identity.
    pub token: Token,
    /// Who committed.
    pub user: CommitUser,
    /// Which commit of that user.
    pub identifier: CommitIdentifier,
    /// Kind.
    pub kind: CommitKind,
    /// `tidegate.job`.
    pub job: Option<JobName>,
    /// `tidegate.epoch`.
    pub epoch: Option<Epoch>,
    /// `tidegate.digest`.
    pub digest: Option<Digest>,
    /// `tidegate.positions-hash`.
    pub positions: Option<Digest>,
    /// `tidegate.based-on`.
    pub based_on: Option<Token>,
    /// `tidegate.empty`: it changes nothing, and was published all the same.
    pub empty: bool,
}

/// The newest snapshot with everything that a commit on top of it needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BaseFact {
    /// Its identity, read from the store at this step.
    pub snapshot: SnapshotFact,
    /// Its clock, epoch milliseconds.
    pub time_millis: i64,
    /// Rows in all live files; `None` in snapshots of very old writers.
    pub total_records: Option<i64>,
    /// Event time.
    pub watermark: Option<i64>,
    /// Index manifest.
    pub index: Option<ObjectId>,
    /// Statistics file and the schema id stored in it.
    pub statistics: Option<(ObjectId, SchemaId)>,
    /// Next free row id.
    pub next_row_id: Option<i64>,
    /// All manifests in order: those of its base list, then those of its delta list.
    pub manifests: Arc<[ManifestSummary]>,
}

/// Answer to [`Step::ReadLatest`](crate::Step::ReadLatest).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LatestFact {
    /// The newest snapshot; `None` for a table without any.
    pub base: Option<BaseFact>,
    /// The newest schema.
    pub schema: SchemaId,
    /// The committer's clock, epoch milliseconds.
    pub now_millis: i64,
    /// A fresh random identity for the snapshot that this attempt may make.
    pub token: Token,
}

/// A live data file, as manifests tell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LiveFile {
    /// Identity.
    pub file: FileId,
    /// Partition.
    pub partition: PartitionId,
    /// Bucket.
    pub bucket: BucketId,
    /// Bucket count it was written with.
    pub total_buckets: i32,
    /// Where it stands in the levels of its bucket; `None` in tables without a key.
    pub place: Option<Arc<Place>>,
    /// It is no data file but the index file with the deletion vectors of its bucket \[C-32].
    pub vectors: bool,
}

/// Answer to [`Step::Write`](crate::Step::Write): everything was made durable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Written {
    /// The delta manifests and lists, where the step asked for them.
    pub delta: Option<DeltaObjects>,
    /// New manifests for each [`Piece::Merge`](crate::merge::Piece::Merge) of the plan, in order. May
    /// be empty where all its entries cancelled.
    pub merged: Vec<Vec<ManifestSummary>>,
    /// The base manifest list.
    pub base_list: ObjectId,
    /// The new index manifest, where the step asked for one.
    pub index: Option<ObjectId>,
}

/// What does not depend on the base and survives a lost race.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeltaObjects {
    /// Delta manifests.
    pub manifests: Vec<ManifestSummary>,
    /// Delta manifest list.
    pub list: ObjectId,
    /// Changelog manifests and list, where the half has a changelog.
    pub changelog: Option<(Vec<ObjectId>, ObjectId)>,
}

/// What the executor saw.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// To `ReadLatest`.
    Latest(LatestFact),
    /// To `ReadHistory`: the snapshots found in the asked range, in any order. An id of the range
    /// that is not among them is *missing*.
    History(Vec<SnapshotFact>),
    /// To `ReadLive`: all live files of the asked partitions in the base, and where the commit changes deletion
    /// vectors of buckets the index files that hold them there.
    Live(Vec<LiveFile>),
    /// To `ReadBuckets`: the bucket count of each asked partition that has live files in the base.
    Buckets(Vec<(PartitionId, i32)>),
    /// To `CheckFiles`: those of the asked files that do not exist.
    Absent(Vec<FileId>),
    /// To `Write`.
    Written(Written),
    /// To `Publish`: created, by this very request.
    Created,
    /// To `Publish`: the name is taken, by the same bytes.
    ExistsOurs,
    /// To `Publish`: the name is taken by other bytes.
    ExistsTheirs(SnapshotFact),
    /// To `Publish`: no answer, or the holder of the name cannot be read. It may or may not land.
    Unknown,
    /// To `Publish`: the store refused for good, and no request of this attempt can land later.
    PutRefused(String),
    /// To `ReadAgain`: what stands under that number, `None` where nothing does.
    Again(Option<SnapshotFact>),
    /// To `FindRetained`: the smallest and the largest snapshot id in the store.
    Retained(Option<(SnapshotId, SnapshotId)>),
    /// To `Announce`.
    Announced,
    /// To `Delete`: what could not be deleted, empty when all is gone.
    Deleted(Vec<Garbage>),
    /// To `BackOff`: the time is over.
    Waited,
    /// To any reading or writing step: it failed. `left` are the objects that it may have left.
    Failed {
        /// True where the same step may succeed later.
        retryable: bool,
        /// Why, for a person.
        why: String,
        /// What it may have left in the store.
        left: Vec<ObjectId>,
    },
    /// Instead of any answer: `commit.timeout` is over. After `Publish` the outcome counts as
    /// unknown.
    TimedOut,
}

/// One thing to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Garbage {
    /// A metadata object.
    Object(ObjectId),
    /// A data, changelog or index file.
    File(FileId),
    /// A snapshot of ours that was created outside the history that readers see.
    Snapshot(SnapshotId),
}
