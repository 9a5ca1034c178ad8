//! Deletion vectors of a bucket: which rows of its files a compaction took back \[W-80].
//!
//! Owns the state of a bucket, reading it when the bucket is opened, and the index file that is written
//! at a barrier where something changed: one per bucket, with all of its vectors \[C-45].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use bytes::Bytes;
use futures::future::try_join_all;
use tidegate_model::deletion_vector::{self, DeletionVector, Form, INDEX_TYPE};
use tidegate_model::{BucketView, DataFileMeta, IndexFileMeta, layout};
use tidegate_storage::Store;
use uuid::Uuid;

use super::KeyedWriter;
use crate::error::{Result, WriterError};
use crate::route::GroupKey;

/// The vectors of a bucket's files, by data file. Clones are the same until one changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vectors(Arc<BTreeMap<String, Arc<DeletionVector>>>);

/// The vectors of a bucket, and the index file of the table that holds them.
pub(crate) type Read = (Vectors, Option<IndexFileMeta>);

/// Rows that a compaction marked, by data file; they ascend.
pub(crate) type Marks = BTreeMap<String, Vec<u64>>;

impl Vectors {
    pub(crate) fn of(&self, file: &str) -> Option<&Arc<DeletionVector>> {
        self.0.get(file)
    }

    /// After a compaction: files that are gone take their vectors with them. True where that changed
    /// something.
    pub(crate) fn compacted(
        &mut self,
        before: &[DataFileMeta],
        after: &[DataFileMeta],
        marks: &Marks,
    ) -> bool {
        let stays = |name: &str| after.iter().any(|f| f.file_name == name);
        let gone = before.iter().map(|f| f.file_name.as_str());
        let gone: Vec<&str> = gone
            .filter(|name| !stays(name) && self.0.contains_key(*name))
            .collect();
        if gone.is_empty() && marks.is_empty() {
            return false;
        }
        let all = Arc::make_mut(&mut self.0);
        for name in gone {
            all.remove(name);
        }
        for (name, positions) in marks {
            Arc::make_mut(all.entry(name.clone()).or_default()).delete(positions);
        }
        true
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &DeletionVector)> {
        self.0.iter().map(|(name, v)| (name.as_str(), v.as_ref()))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The rows of a batch that stay, whose first one is at position `first` of its file.
pub(crate) fn without_deleted(
    batch: RecordBatch,
    deleted: &DeletionVector,
    first: u64,
) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let mut gone = deleted.within(first, rows).iter().peekable();
    if gone.peek().is_none() {
        return Ok(batch);
    }
    let kept = BooleanBuffer::collect_bool(rows, |row| {
        gone.next_if_eq(&&(first + row as u64)).is_none()
    });
    filter_record_batch(&batch, &BooleanArray::new(kept, None))
        .map_err(WriterError::arrow("leaving deleted rows out"))
}

/// The vectors of a bucket as the table has them, and the index file that holds them.
///
/// Nothing where the table keeps none.
pub(crate) async fn read(store: &Store, form: Option<Form>, view: &BucketView) -> Result<Read> {
    if form.is_none() {
        return Ok(Read::default());
    }
    let mut files = view
        .index_files
        .iter()
        .filter(|f| f.index_type == INDEX_TYPE);
    let Some(index) = files.next() else {
        return Ok((Vectors::default(), None));
    };
    let path = layout::index_path(&index.file_name);
    let wrong = |what: String| WriterError::Vectors {
        path: path.clone(),
        what,
    };
    if let Some(second) = files.next() {
        return Err(wrong(format!(
            "the bucket has a second index file of deletion vectors, {}; let `tidegate verify` look at the table",
            second.file_name
        )));
    }
    if index.external_path.is_some() {
        return Err(wrong(
            "it lies outside of the table, which compactions do not read; compact with the writer that put it there".to_owned(),
        ));
    }
    let rows: HashMap<&str, u64> = view
        .files
        .iter()
        .map(|f| (f.file_name.as_str(), f.row_count.unsigned_abs()))
        .collect();
    let bytes = store.get(&path).await;
    let bytes = bytes.map_err(|source| WriterError::Get {
        path: path.clone(),
        source: Box::new(source),
    })?;
    let mut all = BTreeMap::new();
    for range in index.dv_ranges.iter().flatten().flatten() {
        // A vector of a file that is no longer live goes with the next rewrite.
        let Some(rows) = rows.get(range.data_file.as_str()) else {
            continue;
        };
        let vector = DeletionVector::decode(&bytes, range.offset, range.length, *rows);
        let vector = vector.map_err(|e| wrong(format!("{}: {e}", range.data_file)))?;
        all.insert(range.data_file.clone(), Arc::new(vector));
    }
    Ok((Vectors(Arc::new(all)), Some(index.clone())))
}

impl KeyedWriter {
    /// Writes the index files of buckets whose vectors changed since the last barrier; durable when it
    /// returns.
    pub(super) async fn write_vectors(&mut self) -> Result<()> {
        let Some(form) = self.vectors else {
            return Ok(());
        };
        // The run's prefix stands behind that of data files.
        let run = self.prefix.strip_prefix(&self.taking.files.table.prefix);
        let stem = format!("index-{}{}", run.unwrap_or(&self.prefix), Uuid::new_v4());
        let mut sent = Vec::new();
        let mut metas: Vec<(GroupKey, Option<IndexFileMeta>)> = Vec::new();
        for (key, bucket) in &self.buckets {
            let tree = bucket.tree.as_ref();
            let Some(vectors) = tree.and_then(|tree| tree.changed_vectors()) else {
                continue;
            };
            if vectors.is_empty() {
                metas.push((key.clone(), None));
                continue;
            }
            let name = format!("{stem}-{}", sent.len());
            let encoded = deletion_vector::encode(&name, vectors.iter(), form);
            let (bytes, meta) = encoded.map_err(|e| WriterError::Vectors {
                path: layout::index_path(&name),
                what: e.to_string(),
            })?;
            let charge = self.taking.share.take(bytes.len());
            let uploads = &self.taking.uploads;
            let mut sending = uploads.begin(layout::index_path(&name));
            sending.push(uploads, Bytes::from(bytes), charge);
            sent.push(sending.end(uploads).confirmed());
            metas.push((key.clone(), Some(meta)));
        }
        try_join_all(sent).await?;
        for (key, meta) in metas {
            if let Some(tree) = self.buckets.get_mut(&key).and_then(|b| b.tree.as_mut()) {
                tree.vectors_written(meta);
            }
        }
        Ok(())
    }
}
