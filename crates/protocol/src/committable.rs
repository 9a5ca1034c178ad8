//! What is to be published, as the protocol sees it.
//!
//! Owns: [`Committable`] and its [`Changes`]. Does not own: the bytes of a committable, nor its
//! digest, which `combine` computed once \[R-5].

use crate::ids::{FileId, Half, PartitionId, Token};
use std::sync::Arc;
use tidegate_model::BinaryRow;
use tidegate_model::ids::{BucketId, Level, SnapshotId};
use tidegate_model::ids::{CommitIdentifier, CommitUser, Digest, Epoch, JobName};

/// All that one checkpoint adds to a table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Committable {
    /// Whose commit this is \[R-1].
    pub user: CommitUser,
    /// Which commit of that user.
    pub identifier: CommitIdentifier,
    /// Identity of the content \[R-5].
    pub digest: Digest,
    /// The job, where the engine names one.
    pub job: Option<JobName>,
    /// The run that publishes now \[R-2]: that of the committer, not the one that made the files.
    pub epoch: Option<Epoch>,
    /// True where it comes out of a checkpoint after a restart: then its files are shown to exist
    /// before anything is published \[C-5].
    pub restored: bool,
    /// The snapshot seen at `combine`: it can only have been published above it.
    pub seen: Seen,
    /// Hash of the source positions once it is published; `None` where the engine keeps them.
    pub positions: Option<Digest>,
    /// Hash of the positions that it expects to replace \[R-9]; `None` = it is the first one of its job, or
    /// names no positions at all.
    pub replaces: Option<Digest>,
    /// Event time, epoch milliseconds; the smallest i64 counts as missing \[C-38].
    pub watermark: Option<i64>,
    /// The APPEND half.
    pub append: Changes,
    /// The COMPACT half.
    pub compact: Changes,
}

impl Committable {
    /// The changes of one half.
    pub fn half(&self, half: Half) -> &Changes {
        match half {
            Half::Append => &self.append,
            Half::Compact => &self.compact,
        }
    }
}

/// What `combine` knew of the table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Seen {
    /// Nothing is known: the whole history of the user must be looked at.
    Unknown,
    /// The table had no snapshot.
    Empty,
    /// The newest snapshot.
    Snapshot {
        /// Its number.
        id: SnapshotId,
        /// Its identity.
        token: Token,
    },
}

/// One half's files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Changes {
    /// ADD entries: new files, or outputs of a compaction.
    pub added: Vec<FileChange>,
    /// DELETE entries: removed files, or inputs of a compaction.
    pub deleted: Vec<FileChange>,
    /// ADD entries of the changelog.
    pub changelog: Vec<FileChange>,
    /// Index files that come.
    pub index_added: Vec<IndexChange>,
    /// Index files that go.
    pub index_deleted: Vec<IndexChange>,
}

impl Changes {
    /// True without any file.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty()
            && self.deleted.is_empty()
            && self.changelog.is_empty()
            && self.index_added.is_empty()
            && self.index_deleted.is_empty()
    }
}

/// One data or changelog file that comes or goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileChange {
    /// Which file.
    pub file: FileId,
    /// Its partition.
    pub partition: PartitionId,
    /// Its bucket.
    pub bucket: BucketId,
    /// Bucket count it was written with; ≤ 0 = not counted \[C-30].
    pub total_buckets: i32,
    /// Rows in it.
    pub rows: i64,
    /// Where it stands in the levels of its bucket; `None` in tables without a key.
    pub place: Option<Arc<Place>>,
    /// An output that is one of the inputs with another level: the same object.
    pub lifted: bool,
}

/// Where a file of a keyed table stands in its bucket \[F-6.8].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its level.
    pub level: Level,
    /// Its smallest key.
    pub min_key: BinaryRow,
    /// Its largest key.
    pub max_key: BinaryRow,
}

/// One index file that comes or goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexChange {
    /// Which file.
    pub file: FileId,
    /// Its partition.
    pub partition: PartitionId,
    /// Its bucket.
    pub bucket: BucketId,
    /// True for deletion vectors: an APPEND half that brings one is an OVERWRITE \[C-11].
    pub deletion_vectors: bool,
}
