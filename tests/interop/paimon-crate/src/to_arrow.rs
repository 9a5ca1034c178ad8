//! Canonical JSON (see `../java/README.md`) to Arrow.

use crate::Failure;
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, ListArray, MapArray, StringArray,
    StructArray, Time32MillisecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Fields, TimeUnit};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use serde_json::Value;
use std::sync::Arc;

type Result<T> = std::result::Result<T, Failure>;

/// Values of one column.
pub(crate) fn array(kind: &DataType, values: &[&Value]) -> Result<ArrayRef> {
    Ok(match kind {
        DataType::Boolean => Arc::new(BooleanArray::from(each(values, |v| v.as_bool())?)),
        DataType::Int8 => Arc::new(Int8Array::from(each(values, |v| {
            i8::try_from(v.as_i64()?).ok()
        })?)),
        DataType::Int16 => Arc::new(Int16Array::from(each(values, |v| {
            i16::try_from(v.as_i64()?).ok()
        })?)),
        DataType::Int32 => Arc::new(Int32Array::from(each(values, |v| {
            i32::try_from(v.as_i64()?).ok()
        })?)),
        DataType::Int64 => Arc::new(Int64Array::from(each(values, Value::as_i64)?)),
        DataType::Float32 => Arc::new(Float32Array::from(each(values, |v| {
            text_of(v).parse().ok()
        })?)),
        DataType::Float64 => Arc::new(Float64Array::from(each(values, |v| {
            text_of(v).parse().ok()
        })?)),
        DataType::Decimal128(precision, scale) => {
            let numbers = each(values, |v| unscaled(v.as_str()?, *scale))?;
            Arc::new(Decimal128Array::from(numbers).with_precision_and_scale(*precision, *scale)?)
        }
        DataType::Utf8 => Arc::new(StringArray::from(each(values, |v| {
            v.as_str().map(str::to_owned)
        })?)),
        DataType::Binary => {
            let bytes = each(values, |v| STANDARD.decode(v.as_str()?).ok())?;
            Arc::new(BinaryArray::from_iter(bytes))
        }
        DataType::Date32 => Arc::new(Date32Array::from(each(values, |v| days(v.as_str()?))?)),
        DataType::Time32(TimeUnit::Millisecond) => {
            Arc::new(Time32MillisecondArray::from(each(values, |v| {
                millis(v.as_str()?)
            })?))
        }
        DataType::Timestamp(unit, zone) => timestamps(unit, zone.clone(), values)?,
        DataType::List(item) => {
            let (offsets, nulls, items) = flat(values)?;
            let items = array(item.data_type(), &items)?;
            Arc::new(ListArray::try_new(item.clone(), offsets, items, nulls)?)
        }
        DataType::Map(entries, sorted) => {
            let (offsets, nulls, pairs) = flat(values)?;
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(Failure::new("a map without entries"));
            };
            let sides = fields.iter().enumerate().map(|(side, field)| {
                let values: Vec<&Value> = pairs.iter().map(|pair| &pair[side]).collect();
                array(field.data_type(), &values)
            });
            let sides = StructArray::try_new(fields.clone(), sides.collect::<Result<_>>()?, None)?;
            Arc::new(MapArray::try_new(
                entries.clone(),
                offsets,
                sides,
                nulls,
                *sorted,
            )?)
        }
        DataType::Struct(fields) => structs(fields, values)?,
        other => return Err(Failure::new(format!("no values for Arrow's {other}"))),
    })
}

/// One value each; null stays null, what does not fit is an error.
fn each<T>(values: &[&Value], parse: impl Fn(&Value) -> Option<T>) -> Result<Vec<Option<T>>> {
    let one = |value: &&Value| match value {
        Value::Null => Ok(None),
        value => match parse(value) {
            Some(parsed) => Ok(Some(parsed)),
            None => Err(Failure::new(format!("does not fit its column: {value}"))),
        },
    };
    values.iter().map(one).collect()
}

fn text_of(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn structs(fields: &Fields, values: &[&Value]) -> Result<ArrayRef> {
    let columns = fields.iter().map(|field| {
        let members: Vec<&Value> = values.iter().map(|value| &value[field.name()]).collect();
        array(field.data_type(), &members)
    });
    let columns = columns.collect::<Result<_>>()?;
    let nulls = NullBuffer::from_iter(values.iter().map(|v| !v.is_null()));
    Ok(Arc::new(StructArray::try_new(
        fields.clone(),
        columns,
        Some(nulls),
    )?))
}

type Flat<'a> = (OffsetBuffer<i32>, Option<NullBuffer>, Vec<&'a Value>);

/// Items of lists, one behind the other.
fn flat<'a>(values: &[&'a Value]) -> Result<Flat<'a>> {
    let mut items = Vec::new();
    let mut lengths = Vec::new();
    for value in values {
        let list = value.as_array().map_or(&[][..], Vec::as_slice);
        lengths.push(list.len());
        items.extend(list);
    }
    let nulls = NullBuffer::from_iter(values.iter().map(|v| !v.is_null()));
    Ok((OffsetBuffer::from_lengths(lengths), Some(nulls), items))
}

fn unscaled(text: &str, scale: i8) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let scale = usize::try_from(scale).ok()?;
    let zeros = scale.checked_sub(fraction.len())?;
    format!("{whole}{fraction}{}", "0".repeat(zeros))
        .parse()
        .ok()
}

fn days(text: &str) -> Option<i32> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    i32::try_from(date.signed_duration_since(NaiveDate::default()).num_days()).ok()
}

/// Of a clock with or without seconds and their fraction.
fn clock(text: &str) -> Option<NaiveTime> {
    let formats = ["%H:%M:%S%.f", "%H:%M"];
    formats
        .iter()
        .find_map(|format| NaiveTime::parse_from_str(text, format).ok())
}

fn millis(text: &str) -> Option<i32> {
    let clock = clock(text)?;
    let millis = clock.num_seconds_from_midnight() * 1000 + clock.nanosecond() / 1_000_000;
    i32::try_from(millis).ok()
}

fn timestamps(unit: &TimeUnit, zone: Option<Arc<str>>, values: &[&Value]) -> Result<ArrayRef> {
    let ticks = |per_second: i64| {
        each(values, |value| {
            let (day, time) = value.as_str()?.trim_end_matches('Z').split_once('T')?;
            let day = NaiveDate::parse_from_str(day, "%Y-%m-%d").ok()?;
            let instant = NaiveDateTime::new(day, clock(time)?).and_utc();
            let fraction =
                i64::from(instant.timestamp_subsec_nanos()) / (1_000_000_000 / per_second);
            instant
                .timestamp()
                .checked_mul(per_second)?
                .checked_add(fraction)
        })
    };
    Ok(match unit {
        TimeUnit::Second => Arc::new(TimestampSecondArray::from(ticks(1)?).with_timezone_opt(zone)),
        TimeUnit::Millisecond => {
            Arc::new(TimestampMillisecondArray::from(ticks(1_000)?).with_timezone_opt(zone))
        }
        TimeUnit::Microsecond => {
            Arc::new(TimestampMicrosecondArray::from(ticks(1_000_000)?).with_timezone_opt(zone))
        }
        TimeUnit::Nanosecond => {
            Arc::new(TimestampNanosecondArray::from(ticks(1_000_000_000)?).with_timezone_opt(zone))
        }
    })
}
