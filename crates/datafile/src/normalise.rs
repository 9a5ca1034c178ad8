//! Rows of any reasonable Arrow types to the canonical ones, checked.
//!
//! Nothing is lost silently: a value that does not fit is an error that names column, row and value.
//! Owns the checks that Parquet files cannot make later: `NOT NULL`, lengths, digits, ranges.

mod default;
mod exact;
mod nested;

use crate::error::{Error, Result};
use crate::types::{COUNT, Use, arrow_fields, type_text};
use arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType as Arrow, Field, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use arrow::util::display::array_value_to_string;
use std::sync::Arc;
use tidegate_model::data_type::MAX_LENGTH;
use tidegate_model::{DataField, DataType, LogicalType};

/// Makes a batch what [`FileEncoder::write`](crate::FileEncoder::write) takes; see
/// [`Normaliser::normalise`]. Make a [`Normaliser`] once where there are many batches.
///
/// # Errors
/// As [`Normaliser::new`] and [`Normaliser::normalise`].
pub fn normalise(batch: &RecordBatch, fields: &[DataField]) -> Result<RecordBatch> {
    Normaliser::new(fields)?.normalise(batch)
}

/// Turns batches into the canonical form of a table's columns.
#[derive(Clone, Debug)]
pub struct Normaliser {
    fields: Arc<[DataField]>,
    schema: SchemaRef,
    /// What nulls of a column become.
    defaults: Arc<[Option<ArrayRef>]>,
}

impl Normaliser {
    /// For these columns.
    ///
    /// # Errors
    /// [`Error::UnsupportedType`] for a type that data files cannot hold; [`Error::Value`] for a default
    /// value that is none of its column's type.
    pub fn new(fields: &[DataField]) -> Result<Self> {
        let schema = Arc::new(Schema::new(arrow_fields(fields, "", Use::Rows)?));
        let targets = fields.iter().zip(schema.fields());
        let defaults = targets.map(|(field, target)| default::of(field, target));
        Ok(Self {
            fields: fields.into(),
            defaults: defaults.collect::<Result<_>>()?,
            schema,
        })
    }

    /// The canonical schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Makes a batch canonical. Columns are matched by name, case included, in any order.
    ///
    /// Taken are: other widths of integers in range; narrower floats; other decimals, and integers for
    /// decimals, where no digit is lost; `LargeUtf8`, `Utf8View`, `LargeBinary`, `BinaryView`,
    /// `FixedSizeBinary`; `Date64` of whole days; times and timestamps of other units where no digit
    /// below the column's precision is lost; dictionaries of all these; large and fixed-size lists.
    /// A local time is never taken for an instant, nor an instant for a local time (B53). Nulls of a column with a
    /// default value become it \[W-21].
    ///
    /// # Errors
    /// [`Error::MissingColumn`], [`Error::UnknownColumn`], [`Error::TypeMismatch`] for the batch as a
    /// whole; [`Error::Null`] and [`Error::Value`] for the first row in the way.
    pub fn normalise(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let given = batch.schema_ref();
        if !Arc::ptr_eq(given, &self.schema) {
            self.check_names(given)?;
        }
        let columns = self
            .fields
            .iter()
            .zip(self.schema.fields())
            .zip(self.defaults.iter())
            .map(
                |((field, target), default)| match batch.column_by_name(&field.name) {
                    Some(column) => {
                        let column = column_of(field, target, column)?;
                        match default {
                            Some(default) => default::fill(&column, default),
                            None => Ok(column),
                        }
                    }
                    None => Err(Error::MissingColumn {
                        column: field.name.clone(),
                        present: names(given.fields().iter().map(|f| f.name().as_str())),
                    }),
                },
            );
        self.batch(columns.collect::<Result<Vec<_>>>()?, batch.num_rows())
    }

    fn check_names(&self, given: &Schema) -> Result<()> {
        for (i, field) in given.fields().iter().enumerate() {
            let twice = given
                .fields()
                .iter()
                .take(i)
                .any(|f| f.name() == field.name());
            if twice || !self.fields.iter().any(|f| &f.name == field.name()) {
                let known = names(self.fields.iter().map(|f| f.name.as_str()));
                return Err(Error::UnknownColumn {
                    column: field.name().clone(),
                    known,
                });
            }
        }
        Ok(())
    }

    fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(
            self.schema.clone(),
            columns,
            &options,
        )?)
    }
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let list = names.collect::<Vec<_>>().join(", ");
    if list.is_empty() {
        "none".to_owned()
    } else {
        list
    }
}

fn column_of(field: &DataField, target: &Field, column: &ArrayRef) -> Result<ArrayRef> {
    convert(column, &field.data_type, target, &field.name).map_err(Fault::into_error)
}

/// An error whose row is still an index into a nested array; on the way out each level maps it to a
/// row of the level above.
pub(crate) struct Fault {
    index: Option<usize>,
    make: Box<dyn FnOnce(usize) -> Error>,
}

impl Fault {
    fn at(index: usize, make: impl FnOnce(usize) -> Error + 'static) -> Self {
        Self {
            index: Some(index),
            make: Box::new(make),
        }
    }

    fn value(column: &str, index: usize, array: &dyn Array, reason: String) -> Self {
        let column = column.to_owned();
        let value = shown(array, index);
        Self::at(index, move |row| Error::Value {
            column,
            row,
            value,
            reason,
        })
    }

    fn null(column: &str, index: usize) -> Self {
        let column = column.to_owned();
        Self::at(index, move |row| Error::Null { column, row })
    }

    fn map_index(mut self, map: impl FnOnce(usize) -> usize) -> Self {
        self.index = self.index.map(map);
        self
    }

    fn into_error(self) -> Error {
        (self.make)(self.index.unwrap_or(0))
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self {
            index: None,
            make: Box::new(|_| error),
        }
    }
}

impl From<arrow::error::ArrowError> for Fault {
    fn from(error: arrow::error::ArrowError) -> Self {
        Error::from(error).into()
    }
}

/// A value for a message, in quotes where it is text, shortened.
fn shown(array: &dyn Array, index: usize) -> String {
    let text = array_value_to_string(array, index).unwrap_or_else(|e| format!("<{e}>"));
    let long = text.chars().count() > 60;
    let mut text: String = text.chars().take(60).collect();
    if long {
        text.push('…');
    }
    match array.data_type() {
        Arrow::Utf8 | Arrow::LargeUtf8 | Arrow::Utf8View => format!("{text:?}"),
        _ => text,
    }
}

type Converted = std::result::Result<ArrayRef, Fault>;

/// One column, nested ones recursively.
fn convert(array: &ArrayRef, to: &DataType, target: &Field, path: &str) -> Converted {
    let array = plain(array)?;
    let made = if array.data_type() == &Arrow::Null {
        new_null_array(target.data_type(), array.len())
    } else {
        convert_values(&array, to, target.data_type(), path)?
    };
    if !to.nullable
        && let Some(index) = first_null(&made)
    {
        return Err(Fault::null(path, index));
    }
    Ok(made)
}

/// Dictionaries and runs as the values that they stand for.
fn plain(array: &ArrayRef) -> Converted {
    Ok(match array.data_type() {
        Arrow::Dictionary(_, values) => arrow::compute::cast(array, values).map_err(Fault::from)?,
        Arrow::RunEndEncoded(_, values) => arrow::compute::cast(array, values.data_type())?,
        _ => array.clone(),
    })
}

fn first_null(array: &ArrayRef) -> Option<usize> {
    let nulls = array.nulls().filter(|n| n.null_count() > 0)?;
    (0..nulls.len()).find(|i| nulls.is_null(*i))
}

