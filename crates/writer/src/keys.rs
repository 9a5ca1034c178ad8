//! Key columns of a batch as binary rows \[F-4.5], column by column.
//!
//! Owns the encoding of partition and bucket-key values out of Arrow arrays of the canonical types
//! (`tidegate_datafile::arrow_schema`). One buffer per batch, no allocation per row. The rows are
//! byte for byte those of `tidegate_model::binary_row`.

use arrow::array::{Array, AsArray, BooleanArray, GenericByteArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{
    ArrowPrimitiveType, ByteArrayType, DataType, Date32Type, Decimal128Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
};
use arrow::datatypes::{BinaryType, Utf8Type};
use tidegate_model::bucket::{BucketFunction, bucket_of_hash, hash};
use tidegate_model::{DataField, LogicalType, TableSchema};

use crate::error::{Result, WriterError};

/// Which columns make a key, in key order.
#[derive(Clone, Debug)]
pub(crate) struct KeyColumns {
    columns: Vec<(usize, DataField)>,
    types: Vec<LogicalType>,
    /// Bytes before the first slot.
    header: usize,
}

/// The binary rows of one batch, in one buffer that is used again.
#[derive(Debug, Default)]
pub(crate) struct KeyRows {
    data: Vec<u8>,
    /// Where each row ends.
    ends: Vec<usize>,
    /// Where the next variable piece of each row goes, from the row's start; only while encoding.
    cursors: Vec<usize>,
}

impl KeyRows {
    #[cfg(test)]
    pub(crate) fn of<'a>(rows: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut made = Self::default();
        for row in rows {
            made.data.extend(row);
            made.ends.push(made.data.len());
        }
        made
    }

    /// The rows in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.data.as_slice();
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let (row, tail) = rest.split_at(end - start);
            rest = tail;
            start = *end;
            row
        })
    }
}

const SLOT: usize = 8;

/// Strings of up to this many bytes live in their slot.
const IN_SLOT: usize = 7;

impl KeyColumns {
    /// Finds columns by name.
    pub(crate) fn new(schema: &TableSchema, names: &[String], role: &str) -> Result<Self> {
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            let found = schema
                .fields
                .iter()
                .enumerate()
                .find(|(_, f)| f.name == *name);
            let Some((index, field)) = found else {
                return Err(WriterError::Config(format!(
                    "{role} column {name} is not among the table's columns"
                )));
            };
            columns.push((index, field.clone()));
        }
        let header = (columns.len() + 8).div_ceil(64) * 8;
        let types = columns
            .iter()
            .map(|(_, f)| f.data_type.logical.clone())
            .collect();
        Ok(Self {
            columns,
            types,
            header,
        })
    }

    /// Number of key columns.
    pub(crate) fn len(&self) -> usize {
        self.columns.len()
    }

    /// Types in key order.
    pub(crate) fn types(&self) -> &[LogicalType] {
        &self.types
    }

    /// The column of a key that has just one.
    pub(crate) fn single<'a>(&self, batch: &'a RecordBatch) -> Option<&'a dyn Array> {
        match self.columns.as_slice() {
            [(index, _)] => batch.columns().get(*index).map(AsRef::as_ref),
            _ => None,
        }
    }

    /// Fills the bucket of every row of a batch that has the table's canonical Arrow schema.
    pub(crate) fn buckets(
        &self,
        batch: &RecordBatch,
        function: BucketFunction,
        count: i32,
        keys: &mut KeyRows,
        out: &mut Vec<i32>,
    ) -> Result<()> {
        out.clear();
        let single = self.single(batch).filter(|c| c.null_count() == 0);
        if let (BucketFunction::Default, Some(column)) = (function, single) {
            // The row of a number is its empty header and one slot: no need to lay it out.
            let of_slot = |slot: u64| {
                let row = (u128::from(slot) << 64).to_le_bytes();
                bucket_of_hash(hash(&row), count)
            };
            match (self.types.as_slice(), column.data_type()) {
                ([LogicalType::BigInt], DataType::Int64) => {
                    let values = column.as_primitive::<Int64Type>().values();
                    out.extend(values.iter().map(|v| of_slot(v.cast_unsigned())));
                    return Ok(());
                }
                ([LogicalType::Int], DataType::Int32) => {
                    let values = column.as_primitive::<Int32Type>().values();
                    out.extend(values.iter().map(|v| of_slot(v.cast_unsigned().into())));
                    return Ok(());
                }
                _ => {}
            }
        }
        self.encode(batch, keys)?;
        for row in keys.iter() {
            out.push(match function {
                BucketFunction::Default => bucket_of_hash(hash(row), count),
                _ => function
                    .bucket(row, &self.types, count)
                    .map_err(|e| WriterError::Rows(e.to_string()))?,
            });
        }
        Ok(())
    }

    /// Encodes the key of every row of a batch that has the table's canonical Arrow schema.
    pub(crate) fn encode(&self, batch: &RecordBatch, out: &mut KeyRows) -> Result<()> {
        let fixed = self.header + SLOT * self.columns.len();
        let rows = batch.num_rows();
        out.cursors.clear();
        out.cursors.resize(rows, fixed);
        for (index, field) in &self.columns {
            let array = column(batch, *index, field)?;
            add_variable(array, field, &mut out.cursors)?;
        }
        out.ends.clear();
        let mut end = 0;
        out.ends.extend(out.cursors.iter().map(|length| {
            end += length;
            end
        }));
        out.data.clear();
        out.data.resize(end, 0);
        out.cursors.fill(fixed);
        for (position, (index, field)) in self.columns.iter().enumerate() {
            let array = column(batch, *index, field)?;
            Slots {
                header: self.header,
                position,
                out,
            }
            .write(array, field)?;
        }
        Ok(())
    }
}

