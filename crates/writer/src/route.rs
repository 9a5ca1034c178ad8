//! Which rows of a batch belong to which partition and bucket, and which writer gets them.
//!
//! Owns the vectorised way from a batch to groups of row numbers, and the distribution of rows over
//! writers. Decides nothing about files and copies no rows except where a batch really is split.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use arrow::array::UInt32Array;
use arrow::compute::take_record_batch;
use arrow::record_batch::RecordBatch;
use tidegate_datafile::normalise;
use tidegate_merge::MergeSpec;
use tidegate_model::bucket::{BucketFunction, hash};
use tidegate_model::options::TableOptions;
use tidegate_model::{BinaryRow, BucketId, DataField, TableSchema};
use tidegate_sink::{ErrorKind, Rows, SinkError};

use crate::assign::{Assigners, DynamicBuckets};
use crate::error::{Result, WriterError};
use crate::fold::Fold;
use crate::keyed::intake::Intake;
use crate::keys::{KeyColumns, KeyRows};
use crate::partitions::Partitions;

/// A partition and bucket, numbered by the router that met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

impl GroupId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a [`GroupId`] stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupKey {
    /// Partition value.
    pub partition: BinaryRow,
    /// Bucket; 0 in tables without buckets \[F-7.1].
    pub bucket: BucketId,
}

/// Entries of [`Router::near`] at most.
const NEAR: usize = 1 << 16;

/// No group.
const UNKNOWN: u32 = u32::MAX;

/// How rows are spread inside a partition.
#[derive(Clone, Debug)]
enum Buckets {
    /// One bucket per partition. Without a primary key (`bucket = -1`) any number of writers may share it;
    /// where rows wait for their bucket (`bucket = -2`) all rows of a `key` go to one of them.
    One {
        bucket: BucketId,
        key: Option<KeyColumns>,
    },
    Fixed {
        count: i32,
        function: BucketFunction,
        key: KeyColumns,
    },
    /// `bucket = -1` with a primary key: by a hash index.
    Dynamic {
        key: KeyColumns,
        assigners: Assigners,
    },
    /// The same where the key lacks a partition column: whoever knows where keys are names the places.
    Placed { group_of: HashMap<GroupKey, u32> },
}

/// The rows of one group in [`Routed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutedGroup {
    /// The group.
    pub group: GroupId,
    /// First position in the row list.
    pub start: u32,
    /// Position after the last one.
    pub end: u32,
}

/// A batch split by group: each row in exactly one of them, in the order of the batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routed {
    /// In order of first appearance.
    pub groups: Vec<RoutedGroup>,
    /// Row numbers, group by group; `None` where all rows belong to one group.
    pub rows: Option<Vec<u32>>,
}

impl Routed {
    /// Groups with their row numbers. The rows of an undivided batch are `None`.
    pub fn iter(&self) -> impl Iterator<Item = (GroupId, Option<&[u32]>)> {
        self.groups.iter().map(|g| {
            let rows = self.rows.as_deref();
            (
                g.group,
                rows.map(|r| r.get(g.start as usize..g.end as usize).unwrap_or_default()),
            )
        })
    }
}

/// Finds partition and bucket of every row, batch by batch, remembering those that it met.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{Int64Array, RecordBatch, StringArray};
/// use tidegate_model::{DataField, DataType, FieldId, LogicalType, Options, SchemaId, TableSchema};
/// use tidegate_writer::Router;
///
/// # let field = |id, name: &str, logical| DataField {
/// #     id: FieldId(id), name: name.into(), data_type: DataType { logical, nullable: true },
/// #     description: None, default_value: None };
/// # let schema = TableSchema {
/// #     version: 3, id: SchemaId(0), highest_field_id: FieldId(1), primary_keys: vec![],
/// #     fields: vec![field(0, "id", LogicalType::BigInt), field(1, "dt", LogicalType::VarChar(10))],
/// #     partition_keys: vec!["dt".into()], options: Options::new(), comment: None,
/// #     time_millis: 0, unknown: vec![] };
/// let mut router = Router::new(&schema)?; // columns id and dt, partitioned by dt
/// let batch = RecordBatch::try_from_iter([
///     ("id", Arc::new(Int64Array::from(vec![1, 2, 3])) as _),
///     ("dt", Arc::new(StringArray::from(vec!["a", "b", "a"])) as _),
/// ])?;
/// let routed = router.route(&batch)?;
/// let rows: Vec<_> = routed.iter().map(|(_, rows)| rows.unwrap().to_vec()).collect();
/// assert_eq!(rows, [vec![0, 2], vec![1]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Router {
    partitions: Partitions,
    buckets: Buckets,
    groups: Vec<GroupKey>,
    /// Partition number and bucket in one word, for fixed buckets only.
    group_of: HashMap<u64, u32, Fold>,
    /// The same for the first places, partition by partition, one entry per bucket: looking there is
    /// quicker.
    near: Vec<u32>,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Scratch {
    keys: KeyRows,
    partition_of: Vec<u32>,
    bucket_of: Vec<i32>,
    group_of_row: Vec<u32>,
    /// Per group: the batch that last touched it, and its place among the groups of that batch.
    seen: Vec<(u64, u32)>,
    batch: u64,
    cursors: Vec<u32>,
}

