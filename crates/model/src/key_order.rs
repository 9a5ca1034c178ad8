//! The order of keys \[F-6.2]: how two trimmed primary keys in [`BinaryRow`] form compare.
//!
//! Owns the one order by which files of keyed tables are sorted, levels are checked for overlap and
//! sections are cut: column by column; integers, dates, times and timestamps as signed numbers,
//! decimals by value, texts and byte strings by unsigned bytes, `false` before `true`, null before
//! everything.
//!
//! FLOAT and DOUBLE: Java compares keys by `<` and `>` only, so that -0.0 equals 0.0, and a NaN equals
//! every value, which is no order at all \[F-14.1]. Here -0.0 equals 0.0 too, and NaN, whatever its
//! sign and payload, equals NaN and comes after all other values. Writers refuse NaN in a key.
//!
//! ```
//! use std::cmp::Ordering;
//! use tidegate_model::{BinaryRow, Datum, KeyOrder, LogicalType};
//!
//! let types = vec![LogicalType::STRING, LogicalType::Int];
//! let row = |text: &str, n: i32| {
//!     BinaryRow::from_datums(
//!         &[Some(Datum::String(text.into())), Some(Datum::Int(n))],
//!         &[LogicalType::STRING, LogicalType::Int],
//!     )
//! };
//! let order = KeyOrder::new(types);
//! assert_eq!(order.compare(&row("a", -1)?, &row("a", 1)?)?, Ordering::Less);
//! assert_eq!(order.compare(&row("é", 0)?, &row("z", 0)?)?, Ordering::Greater);
//! # Ok::<(), tidegate_model::Error>(())
//! ```

use crate::binary_row::{BinaryRow, BinaryRowReader};
use crate::data_type::LogicalType;
use crate::error::{Error, Result};
use crate::schema::TableSchema;
use std::cmp::Ordering;

/// Compares keys of one table. See the [module](self) for the rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyOrder {
    types: Vec<LogicalType>,
}

impl KeyOrder {
    /// The order of keys with these columns.
    pub fn new(types: Vec<LogicalType>) -> Self {
        Self { types }
    }

    /// The order of a table's trimmed primary key \[F-2.4]; of an append table all keys are empty and
    /// equal.
    ///
    /// # Errors
    /// Where a key column is missing, or of a type that cannot be a key.
    pub fn of(schema: &TableSchema) -> Result<Self> {
        let mut types = Vec::new();
        for name in schema.trimmed_primary_keys() {
            let Some(field) = schema.field(name) else {
                let what = format!("primary key column '{name}' is no column of the table");
                return Err(Error::Schema(what));
            };
            let logical = &field.data_type.logical;
            if let Some(why) = logical.unfit_as_key() {
                let what = format!("primary key column '{name}' of type {logical}: {why}");
                return Err(Error::Schema(what));
            }
            types.push(logical.clone());
        }
        Ok(Self { types })
    }

    /// Types of the columns, in key order.
    pub fn types(&self) -> &[LogicalType] {
        &self.types
    }

    /// Reads every column of a key: where this succeeds for two keys, comparing them does too.
    ///
    /// # Errors
    /// Where the row has another number of columns, or one does not decode.
    pub fn check(&self, key: &BinaryRow) -> Result<()> {
        let reader = self.reader(key)?;
        for (i, data_type) in self.types.iter().enumerate() {
            column(&reader, &reader, i, data_type)?;
        }
        Ok(())
    }

    /// Compares two keys.
    ///
    /// # Errors
    /// Where a row has another number of columns than the order, or a column that is looked at does
    /// not decode.
    pub fn compare(&self, a: &BinaryRow, b: &BinaryRow) -> Result<Ordering> {
        let (ra, rb) = (self.reader(a)?, self.reader(b)?);
        for (i, data_type) in self.types.iter().enumerate() {
            let ordering = column(&ra, &rb, i, data_type)?;
            if ordering != Ordering::Equal {
                return Ok(ordering);
            }
        }
        Ok(Ordering::Equal)
    }

    fn reader<'a>(&self, key: &'a BinaryRow) -> Result<BinaryRowReader<'a>> {
        if key.arity() as usize == self.types.len() {
            return Ok(key.reader());
        }
        Err(Error::Binary {
            structure: "row",
            at: 0,
            what: format!(
                "a key of {} columns, the primary key of the table has {} without partition columns",
                key.arity(),
                self.types.len()
            ),
        })
    }
}