fn convert_values(array: &ArrayRef, to: &DataType, target: &Arrow, path: &str) -> Converted {
    use LogicalType as L;
    let from = array.data_type();
    let mismatch = || -> Fault {
        Error::TypeMismatch {
            column: path.to_owned(),
            found: from.to_string(),
            expected: type_text(to),
        }
        .into()
    };
    match &to.logical {
        L::Boolean if from == &Arrow::Boolean => Ok(array.clone()),
        L::TinyInt | L::SmallInt | L::Int | L::BigInt if from.is_integer() => {
            checked_cast(array, target, path, to)
        }
        L::Float if matches!(from, Arrow::Float16 | Arrow::Float32) => {
            checked_cast(array, target, path, to)
        }
        L::Double if from.is_floating() => checked_cast(array, target, path, to),
        L::Decimal { precision, scale } if from.is_integer() || from.is_decimal() => {
            exact::decimal(array, *precision, *scale, path, to)
        }
        L::Char(n) | L::VarChar(n)
            if matches!(from, Arrow::Utf8 | Arrow::LargeUtf8 | Arrow::Utf8View) =>
        {
            let made = checked_cast(array, target, path, to)?;
            if *n < MAX_LENGTH {
                text_length(&made, *n, path, to)?;
            }
            Ok(made)
        }
        L::Binary(n) | L::VarBinary(n)
            if matches!(
                from,
                Arrow::Binary | Arrow::LargeBinary | Arrow::BinaryView | Arrow::FixedSizeBinary(_)
            ) =>
        {
            let made = checked_cast(array, target, path, to)?;
            if *n < MAX_LENGTH {
                byte_length(&made, *n, path, to)?;
            }
            Ok(made)
        }
        L::Date if from == &Arrow::Date32 => Ok(array.clone()),
        L::Date if from == &Arrow::Date64 => exact::date(array, path),
        L::Time(p) if matches!(from, Arrow::Time32(_) | Arrow::Time64(_)) => {
            exact::time(array, *p, path, to)
        }
        L::Timestamp(p) if matches!(from, Arrow::Timestamp(_, None)) => {
            exact::timestamp(array, *p, target, path, to)
        }
        L::TimestampLtz(p) if matches!(from, Arrow::Timestamp(_, Some(_))) => {
            exact::timestamp(array, *p, target, path, to)
        }
        L::Array(element) => {
            nested::list(array, element, target, path).unwrap_or_else(|| Err(mismatch()))
        }
        L::Map(key, value) => {
            nested::map(array, key, value, target, path).unwrap_or_else(|| Err(mismatch()))
        }
        L::Multiset(element) => {
            nested::map(array, element, &COUNT, target, path).unwrap_or_else(|| Err(mismatch()))
        }
        L::Row(fields) => {
            nested::row(array, fields, target, path).unwrap_or_else(|| Err(mismatch()))
        }
        _ => Err(mismatch()),
    }
}

/// A cast whose failures are single values.
fn checked_cast(array: &ArrayRef, target: &Arrow, path: &str, to: &DataType) -> Converted {
    if array.data_type() == target {
        return Ok(array.clone());
    }
    let options = CastOptions {
        safe: true,
        ..CastOptions::default()
    };
    let made = cast_with_options(array, target, &options)?;
    if made.null_count() > array.null_count()
        && let Some(index) = (0..made.len()).find(|i| made.is_null(*i) && array.is_valid(*i))
    {
        return Err(Fault::value(
            path,
            index,
            array,
            format!("does not fit {}", type_text(to)),
        ));
    }
    Ok(made)
}

fn text_length(
    array: &ArrayRef,
    n: u32,
    path: &str,
    to: &DataType,
) -> std::result::Result<(), Fault> {
    let strings = array.as_string::<i32>();
    // Characters are never more than bytes, so most values need no count.
    let long = |text: &str| text.len() > n as usize && text.chars().count() > n as usize;
    match strings.iter().position(|v| v.is_some_and(long)) {
        None => Ok(()),
        Some(index) => {
            let count = strings.value(index).chars().count();
            Err(Fault::value(
                path,
                index,
                array,
                format!("has {count} characters, too many for {}", type_text(to)),
            ))
        }
    }
}

fn byte_length(
    array: &ArrayRef,
    n: u32,
    path: &str,
    to: &DataType,
) -> std::result::Result<(), Fault> {
    let bytes = array.as_binary::<i32>();
    match bytes
        .iter()
        .position(|v| v.is_some_and(|v| v.len() > n as usize))
    {
        None => Ok(()),
        Some(index) => {
            let length = bytes.value(index).len();
            Err(Fault::value(
                path,
                index,
                array,
                format!("has {length} bytes, too many for {}", type_text(to)),
            ))
        }
    }
}

/// Units of a time or timestamp per second.
fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}
