//! From a snapshot to splits: files, where they lie, which of their rows are deleted.

use crate::deletion::DeletionVector;
use crate::error::{Error, Result};
use crate::live::{index_entries, live_entries};
use crate::read;
use crate::table::TableReader;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use futures::stream::BoxStream;
use std::collections::HashMap;
use std::sync::Arc;
use tidegate_datafile::arrow_schema;
use tidegate_model::layout::{self, PartitionPaths};
use tidegate_model::options::TableOptions;
use tidegate_model::{
    BinaryRow, BucketId, DataField, DataFileMeta, IndexManifestEntry, ManifestEntry, SchemaId,
    Snapshot, TableSchema,
};
use tidegate_storage::Store;

/// Type of index files that hold deletion vectors.
const DELETION_VECTORS: &str = "DELETION_VECTORS";

/// One data file to read.
#[derive(Clone, Debug)]
pub struct Split {
    /// Partition value.
    pub partition: BinaryRow,
    /// Bucket.
    pub bucket: BucketId,
    /// Bucket count of the partition \[F-7.1].
    pub total_buckets: i32,
    /// The file.
    pub file: DataFileMeta,
    /// Where it lies: below the table, or the full path outside.
    pub path: String,
    /// Its deleted rows.
    pub deletion: Option<Arc<DeletionVector>>,
}

impl Split {
    /// Rows that a reader gets of it.
    pub fn row_count(&self) -> u64 {
        let all = u64::try_from(self.file.row_count).unwrap_or(0);
        all.saturating_sub(self.deletion.as_ref().map_or(0, |d| d.len() as u64))
    }
}

/// What to read of one version of a table.
#[derive(Clone, Debug)]
pub struct ScanPlan {
    pub(crate) table: TableReader,
    snapshot: Option<Snapshot>,
    schema: Arc<TableSchema>,
    pub(crate) splits: Vec<Split>,
    /// Schemas that the files were written under.
    pub(crate) schemas: HashMap<SchemaId, Arc<TableSchema>>,
    pub(crate) columns: Vec<DataField>,
    pub(crate) limit: Option<u64>,
    pub(crate) batch_rows: Option<usize>,
}

impl ScanPlan {
    pub(crate) async fn new(
        table: TableReader,
        snapshot: Option<Snapshot>,
        schema: TableSchema,
    ) -> Result<Self> {
        let schema = Arc::new(schema);
        if let Some(what) = unreadable(&schema) {
            return Err(Error::Unsupported {
                table: table.store().url().to_owned(),
                what,
            });
        }
        let mut plan = Self {
            columns: schema.fields.clone(),
            table,
            snapshot,
            schema,
            splits: Vec::new(),
            schemas: HashMap::new(),
            limit: None,
            batch_rows: None,
        };
        if let Some(snapshot) = plan.snapshot.clone() {
            plan.find_files(&snapshot).await?;
        }
        Ok(plan)
    }

    async fn find_files(&mut self, snapshot: &Snapshot) -> Result<()> {
        let store = self.table.store().clone();
        let (entries, index) = futures::future::try_join(
            live_entries(&store, snapshot),
            index_entries(&store, snapshot),
        )
        .await?;
        for entry in &entries {
            if !self.schemas.contains_key(&entry.file.schema_id) {
                let schema = if entry.file.schema_id == self.schema.id {
                    self.schema.clone()
                } else {
                    Arc::new(self.table.schema(entry.file.schema_id).await?)
                };
                self.schemas.insert(entry.file.schema_id, schema);
            }
        }
        let places = Places::new(&self.schema)?;
        let mut vectors = self.deletion_vectors(&places, &entries, &index).await?;
        for entry in entries {
            if let Some(columns) = &entry.file.write_cols {
                let what = format!(
                    "data file {} holds only some columns ({}): merging such files is not supported",
                    entry.file.file_name,
                    columns.join(", ")
                );
                return Err(Error::Unsupported {
                    table: store.url().to_owned(),
                    what,
                });
            }
            self.splits.push(Split {
                path: places.of(&entry)?,
                deletion: vectors.remove(&entry.file.file_name),
                partition: entry.partition,
                bucket: entry.bucket,
                total_buckets: entry.total_buckets,
                file: entry.file,
            });
        }
        Ok(())
    }

    /// Reads all deletion vectors, by data file.
    async fn deletion_vectors(
        &self,
        places: &Places,
        entries: &[ManifestEntry],
        index: &[IndexManifestEntry],
    ) -> Result<HashMap<String, Arc<DeletionVector>>> {
        let rows: HashMap<&str, i64> = entries
            .iter()
            .map(|e| (e.file.file_name.as_str(), e.file.row_count))
            .collect();
        let mut vectors = HashMap::new();
        for entry in index
            .iter()
            .filter(|e| e.file.index_type == DELETION_VECTORS)
        {
            let path = places.of_index(entry)?;
            let wanted = entry.file.dv_ranges.iter().flatten().flatten();
            // A vector of a file that is no longer live waits for the next rewrite of the index.
            let wanted: Vec<_> = wanted
                .filter(|r| rows.contains_key(r.data_file.as_str()))
                .collect();
            if wanted.is_empty() {
                continue;
            }
            let (store, name) = self.located(&path)?;
            let bytes = store.get(&name).await?;
            for range in wanted {
                let rows = rows
                    .get(range.data_file.as_str())
                    .and_then(|n| u64::try_from(*n).ok())
                    .unwrap_or(0);
                let vector =
                    DeletionVector::decode(&path, &bytes, range.offset, range.length, rows)?;
                vectors.insert(range.data_file.clone(), Arc::new(vector));
            }
        }
        Ok(vectors)
    }

