//! Nanosecond timestamps as Parquet's `INT96`: nanoseconds of the day (8 bytes), Julian day (4 bytes),
//! both little-endian \[F-6.4].

use crate::error::{Error, Result};
use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryArray, ListArray, MapArray, StructArray,
};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType as Arrow, TimestampNanosecondType};
use std::sync::Arc;

/// Julian day of 1970-01-01.
const EPOCH_JULIAN_DAY: i64 = 2_440_588;
const NANOS_PER_DAY: i64 = 86_400_000_000_000;

/// Replaces nanosecond timestamps inside `array` by twelve bytes each, wherever `target` says
/// `FixedSizeBinary(12)`.
pub(crate) fn encode(array: &ArrayRef, target: &Arrow) -> Result<ArrayRef> {
    if array.data_type() == target {
        return Ok(array.clone());
    }
    match (array.data_type(), target) {
        (Arrow::Timestamp(_, _), Arrow::FixedSizeBinary(12)) => {
            let array = array.as_primitive::<TimestampNanosecondType>();
            let mut bytes = Vec::with_capacity(array.len() * 12);
            for nanos in array.values() {
                // Floor: the part within the day is never negative.
                let day = nanos.div_euclid(NANOS_PER_DAY) + EPOCH_JULIAN_DAY;
                bytes.extend_from_slice(&nanos.rem_euclid(NANOS_PER_DAY).to_le_bytes());
                bytes.extend_from_slice(&(day as i32).to_le_bytes());
            }
            let nulls = array.nulls().cloned();
            Ok(Arc::new(FixedSizeBinaryArray::try_new(
                12,
                Buffer::from_vec(bytes),
                nulls,
            )?))
        }
        (Arrow::List(_), Arrow::List(field)) => {
            let list = array.as_list::<i32>();
            let values = encode(list.values(), field.data_type())?;
            let nulls = list.nulls().cloned();
            Ok(Arc::new(ListArray::try_new(
                field.clone(),
                list.offsets().clone(),
                values,
                nulls,
            )?))
        }
        (Arrow::Map(_, _), Arrow::Map(field, sorted)) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            let entries = encode(&entries, field.data_type())?.as_struct().clone();
            let nulls = map.nulls().cloned();
            let made = MapArray::try_new(
                field.clone(),
                map.offsets().clone(),
                entries,
                nulls,
                *sorted,
            )?;
            Ok(Arc::new(made))
        }
        (Arrow::Struct(_), Arrow::Struct(fields)) => {
            let row = array.as_struct();
            let columns = row
                .columns()
                .iter()
                .zip(fields)
                .map(|(column, field)| encode(column, field.data_type()))
                .collect::<Result<Vec<_>>>()?;
            let nulls = row.nulls().cloned();
            let made = if columns.is_empty() {
                StructArray::try_new_with_length(fields.clone(), columns, nulls, row.len())?
            } else {
                StructArray::try_new(fields.clone(), columns, nulls)?
            };
            Ok(Arc::new(made))
        }
        _ => Err(Error::Misuse(
            "INT96 encoding met a type that normalise does not make",
        )),
    }
}

/// Nanoseconds since 1970 of the twelve bytes; nanoseconds of the day may be negative \[F-12.40].
pub(crate) fn decode(bytes: &[u8]) -> Option<i128> {
    let (nanos, day) = bytes.split_at_checked(8)?;
    let nanos = i64::from_le_bytes(nanos.try_into().ok()?);
    let day = i32::from_le_bytes(day.try_into().ok()?);
    Some(
        (i128::from(day) - i128::from(EPOCH_JULIAN_DAY)) * i128::from(NANOS_PER_DAY)
            + i128::from(nanos),
    )
}
