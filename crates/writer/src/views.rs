//! What a writer asks of the table, and nothing else.

use tidegate_model::BucketView;
use tidegate_sink::{BoxFuture, SinkError};

use crate::route::GroupKey;

/// Tells writers of fixed buckets where a bucket stands. Injected: the writer knows no snapshots.
pub trait BucketViews: Send + Sync {
    /// The state of these buckets, in the same order, all from one snapshot. Asked once for all
    /// buckets that a batch is the first to touch.
    fn views<'a>(
        &'a self,
        buckets: &'a [GroupKey],
    ) -> BoxFuture<'a, Result<Vec<BucketView>, SinkError>>;
}
