//! Record-level expiry \[W-47]: rows that a column says are too old are left out when files are read
//! and when they are compacted. The caller brings the time.

use crate::error::{Error, Result, column, option};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{
    DataType, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType,
};
use tidegate_model::{Datum, LogicalType, TableSchema};

/// Which rows of a table expire, and when.
///
/// ```
/// use tidegate_merge::Expiry;
/// use tidegate_model::{DataField, Datum, Options, TableSchema};
///
/// let columns = vec![DataField::new("id", "INT".parse()?), DataField::new("at", "BIGINT".parse()?)];
/// let options: Options =
///     [("bucket", "1"), ("record-level.expire-time", "1 h"), ("record-level.time-field", "at")]
///         .into_iter()
///         .collect();
/// let table = TableSchema::create(columns, vec![], vec!["id".into()], options, None, 0)?;
/// let expiry = Expiry::of(&table)?.unwrap();
/// let now = 1_700_000_000;
/// // The smallest time in a file, in seconds or milliseconds, as its statistics have it.
/// assert!(expiry.has_expired(&Datum::BigInt(now - 3601), now));
/// assert!(!expiry.has_expired(&Datum::BigInt((now - 3600) * 1000), now));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    column: usize,
    name: String,
    seconds: i64,
}

/// From here on a BIGINT counts milliseconds.
const MILLIS_FROM: i64 = 1_000_000_000_000;

impl Expiry {
    /// What the options say; `None` = rows do not expire.
    ///
    /// # Errors
    /// Where the time column is not named, is none, or is of a type that is no time.
    pub fn of(schema: &TableSchema) -> Result<Option<Self>> {
        let key = "record-level.expire-time";
        let Some(time) = schema.options.duration(key)? else {
            return Ok(None);
        };
        let text = schema.options.get(key).unwrap_or_default();
        let name = "record-level.time-field";
        let Some(given) = schema.options.get(name) else {
            return option(
                key,
                text,
                format!("needs '{name}'; name the column that says how old a row is"),
            );
        };
        let Some((at, field)) = schema
            .fields
            .iter()
            .enumerate()
            .find(|(_, f)| f.name == given)
        else {
            return option(name, given, "is no column of the table; name one that is");
        };
        use LogicalType as L;
        if !matches!(
            field.data_type.logical,
            L::Int | L::BigInt | L::Timestamp(_) | L::TimestampLtz(_)
        ) {
            return option(
                name,
                given,
                format!(
                    "is of type {}; name a column of INT or BIGINT seconds, BIGINT milliseconds, or TIMESTAMP",
                    field.data_type.logical
                ),
            );
        }
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        Ok(Some(Self {
            column: at,
            name: given.to_owned(),
            seconds,
        }))
    }

    /// The column that says how old a row is, by place in the table: it must be read.
    pub fn column(&self) -> usize {
        self.column
    }

    /// True where a row with this time is too old: of the smallest time of a file, that the file holds
    /// such rows.
    pub fn has_expired(&self, time: &Datum, now_seconds: i64) -> bool {
        let time = match time {
            Datum::Int(seconds) => i64::from(*seconds),
            Datum::BigInt(value) => seconds(*value),
            Datum::Timestamp { millis, .. } => millis / 1000,
            _ => return false,
        };
        self.is_past(time, now_seconds)
    }

    fn is_past(&self, time: i64, now_seconds: i64) -> bool {
        now_seconds > time.saturating_add(self.seconds)
    }

    /// The rows of a batch that are not too old; a row without a time never is.
    ///
    /// # Errors
    /// Where the batch lacks the column, or has it as another type.
    pub fn filter(&self, batch: RecordBatch, now_seconds: i64) -> Result<RecordBatch> {
        let Some(times) = batch.column_by_name(&self.name) else {
            return column(
                &self.name,
                "says how old rows are and must be read, whatever is asked for",
            );
        };
        let fresh = |time: Option<i64>| Some(time.is_none_or(|t| !self.is_past(t, now_seconds)));
        let fresh: BooleanArray = seconds_of(times, &self.name)?
            .into_iter()
            .map(fresh)
            .collect();
        match fresh.has_false() {
            true => Ok(filter_record_batch(&batch, &fresh)?),
            false => Ok(batch),
        }
    }
}

fn seconds(value: i64) -> i64 {
    if value >= MILLIS_FROM {
        value / 1000
    } else {
        value
    }
}

