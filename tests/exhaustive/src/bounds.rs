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
            retries: 2,
            liveness: false,
            rules: Rules::default(),
        }
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
        ];
        for (count, what) in all.into_iter().filter(|(count, _)| *count > 0) {
            match count {
                u8::MAX => write!(f, ", any number of {what}")?,
                _ => write!(f, ", {count} {what}")?,
            }
        }
        if self.cleaning {
            f.write_str(", cleaning")?;
        }
        if self.liveness {
            f.write_str(", liveness")?;
        }
        Ok(())
    }
}
