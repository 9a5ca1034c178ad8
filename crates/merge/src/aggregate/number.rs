//! `sum` and `product`. Integers never wrap: what does not fit is an error that names the key. A
//! decimal that does not fit is null, as with Java.

use super::Column;
use crate::engine::Op;
use crate::error::{Error, Result};
use crate::spec::function::Function;
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    i256,
};
use std::fmt::Display;
use std::sync::Arc;

/// Arithmetic of a native type; `None` = the result does not fit, or there is none.
trait Number: Copy + Display {
    fn plus(self, other: Self) -> Option<Self>;
    fn minus(self, other: Self) -> Option<Self>;
    fn times(self, other: Self) -> Option<Self>;
    fn over(self, other: Self) -> Option<Self>;
    fn negated(self) -> Option<Self>;
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Number for $t {
            fn plus(self, other: Self) -> Option<Self> { self.checked_add(other) }
            fn minus(self, other: Self) -> Option<Self> { self.checked_sub(other) }
            fn times(self, other: Self) -> Option<Self> { self.checked_mul(other) }
            fn over(self, other: Self) -> Option<Self> { self.checked_div(other) }
            fn negated(self) -> Option<Self> { self.checked_neg() }
        }
    )*};
}
macro_rules! floats {
    ($($t:ty),*) => {$(
        impl Number for $t {
            fn plus(self, other: Self) -> Option<Self> { Some(self + other) }
            fn minus(self, other: Self) -> Option<Self> { Some(self - other) }
            fn times(self, other: Self) -> Option<Self> { Some(self * other) }
            fn over(self, other: Self) -> Option<Self> { Some(self / other) }
            fn negated(self) -> Option<Self> { Some(-self) }
        }
    )*};
}
integers!(i8, i16, i32, i64);
floats!(f32, f64);

/// What is done with the value so far and a new one; the error says what does not work.
type Step<'s, N> = &'s dyn Fn(N, N) -> Result<Option<N>, String>;

/// The steps of a function; `take_from_nothing` is what a retract makes of a null.
struct Steps<'s, N> {
    add: Step<'s, N>,
    take: Step<'s, N>,
    take_from_nothing: &'s dyn Fn(N) -> Result<Option<N>, String>,
}

pub(super) fn merge(column: Column<'_>) -> Result<ArrayRef> {
    let Some(first) = column.arrays.first() else {
        return Err(Error::Batch(
            "there are no batches to take values from".into(),
        ));
    };
    match first.data_type() {
        DataType::Int8 => plain::<Int8Type>(column),
        DataType::Int16 => plain::<Int16Type>(column),
        DataType::Int32 => plain::<Int32Type>(column),
        DataType::Int64 => plain::<Int64Type>(column),
        DataType::Float32 => plain::<Float32Type>(column),
        DataType::Float64 => plain::<Float64Type>(column),
        DataType::Decimal128(precision, scale) => decimals(column, *precision, *scale),
        other => Err(Error::Column {
            column: column.name.to_owned(),
            what: format!("comes as {other}, which is no number"),
        }),
    }
}

fn plain<T: ArrowPrimitiveType<Native: Number>>(column: Column<'_>) -> Result<ArrayRef> {
    let checked = |word: &'static str, f: fn(T::Native, T::Native) -> Option<T::Native>| {
        move |a: T::Native, b: T::Native| match f(a, b) {
            Some(value) => Ok(Some(value)),
            None => Err(format!(
                "{a} {word} {b} does not fit its type {}; change the column to a wider type",
                name_of(&T::DATA_TYPE)
            )),
        }
    };
    let add = checked("+", T::Native::plus);
    let subtract = checked("-", T::Native::minus);
    let multiply = checked("*", T::Native::times);
    let divide = checked("/", T::Native::over);
    let negate = |v: T::Native| match v.negated() {
        Some(value) => Ok(Some(value)),
        None => Err(format!(
            "-({v}) does not fit its type {}; change the column to a wider type",
            name_of(&T::DATA_TYPE)
        )),
    };
    let steps: Steps<'_, T::Native> = match column.rule.function {
        Function::Sum => Steps {
            add: &add,
            take: &subtract,
            take_from_nothing: &negate,
        },
        _ => Steps {
            add: &multiply,
            take: &divide,
            take_from_nothing: &|_| Ok(None),
        },
    };
    fold::<T>(column, &steps)
}

