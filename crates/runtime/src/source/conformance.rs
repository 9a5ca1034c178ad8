//! What every source must hold to, as a suite that a source's tests call.
//!
//! Owns the checks of the rules in the header of [`crate::source`]. Uses nothing but the contract,
//! so a source in another crate can be checked with it. Does not check what rows a source should
//! have: the caller compares [`Report::rows`] with what it knows.
//!
//! ```
//! # use arrow::array::{Int64Array, RecordBatch};
//! # use std::sync::Arc;
//! use tidegate_runtime::source::{MemorySource, conformance};
//!
//! # let batch = RecordBatch::try_from_iter([(
//! #     "id", Arc::new(Int64Array::from(vec![1, 2, 3])) as _)]).unwrap();
//! let source = MemorySource::new([("only", vec![batch])]).unwrap();
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
//! let report = runtime.block_on(conformance::check(&source, conformance::Limits::default())).unwrap();
//! assert_eq!(report.rows, 3);
//! ```

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::Poll;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;

use super::{
    Boundedness, Position, Read, Source, SourceError, SourceState, Split, SplitEnumerator, SplitId,
    SplitReader,
};

/// How much is looked at: an unbounded source never ends by itself.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rows read of each split.
    pub rows: usize,
    /// Positions of each split from which it is read again, evenly spread.
    pub positions: usize,
    /// Splits looked at.
    pub splits: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            rows: 10_000,
            positions: 16,
            splits: 16,
        }
    }
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Splits found.
    pub splits: usize,
    /// Rows read of all splits, once.
    pub rows: usize,
    /// Positions from which a split was read again.
    pub replays: usize,
    /// Calls that were dropped half-way and made again.
    pub cancelled: usize,
}

/// A rule that the source breaks.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The source failed where it should not.
    #[error("{doing}: {source}")]
    Source {
        /// What was being done.
        doing: String,
        /// What the source said.
        source: SourceError,
    },
    /// The source did something else than the contract says.
    #[error("{0}")]
    Broken(String),
}

fn broken<T>(what: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Broken(what.into()))
}

fn doing(what: impl Into<String>) -> impl FnOnce(SourceError) -> Failure {
    let doing = what.into();
    move |source| Failure::Source { doing, source }
}

/// Rows of one split and the places between them.
struct Seen {
    rows: RecordBatch,
    /// Rows before the place, and the place.
    places: Vec<(usize, Position)>,
    end: Option<Position>,
}

/// Runs every check.
///
/// # Errors
/// [`Failure`] names the first rule that is broken and where.
pub async fn check(source: &dyn Source, limits: Limits) -> Result<Report, Failure> {
    let mut report = Report::default();
    let splits = discover_all(source, &SourceState::default(), limits).await?;
    report.splits = splits.len();
    let again = discover_all(source, &SourceState::default(), limits).await?;
    if again != splits {
        return broken("an enumerator opened twice on the same state finds different splits");
    }
    let mut seen = BTreeMap::new();
    for split in splits.iter().take(limits.splits) {
        let whole = read(source, split, limits.rows, None).await?.0;
        report.rows += whole.rows.num_rows();
        let (dropped, cancelled) = read(source, split, limits.rows, Some(1)).await?;
        report.cancelled += cancelled;
        if dropped.rows != whole.rows {
            return broken(format!(
                "split {}: rows differ when calls of next are dropped",
                split.id
            ));
        }
        let step = whole.places.len().div_ceil(limits.positions.max(1)).max(1);
        for (before, position) in whole.places.iter().step_by(step) {
            let position = through_bytes(&split.id, position)?;
            let at = Split {
                id: split.id.clone(),
                position,
            };
            let rest = whole.rows.num_rows().saturating_sub(*before);
            let (replay, _) = read(source, &at, rest, None).await?;
            if replay.rows != whole.rows.slice(*before, rest) {
                return broken(format!(
                    "split {}: reading from the position after row {before} does not give the \
                     rows that followed it",
                    split.id
                ));
            }
            report.replays += 1;
        }
        seen.insert(split.id.clone(), whole);
    }
    check_enumerator(source, &splits, &seen, limits).await?;
    Ok(report)
}

/// Rule 2: a position survives being written and read.
fn through_bytes(id: &SplitId, position: &Position) -> Result<Position, Failure> {
    if position.version == 0 {
        return broken(format!("split {id}: a position has version 0"));
    }
    let mut state = SourceState::default();
    state.active.insert(id.clone(), position.clone());
    let read = SourceState::from_positions(&state.to_positions())
        .map_err(|e| Failure::Broken(e.to_string()))?;
    match read.active.get(id) {
        Some(read) if read == position => Ok(read.clone()),
        _ => broken(format!(
            "split {id}: a position does not survive being written and read"
        )),
    }
}

