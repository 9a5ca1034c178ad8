//! Which checkpoints have gathered all their reports.
//!
//! Owns the pure bookkeeping of barriers: reports of sources and writers per checkpoint, in order,
//! and what becomes of one that was given up \[R-10]. Knows no time and does no I/O.

use std::collections::BTreeMap;

use tidegate_recovery::RecordKind;
use tidegate_sink::{CheckpointId, Message};

use crate::source::{Position, Split, SplitId};

/// What a source task reports at a barrier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceReport {
    /// Splits that it has begun and not finished.
    pub(crate) active: BTreeMap<SplitId, Position>,
    /// Splits that it finished since its last report.
    pub(crate) finished: Vec<Split>,
    /// Rows since its last report.
    pub(crate) rows: u64,
}

/// A checkpoint whose reports are all there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) id: CheckpointId,
    pub(crate) kind: RecordKind,
    /// It was given up before they came: it gets no record of its own, and is published with the
    /// next one under its own identifier.
    pub(crate) aborted: bool,
    pub(crate) sources: Vec<SourceReport>,
    pub(crate) messages: Vec<Message>,
    /// Reports of writers that belong to it, those carried from earlier ones included.
    pub(crate) reports: u32,
}

#[derive(Debug)]
struct Open {
    kind: RecordKind,
    aborted: bool,
    sources: Vec<Option<SourceReport>>,
    writers: Vec<Option<Vec<Message>>>,
}

impl Open {
    fn is_full(&self) -> bool {
        self.sources.iter().all(Option::is_some) && self.writers.iter().all(Option::is_some)
    }
}

/// Checkpoints under way.
#[derive(Debug)]
pub(crate) struct Alignment {
    sources: usize,
    writers: usize,
    open: BTreeMap<CheckpointId, Open>,
}

impl Alignment {
    pub(crate) fn new(sources: usize, writers: usize) -> Self {
        Self {
            sources,
            writers,
            open: BTreeMap::new(),
        }
    }

    pub(crate) fn begin(&mut self, id: CheckpointId, kind: RecordKind) {
        let sources = vec![None; self.sources];
        let writers = vec![None; self.writers];
        self.open.insert(
            id,
            Open {
                kind,
                aborted: false,
                sources,
                writers,
            },
        );
    }

    /// The checkpoint that is under way and was not given up.
    pub(crate) fn running(&self) -> Option<CheckpointId> {
        self.open
            .iter()
            .find(|(_, open)| !open.aborted)
            .map(|(id, _)| *id)
    }

    /// Gives up waiting. Reports may still come.
    pub(crate) fn abort(&mut self, id: CheckpointId) {
        if let Some(open) = self.open.get_mut(&id) {
            open.aborted = true;
        }
    }

    pub(crate) fn source(&mut self, id: CheckpointId, task: usize, report: SourceReport) {
        if let Some(slot) = self.open.get_mut(&id).and_then(|o| o.sources.get_mut(task)) {
            *slot = Some(report);
        }
    }

    pub(crate) fn writer(&mut self, id: CheckpointId, task: usize, messages: Vec<Message>) {
        if let Some(slot) = self.open.get_mut(&id).and_then(|o| o.writers.get_mut(task)) {
            *slot = Some(messages);
        }
    }

