//! Rows that wait in memory: whole batches, and per group the row numbers in them.
//!
//! Owns the held batches, their real memory, and gathering the rows of a group. Batches are never
//! cut up for many small groups; rows are copied once, when a group's rows are gathered.

use std::collections::HashSet;

use arrow::array::{Array, ArrayData, UInt32Array};
use arrow::compute::{concat_batches, interleave_record_batch, take_record_batch};
use arrow::record_batch::RecordBatch;

use crate::budget::Reservation;
use crate::error::{Result, WriterError};
use crate::route::{GroupId, Routed};

/// Most rows of a gathered chunk.
const CHUNK_ROWS: usize = 8192;

/// Bytes that a gathered chunk should have at most.
const CHUNK_BYTES: usize = 2 << 20;

/// Neighbouring rows from which on they are sliced out of their batch instead of being copied. A
/// slice keeps its whole batch alive, so small ones are copied.
const SLICE_ROWS: usize = 2048;

/// Batches between two flushes.
#[derive(Debug, Default)]
pub(crate) struct Generation {
    batches: Vec<Held>,
    parts: Vec<Part>,
    buffers: HashSet<usize>,
    rows: usize,
    bytes: usize,
    charge: Option<Reservation>,
    /// The rows of each group lie side by side in one batch.
    arranged: bool,
}

#[derive(Debug)]
struct Held {
    batch: RecordBatch,
    /// Row numbers, group by group; `None`: all rows are of one group.
    rows: Option<Vec<u32>>,
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
    /// of one large batch share them) for nothing, and the row lists.
    pub(crate) fn cost(&self, batch: &RecordBatch, routed: &Routed) -> usize {
        let mut fresh = HashSet::new();
        let mut bytes = 0;
        for column in batch.columns() {
            visit(&column.to_data(), &mut |pointer, capacity| {
                if !self.buffers.contains(&pointer) && fresh.insert(pointer) {
                    bytes += capacity;
                }
            });
        }
        let lists = routed
            .rows
            .as_ref()
            .map_or(0, |r| r.capacity() * size_of::<u32>());
        bytes + lists + routed.groups.len() * size_of::<Part>() + size_of::<Held>()
    }

    /// Holds a batch.
    pub(crate) fn push(&mut self, batch: RecordBatch, routed: Routed, charge: Reservation) {
        for column in batch.columns() {
            visit(&column.to_data(), &mut |pointer, _| {
                self.buffers.insert(pointer);
            });
        }
        let number = self.batches.len() as u32;
        let rows = batch.num_rows();
        self.parts.extend(routed.groups.iter().map(|g| Part {
            group: g.group,
            batch: number,
            start: g.start,
            end: if routed.rows.is_some() {
                g.end
            } else {
                rows as u32
            },
        }));
        self.rows += rows;
        self.bytes += charge.bytes();
        match &mut self.charge {
            Some(held) => held.absorb(charge),
            None => self.charge = Some(charge),
        }
        self.batches.push(Held {
            batch,
            rows: routed.rows,
        });
    }

    /// Sorts by group, arrival order kept within one.
    pub(crate) fn sort(&mut self) {
        self.parts.sort_by_key(|part| part.group);
    }

