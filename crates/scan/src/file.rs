//! One data file to record batches: its columns by field id, without the rows that a deletion vector
//! deletes, with the partition's own values.

use crate::avro;
use crate::deletion::DeletionVector;
use crate::error::{Error, Result};
use crate::partition::PartitionColumns;
use crate::places::located;
use crate::plan::ScanPlan;
use crate::split::Split;
use arrow::compute::filter_record_batch;
use arrow::record_batch::RecordBatch;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use std::collections::HashMap;
use std::sync::Arc;
use tidegate_datafile::{FileReader, ReadPlan, key_value_fields, ranges};
use tidegate_model::{DataField, SchemaId, layout};
use tidegate_storage::Store;

type Batches = BoxStream<'static, Result<RecordBatch>>;

/// The columns that files are asked for, for each schema that a file may be written under.
pub(crate) struct Reading {
    partitions: Arc<PartitionColumns>,
    plans: HashMap<SchemaId, Arc<ReadPlan>>,
}

impl Reading {
    /// The reading at `place`, made where there is none yet. `system`: sequence number and kind come
    /// in front of the columns.
    pub(crate) fn once(
        place: &mut Option<Arc<Self>>,
        plan: &ScanPlan,
        columns: &[DataField],
        system: bool,
    ) -> Result<Arc<Self>> {
        if let Some(made) = place {
            return Ok(made.clone());
        }
        let made = Arc::new(Self::new(plan, columns, system)?);
        *place = Some(made.clone());
        Ok(made)
    }

    fn new(plan: &ScanPlan, columns: &[DataField], system: bool) -> Result<Self> {
        let wanted = match system {
            true => key_value_fields(columns),
            false => columns.to_vec(),
        };
        let partitions = match plan.raw {
            true => PartitionColumns::none(&wanted),
            false => PartitionColumns::new(plan.schema(), &wanted)?,
        };
        let mut plans = HashMap::new();
        for (id, schema) in &plan.schemas {
            let written = match system {
                true => key_value_fields(&schema.fields),
                false => schema.fields.clone(),
            };
            let mut made = ReadPlan::new(&written, partitions.of_files())?;
            if let Some(rows) = plan.batch_rows {
                made = made.with_batch_rows(rows);
            }
            plans.insert(*id, Arc::new(made));
        }
        Ok(Self {
            partitions: Arc::new(partitions),
            plans,
        })
    }

    /// Files to open, in the same order.
    pub(crate) fn jobs(&self, plan: &ScanPlan, splits: Vec<Split>) -> Result<Vec<FileJob>> {
        let job = |split: Split| {
            let id = split.file.schema_id;
            let read = self.plans.get(&id).ok_or_else(|| Error::NoSchema {
                table: plan.table.store().url().to_owned(),
                id,
            })?;
            let (store, path) = located(&plan.table, &split.path)?;
            Ok(FileJob {
                store,
                path,
                read: read.clone(),
                partitions: self.partitions.clone(),
                split,
            })
        };
        splits.into_iter().map(job).collect()
    }
}

/// A file to open.
pub(crate) struct FileJob {
    store: Store,
    path: String,
    read: Arc<ReadPlan>,
    partitions: Arc<PartitionColumns>,
    split: Split,
}

impl FileJob {
    /// Opens it; the batches come as they are asked for.
    pub(crate) async fn open(self) -> Result<Batches> {
        let partitions = self.partitions.clone();
        if !partitions.any() {
            return self.open_file().await;
        }
        let file = self.store.url_of(&self.path);
        let values = partitions.values(&file, &self.split.partition)?;
        let batches = self.open_file().await?;
        let whole = batches.map(move |batch| partitions.add(&file, &values, &batch?));
        Ok(whole.boxed())
    }

    async fn open_file(self) -> Result<Batches> {
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
        let (from, object) = (store.clone(), path.clone());
        let source = Arc::new(ranges(move |range| {
            let (from, object) = (from.clone(), object.clone());
            async move { from.get_range(&object, range).await }
        }));
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
) -> Result<Batches> {
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

fn without_deleted(batches: Batches, deletion: Option<Arc<DeletionVector>>) -> Batches {
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
