//! What a store must do, tried out on it.
//!
//! One suite for every backend's tests and for a user's store (`tidegate doctor store URL`).
//! Owns the checks, their report and the verdict on what a store can be used for. Works in a
//! directory of its own under the store's root and removes it in the end.
//!
//! ```
//! # use std::collections::BTreeMap;
//! use tidegate_storage::{Store, conformance};
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! let store = Store::open("memory://checked", &BTreeMap::new())?;
//! let report = conformance::run(&store, &conformance::Options::default()).await;
//! assert!(report.failed().next().is_none(), "{report}");
//! assert_eq!(report.verdict().usable, conformance::Usable::ReadWrite);
//! # Ok::<(), tidegate_storage::StoreError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod checks;
mod place;

use std::fmt;
use std::time::{Duration, Instant};

use crate::backend::Scheme;
use crate::store::Store;

/// How thorough the suite is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Races of concurrent creators.
    pub rounds: u32,
    /// Creators per race.
    pub creators: u32,
    /// Objects made to see a listing over several pages; 0 leaves it out. S3 pages hold 1000.
    pub long_listing: u32,
    /// Size of the object uploaded in parts, in bytes; 0 leaves it out.
    pub upload: usize,
    /// Number that names and contents are made from.
    pub seed: u64,
}

impl Default for Options {
    /// 20 races of 16 creators, no long listing, an upload of 12 MiB.
    fn default() -> Self {
        Self {
            rounds: 20,
            creators: 16,
            long_listing: 0,
            upload: 12 << 20,
            seed: 1,
        }
    }
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// As it must be.
    Passed,
    /// Otherwise; the detail says how.
    Failed,
    /// Not tried: not asked for, or nothing of the kind in this store.
    Skipped,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Passed => "passed",
            Self::Failed => "FAILED",
            Self::Skipped => "skipped",
        })
    }
}

/// What cannot be done with a store where a check fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needed {
    /// Nothing: a convenience.
    Never,
    /// Writing tables.
    ForWriting,
    /// Anything.
    ForReading,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Name of the check, e.g. `one winner`.
    pub name: &'static str,
    /// What it is needed for.
    pub needed: Needed,
    /// How it ended.
    pub outcome: Outcome,
    /// What was seen, in words.
    pub detail: String,
    /// How long it took.
    pub duration: Duration,
}

/// What a store can be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usable {
    /// Reading and writing tables.
    ReadWrite,
    /// Reading tables only.
    ReadOnly,
    /// Nothing.
    Not,
}

/// [`Usable`], and why not more; remarks that limit it otherwise are among the reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What the store can be used for.
    pub usable: Usable,
    /// Why not more, and remarks.
    pub reasons: Vec<String>,
}

/// All checks of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Root of the store.
    pub url: String,
    /// The checks in the order of running.
    pub checks: Vec<Check>,
    remarks: Vec<String>,
}

impl Report {
    /// Checks that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Check> {
        self.checks
            .iter()
            .filter(|check| check.outcome == Outcome::Failed)
    }

    /// What the store can be used for.
    pub fn verdict(&self) -> Verdict {
        let worst = self.failed().map(|check| check.needed).max();
        let usable = match worst {
            Some(Needed::ForReading) => Usable::Not,
            Some(Needed::ForWriting) => Usable::ReadOnly,
            Some(Needed::Never) | None => Usable::ReadWrite,
        };
        let reasons = self
            .failed()
            .map(|check| format!("{}: {}", check.name, check.detail))
            .chain(self.remarks.iter().cloned())
            .collect();
        Verdict { usable, reasons }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.url)?;
        for check in &self.checks {
            writeln!(
                f,
                "  {:8} {:22} {:>8.0?}  {}",
                check.outcome, check.name, check.duration, check.detail
            )?;
        }
        let verdict = self.verdict();
        let usable = match verdict.usable {
            Usable::ReadWrite => "can be read and written",
            Usable::ReadOnly => "can be read; must not be written",
            Usable::Not => "cannot be used",
        };
        writeln!(f, "  {usable}")?;
        for reason in &verdict.reasons {
            writeln!(f, "  - {reason}")?;
        }
        Ok(())
    }
}

/// What the name of a run's directory starts with.
const AREA: &str = ".tidegate-doctor-";

/// Runs every check. Failures are in the report, never an error of this call.
pub async fn run(store: &Store, options: &Options) -> Report {
    let area = format!("{AREA}{}", uuid::Uuid::new_v4().simple());
    let trial = checks::Trial {
        store: store.child(&area),
        options: options.clone(),
    };
    let mut checks = Vec::new();
    for (name, needed, check) in checks::ALL {
        // Where reaching or writing fails already, the rest would only repeat it.
        let failed = |name: &str| {
            let of = checks.iter().find(|c: &&Check| c.name == name);
            of.is_some_and(|c| c.outcome == Outcome::Failed)
        };
        let hopeless = [
            (checks::REACH, "the store cannot be used"),
            (checks::WRITE, "nothing can be written here"),
        ];
        let hopeless = hopeless.iter().find(|(name, _)| failed(name));
        let begun = Instant::now();
        let (outcome, detail) = match hopeless {
            Some((_, why)) => (Outcome::Skipped, (*why).to_owned()),
            None => match check(trial.clone()).await {
                Ok(checks::Seen::Passed(detail)) => (Outcome::Passed, detail),
                Ok(checks::Seen::Skipped(detail)) => (Outcome::Skipped, detail),
                Err(detail) => (Outcome::Failed, detail),
            },
        };
        checks.push(Check {
            name,
            needed: *needed,
            outcome,
            detail,
            duration: begun.elapsed(),
        });
    }
    let mut remarks = Vec::new();
    let reached = checks
        .first()
        .is_some_and(|check| check.outcome == Outcome::Passed);
    if reached
        && let Err(left) = trial.clean_up().await
        // Where nothing could be written nothing stays, though a delete is refused too.
        && !matches!(trial.store.list("").await, Ok(left) if left.is_empty())
    {
        remarks.push(format!("objects of this run stay under {area}: {left}"));
    }
    if reached && let Ok(names) = store.list_names("").await {
        let others = names.iter().filter(|entry| {
            let name = entry.name.trim_end_matches('/');
            name.starts_with(AREA) && name != area
        });
        remarks.extend(others.map(|other| {
            format!(
                "{} was left by a run of these checks that was killed, unless one is under way: remove it",
                other.name
            )
        }));
    }
    let capabilities = store.capabilities();
    if capabilities.scheme == Scheme::Memory {
        remarks.push("lives in the memory of one process: for tests only".to_owned());
    }
    Report {
        url: store.url().to_owned(),
        checks,
        remarks,
    }
}
