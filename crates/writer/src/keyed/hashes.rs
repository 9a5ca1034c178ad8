//! Hash indexes of a keyed writer with dynamic buckets: read when a partition's first row comes, written
//! at the barrier for each bucket that got new keys \[W-71], \[F-5.2].

use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use futures::future::try_join_all;
use tidegate_model::{BinaryRow, BucketId, IndexFileMeta, layout};
use uuid::Uuid;

use super::KeyedWriter;
use crate::assign;
use crate::error::{Result, WriterError};

/// Type of such index files.
const HASH: &str = "HASH";

impl KeyedWriter {
    /// Reads the hash indexes of partitions that rows come for the first time.
    pub(super) async fn read_hashes(&mut self, values: &RecordBatch) -> Result<()> {
        for partition in self.taking.router.unknown_partitions(values)? {
            let found = self.views.hashes(&partition).await;
            let found = found.map_err(|source| WriterError::Views { count: 1, source })?;
            self.taking.router.adopt(partition, found);
        }
        Ok(())
    }

    /// Writes the index files of buckets that got new keys; durable when it returns.
    pub(super) async fn write_hashes(
        &mut self,
    ) -> Result<Vec<(BinaryRow, BucketId, IndexFileMeta)>> {
        let Some(assigners) = self.taking.router.assigners() else {
            return Ok(Vec::new());
        };
        let changed = assigners.changed();
        let mut metas = Vec::with_capacity(changed.len());
        let mut sent = Vec::with_capacity(changed.len());
        // The run's prefix stands behind that of data files.
        let run = self.prefix.strip_prefix(&self.taking.files.table.prefix);
        let stem = format!("index-{}{}", run.unwrap_or(&self.prefix), Uuid::new_v4());
        for (n, (partition, bucket, hashes)) in changed.into_iter().enumerate() {
            let bytes = assign::encode(&hashes);
            let name = format!("{stem}-{n}");
            metas.push((
                partition,
                bucket,
                IndexFileMeta {
                    index_type: HASH.to_owned(),
                    file_name: name.clone(),
                    file_size: bytes.len() as i64,
                    row_count: hashes.len() as i64,
                    dv_ranges: None,
                    external_path: None,
                    global_index: None,
                },
            ));
            let path = format!("{}/{name}", layout::INDEX_DIR);
            let charge = self.taking.share.take(bytes.len());
            let mut sending = self.taking.uploads.begin(path);
            sending.push(&self.taking.uploads, Bytes::from(bytes), charge);
            sent.push(sending.end(&self.taking.uploads).confirmed());
        }
        try_join_all(sent).await?;
        Ok(metas)
    }
}
