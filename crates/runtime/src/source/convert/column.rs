//! One column while it is filled, whatever its type.
//!
//! Owns the Arrow side: builders, validity, nesting. How text and JSON become values stands in
//! `text` and `json`.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder,
    Float64Builder, Int8Builder, Int16Builder, Int32Builder, Int64Builder, ListArray, MapArray,
    PrimitiveBuilder, StringBuilder, StructArray, Time32MillisecondBuilder,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    DataType, Field, FieldRef, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType,
};
use arrow::error::ArrowError;

use super::{MAX_BYTES, MAX_CHARS, PRECISION};

/// A value that does not fit its column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The path below the column where it happened, such as `[2].city`; empty at the top.
    pub path: String,
    /// The offending text, shortened.
    pub value: String,
    /// Why it does not fit.
    pub why: String,
}

impl Mismatch {
    pub(super) fn new(value: &str, why: impl Into<String>) -> Self {
        const SHOWN: usize = 120;
        let value = match value.char_indices().nth(SHOWN) {
            Some((cut, _)) => format!("{}…", value.get(..cut).unwrap_or_default()),
            None => value.to_owned(),
        };
        Self {
            path: String::new(),
            value,
            why: why.into(),
        }
    }

    pub(super) fn below(mut self, step: &str) -> Self {
        self.path.insert_str(0, step);
        self
    }
}

/// A column that is being filled.
#[derive(Debug)]
pub struct Column {
    pub(super) field: FieldRef,
    pub(super) values: Values,
}

#[derive(Debug)]
pub(super) enum Values {
    Boolean(BooleanBuilder),
    Int8(Int8Builder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Decimal {
        values: Decimal128Builder,
        precision: u8,
        scale: i8,
    },
    Text {
        values: StringBuilder,
        max_chars: usize,
    },
    Bytes {
        values: BinaryBuilder,
        max_bytes: usize,
    },
    Date(Date32Builder),
    Time {
        values: Time32MillisecondBuilder,
        digits: u8,
    },
    Timestamp {
        values: TimestampValues,
        digits: u8,
        instant: bool,
    },
    List {
        offsets: Vec<i32>,
        valid: Vec<bool>,
        element: Box<Column>,
    },
    Map {
        offsets: Vec<i32>,
        valid: Vec<bool>,
        key: Box<Column>,
        value: Box<Column>,
        entries: FieldRef,
    },
    Struct {
        valid: Vec<bool>,
        columns: Vec<Column>,
    },
}

#[derive(Debug)]
pub(super) enum TimestampValues {
    Millis(PrimitiveBuilder<TimestampMillisecondType>),
    Micros(PrimitiveBuilder<TimestampMicrosecondType>),
    Nanos(PrimitiveBuilder<TimestampNanosecondType>),
}

fn limit(field: &Field, key: &str) -> usize {
    field
        .metadata()
        .get(key)
        .and_then(|v| v.parse().ok())
        .unwrap_or(usize::MAX)
}

impl Column {
    /// An empty column for `field`.
    ///
    /// # Errors
    /// A type that no text can become, named.
    pub fn new(field: FieldRef) -> Result<Self, ArrowError> {
        let precision = |default: u8| {
            field
                .metadata()
                .get(PRECISION)
                .and_then(|v| v.parse().ok())
                .unwrap_or(default)
        };
        let values = match field.data_type() {
            DataType::Boolean => Values::Boolean(BooleanBuilder::new()),
            DataType::Int8 => Values::Int8(Int8Builder::new()),
            DataType::Int16 => Values::Int16(Int16Builder::new()),
            DataType::Int32 => Values::Int32(Int32Builder::new()),
            DataType::Int64 => Values::Int64(Int64Builder::new()),
            DataType::Float32 => Values::Float32(Float32Builder::new()),
            DataType::Float64 => Values::Float64(Float64Builder::new()),
            DataType::Decimal128(precision, scale) => Values::Decimal {
                values: Decimal128Builder::new().with_precision_and_scale(*precision, *scale)?,
                precision: *precision,
                scale: *scale,
            },
            DataType::Utf8 => Values::Text {
                values: StringBuilder::new(),
                max_chars: limit(&field, MAX_CHARS),
            },
            DataType::Binary => Values::Bytes {
                values: BinaryBuilder::new(),
                max_bytes: limit(&field, MAX_BYTES),
            },
            DataType::Date32 => Values::Date(Date32Builder::new()),
            DataType::Time32(TimeUnit::Millisecond) => Values::Time {
                values: Time32MillisecondBuilder::new(),
                digits: precision(3).min(3),
            },
            DataType::Timestamp(unit, zone) => {
                let (values, most) = match unit {
                    TimeUnit::Second | TimeUnit::Millisecond => (
                        TimestampValues::Millis(PrimitiveBuilder::new().with_data_type(
                            DataType::Timestamp(TimeUnit::Millisecond, zone.clone()),
                        )),
                        3,
                    ),
                    TimeUnit::Microsecond => (
                        TimestampValues::Micros(
                            PrimitiveBuilder::new().with_data_type(field.data_type().clone()),
                        ),
                        6,
                    ),
                    TimeUnit::Nanosecond => (
                        TimestampValues::Nanos(
                            PrimitiveBuilder::new().with_data_type(field.data_type().clone()),
                        ),
                        9,
                    ),
                };
                Values::Timestamp {
                    values,
                    digits: precision(most).min(most),
                    instant: zone.is_some(),
                }
            }
            DataType::List(element) => Values::List {
                offsets: vec![0],
                valid: Vec::new(),
                element: Box::new(Self::new(element.clone())?),
            },
            DataType::Map(entries, _) => {
                let DataType::Struct(fields) = entries.data_type() else {
                    return Err(ArrowError::SchemaError(format!(
                        "map `{}` without entries",
                        field.name()
                    )));
                };
                let [key, value] = fields.as_ref() else {
                    return Err(ArrowError::SchemaError(format!(
                        "map `{}` without key and value",
                        field.name()
                    )));
                };
                Values::Map {
                    offsets: vec![0],
                    valid: Vec::new(),
                    key: Box::new(Self::new(key.clone())?),
                    value: Box::new(Self::new(value.clone())?),
                    entries: entries.clone(),
                }
            }
            DataType::Struct(fields) => Values::Struct {
                valid: Vec::new(),
                columns: fields
                    .iter()
                    .map(|f| Self::new(f.clone()))
                    .collect::<Result<_, _>>()?,
            },
            other => {
                return Err(ArrowError::NotYetImplemented(format!(
                    "column `{}`: text cannot become {other}",
                    field.name()
                )));
            }
        };
        Ok(Self { field, values })
    }

