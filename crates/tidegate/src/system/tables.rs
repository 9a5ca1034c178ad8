//! The tables themselves.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tidegate_commit::Marks;
use tidegate_model::layout::PartitionPaths;
use tidegate_model::options::TableOptions;
use tidegate_model::snapshot::CommitKind;
use tidegate_model::{
    BinaryRow, DataField, DataFileMeta, Datum, FileSource, LogicalType, SchemaId, Snapshot,
    SnapshotId, TableSchema, calendar, java_text, layout,
};
use tidegate_scan::{At, TableReader, manifest_list};

use super::sheet::{Cell, Sheet};
use crate::error::{Error, Result};
use crate::table::Table;

/// Columns, keys and options of the newest schema, for people.
pub fn describe(table: &Table) -> Sheet {
    let schema = table.schema();
    let mut sheet = Sheet::new(["what", "name", "value"]);
    for field in &schema.fields {
        let mut notes = Vec::new();
        if let Some(at) = schema.partition_keys.iter().position(|k| *k == field.name) {
            notes.push(format!("partition column {}", at + 1));
        }
        if schema.primary_keys.contains(&field.name) {
            notes.push("primary key".to_owned());
        }
        let mut text = field.data_type.to_string();
        if !notes.is_empty() {
            text.push_str(&format!(" ({})", notes.join(", ")));
        }
        if let Some(comment) = &field.description {
            text.push_str(&format!(": {comment}"));
        }
        sheet.push(vec![
            "column".into(),
            field.name.as_str().into(),
            text.into(),
        ]);
    }
    for (key, value) in schema.options.iter() {
        sheet.push(vec!["option".into(), key.into(), value.into()]);
    }
    if let Some(comment) = &schema.comment {
        sheet.push(vec![
            "table".into(),
            "comment".into(),
            comment.as_str().into(),
        ]);
    }
    sheet.push(vec![
        "table".into(),
        "schema".into(),
        schema.id.to_string().into(),
    ]);
    sheet.push(vec![
        "table".into(),
        "location".into(),
        table.store().url().into(),
    ]);
    sheet
}

/// `$options`.
pub fn options(table: &Table) -> Sheet {
    let mut sheet = Sheet::new(["key", "value"]);
    for (key, value) in table.schema().options.iter() {
        sheet.push(vec![key.into(), value.into()]);
    }
    sheet
}

fn kind_text(kind: CommitKind) -> String {
    kind.to_string()
}

/// `$snapshots`; ours behind: job, epoch and checkpoint.
///
/// # Errors
/// Faults of the store, unreadable snapshots.
pub async fn snapshots(table: &Table) -> Result<Sheet> {
    let mut sheet = Sheet::new([
        "snapshot_id",
        "schema_id",
        "commit_user",
        "commit_identifier",
        "commit_kind",
        "commit_time",
        "base_manifest_list",
        "delta_manifest_list",
        "changelog_manifest_list",
        "total_record_count",
        "delta_record_count",
        "changelog_record_count",
        "watermark",
        "next_row_id",
        "job",
        "epoch",
        "checkpoint_id",
    ]);
    for s in table.snapshots().await? {
        // Marks that make no sense are for `verify` to tell; here the rest is shown.
        let marks = Marks::of(&s).unwrap_or_default();
        sheet.push(vec![
            s.id.0.into(),
            s.schema_id.0.into(),
            s.commit_user.as_str().into(),
            s.commit_identifier.0.into(),
            kind_text(s.commit_kind).into(),
            Cell::Millis(s.time_millis),
            s.base_manifest_list.name.as_str().into(),
            s.delta_manifest_list.name.as_str().into(),
            Cell::text(s.changelog_manifest_list.as_ref().map(|l| l.name.as_str())),
            Cell::int(s.total_record_count),
            Cell::int(s.delta_record_count),
            Cell::int(s.changelog_record_count),
            Cell::int(s.watermark),
            Cell::int(s.next_row_id),
            Cell::text(marks.as_ref().map(|m| m.job.as_str())),
            Cell::int(marks.as_ref().and_then(|m| i64::try_from(m.epoch.0).ok())),
            Cell::int(
                marks
                    .as_ref()
                    .and_then(|m| i64::try_from(m.checkpoint.0).ok()),
            ),
        ]);
    }
    Ok(sheet)
}

