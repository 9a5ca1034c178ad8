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
    /// Its deleted rows, where they were read: in a plan, not in a listing.
    pub deletion: Option<Arc<DeletionVector>>,
}

impl Split {
    /// A data file as its manifest has it.
    ///
    /// # Errors
    /// A partition that makes no path.
    pub fn new(entry: ManifestEntry, places: &Places) -> Result<Self> {
        Ok(Self {
            path: places.of(&entry)?,
            deletion: None,
            partition: entry.partition,
            bucket: entry.bucket,
            total_buckets: entry.total_buckets,
            file: entry.file,
        })
    }

    /// Whether it lies outside the table.
    pub fn is_outside(&self) -> bool {
        is_absolute(&self.path)
    }

    /// Rows that a reader gets of it.
    pub fn row_count(&self) -> u64 {
        let all = u64::try_from(self.file.row_count).unwrap_or(0);
        all.saturating_sub(self.deletion.as_ref().map_or(0, |d| d.len() as u64))
    }
}

/// The files of one version of a table, of whatever kind it is: where rows of a key lie in several of
/// them, they are still to be merged. Metadata only: no data file and no index file is opened.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The schema of that version.
    pub schema: Arc<TableSchema>,
    /// The files, each once; deletion vectors are not read.
    pub splits: Vec<Split>,
    /// Schemas that the files were written under.
    pub schemas: HashMap<SchemaId, Arc<TableSchema>>,
    /// Rows that a deletion vector deletes, by data file; `None` inside where the index does not say.
    pub deleted_rows: HashMap<String, Option<i64>>,
    index: Vec<IndexManifestEntry>,
}

impl Listing {
    pub(crate) async fn new(
        table: &TableReader,
        snapshot: Option<&Snapshot>,
        schema: TableSchema,
    ) -> Result<Self> {
        let schema = Arc::new(schema);
        let mut listing = Self {
            schema,
            splits: Vec::new(),
            schemas: HashMap::new(),
            deleted_rows: HashMap::new(),
            index: Vec::new(),
        };
        let Some(snapshot) = snapshot else {
            return Ok(listing);
        };
        let (entries, index) = futures::future::try_join(
            live_entries(table.store(), snapshot),
            index_entries(table.store(), snapshot),
        )
        .await?;
        let places = Places::new(&listing.schema)?;
        for entry in entries {
            let id = entry.file.schema_id;
            if !listing.schemas.contains_key(&id) {
                let found = if id == listing.schema.id {
                    listing.schema.clone()
                } else {
                    Arc::new(table.schema(id).await?)
                };
                listing.schemas.insert(id, found);
            }
            listing.splits.push(Split::new(entry, &places)?);
        }
        listing.index = index;
        let vectors = listing
            .index
            .iter()
            .filter(|e| e.file.index_type == DELETION_VECTORS)
            .flat_map(|e| e.file.dv_ranges.iter().flatten().flatten());
        listing.deleted_rows = vectors
            .map(|range| (range.data_file.clone(), range.cardinality))
            .collect();
        Ok(listing)
    }

    /// Reads the deletion vectors of the files.
    async fn read_vectors(&mut self, table: &TableReader) -> Result<()> {
        let places = Places::new(&self.schema)?;
        let mut vectors = deletion_vectors(table, &places, &self.splits, &self.index).await?;
        for split in &mut self.splits {
            split.deletion = vectors.remove(&split.file.file_name);
        }
        Ok(())
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
    /// Partition columns as the files hold them, instead of the partition's own values.
    pub(crate) raw: bool,
    pub(crate) limit: Option<u64>,
    pub(crate) batch_rows: Option<usize>,
}

impl ScanPlan {
    pub(crate) async fn new(
        table: TableReader,
        snapshot: Option<Snapshot>,
        schema: TableSchema,
    ) -> Result<Self> {
        if let Some(what) = unreadable(&schema) {
            return Err(Error::Unsupported {
                table: table.store().url().to_owned(),
                what,
            });
        }
        let mut listing = Listing::new(&table, snapshot.as_ref(), schema).await?;
        for split in &listing.splits {
            if let Some(columns) = &split.file.write_cols {
                let what = format!(
                    "data file {} holds only some columns ({}): merging such files is not supported",
                    split.file.file_name,
                    columns.join(", ")
                );
                return Err(Error::Unsupported {
                    table: table.store().url().to_owned(),
                    what,
                });
            }
        }
        listing.read_vectors(&table).await?;
        Ok(Self {
            columns: listing.schema.fields.clone(),
            table,
            snapshot,
            schema: listing.schema,
            splits: listing.splits,
            schemas: listing.schemas,
            raw: false,
            limit: None,
            batch_rows: None,
        })
    }