/// Rule 4: begun and finished splits are not new; those not begun are found again.
async fn check_enumerator(
    source: &dyn Source,
    splits: &[Split],
    seen: &BTreeMap<SplitId, Seen>,
    limits: Limits,
) -> Result<(), Failure> {
    let mut state = SourceState::default();
    let mut expected = Vec::new();
    for (n, split) in splits.iter().enumerate() {
        let seen = seen.get(&split.id);
        let end = seen.and_then(|s| s.end.clone());
        match (n % 3, end) {
            (0, Some(end)) => {
                state.finished.insert(split.id.clone(), end);
            }
            (1, _) => {
                state
                    .active
                    .insert(split.id.clone(), split.position.clone());
            }
            _ => expected.push(split.clone()),
        }
    }
    let found = discover_all(source, &state, limits).await?;
    if found != expected {
        return broken(format!(
            "with {} splits begun and {} finished, {} further ones should be found, and {} are: {:?}",
            state.active.len(),
            state.finished.len(),
            expected.len(),
            found.len(),
            found.iter().map(|s| &s.id.0).collect::<Vec<_>>()
        ));
    }
    // Told of an end, a running enumerator must not offer that split again while it is unchanged.
    let mut enumerator = open(source, &SourceState::default()).await?;
    discover(source, &mut enumerator, limits).await?;
    for split in splits {
        if let Some(end) = seen.get(&split.id).and_then(|s| s.end.clone()) {
            enumerator.finished(&Split {
                id: split.id.clone(),
                position: end,
            });
        }
    }
    match discover(source, &mut enumerator, limits).await? {
        more if more.is_empty() => Ok(()),
        more => {
            let ids: Vec<_> = more.iter().map(|split| split.id.0.as_str()).collect();
            broken(format!("offered again after their end: {ids:?}"))
        }
    }
}

async fn open(
    source: &dyn Source,
    state: &SourceState,
) -> Result<Box<dyn SplitEnumerator>, Failure> {
    source
        .enumerator(state)
        .await
        .map_err(doing("opening the enumerator"))
}

async fn discover_all(
    source: &dyn Source,
    state: &SourceState,
    limits: Limits,
) -> Result<Vec<Split>, Failure> {
    let mut enumerator = open(source, state).await?;
    discover(source, &mut enumerator, limits).await
}

/// Discovers until complete, or until nothing new is found. Each call is dropped once half-way.
async fn discover(
    source: &dyn Source,
    enumerator: &mut Box<dyn SplitEnumerator>,
    limits: Limits,
) -> Result<Vec<Split>, Failure> {
    let mut splits = Vec::new();
    loop {
        let found = {
            let dropped = poll_times(enumerator.discover(), 1).await;
            match dropped {
                Some(found) => found,
                None => enumerator.discover().await,
            }
        };
        let found = found.map_err(doing("looking for splits"))?;
        let none = found.splits.is_empty();
        splits.extend(found.splits);
        if found.complete {
            return Ok(splits);
        }
        if none {
            if source.boundedness() == Boundedness::Bounded && splits.len() < limits.splits {
                // A bounded source may find its splits in several calls, but must get on.
                return broken("a bounded source finds no splits and is not complete either");
            }
            return Ok(splits);
        }
    }
}

/// Reads one split. With `cancel`, every other call is dropped after so many polls.
async fn read(
    source: &dyn Source,
    split: &Split,
    rows: usize,
    cancel: Option<usize>,
) -> Result<(Seen, usize), Failure> {
    let what = format!("split {}", split.id);
    let opened = source.reader(split).await;
    let mut reader: Box<dyn SplitReader> = opened.map_err(doing(format!("opening {what}")))?;
    let mut batches: Vec<RecordBatch> = Vec::new();
    let mut places = vec![];
    if split.position.version != 0 {
        places.push((0, split.position.clone()));
    }
    let mut count = 0;
    let mut cancelled = 0;
    let mut end = None;
    while count < rows {
        let mut next = None;
        if let Some(polls) = cancel {
            next = poll_times(reader.next(), polls).await;
            cancelled += usize::from(next.is_none());
        }
        let next = match next {
            Some(next) => next,
            None => reader.next().await,
        };
        match next.map_err(doing(format!("reading {what} after {count} rows")))? {
            Read::Rows(rows) => {
                if rows.batch.num_rows() == 0 {
                    return broken(format!("{what}: an empty batch after {count} rows"));
                }
                if rows.batch.schema() != source.schema() {
                    return broken(format!("{what}: a batch is not of the source's schema"));
                }
                count += rows.batch.num_rows();
                batches.push(rows.batch);
                places.push((count, rows.position));
            }
            Read::Idle => break,
            Read::End(position) => {
                end = Some(through_bytes(&split.id, &position)?);
                break;
            }
        }
    }
    let all = concat_batches(&source.schema(), &batches)
        .map_err(|e| Failure::Broken(format!("{what}: batches do not fit together: {e}")))?;
    let kept = all.num_rows().min(rows);
    places.retain(|(before, _)| *before <= kept);
    Ok((
        Seen {
            rows: all.slice(0, kept),
            places,
            end,
        },
        cancelled,
    ))
}

/// Polls at most so many times, then drops the future: `None`.
async fn poll_times<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut polls = 0;
    std::future::poll_fn(|context| {
        polls += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if polls >= times => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
