//! The contract between a stream engine and a table target.
//!
//! An **engine** owns sources, barriers and checkpoints and knows no table format. A **target** owns
//! files and visibility and knows no engine. Three values cross the border:
//!
//! * [`Message`]s: what one writer made durable for one partition and bucket since the last barrier;
//! * [`Committable`]: all messages of one checkpoint, opaque versioned bytes that the engine keeps
//!   in its checkpoint;
//! * [`Outcome`]: what became of a committable.
//!
//! The life of a checkpoint (phase one, phase two):
//!
//! ```text
//! Writer::prepare ─► messages ─► Committer::combine ─► committable ─► engine stores its checkpoint
//!                                                                              │ complete
//!                                 Outcome ◄─ Committer::commit ◄───────────────┘
//! ```
//!
//! After a crash the engine reads its newest complete checkpoint and hands the saved committables to
//! a [`RecoveryManager`] *before* any writer opens.
//!
//! A writer of a target of one's own, driven without a runtime:
//!
//! ```
//! use tidegate_sink::blocking::{CancelFlag, wait};
//! use tidegate_sink::{BoxFuture, Message, Rows, SinkError, Writer};
//!
//! #[derive(Default)]
//! struct Lines(Vec<String>);
//!
//! impl Writer for Lines {
//!     type Batch = Vec<String>;
//!
//!     fn write<'a>(&'a mut self, rows: Rows<Vec<String>>) -> BoxFuture<'a, Result<(), SinkError>> {
//!         self.0.extend(rows.batch);
//!         Box::pin(async { Ok(()) })
//!     }
//!
//!     fn prepare<'a>(&'a mut self) -> BoxFuture<'a, Result<Vec<Message>, SinkError>> {
//!         // A real one makes a file durable here and says how it is found.
//!         let bytes = std::mem::take(&mut self.0).join("\n").into_bytes();
//!         Box::pin(async { Ok(vec![Message { version: 1, bytes }]) })
//!     }
//!
//!     fn abort<'a>(&'a mut self) -> BoxFuture<'a, Result<(), SinkError>> {
//!         self.0.clear();
//!         Box::pin(async { Ok(()) })
//!     }
//! }
//!
//! let (mut writer, cancel) = (Lines::default(), CancelFlag::new());
//! let rows = Rows::inserts(vec!["one".to_owned(), "two".to_owned()]);
//! wait(writer.write(rows), &cancel).ok_or("cancelled")??;
//! let messages = wait(writer.prepare(), &cancel).ok_or("cancelled")??;
//! assert_eq!(messages[0].bytes, b"one\ntwo");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate owns names, identities and traits. It owns no I/O, no async runtime, no Arrow and no
//! table format: traits return boxed futures, so that they are object-safe and any executor (or the
//! [`blocking`] facade, for JNI) can drive them.

mod committable;
mod committer;
mod error;
mod ids;
mod recovery;
mod target;
mod writer;

pub mod blocking;
pub mod mutant;
pub mod probe;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;

pub use committable::{Committable, CommittableError, Message, Positions};
pub use committer::{
    CommitContext, Committer, JobHistory, Mismatch, Outcome, Published, Resolution, ResolutionPlan,
    Saved, Standing, Version,
};
pub use error::{ErrorKind, SinkError};
pub use ids::{
    CheckpointId, CommitIdentifier, CommitUser, Digest, Epoch, IdError, JobName, RunPrefix,
};
pub use recovery::{RecoveryManager, Restored};
pub use target::{CleanReport, Run, Target, WriterMemory, WriterSet};
pub use writer::{Router, RowKind, Rows, Writer};

use std::future::Future;
use std::pin::Pin;

/// A boxed future that can move between threads: what makes the traits here object-safe.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
