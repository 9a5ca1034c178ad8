//! An embedded stream engine: sources with positions, aligned barriers, checkpoints, restarts; for
//! any target.
//!
//! A [`Job`] carries rows from a [`source::Source`] into any [`tidegate_sink::Target`] of record
//! batches, exactly once, through crashes and restarts:
//!
//! ```text
//! split ─► source task ─┬─► writer task ─► messages ─┐
//! split ─► source task ─┴─► writer task ─► messages ─┴─► combine ─► record (= complete) ─► commit
//!             └── positions at the barrier ────────────────┘
//! ```
//!
//! It knows no table format, and it runs in one process: being distributed is somebody else's job.
//! See [`Job`] for how to run one, [`source`] for the contract of sources, [`Settings`] for what can
//! be set.

mod align;
mod clock;
mod commits;
mod error;
mod job;
mod mismatch;
mod progress;
mod restart;
mod run;
mod settings;
pub mod source;
mod start;
mod stop;
mod task;

pub use clock::{Clock, SystemClock};
pub use error::RuntimeError;
pub use job::{BatchTarget, Job, JobBuilder, JobEnd, Summary};
pub use mismatch::{MismatchReport, Why, way_name};
pub use progress::{Phase, Progress};
pub use restart::RestartStrategy;
pub use settings::{CheckpointSettings, CommitSettings, Settings};
pub use stop::{Stop, StopSignal};
