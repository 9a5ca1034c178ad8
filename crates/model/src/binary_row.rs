//! Binary rows: the one encoding of partition values, keys and statistics \[F-4.5].
//!
//! Owns the bytes of BinaryRow, BinaryArray and BinaryMap. Types are not stored: who reads must know
//! them.

use std::sync::Arc;

/// A row as its bytes, **without** the four-byte arity prefix, plus its arity. Cheap to clone.
///
/// Equality, order and hash are those of the bytes: this is the identity that manifests use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BinaryRow {
    arity: u32,
    bytes: Arc<[u8]>,
}
