//! What a file holds to the canonical Arrow array of the type it was written as, with everything that
//! [F-6.4] lists as tolerated.

use super::corrupt;
use crate::error::{Error, Result};
use crate::types::{COUNT, Use, arrow_fields, arrow_type, join, time_unit, type_text};
use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Int64Array, ListArray, MapArray, PrimitiveArray,
    StructArray, Time32MillisecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, make_array, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType as Arrow, Decimal128Type, Int32Type, Int64Type, TimeUnit,
};
use std::sync::Arc;
use tidegate_model::{DataField, DataType, LogicalType};

/// Which column of which file, for messages.
pub(super) struct Place<'a> {
    pub(super) file: &'a str,
    pub(super) column: &'a str,
}

impl Place<'_> {
    pub(super) fn corrupt(&self, reason: impl ToString) -> Error {
        corrupt(
            self.file,
            format!("column `{}`: {}", self.column, reason.to_string()),
        )
    }
}

/// Reads a column as its declared type.
pub(super) fn read(array: &ArrayRef, written: &DataType, at: &Place<'_>) -> Result<ArrayRef> {
    use LogicalType as L;
    let from = array.data_type();
    let mismatch = || at.corrupt(format!("holds {from}, expected {}", type_text(written)));
    let strict = |target: &Arrow| -> Result<ArrayRef> {
        if array.data_type() == target {
            return Ok(array.clone());
        }
        let options = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        cast_with_options(array, target, &options).map_err(|e| at.corrupt(e))
    };
    match &written.logical {
        L::Boolean if from == &Arrow::Boolean => Ok(array.clone()),
        L::TinyInt | L::SmallInt | L::Int | L::BigInt if from.is_integer() => {
            strict(&arrow_type(written, at.column, 0, 0, Use::Rows)?)
        }
        L::Float if from.is_floating() => strict(&Arrow::Float32),
        L::Double if from.is_floating() => strict(&Arrow::Float64),
        L::Decimal { precision, scale } => {
            decimal(array, *precision, *scale, at).ok_or_else(mismatch)?
        }
        L::Char(_) | L::VarChar(_)
            if matches!(
                from,
                Arrow::Utf8 | Arrow::Binary | Arrow::FixedSizeBinary(_)
            ) =>
        {
            strict(&Arrow::Utf8)
        }
        L::Binary(_) | L::VarBinary(_)
            if matches!(
                from,
                Arrow::Utf8 | Arrow::Binary | Arrow::FixedSizeBinary(_)
            ) =>
        {
            strict(&Arrow::Binary)
        }
        L::Date if matches!(from, Arrow::Date32) => Ok(array.clone()),
        L::Date if matches!(from, Arrow::Int32) => Ok(Arc::new(
            array
                .as_primitive::<Int32Type>()
                .reinterpret_cast::<arrow::datatypes::Date32Type>(),
        ) as _),
        L::Time(_) => time(array, at).ok_or_else(mismatch)?,
        L::Timestamp(p) => timestamp(array, *p, None, at).ok_or_else(mismatch)?,
        L::TimestampLtz(p) => timestamp(array, *p, Some("UTC".into()), at).ok_or_else(mismatch)?,
        L::Array(element) => list(array, element, at).unwrap_or_else(|| Err(mismatch())),
        L::Map(key, value) => map(array, key, value, at).unwrap_or_else(|| Err(mismatch())),
        L::Multiset(element) => map(array, element, &COUNT, at).unwrap_or_else(|| Err(mismatch())),
        L::Row(fields) if matches!(from, Arrow::Struct(_)) => row(array.as_struct(), fields, at),
        _ => Err(mismatch()),
    }
}

fn map_values<A, B>(
    values: &PrimitiveArray<A>,
    at: &Place<'_>,
    f: impl Fn(A::Native) -> Option<B::Native>,
) -> Result<PrimitiveArray<B>>
where
    A: ArrowPrimitiveType,
    B: ArrowPrimitiveType,
    B::Native: Default,
{
    let mut made = Vec::with_capacity(values.len());
    for (row, value) in values.values().iter().enumerate() {
        match f(*value) {
            Some(value) => made.push(value),
            None if values.is_null(row) => made.push(B::Native::default()),
            None => return Err(at.corrupt(format!("value {value:?} is out of range"))),
        }
    }
    Ok(PrimitiveArray::new(made.into(), values.nulls().cloned()))
}

