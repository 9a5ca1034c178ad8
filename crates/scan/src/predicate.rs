//! Conditions on rows: `column op literal`, joined by AND.
//!
//! Owns what a condition means, on rows and on what is known of many rows at once (a partition, the
//! statistics of a file). As in SQL a comparison with null is not fulfilled. Numbers compare as in Java:
//! NaN above everything, -0.0 below 0.0; texts by their bytes.

mod literal;
mod parse;

use crate::error::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, Scalar};
use arrow::compute::{and, is_not_null, is_null, kernels::cmp};
use arrow::datatypes::{DataType as Arrow, Float32Type, Float64Type};
use std::cmp::Ordering;
use std::sync::Arc;
use tidegate_datafile::constant;
use tidegate_model::{DataField, Datum, TableSchema};

/// How a column is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>` or `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

/// One condition.
#[derive(Clone, Debug, PartialEq)]
enum Condition {
    Compare(Comparison, Datum),
    Null,
    NotNull,
}

/// A condition on a column.
#[derive(Clone, Debug, PartialEq)]
struct Term {
    field: DataField,
    condition: Condition,
}

/// Conditions that all have to hold.
///
/// ```
/// use tidegate_model::{DataField, Options, TableSchema};
/// use tidegate_scan::Predicate;
///
/// let columns = vec![
///     DataField::new("id", "INT".parse()?),
///     DataField::new("dt", "DATE".parse()?),
/// ];
/// let schema = TableSchema::create(columns, vec![], vec![], Options::new(), None, 0)?;
/// let wanted = Predicate::parse("id >= 10 AND dt <> '2024-01-01' and id is not null", &schema)?;
/// assert_eq!(wanted.columns().collect::<Vec<_>>(), ["id", "dt", "id"]);
/// let error = Predicate::parse("id = 'x'", &schema).unwrap_err();
/// assert_eq!(error.to_string(), "condition `id = 'x'`: column `id` is INT, which 'x' is not");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Predicate {
    terms: Vec<Term>,
}

/// What is known of a column in many rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) min: Option<Datum>,
    pub(crate) max: Option<Datum>,
    /// How many of the rows have a null there.
    pub(crate) nulls: Option<i64>,
}

impl Predicate {
    /// Reads a text such as `a = 1 and b > 'x'`. Columns that are no plain names stand in backquotes.
    ///
    /// # Errors
    /// [`Error::Condition`] names what is wrong.
    pub fn parse(text: &str, schema: &TableSchema) -> Result<Self> {
        parse::parse(text, schema).map_err(|why| Error::Condition {
            text: text.trim().to_owned(),
            why,
        })
    }

    /// Names of the columns, each as often as it is compared.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(|t| t.field.name.as_str())
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = &DataField> {
        self.terms.iter().map(|t| &t.field)
    }

    /// Whether rows may fulfil it, `known` being what is known of a column in `rows` rows. True where
    /// nothing is known.
    pub(crate) fn may_hold(&self, rows: i64, known: impl Fn(&DataField) -> Option<Known>) -> bool {
        self.terms.iter().all(|term| match known(&term.field) {
            Some(known) => term.condition.may_hold(rows, &known),
            None => true,
        })
    }

    /// Which rows of a batch fulfil it; columns are found by name.
    ///
    /// # Errors
    /// Where the batch does not have the columns.
    pub fn matches(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        self.holds("rows to compare", batch)
    }

    pub(crate) fn holds(&self, file: &str, batch: &RecordBatch) -> Result<BooleanArray> {
        let mut all: Option<BooleanArray> = None;
        for term in &self.terms {
            let column = batch.column_by_name(&term.field.name);
            let column = column.ok_or_else(|| Error::Inconsistent {
                file: file.to_owned(),
                what: format!("column `{}` was not read", term.field.name),
            })?;
            let one = term.holds(column).map_err(tidegate_datafile::Error::from)?;
            all = Some(match all {
                Some(before) => and(&before, &one).map_err(tidegate_datafile::Error::from)?,
                None => one,
            });
        }
        Ok(all.unwrap_or_else(|| BooleanArray::from(vec![true; batch.num_rows()])))
    }
}

impl Term {
    fn holds(&self, column: &ArrayRef) -> Result<BooleanArray, arrow::error::ArrowError> {
        let (comparison, value) = match &self.condition {
            Condition::Null => return is_null(column),
            Condition::NotNull => return is_not_null(column),
            Condition::Compare(comparison, value) => (comparison, value),
        };
        let value = constant(&self.field, Some(value), 1)
            .map_err(|e| arrow::error::ArrowError::ComputeError(e.to_string()))?;
        let column = &one_nan(column);
        let value = Scalar::new(one_nan(&value));
        let found = match comparison {
            Comparison::Equal => cmp::eq(column, &value),
            Comparison::NotEqual => cmp::neq(column, &value),
            Comparison::Less => cmp::lt(column, &value),
            Comparison::AtMost => cmp::lt_eq(column, &value),
            Comparison::Greater => cmp::gt(column, &value),
            Comparison::AtLeast => cmp::gt_eq(column, &value),
        }?;
        // Neither true nor false is not fulfilled.
        Ok(match found.nulls() {
            None => found,
            Some(known) => BooleanArray::new(found.values() & known.inner(), None),
        })
    }
}