    /// Puts the rows of each group side by side, once sorted, so that gathering them copies nothing:
    /// one copy of everything instead of one per group. For small generations, since for a moment
    /// all rows are there three times.
    pub(crate) fn arrange(&mut self) -> Result<()> {
        let mixed = self.batches.iter().any(|held| held.rows.is_some());
        let Some(first) = self.batches.first().filter(|_| mixed) else {
            return Ok(());
        };
        let mut starts = Vec::with_capacity(self.batches.len());
        let mut total = 0u32;
        for held in &self.batches {
            starts.push(total);
            total += held.batch.num_rows() as u32;
        }
        let mut order: Vec<u32> = Vec::with_capacity(self.rows);
        let mut parts: Vec<Part> = Vec::new();
        for part in &self.parts {
            let start = starts.get(part.batch as usize).copied().unwrap_or(0);
            let held = self.batches.get(part.batch as usize);
            let at = order.len() as u32;
            match held.and_then(|held| held.rows.as_ref()) {
                Some(rows) => {
                    let rows = rows.get(part.start as usize..part.end as usize);
                    order.extend(rows.unwrap_or_default().iter().map(|row| start + row));
                }
                None => order.extend(start + part.start..start + part.end),
            }
            match parts.last_mut() {
                Some(last) if last.group == part.group => last.end = order.len() as u32,
                _ => parts.push(Part {
                    group: part.group,
                    batch: 0,
                    start: at,
                    end: order.len() as u32,
                }),
            }
        }
        let failed = || WriterError::arrow("sorting rows by partition and bucket");
        let batches = self.batches.iter().map(|held| &held.batch);
        let all = match self.batches.len() {
            1 => first.batch.clone(),
            _ => concat_batches(first.batch.schema_ref(), batches).map_err(failed())?,
        };
        let batch = take_record_batch(&all, &UInt32Array::from(order)).map_err(failed())?;
        self.batches = vec![Held { batch, rows: None }];
        self.parts = parts;
        self.arranged = true;
        Ok(())
    }

    /// Some of the first rows.
    pub(crate) fn sample(&self, rows: usize) -> Vec<RecordBatch> {
        let mut left = rows;
        let mut sample = Vec::new();
        for held in &self.batches {
            let batch = held.batch.slice(0, held.batch.num_rows().min(left));
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
        let mut gathered = Gathered {
            slot_of: vec![UNUSED; self.batches.len()],
            ..Gathered::default()
        };
        for part in parts {
            let Some(held) = self.batches.get(part.batch as usize) else {
                continue;
            };
            let (start, end) = (part.start as usize, part.end as usize);
            let list = match &held.rows {
                Some(rows) => rows.get(start..end).unwrap_or_default(),
                None => &[],
            };
            let first = list.first().map_or(start, |row| *row as usize);
            let neighbours = match list.last() {
                Some(last) => *last as usize - first + 1 == list.len(),
                None => true,
            };
            if neighbours && (self.arranged || end - start >= SLICE_ROWS) {
                gathered.emit(&mut each)?;
                each(held.batch.slice(first, end - start))?;
                continue;
            }
            let source = (part.batch as usize, &held.batch);
            if list.is_empty() {
                for row in start..end {
                    gathered.add(row, source, limit, &mut each)?;
                }
            } else {
                for row in list {
                    gathered.add(*row as usize, source, limit, &mut each)?;
                }
            }
        }
        gathered.emit(&mut each)
    }
}

/// Rows of several batches that become one.
#[derive(Default)]
struct Gathered<'a> {
    batches: Vec<&'a RecordBatch>,
    /// Place of each held batch in `batches`.
    slot_of: Vec<u32>,
    used: Vec<usize>,
    rows: Vec<(usize, usize)>,
}

const UNUSED: u32 = u32::MAX;

impl<'a> Gathered<'a> {
    fn add(
        &mut self,
        row: usize,
        (number, batch): (usize, &'a RecordBatch),
        limit: usize,
        each: &mut impl FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        if self.rows.len() >= limit {
            self.emit(each)?;
        }
        let Some(slot) = self.slot_of.get_mut(number) else {
            return Ok(());
        };
        if *slot == UNUSED {
            *slot = self.batches.len() as u32;
            self.batches.push(batch);
            self.used.push(number);
        }
        self.rows.push((*slot as usize, row));
        Ok(())
    }

    fn emit(&mut self, each: &mut impl FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        let batches = std::mem::take(&mut self.batches);
        for number in self.used.drain(..) {
            if let Some(slot) = self.slot_of.get_mut(number) {
                *slot = UNUSED;
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
        let failed = WriterError::arrow("gathering the rows of a partition and bucket");
        let chunk = match batches.as_slice() {
            [batch] => {
                let list: UInt32Array = rows
                    .iter()
                    .map(|(_, row)| *row as u32)
                    .collect::<Vec<_>>()
                    .into();
                take_record_batch(batch, &list)
            }
            _ => interleave_record_batch(&batches, &rows),
        };
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
