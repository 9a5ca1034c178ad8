//! A column as it was written to the column as it is now, by Java's cast rules \[F-2.5].
//!
//! Rows are matched by field id. Local times and instants are never turned into each other (B53).

use super::physical::{Place, struct_of};
use crate::error::{Error, Result};
use crate::types::{COUNT, join, type_text};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Decimal128Array, ListArray, MapArray,
    PrimitiveArray, StringArray, StructArray, new_null_array,
};
use arrow::compute::cast as arrow_cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType as Arrow, Date32Type, Decimal128Type, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType,
};
use std::sync::Arc;
use tidegate_model::data_type::MAX_LENGTH;
use tidegate_model::{DataType, LogicalType, calendar, java_text};

/// Tells before any file is opened whether a change of type has a cast.
pub(super) fn check(from: &DataType, to: &DataType, path: &str) -> Result<()> {
    use LogicalType as L;
    let (f, t) = (&from.logical, &to.logical);
    let nested = |from, to, what: &str| check(from, to, &format!("{path}[{what}]"));
    match (f, t) {
        (L::Array(f), L::Array(t)) => nested(f, t, "element"),
        (L::Multiset(f), L::Multiset(t)) => nested(f, t, "element"),
        (L::Map(k, v), L::Map(to_k, to_v)) => {
            nested(k, to_k, "key").and_then(|()| nested(v, to_v, "value"))
        }
        (L::Row(fields), L::Row(wanted)) => {
            wanted
                .iter()
                .try_for_each(|w| match fields.iter().find(|f| f.id == w.id) {
                    Some(f) => check(&f.data_type, &w.data_type, &join(path, &w.name)),
                    None => Ok(()),
                })
        }
        _ if castable(f, t) => Ok(()),
        _ => Err(Error::NoCast {
            file: "*".to_owned(),
            column: path.to_owned(),
            from: type_text(from),
            to: type_text(to),
        }),
    }
}

fn castable(from: &LogicalType, to: &LogicalType) -> bool {
    use LogicalType as L;
    let number = |t: &L| {
        matches!(
            t,
            L::TinyInt
                | L::SmallInt
                | L::Int
                | L::BigInt
                | L::Float
                | L::Double
                | L::Decimal { .. }
        )
    };
    let text = |t: &L| matches!(t, L::Char(_) | L::VarChar(_));
    let bytes = |t: &L| matches!(t, L::Binary(_) | L::VarBinary(_));
    match (from, to) {
        (a, b) if a == b => true,
        (a, b) if number(a) && number(b) => true,
        (L::Boolean | L::Date | L::Time(_) | L::Timestamp(_), b) if text(b) => true,
        (a, b) if number(a) && text(b) => true,
        (a, b) if text(a) && (number(b) || text(b) || bytes(b)) => true,
        (a, L::Boolean | L::Date) if text(a) => true,
        (a, b) if bytes(a) && (bytes(b) || text(b)) => true,
        (L::Boolean, L::TinyInt | L::SmallInt | L::Int | L::BigInt) => true,
        (L::TinyInt | L::SmallInt | L::Int | L::BigInt, L::Boolean) => true,
        (L::Date, L::Timestamp(_)) | (L::Timestamp(_), L::Date) => true,
        (L::Timestamp(_), L::Timestamp(_)) | (L::TimestampLtz(_), L::TimestampLtz(_)) => true,
        (L::Time(_), L::Time(_)) => true,
        _ => false,
    }
}

