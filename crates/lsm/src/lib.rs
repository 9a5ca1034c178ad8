//! What the files of a keyed bucket mean: levels, sorted runs, sections, compaction picks. No I/O.
//!
//! Values in, decisions out: no storage, no clock, no Arrow. Readers and writers both ask here, so that
//! a compaction and a merge-on-read cannot disagree about what overlaps.
//!
//! One concept per module; rules are cited as `[W-n]` (write protocol) and `[F-x.y]` (format).
//!
#![doc = include_str!("../README.md")]

pub mod compaction;
pub mod error;
pub mod levels;
pub mod options;
pub mod run;
pub mod sections;
pub mod task;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod testing;

pub use compaction::{Circumstances, Compaction, Now, Pick};
pub use error::{Error, Result};
pub use levels::{LevelRun, Levels, overlap};
pub use options::{CompactionOptions, LiftLevel0, OffPeak};
pub use run::SortedRun;
pub use sections::{Section, sections};
pub use task::{Action, LookupLift, LookupTable, lookup_lift, plan};