/// Arrow orders NaN by sign and payload, Java knows one.
fn one_nan(column: &ArrayRef) -> ArrayRef {
    let nan = f64::NAN.abs();
    match column.data_type() {
        Arrow::Float32 => {
            let floats = column.as_primitive::<Float32Type>();
            let one = |v: f32| if v.is_nan() { nan as f32 } else { v };
            Arc::new(floats.unary::<_, Float32Type>(one))
        }
        Arrow::Float64 => {
            let floats = column.as_primitive::<Float64Type>();
            let one = |v: f64| if v.is_nan() { nan } else { v };
            Arc::new(floats.unary::<_, Float64Type>(one))
        }
        _ => column.clone(),
    }
}

impl Condition {
    fn may_hold(&self, rows: i64, known: &Known) -> bool {
        let all_null = known.nulls == Some(rows);
        let (comparison, value) = match self {
            Self::Null => return known.nulls != Some(0),
            Self::NotNull => return !all_null,
            Self::Compare(comparison, value) => (comparison, value),
        };
        if all_null {
            return false;
        }
        let least = known.min.as_ref().and_then(|min| min.compare(value));
        let most = known.max.as_ref().and_then(|max| max.compare(value));
        match comparison {
            Comparison::Equal => least != Some(Ordering::Greater) && most != Some(Ordering::Less),
            // Bounds of texts may be cut, so two that are equal do not mean one value.
            Comparison::NotEqual => true,
            Comparison::Less => least.is_none_or(Ordering::is_lt),
            Comparison::AtMost => least.is_none_or(Ordering::is_le),
            Comparison::Greater => most.is_none_or(Ordering::is_gt),
            Comparison::AtLeast => most.is_none_or(Ordering::is_ge),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int32Array, StringArray};
    use tidegate_model::Options;

    fn schema() -> TableSchema {
        let columns = [
            ("a", "INT"),
            ("b", "STRING"),
            ("d", "DOUBLE"),
            ("my column", "DECIMAL(10, 2)"),
            ("t", "TIMESTAMP(3)"),
        ];
        let columns = columns.map(|(name, ty)| DataField::new(name, ty.parse().unwrap()));
        TableSchema::create(columns.to_vec(), vec![], vec![], Options::new(), None, 0).unwrap()
    }

    fn parse(text: &str) -> Predicate {
        Predicate::parse(text, &schema()).unwrap()
    }

    #[test]
    fn nulls_fulfil_no_comparison() {
        let batch = RecordBatch::try_from_iter([
            (
                "a",
                Arc::new(Int32Array::from(vec![Some(1), None, Some(3)])) as ArrayRef,
            ),
            (
                "b",
                Arc::new(StringArray::from(vec![Some("x"), Some("y"), None])) as ArrayRef,
            ),
            (
                "d",
                Arc::new(Float64Array::from(vec![-0.0, f64::NAN, -f64::NAN])) as ArrayRef,
            ),
        ])
        .unwrap();
        let held = |text: &str| -> Vec<bool> {
            let held = parse(text).holds("f", &batch).unwrap();
            assert_eq!(held.null_count(), 0);
            held.values().iter().collect()
        };
        assert_eq!(held("a = 1"), [true, false, false]);
        assert_eq!(held("a <> 1"), [false, false, true]);
        assert_eq!(held("a is null"), [false, true, false]);
        assert_eq!(held("b IS NOT NULL and a >= 1"), [true, false, false]);
        assert_eq!(held("b <= 'x'"), [true, false, false]);
        assert_eq!(held("d >= 1e300"), [false, true, true]);
        assert_eq!(held("d < 0"), [true, false, false]);
    }

    #[test]
    fn statistics_rule_out_only_what_cannot_be() {
        let known = |min: Option<i32>, max: Option<i32>, nulls| Known {
            min: min.map(Datum::Int),
            max: max.map(Datum::Int),
            nulls,
        };
        let may = |text: &str, known: &Known| parse(text).may_hold(10, |_| Some(known.clone()));
        let some = known(Some(5), Some(9), Some(0));
        for (text, expected) in [
            ("a = 4", false),
            ("a = 5", true),
            ("a = 10", false),
            ("a < 5", false),
            ("a <= 5", true),
            ("a > 9", false),
            ("a >= 9", true),
            ("a <> 5", true),
            ("a is null", false),
            ("a is not null", true),
            ("a > 1 and a > 9", false),
        ] {
            assert_eq!(may(text, &some), expected, "{text}");
        }
        let nothing = known(None, None, None);
        assert!(may("a = 4", &nothing) && may("a is null", &nothing));
        let nulls = known(None, None, Some(10));
        assert!(!may("a = 4", &nulls) && !may("a is not null", &nulls) && may("a is null", &nulls));
        assert!(parse("a = 4").may_hold(10, |_| None));
    }

    #[test]
    fn what_is_no_condition_is_named() {
        for (text, why) in [
            ("", "expected `column op literal`"),
            ("a", "behind `a`"),
            ("a ~ 1", "unexpected `~`"),
            ("c = 1", "no column `c`"),
            ("a = ", "literal"),
            ("a = 1 b = 2", "AND"),
            ("a = 1 or b = 'x'", "only AND"),
            ("a = 3000000000", "a` is INT"),
            ("b = 'x", "no end"),
            ("`my column` = 1.234", "DECIMAL(10, 2)"),
            ("t = '2024-13-01 00:00:00'", "TIMESTAMP(3)"),
            ("a = null", "IS NULL"),
        ] {
            let error = Predicate::parse(text, &schema()).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        for good in [
            "`my column` = 1.5 AND t > '2024-01-01 12:30:00.123'",
            "b = 'it''s' and a=-1",
            "t < '2024-01-01'",
        ] {
            parse(good);
        }
    }
}
