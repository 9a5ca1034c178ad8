//! What becomes of rows whose key changes its partition: tables with a primary key that lacks a partition column
//! and with `bucket = -1` \[W-72].
//!
//! Owns where each key is ([`KeyIndex`]) and what is done with a row whose key is elsewhere: the old partition
//! gets a delete (deduplicate), or the row itself (partial-update, aggregation), or the row is left out
//! (first-row). Learned from the table when the first row comes; nothing of it is kept in checkpoints.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int8Array, RecordBatch, UInt32Array};
use arrow::compute::{interleave, take_record_batch};
use tidegate_datafile::constant;
use tidegate_merge::{MergeEngine, MergeSpec, kind};
use tidegate_model::{BinaryRow, BucketId, DataField, TableSchema};

use super::intake::Taken;
use crate::assign::{DynamicBuckets, MOST_BUCKETS};
use crate::budget::BudgetShare;
use crate::error::{Result, WriterError};
use crate::key_index::KeyIndex;
use crate::keys::{KeyColumns, KeyRows};
use crate::partitions::Partitions;
use crate::route::GroupKey;

/// What is done with a row whose key is in another partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Elsewhere {
    /// A delete goes there, the row to its own partition.
    Deleted,
    /// The row goes there.
    Used,
    /// The row is left out.
    Skipped,
}

/// All keys of a table, and the rules.
#[derive(Debug)]
pub(crate) struct Moves {
    elsewhere: Elsewhere,
    key: KeyColumns,
    /// Columns of the primary key, and the key in batches that have only these.
    names: Vec<String>,
    key_alone: KeyColumns,
    partitions: Partitions,
    /// Partition columns and their places among the table's.
    partition_fields: Vec<(usize, DataField)>,
    options: DynamicBuckets,
    index: KeyIndex,
    places: Vec<GroupKey>,
    number_of: HashMap<GroupKey, u32>,
    /// Keys of each bucket.
    counts: HashMap<BinaryRow, BTreeMap<i32, usize>>,
    learned: bool,
    keys: KeyRows,
    /// Rows of the last batch whose key has a new place, until the batch is taken.
    moved: Vec<(u32, u32)>,
}

/// Rows with the place of each.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) taken: Taken,
    /// Numbers of [`Moves::places`].
    pub(crate) places: Vec<u32>,
}

/// One row to write.
struct Row {
    from: u32,
    kind: i8,
    place: u32,
    /// It has the partition of its place instead of its own.
    moved: bool,
}

impl Moves {
    pub(crate) fn new(
        schema: &TableSchema,
        spec: &MergeSpec,
        options: DynamicBuckets,
        directory: PathBuf,
        share: Arc<BudgetShare>,
    ) -> Result<Self> {
        let elsewhere = match spec.engine() {
            MergeEngine::Deduplicate => Elsewhere::Deleted,
            MergeEngine::FirstRow => Elsewhere::Skipped,
            _ => Elsewhere::Used,
        };
        let mut alone = schema.clone();
        alone.fields = schema
            .primary_keys
            .iter()
            .filter_map(|name| schema.field(name).cloned())
            .collect();
        let partition_fields = schema.partition_keys.iter().filter_map(|name| {
            let at = schema.index_of(name)?;
            Some((at, schema.fields.get(at)?.clone()))
        });
        Ok(Self {
            elsewhere,
            key: KeyColumns::new(schema, &schema.primary_keys, "primary key")?,
            names: schema.primary_keys.clone(),
            key_alone: KeyColumns::new(&alone, &schema.primary_keys, "primary key")?,
            partitions: Partitions::new(KeyColumns::new(
                schema,
                &schema.partition_keys,
                "partition",
            )?),
            partition_fields: partition_fields.collect(),
            options,
            index: KeyIndex::new(directory, share),
            places: Vec::new(),
            number_of: HashMap::new(),
            counts: HashMap::new(),
            learned: false,
            keys: KeyRows::default(),
            moved: Vec::new(),
        })
    }

    /// Refused where a key would be left behind in its old partition.
    pub(crate) fn check(schema: &TableSchema, spec: &MergeSpec) -> Result<()> {
        if spec.engine() == MergeEngine::Deduplicate && spec.drops_on_write(kind::DELETE) {
            return Err(WriterError::Config(format!(
                "option 'ignore-delete' = 'true': the primary key ({}) lacks a partition column, and a key that \
                 changes its partition is deleted in the old one; remove the option",
                schema.primary_keys.join(", ")
            )));
        }
        Ok(())
    }

