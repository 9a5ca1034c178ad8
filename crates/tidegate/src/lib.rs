//! Streams into lake tables, exactly once.
//!
//! One import for users of Apache Paimon append tables: [`Warehouse`] and [`Table`] to find and make
//! tables, [`TableTarget`] to hand a table to an engine, [`Stream`] for programs that have their own
//! loop, and the parts under their own names for everything else.
//!
//! Owns no format, protocol or engine of its own: it puts the parts together.

mod error;
mod stream;
pub mod system;
mod table;
mod target;
pub mod verify;
mod warehouse;

pub use error::{Error, Result};
pub use stream::{Stream, StreamBuilder};
pub use table::Table;
pub use target::{TableTarget, TargetOptions};
pub use warehouse::Warehouse;

pub use tidegate_commit as commit;
pub use tidegate_datafile as datafile;
pub use tidegate_files as files;
pub use tidegate_format as format;
pub use tidegate_model as model;
pub use tidegate_protocol as protocol;
pub use tidegate_recovery as recovery;
pub use tidegate_scan as scan;
pub use tidegate_sink as sink;
pub use tidegate_storage as storage;
pub use tidegate_writer as writer;
