//! One value repeated: columns whose value stands beside a file and not in it.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, StringArray, Time32MillisecondArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, UInt32Array,
    new_null_array,
};
use arrow::compute::take;
use arrow::datatypes::TimeUnit;
use tidegate_model::{DataField, Datum, LogicalType};

use crate::error::{Error, Result};
use crate::types::{Use, arrow_type, time_unit};

/// `rows` times the same value as a column of the canonical Arrow type of `field`: partition values,
/// which a reader takes from the manifest, since files that were taken over from elsewhere (Hive) do
/// not hold them.
///
/// # Errors
/// [`Error::UnsupportedType`] for a type that cannot be held; [`Error::Value`] where the value is of
/// another type than the field, or null where the field is `NOT NULL`, or a timestamp that Arrow's
/// nanoseconds cannot hold.
///
/// ```
/// use arrow::array::AsArray;
/// use tidegate_datafile::constant;
/// use tidegate_model::{DataField, Datum};
///
/// let dt = DataField::new("dt", "STRING".parse()?);
/// let column = constant(&dt, Some(&Datum::String("2024-01-01".into())), 3)?;
/// assert_eq!(column.as_string::<i32>().value(2), "2024-01-01");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn constant(field: &DataField, value: Option<&Datum>, rows: usize) -> Result<ArrayRef> {
    let arrow = arrow_type(&field.data_type, &field.name, field.id.0, 0, Use::Rows)?;
    let Some(value) = value else {
        return if field.data_type.nullable || rows == 0 {
            Ok(new_null_array(&arrow, rows))
        } else {
            Err(Error::Null {
                column: field.name.clone(),
                row: 0,
            })
        };
    };
    let one = single(&field.data_type.logical, value).ok_or_else(|| Error::Value {
        column: field.name.clone(),
        row: 0,
        value: format!("{value:?}").chars().take(64).collect(),
        reason: format!("cannot be held by {}", field.data_type),
    })?;
    debug_assert_eq!(one.data_type(), &arrow);
    Ok(take(&one, &UInt32Array::from(vec![0; rows]), None)?)
}

