//! The tasks of a run, and what passes between them.
//!
//! Owns the channels' types and the queue of splits. One bounded channel leads from every source
//! task to every writer task, so that a writer can hold back one input until the barrier has come
//! from all.

pub(crate) mod enumerator;
pub(crate) mod source;
pub(crate) mod writer;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use tidegate_sink::{CheckpointId, Message, Rows};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::align::SourceReport;
use crate::source::Split;

/// What flows from a source task to a writer task.
pub(crate) enum Element {
    Rows(Rows<RecordBatch>),
    Barrier(Barrier),
}

/// Cuts the rows of one checkpoint off from those of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Barrier {
    pub(crate) id: CheckpointId,
    /// The input has ended: no rows come behind it.
    pub(crate) last: bool,
}

/// What the coordinator tells a source task. When the sender is gone, the task ends.
pub(crate) enum Control {
    /// Pass a barrier on and report.
    Barrier(Barrier),
    /// Read no more, or go on.
    Pause(bool),
}

/// What tasks tell the coordinator.
pub(crate) enum Event {
    /// A source task passed a barrier.
    Source {
        task: usize,
        checkpoint: CheckpointId,
        report: SourceReport,
    },
    /// A writer task prepared at a barrier.
    Writer {
        task: usize,
        checkpoint: CheckpointId,
        messages: Vec<Message>,
    },
    /// A source task has read everything there is, for good.
    SourceDone { task: usize },
    /// The enumerator's state, to be saved.
    Enumerator(Vec<u8>),
}

/// Splits that wait for a source task, in order. Tasks that wait for one are woken in the order in which they
/// began to wait: one seed of the simulation is one schedule, so nothing may be left to chance.
#[derive(Clone, Debug)]
pub(crate) struct SplitQueue {
    inner: Arc<Mutex<Waiting>>,
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Waiting {
    splits: VecDeque<Split>,
    complete: bool,
}

/// What a task gets when it asks for work.
pub(crate) enum Taken {
    Split(Split),
    /// None for now.
    NoneYet,
    /// None, and none will come.
    NoneEver,
}

impl SplitQueue {
    /// A queue that begins with splits that were begun before.
    pub(crate) fn new(begun: Vec<Split>) -> Self {
        let waiting = Waiting {
            splits: begun.into(),
            complete: false,
        };
        Self {
            inner: Arc::new(Mutex::new(waiting)),
            changed: Arc::default(),
        }
    }

    pub(crate) fn add(&self, splits: Vec<Split>, complete: bool) {
        if splits.is_empty() && !complete {
            return;
        }
        let mut waiting = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.splits.extend(splits);
        waiting.complete |= complete;
        drop(waiting);
        self.changed.notify_waiters();
    }

    pub(crate) fn take(&self) -> Taken {
        let mut waiting = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.splits.pop_front() {
            Some(split) => Taken::Split(split),
            None if waiting.complete => Taken::NoneEver,
            None => Taken::NoneYet,
        }
    }

    /// Ends at the first change after it was enabled.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }
}
