//! Rows as canonical JSON text, one object a row.
//!
//! Numbers as Java prints them, decimals as strings with their full scale, byte strings in base64,
//! dates and times in ISO form, maps as sorted lists of pairs. Pure: no store, no table.

use crate::error::Result;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType as Arrow, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType,
};
use arrow::record_batch::RecordBatch;
use std::fmt::Write as _;
use tidegate_datafile::Normaliser;
use tidegate_model::{DataField, DataType, LogicalType, calendar, java_text};

/// How many digits times are written with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Times {
    /// Milliseconds for TIME, nanoseconds for timestamps, whatever the precision.
    #[default]
    Full,
    /// As many as the column's precision says.
    Precision,
}

/// The rows of a batch of `fields` as JSON objects, keys in column order.
///
/// # Errors
/// Where the batch does not have these columns.
///
/// ```
/// # use arrow::array::{ArrayRef, Decimal128Array};
/// # use arrow::record_batch::RecordBatch;
/// # use std::sync::Arc;
/// use tidegate_model::{DataField, DataType, LogicalType};
/// use tidegate_scan::canonical::{Times, rows};
/// let fields = [DataField::new("amount", DataType::nullable(LogicalType::Decimal { precision: 10, scale: 2 }))];
/// let amounts = Decimal128Array::from(vec![Some(150), None]).with_precision_and_scale(10, 2)?;
/// let batch = RecordBatch::try_from_iter([("amount", Arc::new(amounts) as ArrayRef)])?;
/// assert_eq!(rows(&fields, &batch, Times::Full)?, [r#"{"amount":"1.50"}"#, r#"{"amount":null}"#]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn rows(fields: &[DataField], batch: &RecordBatch, times: Times) -> Result<Vec<String>> {
    let schema = batch.schema();
    let canonical = schema.fields().len() == fields.len()
        && tidegate_datafile::arrow_schema(fields)?
            .fields()
            .iter()
            .zip(schema.fields())
            .all(|(a, b)| a.name() == b.name() && a.data_type() == b.data_type());
    let normalised = if canonical {
        batch.clone()
    } else {
        Normaliser::new(fields)?.normalise(batch)?
    };
    let mut lines = Vec::with_capacity(batch.num_rows());
    for row in 0..batch.num_rows() {
        let mut out = String::with_capacity(64);
        object(&mut out, fields, normalised.columns(), row, times);
        lines.push(out);
    }
    Ok(lines)
}

fn object(out: &mut String, fields: &[DataField], columns: &[ArrayRef], row: usize, times: Times) {
    out.push('{');
    for (i, (field, column)) in fields.iter().zip(columns).enumerate() {
        if i > 0 {
            out.push(',');
        }
        text(out, &field.name);
        out.push(':');
        value(out, &field.data_type, column, row, times);
    }
    out.push('}');
}

/// Writes one value of a column.
pub fn value(out: &mut String, data_type: &DataType, array: &ArrayRef, row: usize, times: Times) {
    if array.is_null(row) {
        out.push_str("null");
        return;
    }
    // Writing to a string cannot fail.
    let _ = match array.data_type() {
        Arrow::Boolean => write!(out, "{}", array.as_boolean().value(row)),
        Arrow::Int8 => write!(out, "{}", array.as_primitive::<Int8Type>().value(row)),
        Arrow::Int16 => write!(out, "{}", array.as_primitive::<Int16Type>().value(row)),
        Arrow::Int32 => write!(out, "{}", array.as_primitive::<Int32Type>().value(row)),
        Arrow::Int64 => write!(out, "{}", array.as_primitive::<Int64Type>().value(row)),
        Arrow::Float32 => {
            let v = array.as_primitive::<Float32Type>().value(row);
            number(out, v.is_finite(), java_text::float(v))
        }
        Arrow::Float64 => {
            let v = array.as_primitive::<Float64Type>().value(row);
            number(out, v.is_finite(), java_text::double(v))
        }
        Arrow::Decimal128(_, scale) => {
            let scale = u8::try_from(*scale).unwrap_or(0);
            write!(
                out,
                "\"{}\"",
                java_text::decimal(array.as_primitive::<Decimal128Type>().value(row), scale)
            )
        }
        Arrow::Utf8 => {
            text(out, array.as_string::<i32>().value(row));
            Ok(())
        }
        Arrow::Binary => {
            out.push('"');
            base64(out, array.as_binary::<i32>().value(row));
            out.push('"');
            Ok(())
        }
        Arrow::Date32 => {
            out.push('"');
            calendar::write_date(
                out,
                i64::from(array.as_primitive::<Date32Type>().value(row)),
            );
            out.push('"');
            Ok(())
        }
        Arrow::Time32(_) => {
            let millis = array.as_primitive::<Time32MillisecondType>().value(row);
            let digits = match (&data_type.logical, times) {
                (LogicalType::Time(p), Times::Precision) => usize::from(*p),
                _ => 3,
            };
            time(out, millis, digits)
        }
        Arrow::Timestamp(unit, _) => {
            let nanos = match unit {
                TimeUnit::Nanosecond => {
                    i128::from(array.as_primitive::<TimestampNanosecondType>().value(row))
                }
                TimeUnit::Microsecond => {
                    i128::from(array.as_primitive::<TimestampMicrosecondType>().value(row)) * 1_000
                }
                _ => {
                    i128::from(array.as_primitive::<TimestampMillisecondType>().value(row))
                        * 1_000_000
                }
            };
            timestamp(out, nanos, &data_type.logical, times);
            Ok(())
        }
        Arrow::List(_) => {
            list(out, data_type, &array.as_list::<i32>().value(row), times);
            Ok(())
        }
        Arrow::Map(_, _) => {
            map(out, data_type, array.as_map().value(row).columns(), times);
            Ok(())
        }
        Arrow::Struct(_) => {
            if let LogicalType::Row(fields) = &data_type.logical {
                object(out, fields, array.as_struct().columns(), row, times);
            }
            Ok(())
        }
        // No canonical array has another type.
        other => write!(out, "\"<{other}>\""),
    };
}