impl Router {
    /// A router for a table without primary key, or with one and fixed or dynamic buckets.
    ///
    /// # Errors
    /// [`WriterError::Config`] names the option or column that does not fit.
    pub fn new(schema: &TableSchema) -> Result<Self> {
        let partition = KeyColumns::new(schema, &schema.partition_keys, "partition")?;
        if let Some((t, name)) = partition
            .types()
            .iter()
            .zip(&schema.partition_keys)
            .find_map(|(t, n)| t.unfit_as_partition().map(|why| (why, n)))
        {
            return Err(WriterError::Config(format!("partition column {name}: {t}")));
        }
        Ok(Self {
            partitions: Partitions::new(partition),
            buckets: Buckets::new(schema)?,
            groups: Vec::new(),
            group_of: HashMap::default(),
            near: Vec::new(),
            scratch: Scratch::default(),
        })
    }

    /// Bucket count of the table; -1 without buckets and with dynamic ones, -2 where rows wait for theirs.
    pub fn total_buckets(&self) -> i32 {
        match &self.buckets {
            Buckets::One { key: Some(_), .. } => -2,
            Buckets::One { .. } | Buckets::Dynamic { .. } | Buckets::Placed { .. } => -1,
            Buckets::Fixed { count, .. } => *count,
        }
    }

    /// Partitions of a batch whose hash index must be [adopted](Self::adopt) before the batch is routed:
    /// of tables with dynamic buckets only.
    pub(crate) fn unknown_partitions(&mut self, batch: &RecordBatch) -> Result<Vec<BinaryRow>> {
        if !matches!(self.buckets, Buckets::Dynamic { .. }) {
            return Ok(Vec::new());
        }
        self.partitions_of(batch)?;
        let Buckets::Dynamic { assigners, .. } = &self.buckets else {
            return Ok(Vec::new());
        };
        let mut numbers = self.scratch.partition_of.clone();
        numbers.sort_unstable();
        numbers.dedup();
        let rows = self.partitions.rows();
        let rows = numbers.iter().filter_map(|n| rows.get(*n as usize));
        Ok(rows.filter(|row| !assigners.knows(row)).cloned().collect())
    }

    /// Fills the partition number of every row.
    fn partitions_of(&mut self, batch: &RecordBatch) -> Result<()> {
        let Scratch {
            keys, partition_of, ..
        } = &mut self.scratch;
        self.partitions.assign(batch, keys, partition_of)
    }

    /// What the table knows of the keys of a partition.
    pub(crate) fn adopt(&mut self, partition: BinaryRow, buckets: Vec<(BucketId, Vec<i32>)>) {
        if let Buckets::Dynamic { assigners, .. } = &mut self.buckets {
            assigners.adopt(partition, buckets);
        }
    }

    /// The hash indexes, where buckets are dynamic.
    pub(crate) fn assigners(&mut self) -> Option<&mut Assigners> {
        match &mut self.buckets {
            Buckets::Dynamic { assigners, .. } => Some(assigners),
            _ => None,
        }
    }

    /// Groups met so far.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// True before the first row.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// What a group stands for.
    pub fn key(&self, group: GroupId) -> Option<&GroupKey> {
        self.groups.get(group.index())
    }