    /// True until the table's keys were [learned](Self::learn).
    pub(crate) fn is_new(&self) -> bool {
        !self.learned
    }

    /// Columns that are asked for.
    pub(crate) fn columns(&self) -> &[String] {
        &self.names
    }

    /// Keys that the table has in a bucket.
    pub(crate) fn learn(&mut self, bucket: &GroupKey, rows: &RecordBatch) -> Result<()> {
        let mut keys = std::mem::take(&mut self.keys);
        self.key_alone.encode(rows, &mut keys)?;
        let place = self.number(bucket);
        let known = self.index.find(&keys)?;
        for (key, known) in keys.iter().zip(known) {
            if let Some(other) = known.and_then(|known| self.places.get(known as usize)) {
                return Err(WriterError::Rows(format!(
                    "a key is in two partitions or buckets of the table ({other:?} and {bucket:?}), as after two \
                     jobs wrote it at once; delete one of its rows with another engine, `tidegate verify` finds them"
                )));
            }
            self.index.put(key, place)?;
        }
        let of_bucket = self.counts.entry(bucket.partition.clone()).or_default();
        *of_bucket.entry(bucket.bucket.0).or_default() += rows.num_rows();
        self.keys = keys;
        Ok(())
    }

    /// All of the table's keys are learned.
    pub(crate) fn is_complete(&mut self) {
        self.learned = true;
        self.index.charge();
    }

    /// What a number of a place stands for.
    pub(crate) fn places(&self) -> &[GroupKey] {
        &self.places
    }

    fn number(&mut self, place: &GroupKey) -> u32 {
        if let Some(number) = self.number_of.get(place) {
            return *number;
        }
        let number = self.places.len() as u32;
        self.places.push(place.clone());
        self.number_of.insert(place.clone(), number);
        number
    }

    /// The bucket of a new key: the first with room, else a new one.
    fn bucket(&mut self, partition: &BinaryRow, row: u32) -> Result<BucketId> {
        let counts = self.counts.entry(partition.clone()).or_default();
        let roomy = counts.iter().find(|(_, n)| **n < self.options.target_rows);
        if let Some((bucket, _)) = roomy {
            return Ok(BucketId(*bucket));
        }
        let most = self.options.max_buckets.unwrap_or(MOST_BUCKETS);
        let most = most.min(MOST_BUCKETS);
        if let Some(free) = (0..most).find(|bucket| !counts.contains_key(bucket)) {
            return Ok(BucketId(free));
        }
        // No more are allowed: the emptiest.
        let emptiest = counts.iter().min_by_key(|(_, n)| **n);
        match (self.options.max_buckets, emptiest) {
            (Some(_), Some((bucket, _))) => Ok(BucketId(*bucket)),
            _ => Err(WriterError::Row {
                row: row as usize,
                why: format!(
                    "its partition has {MOST_BUCKETS} buckets, and all are full; raise \
                     'dynamic-bucket.target-row-num' or set 'dynamic-bucket.max-buckets'"
                ),
            }),
        }
    }

    fn count(&mut self, place: &GroupKey, change: isize) {
        let of_bucket = self.counts.entry(place.partition.clone()).or_default();
        let count = of_bucket.entry(place.bucket.0).or_default();
        *count = count.saturating_add_signed(change);
    }

    /// Finds the place of each row, and makes the rows that keys which change their partition need.
    pub(crate) fn place(&mut self, taken: Taken) -> Result<Placed> {
        let mut keys = std::mem::take(&mut self.keys);
        let placed = self.place_keys(taken, &mut keys);
        self.keys = keys;
        placed
    }

