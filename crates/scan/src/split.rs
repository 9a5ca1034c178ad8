//! The files of one version of a table, as its manifests have them.

use crate::deletion::DeletionVector;
use crate::error::Result;
use crate::live::{index_entries, live_entries};
use crate::places::{Places, is_absolute, located};
use crate::table::TableReader;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use tidegate_model::{
    BinaryRow, BucketId, DataFileMeta, IndexManifestEntry, ManifestEntry, SchemaId, Snapshot,
    TableSchema,
};

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

impl Borrow<DataFileMeta> for Split {
    fn borrow(&self) -> &DataFileMeta {
        &self.file
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
        (listing.splits, listing.schemas) = splits_of(table, &listing.schema, entries).await?;
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
    pub(crate) async fn read_vectors(&mut self, table: &TableReader) -> Result<()> {
        let places = Places::new(&self.schema)?;
        let mut vectors = deletion_vectors(table, &places, &self.splits, &self.index).await?;
        for split in &mut self.splits {
            split.deletion = vectors.remove(&split.file.file_name);
        }
        Ok(())
    }
}

/// Entries as files of the table, and the schemas that these were written under.
pub(crate) async fn splits_of(
    table: &TableReader,
    schema: &Arc<TableSchema>,
    entries: Vec<ManifestEntry>,
) -> Result<(Vec<Split>, HashMap<SchemaId, Arc<TableSchema>>)> {
    let places = Places::new(schema)?;
    let (mut splits, mut schemas) = (Vec::with_capacity(entries.len()), HashMap::new());
    for entry in entries {
        if let Entry::Vacant(place) = schemas.entry(entry.file.schema_id) {
            let id = entry.file.schema_id;
            let found = if id == schema.id {
                schema.clone()
            } else {
                Arc::new(table.schema(id).await?)
            };
            place.insert(found);
        }
        splits.push(Split::new(entry, &places)?);
    }
    Ok((splits, schemas))
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
