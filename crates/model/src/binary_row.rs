//! Binary rows: the one encoding of partition values, keys and statistics \[F-4.5].
//!
//! Owns the bytes of BinaryRow, BinaryArray and BinaryMap. Types are not stored: who reads must know
//! them. [`BinaryRowWriter`] makes a row and can be reused without allocating; [`BinaryRowReader`]
//! reads one, checking every offset, without copying.
//!
//! ```text
//! | RowKind, null bits: B bytes | 8 bytes per field | variable part, pieces of 8 bytes |
//! ```

mod array;
mod encode;
mod reader;
mod writer;

pub use array::{BinaryArrayReader, BinaryArrayWriter, encode_array, encode_map};
pub use reader::{BinaryMapReader, BinaryRowReader};
pub use writer::BinaryRowWriter;

use crate::data_type::LogicalType;
use crate::datum::Datum;
use crate::error::{Error, Result};
use std::sync::{Arc, LazyLock};

/// A row as its bytes, **without** the four-byte arity prefix, plus its arity. Cheap to clone.
///
/// Equality, order and hash are those of the bytes: this is the identity that manifests use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BinaryRow {
    arity: u32,
    bytes: Arc<[u8]>,
}

static EMPTY: LazyLock<BinaryRow> = LazyLock::new(|| BinaryRow {
    arity: 0,
    bytes: Arc::from([0u8; 8].as_slice()),
});

/// Bytes before the first slot: RowKind and null bits \[F-4.5].
pub(crate) const fn header_size(arity: usize) -> usize {
    // 8 bits of RowKind, then one per field, in words of 64.
    (arity + 8).div_ceil(64) * 8
}

impl BinaryRow {
    /// The row without fields: the partition of an unpartitioned table, the key of an append file.
    pub fn empty() -> Self {
        EMPTY.clone()
    }

    /// Takes row bytes, the arity prefix not included.
    ///
    /// # Errors
    /// Where the bytes are too few for the header and one slot per field. The fields are checked
    /// when they are read.
    pub fn from_bytes(arity: u32, bytes: impl Into<Arc<[u8]>>) -> Result<Self> {
        let bytes = bytes.into();
        BinaryRowReader::new(arity, &bytes)?;
        Ok(Self { arity, bytes })
    }

    /// Takes the form of metadata files: arity as big-endian `int`, then the row.
    pub fn from_serialized(serialized: &[u8]) -> Result<Self> {
        let Some((prefix, bytes)) = serialized.split_first_chunk::<4>() else {
            return Err(Error::Binary {
                structure: "row",
                at: 0,
                what: format!("{} bytes, the arity prefix alone takes 4", serialized.len()),
            });
        };
        let arity = i32::from_be_bytes(*prefix);
        let arity = u32::try_from(arity).map_err(|_| Error::Binary {
            structure: "row",
            at: 0,
            what: format!("negative arity {arity}"),
        })?;
        Self::from_bytes(arity, bytes)
    }

    /// The form of metadata files \[F-4.5].
    pub fn to_serialized(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes.len() + 4);
        out.extend_from_slice(&self.arity.to_be_bytes());
        out.extend_from_slice(&self.bytes);
        out
    }

    /// Makes a row of values.
    ///
    /// # Errors
    /// Where a value is not of its type, or the lists differ in length.
    pub fn from_datums(values: &[Option<Datum>], types: &[LogicalType]) -> Result<Self> {
        let mut writer = BinaryRowWriter::new(values.len());
        writer.write_all(values, types)?;
        Ok(writer.to_row())
    }

    /// Row bytes without prefix: what is hashed and compared.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of fields.
    pub fn arity(&self) -> u32 {
        self.arity
    }

    /// True without fields.
    pub fn is_empty(&self) -> bool {
        self.arity == 0
    }

    /// Typed access without copying.
    pub fn reader(&self) -> BinaryRowReader<'_> {
        BinaryRowReader::trusted(self.arity, &self.bytes)
    }

    /// Field `i` as a value of its own; `None` is null.
    pub fn get(&self, i: usize, data_type: &LogicalType) -> Result<Option<Datum>> {
        self.reader().get(i, data_type)
    }

    /// All fields.
    ///
    /// # Errors
    /// Where the number of types is not the arity, or a field does not decode.
    pub fn datums<'a>(
        &self,
        types: impl IntoIterator<Item = &'a LogicalType>,
    ) -> Result<Vec<Option<Datum>>> {
        self.reader().datums(types)
    }
}

impl Default for BinaryRow {
    fn default() -> Self {
        Self::empty()
    }
}