/// The table's name of a type.
fn name_of(arrow: &DataType) -> String {
    match arrow {
        DataType::Int8 => "TINYINT".to_owned(),
        DataType::Int16 => "SMALLINT".to_owned(),
        DataType::Int32 => "INT".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::Float32 => "FLOAT".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        other => other.to_string(),
    }
}

fn fold<T: ArrowPrimitiveType>(
    column: Column<'_>,
    steps: &Steps<'_, T::Native>,
) -> Result<ArrayRef> {
    let arrays = column.typed::<PrimitiveArray<T>>()?;
    let mut out = Vec::with_capacity(column.steps.len());
    for group in column.groups() {
        let mut value: Option<T::Native> = None;
        for (op, row) in group {
            let array = arrays.get(row.batch as usize);
            let given = array
                .filter(|_| !column.is_null(row))
                .map(|a| a.value(row.row()));
            let stepped = match (op, value, given) {
                (Op::Set, _, given) => Ok(given),
                (_, value, None) => Ok(value),
                (Op::Add | Op::AddOlder, None, given) => Ok(given),
                (Op::Add | Op::AddOlder, Some(value), Some(given)) => (steps.add)(value, given),
                (Op::Retract | Op::RetractOlder, None, Some(given)) => {
                    (steps.take_from_nothing)(given)
                }
                (Op::Retract | Op::RetractOlder, Some(value), Some(given)) => {
                    (steps.take)(value, given)
                }
            };
            value = stepped.map_err(|what| column.refuse(row, what))?;
        }
        out.push(value);
    }
    let data_type = arrays
        .first()
        .map_or(T::DATA_TYPE, |a| a.data_type().clone());
    Ok(Arc::new(
        PrimitiveArray::<T>::from_iter(out).with_data_type(data_type),
    ))
}

fn decimals(column: Column<'_>, precision: u8, scale: i8) -> Result<ArrayRef> {
    let bound = 10i128
        .checked_pow(u32::from(precision))
        .unwrap_or(i128::MAX);
    let fits = move |v: Option<i128>| v.filter(|v| v.unsigned_abs() < bound.unsigned_abs());
    let power = 10i128
        .checked_pow(u32::try_from(scale).unwrap_or(0))
        .unwrap_or(1);
    let add = move |a: i128, b: i128| Ok(fits(a.checked_add(b)));
    let subtract = move |a: i128, b: i128| Ok(fits(a.checked_sub(b)));
    // (a × b) / 10^(2 × scale), back to the scale.
    let multiply = move |a: i128, b: i128| Ok(fits(rounded(wide(a, b), power)));
    // Both have the scale, so it cancels out and is put back.
    let divide = move |a: i128, b: i128| match ends(a, b) {
        true => Ok(fits(rounded(wide(a, power), b))),
        false => Err(format!(
            "{a} / {b} (without their decimal points) has no exact decimal result; send the product \
             anew instead of taking back a factor"
        )),
    };
    let steps: Steps<'_, i128> = match column.rule.function {
        Function::Sum => Steps {
            add: &add,
            take: &subtract,
            take_from_nothing: &|v: i128| Ok(v.checked_neg()),
        },
        _ => Steps {
            add: &multiply,
            take: &divide,
            take_from_nothing: &|_| Ok(None),
        },
    };
    fold::<Decimal128Type>(column, &steps)
}

fn wide(a: i128, b: i128) -> Option<i256> {
    i256::from_i128(a).checked_mul(i256::from_i128(b))
}

/// Half up, away from zero, as Java rounds.
fn rounded(number: Option<i256>, by: i128) -> Option<i128> {
    let (number, by) = (number?, i256::from_i128(by));
    let quotient = number.checked_div(by)?;
    let rest = number.checked_rem(by)?;
    let twice = rest.wrapping_abs().checked_mul(i256::from_i128(2))?;
    let up = twice >= by.wrapping_abs();
    let away = if (number < i256::ZERO) == (by < i256::ZERO) {
        i256::ONE
    } else {
        i256::MINUS_ONE
    };
    let value = if up {
        quotient.checked_add(away)?
    } else {
        quotient
    };
    value.to_i128()
}

/// True where a / b has finitely many digits.
fn ends(a: i128, b: i128) -> bool {
    let (mut x, mut y) = (a.unsigned_abs(), b.unsigned_abs());
    let divisor = y;
    if divisor == 0 {
        return false;
    }
    while y != 0 {
        (x, y) = (y, x % y);
    }
    let mut rest = divisor / x;
    for factor in [2, 5] {
        while rest % factor == 0 {
            rest /= factor;
        }
    }
    rest == 1
}
