//! How much of the world is explored.
//!
//! Owns: the numbers that make a state space finite, and the worlds that are explored by name.

use std::fmt;
use tidegate_protocol::merge::MergeSettings;
use tidegate_protocol::{Rules, Settings};

/// Who commits beside whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Each committer is of a job of its own.
    Jobs,
    /// All are runs of one job: the first goes on while the next ones restore what it recorded.
    Runs,
}

/// How much may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Who commits beside whom.
    pub variant: Variant,
    /// Committers.
    pub committers: u8,
    /// Checkpoints per job.
    pub checkpoints: u8,
    /// The second checkpoint also compacts the first one's file.
    pub compaction: bool,
    /// The next checkpoint may be recorded while the commit before it is undecided.
    pub backlog: bool,
    /// Crashes of each committer.
    pub crashes: u8,
    /// Publishes whose answer is lost, in all; `u8::MAX` = each of them, as often as it is put.
    pub lost: u8,
    /// Publishes that land late, in all.
    pub late: u8,
    /// Calls that are dropped while a publish is on its way, in all.
    pub dropped: u8,
    /// Publishes that the store refuses, in all.
    pub refused: u8,
    /// Reads of the newest snapshot that show the one before it, in all.
    pub stale: u8,
    /// Reads that fail, in all.
    pub failed: u8,
    /// Snapshots that expire.
    pub expired: u8,
    /// Runs remove what earlier ones left behind.
    pub cleaning: bool,
    /// Files of a checkpoint are written some time before its record.
    pub apart: bool,
    /// The published note is left after so many commits and at the end of a run; 0 = never.
    pub notes: u8,
    /// Records that stay although they are not needed.
    pub retained: u8,
    /// Ended and stopped processes that are started again, in all.
    pub restarts: u8,
    /// Starts from an older record than the newest one, in all.
    pub older: u8,
    /// A start compares nothing, as that of an engine without the rewind guard.
    pub unguarded: bool,
    /// Newest records that get lost, in all.
    pub forgotten: u8,
    /// Commits of committers that know nothing of us, in all.
    pub foreign: u8,
    /// They put over what is there.
    pub racing: bool,
    /// Rollbacks by a person, of one or two snapshots, in all.
    pub rollbacks: u8,
    /// These only where no process is about.
    pub idle: bool,
    /// Mismatches out of which a person takes a way, in all.
    pub ways: u8,
    /// `commit.max-retries`.
    pub retries: u8,
    /// The two liveness properties, which cost more than all others together.
    pub liveness: bool,
    /// The rules in force.
    pub rules: Rules,
}

impl Bounds {
    /// No fault and no crash.
    pub fn quiet(variant: Variant, committers: u8, checkpoints: u8) -> Self {
        Self {
            variant,
            committers,
            checkpoints,
            compaction: false,
            backlog: false,
            crashes: 0,
            lost: 0,
            late: 0,
            dropped: 0,
            refused: 0,
            stale: 0,
            failed: 0,
            expired: 0,
            cleaning: false,
            apart: false,
            notes: 0,
            retained: 1,
            restarts: 0,
            older: 0,
            unguarded: false,
            forgotten: 0,
            foreign: 0,
            racing: false,
            rollbacks: 0,
            idle: false,
            ways: 0,
            retries: 2,
            liveness: false,
            rules: Rules::default(),
        }
    }

    /// Somebody outside the protocol takes away what was visible, or goes back: then a snapshot is only
    /// asked for the rows of its own job, and a job may stop for a person.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.racing
            || self.unguarded
            || [self.older, self.forgotten, self.rollbacks, self.ways] != [0; 4]
    }

    /// Numbers of snapshots are never free again, and what stands under one is never another.
    pub(crate) fn history_stands(&self) -> bool {
        !self.racing && [self.expired, self.rollbacks, self.ways] == [0; 3]
    }

    /// The protocol's settings.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            max_retries: u32::from(self.retries),
            max_unknown: 1,
            history_chunk: 2,
            merge: MergeSettings {
                min_count: 3,
                target_size: 80,
                ..MergeSettings::default()
            },
            rules: self.rules,
            ..Settings::default()
        }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = match self.variant {
            Variant::Jobs => "jobs",
            Variant::Runs => "runs of one job",
        };
        let (n, c) = (self.committers, self.checkpoints);
        write!(f, "{n} {who} x {c} checkpoints")?;
        if self.compaction {
            f.write_str(" + compaction")?;
        }
        if self.backlog {
            f.write_str(" + backlog")?;
        }
        if self.crashes > 0 {
            write!(f, ", {} crash(es) each", self.crashes)?;
        }
        let all = [
            (self.lost, "lost answer(s)"),
            (self.late, "late put(s)"),
            (self.dropped, "dropped call(s)"),
            (self.refused, "refusal(s)"),
            (self.stale, "stale read(s)"),
            (self.failed, "failed read(s)"),
            (self.expired, "expiry(-ies)"),
            (self.notes, "commit(s) per note"),
            (self.restarts, "start(s) after an end"),
            (self.older, "start(s) from an older record"),
            (self.forgotten, "lost record(s)"),
            (self.foreign, "foreign commit(s)"),
            (self.rollbacks, "rollback(s)"),
            (self.ways, "way(s) out"),
        ];
        for (count, what) in all.into_iter().filter(|(count, _)| *count > 0) {
            match count {
                u8::MAX => write!(f, ", any number of {what}")?,
                _ => write!(f, ", {count} {what}")?,
            }
        }
        let set = [
            (self.cleaning, "cleaning"),
            (self.apart, "files before records"),
            (self.unguarded, "no guard"),
            (self.racing, "foreigners put over"),
            (self.idle, "rollbacks between runs"),
        ];
        for (_, what) in set.into_iter().filter(|(is_set, _)| *is_set) {
            write!(f, ", {what}")?;
        }
        if self.retained != 1 {
            write!(f, ", {} records retained", self.retained)?;
        }
        if self.liveness {
            f.write_str(", liveness")?;
        }
        Ok(())
    }
}
