//! Reading rows: no access without a check, no copy before a check.

use super::{BinaryArrayReader, header_size};
use crate::data_type::LogicalType;
use crate::datum::Datum;
use crate::error::{Error, Result};

/// The bytes of one row, array or map; offsets count from its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region<'a> {
    pub(super) structure: &'static str,
    pub(super) bytes: &'a [u8],
}

impl<'a> Region<'a> {
    pub(super) fn error(&self, at: usize, what: impl Into<String>) -> Error {
        Error::Binary {
            structure: self.structure,
            at,
            what: what.into(),
        }
    }

    fn chunk<const N: usize>(&self, at: usize) -> Result<[u8; N]> {
        self.bytes
            .get(at..)
            .and_then(|rest| rest.first_chunk::<N>())
            .copied()
            .ok_or_else(|| {
                self.error(
                    at,
                    format!(
                        "{N} bytes wanted, the {} ends at {}",
                        self.structure,
                        self.bytes.len()
                    ),
                )
            })
    }

    pub(super) fn u8(&self, at: usize) -> Result<u8> {
        self.chunk::<1>(at).map(|[b]| b)
    }

    pub(super) fn i32(&self, at: usize) -> Result<i32> {
        self.chunk(at).map(i32::from_le_bytes)
    }

    pub(super) fn i64(&self, at: usize) -> Result<i64> {
        self.chunk(at).map(i64::from_le_bytes)
    }

    fn u64(&self, at: usize) -> Result<u64> {
        self.chunk(at).map(u64::from_le_bytes)
    }

    fn range(&self, at: usize, offset: usize, len: usize) -> Result<&'a [u8]> {
        let end = offset.checked_add(len);
        end.and_then(|end| self.bytes.get(offset..end))
            .ok_or_else(|| {
                self.error(
                    at,
                    format!(
                        "points at {len} bytes from {offset}, the {} has {}",
                        self.structure,
                        self.bytes.len()
                    ),
                )
            })
    }

    /// The piece that the slot at `at` points to.
    pub(super) fn piece(&self, at: usize) -> Result<&'a [u8]> {
        let slot = self.u64(at)?;
        self.range(at, (slot >> 32) as usize, (slot & 0xffff_ffff) as usize)
    }

    /// Bytes that may lie in the slot.
    fn var_bytes(&self, at: usize) -> Result<&'a [u8]> {
        let mark = self.u8(at + 7)?;
        if mark & 0x80 == 0 {
            return self.piece(at);
        }
        let len = usize::from(mark & 0x7f);
        if len > 7 {
            return Err(self.error(at + 7, format!("{len} bytes cannot lie in a slot")));
        }
        self.range(at, at, len)
    }

    pub(super) fn str(&self, at: usize) -> Result<&'a str> {
        let bytes = self.var_bytes(at)?;
        std::str::from_utf8(bytes).map_err(|e| {
            self.error(
                at,
                format!("text is not UTF-8 after {} bytes", e.valid_up_to()),
            )
        })
    }

    fn decimal(&self, at: usize, precision: u8) -> Result<i128> {
        if precision <= 18 {
            return self.i64(at).map(i128::from);
        }
        let digits = self.piece(at)?;
        if digits.len() > 16 || digits.is_empty() {
            return Err(self.error(at, format!("a decimal of {} bytes", digits.len())));
        }
        let negative = digits.first().is_some_and(|b| b & 0x80 != 0);
        Ok(digits.iter().fold(if negative { -1 } else { 0 }, |acc, b| {
            (acc << 8) | i128::from(*b)
        }))
    }

    fn timestamp(&self, at: usize, precision: u8) -> Result<(i64, i32)> {
        if precision <= 3 {
            return Ok((self.i64(at)?, 0));
        }
        let slot = self.u64(at)?;
        let nanos = (slot & 0xffff_ffff) as u32;
        if nanos > 999_999 {
            return Err(self.error(at, format!("{nanos} nanoseconds within a millisecond")));
        }
        let millis = self.range(at, (slot >> 32) as usize, 8)?;
        let millis = millis.first_chunk().copied().map_or(0, i64::from_le_bytes);
        Ok((millis, nanos as i32))
    }

    /// Counts what decoding makes against what the input can pay for: pieces that overlap must not
    /// multiply memory.
    pub(super) fn spend(&self, at: usize, cost: usize, budget: &mut usize) -> Result<()> {
        match budget.checked_sub(cost) {
            Some(rest) => {
                *budget = rest;
                Ok(())
            }
            None => Err(self.error(at, "holds more than its bytes can: pieces overlap")),
        }
    }
}