    /// Forgets all groups; numbers begin again at 0.
    pub fn clear(&mut self) {
        self.partitions.clear();
        self.groups.clear();
        self.group_of.clear();
        self.near.clear();
        if let Buckets::Placed { group_of } = &mut self.buckets {
            group_of.clear();
        }
    }

    /// Forgets all groups but the first `groups`, after a batch that was refused.
    pub(crate) fn truncate(&mut self, groups: usize) {
        if groups >= self.groups.len() {
            return;
        }
        self.groups.truncate(groups);
        self.group_of.retain(|_, group| (*group as usize) < groups);
        if let Buckets::Placed { group_of } = &mut self.buckets {
            group_of.retain(|_, group| (*group as usize) < groups);
        }
        let gone = |group: &&mut u32| **group as usize >= groups;
        self.near
            .iter_mut()
            .filter(gone)
            .for_each(|group| *group = UNKNOWN);
        // Without buckets groups and partitions have the same numbers. With buckets partitions may
        // stay: they have no numbers that anybody else knows.
        if matches!(self.buckets, Buckets::One { .. }) {
            self.partitions.truncate(groups);
        }
    }

    /// Memory of what is remembered, about.
    pub fn memory(&self) -> usize {
        let hashes = match &self.buckets {
            Buckets::Dynamic { assigners, .. } => assigners.memory(),
            _ => 0,
        };
        self.partitions.memory() + self.groups.len() * 112 + self.near.capacity() * 4 + hashes
    }

    /// Splits a batch that has the table's canonical Arrow schema.
    ///
    /// # Errors
    /// [`WriterError::Rows`] where a key column is missing or of another type.
    pub fn route(&mut self, batch: &RecordBatch) -> Result<Routed> {
        let rows = batch.num_rows() as u32;
        if rows == 0 {
            return Ok(Routed::default());
        }
        self.assign(batch)?;
        Ok(self.gathered())
    }

    /// Splits rows whose place somebody else found: `of_row` are numbers of `places`.
    pub(crate) fn placed(&mut self, places: &[GroupKey], of_row: &[u32]) -> Result<Routed> {
        let Buckets::Placed { group_of } = &mut self.buckets else {
            return Err(WriterError::Task {
                what: "finding a bucket",
                reason: "the table's buckets are found by the router".to_owned(),
            });
        };
        let numbers = &mut self.scratch.group_of_row;
        numbers.clear();
        for place in of_row
            .iter()
            .filter_map(|place| places.get(*place as usize))
        {
            let group = match group_of.get(place) {
                Some(group) => *group,
                None => {
                    let group = self.groups.len() as u32;
                    self.groups.push(place.clone());
                    group_of.insert(place.clone(), group);
                    group
                }
            };
            numbers.push(group);
        }
        match numbers.is_empty() {
            true => Ok(Routed::default()),
            false => Ok(self.gathered()),
        }
    }

    /// The rows of each group side by side: a counting sort that touches only the groups of this batch.
    fn gathered(&mut self) -> Routed {
        let Scratch {
            group_of_row,
            seen,
            batch: stamp,
            cursors,
            ..
        } = &mut self.scratch;
        *stamp += 1;
        if seen.len() < self.groups.len() {
            seen.resize(self.groups.len(), (0, 0));
        }
        let mut groups: Vec<RoutedGroup> = Vec::new();
        for group in group_of_row.iter() {
            let Some(entry) = seen.get_mut(*group as usize) else {
                continue;
            };
            if entry.0 != *stamp {
                *entry = (*stamp, groups.len() as u32);
                groups.push(RoutedGroup {
                    group: GroupId(*group),
                    start: 0,
                    end: 0,
                });
            }
            if let Some(g) = groups.get_mut(entry.1 as usize) {
                g.end += 1;
            }
        }
        if groups.len() == 1 {
            return Routed { groups, rows: None };
        }
        let mut next = 0;
        cursors.clear();
        for g in &mut groups {
            cursors.push(next);
            g.start = next;
            next += g.end;
            g.end = next;
        }
        let mut list = vec![0; group_of_row.len()];
        for (row, group) in group_of_row.iter().enumerate() {
            let local = seen.get(*group as usize).map_or(0, |s| s.1);
            let Some(cursor) = cursors.get_mut(local as usize) else {
                continue;
            };
            if let Some(place) = list.get_mut(*cursor as usize) {
                *place = row as u32;
            }
            *cursor += 1;
        }
        Routed {
            groups,
            rows: Some(list),
        }
    }

