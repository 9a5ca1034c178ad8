//! Making rows.

use super::encode::{
    put, put_bytes, put_decimal, put_piece, put_reserved, put_timestamp, reserved_by_null,
};
use super::{BinaryRow, encode_array, encode_map, header_size};
use crate::data_type::LogicalType;
use crate::datum::Datum;
use crate::error::{Error, Result};
use std::sync::Arc;

/// Writes rows of one arity, again and again without allocating.
///
/// Each field is written at most once per row and in field order: pieces of the variable part lie in
/// the order of the calls, and Java's lie in field order. A field that is not written is the zero of
/// its type.
///
/// ```
/// use tidegate_model::binary_row::BinaryRowWriter;
///
/// let mut row = BinaryRowWriter::new(2);
/// row.write_str(0, "2024-01-01");
/// row.write_i32(1, 7);
/// assert_eq!(row.as_bytes().len(), 40);
/// row.reset();
/// row.write_str(0, "2024-01-02");
/// row.set_null(1);
/// assert_eq!(row.to_row().arity(), 2);
/// ```
///
/// # Panics
/// Every `write_*` panics where the index is not below the arity: that is a mistake of the program.
#[derive(Clone, Debug)]
pub struct BinaryRowWriter {
    arity: usize,
    header: usize,
    buf: Vec<u8>,
}

impl BinaryRowWriter {
    /// A writer for rows of `arity` fields, standing before the first row.
    pub fn new(arity: usize) -> Self {
        let header = header_size(arity);
        Self {
            arity,
            header,
            buf: vec![0; header + 8 * arity],
        }
    }

    /// Starts the next row; keeps the memory.
    pub fn reset(&mut self) {
        let fixed = self.header + 8 * self.arity;
        self.buf.truncate(fixed);
        self.buf.fill(0);
    }

    /// Number of fields.
    pub fn arity(&self) -> usize {
        self.arity
    }

    /// The row as it stands, without arity prefix.
    pub fn as_bytes(&self) -> &[u8] {
        &self.buf
    }

    /// A copy of the row.
    pub fn to_row(&self) -> BinaryRow {
        BinaryRow {
            arity: self.arity as u32,
            bytes: Arc::from(self.buf.as_slice()),
        }
    }

    fn at(&self, i: usize) -> usize {
        assert!(
            i < self.arity,
            "field {i} of a row with {} fields",
            self.arity
        );
        self.header + 8 * i
    }

