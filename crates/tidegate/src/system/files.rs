//! Tables about files: manifests, data files, and what they add up to by partition and bucket.

use std::collections::BTreeMap;

use tidegate_model::{
    BinaryRow, DataField, FileSource, LogicalType, Snapshot, SnapshotId, TableSchema, layout,
};
use tidegate_scan::{At, Listing, Split, manifest_list};

use super::sheet::{Cell, Sheet};
use super::statistics::StatTexts;
use super::texts::{PartitionTexts, key_text};
use crate::error::Result;
use crate::table::Table;

async fn snapshot_at(table: &Table, at: Option<SnapshotId>) -> Result<Option<Snapshot>> {
    match at {
        Some(id) => table.snapshot(id).await.map(Some),
        None => table.latest_snapshot().await,
    }
}

/// `$manifests` of a snapshot, those of its changelog included.
///
/// # Errors
/// Faults of the store, unreadable metadata.
pub async fn manifests(table: &Table, at: Option<SnapshotId>) -> Result<Sheet> {
    let mut sheet = Sheet::new([
        "file_name",
        "file_size",
        "num_added_files",
        "num_deleted_files",
        "schema_id",
        "min_partition_stats",
        "max_partition_stats",
        "min_row_id",
        "max_row_id",
    ]);
    let Some(snapshot) = snapshot_at(table, at).await? else {
        return Ok(sheet);
    };
    let texts = PartitionTexts::of(table.schema())?;
    let lists = [&snapshot.base_manifest_list, &snapshot.delta_manifest_list];
    for list in lists.into_iter().chain(&snapshot.changelog_manifest_list) {
        for m in manifest_list(table.store(), list).await? {
            sheet.push(vec![
                m.file_name.as_str().into(),
                m.file_size.into(),
                m.num_added_files.into(),
                m.num_deleted_files.into(),
                m.schema_id.0.into(),
                texts.braces(&m.partition_stats.min_values)?.into(),
                texts.braces(&m.partition_stats.max_values)?.into(),
                Cell::int(m.min_row_id),
                Cell::int(m.max_row_id),
            ]);
        }
    }
    Ok(sheet)
}

async fn listing(table: &Table, at: Option<SnapshotId>) -> Result<Listing> {
    let at = at.map_or(At::Latest, At::Snapshot);
    Ok(table.reader().files(&at).await?)
}

/// Files that are read. Those that wait for a bucket (`bucket` = -2) are not, and Java leaves them out
/// of `$files` and `$partitions` though not of `$buckets`.
fn read_files(listing: &Listing) -> impl Iterator<Item = &Split> {
    listing.splits.iter().filter(|split| split.bucket.0 >= 0)
}

/// `$files`: live data files.
///
/// # Errors
/// Faults of the store, unreadable metadata.
pub async fn files(table: &Table, at: Option<SnapshotId>) -> Result<Sheet> {
    let mut sheet = Sheet::new([
        "partition",
        "bucket",
        "file_path",
        "file_format",
        "schema_id",
        "level",
        "record_count",
        "file_size_in_bytes",
        "min_key",
        "max_key",
        "null_value_counts",
        "min_value_stats",
        "max_value_stats",
        "min_sequence_number",
        "max_sequence_number",
        "creation_time",
        "deleteRowCount",
        "file_source",
        "first_row_id",
        "write_cols",
    ]);
    let listing = listing(table, at).await?;
    let texts = PartitionTexts::of(&listing.schema)?;
    for split in read_files(&listing) {
        let file = &split.file;
        let stats = StatTexts::of(file, &listing.schemas, &listing.schema)?;
        let key = key_types(
            listing
                .schemas
                .get(&file.schema_id)
                .unwrap_or(&listing.schema),
        );
        let outside = file.external_path.clone();
        let path = outside.unwrap_or_else(|| table.store().url_of(&split.path));
        sheet.push(vec![
            texts.braces(&split.partition)?.into(),
            Cell::Int(i64::from(split.bucket.0)),
            path.into(),
            Cell::text(layout::format_of(&file.file_name)),
            file.schema_id.0.into(),
            Cell::Int(i64::from(file.level.0)),
            file.row_count.into(),
            file.file_size.into(),
            Cell::text(key_text(&file.min_key, &key)?),
            Cell::text(key_text(&file.max_key, &key)?),
            stats.nulls.into(),
            stats.min.into(),
            stats.max.into(),
            file.min_sequence_number.into(),
            file.max_sequence_number.into(),
            file.creation_time_millis.map_or(Cell::Null, Cell::Millis),
            Cell::int(file.delete_row_count),
            Cell::text(file.file_source.map(|s| match s {
                FileSource::Append => "APPEND",
                FileSource::Compact => "COMPACT",
            })),
            Cell::int(file.first_row_id),
            file.write_cols.as_ref().map_or(Cell::Null, |c| {
                Cell::Json(serde_json::Value::from(c.clone()).to_string())
            }),
        ]);
    }
    Ok(sheet)
}

