//! The commit and recovery protocol as pure state machines: no I/O, no clock, no randomness.
//!
//! [`Attempt`] commits one committable. Ask [`Attempt::next`] for the [`Step`], do it, give the
//! [`Fact`] to [`Attempt::observe`], until [`Step::Done`]. The loop against a table in memory:
//!
//! ```
//! use std::sync::Arc;
//! use tidegate_model::ids::{BucketId, CommitIdentifier, CommitUser, Digest, SchemaId};
//! use tidegate_protocol::*;
//!
//! let user = CommitUser::new("orders-7f3a")?;
//! let file = FileChange {
//!     file: FileId(1),
//!     partition: PartitionId(0),
//!     bucket: BucketId(0),
//!     total_buckets: -1,
//!     rows: 100,
//!     place: None,
//!     lifted: false,
//! };
//! let committable = Committable {
//!     user: user.clone(),
//!     identifier: CommitIdentifier(1),
//!     digest: Digest([7; 32]),
//!     job: None,
//!     epoch: None,
//!     restored: false,
//!     seen: Seen::Empty,
//!     positions: None,
//!     replaces: None,
//!     watermark: None,
//!     append: Changes { added: vec![file], ..Changes::default() },
//!     compact: Changes::default(),
//! };
//! let mut snapshots: Vec<Draft> = Vec::new();                 // the "table"
//! let mut attempt =
//!     Attempt::new(Arc::new(committable), Ledger::new(user, None), Settings::default());
//! let outcome = loop {
//!     let fact = match attempt.next() {
//!         Step::ReadLatest => Fact::Latest(LatestFact {
//!             base: None,                                     // what the store shows
//!             schema: SchemaId(0),
//!             now_millis: 1_700_000_000_000,                  // a clock
//!             token: Token::new("a fresh uuid"),              // randomness
//!         }),
//!         Step::Write(_plan) => Fact::Written(Written {       // made durable, under these names
//!             delta: Some(DeltaObjects {
//!                 manifests: Vec::new(),
//!                 list: ObjectId(1),
//!                 changelog: None,
//!             }),
//!             merged: Vec::new(),
//!             base_list: ObjectId(2),
//!             index: None,
//!         }),
//!         Step::Publish(draft) => {                           // the one conditional create
//!             snapshots.push(draft);
//!             Fact::Created
//!         }
//!         Step::FindRetained => {                             // does it lie where readers look?
//!             let id = snapshots.last().map(|s| s.id);
//!             Fact::Retained(id.map(|id| (id, id)))
//!         }
//!         Step::Announce(_) => Fact::Announced,               // the hint
//!         Step::Done(outcome) => break outcome,
//!         other => unreachable!("{other:?} needs a table with history"),
//!     };
//!     attempt.observe(fact)?;
//! };
//! assert!(matches!(outcome, Outcome::Published(_)));
//! assert_eq!(snapshots.first().map(|s| s.total_records), Some(100));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Keep [`Attempt::into_ledger`] for the next committable. Around it: [`merge`] (which manifests a
//! commit rewrites), [`guard`] (how a checkpoint and the table stand to each other), [`cleanup`]
//! and [`retain`] (what may go).
//!
//! Rules are cited as `[C-n]` (write protocol) and `[R-n]` (ARCHITECTURE.md), cases as `Bnn`.
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
pub use committable::{Changes, Committable, FileChange, IndexChange, Place, Seen};
pub use fact::{
    BaseFact, DeltaObjects, Fact, Garbage, LatestFact, LiveFile, SnapshotFact, Written,
};
pub use ids::{FileId, Half, ObjectId, PartitionId, Token};
pub use ledger::{Covered, Entry, Ledger};
#[cfg(feature = "mutants")]
pub use rules::leave_out;
pub use rules::{Rule, Rules};
pub use settings::{EmptyCommits, Settings};
pub use step::{
    Done, Draft, DroppedPart, Fence, IndexPlan, Outcome, Refusal, Replacement, Step, Undecided,
    WritePlan,
};