/// One value that is not null.
pub(super) fn decode(
    region: Region<'_>,
    at: usize,
    data_type: &LogicalType,
    budget: &mut usize,
) -> Result<Datum> {
    Ok(match data_type {
        LogicalType::Boolean => Datum::Boolean(region.u8(at)? != 0),
        LogicalType::TinyInt => Datum::TinyInt(region.u8(at)? as i8),
        LogicalType::SmallInt => Datum::SmallInt(i16::from_le_bytes(region.chunk(at)?)),
        LogicalType::Int => Datum::Int(region.i32(at)?),
        LogicalType::BigInt => Datum::BigInt(region.i64(at)?),
        LogicalType::Float => Datum::Float(f32::from_le_bytes(region.chunk(at)?)),
        LogicalType::Double => Datum::Double(f64::from_le_bytes(region.chunk(at)?)),
        LogicalType::Decimal { precision, scale } => Datum::Decimal {
            unscaled: region.decimal(at, *precision)?,
            precision: *precision,
            scale: *scale,
        },
        LogicalType::Char(_) | LogicalType::VarChar(_) => {
            let text = region.str(at)?;
            region.spend(at, text.len(), budget)?;
            Datum::String(text.to_owned())
        }
        LogicalType::Binary(_) | LogicalType::VarBinary(_) => {
            let bytes = region.var_bytes(at)?;
            region.spend(at, bytes.len(), budget)?;
            Datum::Bytes(bytes.to_vec())
        }
        LogicalType::Date => Datum::Date(region.i32(at)?),
        LogicalType::Time(_) => Datum::TimeMillis(region.i32(at)?),
        LogicalType::Timestamp(p) | LogicalType::TimestampLtz(p) => {
            let (millis, nanos_of_milli) = region.timestamp(at, *p)?;
            Datum::Timestamp {
                millis,
                nanos_of_milli,
            }
        }
        LogicalType::Array(element) => {
            let array = BinaryArrayReader::new(region.piece(at)?)?;
            Datum::Array(array.datums(&element.logical, budget)?)
        }
        LogicalType::Map(key, value) => {
            let map = BinaryMapReader::new(region.piece(at)?)?;
            Datum::Map(map.datums(&key.logical, &value.logical, budget)?)
        }
        LogicalType::Multiset(element) => {
            let map = BinaryMapReader::new(region.piece(at)?)?;
            Datum::Map(map.datums(&element.logical, &LogicalType::Int, budget)?)
        }
        LogicalType::Row(fields) => {
            region.spend(at, fields.len(), budget)?;
            let row = BinaryRowReader::new(fields.len() as u32, region.piece(at)?)?;
            let types = fields.iter().map(|f| &f.data_type.logical);
            Datum::Row(
                types
                    .enumerate()
                    .map(|(i, t)| row.get_within(i, t, budget))
                    .collect::<Result<_>>()?,
            )
        }
        LogicalType::Variant
        | LogicalType::Blob
        | LogicalType::Geometry(_)
        | LogicalType::Geography(_)
        | LogicalType::Vector { .. } => {
            return Err(region.error(at, format!("values of type {data_type} are not supported")));
        }
    })
}

/// Reads one row; every access is checked.
#[derive(Clone, Copy, Debug)]
pub struct BinaryRowReader<'a> {
    region: Region<'a>,
    arity: u32,
}