/// Casts a canonical array of type `from` to `to`, giving exactly the Arrow type `target`.
pub(super) fn cast(
    array: &ArrayRef,
    from: &DataType,
    to: &DataType,
    target: &Arrow,
    at: &Place<'_>,
) -> Result<ArrayRef> {
    use LogicalType as L;
    if array.data_type() == target && from.logical == to.logical {
        return Ok(array.clone());
    }
    let made: ArrayRef = match (&from.logical, &to.logical) {
        (L::Array(f), L::Array(t)) => {
            let Arrow::List(field) = target else {
                return Err(no_cast(from, to, at));
            };
            let list = array.as_list::<i32>();
            let values = cast(list.values(), f, t, field.data_type(), at)?;
            let nulls = list.nulls().cloned();
            let made = ListArray::try_new(field.clone(), list.offsets().clone(), values, nulls);
            Arc::new(made.map_err(|e| at.corrupt(e))?)
        }
        (L::Multiset(f), L::Multiset(t)) => map(array, (f, &COUNT), (t, &COUNT), target, at)?,
        (L::Map(k, v), L::Map(to_k, to_v)) => map(array, (k, v), (to_k, to_v), target, at)?,
        (L::Row(fields), L::Row(wanted)) => {
            let Arrow::Struct(targets) = target else {
                return Err(no_cast(from, to, at));
            };
            let row = array.as_struct();
            let columns = wanted.iter().zip(targets).map(|(w, target)| {
                let found = fields.iter().position(|f| f.id == w.id);
                match found.and_then(|i| Some((fields.get(i)?, row.columns().get(i)?))) {
                    Some((f, column)) => {
                        cast(column, &f.data_type, &w.data_type, target.data_type(), at)
                    }
                    None => Ok(new_null_array(target.data_type(), row.len())),
                }
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            struct_of(targets.clone(), columns, row, at)?
        }
        (f, t) => value_cast(array, f, t, target, at)?.ok_or_else(|| no_cast(from, to, at))?,
    };
    if made.data_type() == target {
        return Ok(made);
    }
    Err(no_cast(from, to, at))
}

fn no_cast(from: &DataType, to: &DataType, at: &Place<'_>) -> Error {
    Error::NoCast {
        file: at.file.to_owned(),
        column: at.column.to_owned(),
        from: type_text(from),
        to: type_text(to),
    }
}

fn map(
    array: &ArrayRef,
    from: (&DataType, &DataType),
    to: (&DataType, &DataType),
    target: &Arrow,
    at: &Place<'_>,
) -> Result<ArrayRef> {
    let wrong = || at.corrupt("a map without key and value");
    let Arrow::Map(entry, sorted) = target else {
        return Err(wrong());
    };
    let Arrow::Struct(fields) = entry.data_type() else {
        return Err(wrong());
    };
    let [key, value] = fields.as_ref() else {
        return Err(wrong());
    };
    let map = array.as_map();
    let keys = cast(map.keys(), from.0, to.0, key.data_type(), at)?;
    let values = cast(map.values(), from.1, to.1, value.data_type(), at)?;
    let entries = StructArray::try_new(fields.clone(), vec![keys, values], None)
        .map_err(|e| at.corrupt(e))?;
    let nulls = map.nulls().cloned();
    let made = MapArray::try_new(
        entry.clone(),
        map.offsets().clone(),
        entries,
        nulls,
        *sorted,
    );
    Ok(Arc::new(made.map_err(|e| at.corrupt(e))?))
}

/// `None` = no such cast.
fn value_cast(
    array: &ArrayRef,
    from: &LogicalType,
    to: &LogicalType,
    target: &Arrow,
    at: &Place<'_>,
) -> Result<Option<ArrayRef>> {
    use LogicalType as L;
    if !castable(from, to) {
        return Ok(None);
    }
    Ok(Some(match (from, to) {
        (a, b) if a == b => array.clone(),
        (
            L::TinyInt
            | L::SmallInt
            | L::Int
            | L::BigInt
            | L::Float
            | L::Double
            | L::Decimal { .. },
            t,
        ) if is_number(t) => numbers(array, to, target)?,
        (L::Char(_) | L::VarChar(_), t) if is_number(t) || matches!(t, L::Boolean | L::Date) => {
            parse(array.as_string::<i32>(), to, target, at)?
        }
        (_, L::Char(n)) => text_of(array, from, at, |text| sized(text, *n, true))?,
        (_, L::VarChar(n)) => text_of(array, from, at, |text| sized(text, *n, false))?,
        (_, L::Binary(n) | L::VarBinary(n)) => {
            let bytes = arrow_cast(array, &Arrow::Binary)?;
            let pad = matches!(to, L::Binary(_)).then_some(*n as usize);
            let values = bytes.as_binary::<i32>().iter().map(|v| {
                v.map(|v| {
                    let mut v = v.get(..v.len().min(*n as usize)).unwrap_or(v).to_vec();
                    v.resize(pad.unwrap_or(v.len()), 0);
                    v
                })
            });
            Arc::new(BinaryArray::from_iter(values))
        }
        (L::Boolean, _) => arrow_cast(array, target)?,
        (_, L::Boolean) => {
            let wide = arrow_cast(array, &Arrow::Int64)?;
            Arc::new(
                wide.as_primitive::<Int64Type>()
                    .iter()
                    .map(|v| v.map(|v| v != 0))
                    .collect::<BooleanArray>(),
            )
        }
        (L::Time(_), L::Time(_)) => array.clone(),
        (L::Date, _) => timestamps(&dates_as_nanos(array), to, target)?,
        (L::Timestamp(_), L::Date) => {
            let nanos = as_nanos(array)?;
            let days = nanos
                .iter()
                .map(|v| v.map(|v| v.div_euclid(86_400_000_000_000) as i32));
            Arc::new(days.collect::<PrimitiveArray<Date32Type>>())
        }
        _ => timestamps(&as_nanos(array)?, to, target)?,
    }))
}

fn is_number(t: &LogicalType) -> bool {
    use LogicalType as L;
    matches!(
        t,
        L::TinyInt | L::SmallInt | L::Int | L::BigInt | L::Float | L::Double | L::Decimal { .. }
    )
}

/// A number as the widest of its kind.
enum Number {
    Int(i64),
    Float(f64),
    Decimal(i128, u32),
}

/// Between numbers as Java casts: integers keep their low bits, floats saturate, decimals round half up
/// and become null where they do not fit.
fn numbers(array: &ArrayRef, to: &LogicalType, target: &Arrow) -> Result<ArrayRef> {
    use LogicalType as L;
    let values: Vec<Option<Number>> = match array.data_type() {
        Arrow::Float32 => {
            let v = array.as_primitive::<Float32Type>();
            v.iter()
                .map(|v| v.map(|v| Number::Float(f64::from(v))))
                .collect()
        }
        Arrow::Float64 => array
            .as_primitive::<Float64Type>()
            .iter()
            .map(|v| v.map(Number::Float))
            .collect(),
        Arrow::Decimal128(_, scale) => {
            let scale = u32::try_from(*scale).unwrap_or(0);
            let v = array.as_primitive::<Decimal128Type>();
            v.iter()
                .map(|v| v.map(|v| Number::Decimal(v, scale)))
                .collect()
        }
        _ => {
            let wide = arrow_cast(array, &Arrow::Int64)?;
            wide.as_primitive::<Int64Type>()
                .iter()
                .map(|v| v.map(Number::Int))
                .collect()
        }
    };
    let int = |n: &Number| match n {
        Number::Int(v) => *v,
        Number::Float(v) => *v as i64,
        Number::Decimal(v, scale) => (v / 10i128.pow(*scale)) as i64,
    };
    // A float becomes an int first where the target is no long, so that it saturates there.
    let narrow = |n: &Number| match n {
        Number::Float(v) => *v as i32,
        other => int(other) as i32,
    };
    let float = |n: &Number| match n {
        Number::Int(v) => *v as f64,
        Number::Float(v) => *v,
        Number::Decimal(v, scale) => java_text::decimal(*v, *scale as u8)
            .parse()
            .unwrap_or(f64::NAN),
    };
    fn made<T: ArrowPrimitiveType>(
        values: &[Option<Number>],
        f: impl Fn(&Number) -> T::Native,
    ) -> ArrayRef {
        Arc::new(
            values
                .iter()
                .map(|v| v.as_ref().map(&f))
                .collect::<PrimitiveArray<T>>(),
        )
    }
    Ok(match to {
        L::TinyInt => made::<Int8Type>(&values, |n| narrow(n) as i8),
        L::SmallInt => made::<Int16Type>(&values, |n| narrow(n) as i16),
        L::Int => made::<Int32Type>(&values, narrow),
        L::BigInt => made::<Int64Type>(&values, int),
        L::Float => made::<Float32Type>(&values, |n| float(n) as f32),
        L::Double => made::<Float64Type>(&values, float),
        L::Decimal { precision, scale } => {
            let value = |n: &Number| match n {
                Number::Int(v) => rescaled(i128::from(*v), 0, *precision, *scale),
                Number::Decimal(v, from) => rescaled(*v, *from, *precision, *scale),
                Number::Float(v) => parse_decimal(&format!("{v}"), *precision, *scale),
            };
            let made: Decimal128Array = values.iter().map(|v| v.as_ref().and_then(value)).collect();
            Arc::new(made.with_data_type(target.clone()))
        }
        _ => return Err(Error::Misuse("not a number")),
    })
}

/// Another scale, rounded half up; `None` where it does not fit.
fn rescaled(unscaled: i128, from: u32, precision: u8, scale: u8) -> Option<i128> {
    let scale = u32::from(scale);
    let value = if scale >= from {
        unscaled.checked_mul(10i128.checked_pow(scale - from)?)?
    } else {
        let factor = 10i128.checked_pow(from - scale)?;
        let (whole, rest) = (unscaled / factor, unscaled % factor);
        whole
            + if rest.unsigned_abs() * 2 >= factor.unsigned_abs() {
                unscaled.signum()
            } else {
                0
            }
    };
    let limit = 10i128.checked_pow(u32::from(precision))?;
    (value > -limit && value < limit).then_some(value)
}

/// A plain decimal number, rounded half up to the scale.
fn parse_decimal(text: &str, precision: u8, scale: u8) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.len() > 60 {
        return None;
    }
    let mut value = 0i128;
    for c in whole.chars().chain(fraction.chars().take(37)) {
        value = value
            .checked_mul(10)?
            .checked_add(i128::from(c.to_digit(10)?))?;
    }
    let kept = u32::try_from(fraction.chars().count().min(37)).ok()?;
    rescaled(
        if negative { -value } else { value },
        kept,
        precision,
        scale,
    )
}

fn parse(
    array: &StringArray,
    to: &LogicalType,
    target: &Arrow,
    at: &Place<'_>,
) -> Result<ArrayRef> {
    use LogicalType as L;
    let bad = |text: &str| at.corrupt(format!("{text:?} is not a value of the column's new type"));
    fn each<T>(
        array: &StringArray,
        bad: impl Fn(&str) -> Error,
        f: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<Option<T>>> {
        array
            .iter()
            .map(|v| v.map(|v| f(v.trim()).ok_or_else(|| bad(v))).transpose())
            .collect()
    }
    Ok(match to {
        L::TinyInt => Arc::new(PrimitiveArray::<Int8Type>::from(each(array, bad, |v| {
            v.parse().ok()
        })?)),
        L::SmallInt => Arc::new(PrimitiveArray::<Int16Type>::from(each(array, bad, |v| {
            v.parse().ok()
        })?)),
        L::Int => Arc::new(PrimitiveArray::<Int32Type>::from(each(array, bad, |v| {
            v.parse().ok()
        })?)),
        L::BigInt => Arc::new(PrimitiveArray::<Int64Type>::from(each(array, bad, |v| {
            v.parse().ok()
        })?)),
        L::Float => Arc::new(PrimitiveArray::<Float32Type>::from(each(
            array,
            bad,
            |v| v.parse().ok(),
        )?)),
        L::Double => Arc::new(PrimitiveArray::<Float64Type>::from(each(
            array,
            bad,
            |v| v.parse().ok(),
        )?)),
        L::Decimal { precision, scale } => {
            let made =
                Decimal128Array::from(each(array, bad, |v| parse_decimal(v, *precision, *scale))?);
            Arc::new(made.with_data_type(target.clone()))
        }
        L::Boolean => Arc::new(BooleanArray::from(each(array, bad, boolean)?)),
        L::Date => Arc::new(PrimitiveArray::<Date32Type>::from(each(
            array, bad, parse_date,
        )?)),
        _ => return Err(Error::Misuse("not a type that text is parsed as")),
    })
}

/// The words that Java takes for true and false.
fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "1" => Some(true),
        "f" | "false" | "n" | "no" | "0" => Some(false),
        _ => None,
    }
}

