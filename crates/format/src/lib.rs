//! The bytes of Apache Paimon metadata files, read and written.
//!
//! Bytes in, values of `tidegate-model` out, and back; no I/O. One module per kind of file:
//!
//! | module | file | form |
//! |---|---|---|
//! | [`snapshot`] | `snapshot/snapshot-N`, `changelog/changelog-N` | JSON |
//! | [`schema`] | `schema/schema-N` | JSON |
//! | [`tag`], [`consumer`], [`hint`] | `tag/…`, `consumer/…`, `LATEST` and `EARLIEST` | JSON, text |
//! | [`manifest_list`], [`manifest`] | `manifest/manifest-list-…`, `manifest/manifest-…` | Avro |
//! | [`index_manifest`] | `manifest/index-manifest-…` | Avro |
//! | [`commit_message`], [`manifest_committable`] | none: what engines carry and save | Java's own |
//!
//! Every decoder takes arbitrary bytes and answers with a value or an [`Error`] that says where
//! (line and column, byte, or block and record) and in which field; who knows the file adds its name
//! with [`InFile::in_file`]. Memory stays within a small multiple of the bytes given: a compressed
//! block may grow to 1 MiB and 256 times its size, values take a few times what they are read from.
//!
//! ```
//! use tidegate_format::{Codec, InFile, manifest, manifest_list, snapshot};
//! # fn bytes_of(name: &str) -> Vec<u8> {
//! #     let table = concat!(
//! #         env!("CARGO_MANIFEST_DIR"),
//! #         "/../../tests/golden/tables/append_tags/warehouse/golden.db/append_tags"
//! #     );
//! #     std::fs::read(format!("{table}/{name}")).unwrap()
//! # }
//!
//! let bytes = bytes_of("snapshot/snapshot-5");
//! let snapshot = snapshot::decode(&bytes).in_file("snapshot-5")?;
//! assert_eq!(snapshot::encode(&snapshot), bytes);
//!
//! let mut rows = 0;
//! for list in [&snapshot.base_manifest_list, &snapshot.delta_manifest_list] {
//!     for meta in manifest_list::decode(&bytes_of(&format!("manifest/{}", list.name)))? {
//!         let bytes = bytes_of(&format!("manifest/{}", meta.file_name));
//!         for entry in manifest::entries(&bytes)? {
//!             rows += entry?.file.row_count;
//!         }
//!     }
//! }
//! assert_eq!(Some(rows), snapshot.total_record_count);
//!
//! // Files of our own: any 16 bytes may be the sync marker.
//! let empty = manifest_list::encode(&[], Codec::default(), [7; 16])?;
//! assert!(manifest_list::decode(&empty)?.is_empty());
//! # Ok::<(), tidegate_format::Error>(())
//! ```

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

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;

pub use avro::Codec;
pub use error::{Error, InFile, Position, Problem, Result};
pub use stats::StatsView;

/// The example of the README is one of the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
