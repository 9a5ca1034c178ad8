//! The bytes of Apache Paimon metadata files, read and written.

pub mod avro;
pub mod commit_message;
pub mod consumer;
mod error;
pub mod hint;
pub mod index_manifest;
mod json;
pub mod manifest;
pub mod manifest_committable;
pub mod manifest_list;
pub mod schema;
pub mod snapshot;
mod stats;
pub mod tag;

pub use avro::Codec;
pub use error::{Error, InFile, Position, Problem, Result};
pub use stats::StatsView;
