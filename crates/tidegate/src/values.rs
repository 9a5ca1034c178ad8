//! Single values between the model and Arrow.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray,
    Time32MillisecondArray, TimestampNanosecondArray,
};
use arrow::error::ArrowError;
pub(crate) use tidegate_datafile::value_at as datum;
use tidegate_model::{DataField, Datum};

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
