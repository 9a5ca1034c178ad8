//! Single values out of Arrow arrays of the canonical types.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType as Arrow, TimeUnit};
use tidegate_model::Datum;

/// A value as the model has it; `None` for nulls and for types without an order.
pub fn value_at(array: &dyn Array, row: usize) -> Option<Datum> {
    use arrow::datatypes::{
        Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
        Int64Type, Time32MillisecondType, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType,
    };
    if array.is_null(row) {
        return None;
    }
    let timestamp = |nanos: i128| {
        let millis = i64::try_from(nanos.div_euclid(1_000_000)).ok()?;
        Some(Datum::Timestamp {
            millis,
            nanos_of_milli: nanos.rem_euclid(1_000_000) as i32,
        })
    };
    Some(match array.data_type() {
        Arrow::Boolean => Datum::Boolean(array.as_boolean().value(row)),
        Arrow::Int8 => Datum::TinyInt(array.as_primitive::<Int8Type>().value(row)),
        Arrow::Int16 => Datum::SmallInt(array.as_primitive::<Int16Type>().value(row)),
        Arrow::Int32 => Datum::Int(array.as_primitive::<Int32Type>().value(row)),
        Arrow::Int64 => Datum::BigInt(array.as_primitive::<Int64Type>().value(row)),
        Arrow::Float32 => Datum::Float(array.as_primitive::<Float32Type>().value(row)),
        Arrow::Float64 => Datum::Double(array.as_primitive::<Float64Type>().value(row)),
        Arrow::Decimal128(precision, scale) => Datum::Decimal {
            unscaled: array.as_primitive::<Decimal128Type>().value(row),
            precision: *precision,
            scale: u8::try_from(*scale).ok()?,
        },
        Arrow::Utf8 => Datum::String(array.as_string::<i32>().value(row).to_owned()),
        Arrow::Binary => Datum::Bytes(array.as_binary::<i32>().value(row).to_vec()),
        Arrow::Date32 => Datum::Date(array.as_primitive::<Date32Type>().value(row)),
        Arrow::Time32(TimeUnit::Millisecond) => {
            Datum::TimeMillis(array.as_primitive::<Time32MillisecondType>().value(row))
        }
        Arrow::Timestamp(TimeUnit::Millisecond, _) => timestamp(
            i128::from(array.as_primitive::<TimestampMillisecondType>().value(row)) * 1_000_000,
        )?,
        Arrow::Timestamp(TimeUnit::Microsecond, _) => timestamp(
            i128::from(array.as_primitive::<TimestampMicrosecondType>().value(row)) * 1_000,
        )?,
        Arrow::Timestamp(TimeUnit::Nanosecond, _) => timestamp(i128::from(
            array.as_primitive::<TimestampNanosecondType>().value(row),
        ))?,
        _ => return None,
    })
}
