//! Snapshots: one visible version of a table \[F-3].

use crate::ids::{SchemaId, SnapshotId};
use std::fmt;
use tidegate_sink::{CommitIdentifier, CommitUser};

/// What kind of change made a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitKind {
    /// New rows.
    Append,
    /// The same rows in other files.
    Compact,
    /// Rows replaced or removed.
    Overwrite,
    /// Statistics only.
    Analyze,
}

impl fmt::Display for CommitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Append => "APPEND",
            Self::Compact => "COMPACT",
            Self::Overwrite => "OVERWRITE",
            Self::Analyze => "ANALYZE",
        })
    }
}

/// A list of manifests: its name in `manifest/` and its exact size where recorded \[F-4.1].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListRef {
    /// File name.
    pub name: String,
    /// Bytes; absent in files of release 1.0.
    pub size: Option<i64>,
}

/// One visible version of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Format version: 3.
    pub version: i32,
    /// Random per attempt; absent before release 2.0.
    pub uuid: Option<String>,
    /// Number.
    pub id: SnapshotId,
    /// Newest schema at commit time.
    pub schema_id: SchemaId,
    /// All manifests before this commit.
    pub base_manifest_list: ListRef,
    /// This commit's changes.
    pub delta_manifest_list: ListRef,
    /// This commit's changelog.
    pub changelog_manifest_list: Option<ListRef>,
    /// Complete state of index files.
    pub index_manifest: Option<String>,
    /// Who committed.
    pub commit_user: CommitUser,
    /// Which commit of that user.
    pub commit_identifier: CommitIdentifier,
    /// Kind.
    pub commit_kind: CommitKind,
    /// Committer's wall clock, epoch milliseconds; we never go below the parent's (B59).
    pub time_millis: i64,
    /// Rows in all live files.
    pub total_record_count: Option<i64>,
    /// Rows added minus rows removed by this commit.
    pub delta_record_count: Option<i64>,
    /// Rows of changelog files.
    pub changelog_record_count: Option<i64>,
    /// Epoch milliseconds; the smallest i64 is literal and counts as missing.
    pub watermark: Option<i64>,
    /// File in `statistics/`.
    pub statistics: Option<String>,
    /// Free text pairs; ours carry job, epoch, digest and positions \[R-3].
    pub properties: Vec<(String, String)>,
    /// Next free row id.
    pub next_row_id: Option<i64>,
    /// `WRITE`, `TRUNCATE`, …
    pub operation: Option<String>,
    /// Build of the writer; newest releases only.
    pub writer_version: Option<String>,
    /// Legacy log offsets, raw JSON text.
    pub log_offsets: Option<String>,
    /// JSON keys that this build does not know: name and raw JSON text.
    pub unknown: Vec<(String, String)>,
}

impl Snapshot {
    /// The text of a property.
    pub fn property(&self, key: &str) -> Option<&str> {
        self.properties
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }

    /// The watermark, unless it says that none was seen.
    pub fn known_watermark(&self) -> Option<i64> {
        self.watermark.filter(|w| *w != i64::MIN)
    }
}

/// A snapshot that has been decided but not written: same content, not yet visible.
pub type SnapshotDraft = Snapshot;
