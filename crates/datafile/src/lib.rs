//! Arrow to Parquet and back with Paimon's physical types, field ids and statistics.
//!
//! Bytes in, bytes out: this crate opens no file and knows no table layout. Writing goes
//! rows → [`normalise()`] → [`FileEncoder`] → bytes and [`SimpleStats`](tidegate_model::SimpleStats);
//! reading goes [`ReadPlan`] → [`FileReader`] or [`read_parquet`] → rows.
//!
//! ```
//! # use std::sync::Arc;
//! use arrow::array::{ArrayRef, Int64Array, RecordBatch};
//! use tidegate_datafile::{FileEncoder, FilePlan, ReadPlan, normalise, read_parquet};
//! use tidegate_model::{DataField, Options};
//!
//! let columns = [DataField::new("id", "BIGINT".parse()?)];
//! let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), None, Some(1)]));
//! let rows = RecordBatch::try_from_iter([("id", ids)])?;
//!
//! let mut encoder = FileEncoder::new(&FilePlan::of_fields(&columns, &Options::new())?)?;
//! encoder.write(&normalise(&rows, &columns)?)?;
//! let file = encoder.finish()?;
//! assert_eq!(file.value_stats.null_counts, Some(vec![Some(1)]));
//!
//! let plan = ReadPlan::new(&columns, &columns)?;
//! let read = read_parquet("data-0.parquet", file.last_bytes, &plan)?.next().ok_or("no rows")??;
//! assert_eq!(read.columns(), rows.columns());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Rules are cited as `[F-x.y]`, sections of the format sheet; `B53`, `B55` are cases.

mod bounds;
mod constant;
mod dictionary;
mod encoder;
mod error;
mod int96;
mod keyed;
mod normalise;
mod plan;
mod reader;
mod stats;
mod types;
mod value;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;

pub use constant::constant;
pub use encoder::{Dictionaries, EncodedFile, FileEncoder, slice_bytes};
pub use error::{Error, Result};
pub use keyed::{
    KEY_PREFIX, KeyedMeta, SEQUENCE_NUMBER, SYSTEM_COLUMNS, VALUE_KIND, key_value_fields,
    key_value_schema,
};
pub use normalise::{Normaliser, normalise};
pub use plan::FilePlan;
pub use reader::{FileReader, ReadAt, ReadPlan, ranges, read_parquet};
pub use types::{FIELD_ID_KEY, arrow_schema, type_text};
pub use value::value_at;

/// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
