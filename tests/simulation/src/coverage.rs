//! Which fault struck which step of the protocol how often.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use tidegate_storage::Op;

use crate::fates::Fate;
use crate::gate::ProtocolStep;
use crate::schedule::Report;

/// What processes of jobs do to which kind of object. Whatever else is met counts as well.
const STEPS: [(&str, &[&str]); 13] = [
    ("data file", &["put", "read", "delete"]),
    ("end mark", &["create", "read", "delete"]),
    ("hint", &["put", "read", "delete"]),
    ("manifest", &["put", "read", "delete"]),
    ("manifest list", &["put", "read", "delete"]),
    ("note", &["put", "read", "delete"]),
    ("positions", &["put", "read", "delete"]),
    ("record", &["create", "list", "read", "delete"]),
    ("registration", &["create", "list", "read", "delete"]),
    ("schema", &["list", "read"]),
    ("snapshot", &["create", "list", "read", "delete"]),
    ("table", &["list"]),
    ("tag", &["list"]),
];

/// Cells without a number in the table, and why they mean nothing.
pub const UNREACHABLE: [(&str, &str); 6] = [
    (
        "answer lost, late, torn × read and list",
        "a request without effect: to its sender this is one that failed before it",
    ),
    (
        "late × snapshot delete",
        "a delete that arrives once its number is used again undoes what came after it; no store with \
         unconditional deletes can be safe from that",
    ),
    (
        "torn × create",
        "objects whose creation decides something are made in one step by every store that we support",
    ),
    ("torn × delete", "there is no half of it"),
    (
        "torn × note put",
        "local disks write it beside its name and rename it; a torn one is an error that names it, for a person",
    ),
    (
        "schema create and put",
        "tables are made before the day begins; none evolves",
    ),
];

/// Sums over schedules.
#[derive(Debug, Default)]
pub struct Coverage {
    cells: BTreeMap<(Fate, ProtocolStep), u64>,
    /// Requests of each step while something might strike them.
    requests: BTreeMap<ProtocolStep, u64>,
    ends: BTreeMap<&'static str, u64>,
    /// Schedules played.
    pub schedules: u64,
    /// Those with three checkpoints, a crash and two faults.
    pub counting: u64,
    steps: u64,
    checkpoints: u64,
    crashes: u64,
    faults: u64,
    acknowledgements: u64,
    readings: u64,
    stuck: u64,
}

impl Coverage {
    /// Adds one schedule.
    pub fn add(&mut self, report: &Report) {
        for cell in &report.cells {
            *self.cells.entry(*cell).or_default() += 1;
        }
        for (step, count) in &report.requests {
            *self.requests.entry(*step).or_default() += count;
        }
        for (end, count) in &report.ends {
            *self.ends.entry(end).or_default() += count;
        }
        self.schedules += 1;
        self.counting += u64::from(report.counts());
        self.steps += report.steps;
        self.checkpoints += report.checkpoints;
        self.crashes += report.crashes;
        self.faults += report.faults;
        self.acknowledgements += report.acknowledgements;
        self.readings += report.readings;
        self.stuck += report.stuck;
    }

    /// Adds what another thread has seen.
    pub fn merge(&mut self, other: &Self) {
        for (cell, count) in &other.cells {
            *self.cells.entry(*cell).or_default() += count;
        }
        for (step, count) in &other.requests {
            *self.requests.entry(*step).or_default() += count;
        }
        for (end, count) in &other.ends {
            *self.ends.entry(end).or_default() += count;
        }
        self.schedules += other.schedules;
        self.counting += other.counting;
        self.steps += other.steps;
        self.checkpoints += other.checkpoints;
        self.crashes += other.crashes;
        self.faults += other.faults;
        self.acknowledgements += other.acknowledgements;
        self.readings += other.readings;
        self.stuck += other.stuck;
    }

    /// Steps that must be struck, met or not.
    fn steps(&self) -> BTreeSet<ProtocolStep> {
        let known = STEPS.iter().flat_map(|(object, acts)| {
            let of = |act| ProtocolStep { object, act };
            acts.iter().map(move |act| of(act))
        });
        self.requests.keys().copied().chain(known).collect()
    }

    /// Cells that can be met, by how often they were: the rarest first.
    pub fn rarest(&self) -> Vec<(u64, String)> {
        let mut rarest = Vec::new();
        for step in self.steps() {
            for fate in Fate::ALL.into_iter().filter(|fate| fits(*fate, step)) {
                let count = self.cells.get(&(fate, step)).copied().unwrap_or(0);
                rarest.push((count, format!("{} × {step}", fate.name())));
            }
        }
        rarest.sort();
        rarest
    }

    /// The table as Markdown: a line per step, a column per fault.
    pub fn table(&self) -> String {
        let mut out = String::from("| step | requests |");
        for fate in Fate::ALL {
            let _ = write!(out, " {} |", fate.name());
        }
        out.push_str("\n|---|---:|");
        out.push_str(&"---:|".repeat(Fate::ALL.len()));
        out.push('\n');
        for step in self.steps() {
            let requests = self.requests.get(&step).copied().unwrap_or(0);
            let _ = write!(out, "| {step} | {requests} |");
            for fate in Fate::ALL {
                let _ = match fits(fate, step) {
                    true => {
                        let count = self.cells.get(&(fate, step)).copied().unwrap_or(0);
                        write!(out, " {count} |")
                    }
                    false => write!(out, " – |"),
                };
            }
            out.push('\n');
        }
        out
    }

    /// The sums, for a person.
    pub fn outline(&self) -> String {
        let ends: Vec<String> = self
            .ends
            .iter()
            .map(|(end, n)| format!("{end} {n}"))
            .collect();
        format!(
            "{} schedules, {} of them with >= 3 checkpoints, >= 1 crash and >= 2 faults; {} requests, {} \
             checkpoint records, {} crashes, {} faults, {} acknowledged commits, {} readings checked\n\
             ends of job processes: {}; {} jobs stopped for good, saying why (disturbed worlds only)",
            self.schedules,
            self.counting,
            self.steps,
            self.checkpoints,
            self.crashes,
            self.faults,
            self.acknowledgements,
            self.readings,
            ends.join(", "),
            self.stuck,
        )
    }
}

/// Whether a fault means anything for a step.
fn fits(fate: Fate, step: ProtocolStep) -> bool {
    let op = match step.act {
        "create" => Op::Create,
        "put" => Op::Put,
        "delete" => Op::Delete,
        "list" => Op::List,
        _ => Op::Get,
    };
    fate.strikes(op, step)
}