fn decimal(array: &ArrayRef, precision: u8, scale: u8, at: &Place<'_>) -> Option<Result<ArrayRef>> {
    let limit = 10i128.checked_pow(u32::from(precision))?;
    let fits = |v: i128| (v > -limit && v < limit).then_some(v);
    let made: Result<Decimal128Array> = match array.data_type() {
        Arrow::Decimal128(_, s) if i16::from(*s) == i16::from(scale) => {
            map_values::<_, Decimal128Type>(array.as_primitive::<Decimal128Type>(), at, fits)
        }
        Arrow::Decimal128(_, _) => {
            let options = CastOptions {
                safe: false,
                ..CastOptions::default()
            };
            cast_with_options(array, &Arrow::Decimal128(precision, scale as i8), &options)
                .map(|a| a.as_primitive::<Decimal128Type>().clone())
                .map_err(|e| at.corrupt(e))
        }
        // Without annotation the number is the unscaled value.
        Arrow::Int32 => {
            map_values::<_, Decimal128Type>(array.as_primitive::<Int32Type>(), at, |v| {
                fits(v.into())
            })
        }
        Arrow::Int64 => {
            map_values::<_, Decimal128Type>(array.as_primitive::<Int64Type>(), at, |v| {
                fits(v.into())
            })
        }
        Arrow::Binary => {
            let values = array.as_binary::<i32>().iter().map(|v| v.map(big_endian));
            unscaled(values, fits, at)
        }
        Arrow::FixedSizeBinary(_) => {
            let values = array
                .as_fixed_size_binary()
                .iter()
                .map(|v| v.map(big_endian));
            unscaled(values, fits, at)
        }
        _ => return None,
    };
    Some(made.and_then(|a| {
        a.with_precision_and_scale(precision, scale as i8)
            .map(|a| Arc::new(a) as ArrayRef)
            .map_err(|e| at.corrupt(e))
    }))
}

fn unscaled(
    values: impl Iterator<Item = Option<Option<i128>>>,
    fits: impl Fn(i128) -> Option<i128>,
    at: &Place<'_>,
) -> Result<Decimal128Array> {
    values
        .map(|v| match v {
            None => Ok(None),
            Some(v) => v
                .and_then(&fits)
                .map(Some)
                .ok_or_else(|| at.corrupt("a decimal is out of range")),
        })
        .collect()
}

/// Two's complement, big-endian, any length whose value fits.
fn big_endian(bytes: &[u8]) -> Option<i128> {
    let negative = bytes.first().is_some_and(|b| b & 0x80 != 0);
    let sign = if negative { 0xff } else { 0 };
    let excess = bytes.len().saturating_sub(16);
    let (above, kept) = bytes.split_at_checked(excess)?;
    if above.iter().any(|b| *b != sign)
        || (excess > 0 && kept.first().is_none_or(|b| (b & 0x80 != 0) != negative))
    {
        return None;
    }
    let mut wide = [sign; 16];
    wide.iter_mut()
        .rev()
        .zip(kept.iter().rev())
        .for_each(|(to, from)| *to = *from);
    Some(i128::from_be_bytes(wide))
}

fn time(array: &ArrayRef, at: &Place<'_>) -> Option<Result<ArrayRef>> {
    let per_milli = match array.data_type() {
        Arrow::Time32(TimeUnit::Millisecond) | Arrow::Int32 | Arrow::Int64 => 1,
        Arrow::Time64(TimeUnit::Microsecond) => 1_000,
        Arrow::Time64(TimeUnit::Nanosecond) => 1_000_000,
        _ => return None,
    };
    Some(integers(array, at).and_then(|values| {
        let made: Time32MillisecondArray = map_values(&values, at, |v| {
            let millis = v.div_euclid(per_milli);
            (0..86_400_000).contains(&millis).then_some(millis as i32)
        })?;
        Ok(Arc::new(made) as ArrayRef)
    }))
}

