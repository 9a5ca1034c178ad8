//! Drives the commit protocol against a store: exactly one snapshot per committable.
//!
//! [`PaimonCommitter`] implements [`tidegate_sink::Committer`] for Apache Paimon tables. It carries
//! out what `tidegate-protocol` decides: reads what is visible, writes manifests and lists, makes the
//! snapshot visible by one conditional create, settles unknown outcomes by presence, and leaves no
//! file of a lost race behind. [`committable`] owns the bytes that travel through checkpoints,
//! [`Marks`] what a snapshot carries for the next run of the job.
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

pub use clean::clean;
pub use committer::PaimonCommitter;
pub use digest::digest;
pub use env::{Env, SeededEnv, SystemEnv};
pub use error::{CommitError, Result};
pub use meta::Visible;
pub use names::run_prefix;
pub use note::Note;
pub use properties::{ActiveAt, INLINE_POSITIONS, Marks, PositionMarks, positions_hash};
pub use table::{create_table, latest_snapshot, load_schema, snapshot, snapshots};
pub use view::LiveView;
