//! Arrow to canonical JSON (see `../java/README.md`).

use crate::Failure;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Days, NaiveDate};
use serde_json::{Map, Value, json};

/// Each row as an object.
pub(crate) fn rows(batch: &RecordBatch) -> Result<Vec<Value>, Failure> {
    let schema = batch.schema();
    let mut rows = Vec::new();
    for at in 0..batch.num_rows() {
        let mut row = Map::new();
        for (field, column) in schema.fields().iter().zip(batch.columns()) {
            row.insert(field.name().clone(), value(column, at)?);
        }
        rows.push(Value::Object(row));
    }
    Ok(rows)
}

fn value(array: &dyn Array, at: usize) -> Result<Value, Failure> {
    if array.is_null(at) {
        return Ok(Value::Null);
    }
    Ok(match array.data_type() {
        DataType::Boolean => json!(array.as_boolean().value(at)),
        DataType::Int8 => json!(array.as_primitive::<Int8Type>().value(at)),
        DataType::Int16 => json!(array.as_primitive::<Int16Type>().value(at)),
        DataType::Int32 => json!(array.as_primitive::<Int32Type>().value(at)),
        DataType::Int64 => json!(array.as_primitive::<Int64Type>().value(at)),
        DataType::Float32 => number(f64::from(array.as_primitive::<Float32Type>().value(at))),
        DataType::Float64 => number(array.as_primitive::<Float64Type>().value(at)),
        DataType::Decimal128(_, scale) => {
            json!(decimal(
                array.as_primitive::<Decimal128Type>().value(at),
                *scale
            ))
        }
        DataType::Utf8 => json!(array.as_string::<i32>().value(at)),
        DataType::Binary => json!(STANDARD.encode(array.as_binary::<i32>().value(at))),
        DataType::LargeBinary => json!(STANDARD.encode(array.as_binary::<i64>().value(at))),
        DataType::Date32 => json!(date(array.as_primitive::<Date32Type>().value(at))?),
        DataType::Time32(TimeUnit::Millisecond) => {
            let millis = array.as_primitive::<Time32MillisecondType>().value(at);
            let (seconds, millis) = (millis / 1000, millis % 1000);
            let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
            json!(format!(
                "{hours:02}:{minutes:02}:{:02}.{millis:03}",
                seconds % 60
            ))
        }
        DataType::Timestamp(unit, zone) => {
            let (seconds, nanos) = match unit {
                TimeUnit::Second => parts(array.as_primitive::<TimestampSecondType>().value(at), 1),
                TimeUnit::Millisecond => parts(
                    array.as_primitive::<TimestampMillisecondType>().value(at),
                    1_000,
                ),
                TimeUnit::Microsecond => parts(
                    array.as_primitive::<TimestampMicrosecondType>().value(at),
                    1_000_000,
                ),
                TimeUnit::Nanosecond => parts(
                    array.as_primitive::<TimestampNanosecondType>().value(at),
                    1_000_000_000,
                ),
            };
            let instant = DateTime::from_timestamp(seconds, nanos);
            let instant =
                instant.ok_or_else(|| Failure::new(format!("no instant: {seconds} s")))?;
            let zone = if zone.is_some() { "Z" } else { "" };
            json!(format!("{}{zone}", instant.format("%Y-%m-%dT%H:%M:%S%.9f")))
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(at);
            let items = (0..items.len()).map(|i| value(&items, i));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(at);
            let (keys, values) = (entries.column(0), entries.column(1));
            let pairs = (0..entries.len()).map(|i| Ok(json!([value(keys, i)?, value(values, i)?])));
            Value::Array(pairs.collect::<Result<_, Failure>>()?)
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let members = fields.iter().zip(columns);
            let members = members.map(|(f, c)| Ok((f.name().clone(), value(c, at)?)));
            Value::Object(members.collect::<Result<_, Failure>>()?)
        }
        other => {
            return Err(Failure::new(format!(
                "no canonical JSON for Arrow's {other}"
            )));
        }
    })
}

fn number(value: f64) -> Value {
    match value {
        v if v.is_nan() => json!("NaN"),
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        v => json!(v),
    }
}

fn decimal(value: i128, scale: i8) -> String {
    let scale = usize::try_from(scale).unwrap_or(0);
    let digits = format!("{:0width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let (sign, point) = (
        if value < 0 { "-" } else { "" },
        if scale > 0 { "." } else { "" },
    );
    format!("{sign}{whole}{point}{fraction}")
}

fn date(days: i32) -> Result<String, Failure> {
    let epoch = NaiveDate::default();
    let count = Days::new(u64::from(days.unsigned_abs()));
    let date = if days < 0 {
        epoch.checked_sub_days(count)
    } else {
        epoch.checked_add_days(count)
    };
    let date = date.ok_or_else(|| Failure::new(format!("no date: day {days}")))?;
    Ok(date.format("%Y-%m-%d").to_string())
}

/// Whole seconds and nanoseconds above them.
fn parts(ticks: i64, per_second: i64) -> (i64, u32) {
    let nanos = ticks.rem_euclid(per_second) * (1_000_000_000 / per_second);
    (
        ticks.div_euclid(per_second),
        u32::try_from(nanos).unwrap_or_default(),
    )
}
