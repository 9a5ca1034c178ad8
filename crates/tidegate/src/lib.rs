//! Streams into lake tables, exactly once.
//!
//! One import for users of Apache Paimon tables, with a primary key or without: [`Warehouse`] and [`Table`] to find and make
//! tables, [`TableTarget`] to hand a table to an engine, [`Stream`] for programs that have their own
//! loop, and the parts under their own names for everything else.
//!
//! Owns no format, protocol or engine of its own: it puts the parts together.
//!
//! ```
//! # use std::sync::Arc;
//! use arrow::array::{Int64Array, RecordBatch};
//! use tidegate::Table;
//! use tidegate::model::{DataField, Options, TableSchema};
//! use tidegate::scan::At;
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path().display();
//! let columns = vec![DataField::new("id", "BIGINT".parse()?)];
//! let schema = TableSchema::create(columns, vec![], vec![], Options::new(), None, 0)?;
//! let table = Table::create_or_open(&format!("{folder}/shop.db/orders"), &schema).await?;
//!
//! // The same lines at the first start, after a stop and after a crash.
//! for _start in 0..2 {
//!     let mut stream = table
//!         .stream("orders-job")?
//!         .checkpoints(&format!("{folder}/checkpoints"))?
//!         .open()
//!         .await?;
//!     // Where to go on reading: bytes of your own, saved with the rows.
//!     let read = stream.position().map_or(0, |position| i64::from(position[0]));
//!     for id in read..5 {
//!         let ids = Arc::new(Int64Array::from(vec![id]));
//!         let batch = RecordBatch::try_from_iter_with_nullable([("id", ids as _, true)])?;
//!         stream.write(&batch, &[id as u8 + 1]).await?;
//!     }
//!     stream.checkpoint().await?; // durable, then visible, exactly once
//!     stream.finish().await?;
//! }
//! assert_eq!(table.scan(&At::Latest).await?.row_count(), Some(5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod compact;
mod error;
pub mod lsm;
mod stream;
pub mod system;
mod table;
mod target;
mod values;
pub mod verify;
mod warehouse;

pub use compact::{CompactOptions, CompactReport};
pub use error::{Error, Result};
pub use stream::{Stream, StreamBuilder};
pub use table::{TABLE_PATH, Table};
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