    /// The field it is filled for.
    pub fn field(&self) -> &FieldRef {
        &self.field
    }

    /// Adds a null.
    ///
    /// # Errors
    /// In a column that must not hold one.
    pub fn append_null(&mut self) -> Result<(), Mismatch> {
        if !self.field.is_nullable() {
            return Err(Mismatch::new("null", "the column is NOT NULL"));
        }
        self.fill_null();
        Ok(())
    }

    /// A null where the parent is null, whatever the column says.
    pub(super) fn fill_null(&mut self) {
        match &mut self.values {
            Values::Boolean(b) => b.append_null(),
            Values::Int8(b) => b.append_null(),
            Values::Int16(b) => b.append_null(),
            Values::Int32(b) => b.append_null(),
            Values::Int64(b) => b.append_null(),
            Values::Float32(b) => b.append_null(),
            Values::Float64(b) => b.append_null(),
            Values::Decimal { values, .. } => values.append_null(),
            Values::Text { values, .. } => values.append_null(),
            Values::Bytes { values, .. } => values.append_null(),
            Values::Date(b) => b.append_null(),
            Values::Time { values, .. } => values.append_null(),
            Values::Timestamp { values, .. } => match values {
                TimestampValues::Millis(b) => b.append_null(),
                TimestampValues::Micros(b) => b.append_null(),
                TimestampValues::Nanos(b) => b.append_null(),
            },
            Values::List { offsets, valid, .. } | Values::Map { offsets, valid, .. } => {
                offsets.push(offsets.last().copied().unwrap_or(0));
                valid.push(false);
            }
            Values::Struct { valid, columns } => {
                valid.push(false);
                columns.iter_mut().for_each(Self::fill_null);
            }
        }
    }

    /// Takes what was added so far as one array and starts anew.
    ///
    /// # Errors
    /// Where Arrow refuses it, such as more than 2 GiB of text in one batch.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(match &mut self.values {
            Values::Boolean(b) => Arc::new(b.finish()),
            Values::Int8(b) => Arc::new(b.finish()),
            Values::Int16(b) => Arc::new(b.finish()),
            Values::Int32(b) => Arc::new(b.finish()),
            Values::Int64(b) => Arc::new(b.finish()),
            Values::Float32(b) => Arc::new(b.finish()),
            Values::Float64(b) => Arc::new(b.finish()),
            Values::Decimal { values, .. } => Arc::new(values.finish()),
            Values::Text { values, .. } => Arc::new(values.finish()),
            Values::Bytes { values, .. } => Arc::new(values.finish()),
            Values::Date(b) => Arc::new(b.finish()),
            Values::Time { values, .. } => Arc::new(values.finish()),
            Values::Timestamp { values, .. } => match values {
                TimestampValues::Millis(b) => Arc::new(b.finish()),
                TimestampValues::Micros(b) => Arc::new(b.finish()),
                TimestampValues::Nanos(b) => Arc::new(b.finish()),
            },
            Values::List {
                offsets,
                valid,
                element,
            } => {
                let offsets = std::mem::replace(offsets, vec![0]);
                let nulls = NullBuffer::from(std::mem::take(valid));
                let field = element.field.clone();
                let values = element.finish()?;
                Arc::new(ListArray::try_new(
                    field,
                    OffsetBuffer::new(offsets.into()),
                    values,
                    Some(nulls),
                )?)
            }
            Values::Map {
                offsets,
                valid,
                key,
                value,
                entries,
            } => {
                let offsets = std::mem::replace(offsets, vec![0]);
                let nulls = NullBuffer::from(std::mem::take(valid));
                let DataType::Struct(fields) = entries.data_type().clone() else {
                    return Err(ArrowError::SchemaError("map without entries".into()));
                };
                let pairs =
                    StructArray::try_new(fields, vec![key.finish()?, value.finish()?], None)?;
                Arc::new(MapArray::try_new(
                    entries.clone(),
                    OffsetBuffer::new(offsets.into()),
                    pairs,
                    Some(nulls),
                    false,
                )?)
            }
            Values::Struct { valid, columns } => {
                let nulls = NullBuffer::from(std::mem::take(valid));
                let length = nulls.len();
                let arrays = columns
                    .iter_mut()
                    .map(Self::finish)
                    .collect::<Result<Vec<_>, _>>()?;
                let DataType::Struct(fields) = self.field.data_type().clone() else {
                    return Err(ArrowError::SchemaError("row without fields".into()));
                };
                Arc::new(StructArray::try_new_with_length(
                    fields,
                    arrays,
                    Some(nulls),
                    length,
                )?)
            }
        })
    }
}