/// Times and numbers as 64-bit integers.
fn integers(array: &ArrayRef, at: &Place<'_>) -> Result<Int64Array> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let cast = |array: &ArrayRef, to: &Arrow| {
        cast_with_options(array, to, &options).map_err(|e| at.corrupt(e))
    };
    let narrow = matches!(array.data_type(), Arrow::Time32(_) | Arrow::Date32);
    let array = if narrow {
        cast(array, &Arrow::Int32)?
    } else {
        array.clone()
    };
    Ok(cast(&array, &Arrow::Int64)?
        .as_primitive::<Int64Type>()
        .clone())
}

fn timestamp(
    array: &ArrayRef,
    precision: u8,
    zone: Option<Arc<str>>,
    at: &Place<'_>,
) -> Option<Result<ArrayRef>> {
    let unit = time_unit(precision);
    let made = match array.data_type() {
        // The flag "adjusted to UTC" does not decide, the declared type does.
        Arrow::Timestamp(from, _) => {
            integers(array, at).and_then(|v| stamped(&v, *from, unit, zone, at))
        }
        // Without annotation: in the declared unit.
        Arrow::Int64 => integers(array, at).and_then(|v| stamped(&v, unit, unit, zone, at)),
        Arrow::FixedSizeBinary(12) => int96(array, unit, zone, at),
        _ => return None,
    };
    Some(made)
}