fn column<'a>(batch: &'a RecordBatch, index: usize, field: &DataField) -> Result<&'a dyn Array> {
    batch
        .columns()
        .get(index)
        .map(AsRef::as_ref)
        .ok_or_else(|| {
            WriterError::Rows(format!(
                "key column {} is missing from the batch",
                field.name
            ))
        })
}

fn mismatch(array: &dyn Array, field: &DataField) -> WriterError {
    WriterError::Rows(format!(
        "key column {} of type {:?} came as Arrow type {}",
        field.name,
        field.data_type.logical,
        array.data_type()
    ))
}

fn padded(length: usize) -> usize {
    length.div_ceil(SLOT) * SLOT
}

/// Adds the bytes that each value takes beyond its slot.
fn add_variable(array: &dyn Array, field: &DataField, lengths: &mut [usize]) -> Result<()> {
    fn bytes<T: ByteArrayType<Offset = i32>>(array: &GenericByteArray<T>, lengths: &mut [usize]) {
        let offsets = array.value_offsets();
        let ends = offsets.iter().skip(1);
        for (row, ((start, end), length)) in offsets.iter().zip(ends).zip(lengths).enumerate() {
            let bytes = (end - start) as usize;
            if bytes > IN_SLOT && array.is_valid(row) {
                *length += padded(bytes);
            }
        }
    }
    match &field.data_type.logical {
        LogicalType::Char(_) | LogicalType::VarChar(_) => {
            bytes(
                array
                    .as_string_opt::<i32>()
                    .ok_or_else(|| mismatch(array, field))?,
                lengths,
            );
        }
        LogicalType::Binary(_) | LogicalType::VarBinary(_) => {
            bytes(
                array
                    .as_binary_opt::<i32>()
                    .ok_or_else(|| mismatch(array, field))?,
                lengths,
            );
        }
        // Nulls of these keep their piece, zeroed.
        LogicalType::Decimal { precision, .. } if *precision > 18 => {
            lengths.iter_mut().for_each(|l| *l += 16);
        }
        LogicalType::Timestamp(p) | LogicalType::TimestampLtz(p) if *p > 3 => {
            lengths.iter_mut().for_each(|l| *l += 8);
        }
        _ => {}
    }
    Ok(())
}