    /// One data file by itself, of any version and of a table of any kind: all its rows as they stand in it,
    /// deleted ones too, in the given columns of the schema that it was written under.
    pub fn of_file(
        table: TableReader,
        split: Split,
        written: Arc<TableSchema>,
        columns: Vec<DataField>,
    ) -> Self {
        Self {
            columns,
            table,
            snapshot: None,
            schemas: HashMap::from([(split.file.schema_id, written.clone())]),
            schema: written,
            splits: vec![Split {
                deletion: None,
                ..split
            }],
            raw: true,
            limit: None,
            batch_rows: None,
        }
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

    /// Reads the columns of another version of the schema as the files hold them, partition columns
    /// too: for a rewrite of old files, and for checking them. Otherwise partition columns have the
    /// values of the partition, as Java reads them, whatever is in the file: one that was taken over
    /// from Hive does not hold them.
    pub fn with_file_columns(mut self, schema: &TableSchema) -> Self {
        self.columns = schema.fields.clone();
        self.raw = true;
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

/// Reads all deletion vectors, by data file.
async fn deletion_vectors(
    table: &TableReader,
    places: &Places,
    splits: &[Split],
    index: &[IndexManifestEntry],
) -> Result<HashMap<String, Arc<DeletionVector>>> {
    let rows: HashMap<&str, i64> = splits
        .iter()
        .map(|s| (s.file.file_name.as_str(), s.file.row_count))
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
        let (store, name) = located(table, &path)?;
        let bytes = store.get(&name).await?;
        for range in wanted {
            let rows = rows
                .get(range.data_file.as_str())
                .and_then(|n| u64::try_from(*n).ok())
                .unwrap_or(0);
            let vector = DeletionVector::decode(&path, &bytes, range.offset, range.length, rows)?;
            vectors.insert(range.data_file.clone(), Arc::new(vector));
        }
    }
    Ok(vectors)
}

/// The store in which a path lies, and the path there.
pub(crate) fn located(table: &TableReader, path: &str) -> Result<(Store, String)> {
    if !is_absolute(path) {
        return Ok((table.store().clone(), path.to_owned()));
    }
    let unreadable = || Error::Inconsistent {
        file: path.to_owned(),
        what: "not the path of a file".to_owned(),
    };
    let (directory, name) = path.rsplit_once('/').ok_or_else(unreadable)?;
    Ok((
        Store::open(&url_of(directory), table.store_options())?,
        name.to_owned(),
    ))
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

/// Where files of a table lie: below the table, or the full path where a file lies outside.
#[derive(Clone, Debug)]
pub struct Places {
    partitions: PartitionPaths,
    directory: String,
    index_beside_data: bool,
}

impl Places {
    /// Those of a table with this schema.
    ///
    /// # Errors
    /// Options or partition columns that make no paths.
    pub fn new(schema: &TableSchema) -> Result<Self> {
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

    /// The path of a data file.
    ///
    /// # Errors
    /// A partition that makes no path.
    pub fn of(&self, entry: &ManifestEntry) -> Result<String> {
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

    /// The path of an index file.
    ///
    /// # Errors
    /// A partition that makes no path.
    pub fn of_index(&self, entry: &IndexManifestEntry) -> Result<String> {
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
