//! Rows of one data file against the partition and bucket that the file stands under.
//!
//! The writers' router says where rows belong \[F-7.2]. It is asked with the bucket count that the file's
//! manifest entry records, and with the key columns as they were when the file was written: a bucket key
//! whose type changed since would hash otherwise.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use tidegate_model::{BinaryRow, DataField, LogicalType, Options, TableSchema};
use tidegate_scan::Split;
use tidegate_scan::canonical::{Times, rows};
use tidegate_writer::{GroupKey, Router};

use super::finding::{Kind, Severity};

/// Options that say which bucket a key belongs to; others of the table may be unreadable here.
const KEYS: [&str; 2] = ["bucket-key", "bucket-function.type"];

pub(super) struct Place<'s> {
    split: &'s Split,
    router: Router,
    /// The partition as a path, for messages.
    partition: String,
    /// Key columns as the file's schema has them: those of the partition, then those of the bucket.
    fields: Vec<DataField>,
    /// Where they are among the columns that are read.
    at: Vec<usize>,
    schema: SchemaRef,
    /// How many of `fields` make the partition.
    partitioned: usize,
    seen: u64,
    off_partition: Off,
    off_bucket: Off,
    /// Rows of another partition differ from the recorded one by nulls alone.
    only_nulls: bool,
    failed: Option<String>,
}

/// Rows that belong elsewhere.
#[derive(Default)]
struct Off {
    rows: u64,
    /// The first of them: its number in the file, its key, the right bucket.
    first: Option<(u64, String, i32)>,
}

impl<'s> Place<'s> {
    /// `read` are the columns that are read; key columns that are not among them are added. `None` where
    /// rows may stand anywhere: in tables of dynamic buckets the writer chooses, and a file of some columns
    /// lacks the keys.
    ///
    /// # Errors
    /// Says why nobody can tell where rows of this file belong.
    pub(super) fn new(
        split: &'s Split,
        written: &TableSchema,
        read: &mut Vec<DataField>,
    ) -> Result<Option<Self>, String> {
        let dynamic = !written.primary_keys.is_empty() && split.total_buckets < 1;
        if dynamic || split.total_buckets < -1 || split.file.write_cols.is_some() {
            return Ok(None);
        }
        let mut names = written.partition_keys.clone();
        let bucket_keys = written.bucket_keys();
        if split.total_buckets != -1 {
            names.extend(bucket_keys.iter().cloned());
        }
        let mut fields: Vec<DataField> = Vec::with_capacity(names.len());
        let mut at = Vec::with_capacity(names.len());
        for name in &names {
            let field = written.fields.iter().find(|f| f.name == *name);
            let field = field.ok_or_else(|| format!("its schema has no key column `{name}`"))?;
            let logical = &field.data_type.logical;
            let known = read
                .iter()
                .position(|r| r.id == field.id && r.data_type.logical == *logical);
            at.push(known.unwrap_or_else(|| {
                read.push(field.clone());
                read.len() - 1
            }));
            // Nulls where there may be none are told of by the reader.
            let mut field = field.clone();
            field.data_type.nullable = true;
            fields.push(field);
        }
        let mut options = Options::new();
        for key in KEYS {
            if let Some(text) = written.options.get(key) {
                options.set(key, text);
            }
        }
        options.set("bucket", split.total_buckets.to_string());
        if split.total_buckets != -1 {
            options.set("bucket-key", bucket_keys.join(","));
        }
        // Rows are routed alike with a primary key and without one.
        let keys = TableSchema {
            fields: fields.clone(),
            primary_keys: Vec::new(),
            options,
            ..written.clone()
        };
        let schema = tidegate_datafile::arrow_schema(&fields).map_err(|e| e.to_string())?;
        let paths = written.partition_paths().map_err(|e| e.to_string())?;
        Ok(Some(Self {
            split,
            router: Router::new(&keys).map_err(|e| e.to_string())?,
            partition: paths.path(&split.partition).map_err(|e| e.to_string())?,
            partitioned: written.partition_keys.len(),
            fields,
            at,
            schema: Arc::new(schema),
            seen: 0,
            off_partition: Off::default(),
            off_bucket: Off::default(),
            only_nulls: true,
            failed: None,
        }))
    }