fn parse_date(text: &str) -> Option<i32> {
    let mut parts = text.splitn(3, '-');
    let (year, month, day) = (
        parts.next()?.parse().ok()?,
        parts.next()?.parse().ok()?,
        parts.next()?.parse().ok()?,
    );
    i32::try_from(calendar::days_from_civil(year, month, day)?).ok()
}

/// Cuts text to `n` characters, and fills it up with blanks for `CHAR`.
fn sized(mut text: String, n: u32, fill: bool) -> String {
    if n == MAX_LENGTH {
        return text;
    }
    let n = n as usize;
    if let Some((end, _)) = text.char_indices().nth(n) {
        text.truncate(end);
    }
    if fill {
        let missing = n.saturating_sub(text.chars().count());
        text.extend(std::iter::repeat_n(' ', missing));
    }
    text
}

fn text_of(
    array: &ArrayRef,
    from: &LogicalType,
    at: &Place<'_>,
    size: impl Fn(String) -> String,
) -> Result<ArrayRef> {
    use LogicalType as L;
    let texts: Vec<Option<String>> = match from {
        L::Decimal { scale, .. } => {
            let v = array.as_primitive::<Decimal128Type>();
            v.iter()
                .map(|v| v.map(|v| java_text::decimal(v, *scale)))
                .collect()
        }
        L::Float => array
            .as_primitive::<Float32Type>()
            .iter()
            .map(|v| v.map(java_text::float))
            .collect(),
        L::Double => array
            .as_primitive::<Float64Type>()
            .iter()
            .map(|v| v.map(java_text::double))
            .collect(),
        L::Date => {
            let v = array.as_primitive::<Date32Type>();
            let text = |v| written(|out| calendar::write_date(out, i64::from(v)));
            v.iter().map(|v| v.map(text)).collect()
        }
        L::Time(p) => {
            let millis = arrow_cast(array, &Arrow::Int32)?;
            let text = |v| written(|out| calendar::write_time(out, v, *p));
            millis
                .as_primitive::<Int32Type>()
                .iter()
                .map(|v| v.map(text))
                .collect()
        }
        L::Timestamp(p) => {
            let text = |v: i128| {
                let millis = i64::try_from(v.div_euclid(1_000_000)).unwrap_or(i64::MAX);
                written(|out| calendar::write_sql(out, millis, v.rem_euclid(1_000_000) as i32, *p))
            };
            as_nanos(array)?.into_iter().map(|v| v.map(text)).collect()
        }
        _ => {
            let text = arrow_cast(array, &Arrow::Utf8).map_err(|e| at.corrupt(e))?;
            text.as_string::<i32>()
                .iter()
                .map(|v| v.map(str::to_owned))
                .collect()
        }
    };
    Ok(Arc::new(
        texts
            .into_iter()
            .map(|v| v.map(&size))
            .collect::<StringArray>(),
    ))
}

