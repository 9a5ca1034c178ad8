//! The rows of the simulated world and the source that hands them out.
//!
//! Owns what a row is: a number that says whose it is, from which split and the how manieth. So the rows
//! that a position stands for can be written down without asking anybody.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use tidegate_runtime::source::{
    Boundedness, MemorySource, Read, Source, SourceError, SourceState, Split, SplitEnumerator,
    SplitReader,
};
use tidegate_sink::BoxFuture;

const PER_JOB: i64 = 1_000_000;
const PER_SPLIT: i64 = 1_000;
/// Rows of foreign committers.
pub(crate) const FOREIGN: i64 = -1;

/// What a job reads.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) job: usize,
    /// Rows of each batch, per split.
    pub(crate) splits: Vec<Vec<i64>>,
    /// Time before each batch.
    pub(crate) pace: Duration,
}

fn split_name(split: usize) -> String {
    format!("s{split}")
}

fn first_row(job: usize, split: usize) -> i64 {
    (job as i64 + 1) * PER_JOB + split as i64 * PER_SPLIT
}

/// Whose a row is; `None` for foreign ones.
pub(crate) fn job_of(row: i64) -> Option<usize> {
    usize::try_from(row / PER_JOB - 1)
        .ok()
        .filter(|_| row >= PER_JOB)
}

impl Input {
    /// All rows, ascending.
    pub(crate) fn all(&self) -> Vec<i64> {
        let splits = self.splits.iter().enumerate();
        let ends = splits.map(|(split, batches)| (split, batches.iter().sum()));
        self.rows(ends)
    }

    fn rows(&self, ends: impl Iterator<Item = (usize, i64)>) -> Vec<i64> {
        let rows = ends.flat_map(|(split, count)| {
            let first = first_row(self.job, split);
            first..first + count
        });
        let mut rows: Vec<i64> = rows.collect();
        rows.sort_unstable();
        rows
    }

    /// The rows before a position, ascending; an error where the position is none of this source.
    pub(crate) fn before(&self, state: &SourceState) -> Result<Vec<i64>, String> {
        let mut ends = BTreeMap::new();
        for (id, position) in state.finished.iter().chain(&state.active) {
            let bytes = <[u8; 8]>::try_from(position.bytes.as_slice());
            let split = id.0.strip_prefix('s').and_then(|n| n.parse::<usize>().ok());
            let (Ok(bytes), Some(split)) = (bytes, split) else {
                return Err(format!(
                    "position of split {id} is none of ours: {position:?}"
                ));
            };
            ends.insert(split, i64::from_be_bytes(bytes));
        }
        Ok(self.rows(ends.into_iter()))
    }

    /// The source as one process has it, whose tasks read at most so many splits side by side.
    pub(crate) fn source(&self, most_open: usize) -> Result<Paced, String> {
        let mut splits = Vec::new();
        for (split, sizes) in self.splits.iter().enumerate() {
            let mut at = first_row(self.job, split);
            let mut batches = Vec::new();
            for size in sizes {
                batches.push(batch(at..at + size).map_err(|e| e.to_string())?);
                at += size;
            }
            splits.push((split_name(split), batches));
        }
        Ok(Paced {
            inner: MemorySource::new(splits).map_err(|e| e.to_string())?,
            identity: format!("rows of job {}", self.job),
            pace: self.pace,
            most_open,
        })
    }
}

fn batch(ids: std::ops::Range<i64>) -> Result<RecordBatch, ArrowError> {
    let ids = Arc::new(Int64Array::from_iter_values(ids));
    RecordBatch::try_from_iter([("id", ids as _)])
}

/// The numbers of a batch.
pub(crate) fn ids(batch: &RecordBatch) -> Vec<i64> {
    let column = batch.columns().first();
    let ids = column.and_then(|c| c.as_any().downcast_ref::<Int64Array>());
    ids.map(|ids| ids.values().to_vec()).unwrap_or_default()
}

