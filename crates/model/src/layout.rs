//! Every object name of a table, and partition paths \[F-1].
//!
//! Paths are relative to the table's root, with `/` and without a leading one. Names that hold a
//! number are read back here too; foreign names are ignored, as Java ignores them \[F-1.2].
//!
//! ```
//! use tidegate_model::{SnapshotId, layout};
//!
//! assert_eq!(layout::snapshot_path(SnapshotId(12)), "snapshot/snapshot-12");
//! assert_eq!(layout::snapshot_id("snapshot-12"), Some(SnapshotId(12)));
//! assert_eq!(layout::snapshot_id(".snapshot-12.tmp"), None);
//! ```

mod data_file_name;
mod partition;

pub use data_file_name::{DataFileName, codec_suffix, format_of};
pub use partition::{PartitionPaths, escape, unescape};

use crate::ids::{BucketId, SchemaId, SnapshotId};
use tidegate_sink::{Epoch, JobName};

/// Directory of schema files.
pub const SCHEMA_DIR: &str = "schema";
/// What a schema file name starts with.
pub const SCHEMA_PREFIX: &str = "schema-";
/// Directory of snapshot files and their hints.
pub const SNAPSHOT_DIR: &str = "snapshot";
/// What a snapshot file name starts with.
pub const SNAPSHOT_PREFIX: &str = "snapshot-";
/// Directory of long-lived changelogs and their hints.
pub const CHANGELOG_DIR: &str = "changelog";
/// What a changelog file name starts with.
pub const CHANGELOG_PREFIX: &str = "changelog-";
/// Directory of manifests, manifest lists and index manifests.
pub const MANIFEST_DIR: &str = "manifest";
/// What a manifest name starts with. Lists start with it too: test for them first.
pub const MANIFEST_PREFIX: &str = "manifest-";
/// What a manifest list name starts with.
pub const MANIFEST_LIST_PREFIX: &str = "manifest-list-";
/// What an index manifest name starts with.
pub const INDEX_MANIFEST_PREFIX: &str = "index-manifest-";
/// Directory of index files.
pub const INDEX_DIR: &str = "index";
/// Directory of statistics files.
pub const STATISTICS_DIR: &str = "statistics";
/// Directory of tags.
pub const TAG_DIR: &str = "tag";
/// What a tag file name starts with.
pub const TAG_PREFIX: &str = "tag-";
/// Directory of consumers.
pub const CONSUMER_DIR: &str = "consumer";
/// What a consumer file name starts with.
pub const CONSUMER_PREFIX: &str = "consumer-";
/// Directory of branches.
pub const BRANCH_DIR: &str = "branch";
/// What a branch's directory name starts with.
pub const BRANCH_PREFIX: &str = "branch-";
/// What a bucket's directory name starts with.
pub const BUCKET_PREFIX: &str = "bucket-";
/// Directory of bucket [`BucketId::POSTPONE`].
pub const POSTPONE_BUCKET_DIR: &str = "bucket-postpone";
/// What a database's directory name ends with.
pub const DATABASE_SUFFIX: &str = ".db";
/// Hint of the newest snapshot \[F-1.3].
pub const LATEST_PATH: &str = "snapshot/LATEST";
/// Hint of the oldest snapshot.
pub const EARLIEST_PATH: &str = "snapshot/EARLIEST";
/// Hint of the newest long-lived changelog.
pub const CHANGELOG_LATEST_PATH: &str = "changelog/LATEST";
/// Hint of the oldest long-lived changelog.
pub const CHANGELOG_EARLIEST_PATH: &str = "changelog/EARLIEST";
/// Our own objects beside the table: one directory per job.
pub const JOBS_DIR: &str = "tidegate/jobs";

/// `schema/schema-<id>`
pub fn schema_path(id: SchemaId) -> String {
    format!("{SCHEMA_DIR}/{SCHEMA_PREFIX}{id}")
}

/// `snapshot/snapshot-<id>`
pub fn snapshot_path(id: SnapshotId) -> String {
    format!("{SNAPSHOT_DIR}/{SNAPSHOT_PREFIX}{id}")
}

/// `changelog/changelog-<id>`
pub fn changelog_path(id: SnapshotId) -> String {
    format!("{CHANGELOG_DIR}/{CHANGELOG_PREFIX}{id}")
}

/// `manifest/<name>`, for manifests, their lists and index manifests alike.
pub fn manifest_path(name: &str) -> String {
    format!("{MANIFEST_DIR}/{name}")
}

/// `index/<name>`
pub fn index_path(name: &str) -> String {
    format!("{INDEX_DIR}/{name}")
}

/// `statistics/<name>`
pub fn statistics_path(name: &str) -> String {
    format!("{STATISTICS_DIR}/{name}")
}

/// `tag/tag-<name>`
pub fn tag_path(name: &str) -> String {
    format!("{TAG_DIR}/{TAG_PREFIX}{name}")
}

/// `consumer/consumer-<id>`
pub fn consumer_path(id: &str) -> String {
    format!("{CONSUMER_DIR}/{CONSUMER_PREFIX}{id}")
}

/// `branch/branch-<name>`
pub fn branch_path(name: &str) -> String {
    format!("{BRANCH_DIR}/{BRANCH_PREFIX}{name}")
}

/// Where a schema, snapshot, changelog, tag or consumer of a branch lies. Everything else of a
/// branch lies in the main directories \[F-1.1].
pub fn in_branch(branch: &str, path: &str) -> String {
    format!("{}/{path}", branch_path(branch))
}