impl<'a> BinaryRowReader<'a> {
    /// Takes row bytes without arity prefix.
    ///
    /// # Errors
    /// Where the bytes are too few for the header and one slot per field.
    pub fn new(arity: u32, bytes: &'a [u8]) -> Result<Self> {
        let row = Self::trusted(arity, bytes);
        let fields = arity as usize;
        let fixed = header_size(fields).saturating_add(fields.saturating_mul(8));
        if bytes.len() < fixed {
            return Err(row.region.error(
                bytes.len(),
                format!(
                    "{arity} fields take at least {fixed} bytes, there are {}",
                    bytes.len()
                ),
            ));
        }
        Ok(row)
    }

    pub(super) fn trusted(arity: u32, bytes: &'a [u8]) -> Self {
        Self {
            region: Region {
                structure: "row",
                bytes,
            },
            arity,
        }
    }

    /// Number of fields.
    pub fn arity(&self) -> u32 {
        self.arity
    }

    /// RowKind of the row: 0 +I, 1 -U, 2 +U, 3 -D.
    pub fn row_kind(&self) -> u8 {
        self.region.bytes.first().copied().unwrap_or(0)
    }

    /// Where field `i` lies; `None` where it is null.
    fn slot(&self, i: usize) -> Result<Option<usize>> {
        if i >= self.arity as usize {
            return Err(self.region.error(0, format!("field {i} of {}", self.arity)));
        }
        let bit = i + 8;
        if self.region.u8(bit / 8)? & (1 << (bit % 8)) != 0 {
            return Ok(None);
        }
        Ok(Some(header_size(self.arity as usize) + 8 * i))
    }

    /// True where field `i` is null.
    pub fn is_null(&self, i: usize) -> Result<bool> {
        Ok(self.slot(i)?.is_none())
    }

    /// BOOLEAN.
    pub fn bool(&self, i: usize) -> Result<Option<bool>> {
        self.slot(i)?
            .map(|at| self.region.u8(at).map(|b| b != 0))
            .transpose()
    }

    /// TINYINT.
    pub fn i8(&self, i: usize) -> Result<Option<i8>> {
        self.slot(i)?
            .map(|at| self.region.u8(at).map(|b| b as i8))
            .transpose()
    }

    /// SMALLINT.
    pub fn i16(&self, i: usize) -> Result<Option<i16>> {
        self.slot(i)?
            .map(|at| self.region.chunk(at).map(i16::from_le_bytes))
            .transpose()
    }

    /// INT, DATE (days) and TIME (milliseconds of the day).
    pub fn i32(&self, i: usize) -> Result<Option<i32>> {
        self.slot(i)?.map(|at| self.region.i32(at)).transpose()
    }

    /// BIGINT.
    pub fn i64(&self, i: usize) -> Result<Option<i64>> {
        self.slot(i)?.map(|at| self.region.i64(at)).transpose()
    }

    /// FLOAT.
    pub fn f32(&self, i: usize) -> Result<Option<f32>> {
        self.slot(i)?
            .map(|at| self.region.chunk(at).map(f32::from_le_bytes))
            .transpose()
    }

    /// DOUBLE.
    pub fn f64(&self, i: usize) -> Result<Option<f64>> {
        self.slot(i)?
            .map(|at| self.region.chunk(at).map(f64::from_le_bytes))
            .transpose()
    }

