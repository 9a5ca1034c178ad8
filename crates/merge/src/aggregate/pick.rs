//! Functions that pick one of the values.

use super::{Column, select};
use crate::engine::{Op, RowRef};
use crate::error::Result;
use crate::sort_key::one_nan;
use crate::spec::function::Function;
use arrow::array::ArrayRef;
use arrow::row::{RowConverter, Rows, SortField};

pub(super) fn merge(column: Column<'_>) -> Result<ArrayRef> {
    let order = match column.rule.function {
        Function::Max | Function::Min => Some(order(column)?),
        _ => None,
    };
    let mut picks = Vec::with_capacity(column.steps.len());
    for group in column.groups() {
        let mut value: Option<RowRef> = None;
        let mut started = false;
        for (op, row) in group {
            let given = (!column.is_null(row)).then_some(row);
            value = match op {
                Op::Set => given,
                _ => step(
                    column,
                    order.as_deref(),
                    op,
                    value,
                    (row, given),
                    &mut started,
                )?,
            };
        }
        picks.push(value);
    }
    select(column.arrays, &picks)
}

/// `started`: first_value has seen a value, first_non_null_value one that is not null.
fn step(
    column: Column<'_>,
    order: Option<&[Rows]>,
    op: Op,
    value: Option<RowRef>,
    (row, given): (RowRef, Option<RowRef>),
    started: &mut bool,
) -> Result<Option<RowRef>> {
    let retracts = matches!(op, Op::Retract | Op::RetractOlder);
    let function = &column.rule.function;
    Ok(match function {
        Function::Key => given,
        Function::Overwrite => match op {
            Op::Add => given,
            Op::Retract => None,
            _ => value,
        },
        Function::Ordering => match op {
            Op::Add | Op::Retract => given,
            _ => value,
        },
        Function::LastValue if retracts => None,
        Function::LastValue if op == Op::AddOlder => value,
        Function::LastValue => given,
        Function::LastNonNull if retracts => value.filter(|_| given.is_none()),
        Function::LastNonNull if op == Op::AddOlder => value.or(given),
        Function::LastNonNull => given.or(value),
        _ if retracts => return Err(column.takes_no_retracts(row)),
        Function::FirstValue if *started && op == Op::Add => value,
        Function::FirstValue => {
            *started = true;
            given
        }
        Function::FirstNonNull if op == Op::AddOlder => given.or(value),
        Function::FirstNonNull if *started || given.is_none() => value,
        Function::FirstNonNull => {
            *started = true;
            given
        }
        _ => match (value, given) {
            (Some(a), Some(b)) => {
                let bytes = |row: RowRef| Some(order?.get(row.batch as usize)?.row(row.row()));
                let takes = match function {
                    Function::Min => bytes(b) < bytes(a),
                    _ => bytes(b) > bytes(a),
                };
                Some(if takes { b } else { a })
            }
            (a, b) => a.or(b),
        },
    })
}

/// Java's order of values: NaN above everything, -0.0 below 0.0.
fn order(column: Column<'_>) -> Result<Vec<Rows>> {
    let Some(first) = column.arrays.first() else {
        return Ok(Vec::new());
    };
    let converter = RowConverter::new(vec![SortField::new(first.data_type().clone())])?;
    let rows = |array: &ArrayRef| converter.convert_columns(&[one_nan(array.clone())]);
    Ok(column
        .arrays
        .iter()
        .map(rows)
        .collect::<std::result::Result<_, _>>()?)
}
