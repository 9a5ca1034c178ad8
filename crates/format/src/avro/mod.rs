//! Avro object containers as Java Paimon writes and reads them \[F-4.1].
//!
//! Owns the container: header, blocks, codecs, the writer's schema, and reading records of one shape
//! out of files whose schema may have other fields in another order. What the fields mean belongs to
//! the modules of the record kinds.

pub(crate) mod codec;
pub(crate) mod container;
pub(crate) mod cursor;
pub(crate) mod encode;
pub(crate) mod plan;
pub(crate) mod schema;
pub(crate) mod shape;

pub use codec::Codec;
pub use container::{blocks, schema_text};
