//! Rows out of the data files that a compaction takes in: all of them, some of them, or their keys.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::record_batch::RecordBatch;
use futures::stream::{BoxStream, StreamExt};
use tidegate_datafile::{FileReader, ReadPlan, key_value_fields, ranges};
use tidegate_model::{DataField, DataFileMeta, SchemaId, TableSchema, layout};
use tidegate_storage::Store;

use crate::budget::{BudgetShare, Reservation};
use crate::error::{Result, WriterError};
use crate::views::BucketViews;

/// Compressed bytes of a file that are in memory at once at most: those of a row group.
const READ_BYTES: usize = 32 << 20;

/// Opens data files of a table.
pub(crate) struct Inputs {
    store: Store,
    schema: Arc<TableSchema>,
    /// Knows the schemas that older files were written under.
    views: Arc<dyn BucketViews>,
    /// Key columns, in the order of the key.
    keys: Vec<DataField>,
    plans: Mutex<HashMap<(SchemaId, Columns), ReadPlan>>,
}

/// Which columns are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Columns {
    All,
    Keys,
}

/// The rows of an open file.
pub(crate) struct Rows {
    pub(crate) batches: BoxStream<'static, Result<RecordBatch>>,
    _charge: Reservation,
}

/// True for files that a compaction of this build can read.
pub(crate) fn readable(file: &DataFileMeta) -> bool {
    file.external_path.is_none() && layout::format_of(&file.file_name) == Some("parquet")
}

impl Inputs {
    pub(crate) fn new(
        store: Store,
        schema: Arc<TableSchema>,
        views: Arc<dyn BucketViews>,
        keys: Vec<DataField>,
    ) -> Self {
        Self {
            store,
            schema,
            views,
            keys,
            plans: Mutex::default(),
        }
    }

    async fn plan(&self, id: SchemaId, columns: Columns) -> Result<ReadPlan> {
        let plans = || self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans().get(&(id, columns)) {
            return Ok(plan.clone());
        }
        let written = if id == self.schema.id {
            Arc::clone(&self.schema)
        } else {
            let asked = self.views.schema(id).await;
            asked.map_err(|source| WriterError::Views { count: 1, source })?
        };
        let from = key_value_fields(&written.fields);
        let to = match columns {
            Columns::All => key_value_fields(&self.schema.fields),
            Columns::Keys => self.keys.clone(),
        };
        let plan = ReadPlan::new(&from, &to).map_err(|e| WriterError::Config(e.to_string()))?;
        plans().insert((id, columns), plan.clone());
        Ok(plan)
    }

    /// Opens a file of a bucket; its read buffers are charged.
    pub(crate) async fn open(
        &self,
        directory: &str,
        file: &DataFileMeta,
        share: &BudgetShare,
    ) -> Result<Rows> {
        self.read(directory, file, share, Columns::All, None).await
    }

    /// The rows at these positions alone.
    pub(crate) async fn open_at(
        &self,
        directory: &str,
        file: &DataFileMeta,
        positions: &[u64],
        share: &BudgetShare,
    ) -> Result<Rows> {
        self.read(directory, file, share, Columns::All, Some(positions))
            .await
    }

    /// The keys alone, deleted rows included.
    pub(crate) async fn open_keys(
        &self,
        directory: &str,
        file: &DataFileMeta,
        share: &BudgetShare,
    ) -> Result<Rows> {
        self.read(directory, file, share, Columns::Keys, None).await
    }

    async fn read(
        &self,
        directory: &str,
        file: &DataFileMeta,
        share: &BudgetShare,
        columns: Columns,
        positions: Option<&[u64]>,
    ) -> Result<Rows> {
        let path = format!("{directory}/{}", file.file_name);
        let plan = self.plan(file.schema_id, columns).await?;
        let failed = {
            let path = path.clone();
            move |source| WriterError::Read {
                path: path.clone(),
                source: Box::new(source),
            }
        };
        let size = u64::try_from(file.file_size).unwrap_or(0);
        let charge = share.take(usize::try_from(size).unwrap_or(READ_BYTES).min(READ_BYTES));
        let (store, object) = (self.store.clone(), path.clone());
        let source = Arc::new(ranges(move |range| {
            let (store, object) = (store.clone(), object.clone());
            async move { store.get_range(&object, range).await }
        }));
        let url = self.store.url_of(&path);
        let batches = match positions {
            None => {
                let reader = FileReader::open(&url, size, source, &plan).await;
                reader.and_then(|reader| reader.stream(None))
            }
            Some(positions) => {
                let reader = FileReader::open_for_rows(&url, size, source, &plan).await;
                reader.and_then(|reader| reader.rows_at(positions))
            }
        };
        let batches = batches.map_err(&failed)?;
        Ok(Rows {
            batches: batches.map(move |batch| batch.map_err(&failed)).boxed(),
            _charge: charge,
        })
    }
}

impl std::fmt::Debug for Inputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inputs")
            .field("table", &self.store.url())
            .finish_non_exhaustive()
    }
}
