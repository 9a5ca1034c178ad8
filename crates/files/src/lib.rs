//! Exactly-once plain files: pending files made final at commit, as Parquet, CSV or JSON lines.
//!
//! The contract of `tidegate-sink` on a bare directory or bucket, without any table format:
//!
//! ```text
//! <directory>/part-<run prefix><uuid>-<n>.parquet          final: what plain readers see
//! <directory>/_tidegate/pending/part-….parquet             durable, not committed
//! <directory>/_tidegate/commits/<user>/commit-<number>     the log: JSON, one entry per commit
//! <directory>/_tidegate/commits/<user>/positions-<sha256>  positions that are large [R-3]
//! ```
//!
//! **One create decides.** A commit is visible from the moment its log entry exists; entries are
//! created if absent at the next number, so that of two runs of a job only one goes on and a run
//! that has not seen the newest entry can add none. Then each file is copied to its final name and
//! its pending one deleted: idempotent, since a name belongs to one content for ever. An entry is
//! added only when the files of the one before are final, so that after a crash only the newest
//! entry is looked at; opening a committer finishes it.
//!
//! *Why a log*, and not only final names that follow from the commit: a log makes the files of a
//! commit visible together, tells by content whether a commit is ours \[R-5], and holds the source's
//! positions \[R-9]; names alone can do none of that. *Why a copy*, and not a rename: object stores
//! have none. The bytes do not pass here: a hard link on a disk, the server's own copy on S3
//! (`Store::copy_once`); elsewhere, and above what one request copies, they are written once more.
//!
//! **What readers see.** A plain reader (`*.parquet`, skipping names that begin with `_`) never sees
//! a row that is not committed, nor one twice, nor part of a file; while files of a commit are put
//! into place, and after a crash in that moment until the next start, it may see only some of them.
//! Who needs whole commits asks [`FilesTarget::committed`].
//!
//! Files take inserts only, each the schema of its batches. Nothing is expired: the log grows by one
//! small object per commit with rows. Roll-back is refused, since readers may have the rows already.
//!
//! ```
//! # use std::{collections::BTreeMap, sync::Arc};
//! # use arrow::array::{Int64Array, RecordBatch};
//! # use tidegate_files::{FilesTarget, Format};
//! # use tidegate_sink::*;
//! # use tidegate_storage::Store;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let store = Store::open("memory://", &BTreeMap::new())?;
//! let target = FilesTarget::new(store, Format::Csv);
//! // An engine registers its runs; `tidegate-recovery` does it durably.
//! let run = Run {
//!     job: JobName::new("orders")?,
//!     user: CommitUser::new("0b0cf4a5")?,
//!     epoch: Epoch(1),
//!     prefix: RunPrefix("tg0b0cf4a5e1-".into()),
//!     restored: None,
//! };
//! let mut committer = target.committer(&run).await?;
//! let mut writers = target.writers(&run, 1).await?.writers;
//! let ids = Arc::new(Int64Array::from(vec![1, 2, 3]));
//! let batch = RecordBatch::try_from_iter([("id", ids as _)])?;
//! writers[0].write(Rows::inserts(batch)).await?;
//!
//! let messages = writers[0].prepare().await?; // durable, not visible
//! assert!(target.committed().await?.is_empty());
//! let context = CommitContext {
//!     job: run.job.clone(),
//!     epoch: run.epoch,
//!     checkpoint: CheckpointId(1),
//!     positions: None,
//!     replaces: None,
//!     watermark: None,
//! };
//! let committable = committer.combine(&context, messages, 1, 1)?;
//! assert!(matches!(committer.commit(&committable).await?, Outcome::Published(_)));
//! assert!(matches!(committer.commit(&committable).await?, Outcome::AlreadyPublished(_)));
//! assert_eq!(target.committed().await?[0].file.rows, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod committer;
mod encode;
mod error;
mod log;
mod target;
mod writer;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;

pub use encode::Format;
pub use error::FilesError;
pub use log::DataFile;
pub use target::{CommittedFile, FilesTarget};
