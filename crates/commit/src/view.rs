//! What writers that remember a bucket start from: the live files of one snapshot, bucket by bucket.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_model::{
    BinaryRow, BucketId, BucketView, DataFileMeta, IndexFileMeta, SchemaId, SimpleStats,
    SnapshotId, TableSchema,
};
use tidegate_sink::{CommitIdentifier, CommitUser};
use tidegate_storage::Store;
use tokio::sync::OnceCell;

use crate::env::{Env, SystemEnv};
use crate::error::{CommitError, Result};
use crate::live::visit_live;
use crate::meta::{Meta, Visible};

/// The newest snapshot at the time it was opened, read when the first bucket is asked for.
///
/// Open it after recovery has published and before writers start: then it shows all that this job
/// ever committed. Cheap to clone and to share.
///
/// Value statistics of the files are left out: writers do not need them, and they are most of the
/// memory. The rest is held for all live files of the table, outside any budget; a view that was opened
/// [for append](LiveView::for_append) holds a few numbers per bucket instead.
#[derive(Clone, Debug)]
pub struct LiveView {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    meta: Meta,
    base: Option<Visible>,
    newest_committed: Option<CommitIdentifier>,
    holds: Holds,
    buckets: OnceCell<Buckets>,
}

/// How much of the files is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// Sequence numbers and bucket counts.
    Numbers,
    /// Files without value statistics.
    Files,
    /// Files with all that their entries say: a file that is lifted gets a new entry.
    Entries,
}

#[derive(Debug, Default)]
struct Buckets {
    files: HashMap<(BinaryRow, BucketId), Bucket>,
    totals: HashMap<BinaryRow, i32>,
}

#[derive(Debug, Default)]
struct Bucket {
    files: Vec<DataFileMeta>,
    index_files: Vec<IndexFileMeta>,
    max_sequence_number: Option<i64>,
}

impl LiveView {
    /// Opens the newest snapshot of the table at the root of `store`. With `user`, the views name its
    /// newest commit.
    ///
    /// # Errors
    /// [`CommitError::NoTable`], faults of the store, unreadable metadata.
    pub async fn open(store: &Store, user: Option<&CommitUser>) -> Result<Self> {
        Self::open_with(store, user, Holds::Files).await
    }

    /// As [`LiveView::open`], for writers that only append: its bucket views have sequence numbers and
    /// bucket counts, and no files. Memory grows with the number of buckets, not of files.
    ///
    /// # Errors
    /// As there.
    pub async fn for_append(store: &Store, user: Option<&CommitUser>) -> Result<Self> {
        Self::open_with(store, user, Holds::Numbers).await
    }

    /// As [`LiveView::open`], for writers that compact: their files keep their value statistics, since a
    /// file that only changes its level gets a new entry.
    ///
    /// # Errors
    /// As there.
    pub async fn for_compaction(store: &Store, user: Option<&CommitUser>) -> Result<Self> {
        Self::open_with(store, user, Holds::Entries).await
    }

    /// Partition and bucket of everything that has files, in no order.
    ///
    /// # Errors
    /// Faults of the store, unreadable metadata.
    pub async fn all_buckets(&self) -> Result<Vec<(BinaryRow, BucketId)>> {
        Ok(self.buckets().await?.files.keys().cloned().collect())
    }

    /// A schema of the table, old ones included.
    ///
    /// # Errors
    /// Where it is not there or cannot be read.
    pub async fn schema(&self, id: SchemaId) -> Result<TableSchema> {
        self.inner.meta.schema(id).await
    }

    async fn open_with(store: &Store, user: Option<&CommitUser>, holds: Holds) -> Result<Self> {
        let env: Arc<dyn Env> = Arc::new(SystemEnv);
        let meta = Meta::new(store.clone(), env);
        crate::table::load_schema(store).await?;
        let base = meta.newest().await?;
        let newest_committed = match (&base, user) {
            (Some(base), Some(user)) => newest_of(&meta, base, user).await?,
            _ => None,
        };
        let buckets = OnceCell::new();
        Ok(Self {
            inner: Arc::new(Inner {
                meta,
                base,
                newest_committed,
                holds,
                buckets,
            }),
        })
    }