/// The number in `<prefix><number>`; `None` for anything else, temporary files included. Only the text
/// that we and Java write for a number counts: `snapshot-+1` and `snapshot-01` are other objects than
/// `snapshot-1`, and whoever took them for it would read an object that may not be there.
pub fn versioned(prefix: &str, name: &str) -> Option<i64> {
    let text = name.strip_prefix(prefix)?;
    let number: i64 = text.parse().ok()?;
    (number >= 0 && number.to_string() == text).then_some(number)
}

/// Reads `snapshot-<id>`.
pub fn snapshot_id(name: &str) -> Option<SnapshotId> {
    versioned(SNAPSHOT_PREFIX, name).map(SnapshotId)
}

/// Reads `schema-<id>`.
pub fn schema_id(name: &str) -> Option<SchemaId> {
    versioned(SCHEMA_PREFIX, name).map(SchemaId)
}

/// Reads `changelog-<id>`.
pub fn changelog_id(name: &str) -> Option<SnapshotId> {
    versioned(CHANGELOG_PREFIX, name).map(SnapshotId)
}

/// Reads `tag-<name>`.
pub fn tag_name(name: &str) -> Option<&str> {
    named(TAG_PREFIX, name)
}

/// Reads `consumer-<id>`.
pub fn consumer_id(name: &str) -> Option<&str> {
    named(CONSUMER_PREFIX, name)
}

/// Reads `branch-<name>`.
pub fn branch_name(name: &str) -> Option<&str> {
    named(BRANCH_PREFIX, name)
}

fn named<'a>(prefix: &str, name: &'a str) -> Option<&'a str> {
    name.strip_prefix(prefix)
        .filter(|rest| !rest.trim().is_empty())
}

/// `bucket-<n>`, or `bucket-postpone` \[F-1.1].
pub fn bucket_dir(bucket: BucketId) -> String {
    if bucket == BucketId::POSTPONE {
        POSTPONE_BUCKET_DIR.to_owned()
    } else {
        format!("{BUCKET_PREFIX}{bucket}")
    }
}

/// Reads a bucket's directory name.
pub fn bucket_of_dir(name: &str) -> Option<BucketId> {
    if name == POSTPONE_BUCKET_DIR {
        return Some(BucketId::POSTPONE);
    }
    versioned(BUCKET_PREFIX, name)
        .and_then(|n| i32::try_from(n).ok())
        .map(BucketId)
}

/// `<db>.db`
pub fn database_dir(database: &str) -> String {
    format!("{database}{DATABASE_SUFFIX}")
}

/// The database of a directory name.
pub fn database_name(dir: &str) -> Option<&str> {
    dir.strip_suffix(DATABASE_SUFFIX)
        .filter(|name| !name.is_empty())
}

/// `<db>.db/<table>`, relative to the warehouse \[F-11.1].
pub fn table_dir(database: &str, table: &str) -> String {
    format!("{}/{table}", database_dir(database))
}

/// `tidegate/jobs/<job>`
pub fn job_dir(job: &JobName) -> String {
    format!("{JOBS_DIR}/{job}")
}

/// Registration of a run \[R-2].
pub fn epoch_path(job: &JobName, epoch: Epoch) -> String {
    format!("{}/epoch-{epoch}", job_dir(job))
}

/// Mark of a clean exit of a run \[R-2].
pub fn ended_path(job: &JobName, epoch: Epoch) -> String {
    format!("{}/ended-{epoch}", job_dir(job))
}

/// Published note \[R-4].
pub fn published_path(job: &JobName) -> String {
    format!("{}/published", job_dir(job))
}

/// Positions too large for a snapshot, by the run that combined the commit and their hash in hex
/// \[R-3].
pub fn positions_path(job: &JobName, epoch: Epoch, sha256: &str) -> String {
    format!("{}/positions-e{epoch}-{sha256}", job_dir(job))
}

/// Finished sources, by the run that combined the commit and their hash in hex \[R-3].
pub fn finished_path(job: &JobName, epoch: Epoch, sha256: &str) -> String {
    format!("{}/finished-e{epoch}-{sha256}", job_dir(job))
}

/// The run in `positions-e<E>-<sha256>` and `finished-e<E>-<sha256>`, as those names are written
/// \[R-13].
pub fn side_object_epoch(name: &str) -> Option<Epoch> {
    let rest = name
        .strip_prefix("positions-")
        .or(name.strip_prefix("finished-"));
    let (digits, _) = rest?.strip_prefix('e')?.split_once('-')?;
    Epoch::parse(digits)
}

/// Reads `epoch-<E>` in a job's directory.
pub fn epoch_of(name: &str) -> Option<Epoch> {
    versioned("epoch-", name)
        .and_then(|n| u64::try_from(n).ok())
        .map(Epoch)
}

/// Reads `ended-<E>` in a job's directory.
pub fn ended_epoch_of(name: &str) -> Option<Epoch> {
    versioned("ended-", name)
        .and_then(|n| u64::try_from(n).ok())
        .map(Epoch)
}

/// Joins path parts, leaving out empty ones.
pub fn join<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = String::new();
    for part in parts {
        let part = part.trim_matches('/');
        if part.is_empty() {
            continue;
        }
        if !out.is_empty() {
            out.push('/');
        }
        out.push_str(part);
    }
    out
}