fn written(write: impl FnOnce(&mut String)) -> String {
    let mut out = String::new();
    write(&mut out);
    out
}

fn dates_as_nanos(array: &ArrayRef) -> Vec<Option<i128>> {
    let days = array.as_primitive::<Date32Type>();
    days.iter()
        .map(|v| v.map(|v| i128::from(v) * 86_400_000_000_000))
        .collect()
}

/// Timestamps of any unit as nanoseconds since 1970.
fn as_nanos(array: &ArrayRef) -> Result<Vec<Option<i128>>> {
    let factor = match array.data_type() {
        Arrow::Timestamp(arrow::datatypes::TimeUnit::Millisecond, _) => 1_000_000,
        Arrow::Timestamp(arrow::datatypes::TimeUnit::Microsecond, _) => 1_000,
        _ => 1,
    };
    let wide = arrow_cast(array, &Arrow::Int64)?;
    Ok(wide
        .as_primitive::<Int64Type>()
        .iter()
        .map(|v| v.map(|v| i128::from(v) * factor))
        .collect())
}

/// Cut to the digits of the new precision; null where the unit cannot hold the value.
fn timestamps(nanos: &[Option<i128>], to: &LogicalType, target: &Arrow) -> Result<ArrayRef> {
    let (LogicalType::Timestamp(p) | LogicalType::TimestampLtz(p)) = to else {
        return Err(Error::Misuse("not a timestamp"));
    };
    let step = 10i128.pow(u32::from(9u8.saturating_sub(*p)));
    let unit: i128 = match p {
        0..=3 => 1_000_000,
        4..=6 => 1_000,
        _ => 1,
    };
    let values = nanos
        .iter()
        .map(|v| v.and_then(|v| i64::try_from(v.div_euclid(step) * step / unit).ok()));
    fn made<T: ArrowPrimitiveType<Native = i64>>(
        values: impl Iterator<Item = Option<i64>>,
        target: &Arrow,
    ) -> ArrayRef {
        Arc::new(
            values
                .collect::<PrimitiveArray<T>>()
                .with_data_type(target.clone()),
        )
    }
    Ok(match p {
        0..=3 => made::<TimestampMillisecondType>(values, target),
        4..=6 => made::<TimestampMicrosecondType>(values, target),
        _ => made::<TimestampNanosecondType>(values, target),
    })
}
