//! Decimals, dates and times without losing a digit.

use super::{Converted, Fault, per_second};
use crate::types::type_text;
use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Decimal128Array, PrimitiveArray, Time32MillisecondArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType as Arrow, Date64Type, Decimal128Type, Decimal256Type, Int64Type,
    TimeUnit, i256,
};
use std::sync::Arc;
use tidegate_model::DataType;

const MILLIS_PER_DAY: i64 = 86_400_000;

/// Applies `f` to every value that is not null; its first `None` is a fault with `reason`.
fn try_map<A, B>(
    values: &PrimitiveArray<A>,
    shown: &dyn Array,
    path: &str,
    reason: impl FnOnce() -> String,
    f: impl Fn(A::Native) -> Option<B::Native>,
) -> Result<PrimitiveArray<B>, Fault>
where
    A: ArrowPrimitiveType,
    B: ArrowPrimitiveType,
    B::Native: Default,
{
    let mut made = Vec::with_capacity(values.len());
    for (index, value) in values.values().iter().enumerate() {
        match f(*value) {
            Some(value) => made.push(value),
            None if values.is_null(index) => made.push(B::Native::default()),
            None => return Err(Fault::value(path, index, shown, reason())),
        }
    }
    Ok(PrimitiveArray::new(made.into(), values.nulls().cloned()))
}

pub(super) fn decimal(
    array: &ArrayRef,
    precision: u8,
    scale: u8,
    path: &str,
    to: &DataType,
) -> Converted {
    let limit = 10i128.pow(u32::from(precision.min(38)));
    let fits = |v: i128| (v > -limit && v < limit).then_some(v);
    let reason = || format!("does not fit {} exactly", type_text(to));
    let from_scale = match array.data_type() {
        Arrow::Decimal32(_, s)
        | Arrow::Decimal64(_, s)
        | Arrow::Decimal128(_, s)
        | Arrow::Decimal256(_, s) => *s,
        _ => 0,
    };
    let shift = i32::from(scale) - i32::from(from_scale);
    let made: Decimal128Array = match array.data_type() {
        Arrow::Decimal128(p, _) if *p <= precision && shift == 0 => {
            array.as_primitive::<Decimal128Type>().clone()
        }
        Arrow::Decimal256(_, _) => {
            let values = array.as_primitive::<Decimal256Type>();
            let factor = i256::from_i128(10).checked_pow(shift.unsigned_abs());
            try_map::<_, Decimal128Type>(values, array, path, reason, |v: i256| {
                let factor = factor?;
                let scaled = if shift >= 0 {
                    v.checked_mul(factor)?
                } else if v.checked_rem(factor)? == i256::ZERO {
                    v.checked_div(factor)?
                } else {
                    return None;
                };
                fits(scaled.to_i128()?)
            })?
        }
        other => {
            // Unscaled values as 128 bits, whatever they came as.
            let wide = match other {
                Arrow::Decimal128(_, _) => array.clone(),
                Arrow::Decimal32(_, s) | Arrow::Decimal64(_, s) => {
                    cast(array, &Arrow::Decimal128(38, *s))?
                }
                _ => cast(array, &Arrow::Decimal128(38, 0))?,
            };
            let factor = 10i128.checked_pow(shift.unsigned_abs());
            try_map::<_, Decimal128Type>(
                wide.as_primitive::<Decimal128Type>(),
                array,
                path,
                reason,
                |v| {
                    let factor = factor?;
                    let scaled = match shift >= 0 {
                        true => v.checked_mul(factor)?,
                        false if v % factor == 0 => v / factor,
                        false => return None,
                    };
                    fits(scaled)
                },
            )?
        }
    };
    Ok(Arc::new(
        made.with_precision_and_scale(precision, scale as i8)?,
    ))
}

pub(super) fn date(array: &ArrayRef, path: &str) -> Converted {
    let values = array.as_primitive::<Date64Type>();
    let reason = || "is not a whole day, or too far away for DATE".to_owned();
    let made: Date32Array = try_map(values, array, path, reason, |millis| {
        (millis % MILLIS_PER_DAY == 0)
            .then_some(millis / MILLIS_PER_DAY)
            .and_then(|days| i32::try_from(days).ok())
    })?;
    Ok(Arc::new(made))
}

/// Reduces `value` from `from` units a second to `to`, if nothing below `digits` decimals of a second is
/// lost.
fn rescale(value: i64, from: i64, to: i64, digits: u32) -> Option<i64> {
    let step = from / from.min(10i64.pow(digits));
    if value % step != 0 {
        return None;
    }
    if to >= from {
        value.checked_mul(to / from)
    } else {
        Some(value / (from / to))
    }
}

pub(super) fn time(array: &ArrayRef, precision: u8, path: &str, to: &DataType) -> Converted {
    let (wide, unit) = match array.data_type() {
        Arrow::Time32(unit) => (cast(&cast(array, &Arrow::Int32)?, &Arrow::Int64)?, *unit),
        Arrow::Time64(unit) => (cast(array, &Arrow::Int64)?, *unit),
        _ => return Err(crate::Error::Misuse("times only").into()),
    };
    let from = per_second(unit);
    let digits = u32::from(precision.min(3));
    let reason = || match precision {
        0..=3 => format!("is not a time of day of {}", type_text(to)),
        _ => format!(
            "is not a time of day of {} (stored in milliseconds)",
            type_text(to)
        ),
    };
    let made: Time32MillisecondArray =
        try_map(wide.as_primitive::<Int64Type>(), array, path, reason, |v| {
            let millis = rescale(v, from, 1_000, digits)?;
            (0..MILLIS_PER_DAY)
                .contains(&millis)
                .then_some(millis as i32)
        })?;
    Ok(Arc::new(made))
}

pub(super) fn timestamp(
    array: &ArrayRef,
    precision: u8,
    target: &Arrow,
    path: &str,
    to: &DataType,
) -> Converted {
    let (Arrow::Timestamp(from, _), Arrow::Timestamp(unit, zone)) = (array.data_type(), target)
    else {
        return Err(crate::Error::Misuse("timestamps only").into());
    };
    let all_digits = matches!(precision, 3 | 6 | 9);
    if array.data_type() == target && all_digits {
        return Ok(array.clone());
    }
    let wide = cast(array, &Arrow::Int64)?;
    let wide = wide.as_primitive::<Int64Type>();
    let (per_from, per_to, digits) = (per_second(*from), per_second(*unit), u32::from(precision));
    let reason = || format!("does not fit {} exactly", type_text(to));
    let value = |v: i64| rescale(v, per_from, per_to, digits);
    Ok(match unit {
        TimeUnit::Microsecond => {
            let made: TimestampMicrosecondArray = try_map(wide, array, path, reason, value)?;
            Arc::new(made.with_timezone_opt(zone.clone()))
        }
        TimeUnit::Nanosecond => {
            let made: TimestampNanosecondArray = try_map(wide, array, path, reason, value)?;
            Arc::new(made.with_timezone_opt(zone.clone()))
        }
        TimeUnit::Millisecond | TimeUnit::Second => {
            let made: TimestampMillisecondArray = try_map(wide, array, path, reason, value)?;
            Arc::new(made.with_timezone_opt(zone.clone()))
        }
    })
}
