//! A task that writes rows and prepares at barriers.
//!
//! Owns alignment: an input that has passed a barrier is not read until all have.

use std::future::poll_fn;
use std::task::Poll;

use arrow::array::RecordBatch;
use tidegate_sink::{CheckpointId, SinkError, Writer, mutant};
use tokio::sync::mpsc;

use super::{Element, Event};
use crate::error::RuntimeError;

pub(crate) struct WriterTask {
    pub(crate) task: usize,
    pub(crate) target: String,
    pub(crate) writer: Box<dyn Writer<Batch = RecordBatch>>,
    pub(crate) inputs: Vec<mpsc::Receiver<Element>>,
    pub(crate) events: mpsc::UnboundedSender<Event>,
}

struct Inputs {
    receivers: Vec<mpsc::Receiver<Element>>,
    /// The barrier that an input has passed and waits behind.
    behind: Vec<Option<CheckpointId>>,
    /// Where to look first next time, so that no input starves.
    turn: usize,
}

impl Inputs {
    /// The next element of an input that does not wait; `None` when an input is closed.
    async fn next(&mut self) -> Option<(usize, Element)> {
        let Self {
            receivers,
            behind,
            turn,
        } = self;
        poll_fn(|context| {
            let count = receivers.len();
            for n in 0..count {
                let at = (*turn + n) % count.max(1);
                let (Some(receiver), Some(None)) = (receivers.get_mut(at), behind.get(at)) else {
                    continue;
                };
                if let Poll::Ready(element) = receiver.poll_recv(context) {
                    *turn = at + 1;
                    return Poll::Ready(element.map(|element| (at, element)));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Notes a barrier; the checkpoint once it has come from all inputs, which then go on.
    fn barrier(&mut self, at: usize, id: CheckpointId) -> Option<CheckpointId> {
        if let Some(slot) = self.behind.get_mut(at) {
            *slot = Some(id);
        }
        let aligned = self.behind.iter().all(|waits| *waits == Some(id));
        if !aligned && !mutant::on("barrier-unaligned") {
            return None;
        }
        self.behind.fill(None);
        Some(id)
    }
}

impl WriterTask {
    /// Runs until an input is closed: the run is over, and what was not prepared is given up.
    pub(crate) async fn run(self) -> Result<(), RuntimeError> {
        let Self {
            task,
            target,
            mut writer,
            inputs,
            events,
        } = self;
        let behind = vec![None; inputs.len()];
        let mut inputs = Inputs {
            receivers: inputs,
            behind,
            turn: 0,
        };
        let mut unprepared = false;
        let result = loop {
            match inputs.next().await {
                Some((_, Element::Rows(rows))) => {
                    unprepared = true;
                    if let Err(source) = writer.write(rows).await {
                        break Err(failed("writing to", &target, source));
                    }
                }
                Some((at, Element::Barrier(barrier))) => {
                    let Some(checkpoint) = inputs.barrier(at, barrier.id) else {
                        continue;
                    };
                    if barrier.last {
                        writer.end_of_input();
                    }
                    match writer.prepare().await {
                        Ok(messages) => {
                            unprepared = false;
                            if events
                                .send(Event::Writer {
                                    task,
                                    checkpoint,
                                    messages,
                                })
                                .is_err()
                            {
                                break Ok(());
                            }
                        }
                        Err(source) => break Err(failed("preparing files of", &target, source)),
                    }
                }
                None => break Ok(()),
            }
        };
        if unprepared && let Err(error) = writer.abort().await {
            // The next run finds the files by their prefix.
            tracing::warn!(%error, writer = task, "files of a given up writer stay behind");
        }
        result
    }
}

fn failed(doing: &'static str, target: &str, source: SinkError) -> RuntimeError {
    RuntimeError::Target {
        doing,
        target: target.to_owned(),
        source,
    }
}