    /// The store in which a path lies, and the path there.
    pub(crate) fn located(&self, path: &str) -> Result<(Store, String)> {
        if !is_absolute(path) {
            return Ok((self.table.store().clone(), path.to_owned()));
        }
        let unreadable = || Error::Inconsistent {
            file: path.to_owned(),
            what: "not the path of a file".to_owned(),
        };
        let (directory, name) = path.rsplit_once('/').ok_or_else(unreadable)?;
        Ok((
            Store::open(&url_of(directory), self.table.store_options())?,
            name.to_owned(),
        ))
    }

    /// Reads only these columns, in this order.
    ///
    /// # Errors
    /// [`Error::NoColumn`].
    pub fn with_columns<S: AsRef<str>>(mut self, names: &[S]) -> Result<Self> {
        let columns = names.iter().map(|name| {
            let found = self.schema.fields.iter().find(|f| f.name == name.as_ref());
            found.cloned().ok_or_else(|| Error::NoColumn {
                column: name.as_ref().to_owned(),
                known: self
                    .schema
                    .fields
                    .iter()
                    .map(|f| f.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
            })
        });
        self.columns = columns.collect::<Result<_>>()?;
        Ok(self)
    }

    /// Reads the columns of another version of the schema, as a rewrite of old files needs.
    pub fn with_file_columns(mut self, schema: &TableSchema) -> Self {
        self.columns = schema.fields.clone();
        self
    }

    /// Reads at most so many rows.
    pub fn with_limit(mut self, rows: u64) -> Self {
        self.limit = Some(rows);
        self
    }

    /// Sets how many rows a batch has at most.
    pub fn with_batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = Some(rows);
        self
    }

    /// The snapshot; `None` for a table without one.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// The schema that the rows are read under.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// The columns read.
    pub fn columns(&self) -> &[DataField] {
        &self.columns
    }

    /// The Arrow schema of the batches.
    ///
    /// # Errors
    /// A column of a type that this build cannot hold.
    pub fn arrow_schema(&self) -> Result<SchemaRef> {
        Ok(Arc::new(arrow_schema(&self.columns)?))
    }

    /// The files, each once: what `$files` lists.
    pub fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// Keeps only the files that `keep` likes.
    pub fn retain(&mut self, keep: impl FnMut(&Split) -> bool) {
        self.splits.retain(keep);
    }

    /// Rows that [`read`](Self::read) gives where there is no limit.
    pub fn row_count(&self) -> u64 {
        self.splits.iter().map(Split::row_count).sum()
    }

    /// The rows, file by file.
    ///
    /// # Errors
    /// A column of a type that this build cannot hold, or whose type changed without a cast. As items:
    /// missing or unreadable data files; nothing comes after one.
    pub fn read(&self) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        read::read(self)
    }
}

/// Why a table's rows are not simply those of its files.
fn unreadable(schema: &TableSchema) -> Option<String> {
    let set = |key: &str| {
        schema
            .options
            .get(key)
            .is_some_and(|v| v.eq_ignore_ascii_case("true"))
    };
    if !schema.primary_keys.is_empty() {
        return Some(format!(
            "it has a primary key ({}), and merging the versions of a key comes with merge-on-read in a later release",
            schema.primary_keys.join(", ")
        ));
    }
    if set("data-evolution.enabled") {
        return Some(
            "option data-evolution.enabled: columns of a row lie in several files".to_owned(),
        );
    }
    match schema.options.get("type") {
        None | Some("table") => None,
        Some(other) => Some(format!("it is a {other}")),
    }
}

/// Where files of a table lie.
struct Places {
    partitions: PartitionPaths,
    directory: String,
    index_beside_data: bool,
}

impl Places {
    fn new(schema: &TableSchema) -> Result<Self> {
        let index_beside_data = schema.options.bool("index-file-in-data-file-dir")?;
        Ok(Self {
            partitions: schema.partition_paths()?,
            directory: TableOptions::of(schema)?
                .data_file
                .path_directory
                .unwrap_or_default(),
            index_beside_data: index_beside_data.unwrap_or(false),
        })
    }

    fn bucket(&self, partition: &BinaryRow, bucket: BucketId) -> Result<String> {
        let partition = self.partitions.path(partition)?;
        let bucket = layout::bucket_dir(bucket);
        Ok(layout::join([
            self.directory.as_str(),
            partition.as_str(),
            bucket.as_str(),
        ]))
    }

    fn of(&self, entry: &ManifestEntry) -> Result<String> {
        match &entry.file.external_path {
            Some(path) => Ok(path.clone()),
            None => {
                let bucket = self.bucket(&entry.partition, entry.bucket)?;
                Ok(layout::join([
                    bucket.as_str(),
                    entry.file.file_name.as_str(),
                ]))
            }
        }
    }

    fn of_index(&self, entry: &IndexManifestEntry) -> Result<String> {
        match &entry.file.external_path {
            Some(path) => Ok(path.clone()),
            None if self.index_beside_data => {
                let bucket = self.bucket(&entry.partition, entry.bucket)?;
                Ok(layout::join([
                    bucket.as_str(),
                    entry.file.file_name.as_str(),
                ]))
            }
            None => Ok(layout::index_path(&entry.file.file_name)),
        }
    }
}

fn is_absolute(path: &str) -> bool {
    path.starts_with('/')
        || path.split_once(':').is_some_and(|(scheme, rest)| {
            rest.starts_with('/')
                && !scheme.is_empty()
                && scheme.chars().all(|c| c.is_ascii_alphanumeric())
        })
}

/// Java writes local paths as `file:/dir`.
fn url_of(path: &str) -> String {
    match path.strip_prefix("file:/") {
        Some(rest) if !rest.starts_with('/') => format!("file:///{rest}"),
        _ => path.to_owned(),
    }
}
