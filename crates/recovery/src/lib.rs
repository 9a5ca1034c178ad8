//! What a job needs to go on after a crash, for any target: checkpoint records and where they are
//! kept, who runs a job, and settling what a checkpoint had saved.
//!
//! * [`CheckpointRecord`] and its bytes: versioned, checksummed, migrated on read.
//! * [`CheckpointStore`]: records at `<directory>/<job>/<commit user>/checkpoint-<id>`, created only
//!   where absent. A record that exists with other bytes means that somebody else went on with the
//!   job \[R-5].
//! * [`Registry`]: runs of a job, registered beside the target \[R-2], with their `ended` marks.
//! * [`RestoreOnly`] and [`RestoreAndFail`]: the two ways to settle saved committables through a
//!   [`tidegate_sink::Committer`] before writers go on.
//!
//! Knows no table format and no Arrow: a committable is opaque bytes with a digest.
//!
//! ```
//! # use std::collections::BTreeMap;
//! use tidegate_recovery::{CheckpointRecord, CheckpointStore, new_commit_user};
//! use tidegate_sink::{CheckpointId, Epoch, JobName};
//! use tidegate_storage::Store;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let directory = Store::open("memory://recovery-example", &BTreeMap::new())?;
//! let (job, user) = (JobName::new("orders")?, new_commit_user());
//! let mut records = CheckpointStore::new(directory).job(&job, &user);
//! records.load().await?;
//! let record = CheckpointRecord::new(job, CheckpointId(1), user, Epoch(1));
//! records.write(&record).await?;
//! assert_eq!(records.newest().await?, Some(record));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bytes;
mod create;
mod error;
mod identity;
mod leftovers;
mod manager;
mod process;
mod record;
mod registry;
mod store;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;

pub use bytes::{RECORD_VERSION, decode, encode};
pub use error::{RecoveryError, kind_of};
pub use identity::Identities;
pub use manager::{RestoreAndFail, RestoreOnly};
pub use record::{CheckpointRecord, RecordKind, WriterState};
pub use registry::{
    Claim, EndKind, Ended, JobStatus, NO_CHECKPOINTS, REGISTRATION_VERSION, Registration, Registry,
    RunStatus, new_commit_user, run_prefix,
};
pub use store::{CheckpointStore, JobCheckpoints, ListedRecord};
