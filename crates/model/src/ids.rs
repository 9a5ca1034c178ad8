//! Numbers that must not be mixed up.

use std::fmt;

// The identities of the contract, so that crates over this one need no edge to `tidegate-sink`.
pub use tidegate_sink::{
    CheckpointId, CommitIdentifier, CommitUser, Digest, Epoch, JobName, RunPrefix,
};

/// Number of a snapshot; the first one of a table is 1 and each commit adds one \[F-1.2].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId(pub i64);

impl SnapshotId {
    /// The first snapshot of a table.
    pub const FIRST: Self = Self(1);

    /// The id that the next commit takes. Saturates, so that a hostile id cannot wrap.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Number of a schema; the first one is 0 \[F-1.2].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchemaId(pub i64);

/// Id of a column or nested field; survives renames \[F-2.2].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldId(pub i32);

/// Number of a bucket: 0 and up, or -2 for the postpone bucket \[F-7.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketId(pub i32);

impl BucketId {
    /// Rows that a compaction distributes later \[F-7.1].
    pub const POSTPONE: Self = Self(-2);
}

/// Level of a file in its bucket's merge tree; append tables know only 0 \[F-6.8].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(pub i32);

macro_rules! display_inner {
    ($($t:ty),*) => {$(
        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    )*};
}
display_inner!(SnapshotId, SchemaId, FieldId, BucketId, Level);