    /// Fills the group number of every row.
    fn assign(&mut self, batch: &RecordBatch) -> Result<()> {
        let Scratch {
            keys,
            partition_of,
            bucket_of,
            group_of_row,
            ..
        } = &mut self.scratch;
        self.partitions.assign(batch, keys, partition_of)?;
        if let Buckets::Dynamic { key, assigners } = &mut self.buckets {
            key.encode(batch, keys)?;
            group_of_row.clear();
            let rows = self.partitions.rows();
            for (row, number) in keys.iter().zip(partition_of.iter()) {
                let Some(partition) = rows.get(*number as usize) else {
                    continue;
                };
                let bucket = assigners.bucket(partition, hash(row))?;
                let word = (u64::from(*number) << 32) | u64::from(bucket as u32);
                let group = *self.group_of.entry(word).or_insert_with(|| {
                    self.groups.push(GroupKey {
                        partition: partition.clone(),
                        bucket: BucketId(bucket),
                    });
                    self.groups.len() as u32 - 1
                });
                group_of_row.push(group);
            }
            return Ok(());
        }
        if let Buckets::One { bucket, .. } = &self.buckets {
            // One group per partition, with the same number.
            let new = self.partitions.rows().iter().skip(self.groups.len());
            let new = new.map(|partition| GroupKey {
                partition: partition.clone(),
                bucket: *bucket,
            });
            self.groups.extend(new);
            std::mem::swap(group_of_row, partition_of);
            return Ok(());
        }
        let Buckets::Fixed {
            count,
            function,
            key,
        } = &self.buckets
        else {
            return Err(WriterError::Task {
                what: "finding a bucket",
                reason: "nobody said where the keys of the rows are".to_owned(),
            });
        };
        key.buckets(batch, *function, *count, keys, bucket_of)?;
        group_of_row.clear();
        for (bucket, partition) in bucket_of.iter().zip(partition_of.iter()) {
            let bucket = *bucket;
            let place = *partition as usize * *count as usize + bucket as usize;
            if let Some(group) = self.near.get(place).filter(|group| **group != UNKNOWN) {
                group_of_row.push(*group);
                continue;
            }
            let word = (u64::from(*partition) << 32) | u64::from(bucket as u32);
            let group = match self.group_of.get(&word) {
                Some(group) => *group,
                None => {
                    let group = self.groups.len() as u32;
                    let partition = self.partitions.rows().get(*partition as usize);
                    self.groups.push(GroupKey {
                        partition: partition.cloned().unwrap_or_else(BinaryRow::empty),
                        bucket: BucketId(bucket),
                    });
                    self.group_of.insert(word, group);
                    group
                }
            };
            if place < NEAR {
                if self.near.len() <= place {
                    self.near.resize(place + 1, UNKNOWN);
                }
                if let Some(near) = self.near.get_mut(place) {
                    *near = group;
                }
            }
            group_of_row.push(group);
        }
        Ok(())
    }
}

impl Buckets {
    /// `bucket = -1` with a primary key: a hash index per partition, or where keys may change their partition
    /// one index over all of them, which somebody else has.
    fn dynamic(schema: &TableSchema) -> Result<Self> {
        let within = |key: &String| schema.primary_keys.contains(key);
        if !schema.partition_keys.iter().all(within) {
            return Ok(Self::Placed {
                group_of: HashMap::new(),
            });
        }
        let names = schema.trimmed_primary_keys();
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        Ok(Self::Dynamic {
            key: KeyColumns::new(schema, &names, "primary key")?,
            assigners: Assigners::new(DynamicBuckets::of(schema)?),
        })
    }