/// `$schemas`.
///
/// # Errors
/// Faults of the store, unreadable schemas.
pub async fn schemas(table: &Table) -> Result<Sheet> {
    let mut sheet = Sheet::new([
        "schema_id",
        "fields",
        "partition_keys",
        "primary_keys",
        "options",
        "comment",
        "update_time",
    ]);
    let reader = TableReader::new(table.store().clone());
    let entries = table.store().list_names(layout::SCHEMA_DIR).await?;
    let mut ids: Vec<SchemaId> = entries
        .iter()
        .filter_map(|e| layout::schema_id(&e.name))
        .collect();
    ids.sort_unstable();
    for id in ids {
        let schema = reader.schema(id).await?;
        let json = SchemaJson::of(&schema)?;
        sheet.push(vec![
            schema.id.0.into(),
            json.part("fields").into(),
            json.part("partitionKeys").into(),
            json.part("primaryKeys").into(),
            json.part("options").into(),
            Cell::text(schema.comment.as_deref()),
            Cell::Millis(schema.time_millis),
        ]);
    }
    Ok(sheet)
}

/// Parts of a schema file as compact JSON.
struct SchemaJson(serde_json::Value);

impl SchemaJson {
    fn of(schema: &TableSchema) -> Result<Self> {
        let bytes = tidegate_format::schema::encode(schema);
        let value = serde_json::from_slice(&bytes)
            .map_err(|e| Error::Config(format!("schema {}: {e}", schema.id)))?;
        Ok(Self(value))
    }

    fn part(&self, key: &str) -> String {
        self.0.get(key).map(ToString::to_string).unwrap_or_default()
    }
}

/// Texts of partition values: `{2024-01-01, 7}` and `dt=2024-01-01/hh=7`.
struct PartitionTexts {
    /// Null and blank values are the name of their directory.
    paths: PartitionPaths,
}

impl PartitionTexts {
    fn of(schema: &TableSchema) -> Result<Self> {
        let columns = schema
            .partition_keys
            .iter()
            .filter_map(|key| schema.field(key))
            .map(|f| (f.name.clone(), f.data_type.logical.clone()))
            .collect();
        let default_name = TableOptions::of(schema)?.partition_default_name;
        Ok(Self {
            paths: PartitionPaths::new(columns, default_name, false),
        })
    }

    /// The values themselves: `null` and blanks are told apart.
    fn braces(&self, partition: &BinaryRow) -> Result<String> {
        let mut values = self.paths.names(partition)?;
        let row = partition.reader();
        for (i, (value, (_, logical))) in values.iter_mut().zip(self.paths.columns()).enumerate() {
            if row.is_null(i)? {
                "null".clone_into(value);
            } else if matches!(logical, LogicalType::Char(_) | LogicalType::VarChar(_)) {
                row.str(i)?.unwrap_or_default().clone_into(value);
            }
        }
        Ok(format!("{{{}}}", values.join(", ")))
    }

    fn spec(&self, partition: &BinaryRow) -> Result<String> {
        let values = self.paths.names(partition)?;
        let names = self.paths.columns().iter().map(|(name, _)| name);
        let parts: Vec<String> = names.zip(values).map(|(n, v)| format!("{n}={v}")).collect();
        Ok(parts.join("/"))
    }
}

async fn snapshot_at(table: &Table, at: Option<SnapshotId>) -> Result<Option<Snapshot>> {
    match at {
        Some(id) => table.snapshot(id).await.map(Some),
        None => table.latest_snapshot().await,
    }
}