/// The value alone; `None` where the type cannot hold it.
fn single(logical: &LogicalType, value: &Datum) -> Option<ArrayRef> {
    use LogicalType as L;
    Some(match (logical, value) {
        (L::Boolean, Datum::Boolean(v)) => Arc::new(BooleanArray::from(vec![*v])),
        (L::TinyInt, Datum::TinyInt(v)) => Arc::new(Int8Array::from(vec![*v])),
        (L::SmallInt, Datum::SmallInt(v)) => Arc::new(Int16Array::from(vec![*v])),
        (L::Int, Datum::Int(v)) => Arc::new(Int32Array::from(vec![*v])),
        (L::BigInt, Datum::BigInt(v)) => Arc::new(Int64Array::from(vec![*v])),
        (L::Float, Datum::Float(v)) => Arc::new(Float32Array::from(vec![*v])),
        (L::Double, Datum::Double(v)) => Arc::new(Float64Array::from(vec![*v])),
        (
            L::Decimal { precision, scale },
            Datum::Decimal {
                unscaled, scale: s, ..
            },
        ) if s == scale => {
            let made = Decimal128Array::from(vec![*unscaled]);
            let scale = i8::try_from(*scale).ok()?;
            let made = made.with_precision_and_scale(*precision, scale).ok()?;
            made.validate_decimal_precision(*precision).ok()?;
            Arc::new(made)
        }
        (L::Char(_) | L::VarChar(_), Datum::String(v)) => {
            Arc::new(StringArray::from(vec![v.as_str()]))
        }
        (L::Binary(_) | L::VarBinary(_), Datum::Bytes(v)) => {
            Arc::new(BinaryArray::from(vec![v.as_slice()]))
        }
        (L::Date, Datum::Date(v)) => Arc::new(Date32Array::from(vec![*v])),
        (L::Time(_), Datum::TimeMillis(v)) => Arc::new(Time32MillisecondArray::from(vec![*v])),
        (
            L::Timestamp(precision) | L::TimestampLtz(precision),
            Datum::Timestamp {
                millis,
                nanos_of_milli,
            },
        ) => {
            let zone = matches!(logical, L::TimestampLtz(_)).then(|| Arc::<str>::from("UTC"));
            let nanos = i64::from(*nanos_of_milli);
            match time_unit(*precision) {
                TimeUnit::Second | TimeUnit::Millisecond => {
                    Arc::new(TimestampMillisecondArray::from(vec![*millis]).with_timezone_opt(zone))
                }
                TimeUnit::Microsecond => {
                    let micros = millis.checked_mul(1_000)?.checked_add(nanos / 1_000)?;
                    let made = TimestampMicrosecondArray::from(vec![micros]);
                    Arc::new(made.with_timezone_opt(zone))
                }
                TimeUnit::Nanosecond => {
                    // The product alone may not fit where the sum does.
                    let all = i128::from(*millis) * 1_000_000 + i128::from(nanos);
                    let made = TimestampNanosecondArray::from(vec![i64::try_from(all).ok()?]);
                    Arc::new(made.with_timezone_opt(zone))
                }
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{TimestampMicrosecondType, TimestampNanosecondType};

    fn column(of: &str, value: Datum) -> Result<ArrayRef> {
        constant(&DataField::new("c", of.parse().unwrap()), Some(&value), 2)
    }

    #[test]
    fn every_partition_type_has_its_canonical_arrow_type() {
        let time = Datum::Timestamp {
            millis: -1,
            nanos_of_milli: 999_999,
        };
        let decimal = Datum::Decimal {
            unscaled: -12_345,
            precision: 10,
            scale: 2,
        };
        let values = [
            ("BOOLEAN", Datum::Boolean(true)),
            ("TINYINT", Datum::TinyInt(-1)),
            ("SMALLINT", Datum::SmallInt(-1)),
            ("INT", Datum::Int(-1)),
            ("BIGINT", Datum::BigInt(-1)),
            ("FLOAT", Datum::Float(-1.5)),
            ("DOUBLE", Datum::Double(-1.5)),
            ("DECIMAL(10, 2)", decimal),
            ("CHAR(3)", Datum::String("abc".into())),
            ("STRING", Datum::String("é".into())),
            ("BINARY(2)", Datum::Bytes(vec![0, 255])),
            ("BYTES", Datum::Bytes(Vec::new())),
            ("DATE", Datum::Date(-1)),
            ("TIME(3)", Datum::TimeMillis(1)),
            ("TIMESTAMP(3)", time.clone()),
            ("TIMESTAMP(6)", time.clone()),
            ("TIMESTAMP(9)", time.clone()),
            ("TIMESTAMP(9) WITH LOCAL TIME ZONE", time),
        ];
        for (of, value) in values {
            let field = DataField::new("c", of.parse().unwrap());
            let expected = crate::arrow_schema(std::slice::from_ref(&field)).unwrap();
            for value in [Some(&value), None] {
                let made = constant(&field, value, 2).unwrap();
                assert_eq!(made.data_type(), expected.field(0).data_type(), "{of}");
                assert_eq!(made.len(), 2);
                assert_eq!(
                    made.null_count(),
                    if value.is_some() { 0 } else { 2 },
                    "{of}"
                );
            }
        }
    }

    #[test]
    fn a_time_before_1970_keeps_all_its_digits() {
        let time = Datum::Timestamp {
            millis: -1,
            nanos_of_milli: 999_999,
        };
        let nanos = column("TIMESTAMP(9)", time.clone()).unwrap();
        let nanos = nanos.as_primitive::<TimestampNanosecondType>();
        assert_eq!(nanos.value(1), -1);
        let micros = column("TIMESTAMP(6)", time).unwrap();
        let micros = micros.as_primitive::<TimestampMicrosecondType>();
        assert_eq!(micros.value(1), -1);
    }

    #[test]
    fn what_the_type_cannot_hold_is_an_error_that_names_the_column() {
        let far = Datum::Timestamp {
            millis: i64::MAX,
            nanos_of_milli: 0,
        };
        for (of, value) in [
            ("TIMESTAMP(9)", far),
            ("INT", Datum::BigInt(1)),
            (
                "DECIMAL(4, 2)",
                Datum::Decimal {
                    unscaled: 12_345,
                    precision: 5,
                    scale: 2,
                },
            ),
        ] {
            let error = column(of, value).unwrap_err().to_string();
            assert!(error.contains("`c`"), "{of}: {error}");
        }
        let field = DataField::new("c", "INT NOT NULL".parse().unwrap());
        assert!(matches!(constant(&field, None, 1), Err(Error::Null { .. })));
    }
}
