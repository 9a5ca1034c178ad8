//! A task that reads splits, routes their rows and passes barriers on.
//!
//! Owns the consistent cut on the source's side: rows are sent, then the position moves, and no
//! barrier comes in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tidegate_sink::{BoxFuture, Router, Rows, probe};
use tokio::sync::mpsc;

use super::{Barrier, Control, Element, Event, SplitQueue, Taken};
use crate::align::SourceReport;
use crate::error::RuntimeError;
use crate::progress::RowCounter;
use crate::source::{Read, Source, SourceBatch, SourceError, Split, SplitId, SplitReader};

pub(crate) struct SourceTask {
    pub(crate) task: usize,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) target: String,
    pub(crate) queue: SplitQueue,
    pub(crate) router: Arc<dyn Router<RecordBatch>>,
    pub(crate) outputs: Vec<mpsc::Sender<Element>>,
    pub(crate) control: mpsc::UnboundedReceiver<Control>,
    pub(crate) events: mpsc::UnboundedSender<Event>,
    pub(crate) rows: RowCounter,
}

/// A reader on its way through one call.
type Reading = BoxFuture<
    'static,
    (
        SplitId,
        bool,
        Result<(Box<dyn SplitReader>, Read), SourceError>,
    ),
>;

/// The run is over: whoever was sent to is gone.
struct Over;

impl SourceTask {
    /// Runs until the coordinator or a writer is gone.
    pub(crate) async fn run(self) -> Result<(), RuntimeError> {
        let queue = self.queue.clone();
        let mut paused = false;
        let mut state = State {
            me: self,
            report: SourceReport::default(),
            idle: 0,
        };
        let mut reading: FuturesUnordered<Reading> = FuturesUnordered::new();
        let limit = state.me.source.max_open_splits().max(1);
        let mut done = false;
        loop {
            let mut none_ever = false;
            // Enabled before taking, so that a split added in between wakes the wait below.
            let changed = queue.changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            while !done && reading.len() - state.idle < limit {
                match queue.take() {
                    Taken::Split(split) => reading.push(state.begin(split)),
                    Taken::NoneYet => break,
                    Taken::NoneEver => {
                        none_ever = true;
                        break;
                    }
                }
            }
            if none_ever && reading.is_empty() {
                done = true;
                if state
                    .me
                    .events
                    .send(Event::SourceDone {
                        task: state.me.task,
                    })
                    .is_err()
                {
                    return Ok(());
                }
            }
            let wants_more = !done && reading.len() - state.idle < limit;
            tokio::select! {
                biased;
                control = state.me.control.recv() => match control {
                    Some(Control::Barrier(barrier)) => if state.barrier(barrier).await.is_err() {
                        return Ok(());
                    },
                    Some(Control::Pause(pause)) => paused = pause,
                    None => return Ok(()),
                },
                () = changed, if wants_more => {}
                Some((split, was_idle, read)) = reading.next(), if !paused && !reading.is_empty() => {
                    state.idle -= usize::from(was_idle);
                    let (reader, read) = read.map_err(|source| state.failed(source))?;
                    match read {
                        Read::Rows(batch) => {
                            if state.rows(&split, batch).await?.is_err() {
                                return Ok(());
                            }
                            reading.push(next(split, reader, None));
                        }
                        Read::Idle => {
                            state.idle += 1;
                            let wait = state.me.source.poll_interval();
                            reading.push(next(split, reader, Some(wait)));
                        }
                        Read::End(position) => {
                            state.report.active.remove(&split);
                            state.report.finished.push(Split { id: split, position });
                        }
                    }
                }
            }
        }
    }
}

fn next(id: SplitId, mut reader: Box<dyn SplitReader>, wait: Option<Duration>) -> Reading {
    Box::pin(async move {
        if let Some(wait) = wait {
            tokio::time::sleep(wait).await;
        }
        let read = reader.next().await;
        (id, wait.is_some(), read.map(|read| (reader, read)))
    })
}

struct State {
    me: SourceTask,
    report: SourceReport,
    /// Splits that wait for more rows.
    idle: usize,
}

impl State {
    /// From here on the split is in every checkpoint.
    fn begin(&mut self, split: Split) -> Reading {
        tracing::debug!(split = %split.id, "begin");
        self.report
            .active
            .insert(split.id.clone(), split.position.clone());
        let source = Arc::clone(&self.me.source);
        Box::pin(async move {
            let read = async {
                let mut reader = source.reader(&split).await?;
                let read = reader.next().await?;
                Ok((reader, read))
            };
            let read = read.await;
            (split.id, false, read)
        })
    }

    async fn rows(
        &mut self,
        split: &SplitId,
        batch: SourceBatch,
    ) -> Result<Result<(), Over>, RuntimeError> {
        let count = batch.batch.num_rows();
        if count > 0 {
            let rows = Rows::inserts(batch.batch);
            let origin = batch.origin;
            let routed = self.me.router.route(self.me.task, rows).map_err(|source| {
                // Only here it is known where the row stands.
                if let (Some(row), Some(origin)) = (source.row(), &origin) {
                    let why = source.without_row().to_string();
                    return self.failed(origin.bad(row, why));
                }
                let target = self.me.target.clone();
                RuntimeError::Target {
                    doing: "routing rows to",
                    target,
                    source,
                }
            })?;
            for (writer, rows) in routed {
                let Some(output) = self.me.outputs.get(writer) else {
                    let what = format!("the router of {} names writer {writer}", self.me.target);
                    return Err(RuntimeError::Config(what));
                };
                if output.send(Element::Rows(rows)).await.is_err() {
                    return Ok(Err(Over));
                }
            }
        }
        probe::hit_each(probe::ROW_TAKEN, count);
        self.me.rows.add(count);
        self.report.rows += count as u64;
        self.report.active.insert(split.clone(), batch.position);
        Ok(Ok(()))
    }

    async fn barrier(&mut self, barrier: Barrier) -> Result<(), Over> {
        let id = barrier.id;
        for output in &self.me.outputs {
            output
                .send(Element::Barrier(barrier))
                .await
                .map_err(|_| Over)?;
        }
        let active: BTreeMap<_, _> = self.report.active.clone();
        let next = SourceReport {
            active,
            ..SourceReport::default()
        };
        let report = std::mem::replace(&mut self.report, next);
        let event = Event::Source {
            task: self.me.task,
            checkpoint: id,
            report,
        };
        self.me.events.send(event).map_err(|_| Over)
    }

    fn failed(&self, source: SourceError) -> RuntimeError {
        RuntimeError::Source {
            name: self.me.source.name(),
            source,
        }
    }
}