/// Writes one key column into all rows.
struct Slots<'a> {
    header: usize,
    position: usize,
    out: &'a mut KeyRows,
}

impl Slots<'_> {
    fn write(mut self, array: &dyn Array, field: &DataField) -> Result<()> {
        match &field.data_type.logical {
            LogicalType::Boolean => {
                let array = array
                    .as_boolean_opt()
                    .ok_or_else(|| mismatch(array, field))?;
                self.booleans(array);
            }
            LogicalType::TinyInt => self.small::<Int8Type, 1>(array, field, i8::to_le_bytes)?,
            LogicalType::SmallInt => self.small::<Int16Type, 2>(array, field, i16::to_le_bytes)?,
            LogicalType::Int => self.small::<Int32Type, 4>(array, field, i32::to_le_bytes)?,
            LogicalType::BigInt => self.small::<Int64Type, 8>(array, field, i64::to_le_bytes)?,
            LogicalType::Float => self.small::<Float32Type, 4>(array, field, f32::to_le_bytes)?,
            LogicalType::Double => self.small::<Float64Type, 8>(array, field, f64::to_le_bytes)?,
            LogicalType::Date => self.small::<Date32Type, 4>(array, field, i32::to_le_bytes)?,
            LogicalType::Time(_) => {
                self.small::<Time32MillisecondType, 4>(array, field, i32::to_le_bytes)?;
            }
            LogicalType::Decimal { precision, .. } if *precision <= 18 => {
                self.small::<Decimal128Type, 8>(array, field, |v| (v as i64).to_le_bytes())?;
            }
            LogicalType::Decimal { .. } => {
                let array = typed::<Decimal128Type>(array, field)?;
                self.pieces(16, array, |row, value| {
                    let (length, piece) = big_endian(array.value(row));
                    value.copy_from_slice(&piece);
                    length
                });
            }
            LogicalType::Char(_) | LogicalType::VarChar(_) => {
                let array = array
                    .as_string_opt()
                    .ok_or_else(|| mismatch(array, field))?;
                self.bytes::<Utf8Type>(array);
            }
            LogicalType::Binary(_) | LogicalType::VarBinary(_) => {
                let array = array
                    .as_binary_opt()
                    .ok_or_else(|| mismatch(array, field))?;
                self.bytes::<BinaryType>(array);
            }
            LogicalType::Timestamp(p) | LogicalType::TimestampLtz(p) => match *p {
                0..=3 => {
                    self.small::<TimestampMillisecondType, 8>(array, field, i64::to_le_bytes)?;
                }
                4..=6 => {
                    let array = typed::<TimestampMicrosecondType>(array, field)?;
                    self.timestamps(array, 1_000, 1_000);
                }
                _ => {
                    let array = typed::<TimestampNanosecondType>(array, field)?;
                    self.timestamps(array, 1_000_000, 1);
                }
            },
            _ => return Err(mismatch(array, field)),
        }
        Ok(())
    }

    /// Calls `fill` with the bytes of each row, its cursor and whether the value is there; sets the
    /// null bit otherwise.
    fn each(
        &mut self,
        array: &dyn Array,
        mut fill: impl FnMut(usize, &mut [u8], &mut usize, bool),
    ) {
        let nulls = array.logical_nulls();
        // Bit 8 + i of the row: the first byte is the RowKind.
        let (byte, bit) = ((8 + self.position) / 8, 1u8 << (self.position % 8));
        let mut rest = self.out.data.as_mut_slice();
        let mut start = 0;
        let cursors = self.out.cursors.iter_mut();
        for (row, (end, cursor)) in self.out.ends.iter().zip(cursors).enumerate() {
            let (bytes, tail) = rest.split_at_mut(end - start);
            (rest, start) = (tail, *end);
            let valid = nulls.as_ref().is_none_or(|n| n.is_valid(row));
            if !valid && let Some(flags) = bytes.get_mut(byte) {
                *flags |= bit;
            }
            fill(row, bytes, cursor, valid);
        }
    }

    fn slot(&self) -> usize {
        self.header + SLOT * self.position
    }

    fn small<T: ArrowPrimitiveType, const N: usize>(
        &mut self,
        array: &dyn Array,
        field: &DataField,
        bytes: impl Fn(T::Native) -> [u8; N],
    ) -> Result<()> {
        let array = typed::<T>(array, field)?;
        let slot = self.slot();
        let mut values = array.values().iter();
        self.each(array, |_, row, _, valid| {
            if let (Some(value), true) = (values.next(), valid) {
                put(row, slot, &bytes(*value));
            }
        });
        Ok(())
    }

    fn booleans(&mut self, array: &BooleanArray) {
        let slot = self.slot();
        self.each(array, |i, row, _, valid| {
            if valid {
                put(row, slot, &[u8::from(array.value(i))]);
            }
        });
    }

    fn bytes<T: ByteArrayType<Offset = i32>>(&mut self, array: &GenericByteArray<T>)
    where
        T::Native: AsRef<[u8]>,
    {
        let slot = self.slot();
        self.each(array, |i, row, cursor, valid| {
            if !valid {
                return;
            }
            let value: &[u8] = array.value(i).as_ref();
            if value.len() <= IN_SLOT {
                put(row, slot, value);
                put(row, slot + IN_SLOT, &[0x80 + value.len() as u8]);
            } else {
                put(row, slot, &offset_and(*cursor, value.len()));
                put(row, *cursor, value);
                *cursor += padded(value.len());
            }
        });
    }

    /// Values with a variable piece of fixed size, which nulls keep. `fill` writes the piece and
    /// returns what stands beside the offset.
    fn pieces(
        &mut self,
        size: usize,
        array: &dyn Array,
        mut fill: impl FnMut(usize, &mut [u8]) -> usize,
    ) {
        let slot = self.slot();
        self.each(array, |i, row, cursor, valid| {
            let at = *cursor;
            *cursor += size;
            let beside = match row.get_mut(at..at + size) {
                Some(piece) if valid => fill(i, piece),
                _ => 0,
            };
            put(row, slot, &offset_and(at, beside));
        });
    }

    /// Milliseconds in the piece, nanoseconds within the millisecond beside the offset.
    fn timestamps<T: ArrowPrimitiveType<Native = i64>>(
        &mut self,
        array: &PrimitiveArray<T>,
        per_milli: i64,
        nanos: i64,
    ) {
        self.pieces(8, array, |row, piece| {
            let value = array.value(row);
            piece.copy_from_slice(&value.div_euclid(per_milli).to_le_bytes());
            (value.rem_euclid(per_milli) * nanos) as usize
        });
    }
}

fn typed<'a, T: ArrowPrimitiveType>(
    array: &'a dyn Array,
    field: &DataField,
) -> Result<&'a PrimitiveArray<T>> {
    array
        .as_primitive_opt::<T>()
        .ok_or_else(|| mismatch(array, field))
}

fn put(row: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(target) = row.get_mut(at..at + bytes.len()) {
        target.copy_from_slice(bytes);
    }
}

fn offset_and(offset: usize, low: usize) -> [u8; 8] {
    (((offset as u64) << 32) | low as u64).to_le_bytes()
}

/// Minimal two's complement, big-endian, and zeros behind it up to 16 bytes.
fn big_endian(value: i128) -> (usize, [u8; 16]) {
    let redundant = if value < 0 {
        value.leading_ones()
    } else {
        value.leading_zeros()
    };
    let length = 16 - ((redundant as usize).saturating_sub(1)) / 8;
    let mut piece = [0; 16];
    for (target, byte) in piece
        .iter_mut()
        .zip(value.to_be_bytes().iter().skip(16 - length))
    {
        *target = *byte;
    }
    (length, piece)
}
