//! Rows that wait in memory: batches in which the rows of each group lie side by side.
//!
//! Owns the held batches, their real memory, and gathering the rows of a group. A batch of several
//! groups is sorted by group as it comes, while it is in the processor's caches; what is left to do
//! for a group later is joining stretches.

use std::collections::HashSet;

use arrow::array::{Array, ArrayData};
use arrow::compute::{concat_batches, interleave_record_batch};
use arrow::record_batch::RecordBatch;

use crate::budget::Reservation;
use crate::error::{Result, WriterError};
use crate::reorder::reorder;
use crate::route::{GroupId, Routed, RoutedGroup};

/// Most rows of a gathered chunk.
const CHUNK_ROWS: usize = 8192;

/// Bytes that a gathered chunk should have at most.
const CHUNK_BYTES: usize = 2 << 20;

/// Stretches of so many rows are handed out as they are: joining them would cost a copy and gain
/// nothing.
const SLICE_ROWS: usize = 2048;

/// Stretches shorter than this are gathered row by row, since cutting them out costs more.
const STRETCH_ROWS: usize = 8;

/// Batches between two flushes.
#[derive(Debug, Default)]
pub(crate) struct Generation {
    batches: Vec<RecordBatch>,
    parts: Vec<Part>,
    buffers: HashSet<usize>,
    rows: usize,
    bytes: usize,
    charge: Option<Reservation>,
}

/// A stretch of one held batch that belongs to one group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) group: GroupId,
    batch: u32,
    start: u32,
    end: u32,
}

impl Part {
    pub(crate) fn rows(&self) -> usize {
        (self.end - self.start) as usize
    }
}

/// A batch with the rows of each group side by side, ready to be held.
#[derive(Debug)]
pub(crate) struct Arranged {
    batch: RecordBatch,
    groups: Vec<RoutedGroup>,
}

impl Arranged {
    /// Sorts a batch by group, arrival order kept within one; copies nothing where it is sorted
    /// already.
    pub(crate) fn new(batch: RecordBatch, routed: Routed) -> Result<Self> {
        let Routed { mut groups, rows } = routed;
        let batch = match rows {
            Some(rows) if !rows.is_sorted() => reorder(&batch, rows)
                .map_err(WriterError::arrow("sorting rows by partition and bucket"))?,
            Some(_) => batch,
            None => {
                groups
                    .iter_mut()
                    .for_each(|g| (g.start, g.end) = (0, batch.num_rows() as u32));
                batch
            }
        };
        Ok(Self { batch, groups })
    }

    /// The same rows as another batch, made of them and of where each group's stand.
    pub(crate) fn rebuilt(
        self,
        make: impl FnOnce(&RecordBatch, &[RoutedGroup]) -> Result<RecordBatch>,
    ) -> Result<Self> {
        let batch = make(&self.batch, &self.groups)?;
        Ok(Self {
            batch,
            groups: self.groups,
        })
    }

    /// Rows.
    pub(crate) fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Groups that have rows in it.
    pub(crate) fn groups(&self) -> impl Iterator<Item = GroupId> {
        self.groups.iter().map(|g| g.group)
    }
}

impl Generation {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Memory held, as charged.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Average memory of a row.
    pub(crate) fn row_bytes(&self) -> usize {
        (self.bytes / self.rows.max(1)).max(1)
    }

    /// What holding this batch would cost: buffers at their capacity, those counted already (slices
    /// of one large batch share them) for nothing, and the list of stretches.
    pub(crate) fn cost(&self, arranged: &Arranged) -> usize {
        let mut fresh = HashSet::new();
        let mut bytes = 0;
        for column in arranged.batch.columns() {
            visit(&column.to_data(), &mut |pointer, capacity| {
                if !self.buffers.contains(&pointer) && fresh.insert(pointer) {
                    bytes += capacity;
                }
            });
        }
        bytes + arranged.groups.len() * size_of::<Part>() + size_of::<RecordBatch>()
    }

    /// Holds a batch.
    pub(crate) fn push(&mut self, arranged: Arranged, charge: Reservation) {
        let Arranged { batch, groups } = arranged;
        for column in batch.columns() {
            visit(&column.to_data(), &mut |pointer, _| {
                self.buffers.insert(pointer);
            });
        }
        let number = self.batches.len() as u32;
        self.parts.extend(groups.iter().map(|g| Part {
            group: g.group,
            batch: number,
            start: g.start,
            end: g.end,
        }));
        self.rows += batch.num_rows();
        self.bytes += charge.bytes();
        match &mut self.charge {
            Some(held) => held.absorb(charge),
            None => self.charge = Some(charge),
        }
        self.batches.push(batch);
    }