/// Types of a key as files have it: without partition columns; without a key, the whole row.
fn key_types(schema: &TableSchema) -> Vec<LogicalType> {
    let logical = |f: &DataField| f.data_type.logical.clone();
    if schema.primary_keys.is_empty() {
        return schema.fields.iter().map(logical).collect();
    }
    let keys = schema.primary_keys.iter();
    keys.filter(|key| !schema.partition_keys.contains(key))
        .filter_map(|key| schema.field(key).map(logical))
        .collect()
}

/// What partitions and buckets add up.
struct Sum {
    rows: i64,
    bytes: i64,
    files: i64,
    newest: Option<i64>,
    /// `None` where an index does not say.
    deleted: Option<i64>,
    total_buckets: i32,
}

impl Default for Sum {
    fn default() -> Self {
        Self {
            rows: 0,
            bytes: 0,
            files: 0,
            newest: None,
            deleted: Some(0),
            total_buckets: 0,
        }
    }
}

impl Sum {
    fn add(&mut self, split: &Split, listing: &Listing) {
        let file = &split.file;
        self.rows += file.row_count;
        self.bytes += file.file_size;
        self.files += 1;
        self.newest = self.newest.max(file.creation_time_millis);
        let deleted = listing.deleted_rows.get(&file.file_name);
        let deleted = deleted.copied().unwrap_or(Some(0));
        self.deleted = self.deleted.zip(deleted).map(|(a, b)| a + b);
        self.total_buckets = split.total_buckets;
    }
}

/// `$partitions`; ours behind: bucket count and rows deleted by vectors.
///
/// # Errors
/// Faults of the store, unreadable metadata.
pub async fn partitions(table: &Table, at: Option<SnapshotId>) -> Result<Sheet> {
    let mut sheet = Sheet::new([
        "partition",
        "record_count",
        "file_size_in_bytes",
        "file_count",
        "last_update_time",
        "created_at",
        "created_by",
        "updated_by",
        "options",
        "total_buckets",
        "deleted_record_count",
    ]);
    let listing = listing(table, at).await?;
    let texts = PartitionTexts::of(&listing.schema)?;
    // By the row: different partitions may have the same text, such as null and blank.
    let mut sums: BTreeMap<(String, BinaryRow), Sum> = BTreeMap::new();
    for split in read_files(&listing) {
        sums.entry((texts.spec(&split.partition)?, split.partition.clone()))
            .or_default()
            .add(split, &listing);
    }
    for ((partition, _), sum) in sums {
        sheet.push(vec![
            partition.into(),
            sum.rows.into(),
            sum.bytes.into(),
            sum.files.into(),
            sum.newest.map_or(Cell::Null, Cell::Millis),
            // A catalog that keeps partitions knows these; a folder does not, in Java neither.
            Cell::Null,
            Cell::Null,
            Cell::Null,
            Cell::Null,
            Cell::Int(i64::from(sum.total_buckets)),
            Cell::int(sum.deleted),
        ]);
    }
    Ok(sheet)
}

/// `$buckets`.
///
/// # Errors
/// Faults of the store, unreadable metadata.
pub async fn buckets(table: &Table, at: Option<SnapshotId>) -> Result<Sheet> {
    let mut sheet = Sheet::new([
        "partition",
        "bucket",
        "record_count",
        "file_size_in_bytes",
        "file_count",
        "last_update_time",
    ]);
    let listing = listing(table, at).await?;
    let texts = PartitionTexts::of(&listing.schema)?;
    let mut sums: BTreeMap<(String, BinaryRow, i32), Sum> = BTreeMap::new();
    for split in &listing.splits {
        let text = texts.braces(&split.partition)?;
        sums.entry((text, split.partition.clone(), split.bucket.0))
            .or_default()
            .add(split, &listing);
    }
    for ((partition, _, bucket), sum) in sums {
        sheet.push(vec![
            partition.into(),
            Cell::Int(i64::from(bucket)),
            sum.rows.into(),
            sum.bytes.into(),
            sum.files.into(),
            sum.newest.map_or(Cell::Null, Cell::Millis),
        ]);
    }
    Ok(sheet)
}
