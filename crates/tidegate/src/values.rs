//! Single values between the model and Arrow.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array,
    Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch,
    StringArray, Time32MillisecondArray, TimestampNanosecondArray,
};
use arrow::datatypes::{DataType as Arrow, TimeUnit};
use arrow::error::ArrowError;
use tidegate_model::{DataField, Datum};

/// A value as the model has it; `None` for nulls and for types without an order.
pub(crate) fn datum(array: &dyn Array, row: usize) -> Option<Datum> {
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

/// One row of one column, of an Arrow type that holds the value exactly.
pub(crate) fn batch_of(value: &Datum, field: &DataField) -> Result<RecordBatch, ArrowError> {
    let array: ArrayRef = match value {
        Datum::Boolean(v) => Arc::new(BooleanArray::from(vec![*v])),
        Datum::TinyInt(v) => Arc::new(Int8Array::from(vec![*v])),
        Datum::SmallInt(v) => Arc::new(Int16Array::from(vec![*v])),
        Datum::Int(v) => Arc::new(Int32Array::from(vec![*v])),
        Datum::BigInt(v) => Arc::new(Int64Array::from(vec![*v])),
        Datum::Float(v) => Arc::new(Float32Array::from(vec![*v])),
        Datum::Double(v) => Arc::new(Float64Array::from(vec![*v])),
        Datum::Decimal {
            unscaled,
            precision,
            scale,
        } => Arc::new(
            Decimal128Array::from(vec![*unscaled])
                .with_precision_and_scale(*precision, i8::try_from(*scale).unwrap_or(i8::MAX))?,
        ),
        Datum::String(v) => Arc::new(StringArray::from(vec![v.as_str()])),
        Datum::Bytes(v) => Arc::new(BinaryArray::from(vec![v.as_slice()])),
        Datum::Date(v) => Arc::new(Date32Array::from(vec![*v])),
        Datum::TimeMillis(v) => Arc::new(Time32MillisecondArray::from(vec![*v])),
        Datum::Timestamp {
            millis,
            nanos_of_milli,
        } => {
            let nanos = millis
                .checked_mul(1_000_000)
                .and_then(|n| n.checked_add(i64::from(*nanos_of_milli)))
                .ok_or_else(|| ArrowError::CastError("a time beyond nanoseconds".to_owned()))?;
            Arc::new(TimestampNanosecondArray::from(vec![nanos]))
        }
        _ => return Err(ArrowError::NotYetImplemented("a nested value".to_owned())),
    };
    RecordBatch::try_from_iter([(field.name.as_str(), array)])
}
