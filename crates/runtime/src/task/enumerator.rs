//! The task that looks for splits.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::sleep;

use super::{Event, SplitQueue};
use crate::error::RuntimeError;
use crate::source::{Discovery, Source, Split, SplitEnumerator};

pub(crate) struct EnumeratorTask {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) enumerator: Box<dyn SplitEnumerator>,
    /// What was found before the run began.
    pub(crate) found: Option<Discovery>,
    pub(crate) queue: SplitQueue,
    /// Splits whose end is in a checkpoint.
    pub(crate) finished: mpsc::UnboundedReceiver<Split>,
    pub(crate) events: mpsc::UnboundedSender<Event>,
}

impl EnumeratorTask {
    /// Runs until there will be no more splits, or the run ends.
    pub(crate) async fn run(mut self) -> Result<(), RuntimeError> {
        loop {
            let found = match self.found.take() {
                Some(found) => found,
                None => {
                    self.enumerator
                        .discover()
                        .await
                        .map_err(|source| RuntimeError::Source {
                            name: self.source.name(),
                            source,
                        })?
                }
            };
            if !found.splits.is_empty() {
                tracing::debug!(splits = found.splits.len(), "found splits");
            }
            let complete = found.complete;
            self.queue.add(found.splits, complete);
            if !self.report() || complete {
                return Ok(());
            }
            let next = sleep(self.source.discovery_interval());
            tokio::pin!(next);
            loop {
                tokio::select! {
                    biased;
                    () = &mut next => break,
                    split = self.finished.recv() => match split {
                        Some(split) => {
                            self.enumerator.finished(&split);
                            self.report();
                        }
                        None => return Ok(()),
                    },
                }
            }
        }
    }

    fn report(&self) -> bool {
        self.events
            .send(Event::Enumerator(self.enumerator.state()))
            .is_ok()
    }
}