/// A source in memory that takes its time before every batch.
#[derive(Clone, Debug)]
pub(crate) struct Paced {
    inner: MemorySource,
    identity: String,
    pace: Duration,
    most_open: usize,
}

impl Source for Paced {
    fn name(&self) -> String {
        self.identity.clone()
    }

    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }

    fn boundedness(&self) -> Boundedness {
        self.inner.boundedness()
    }

    fn max_open_splits(&self) -> usize {
        self.most_open
    }

    fn enumerator<'a>(
        &'a self,
        state: &'a SourceState,
    ) -> BoxFuture<'a, Result<Box<dyn SplitEnumerator>, SourceError>> {
        self.inner.enumerator(state)
    }

    fn reader<'a>(
        &'a self,
        split: &'a Split,
    ) -> BoxFuture<'a, Result<Box<dyn SplitReader>, SourceError>> {
        Box::pin(async move {
            let inner = self.inner.reader(split).await?;
            let pace = self.pace;
            Ok(Box::new(PacedReader { inner, pace }) as Box<_>)
        })
    }
}

struct PacedReader {
    inner: Box<dyn SplitReader>,
    pace: Duration,
}

impl SplitReader for PacedReader {
    fn next<'a>(&'a mut self) -> BoxFuture<'a, Result<Read, SourceError>> {
        Box::pin(async move {
            tokio::time::sleep(self.pace).await;
            self.inner.next().await
        })
    }
}

/// Rows as the bytes of a data file.
pub(crate) fn encode(rows: &[i64]) -> Vec<u8> {
    rows.iter().flat_map(|row| row.to_be_bytes()).collect()
}

/// Rows of a data file.
pub(crate) fn decode(bytes: &[u8]) -> Vec<i64> {
    let rows = bytes.chunks_exact(8);
    rows.filter_map(|row| Some(i64::from_be_bytes(row.try_into().ok()?)))
        .collect()
}

/// The rows of a job among these.
pub(crate) fn of_job(rows: &[i64], job: usize) -> Vec<i64> {
    let own = rows.iter().copied();
    own.filter(|row| job_of(*row) == Some(job)).collect()
}

/// Ascending lists, the first one part of the second, with repetitions.
pub(crate) fn is_within(part: &[i64], whole: &[i64]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|row| rest.any(|other| other == row))
}

/// What is in the first ascending list beyond the second.
pub(crate) fn surplus(rows: &[i64], expected: &[i64]) -> Vec<i64> {
    let mut rest = expected.iter().peekable();
    let mut surplus = Vec::new();
    for row in rows {
        while rest.next_if(|next| *next < row).is_some() {}
        if rest.next_if(|next| *next == row).is_none() {
            surplus.push(*row);
        }
    }
    surplus
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_runtime::source::{Position, SplitId};

    #[test]
    fn a_row_says_whose_it_is() {
        assert_eq!(job_of(first_row(0, 2) + 7), Some(0));
        assert_eq!(job_of(first_row(1, 0)), Some(1));
        assert_eq!(job_of(FOREIGN), None);
        assert_eq!(decode(&encode(&[1, -5, 9])), [1, -5, 9]);
    }

    #[test]
    fn a_position_stands_for_the_rows_before_it() {
        let input = Input {
            job: 0,
            splits: vec![vec![2, 1], vec![3]],
            pace: Duration::ZERO,
        };
        let position = |n: u64| Position {
            version: 1,
            bytes: n.to_be_bytes().to_vec(),
        };
        let mut state = SourceState::default();
        state.active.insert(SplitId("s0".into()), position(2));
        assert_eq!(
            input.before(&state).as_deref(),
            Ok(&[1_000_000, 1_000_001][..])
        );
        state.finished.insert(SplitId("s1".into()), position(3));
        assert_eq!(input.before(&state).map(|rows| rows.len()), Ok(5));
        assert_eq!(input.all().len(), 6);
    }
}
