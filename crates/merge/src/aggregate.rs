//! Columns of merged rows: a function applied to the steps of each group.
//!
//! Where a function picks values, the result is one `interleave` of the columns that came; where it
//! computes, accumulators of the column's own type. No row is ever an object.

mod bitmap;
mod list;
mod map;
mod number;
mod pick;
mod text;

use crate::engine::{Groups, Op, RowRef, Steps};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::spec::function::Function;
use crate::spec::rules::ColumnRule;
use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::interleave;

/// A column to be merged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column<'a> {
    pub(crate) name: &'a str,
    pub(crate) rule: &'a ColumnRule,
    pub(crate) steps: &'a Steps,
    /// By batch.
    pub(crate) arrays: &'a [ArrayRef],
    pub(crate) groups: Groups<'a>,
    pub(crate) layout: &'a Layout,
}

impl<'a> Column<'a> {
    /// One value per group.
    pub(crate) fn merge(self) -> Result<ArrayRef> {
        match &self.rule.function {
            Function::Key
            | Function::Overwrite
            | Function::Ordering
            | Function::LastValue
            | Function::LastNonNull
            | Function::FirstValue
            | Function::FirstNonNull
            | Function::Max
            | Function::Min => pick::merge(self),
            Function::Sum | Function::Product => number::merge(self),
            Function::BoolAnd => text::booleans(self, |a, b| a && b),
            Function::BoolOr => text::booleans(self, |a, b| a || b),
            Function::ListAgg {
                delimiter,
                distinct,
            } => text::list_agg(self, delimiter, *distinct),
            Function::Collect { distinct } => list::collect(self, *distinct),
            Function::NestedUpdate {
                key,
                sequence,
                nulls,
                limit,
            } => list::nested_update(
                self,
                list::Nested {
                    key,
                    sequence,
                    nulls: *nulls,
                    limit: *limit,
                },
            ),
            Function::NestedPartialUpdate { key, nulls } => {
                let nested = list::Nested {
                    key,
                    sequence: &[],
                    nulls: *nulls,
                    limit: usize::MAX,
                };
                list::nested_partial_update(self, nested)
            }
            Function::MergeMap => map::merge(self, None),
            Function::MergeMapWithKeyTime { time } => map::merge(self, Some(*time)),
            Function::Bitmap32 => bitmap::bitmaps(self),
            Function::HllSketch => bitmap::hll_sketches(self),
            Function::ThetaSketch => bitmap::theta_sketches(self),
        }
    }

    /// Steps of each group that the column takes part in.
    fn groups(self) -> impl Iterator<Item = impl Iterator<Item = (Op, RowRef)> + 'a> {
        let ignores = self.rule.ignores_retracts;
        self.steps.groups().map(move |group| {
            let retracts = |op: Op| matches!(op, Op::Retract | Op::RetractOlder);
            group
                .iter()
                .copied()
                .filter(move |(op, _)| !(ignores && retracts(*op)))
        })
    }

    fn array(self, row: RowRef) -> Option<&'a ArrayRef> {
        self.arrays.get(row.batch as usize)
    }

    fn is_null(self, row: RowRef) -> bool {
        self.array(row)
            .is_none_or(|a| row.row() >= a.len() || a.is_null(row.row()))
    }

    fn refuse(self, row: RowRef, what: impl std::fmt::Display) -> Error {
        Error::Rows {
            key: self.groups.describe(self.layout, row),
            what: format!("column '{}': {what}", self.name),
        }
    }

    /// What a function without a meaning for retracts says.
    fn takes_no_retracts(self, row: RowRef) -> Error {
        let what = format!(
            "its aggregate function takes no retracts, and a version of the row is one; set \
             'fields.{}.ignore-retract' = 'true' to let the column keep its value",
            self.name
        );
        self.refuse(row, what)
    }

    /// The arrays as what they are.
    fn typed<T: Array + 'static>(self) -> Result<Vec<&'a T>> {
        let typed: Option<Vec<&T>> = self
            .arrays
            .iter()
            .map(|a| a.as_any().downcast_ref::<T>())
            .collect();
        typed.ok_or_else(|| {
            let found = self
                .arrays
                .first()
                .map_or("nothing".to_owned(), |a| a.data_type().to_string());
            Error::Column {
                column: self.name.to_owned(),
                what: format!("comes as {found}, which its aggregate function does not take"),
            }
        })
    }
}

/// Values by reference, null where there is none.
pub(crate) fn select(arrays: &[ArrayRef], picks: &[Option<RowRef>]) -> Result<ArrayRef> {
    let mut columns: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    let Some(first) = arrays.first() else {
        return Err(Error::Batch(
            "there are no batches to take values from".into(),
        ));
    };
    let null = new_null_array(first.data_type(), 1);
    let nothing = (columns.len(), 0);
    columns.push(null.as_ref());
    let place = |pick: &Option<RowRef>| pick.map_or(nothing, |r| (r.batch as usize, r.row()));
    let places: Vec<_> = picks.iter().map(place).collect();
    Ok(interleave(&columns, &places)?)
}

#[cfg(test)]
mod tests;