    /// Null for types whose null is a zero slot; see [`write_null`](Self::write_null).
    #[allow(
        clippy::indexing_slicing,
        reason = "the bit of a checked index lies in the header"
    )]
    pub fn set_null(&mut self, i: usize) {
        let _ = self.at(i);
        let bit = i + 8;
        self.buf[bit / 8] |= 1 << (bit % 8);
    }

    /// Null of a type: DECIMAL beyond 18 digits and TIMESTAMP beyond milliseconds keep their piece
    /// of the variable part, which counts in hashes and identities \[F-4.5], \[F-12.4].
    pub fn write_null(&mut self, i: usize, data_type: &LogicalType) {
        self.set_null(i);
        let size = reserved_by_null(data_type);
        if size > 0 {
            let at = self.at(i);
            put_reserved(&mut self.buf, at, size);
        }
    }

    /// BOOLEAN.
    pub fn write_bool(&mut self, i: usize, value: bool) {
        self.fixed(i, &[u8::from(value)]);
    }

    /// TINYINT.
    pub fn write_i8(&mut self, i: usize, value: i8) {
        self.fixed(i, &value.to_le_bytes());
    }

    /// SMALLINT.
    pub fn write_i16(&mut self, i: usize, value: i16) {
        self.fixed(i, &value.to_le_bytes());
    }

    /// INT, DATE (days) and TIME (milliseconds of the day).
    pub fn write_i32(&mut self, i: usize, value: i32) {
        self.fixed(i, &value.to_le_bytes());
    }

    /// BIGINT.
    pub fn write_i64(&mut self, i: usize, value: i64) {
        self.fixed(i, &value.to_le_bytes());
    }

    /// FLOAT, bits as they are.
    pub fn write_f32(&mut self, i: usize, value: f32) {
        self.fixed(i, &value.to_le_bytes());
    }

    /// DOUBLE, bits as they are.
    pub fn write_f64(&mut self, i: usize, value: f64) {
        self.fixed(i, &value.to_le_bytes());
    }

    /// CHAR, VARCHAR, STRING.
    pub fn write_str(&mut self, i: usize, value: &str) {
        self.write_bytes(i, value.as_bytes());
    }

    /// BINARY, VARBINARY, BYTES.
    pub fn write_bytes(&mut self, i: usize, value: &[u8]) {
        let at = self.at(i);
        put_bytes(&mut self.buf, at, value);
    }

    /// DECIMAL(`precision`, any scale) by its digits as one number. Up to 18 digits it must fit
    /// `i64`, which the type promises.
    pub fn write_decimal(&mut self, i: usize, unscaled: i128, precision: u8) {
        let at = self.at(i);
        put_decimal(&mut self.buf, at, unscaled, precision);
    }

    /// TIMESTAMP and TIMESTAMP_LTZ of a precision; nanoseconds within the millisecond are left out
    /// up to precision 3.
    pub fn write_timestamp(&mut self, i: usize, millis: i64, nanos_of_milli: i32, precision: u8) {
        let at = self.at(i);
        put_timestamp(&mut self.buf, at, millis, nanos_of_milli, precision);
    }

    /// ARRAY, MAP, MULTISET or ROW, already encoded (without any prefix).
    pub fn write_nested(&mut self, i: usize, encoded: &[u8]) {
        let at = self.at(i);
        put_piece(&mut self.buf, at, encoded);
    }

    /// A value of its own.
    ///
    /// # Errors
    /// Where the value is not of the type; the row is then unusable until [`reset`](Self::reset).
    pub fn write_datum(
        &mut self,
        i: usize,
        value: Option<&Datum>,
        data_type: &LogicalType,
    ) -> Result<()> {
        let Some(value) = value else {
            self.write_null(i, data_type);
            return Ok(());
        };
        match (data_type, value) {
            (LogicalType::Boolean, Datum::Boolean(v)) => self.write_bool(i, *v),
            (LogicalType::TinyInt, Datum::TinyInt(v)) => self.write_i8(i, *v),
            (LogicalType::SmallInt, Datum::SmallInt(v)) => self.write_i16(i, *v),
            (LogicalType::Int, Datum::Int(v))
            | (LogicalType::Date, Datum::Date(v))
            | (LogicalType::Time(_), Datum::TimeMillis(v)) => self.write_i32(i, *v),
            (LogicalType::BigInt, Datum::BigInt(v)) => self.write_i64(i, *v),
            (LogicalType::Float, Datum::Float(v)) => self.write_f32(i, *v),
            (LogicalType::Double, Datum::Double(v)) => self.write_f64(i, *v),
            (
                LogicalType::Decimal { precision, scale },
                Datum::Decimal {
                    unscaled,
                    scale: value_scale,
                    ..
                },
            ) if scale == value_scale => {
                check_digits(*unscaled, *precision, data_type)?;
                self.write_decimal(i, *unscaled, *precision);
            }
            (LogicalType::Char(_) | LogicalType::VarChar(_), Datum::String(v)) => {
                self.write_str(i, v);
            }
            (LogicalType::Binary(_) | LogicalType::VarBinary(_), Datum::Bytes(v)) => {
                self.write_bytes(i, v);
            }
            (
                LogicalType::Timestamp(p) | LogicalType::TimestampLtz(p),
                Datum::Timestamp {
                    millis,
                    nanos_of_milli,
                },
            ) => self.write_timestamp(i, *millis, *nanos_of_milli, *p),
            _ => {
                let nested = encode_nested(value, data_type)?;
                self.write_nested(i, &nested);
            }
        }
        Ok(())
    }

    /// All fields of a row.
    ///
    /// # Errors
    /// Where the lists are not of this arity, or a value is not of its type.
    pub fn write_all(&mut self, values: &[Option<Datum>], types: &[LogicalType]) -> Result<()> {
        if values.len() != self.arity || types.len() != self.arity {
            return Err(Error::Binary {
                structure: "row",
                at: 0,
                what: format!(
                    "{} values and {} types for {} fields",
                    values.len(),
                    types.len(),
                    self.arity
                ),
            });
        }
        for (i, (value, data_type)) in values.iter().zip(types).enumerate() {
            self.write_datum(i, value.as_ref(), data_type)?;
        }
        Ok(())
    }

    fn fixed(&mut self, i: usize, value: &[u8]) {
        let at = self.at(i);
        put(&mut self.buf, at, value);
    }
}

/// Refuses more digits than the type has: the slot of a compact decimal could not hold them.
pub(super) fn check_digits(unscaled: i128, precision: u8, data_type: &LogicalType) -> Result<()> {
    let limit = 10u128
        .checked_pow(u32::from(precision))
        .unwrap_or(u128::MAX);
    if unscaled.unsigned_abs() >= limit {
        return Err(Error::TypeRange {
            data_type: data_type.to_string(),
            what: format!("the unscaled value {unscaled} has more than {precision} digits"),
        });
    }
    Ok(())
}

/// An ARRAY, MAP, MULTISET or ROW as bytes.
pub(super) fn encode_nested(value: &Datum, data_type: &LogicalType) -> Result<Vec<u8>> {
    match (data_type, value) {
        (LogicalType::Array(element), Datum::Array(values)) => {
            encode_array(values, &element.logical)
        }
        (LogicalType::Map(key, item), Datum::Map(entries)) => {
            encode_map(entries, &key.logical, &item.logical)
        }
        (LogicalType::Multiset(element), Datum::Map(entries)) => {
            encode_map(entries, &element.logical, &LogicalType::Int)
        }
        (LogicalType::Row(fields), Datum::Row(values)) => {
            let types: Vec<_> = fields.iter().map(|f| f.data_type.logical.clone()).collect();
            let mut row = BinaryRowWriter::new(fields.len());
            row.write_all(values, &types)?;
            Ok(row.buf)
        }
        _ => Err(Error::Mismatch {
            data_type: data_type.to_string(),
            found: value.kind(),
        }),
    }
}