    pub(super) fn look(&mut self, batch: &RecordBatch) {
        if self.failed.is_none()
            && let Err(why) = self.batch(batch)
        {
            self.failed = Some(why);
        }
        self.seen += batch.num_rows() as u64;
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<(), String> {
        let columns = self.at.iter();
        let columns = columns.filter_map(|at| batch.columns().get(*at).cloned());
        let size = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let keys = RecordBatch::try_new_with_options(self.schema.clone(), columns.collect(), &size)
            .map_err(|e| e.to_string())?;
        let routed = self.router.route(&keys).map_err(|e| e.to_string())?;
        for (group, rows) in routed.iter() {
            let Some(GroupKey { partition, bucket }) = self.router.key(group) else {
                continue;
            };
            let (first, count) = match rows {
                Some(rows) => (rows.first().copied().unwrap_or(0) as usize, rows.len()),
                None => (0, keys.num_rows()),
            };
            let number = self.seen + first as u64;
            let key = |from: usize, to: usize| text(&self.fields, &keys, first, from..to);
            if let Some(nulls) = self.other(partition) {
                self.only_nulls &= nulls;
                self.off_partition
                    .add(number, count, || key(0, self.partitioned), bucket.0);
            }
            if *bucket != self.split.bucket {
                let key = || key(self.partitioned, self.fields.len());
                self.off_bucket.add(number, count, key, bucket.0);
            }
        }
        Ok(())
    }

    /// Whether a partition is another one than the file's; `true` inside where nulls alone make it so.
    /// Bytes may differ between writers, the values then decide.
    fn other(&self, partition: &BinaryRow) -> Option<bool> {
        if *partition == self.split.partition {
            return None;
        }
        let types: Vec<&LogicalType> = self
            .fields
            .iter()
            .take(self.partitioned)
            .map(|f| &f.data_type.logical)
            .collect();
        let values = |row: &BinaryRow| row.datums(types.iter().copied());
        let (Ok(here), Ok(recorded)) = (values(partition), values(&self.split.partition)) else {
            return Some(false);
        };
        let mut nulls = true;
        let mut equal = true;
        for (here, recorded) in here.iter().zip(&recorded) {
            match (here, recorded) {
                (None, None) => {}
                (None, Some(_)) => equal = false,
                (Some(a), Some(b)) if a.compare(b).is_some_and(|o| o.is_eq()) => {}
                _ => (equal, nulls) = (false, false),
            }
        }
        (!equal).then_some(nulls)
    }

    pub(super) fn findings(self) -> Vec<(Severity, Kind, String)> {
        let mut findings = Vec::new();
        if let Some(why) = self.failed {
            findings.push((
                Severity::Warning,
                Kind::NotRead,
                format!("where its rows belong cannot be told: {why}"),
            ));
        }
        let (split, of) = (self.split, self.seen);
        if let Some((row, key, _)) = self.off_partition.first {
            let rows = self.off_partition.rows;
            let partition = &self.partition;
            findings.push(if self.only_nulls && rows == of {
                // Files that were taken over from Hive lack these columns.
                (Severity::Warning, Kind::Partition, format!(
                    "has no values of its partition {partition}, {key} in all {of} rows: readers give those of the partition"
                ))
            } else {
                (Severity::Error, Kind::Partition, format!(
                    "row {row} (counted from 0) holds {key}, the file stands in partition {partition}; {rows} of {of} rows are in a wrong partition: readers that look for it pass them by"
                ))
            });
        }
        if let Some((row, key, right)) = self.off_bucket.first {
            let rows = self.off_bucket.rows;
            let (bucket, total) = (split.bucket, split.total_buckets);
            findings.push((Severity::Error, Kind::Bucket, if total == -1 {
                format!("stands in bucket {bucket}, a table without buckets has bucket {right} alone")
            } else {
                format!(
                    "row {row} (counted from 0) holds {key}, which belongs to bucket {right} of {total}, the file stands in bucket {bucket}; {rows} of {of} rows are in a wrong bucket: readers that look for a key pass them by"
                )
            }));
        }
        findings
    }
}

impl Off {
    fn add(&mut self, row: u64, rows: usize, key: impl FnOnce() -> String, right: i32) {
        self.rows += rows as u64;
        // Groups of a batch do not come in the order of their rows.
        if self.first.as_ref().is_none_or(|(first, ..)| row < *first) {
            self.first = Some((row, key(), right));
        }
    }
}

/// Some columns of one row as JSON.
fn text(
    fields: &[DataField],
    keys: &RecordBatch,
    row: usize,
    columns: std::ops::Range<usize>,
) -> String {
    let fields = fields.get(columns.clone()).unwrap_or_default();
    let columns: Vec<usize> = columns.collect();
    let printed = keys
        .slice(row, 1)
        .project(&columns)
        .map_err(|e| e.to_string());
    let printed = printed.and_then(|one| {
        let lines = rows(fields, &one, Times::Precision).map_err(|e| e.to_string())?;
        Ok(lines.into_iter().next().unwrap_or_default())
    });
    printed.unwrap_or_else(|why| format!("a value that cannot be printed ({why})"))
}
