//! Drives the commit protocol against a store: exactly one snapshot per committable.
//!
//! [`PaimonCommitter`] implements [`tidegate_sink::Committer`] for Apache Paimon tables. It carries
//! out what `tidegate-protocol` decides: reads what is visible, writes manifests and lists, makes the
//! snapshot visible by one conditional create, settles unknown outcomes by presence, and leaves no
//! file of a lost race behind. [`committable`] owns the bytes that travel through checkpoints,
//! [`Marks`] what a snapshot carries for the next run of the job.
//!
//! ```
//! use std::collections::BTreeMap;
//! use tidegate_commit::{PaimonCommitter, create_table, run_prefix};
//! use tidegate_model::{DataField, DataType, LogicalType, Options, TableSchema};
//! use tidegate_sink::{CheckpointId, CommitContext, CommitUser, Committer, Epoch, JobName, Outcome, Run};
//! use tidegate_storage::Store;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::open_for_write("memory://shop.db/orders", &BTreeMap::new()).await?;
//! let id = DataField::new("id", DataType::nullable(LogicalType::BigInt));
//! let schema = TableSchema::create(vec![id], vec![], vec![], Options::new(), None, 0)?;
//! create_table(&store, &schema).await?;
//!
//! let (user, epoch) = (CommitUser::new("5dacde51")?, Epoch(1));
//! let job = JobName::new("orders-job")?;
//! let prefix = run_prefix(&user, epoch);
//! let run = Run { job: job.clone(), user, epoch, prefix, restored: None };
//! let mut committer = PaimonCommitter::open(store, run).await?;
//! let context = CommitContext {
//!     job,
//!     epoch,
//!     checkpoint: CheckpointId(1),
//!     positions: None,
//!     replaces: None,
//!     watermark: None,
//! };
//! let nothing_written = committer.combine(&context, vec![], 1, 1)?;
//! assert_eq!(committer.commit(&nothing_written).await?, Outcome::Empty);
//! # Ok(())
//! # }
//! ```
//!
//! Knows no Arrow and no Parquet: data files are names and numbers here.

mod clean;
mod committer;
mod digest;
mod env;
mod error;
mod executor;
mod history;
mod index;
mod live;
mod manifests;
mod merge;
mod meta;
mod names;
mod note;
mod paths;
mod properties;
mod publish;
mod registry;
mod resolve;
mod settings;
mod table;
mod view;

pub mod committable;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;

pub use clean::{clean, leftovers};
pub use committer::{LostCompactions, PaimonCommitter};
pub use digest::digest;
pub use env::{Env, SeededEnv, SystemEnv};
pub use error::{CommitError, Result};
pub use meta::Visible;
pub use names::run_prefix;
pub use note::Note;
pub use properties::{ActiveAt, INLINE_POSITIONS, Marks, PositionMarks, positions_hash};
pub use table::{create_table, latest_snapshot, load_schema, snapshot, snapshots};
pub use view::LiveView;