/// `$manifests` of a snapshot.
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
    for list in [&snapshot.base_manifest_list, &snapshot.delta_manifest_list] {
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

async fn plan(table: &Table, at: Option<SnapshotId>) -> Result<tidegate_scan::ScanPlan> {
    let reader = TableReader::new(table.store().clone());
    Ok(reader.scan(&at.map_or(At::Latest, At::Snapshot)).await?)
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
    let plan = plan(table, at).await?;
    let texts = PartitionTexts::of(table.schema())?;
    let reader = TableReader::new(table.store().clone());
    let mut schemas: BTreeMap<SchemaId, TableSchema> = BTreeMap::new();
    for split in plan.splits() {
        let file = &split.file;
        if let Entry::Vacant(free) = schemas.entry(file.schema_id) {
            free.insert(reader.schema(file.schema_id).await?);
        }
        let fields = schemas
            .get(&file.schema_id)
            .map(|s| s.fields.as_slice())
            .unwrap_or_default();
        let stats = StatTexts::of(file, fields)?;
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
            Cell::Null,
            Cell::Null,
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

/// `{column=value, …}` in the order of names, as Java prints its maps.
struct StatTexts {
    nulls: String,
    min: String,
    max: String,
}

impl StatTexts {
    fn of(file: &DataFileMeta, fields: &[DataField]) -> Result<Self> {
        let covered: Vec<&DataField> = match &file.value_stats_cols {
            None => fields.iter().collect(),
            Some(names) => names
                .iter()
                .filter_map(|n| fields.iter().find(|f| f.name == *n))
                .collect(),
        };
        let mut all: BTreeMap<&str, [String; 3]> = fields
            .iter()
            .map(|f| {
                (
                    f.name.as_str(),
                    ["null".to_owned(), "null".to_owned(), "null".to_owned()],
                )
            })
            .collect();
        let counts = file.value_stats.null_counts.as_deref().unwrap_or_default();
        for (i, field) in covered.iter().enumerate() {
            let text = |row: &BinaryRow| -> Result<String> {
                if i >= row.arity() as usize {
                    return Ok("null".to_owned());
                }
                Ok(row
                    .get(i, &field.data_type.logical)?
                    .map_or_else(|| "null".to_owned(), |d| datum_text(&d)))
            };
            let count = counts
                .get(i)
                .copied()
                .flatten()
                .map_or_else(|| "null".to_owned(), |n| n.to_string());
            all.insert(
                &field.name,
                [
                    count,
                    text(&file.value_stats.min_values)?,
                    text(&file.value_stats.max_values)?,
                ],
            );
        }
        let joined = |which: usize| {
            let parts: Vec<String> = all
                .iter()
                .map(|(name, texts)| {
                    format!("{name}={}", texts.get(which).map_or("null", String::as_str))
                })
                .collect();
            format!("{{{}}}", parts.join(", "))
        };
        Ok(Self {
            nulls: joined(0),
            min: joined(1),
            max: joined(2),
        })
    }
}

/// A value as Java's `toString` prints it: dates as days, times as milliseconds.
fn datum_text(datum: &Datum) -> String {
    match datum {
        Datum::Boolean(v) => v.to_string(),
        Datum::TinyInt(v) => v.to_string(),
        Datum::SmallInt(v) => v.to_string(),
        Datum::Int(v) | Datum::Date(v) | Datum::TimeMillis(v) => v.to_string(),
        Datum::BigInt(v) => v.to_string(),
        Datum::Float(v) => java_text::float(*v),
        Datum::Double(v) => java_text::double(*v),
        Datum::Decimal {
            unscaled, scale, ..
        } => java_text::decimal(*unscaled, *scale),
        Datum::String(v) => v.clone(),
        Datum::Timestamp {
            millis,
            nanos_of_milli,
        } => {
            let mut text = String::new();
            calendar::write_iso(&mut text, *millis, *nanos_of_milli);
            text
        }
        // Java prints the identity of the array object here; nothing is better than that.
        _ => "null".to_owned(),
    }
}

/// What partitions and buckets add up.
#[derive(Default)]
struct Sum {
    rows: i64,
    bytes: i64,
    files: i64,
    newest: Option<i64>,
    deleted: i64,
    total_buckets: i32,
}

impl Sum {
    fn add(&mut self, split: &tidegate_scan::Split) {
        let file = &split.file;
        self.rows += file.row_count;
        self.bytes += file.file_size;
        self.files += 1;
        self.newest = self.newest.max(file.creation_time_millis);
        self.deleted += split.deletion.as_ref().map_or(0, |d| d.len() as i64);
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
        "total_buckets",
        "deleted_record_count",
    ]);
    let texts = PartitionTexts::of(table.schema())?;
    // By the row: different partitions may have the same text, such as null and blank.
    let mut sums: BTreeMap<(String, BinaryRow), Sum> = BTreeMap::new();
    for split in plan(table, at).await?.splits() {
        sums.entry((texts.spec(&split.partition)?, split.partition.clone()))
            .or_default()
            .add(split);
    }
    for ((partition, _), sum) in sums {
        sheet.push(vec![
            partition.into(),
            sum.rows.into(),
            sum.bytes.into(),
            sum.files.into(),
            sum.newest.map_or(Cell::Null, Cell::Millis),
            Cell::Int(i64::from(sum.total_buckets)),
            sum.deleted.into(),
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
    let texts = PartitionTexts::of(table.schema())?;
    let mut sums: BTreeMap<(String, BinaryRow, i32), Sum> = BTreeMap::new();
    for split in plan(table, at).await?.splits() {
        let text = texts.braces(&split.partition)?;
        sums.entry((text, split.partition.clone(), split.bucket.0))
            .or_default()
            .add(split);
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