    /// CHAR, VARCHAR, STRING.
    pub fn str(&self, i: usize) -> Result<Option<&'a str>> {
        self.slot(i)?.map(|at| self.region.str(at)).transpose()
    }

    /// BINARY, VARBINARY, BYTES.
    pub fn bytes(&self, i: usize) -> Result<Option<&'a [u8]>> {
        self.slot(i)?
            .map(|at| self.region.var_bytes(at))
            .transpose()
    }

    /// Unscaled value of a DECIMAL of this precision.
    pub fn decimal(&self, i: usize, precision: u8) -> Result<Option<i128>> {
        self.slot(i)?
            .map(|at| self.region.decimal(at, precision))
            .transpose()
    }

    /// Milliseconds and nanoseconds within the millisecond of a TIMESTAMP or TIMESTAMP_LTZ.
    pub fn timestamp(&self, i: usize, precision: u8) -> Result<Option<(i64, i32)>> {
        self.slot(i)?
            .map(|at| self.region.timestamp(at, precision))
            .transpose()
    }

    /// ARRAY.
    pub fn array(&self, i: usize) -> Result<Option<BinaryArrayReader<'a>>> {
        self.slot(i)?
            .map(|at| BinaryArrayReader::new(self.region.piece(at)?))
            .transpose()
    }

    /// MAP or MULTISET.
    pub fn map(&self, i: usize) -> Result<Option<BinaryMapReader<'a>>> {
        self.slot(i)?
            .map(|at| BinaryMapReader::new(self.region.piece(at)?))
            .transpose()
    }

    /// ROW of `arity` fields.
    pub fn row(&self, i: usize, arity: u32) -> Result<Option<BinaryRowReader<'a>>> {
        self.slot(i)?
            .map(|at| BinaryRowReader::new(arity, self.region.piece(at)?))
            .transpose()
    }

    /// Field `i` as a value of its own. What it allocates is bounded by the bytes of the row.
    pub fn get(&self, i: usize, data_type: &LogicalType) -> Result<Option<Datum>> {
        let mut budget = self.region.bytes.len();
        self.get_within(i, data_type, &mut budget)
    }

    fn get_within(
        &self,
        i: usize,
        data_type: &LogicalType,
        budget: &mut usize,
    ) -> Result<Option<Datum>> {
        self.slot(i)?
            .map(|at| decode(self.region, at, data_type, budget))
            .transpose()
    }

    /// All fields.
    ///
    /// # Errors
    /// Where the number of types is not the arity, or a field does not decode.
    pub fn datums<'t>(
        &self,
        types: impl IntoIterator<Item = &'t LogicalType>,
    ) -> Result<Vec<Option<Datum>>> {
        let mut budget = self.region.bytes.len();
        let mut out = Vec::new();
        for data_type in types {
            out.push(self.get_within(out.len(), data_type, &mut budget)?);
        }
        if out.len() != self.arity as usize {
            let what = format!("{} fields read with {} types", self.arity, out.len());
            return Err(self.region.error(0, what));
        }
        Ok(out)
    }
}

/// Reads one map: an array of keys and one of values.
#[derive(Clone, Copy, Debug)]
pub struct BinaryMapReader<'a> {
    keys: BinaryArrayReader<'a>,
    values: BinaryArrayReader<'a>,
}

impl<'a> BinaryMapReader<'a> {
    /// Takes the bytes of a map.
    ///
    /// # Errors
    /// Where the two arrays do not fit in or differ in size.
    pub fn new(bytes: &'a [u8]) -> Result<Self> {
        let region = Region {
            structure: "map",
            bytes,
        };
        let size = region.i32(0)?;
        let size = usize::try_from(size)
            .map_err(|_| region.error(0, format!("key array of {size} bytes")))?;
        let keys = BinaryArrayReader::new(region.range(0, 4, size)?)?;
        let values = BinaryArrayReader::new(bytes.get(4 + size..).unwrap_or_default())?;
        if keys.len() != values.len() {
            return Err(region.error(0, format!("{} keys, {} values", keys.len(), values.len())));
        }
        Ok(Self { keys, values })
    }

    /// The keys.
    pub fn keys(&self) -> BinaryArrayReader<'a> {
        self.keys
    }

    /// The values, in the order of the keys.
    pub fn values(&self) -> BinaryArrayReader<'a> {
        self.values
    }

    fn datums(
        &self,
        key: &LogicalType,
        value: &LogicalType,
        budget: &mut usize,
    ) -> Result<Vec<(Option<Datum>, Option<Datum>)>> {
        let keys = self.keys.datums(key, budget)?;
        let values = self.values.datums(value, budget)?;
        Ok(keys.into_iter().zip(values).collect())
    }
}
