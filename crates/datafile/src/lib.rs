//! Arrow to Parquet and back with Paimon's physical types, field ids and statistics.
//!
//! Bytes in, bytes out: this crate opens no file and knows no table layout. Writing goes
//! rows → [`normalise()`] → [`FileEncoder`] → bytes and [`SimpleStats`](tidegate_model::SimpleStats);
//! reading goes [`ReadPlan`] → [`FileReader`] or [`read_parquet`] → rows.
//!
//! Rules are cited as `[F-x.y]`, sections of the format sheet; `B53`, `B55` are cases.

mod bounds;
mod dictionary;
mod encoder;
mod error;
mod int96;
mod normalise;
mod plan;
mod reader;
mod stats;
mod types;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;

pub use encoder::{Dictionaries, EncodedFile, FileEncoder, slice_bytes};
pub use error::{Error, Result};
pub use normalise::{Normaliser, normalise};
pub use plan::FilePlan;
pub use reader::{FileReader, ReadAt, ReadPlan, read_parquet};
pub use types::{FIELD_ID_KEY, arrow_schema, type_text};

/// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
