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
//! See [`source`] for the contract of sources, [`Settings`] for what can be set.
//!
//! ```
//! use std::sync::Arc;
//! use tidegate_recovery::{CheckpointStore, Registry};
//! use tidegate_runtime::{BatchTarget, Job, JobEnd, StopSignal, source::Source};
//! use tidegate_sink::JobName;
//! use tidegate_storage::Store;
//!
//! /// The same call after a crash, a stop, or when there is something new.
//! async fn carry(
//!     source: impl Source + 'static,
//!     target: Arc<BatchTarget>,
//!     beside_target: Store,
//!     checkpoints: Store,
//! ) -> Result<(), Box<dyn std::error::Error>> {
//!     let job = Job::builder(JobName::new("orders")?)
//!         .source(source)
//!         .target(target)
//!         .registry(Registry::new(beside_target))
//!         .checkpoints(CheckpointStore::new(checkpoints))
//!         .build()?;
//!     match job.run(StopSignal::never()).await? {
//!         JobEnd::Finished(summary) => println!("{} rows published", summary.rows_published),
//!         JobEnd::NothingNew => println!("nothing new"),
//!         JobEnd::Mismatch(report) => println!("{report}"),
//!         JobEnd::Stopped(_) | JobEnd::Aborted(_) => {}
//!     }
//!     Ok(())
//! }
//! ```

mod align;
mod cleaning;
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

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;

pub use clock::{Clock, SystemClock};
pub use error::{RecordTrouble, RuntimeError};
pub use job::{BatchTarget, Job, JobBuilder, JobEnd, Summary};
pub use mismatch::{MismatchReport, Why, way_name};
pub use progress::{Phase, Progress};
pub use restart::RestartStrategy;
pub use settings::{CheckpointSettings, CommitSettings, Settings};
pub use stop::{Stop, StopSignal};
