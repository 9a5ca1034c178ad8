//! `listagg`, and `bool_and` and `bool_or`.

use super::Column;
use crate::engine::Op;
use crate::error::Result;
use arrow::array::{ArrayRef, BooleanArray, StringArray, StringBuilder};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

pub(super) fn booleans(column: Column<'_>, join: fn(bool, bool) -> bool) -> Result<ArrayRef> {
    let arrays = column.typed::<BooleanArray>()?;
    let mut out = Vec::with_capacity(column.steps.len());
    for group in column.groups() {
        let mut value: Option<bool> = None;
        for (op, row) in group {
            let array = arrays.get(row.batch as usize);
            let given = array
                .filter(|_| !column.is_null(row))
                .map(|a| a.value(row.row()));
            value = match (op, value, given) {
                (Op::Set, _, given) => given,
                (Op::Retract | Op::RetractOlder, ..) => return Err(column.takes_no_retracts(row)),
                (_, Some(a), Some(b)) => Some(join(a, b)),
                (_, a, b) => a.or(b),
            };
        }
        out.push(value);
    }
    Ok(Arc::new(BooleanArray::from(out)))
}

pub(super) fn list_agg(column: Column<'_>, delimiter: &str, distinct: bool) -> Result<ArrayRef> {
    let arrays = column.typed::<StringArray>()?;
    let mut out = StringBuilder::with_capacity(column.steps.len(), 0);
    for group in column.groups() {
        let mut text: Option<Cow<'_, str>> = None;
        for (op, row) in group {
            let array = arrays.get(row.batch as usize);
            let given = array
                .filter(|_| !column.is_null(row))
                .map(|a| Cow::Borrowed(a.value(row.row())));
            text = match op {
                Op::Set => given,
                Op::Add => joined(text, given, delimiter, distinct),
                Op::AddOlder => joined(given, text, delimiter, distinct),
                Op::Retract | Op::RetractOlder => return Err(column.takes_no_retracts(row)),
            };
        }
        out.append_option(text);
    }
    Ok(Arc::new(out.finish()))
}

/// An empty text adds nothing to another one and is replaced by it; blanks are text, as released Java has it.
fn joined<'a>(
    text: Option<Cow<'a, str>>,
    given: Option<Cow<'a, str>>,
    delimiter: &str,
    distinct: bool,
) -> Option<Cow<'a, str>> {
    let (text, given) = match (text, given) {
        (Some(text), Some(given)) => (text, given),
        (text, given) => return text.or(given),
    };
    if given.is_empty() {
        return Some(text);
    }
    if text.is_empty() {
        return Some(given);
    }
    let mut out = text.clone().into_owned();
    if distinct {
        let mut seen: HashSet<&str> = text.split(delimiter).collect();
        for part in given.split(delimiter) {
            if !part.is_empty() && seen.insert(part) {
                out.push_str(delimiter);
                out.push_str(part);
            }
        }
    } else {
        out.push_str(delimiter);
        out.push_str(&given);
    }
    Some(Cow::Owned(out))
}