fn stamped(
    v: &Int64Array,
    from: TimeUnit,
    to: TimeUnit,
    zone: Option<Arc<str>>,
    at: &Place<'_>,
) -> Result<ArrayRef> {
    let scale = |unit| match unit {
        TimeUnit::Second => 1i64,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let (from, per_to) = (scale(from), scale(to));
    let convert = |v: i64| {
        if per_to >= from {
            v.checked_mul(per_to / from)
        } else {
            Some(v.div_euclid(from / per_to))
        }
    };
    Ok(match to {
        TimeUnit::Second | TimeUnit::Millisecond => {
            let made: TimestampMillisecondArray = map_values(v, at, convert)?;
            Arc::new(made.with_timezone_opt(zone))
        }
        TimeUnit::Microsecond => {
            let made: TimestampMicrosecondArray = map_values(v, at, convert)?;
            Arc::new(made.with_timezone_opt(zone))
        }
        TimeUnit::Nanosecond => {
            let made: TimestampNanosecondArray = map_values(v, at, convert)?;
            Arc::new(made.with_timezone_opt(zone))
        }
    })
}

fn int96(
    array: &ArrayRef,
    unit: TimeUnit,
    zone: Option<Arc<str>>,
    at: &Place<'_>,
) -> Result<ArrayRef> {
    let per_second: i128 = match unit {
        TimeUnit::Nanosecond => 1_000_000_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Millisecond | TimeUnit::Second => 1_000,
    };
    let values = array.as_fixed_size_binary();
    let mut made = Vec::with_capacity(values.len());
    for row in 0..values.len() {
        if values.is_null(row) {
            made.push(0);
            continue;
        }
        let nanos = crate::int96::decode(values.value(row))
            .ok_or_else(|| at.corrupt("an INT96 of other than 12 bytes"))?;
        let value = i64::try_from(nanos.div_euclid(1_000_000_000 / per_second)).map_err(|_| {
            at.corrupt(format!(
                "a timestamp lies outside the years 1677 to 2262 that nanoseconds in Arrow can hold ({nanos} ns since 1970)"
            ))
        })?;
        made.push(value);
    }
    let made = Int64Array::new(made.into(), values.nulls().cloned());
    stamped(&made, unit, unit, zone, at)
}

fn list(array: &ArrayRef, element: &DataType, at: &Place<'_>) -> Option<Result<ArrayRef>> {
    let Arrow::List(_) = array.data_type() else {
        return None;
    };
    let list = array.as_list::<i32>();
    Some(read(list.values(), element, at).and_then(|values| {
        let field = Arc::new(arrow::datatypes::Field::new(
            "element",
            values.data_type().clone(),
            true,
        ));
        let made = ListArray::try_new(field, list.offsets().clone(), values, list.nulls().cloned());
        Ok(Arc::new(made.map_err(|e| at.corrupt(e))?) as ArrayRef)
    }))
}

fn map(
    array: &ArrayRef,
    key: &DataType,
    value: &DataType,
    at: &Place<'_>,
) -> Option<Result<ArrayRef>> {
    let (offsets, entries, nulls) = match array.data_type() {
        Arrow::Map(_, _) => {
            let map = array.as_map();
            (
                map.offsets().clone(),
                map.entries().clone(),
                map.nulls().cloned(),
            )
        }
        // A list of pairs without the annotation of a map.
        Arrow::List(f) if matches!(f.data_type(), Arrow::Struct(fields) if fields.len() == 2) => {
            let list = array.as_list::<i32>();
            (
                list.offsets().clone(),
                list.values().as_struct().clone(),
                list.nulls().cloned(),
            )
        }
        _ => return None,
    };
    let [keys, values] = entries.columns() else {
        return None;
    };
    let read_both = || -> Result<ArrayRef> {
        let (keys, values) = (read(keys, key, at)?, read(values, value, at)?);
        let fields = arrow::datatypes::Fields::from(vec![
            arrow::datatypes::Field::new("key", keys.data_type().clone(), false),
            arrow::datatypes::Field::new("value", values.data_type().clone(), true),
        ]);
        let entries = StructArray::try_new(fields.clone(), vec![keys, values], None)
            .map_err(|e| at.corrupt(e))?;
        let field = Arc::new(arrow::datatypes::Field::new(
            "key_value",
            Arrow::Struct(fields),
            false,
        ));
        let made =
            MapArray::try_new(field, offsets, entries, nulls, false).map_err(|e| at.corrupt(e))?;
        Ok(Arc::new(made))
    };
    Some(read_both())
}

fn row(array: &StructArray, fields: &[DataField], at: &Place<'_>) -> Result<ArrayRef> {
    let mut columns = Vec::with_capacity(fields.len());
    let mut types = Vec::with_capacity(fields.len());
    for field in fields {
        let path = join(at.column, &field.name);
        let at = Place {
            file: at.file,
            column: &path,
        };
        let column = match array.column_by_name(&field.name) {
            Some(column) => read(&below(column, array, &at)?, &field.data_type, &at)?,
            None => {
                let target = arrow_fields(std::slice::from_ref(field), at.column, Use::Rows)?;
                let target = target
                    .first()
                    .ok_or(Error::Misuse("a field without an Arrow type"))?;
                new_null_array(target.data_type(), array.len())
            }
        };
        types.push(arrow::datatypes::Field::new(
            &field.name,
            column.data_type().clone(),
            true,
        ));
        columns.push(column);
    }
    struct_of(types.into(), columns, array, at)
}

/// A field's values with those below a null row as null: where the field is NOT NULL, what stands there
/// is no value (twelve zero bytes of an INT96 would be the year -4713).
fn below(column: &ArrayRef, row: &StructArray, at: &Place<'_>) -> Result<ArrayRef> {
    let nulls = NullBuffer::union(row.nulls(), column.nulls());
    if row.null_count() == 0 || nulls.as_ref() == column.nulls() {
        return Ok(column.clone());
    }
    let data = column.to_data().into_builder().nulls(nulls).build();
    data.map(make_array).map_err(|e| at.corrupt(e))
}

/// A row of new columns with the nulls of an old one.
pub(super) fn struct_of(
    fields: arrow::datatypes::Fields,
    columns: Vec<ArrayRef>,
    like: &StructArray,
    at: &Place<'_>,
) -> Result<ArrayRef> {
    let nulls = like.nulls().cloned();
    let made = if columns.is_empty() {
        StructArray::try_new_with_length(fields, columns, nulls, like.len())
    } else {
        StructArray::try_new(fields, columns, nulls)
    };
    Ok(Arc::new(made.map_err(|e| at.corrupt(e))?))
}
