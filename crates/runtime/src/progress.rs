//! What a job is doing, for a progress line or a log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_sink::{CheckpointId, Epoch, Published};

/// What a job is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Reads registration, checkpoints and target.
    #[default]
    Starting,
    /// Publishes what the last run left.
    Recovering,
    /// Carries rows.
    Running,
    /// Too many commits are pending: sources wait, commits are retried \[R-11].
    Paused,
    /// Takes the last checkpoint.
    Stopping,
    /// Waits before the next run.
    Restarting,
    /// Over.
    Ended,
}

/// A look at a job. Counters are of all runs of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What it is at.
    pub phase: Phase,
    /// The run.
    pub epoch: Option<Epoch>,
    /// In-process restarts.
    pub restarts: u32,
    /// Rows taken from the source, those replayed after a restart included.
    pub rows: u64,
    /// Rows in published commits.
    pub rows_published: u64,
    /// Splits being read.
    pub splits_open: usize,
    /// Splits read to their end, earlier runs included.
    pub splits_finished: usize,
    /// The newest complete checkpoint.
    pub checkpoint: Option<CheckpointId>,
    /// When it completed, in epoch milliseconds.
    pub checkpoint_at_ms: Option<i64>,
    /// A checkpoint that is under way.
    pub checkpoint_running: Option<CheckpointId>,
    /// Checkpoints that failed, in all.
    pub checkpoints_failed: u64,
    /// Commits that wait to be published.
    pub pending_commits: usize,
    /// The newest published commit.
    pub published: Option<Published>,
    /// The last failure that is being dealt with.
    pub trouble: Option<String>,
}

/// Rows taken by all source tasks.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowCounter(Arc<AtomicU64>);

impl RowCounter {
    pub(crate) fn add(&self, rows: usize) {
        self.0.fetch_add(rows as u64, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