    /// The snapshot; `None` for a table without any.
    pub fn base(&self) -> Option<SnapshotId> {
        self.inner.base.as_ref().map(|base| base.snapshot.id)
    }

    /// The bucket count of a partition; `None` where it has no file yet, or none that counts.
    ///
    /// # Errors
    /// Faults of the store, unreadable metadata.
    pub async fn total_buckets(&self, partition: &BinaryRow) -> Result<Option<i32>> {
        Ok(self.buckets().await?.totals.get(partition).copied())
    }

    /// One bucket. A bucket without files has a view too.
    ///
    /// # Errors
    /// Faults of the store, unreadable metadata.
    pub async fn bucket(&self, partition: &BinaryRow, bucket: BucketId) -> Result<BucketView> {
        let buckets = self.buckets().await?;
        let found = buckets.files.get(&(partition.clone(), bucket));
        let files = found.map(|b| b.files.clone()).unwrap_or_default();
        Ok(BucketView {
            base: self.base(),
            partition: partition.clone(),
            bucket,
            total_buckets: buckets.totals.get(partition).copied(),
            max_sequence_number: found.and_then(|b| b.max_sequence_number),
            files,
            index_files: found.map(|b| b.index_files.clone()).unwrap_or_default(),
            newest_committed: self.inner.newest_committed,
        })
    }

    async fn buckets(&self) -> Result<&Buckets> {
        self.inner.buckets.get_or_try_init(|| self.read()).await
    }

    async fn read(&self) -> Result<Buckets> {
        let mut buckets = Buckets::default();
        let Some(base) = &self.inner.base else {
            return Ok(buckets);
        };
        let meta = &self.inner.meta;
        let manifests = meta.manifests(&base.snapshot).await?;
        let holds = self.inner.holds;
        visit_live(meta, &manifests, |entry| {
            if entry.total_buckets > 0 {
                let total = entry.total_buckets;
                let known = *buckets
                    .totals
                    .entry(entry.partition.clone())
                    .or_insert(total);
                if known != total {
                    return Err(CommitError::corrupt(
                        format!("snapshot/snapshot-{}", base.snapshot.id),
                        format!("one partition has files of {known} and of {total} buckets"),
                    ));
                }
            }
            let key = (entry.partition, entry.bucket);
            let bucket = buckets.files.entry(key).or_default();
            let mut file = entry.file;
            bucket.max_sequence_number = bucket
                .max_sequence_number
                .max(Some(file.max_sequence_number));
            match holds {
                Holds::Numbers => {}
                Holds::Entries => bucket.files.push(file),
                Holds::Files => {
                    file.value_stats = SimpleStats::empty();
                    bucket.files.push(file);
                }
            }
            Ok(())
        })
        .await?;
        if holds == Holds::Numbers {
            return Ok(buckets);
        }
        if let Some(index) = &base.snapshot.index_manifest {
            for entry in meta.index_entries(index).await? {
                let bucket = buckets
                    .files
                    .entry((entry.partition, entry.bucket))
                    .or_default();
                bucket.index_files.push(entry.file);
            }
        }
        Ok(buckets)
    }
}

/// The identifier of the newest snapshot of a user, looked for downwards to where the history ends.
async fn newest_of(
    meta: &Meta,
    base: &Visible,
    user: &CommitUser,
) -> Result<Option<CommitIdentifier>> {
    if base.snapshot.commit_user == *user {
        return Ok(Some(base.snapshot.commit_identifier));
    }
    let mut high = base.snapshot.id.0 - 1;
    while high >= 1 {
        let low = (high - 31).max(1);
        let found = meta.snapshots(SnapshotId(low), SnapshotId(high)).await?;
        if let Some(own) = found.iter().rev().find(|v| v.snapshot.commit_user == *user) {
            return Ok(Some(own.snapshot.commit_identifier));
        }
        if found.is_empty() {
            break;
        }
        high = low - 1;
    }
    Ok(None)
}