    fn new(schema: &TableSchema) -> Result<Self> {
        let config = |text: String| Err(WriterError::Config(text));
        let options = TableOptions::of(schema).map_err(|e| WriterError::Config(e.to_string()))?;
        let (count, function, names) =
            (options.bucket, options.bucket_function, options.bucket_keys);
        if count == -1 && schema.is_append() {
            return Ok(Self::One {
                bucket: BucketId(0),
                key: None,
            });
        }
        if count == -2 && !schema.is_append() {
            let names = schema.trimmed_primary_keys();
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            return Ok(Self::One {
                bucket: BucketId::POSTPONE,
                key: Some(KeyColumns::new(schema, &names, "primary key")?),
            });
        }
        if count == -1 {
            return Self::dynamic(schema);
        }
        if count < 1 {
            return config(match schema.is_append() {
                true => format!(
                    "option bucket = {count}: a table without primary key has -1 or a positive number"
                ),
                false => format!(
                    "option bucket = {count}: keyed tables are written with a fixed number of \
                     buckets, or with -1"
                ),
            });
        }
        if names.is_empty() {
            return config(format!(
                "option bucket = {count} needs the option bucket-key"
            ));
        }
        let key = KeyColumns::new(schema, &names, "bucket-key")?;
        if let Some((why, name)) = key
            .types()
            .iter()
            .zip(&names)
            .find_map(|(t, n)| t.unfit_as_key().map(|why| (why, n)))
        {
            return config(format!("bucket-key column {name}: {why}"));
        }
        if let Some(why) = function.unfit(key.types()) {
            return config(format!(
                "option bucket-function.type = {} does not take {why}",
                function.name()
            ));
        }
        Ok(Self::Fixed {
            count,
            function,
            key,
        })
    }
}

/// Spreads rows over the writers of a run, so that each partition and bucket has one writer where
/// buckets are fixed; without buckets any writer will do and rows stay on their channel \[F-4].
#[derive(Debug)]
pub struct ChannelRouter {
    writers: usize,
    fields: Vec<DataField>,
    schema: TableSchema,
    /// Of keyed tables.
    intake: Option<Intake>,
    /// Routers that are not in use; each call takes one, so that calls run side by side.
    idle: Mutex<Vec<Router>>,
    spreads: Spreads,
}

/// What decides which writer gets a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spreads {
    /// The channel that it comes by.
    Channels,
    /// Partition and bucket.
    Buckets,
    /// The partition, which has one writer that keeps its hash index.
    Partitions,
    /// Partition and key.
    Keys,
    /// All rows have one writer, which knows where each key is.
    Nothing,
}

impl Spreads {
    fn of(buckets: &Buckets) -> Self {
        match buckets {
            Buckets::One { key: None, .. } => Self::Channels,
            Buckets::One { key: Some(_), .. } => Self::Keys,
            Buckets::Fixed { .. } => Self::Buckets,
            Buckets::Dynamic { .. } => Self::Partitions,
            Buckets::Placed { .. } => Self::Nothing,
        }
    }
}

/// Groups after which a router of [`ChannelRouter`] begins anew.
const REMEMBERED: usize = 100_000;

impl ChannelRouter {
    /// A router in front of `writers` writers.
    ///
    /// # Errors
    /// As [`Router::new`].
    pub fn new(schema: &TableSchema, writers: usize) -> Result<Self> {
        let router = Router::new(schema)?;
        let intake = match schema.is_append() {
            true => None,
            false => {
                let spec = MergeSpec::new(schema);
                let spec = spec.map_err(|e| WriterError::Config(e.to_string()))?;
                Some(Intake::new(schema, &spec)?)
            }
        };
        Ok(Self {
            intake,
            writers: writers.max(1),
            fields: schema.fields.clone(),
            schema: schema.clone(),
            spreads: Spreads::of(&router.buckets),
            idle: Mutex::new(vec![router]),
        })
    }

    /// The writer of each group of rows, each row once, order kept within a writer.
    ///
    /// # Errors
    /// [`WriterError::Rows`] where the rows do not have the table's columns.
    pub fn spread(&self, channel: usize, batch: RecordBatch) -> Result<Vec<(usize, RecordBatch)>> {
        Ok(self
            .split(channel, &batch)?
            .into_iter()
            .map(|(writer, part)| (writer, part.map_or_else(|| batch.clone(), |(part, _)| part)))
            .collect())
    }