    /// Sorts by group, arrival order kept within one.
    pub(crate) fn sort(&mut self) {
        self.parts.sort_by_key(|part| part.group);
    }

    /// Some of the first rows.
    pub(crate) fn sample(&self, rows: usize) -> Vec<RecordBatch> {
        let mut left = rows;
        let mut sample = Vec::new();
        for batch in &self.batches {
            let batch = batch.slice(0, batch.num_rows().min(left));
            left -= batch.num_rows();
            sample.push(batch);
            if left == 0 {
                break;
            }
        }
        sample
    }

    /// Keeps only these of its parts; the memory stays held.
    pub(crate) fn keep(&mut self, parts: Vec<Part>) {
        self.rows = parts.iter().map(Part::rows).sum();
        self.parts = parts;
    }

    /// Groups in order with their parts, once sorted.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (GroupId, &[Part])> {
        let by_group = self.parts.chunk_by(|a, b| a.group == b.group);
        by_group.filter_map(|parts| parts.first().map(|first| (first.group, parts)))
    }

    /// The parts of one group, once sorted.
    pub(crate) fn parts_of(&self, group: GroupId) -> &[Part] {
        let start = self.parts.partition_point(|p| p.group < group);
        let tail = self.parts.get(start..).unwrap_or_default();
        tail.get(..tail.partition_point(|p| p.group == group))
            .unwrap_or_default()
    }

    /// Hands the rows of the parts out in order, in chunks.
    pub(crate) fn gather(
        &self,
        parts: &[Part],
        mut each: impl FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let limit = (CHUNK_BYTES / self.row_bytes()).clamp(1, CHUNK_ROWS);
        let mut waiting = 0;
        let mut first = 0;
        for (index, part) in parts.iter().enumerate() {
            let whole = part.rows() >= SLICE_ROWS.min(limit);
            if whole || waiting + part.rows() > limit {
                self.join(parts.get(first..index).unwrap_or_default(), &mut each)?;
                (first, waiting) = (index, 0);
            }
            if whole {
                if let Some(batch) = self.batches.get(part.batch as usize) {
                    each(batch.slice(part.start as usize, part.rows()))?;
                }
                first = index + 1;
            } else {
                waiting += part.rows();
            }
        }
        self.join(parts.get(first..).unwrap_or_default(), &mut each)
    }

    /// Makes one chunk of short stretches.
    fn join(&self, parts: &[Part], each: &mut impl FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let rows: usize = parts.iter().map(Part::rows).sum();
        let Some(schema) = self.batches.first().map(RecordBatch::schema_ref) else {
            return Ok(());
        };
        if rows == 0 {
            return Ok(());
        }
        let source = |part: &Part| Some((*part, self.batches.get(part.batch as usize)?));
        let sources = parts.iter().filter_map(source);
        let chunk = if rows >= parts.len() * STRETCH_ROWS {
            let stretches: Vec<RecordBatch> = sources
                .map(|(part, batch)| batch.slice(part.start as usize, part.rows()))
                .collect();
            match stretches.as_slice() {
                [one] => Ok(one.clone()),
                _ => concat_batches(schema, &stretches),
            }
        } else {
            let mut batches: Vec<&RecordBatch> = Vec::new();
            let mut slot_of: Vec<Option<usize>> = vec![None; self.batches.len()];
            let mut list: Vec<(usize, usize)> = Vec::with_capacity(rows);
            for (part, batch) in sources {
                let Some(slot) = slot_of.get_mut(part.batch as usize) else {
                    continue;
                };
                let slot = *slot.get_or_insert_with(|| {
                    batches.push(batch);
                    batches.len() - 1
                });
                list.extend((part.start..part.end).map(|row| (slot, row as usize)));
            }
            interleave_record_batch(&batches, &list)
        };
        let failed = WriterError::arrow("gathering the rows of a partition and bucket");
        each(chunk.map_err(failed)?)
    }
}

/// Calls `each` with start and capacity of every buffer below an array.
fn visit(data: &ArrayData, each: &mut impl FnMut(usize, usize)) {
    for buffer in data.buffers() {
        each(buffer.data_ptr().as_ptr() as usize, buffer.capacity());
    }
    if let Some(nulls) = data.nulls() {
        each(
            nulls.buffer().data_ptr().as_ptr() as usize,
            nulls.buffer().capacity(),
        );
    }
    data.child_data()
        .iter()
        .for_each(|child| visit(child, each));
}
