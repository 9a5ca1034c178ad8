//! Reading the golden vectors: hex, base64 and canonical JSON of values.

use serde_json::Value;
use tidegate_model::{Datum, LogicalType};

pub(crate) fn golden(name: &str) -> Value {
    let path = format!(
        "{}/../../tests/golden/vectors/{name}",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

pub(crate) fn base64(text: &str) -> Vec<u8> {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for c in text.bytes().take_while(|c| *c != b'=') {
        let digit = alphabet.iter().position(|a| *a == c).unwrap() as u32;
        bits = (bits << 6) | digit;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

pub(crate) fn data_type(text: &str) -> LogicalType {
    text.parse::<tidegate_model::DataType>().unwrap().logical
}

/// Days since 1970-01-01, counted the slow and obvious way by years.
fn days(text: &str) -> i64 {
    let mut parts = text.split('-').map(|p| p.parse::<i64>().unwrap());
    let (year, month, day) = (
        parts.next().unwrap(),
        parts.next().unwrap(),
        parts.next().unwrap(),
    );
    let leap = |y: i64| (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    let before = |y: i64| (y - 1) * 365 + (y - 1) / 4 - (y - 1) / 100 + (y - 1) / 400;
    let months = [
        31,
        if leap(year) { 29 } else { 28 },
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    before(year) - before(1970) + months.iter().take(month as usize - 1).sum::<i64>() + day - 1
}

fn nanos_of_day(text: &str) -> i64 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = whole.split(':').map(|p| p.parse::<i64>().unwrap());
    let seconds = parts.by_ref().fold(0, |acc, p| acc * 60 + p);
    seconds * 1_000_000_000 + format!("{fraction:0<9}").parse::<i64>().unwrap()
}

fn float(value: &Value) -> f64 {
    match value.as_str() {
        Some("NaN") => f64::NAN,
        Some("Infinity") => f64::INFINITY,
        Some("-Infinity") => f64::NEG_INFINITY,
        Some(other) => panic!("{other}"),
        None => value.to_string().parse().unwrap(),
    }
}

/// A value in the oracle's canonical JSON.
pub(crate) fn datum(value: &Value, data_type: &LogicalType) -> Option<Datum> {
    if value.is_null() {
        return None;
    }
    let text = || value.as_str().unwrap();
    Some(match data_type {
        LogicalType::Boolean => Datum::Boolean(value.as_bool().unwrap()),
        LogicalType::TinyInt => Datum::TinyInt(value.as_i64().unwrap() as i8),
        LogicalType::SmallInt => Datum::SmallInt(value.as_i64().unwrap() as i16),
        LogicalType::Int => Datum::Int(value.as_i64().unwrap() as i32),
        LogicalType::BigInt => Datum::BigInt(value.as_i64().unwrap()),
        LogicalType::Float => Datum::Float(match value.as_str() {
            Some(_) => float(value) as f32,
            None => value.to_string().parse().unwrap(),
        }),
        LogicalType::Double => Datum::Double(float(value)),
        LogicalType::Decimal { precision, scale } => Datum::Decimal {
            unscaled: text().replace('.', "").parse().unwrap(),
            precision: *precision,
            scale: *scale,
        },
        LogicalType::Char(_) | LogicalType::VarChar(_) => Datum::String(text().to_owned()),
        LogicalType::Binary(_) | LogicalType::VarBinary(_) => Datum::Bytes(base64(text())),
        LogicalType::Date => Datum::Date(days(text()) as i32),
        LogicalType::Time(_) => Datum::TimeMillis((nanos_of_day(text()) / 1_000_000) as i32),
        LogicalType::Timestamp(_) | LogicalType::TimestampLtz(_) => {
            let (date, time) = text().trim_end_matches('Z').split_once('T').unwrap();
            let nanos = nanos_of_day(time);
            Datum::Timestamp {
                millis: days(date) * 86_400_000 + nanos / 1_000_000,
                nanos_of_milli: (nanos % 1_000_000) as i32,
            }
        }
        LogicalType::Array(e) => {
            Datum::Array(list(value).iter().map(|v| datum(v, &e.logical)).collect())
        }
        LogicalType::Map(k, v) => pairs(value, &k.logical, &v.logical),
        LogicalType::Multiset(e) => pairs(value, &e.logical, &LogicalType::Int),
        LogicalType::Row(fields) => Datum::Row(
            fields
                .iter()
                .map(|f| datum(&value[&f.name], &f.data_type.logical))
                .collect(),
        ),
        other => panic!("no vectors of {other}"),
    })
}

fn pairs(value: &Value, key: &LogicalType, item: &LogicalType) -> Datum {
    Datum::Map(
        list(value)
            .iter()
            .map(|p| (datum(&p[0], key), datum(&p[1], item)))
            .collect(),
    )
}

/// Maps are unordered: Java's order differs from the JSON text's.
pub(crate) fn sorted(value: Option<Datum>) -> Option<Datum> {
    Some(match value? {
        Datum::Map(entries) => {
            let mut entries: Vec<_> = entries
                .into_iter()
                .map(|(k, v)| (sorted(k), sorted(v)))
                .collect();
            entries.sort_by_key(|e| format!("{e:?}"));
            Datum::Map(entries)
        }
        Datum::Array(values) => Datum::Array(values.into_iter().map(sorted).collect()),
        Datum::Row(values) => Datum::Row(values.into_iter().map(sorted).collect()),
        other => other,
    })
}