    /// The parts with their row numbers; `None` is the whole batch.
    #[allow(clippy::type_complexity, reason = "private, used twice")]
    fn split(
        &self,
        channel: usize,
        batch: &RecordBatch,
    ) -> Result<Vec<(usize, Option<(RecordBatch, UInt32Array)>)>> {
        if batch.num_rows() == 0 {
            return Ok(Vec::new());
        }
        if self.spreads == Spreads::Nothing {
            return Ok(vec![(0, None)]);
        }
        if self.spreads == Spreads::Channels || self.writers == 1 {
            return Ok(vec![(channel % self.writers, None)]);
        }
        let batch = normalise(batch, &self.fields).map_err(|e| WriterError::Rows(e.to_string()))?;
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let router = idle().pop();
        let mut router = match router {
            Some(router) => router,
            None => Router::new(&self.schema)?,
        };
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); self.writers];
        let mut spread = |row: usize, writer: usize| {
            if let Some(list) = rows.get_mut(writer) {
                list.push(row as u32);
            }
        };
        let (channels, of_row): (Vec<usize>, &[u32]) = if self.spreads == Spreads::Buckets {
            router.assign(&batch)?;
            let groups = router.groups.iter();
            let channels = groups.map(|key| channel_of(key, self.writers));
            (channels.collect(), &router.scratch.group_of_row)
        } else {
            router.partitions_of(&batch)?;
            let whole = |partition: &BinaryRow| GroupKey {
                partition: partition.clone(),
                bucket: BucketId(0),
            };
            let partitions = router.partitions.rows().iter();
            let channels = partitions.map(|p| channel_of(&whole(p), self.writers));
            (channels.collect(), &router.scratch.partition_of)
        };
        let channel = |group: &u32| channels.get(*group as usize).copied().unwrap_or_default();
        match &router.buckets {
            Buckets::One { key: Some(key), .. } => {
                let mut keys = KeyRows::default();
                key.encode(&batch, &mut keys)?;
                for (row, (group, key)) in of_row.iter().zip(keys.iter()).enumerate() {
                    let key = hash(key).cast_unsigned() as usize;
                    spread(row, (channel(group) + key % self.writers) % self.writers);
                }
            }
            _ => {
                let rows = of_row.iter().enumerate();
                rows.for_each(|(row, group)| spread(row, channel(group)));
            }
        }
        if router.len().max(router.partitions.rows().len()) > REMEMBERED {
            router.clear();
        }
        idle().push(router);
        let total = batch.num_rows();
        let mut parts = Vec::new();
        for (writer, list) in rows.into_iter().enumerate() {
            if list.len() == total {
                return Ok(vec![(writer, None)]);
            }
            if !list.is_empty() {
                let list = UInt32Array::from(list);
                let part = take_record_batch(&batch, &list)
                    .map_err(WriterError::arrow("spreading rows over writers"))?;
                parts.push((writer, Some((part, list))));
            }
        }
        Ok(parts)
    }
}

impl tidegate_sink::Router<RecordBatch> for ChannelRouter {
    fn route(
        &self,
        channel: usize,
        rows: Rows<RecordBatch>,
    ) -> Result<Vec<(usize, Rows<RecordBatch>)>, SinkError> {
        if let Some(intake) = &self.intake {
            intake.check_kinds(&rows)?;
        }
        let parts = self.split(channel, &rows.batch)?;
        let Rows { batch, kinds } = rows;
        if kinds.as_ref().is_some_and(|k| k.len() != batch.num_rows()) {
            return Err(SinkError::new(
                ErrorKind::Data,
                "one row kind per row is needed",
            ));
        }
        Ok(parts
            .into_iter()
            .map(|(writer, part)| match part {
                None => (
                    writer,
                    Rows {
                        batch: batch.clone(),
                        kinds: kinds.clone(),
                    },
                ),
                Some((batch, list)) => {
                    let kinds = kinds.as_ref().map(|kinds| {
                        list.values()
                            .iter()
                            .filter_map(|row| kinds.get(*row as usize).copied())
                            .collect()
                    });
                    (writer, Rows { batch, kinds })
                }
            })
            .collect())
    }
}

/// `((abs(partition hash) mod n) + bucket) mod n`, the smallest hash taken for the largest \[F-4].
fn channel_of(key: &GroupKey, writers: usize) -> usize {
    let hash = hash(key.partition.bytes())
        .checked_abs()
        .unwrap_or(i32::MAX) as usize;
    let bucket = usize::try_from(key.bucket.0).unwrap_or_default();
    (hash % writers + bucket) % writers
}
