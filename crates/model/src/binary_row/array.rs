//! Arrays and maps inside rows \[F-4.6].

use super::encode::{element_width, put, put_bytes, put_decimal, put_piece, put_timestamp};
use super::reader::{Region, decode};
use super::writer::{check_digits, encode_nested};
use crate::data_type::LogicalType;
use crate::datum::Datum;
use crate::error::{Error, Result};

/// Writes one array.
///
/// # Panics
/// Every `write_*` panics where the index is not below the size: that is a mistake of the program.
#[derive(Clone, Debug)]
pub struct BinaryArrayWriter {
    size: usize,
    first: usize,
    width: usize,
    buf: Vec<u8>,
}

/// Bytes before the first element.
fn array_header(size: usize) -> usize {
    4 + size.div_ceil(32) * 4
}

impl BinaryArrayWriter {
    /// An array of `size` elements of a type, all of them zero until written.
    pub fn new(size: usize, element: &LogicalType) -> Self {
        let (first, width) = (array_header(size), element_width(element));
        let mut buf = vec![0; (first + width * size).next_multiple_of(8)];
        put(&mut buf, 0, &(size as u32).to_le_bytes());
        Self {
            size,
            first,
            width,
            buf,
        }
    }

    fn at(&self, i: usize) -> usize {
        assert!(
            i < self.size,
            "element {i} of an array with {} elements",
            self.size
        );
        self.first + self.width * i
    }

    /// Null; never keeps a piece in an array.
    #[allow(
        clippy::indexing_slicing,
        reason = "the bit of a checked index lies in the header"
    )]
    pub fn set_null(&mut self, i: usize) {
        let _ = self.at(i);
        self.buf[4 + i / 8] |= 1 << (i % 8);
    }

    /// BIGINT.
    pub fn write_i64(&mut self, i: usize, value: i64) {
        let at = self.at(i);
        put(&mut self.buf, at, &value.to_le_bytes());
    }

    /// INT, DATE, TIME.
    pub fn write_i32(&mut self, i: usize, value: i32) {
        let at = self.at(i);
        put(&mut self.buf, at, &value.to_le_bytes());
    }

    /// STRING.
    pub fn write_str(&mut self, i: usize, value: &str) {
        let at = self.at(i);
        put_bytes(&mut self.buf, at, value.as_bytes());
    }

    /// ARRAY, MAP, MULTISET or ROW, already encoded.
    pub fn write_nested(&mut self, i: usize, encoded: &[u8]) {
        let at = self.at(i);
        put_piece(&mut self.buf, at, encoded);
    }

    /// A value of its own.
    ///
    /// # Errors
    /// Where the value is not of the type.
    pub fn write_datum(
        &mut self,
        i: usize,
        value: Option<&Datum>,
        data_type: &LogicalType,
    ) -> Result<()> {
        let Some(value) = value else {
            self.set_null(i);
            return Ok(());
        };
        let at = self.at(i);
        match (data_type, value) {
            (LogicalType::Boolean, Datum::Boolean(v)) => put(&mut self.buf, at, &[u8::from(*v)]),
            (LogicalType::TinyInt, Datum::TinyInt(v)) => put(&mut self.buf, at, &v.to_le_bytes()),
            (LogicalType::SmallInt, Datum::SmallInt(v)) => put(&mut self.buf, at, &v.to_le_bytes()),
            (LogicalType::Int, Datum::Int(v))
            | (LogicalType::Date, Datum::Date(v))
            | (LogicalType::Time(_), Datum::TimeMillis(v)) => {
                put(&mut self.buf, at, &v.to_le_bytes());
            }
            (LogicalType::BigInt, Datum::BigInt(v)) => put(&mut self.buf, at, &v.to_le_bytes()),
            (LogicalType::Float, Datum::Float(v)) => put(&mut self.buf, at, &v.to_le_bytes()),
            (LogicalType::Double, Datum::Double(v)) => put(&mut self.buf, at, &v.to_le_bytes()),
            (
                LogicalType::Decimal { precision, scale },
                Datum::Decimal {
                    unscaled,
                    scale: value_scale,
                    ..
                },
            ) if scale == value_scale => {
                check_digits(*unscaled, *precision, data_type)?;
                put_decimal(&mut self.buf, at, *unscaled, *precision);
            }
            (LogicalType::Char(_) | LogicalType::VarChar(_), Datum::String(v)) => {
                put_bytes(&mut self.buf, at, v.as_bytes());
            }
            (LogicalType::Binary(_) | LogicalType::VarBinary(_), Datum::Bytes(v)) => {
                put_bytes(&mut self.buf, at, v);
            }
            (
                LogicalType::Timestamp(p) | LogicalType::TimestampLtz(p),
                Datum::Timestamp {
                    millis,
                    nanos_of_milli,
                },
            ) => put_timestamp(&mut self.buf, at, *millis, *nanos_of_milli, *p),
            _ => {
                let nested = encode_nested(value, data_type)?;
                put_piece(&mut self.buf, at, &nested);
            }
        }
        Ok(())
    }

    /// `ARRAY<BIGINT>`, as null counts in commit messages are.
    pub fn bigints(values: &[Option<i64>]) -> Vec<u8> {
        let mut array = Self::new(values.len(), &LogicalType::BigInt);
        for (i, value) in values.iter().enumerate() {
            match value {
                Some(value) => array.write_i64(i, *value),
                None => array.set_null(i),
            }
        }
        array.into_bytes()
    }

    /// `ARRAY<STRING>` without nulls.
    pub fn strings<S: AsRef<str>>(values: &[S]) -> Vec<u8> {
        let mut array = Self::new(values.len(), &LogicalType::STRING);
        for (i, value) in values.iter().enumerate() {
            array.write_str(i, value.as_ref());
        }
        array.into_bytes()
    }

    /// The bytes, a multiple of eight.
    pub fn into_bytes(self) -> Vec<u8> {
        self.buf
    }
}

