//! Counting what is asked of a store: requests by kind, bytes, time, errors, retries.
//!
//! Counts requests as the backend sees them, so a retried read counts twice (and once as a
//! retry). Owns no clock of the commit path: times are for reports only.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Kind of request to a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Op {
    /// Create-if-absent.
    Create,
    /// Put over whatever is there.
    Put,
    /// One part of an upload (local: one stretch of the file).
    PutPart,
    /// Begin of an upload.
    BeginUpload,
    /// End of an upload: the object appears.
    CompleteUpload,
    /// Giving an upload up.
    AbortUpload,
    /// A whole object read.
    Get,
    /// Part of an object read.
    GetRange,
    /// Size and time of one object.
    Head,
    /// Listing, recursive or one level.
    List,
    /// Deletion of one object or of one batch.
    Delete,
    /// One object under another name too, carried out by the store.
    Copy,
    /// Making durable what stands in a directory of a local disk; elsewhere no request.
    MakeDurable,
    /// Opening a store or checking a path: no request.
    Open,
}

impl Op {
    /// All kinds of requests, in the order of reports.
    pub const ALL: [Self; 13] = [
        Self::Create,
        Self::Put,
        Self::PutPart,
        Self::BeginUpload,
        Self::CompleteUpload,
        Self::AbortUpload,
        Self::Get,
        Self::GetRange,
        Self::Head,
        Self::List,
        Self::Delete,
        Self::Copy,
        Self::MakeDurable,
    ];

    /// Name in reports, e.g. `get_range`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Put => "put",
            Self::PutPart => "put_part",
            Self::BeginUpload => "begin_upload",
            Self::CompleteUpload => "complete_upload",
            Self::AbortUpload => "abort_upload",
            Self::Get => "get",
            Self::GetRange => "get_range",
            Self::Head => "head",
            Self::List => "list",
            Self::Delete => "delete",
            Self::Copy => "copy",
            Self::MakeDurable => "make_durable",
            Self::Open => "open",
        }
    }

    /// Whether the store is changed by it.
    pub fn writes(self) -> bool {
        !matches!(
            self,
            Self::Get | Self::GetRange | Self::Head | Self::List | Self::MakeDurable | Self::Open
        )
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug, Default)]
struct Cell {
    requests: AtomicU64,
    errors: AtomicU64,
    retries: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
}

/// Counters of one opened store, shared by its clones and children.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    cells: [Cell; Op::ALL.len()],
}

impl Metrics {
    fn cell(&self, op: Op) -> Option<&Cell> {
        self.cells.get(op as usize)
    }

    pub(crate) fn request(&self, op: Op, bytes: u64, took: Duration, failed: bool) {
        let Some(cell) = self.cell(op) else { return };
        cell.requests.fetch_add(1, Ordering::Relaxed);
        cell.bytes.fetch_add(bytes, Ordering::Relaxed);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        cell.nanos.fetch_add(nanos, Ordering::Relaxed);
        if failed {
            cell.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn retry(&self, op: Op) {
        if let Some(cell) = self.cell(op) {
            cell.retries.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counters as they stand now; each is exact, together they are not one instant.
    pub(crate) fn snapshot(&self) -> MetricsSnapshot {
        let by_op = Op::ALL
            .iter()
            .filter_map(|&op| {
                let cell = self.cell(op)?;
                let counts = OpCounts {
                    requests: cell.requests.load(Ordering::Relaxed),
                    errors: cell.errors.load(Ordering::Relaxed),
                    retries: cell.retries.load(Ordering::Relaxed),
                    bytes: cell.bytes.load(Ordering::Relaxed),
                    time: Duration::from_nanos(cell.nanos.load(Ordering::Relaxed)),
                };
                Some((op, counts))
            })
            .collect();
        MetricsSnapshot { by_op }
    }
}

/// Counters of one kind of request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpCounts {
    /// Requests sent to the backend, failed and repeated ones included.
    pub requests: u64,
    /// Requests that failed. *Not found* and *exists* are answers, not failures.
    pub errors: u64,
    /// Requests that were repetitions of a failed one.
    pub retries: u64,
    /// Bytes of object content sent or received.
    pub bytes: u64,
    /// Time spent in requests, summed; overlapping requests count each.
    pub time: Duration,
}

/// Counters at one time. Subtract an earlier one with [`MetricsSnapshot::since`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricsSnapshot {
    by_op: BTreeMap<Op, OpCounts>,
}

impl MetricsSnapshot {
    /// Counters of one kind.
    pub fn of(&self, op: Op) -> OpCounts {
        self.by_op.get(&op).copied().unwrap_or_default()
    }

    /// Kinds with at least one request, in the order of [`Op::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Op, OpCounts)> + '_ {
        self.by_op
            .iter()
            .filter(|(_, counts)| counts.requests > 0)
            .map(|(&op, &counts)| (op, counts))
    }

    /// What was counted after `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let by_op = self
            .by_op
            .iter()
            .map(|(&op, now)| {
                let before = earlier.of(op);
                let counts = OpCounts {
                    requests: now.requests.saturating_sub(before.requests),
                    errors: now.errors.saturating_sub(before.errors),
                    retries: now.retries.saturating_sub(before.retries),
                    bytes: now.bytes.saturating_sub(before.bytes),
                    time: now.time.saturating_sub(before.time),
                };
                (op, counts)
            })
            .collect();
        Self { by_op }
    }

    /// Requests that change the store.
    pub fn writes(&self) -> u64 {
        self.sum(|op| op.writes() && op != Op::Delete)
    }

    /// Requests that read objects or their heads; listings apart.
    pub fn reads(&self) -> u64 {
        self.sum(|op| matches!(op, Op::Get | Op::GetRange | Op::Head))
    }

    /// Listings.
    pub fn lists(&self) -> u64 {
        self.sum(|op| op == Op::List)
    }

    /// Deletions.
    pub fn deletes(&self) -> u64 {
        self.sum(|op| op == Op::Delete)
    }

    fn sum(&self, wanted: impl Fn(Op) -> bool) -> u64 {
        self.by_op
            .iter()
            .filter(|(op, _)| wanted(**op))
            .map(|(_, counts)| counts.requests)
            .sum()
    }
}

impl fmt::Display for MetricsSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (op, counts)) in self.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{op} {}", counts.requests)?;
            if counts.errors > 0 || counts.retries > 0 {
                write!(f, " ({} failed, {} retried)", counts.errors, counts.retries)?;
            }
            if counts.bytes > 0 {
                write!(f, " {} B", counts.bytes)?;
            }
            write!(f, " in {:.1?}", counts.time)?;
        }
        Ok(())
    }
}