fn number(out: &mut String, finite: bool, text: String) -> std::fmt::Result {
    if finite {
        write!(out, "{text}")
    } else {
        write!(out, "\"{text}\"")
    }
}

fn time(out: &mut String, millis: i32, digits: usize) -> std::fmt::Result {
    let (seconds, fraction) = (
        millis.div_euclid(1_000),
        format!("{:03}000000", millis.rem_euclid(1_000)),
    );
    write!(
        out,
        "\"{:02}:{:02}:{:02}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    )?;
    if let Some(fraction) = fraction.get(..digits.min(9)).filter(|f| !f.is_empty()) {
        write!(out, ".{fraction}")?;
    }
    write!(out, "\"")
}

fn timestamp(out: &mut String, nanos: i128, logical: &LogicalType, times: Times) {
    let (precision, zone) = match logical {
        LogicalType::TimestampLtz(p) => (*p, true),
        LogicalType::Timestamp(p) => (*p, false),
        _ => (9, false),
    };
    let digits = if times == Times::Full { 9 } else { precision };
    let millis = i64::try_from(nanos.div_euclid(1_000_000)).unwrap_or(i64::MAX);
    let mut made = String::with_capacity(32);
    calendar::write_sql(
        &mut made,
        millis,
        nanos.rem_euclid(1_000_000) as i32,
        digits,
    );
    out.push('"');
    out.push_str(&made.replacen(' ', "T", 1));
    if zone {
        out.push('Z');
    }
    out.push('"');
}

fn list(out: &mut String, data_type: &DataType, values: &ArrayRef, times: Times) {
    let LogicalType::Array(element) = &data_type.logical else {
        return;
    };
    out.push('[');
    for row in 0..values.len() {
        if row > 0 {
            out.push(',');
        }
        value(out, element, values, row, times);
    }
    out.push(']');
}

fn map(out: &mut String, data_type: &DataType, entries: &[ArrayRef], times: Times) {
    let count = DataType::not_null(LogicalType::Int);
    let (key, mapped) = match &data_type.logical {
        LogicalType::Map(key, mapped) => (key.as_ref(), mapped.as_ref()),
        LogicalType::Multiset(element) => (element.as_ref(), &count),
        _ => return,
    };
    let [keys, values] = entries else { return };
    let mut pairs: Vec<String> = (0..keys.len())
        .map(|row| {
            let mut pair = String::from("[");
            value(&mut pair, key, keys, row, times);
            pair.push(',');
            value(&mut pair, mapped, values, row, times);
            pair.push(']');
            pair
        })
        .collect();
    pairs.sort_unstable();
    out.push('[');
    out.push_str(&pairs.join(","));
    out.push(']');
}

/// A JSON string with the escapes that JSON demands.
pub fn text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(out: &mut String, bytes: &[u8]) {
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0u32, |word, b| word << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            if i <= chunk.len() {
                let digit = ALPHABET
                    .get((word >> (18 - 6 * i) & 63) as usize)
                    .copied()
                    .unwrap_or(b'=');
                out.push(char::from(digit));
            } else {
                out.push('=');
            }
        }
    }
}