    /// The oldest checkpoint that is full. Parts of older ones that never filled are carried into
    /// it and counted there: their rows lie before its positions.
    pub(crate) fn take_ready(&mut self) -> Option<Ready> {
        let id = *self.open.iter().find(|(_, open)| open.is_full())?.0;
        let newer = self.open.split_off(&CheckpointId(id.0.saturating_add(1)));
        let taken = std::mem::replace(&mut self.open, newer);
        let mut ready = Ready {
            id,
            kind: RecordKind::Checkpoint,
            aborted: false,
            sources: Vec::new(),
            messages: Vec::new(),
            reports: 0,
        };
        let mut carried = Vec::new();
        for (of, open) in taken {
            let whole = of == id;
            for report in open.sources.into_iter().flatten() {
                match whole {
                    true => ready.sources.push(report),
                    // Where it stood is outdated by the newer report; what it finished is not.
                    false => carried.push(SourceReport {
                        active: BTreeMap::new(),
                        ..report
                    }),
                }
            }
            for messages in open.writers.into_iter().flatten() {
                ready.reports += 1;
                ready.messages.extend(messages);
            }
            ready.kind = open.kind;
            ready.aborted = open.aborted;
        }
        carried.append(&mut ready.sources);
        ready.sources = carried;
        Some(ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(n: u8) -> Message {
        Message {
            version: 1,
            bytes: vec![n],
        }
    }

    fn full(alignment: &mut Alignment, id: u64) {
        let id = CheckpointId(id);
        for task in 0..2 {
            alignment.source(
                id,
                task,
                SourceReport {
                    rows: id.0,
                    ..SourceReport::default()
                },
            );
            alignment.writer(id, task, vec![message(id.0 as u8 * 10 + task as u8)]);
        }
    }

    #[test]
    fn a_checkpoint_is_ready_when_every_task_has_reported() {
        let mut alignment = Alignment::new(2, 2);
        alignment.begin(CheckpointId(1), RecordKind::EndOfInput);
        for task in 0..2 {
            assert_eq!(alignment.take_ready(), None);
            alignment.writer(CheckpointId(1), task, vec![message(task as u8)]);
        }
        alignment.source(CheckpointId(1), 0, SourceReport::default());
        assert_eq!(alignment.take_ready(), None);
        alignment.source(CheckpointId(1), 1, SourceReport::default());
        let ready = alignment.take_ready().unwrap();
        assert_eq!(
            (ready.id, ready.kind, ready.reports),
            (CheckpointId(1), RecordKind::EndOfInput, 2)
        );
        assert_eq!(ready.messages, [message(0), message(1)]);
        assert_eq!(alignment.take_ready(), None);
    }

    /// given up, and then its messages all arrived: it keeps its identifier and its place.
    #[test]
    fn r_10_an_aborted_checkpoint_that_fills_keeps_its_identifier() {
        let mut alignment = Alignment::new(2, 2);
        alignment.begin(CheckpointId(1), RecordKind::Checkpoint);
        alignment.abort(CheckpointId(1));
        assert_eq!(alignment.running(), None);
        alignment.begin(CheckpointId(2), RecordKind::Checkpoint);
        full(&mut alignment, 2);
        full(&mut alignment, 1);
        let first = alignment.take_ready().unwrap();
        assert_eq!((first.id, first.aborted), (CheckpointId(1), true));
        let second = alignment.take_ready().unwrap();
        assert_eq!(
            (second.id, second.aborted, second.reports),
            (CheckpointId(2), false, 2)
        );
    }

    /// partial messages are carried into the next complete one and counted there.
    #[test]
    fn r_10_partial_messages_are_carried_and_counted() {
        let mut alignment = Alignment::new(2, 2);
        alignment.begin(CheckpointId(1), RecordKind::Checkpoint);
        let split = Split {
            id: SplitId("a".into()),
            position: Position::default(),
        };
        let report = SourceReport {
            finished: vec![split.clone()],
            ..SourceReport::default()
        };
        alignment.source(CheckpointId(1), 0, report);
        alignment.writer(CheckpointId(1), 1, vec![message(1)]);
        alignment.abort(CheckpointId(1));
        alignment.begin(CheckpointId(2), RecordKind::Checkpoint);
        full(&mut alignment, 2);
        let ready = alignment.take_ready().unwrap();
        assert_eq!(
            (ready.id, ready.aborted, ready.reports),
            (CheckpointId(2), false, 3)
        );
        assert_eq!(ready.messages, [message(1), message(20), message(21)]);
        assert_eq!(ready.sources[0].finished, [split]);
        assert_eq!(alignment.running(), None);
    }

    #[test]
    fn reports_of_unknown_checkpoints_are_let_go() {
        let mut alignment = Alignment::new(1, 1);
        alignment.writer(CheckpointId(9), 0, vec![message(1)]);
        alignment.source(CheckpointId(9), 5, SourceReport::default());
        assert_eq!(alignment.take_ready(), None);
    }
}
