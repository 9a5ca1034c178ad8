//! Who wrote which object, and who has looked for left-overs since.
//!
//! Owns the one excuse for a left-over \[R-13]: a run is cleaned up after once it can publish nothing any
//! more, yet its process may still be there, out of a long pause, and write. If it lives it removes that
//! itself. If it is killed first, nobody knows of it.

use std::collections::{HashMap, HashSet};

use tidegate_model::layout;
use tidegate_sink::Epoch;
use tidegate_storage::Op;

use crate::gate::{ProcessId, TABLE};

/// An object when it was last written.
#[derive(Debug)]
struct Written {
    at: u64,
    by: ProcessId,
    run: (usize, Epoch),
    /// By a request that had no answer and was held back.
    late: bool,
    /// It was written before: a late request of which the sender had repeated and undone the effect.
    again: bool,
}

/// What was written and surveyed.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    /// The request that is carried out now was held back.
    pub(crate) late: bool,
    written: HashMap<String, Written>,
    /// Requests so far.
    clock: u64,
    /// When a process last listed the table.
    surveyed: HashMap<ProcessId, u64>,
    /// Runs of a job whose registration is gone, and the survey on which it went.
    forgotten: HashMap<(usize, Epoch), u64>,
    killed: HashSet<ProcessId>,
    /// When a fault last struck a process.
    struck: HashMap<ProcessId, u64>,
    /// The job whose operator took the snapshots of others away with its own: they are not asked.
    rolled_back_others: Option<usize>,
    /// Files of a record that a run wrote which nobody knows any more, under a number that retention had
    /// freed: they are kept as long as that record is, and then there is nobody to ask for them.
    stray: HashSet<String>,
}

impl Traces {
    /// A request of a job's process was carried out.
    pub(crate) fn carried_out(&mut self, by: ProcessId, job: usize, op: Op, path: &str) {
        self.clock += 1;
        let name = path.rsplit('/').next().unwrap_or_default();
        match op {
            Op::List if path == TABLE => {
                self.surveyed.insert(by, self.clock);
            }
            Op::Delete if path.starts_with(&format!("{TABLE}/tidegate/")) => {
                if let Some(epoch) = layout::epoch_of(name) {
                    let survey = self.surveyed.get(&by).copied().unwrap_or(0);
                    self.forgotten.insert((job, epoch), survey);
                }
            }
            Op::Create | Op::Put => {
                let Some(epoch) = epoch_in(name) else { return };
                let again = self.written.contains_key(path);
                let written = Written {
                    at: self.clock,
                    by,
                    run: (job, epoch),
                    late: self.late,
                    again,
                };
                self.written.insert(path.to_owned(), written);
            }
            _ => {}
        }
    }

    /// A record of this run was written, naming these files.
    pub(crate) fn recorded(&mut self, job: usize, epoch: Epoch, files: Vec<String>) {
        if self.forgotten.contains_key(&(job, epoch)) {
            let paths = files.into_iter().map(|file| format!("{TABLE}/{file}"));
            self.stray.extend(paths);
        }
    }

    pub(crate) fn struck(&mut self, process: ProcessId) {
        self.clock += 1;
        self.struck.insert(process, self.clock);
    }

    pub(crate) fn rolls_back_others(&mut self, job: usize) {
        self.rolled_back_others = Some(job);
    }

    pub(crate) fn killed(&mut self, process: ProcessId) {
        self.killed.insert(process);
    }

    /// Whether this object may be left over at the end.
    pub(crate) fn excuses(&self, path: &str) -> bool {
        let Some(written) = self.written.get(path) else {
            return false;
        };
        let survey = self.forgotten.get(&written.run);
        let unseen = survey.is_some_and(|survey| written.at > *survey);
        // It was killed, or what it did to clean up after itself failed.
        let struck = self.struck.get(&written.by);
        let nobody = self.killed.contains(&written.by)
            || written.late
            || struck.is_some_and(|at| *at > written.at);
        let others = self
            .rolled_back_others
            .is_some_and(|job| job != written.run.0);
        (unseen && nobody) || (written.late && written.again) || others || self.stray.contains(path)
    }
}

/// The epoch in `…tg<8 hex digits>e<epoch>-…`, or in the name of a side object.
fn epoch_in(name: &str) -> Option<Epoch> {
    let of_run = || {
        let digits = name.split_once("tg")?.1.get(8..)?.strip_prefix('e')?;
        Epoch::parse(digits.split_once('-')?.0)
    };
    layout::side_object_epoch(name).or_else(of_run)
}