/// An array of values as bytes.
///
/// # Errors
/// Where a value is not of the type.
pub fn encode_array(values: &[Option<Datum>], element: &LogicalType) -> Result<Vec<u8>> {
    let mut array = BinaryArrayWriter::new(values.len(), element);
    for (i, value) in values.iter().enumerate() {
        array.write_datum(i, value.as_ref(), element)?;
    }
    Ok(array.buf)
}

/// A map as bytes: size of the key array, key array, value array.
///
/// # Errors
/// Where a key or value is not of its type.
pub fn encode_map(
    entries: &[(Option<Datum>, Option<Datum>)],
    key: &LogicalType,
    value: &LogicalType,
) -> Result<Vec<u8>> {
    let mut keys = BinaryArrayWriter::new(entries.len(), key);
    let mut values = BinaryArrayWriter::new(entries.len(), value);
    for (i, (k, v)) in entries.iter().enumerate() {
        keys.write_datum(i, k.as_ref(), key)?;
        values.write_datum(i, v.as_ref(), value)?;
    }
    let mut out = Vec::with_capacity(4 + keys.buf.len() + values.buf.len());
    out.extend_from_slice(&(keys.buf.len() as u32).to_le_bytes());
    out.extend_from_slice(&keys.buf);
    out.extend_from_slice(&values.buf);
    Ok(out)
}

/// Reads one array; every access is checked.
#[derive(Clone, Copy, Debug)]
pub struct BinaryArrayReader<'a> {
    region: Region<'a>,
    size: usize,
}

impl<'a> BinaryArrayReader<'a> {
    /// Takes the bytes of an array.
    ///
    /// # Errors
    /// Where size and null bits do not fit in.
    pub fn new(bytes: &'a [u8]) -> Result<Self> {
        let region = Region {
            structure: "array",
            bytes,
        };
        let size = region.i32(0)?;
        let size =
            usize::try_from(size).map_err(|_| region.error(0, format!("negative size {size}")))?;
        if array_header(size) > bytes.len() {
            return Err(region.error(
                0,
                format!("{size} elements do not fit into {} bytes", bytes.len()),
            ));
        }
        Ok(Self { region, size })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.size
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    fn slot(&self, i: usize, element: &LogicalType) -> Result<Option<usize>> {
        if i >= self.size {
            let what = format!("element {i} of {}", self.size);
            return Err(self.region.error(0, what));
        }
        let bits = self.region.u8(4 + i / 8)?;
        if bits & (1 << (i % 8)) != 0 {
            return Ok(None);
        }
        Ok(Some(array_header(self.size) + element_width(element) * i))
    }

    /// Element `i` of an `ARRAY<BIGINT>`.
    pub fn i64(&self, i: usize) -> Result<Option<i64>> {
        self.slot(i, &LogicalType::BigInt)?
            .map(|at| self.region.i64(at))
            .transpose()
    }

    /// Element `i` of an `ARRAY<INT>`.
    pub fn i32(&self, i: usize) -> Result<Option<i32>> {
        self.slot(i, &LogicalType::Int)?
            .map(|at| self.region.i32(at))
            .transpose()
    }

    /// Element `i` of an `ARRAY<STRING>`.
    pub fn str(&self, i: usize) -> Result<Option<&'a str>> {
        self.slot(i, &LogicalType::STRING)?
            .map(|at| self.region.str(at))
            .transpose()
    }

    /// Element `i` of an `ARRAY<ROW>` whose rows have `arity` fields.
    pub fn row(&self, i: usize, arity: u32) -> Result<Option<super::BinaryRowReader<'a>>> {
        self.slot(i, &LogicalType::Row(Vec::new()))?
            .map(|at| super::BinaryRowReader::new(arity, self.region.piece(at)?))
            .transpose()
    }

    /// Element `i` as a value of its own.
    pub fn get(&self, i: usize, element: &LogicalType) -> Result<Option<Datum>> {
        let mut budget = self.region.bytes.len();
        self.get_within(i, element, &mut budget)
    }

    fn get_within(
        &self,
        i: usize,
        element: &LogicalType,
        budget: &mut usize,
    ) -> Result<Option<Datum>> {
        self.slot(i, element)?
            .map(|at| decode(self.region, at, element, budget))
            .transpose()
    }

    pub(super) fn datums(
        &self,
        element: &LogicalType,
        budget: &mut usize,
    ) -> Result<Vec<Option<Datum>>> {
        let end = element_width(element).saturating_mul(self.size) + array_header(self.size);
        if end > self.region.bytes.len() {
            return Err(Error::Binary {
                structure: "array",
                at: 0,
                what: format!(
                    "{} elements need {end} bytes of {}",
                    self.size,
                    self.region.bytes.len()
                ),
            });
        }
        self.region.spend(0, self.size, budget)?;
        (0..self.size)
            .map(|i| self.get_within(i, element, budget))
            .collect()
    }
}