/// A number whose order is that of keys: see the module's header.
fn by_value(v: f64) -> i64 {
    let v = if v.is_nan() { f64::NAN.abs() } else { v + 0.0 };
    let bits = v.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// One column; null first, as `Option` has it.
fn column(
    a: &BinaryRowReader<'_>,
    b: &BinaryRowReader<'_>,
    i: usize,
    data_type: &LogicalType,
) -> Result<Ordering> {
    use LogicalType as L;
    Ok(match data_type {
        L::Boolean => a.bool(i)?.cmp(&b.bool(i)?),
        L::TinyInt => a.i8(i)?.cmp(&b.i8(i)?),
        L::SmallInt => a.i16(i)?.cmp(&b.i16(i)?),
        L::Int | L::Date | L::Time(_) => a.i32(i)?.cmp(&b.i32(i)?),
        L::BigInt => a.i64(i)?.cmp(&b.i64(i)?),
        L::Float => {
            let key = |v: Option<f32>| v.map(|v| by_value(f64::from(v)));
            key(a.f32(i)?).cmp(&key(b.f32(i)?))
        }
        L::Double => a.f64(i)?.map(by_value).cmp(&b.f64(i)?.map(by_value)),
        // Of one column, so of one scale.
        L::Decimal { precision, .. } => a.decimal(i, *precision)?.cmp(&b.decimal(i, *precision)?),
        L::Char(_) | L::VarChar(_) | L::Binary(_) | L::VarBinary(_) => {
            a.bytes(i)?.cmp(&b.bytes(i)?)
        }
        L::Timestamp(p) | L::TimestampLtz(p) => a.timestamp(i, *p)?.cmp(&b.timestamp(i, *p)?),
        other => {
            return Err(Error::Schema(format!(
                "key column {i} of type {other}: {}",
                other.unfit_as_key().unwrap_or("its values do not compare")
            )));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datum::Datum;
    use proptest::prelude::*;

    fn row(value: Option<Datum>, data_type: &LogicalType) -> BinaryRow {
        BinaryRow::from_datums(&[value], std::slice::from_ref(data_type)).unwrap()
    }

    /// Each list ascends strictly; null is before all of it.
    fn ascends(data_type: LogicalType, values: Vec<Datum>) {
        let order = KeyOrder::new(vec![data_type.clone()]);
        let rows: Vec<_> = std::iter::once(None)
            .chain(values.into_iter().map(Some))
            .map(|v| row(v, &data_type))
            .collect();
        for (i, a) in rows.iter().enumerate() {
            order.check(a).unwrap();
            for (j, b) in rows.iter().enumerate() {
                assert_eq!(
                    order.compare(a, b).unwrap(),
                    i.cmp(&j),
                    "{data_type}: {i} {j}"
                );
            }
        }
    }

    #[test]
    fn columns_compare_by_value_and_null_comes_first() {
        let decimal = |unscaled, precision| Datum::Decimal {
            unscaled,
            precision,
            scale: 2,
        };
        let time = |millis, nanos_of_milli| Datum::Timestamp {
            millis,
            nanos_of_milli,
        };
        ascends(
            LogicalType::Boolean,
            vec![Datum::Boolean(false), Datum::Boolean(true)],
        );
        ascends(
            LogicalType::TinyInt,
            [-128, -1, 0, 127].map(Datum::TinyInt).into(),
        );
        ascends(
            LogicalType::SmallInt,
            [-256, -1, 0, 255, 256].map(Datum::SmallInt).into(),
        );
        ascends(
            LogicalType::Int,
            [i32::MIN, -1, 0, 256, i32::MAX].map(Datum::Int).into(),
        );
        ascends(
            LogicalType::BigInt,
            [i64::MIN, -1, 0, i64::MAX].map(Datum::BigInt).into(),
        );
        ascends(
            LogicalType::Date,
            [-719_162, -1, 0, 1].map(Datum::Date).into(),
        );
        ascends(
            LogicalType::Time(3),
            [0, 255, 256, 86_399_999].map(Datum::TimeMillis).into(),
        );
        ascends(
            LogicalType::Float,
            [
                f32::NEG_INFINITY,
                -1.5,
                0.0,
                f32::MIN_POSITIVE,
                f32::INFINITY,
                f32::NAN,
            ]
            .map(Datum::Float)
            .into(),
        );
        ascends(
            LogicalType::Double,
            [
                f64::NEG_INFINITY,
                -1.5,
                -0.0,
                1e-300,
                f64::INFINITY,
                -f64::NAN,
            ]
            .map(Datum::Double)
            .into(),
        );
        for precision in [10, 38] {
            ascends(
                LogicalType::Decimal {
                    precision,
                    scale: 2,
                },
                [-70_000, -256, -1, 0, 9, 255, 256, 70_000]
                    .map(|v| decimal(v, precision))
                    .into(),
            );
        }
        ascends(
            LogicalType::STRING,
            [
                "",
                "a",
                "a longer one",
                "a longer two",
                "b",
                "é",
                "\u{ffff}",
                "😀",
            ]
            .map(|t| Datum::String(t.into()))
            .into(),
        );
        ascends(
            LogicalType::BYTES,
            [
                vec![],
                vec![0],
                vec![0, 0],
                vec![127],
                vec![128],
                vec![255; 9],
            ]
            .map(Datum::Bytes)
            .into(),
        );
        ascends(
            LogicalType::Timestamp(3),
            [-1, 0, 1].map(|m| time(m, 0)).into(),
        );
        ascends(
            LogicalType::TimestampLtz(9),
            vec![time(-1, 0), time(-1, 999_999), time(0, 0), time(0, 1)],
        );
    }

    #[test]
    fn zeros_of_both_signs_and_all_nans_are_one_key() {
        let order = KeyOrder::new(vec![LogicalType::Double]);
        let equal = |a: f64, b: f64| {
            let (a, b) = (Some(Datum::Double(a)), Some(Datum::Double(b)));
            order
                .compare(&row(a, &LogicalType::Double), &row(b, &LogicalType::Double))
                .unwrap()
                == Ordering::Equal
        };
        assert!(equal(-0.0, 0.0));
        assert!(equal(f64::NAN, -f64::NAN));
        assert!(equal(f64::NAN, f64::from_bits(0x7ff8_0000_0000_0001)));
        assert!(!equal(f64::NAN, f64::INFINITY));
    }

    #[test]
    fn a_key_of_another_table_is_an_error() {
        let order = KeyOrder::new(vec![LogicalType::Int, LogicalType::Int]);
        let one = row(Some(Datum::Int(1)), &LogicalType::Int);
        let error = order.compare(&one, &one).unwrap_err().to_string();
        assert_eq!(
            error,
            "binary row, byte 0: a key of 1 columns, the primary key of the table has 2 without \
             partition columns"
        );
        assert!(order.check(&BinaryRow::empty()).is_err());
    }

    #[test]
    fn later_columns_decide_only_where_earlier_ones_are_equal() {
        let types = [LogicalType::Int, LogicalType::STRING];
        let order = KeyOrder::new(types.to_vec());
        let key = |n, text: &str| {
            BinaryRow::from_datums(
                &[Some(Datum::Int(n)), Some(Datum::String(text.into()))],
                &types,
            )
            .unwrap()
        };
        assert_eq!(
            order.compare(&key(1, "z"), &key(2, "a")).unwrap(),
            Ordering::Less
        );
        assert_eq!(
            order.compare(&key(2, "b"), &key(2, "a")).unwrap(),
            Ordering::Greater
        );
    }

    proptest! {
        /// Hostile bytes: an error or an order, never a panic.
        #[test]
        fn any_bytes_compare_or_are_refused(a in prop::collection::vec(any::<u8>(), 0..64),
                                            b in prop::collection::vec(any::<u8>(), 0..64)) {
            for t in [LogicalType::STRING, LogicalType::Decimal { precision: 38, scale: 0 },
                      LogicalType::Timestamp(9), LogicalType::Double, LogicalType::SmallInt] {
                let order = KeyOrder::new(vec![t]);
                let rows = (BinaryRow::from_bytes(1, a.clone()), BinaryRow::from_bytes(1, b.clone()));
                if let (Ok(a), Ok(b)) = rows {
                    let forth = order.compare(&a, &b);
                    if order.check(&a).is_ok() && order.check(&b).is_ok() {
                        prop_assert_eq!(forth.unwrap(), order.compare(&b, &a).unwrap().reverse());
                    }
                }
            }
        }
    }
}
