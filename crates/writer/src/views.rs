//! What a writer asks of the table, and nothing else.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use futures::stream::BoxStream;
use tidegate_model::{BinaryRow, BucketId, BucketView, SchemaId, TableSchema};
use tidegate_sink::{BoxFuture, ErrorKind, SinkError};

use crate::route::GroupKey;

/// Key hashes of a partition, bucket by bucket, in the order in which they came \[F-5.2].
pub type BucketHashes = Vec<(BucketId, Vec<i32>)>;

/// Rows of buckets, one batch after the other.
pub type BucketRows = BoxStream<'static, Result<(GroupKey, RecordBatch), SinkError>>;

/// Tells writers of buckets where a bucket stands. Injected: the writer knows no snapshots.
pub trait BucketViews: Send + Sync {
    /// The state of these buckets, in the same order, all from one snapshot. Asked once for all
    /// buckets that a batch is the first to touch.
    fn views<'a>(
        &'a self,
        buckets: &'a [GroupKey],
    ) -> BoxFuture<'a, Result<Vec<BucketView>, SinkError>>;

    /// The same, as the table is now and not as it was when writers were opened: asked where a
    /// compaction of this writer was left out.
    fn fresh_views<'a>(
        &'a self,
        buckets: &'a [GroupKey],
    ) -> BoxFuture<'a, Result<Vec<BucketView>, SinkError>> {
        self.views(buckets)
    }

    /// The key hashes of a partition by bucket, as its HASH index files hold them \[F-5.2]: asked once per
    /// partition of a table with dynamic buckets.
    fn hashes<'a>(
        &'a self,
        partition: &'a BinaryRow,
    ) -> BoxFuture<'a, Result<BucketHashes, SinkError>> {
        let _ = partition;
        Box::pin(async move {
            Err(SinkError::new(
                ErrorKind::NotFound,
                "the provider of bucket views knows no hash indexes",
            ))
        })
    }

    /// These columns of all rows that the table has, level 0 included, bucket by bucket: asked once by a writer of
    /// a table whose keys may change their partition \[W-72].
    fn keys<'a>(&'a self, columns: &'a [String]) -> BoxFuture<'a, Result<BucketRows, SinkError>> {
        let _ = columns;
        Box::pin(async move {
            Err(SinkError::new(
                ErrorKind::NotFound,
                "the provider of bucket views knows no rows",
            ))
        })
    }

    /// Takes the buckets that are `mine` and of which a compaction was left out when it was committed
    /// \[R-15].
    fn take_lost(&self, mine: &dyn Fn(&GroupKey) -> bool) -> Vec<GroupKey> {
        let _ = mine;
        Vec::new()
    }

    /// The schema of that number, under which files of a bucket may have been written. Asked by
    /// compactions only.
    fn schema(&self, id: SchemaId) -> BoxFuture<'_, Result<Arc<TableSchema>, SinkError>> {
        Box::pin(async move {
            Err(SinkError::new(
                ErrorKind::NotFound,
                format!("schema {id} is not known to the provider of bucket views"),
            ))
        })
    }
}