fn seconds_of(times: &ArrayRef, name: &str) -> Result<Vec<Option<i64>>, Error> {
    let per_second = |unit: i64| move |v: Option<i64>| v.map(|v| v.div_euclid(unit / 1000) / 1000);
    Ok(match times.data_type() {
        DataType::Int32 => times
            .as_primitive::<Int32Type>()
            .iter()
            .map(|v| v.map(i64::from))
            .collect(),
        DataType::Int64 => times
            .as_primitive::<Int64Type>()
            .iter()
            .map(|v| v.map(seconds))
            .collect(),
        DataType::Timestamp(TimeUnit::Millisecond, _) => times
            .as_primitive::<TimestampMillisecondType>()
            .iter()
            .map(per_second(1000))
            .collect(),
        DataType::Timestamp(TimeUnit::Microsecond, _) => times
            .as_primitive::<TimestampMicrosecondType>()
            .iter()
            .map(per_second(1_000_000))
            .collect(),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => times
            .as_primitive::<TimestampNanosecondType>()
            .iter()
            .map(per_second(1_000_000_000))
            .collect(),
        other => return column(name, format!("comes as {other}, which is no time")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        Int32Array, Int64Array, TimestampMicrosecondArray, TimestampMillisecondArray,
        TimestampNanosecondArray,
    };
    use arrow::datatypes::{Field, Schema};
    use std::sync::Arc;
    use tidegate_model::DataField;

    fn table(sql: &str, options: &[(&str, &str)]) -> Result<Option<Expiry>> {
        let columns = vec![
            DataField::new("id", "INT".parse().unwrap()),
            DataField::new("at", sql.parse().unwrap()),
        ];
        let options = options.iter().copied().chain([("bucket", "1")]).collect();
        Expiry::of(
            &TableSchema::create(columns, vec![], vec!["id".into()], options, None, 0).unwrap(),
        )
    }

    const OPTIONS: [(&str, &str); 2] = [
        ("record-level.expire-time", "10 s"),
        ("record-level.time-field", "at"),
    ];

    #[test]
    fn rows_go_once_they_are_older_than_the_time_in_every_type() {
        let now = 1_700_000_000;
        let times = [now - 11, now - 10, now + 1];
        let unit = |factor: i64| times.map(|t| t * factor);
        let arrays: Vec<(&str, ArrayRef)> = vec![
            (
                "INT",
                Arc::new(Int32Array::from_iter(
                    times.map(|t| Some(t as i32)).into_iter().chain([None]),
                )),
            ),
            (
                "BIGINT",
                Arc::new(Int64Array::from_iter(
                    times.map(Some).into_iter().chain([None]),
                )),
            ),
            (
                "BIGINT",
                Arc::new(Int64Array::from_iter(
                    unit(1000).map(Some).into_iter().chain([None]),
                )),
            ),
            (
                "TIMESTAMP(3)",
                Arc::new(TimestampMillisecondArray::from_iter(
                    unit(1000).map(Some).into_iter().chain([None]),
                )),
            ),
            (
                "TIMESTAMP(6)",
                Arc::new(TimestampMicrosecondArray::from_iter(
                    unit(1_000_000).map(Some).into_iter().chain([None]),
                )),
            ),
            (
                "TIMESTAMP(9)",
                Arc::new(TimestampNanosecondArray::from_iter(
                    unit(1_000_000_000).map(Some).into_iter().chain([None]),
                )),
            ),
        ];
        for (sql, array) in arrays {
            let expiry = table(sql, &OPTIONS).unwrap().unwrap();
            assert_eq!(expiry.column(), 1);
            let schema = Schema::new(vec![Field::new("at", array.data_type().clone(), true)]);
            let batch = RecordBatch::try_new(Arc::new(schema), vec![array.clone()]).unwrap();
            let kept = expiry.filter(batch.clone(), now).unwrap();
            assert_eq!(kept.column(0).as_ref(), array.slice(1, 3).as_ref(), "{sql}");
            assert_eq!(
                expiry.filter(batch, now - 1).unwrap().num_rows(),
                4,
                "{sql}"
            );
        }
    }

    #[test]
    fn options_that_do_not_fit_are_refused_by_name() {
        assert_eq!(table("INT", &[]).unwrap(), None);
        let message = |sql, options: &[(&str, &str)]| table(sql, options).unwrap_err().to_string();
        assert!(message("INT", &OPTIONS[..1]).contains("needs 'record-level.time-field'"));
        assert!(message("STRING", &OPTIONS).contains("is of type STRING"));
        let other = [OPTIONS[0], ("record-level.time-field", "when")];
        assert!(message("INT", &other).contains("'when': is no column"));
    }

    #[test]
    fn a_batch_without_the_column_is_an_error() {
        let expiry = table("INT", &OPTIONS).unwrap().unwrap();
        let empty = RecordBatch::new_empty(Arc::new(Schema::empty()));
        assert!(
            expiry
                .filter(empty, 0)
                .unwrap_err()
                .to_string()
                .contains("column 'at'")
        );
    }
}
