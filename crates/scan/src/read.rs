//! From splits to record batches.

use crate::avro;
use crate::deletion::DeletionVector;
use crate::error::{Error, Result};
use crate::partition::PartitionColumns;
use crate::plan::{ScanPlan, Split, located};
use arrow::compute::filter_record_batch;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use tidegate_datafile::{FileReader, ReadAt, ReadPlan};
use tidegate_model::{SchemaId, layout};
use tidegate_storage::Store;

/// Files opened ahead of the one being read.
const AHEAD: usize = 2;

pub(crate) fn read(plan: &ScanPlan) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let mut plans: HashMap<SchemaId, Arc<ReadPlan>> = HashMap::new();
    let partitions = match plan.raw {
        true => PartitionColumns::none(&plan.columns),
        false => PartitionColumns::new(plan.schema(), &plan.columns)?,
    };
    let partitions = Arc::new(partitions);
    let mut jobs = Vec::with_capacity(plan.splits.len());
    for split in &plan.splits {
        let id = split.file.schema_id;
        let read = match plans.get(&id) {
            Some(known) => known.clone(),
            None => {
                let table = || plan.table.store().url().to_owned();
                let schema = plan
                    .schemas
                    .get(&id)
                    .ok_or_else(|| Error::NoSchema { table: table(), id })?;
                let mut made = ReadPlan::new(&schema.fields, partitions.of_files())?;
                if let Some(rows) = plan.batch_rows {
                    made = made.with_batch_rows(rows);
                }
                let made = Arc::new(made);
                plans.insert(id, made.clone());
                made
            }
        };
        let (store, path) = located(&plan.table, &split.path)?;
        jobs.push(Job {
            store,
            path,
            read,
            partitions: partitions.clone(),
            split: split.clone(),
        });
    }
    let batches = stream::iter(jobs)
        .map(Job::with_partition)
        .buffered(AHEAD)
        .try_flatten();
    let Some(limit) = plan.limit else {
        return Ok(batches.boxed());
    };
    let limited = batches.scan(limit, |left, item| {
        let next = match item {
            _ if *left == 0 => None,
            Ok(batch) => {
                let rows = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(batch.num_rows());
                *left -= rows as u64;
                Some(Ok(batch.slice(0, rows)))
            }
            Err(e) => Some(Err(e)),
        };
        std::future::ready(next)
    });
    Ok(if limit == 0 {
        stream::empty().boxed()
    } else {
        limited.boxed()
    })
}

struct Job {
    store: Store,
    path: String,
    read: Arc<ReadPlan>,
    partitions: Arc<PartitionColumns>,
    split: Split,
}

impl Job {
    async fn with_partition(self) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let partitions = self.partitions.clone();
        if !partitions.any() {
            return self.open().await;
        }
        let file = self.store.url_of(&self.path);
        let values = partitions.values(&file, &self.split.partition)?;
        let batches = self.open().await?;
        let whole = batches.map(move |batch| partitions.add(&file, &values, &batch?));
        Ok(whole.boxed())
    }

    async fn open(self) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let Self {
            store,
            path,
            read,
            split,
            partitions: _,
        } = self;
        let name = &split.file.file_name;
        let format = layout::format_of(name).unwrap_or("");
        if format == "avro" {
            return avro_file(&store, &path, read, split).await;
        }
        if format != "parquet" {
            return Err(tidegate_datafile::Error::UnsupportedFormat {
                file: store.url_of(&path),
                format: format.to_owned(),
            }
            .into());
        }
        let inconsistent = |what: String| Error::Inconsistent {
            file: store.url_of(&path),
            what,
        };
        let size = u64::try_from(split.file.file_size)
            .map_err(|_| inconsistent(format!("recorded size {}", split.file.file_size)))?;
        let source = Arc::new(Object {
            store: store.clone(),
            path: path.clone(),
        });
        let reader = FileReader::open(&store.url_of(&path), size, source, &read).await?;
        if reader.row_count() != u64::try_from(split.file.row_count).unwrap_or(u64::MAX) {
            return Err(inconsistent(format!(
                "it holds {} rows, the manifest says {}",
                reader.row_count(),
                split.file.row_count
            )));
        }
        let batches = reader.stream(None)?.map_err(Error::from);
        Ok(without_deleted(batches.boxed(), split.deletion))
    }
}

/// Avro files are read whole: their blocks have no index.
async fn avro_file(
    store: &Store,
    path: &str,
    read: Arc<ReadPlan>,
    split: Split,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let name = store.url_of(path);
    let mut bytes = store.get(path).await?;
    // Bytes behind the recorded size do not belong to the file [F-12.2].
    let size = usize::try_from(split.file.file_size).unwrap_or(0);
    if size > bytes.len() {
        let what = format!("it has {} bytes, the manifest says {size}", bytes.len());
        return Err(Error::Inconsistent { file: name, what });
    }
    bytes.truncate(size);
    let batches = avro::decode(
        &name,
        &bytes,
        u64::try_from(split.file.row_count).unwrap_or(0),
    )?;
    let shaped =
        stream::iter(batches).map(move |batch| read.shape(&name, &batch).map_err(Error::from));
    Ok(without_deleted(shaped.boxed(), split.deletion))
}

fn without_deleted(
    batches: BoxStream<'static, Result<RecordBatch>>,
    deletion: Option<Arc<DeletionVector>>,
) -> BoxStream<'static, Result<RecordBatch>> {
    let Some(deletion) = deletion else {
        return batches;
    };
    let kept = batches.scan(0u64, move |first, item| {
        let item = item.and_then(|batch| {
            let start = *first;
            *first += batch.num_rows() as u64;
            match deletion.kept(start, batch.num_rows()) {
                Some(kept) => filter_record_batch(&batch, &kept)
                    .map_err(|e| tidegate_datafile::Error::from(e).into()),
                None => Ok(batch),
            }
        });
        std::future::ready(Some(item))
    });
    kept.boxed()
}

/// An object of a store as the source of a data file's bytes.
struct Object {
    store: Store,
    path: String,
}

impl ReadAt for Object {
    fn read_at(
        &self,
        range: Range<u64>,
    ) -> BoxFuture<'_, Result<Bytes, Box<dyn std::error::Error + Send + Sync>>> {
        Box::pin(async move { Ok(self.store.get_range(&self.path, range).await?) })
    }
}