    fn place_keys(&mut self, taken: Taken, keys: &mut KeyRows) -> Result<Placed> {
        let mut numbers = Vec::new();
        self.partitions.assign(&taken.values, keys, &mut numbers)?;
        self.key.encode(&taken.values, keys)?;
        let found = self.index.find(keys)?;
        self.moved.clear();
        // Keys that came before in this batch.
        let mut here: HashMap<&[u8], u32> = HashMap::new();
        let mut rows: Vec<Row> = Vec::with_capacity(found.len());
        let mut same = true;
        let each = keys
            .iter()
            .zip(found)
            .zip(numbers)
            .zip(taken.kinds.values());
        for (from, (((key, found), partition), kind)) in (0u32..).zip(each) {
            let Some(partition) = self.partitions.rows().get(partition as usize).cloned() else {
                continue;
            };
            let known = here.get(key).copied().or(found);
            let known = known.and_then(|n| Some((n, self.places.get(n as usize)?.clone())));
            let mut row = |kind, place, moved| {
                rows.push(Row {
                    from,
                    kind,
                    place,
                    moved,
                })
            };
            match known {
                Some((place, at)) if at.partition == partition => row(*kind, place, false),
                Some((place, _)) if self.elsewhere == Elsewhere::Used => {
                    same = false;
                    row(*kind, place, true);
                }
                Some(_) if self.elsewhere == Elsewhere::Skipped => same = false,
                known => {
                    if let Some((place, at)) = &known {
                        same = false;
                        row(kind::DELETE, *place, true);
                        self.count(at, -1);
                    }
                    let bucket = self.bucket(&partition, from)?;
                    let at = GroupKey { partition, bucket };
                    let place = self.number(&at);
                    self.count(&at, 1);
                    row(*kind, place, false);
                    here.insert(key, place);
                    self.moved.push((from, place));
                }
            }
        }
        let places = rows.iter().map(|row| row.place).collect();
        let taken = match same {
            true => taken,
            false => self.rows(&taken, &rows)?,
        };
        Ok(Placed { taken, places })
    }

    /// The batch was taken: its keys are where they were placed.
    pub(crate) fn keep(&mut self) -> Result<()> {
        let moved = std::mem::take(&mut self.moved);
        if moved.is_empty() {
            return Ok(());
        }
        let mut moved = moved.into_iter().peekable();
        for (row, key) in (0u32..).zip(self.keys.iter()) {
            if let Some((_, place)) = moved.next_if(|(from, _)| *from == row) {
                self.index.put(key, place)?;
            }
        }
        self.index.charge();
        Ok(())
    }

    /// Rows out of a batch, some of them with the partition of their place.
    fn rows(&self, taken: &Taken, rows: &[Row]) -> Result<Taken> {
        let failed = || WriterError::arrow("moving rows to the partition of their key");
        let from: UInt32Array = rows.iter().map(|row| row.from).collect::<Vec<_>>().into();
        let values = take_record_batch(&taken.values, &from).map_err(failed())?;
        let kinds: Int8Array = rows.iter().map(|row| Some(row.kind)).collect();
        if !rows.iter().any(|row| row.moved) {
            return Ok(Taken { values, kinds });
        }
        // The partitions that rows are moved to, each once.
        let mut others: Vec<&BinaryRow> = Vec::new();
        let mut number_of: HashMap<&BinaryRow, usize> = HashMap::new();
        let mut chosen: Vec<(usize, usize)> = Vec::with_capacity(rows.len());
        for (at, row) in rows.iter().enumerate() {
            let place = self.places.get(row.place as usize);
            chosen.push(match place.filter(|_| row.moved) {
                None => (0, at),
                Some(place) => {
                    let number = *number_of.entry(&place.partition).or_insert_with(|| {
                        others.push(&place.partition);
                        others.len()
                    });
                    (number, 0)
                }
            });
        }
        let mut columns = values.columns().to_vec();
        for (n, (at, field)) in self.partition_fields.iter().enumerate() {
            let Some(column) = columns.get_mut(*at) else {
                continue;
            };
            let mut sources: Vec<ArrayRef> = vec![column.clone()];
            for partition in &others {
                let value = partition.get(n, &field.data_type.logical)?;
                let value = constant(field, value.as_ref(), 1);
                sources.push(value.map_err(|e| WriterError::Rows(e.to_string()))?);
            }
            let sources: Vec<&dyn Array> = sources.iter().map(AsRef::as_ref).collect();
            *column = interleave(&sources, &chosen).map_err(failed())?;
        }
        let values = RecordBatch::try_new(values.schema(), columns).map_err(failed())?;
        Ok(Taken { values, kinds })
    }
}
