//! The commit and recovery protocol as pure state machines: no I/O, no clock, no randomness.
#![warn(clippy::arithmetic_side_effects)]

mod attempt;
mod committable;
mod fact;
mod ids;
mod ledger;
mod rules;
mod settings;
mod step;

pub mod cleanup;
pub mod guard;
pub mod merge;
pub mod retain;

pub use attempt::{Attempt, OutOfTurn};
pub use committable::{Changes, Committable, FileChange, IndexChange, Seen};
pub use fact::{
    BaseFact, DeltaObjects, Fact, Garbage, LatestFact, LiveFile, SnapshotFact, Written,
};
pub use ids::{FileId, Half, ObjectId, PartitionId, Token};
pub use ledger::{Covered, Entry, Ledger};
pub use rules::{Rule, Rules};
pub use settings::{EmptyCommits, Settings};
pub use step::{
    Done, Draft, DroppedPart, Fence, IndexPlan, Outcome, Refusal, Replacement, Step, Undecided,
    WritePlan,
};
