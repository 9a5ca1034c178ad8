//! Sort keys: a batch with the bytes by which its rows compare.
//!
//! Owns the one order of versions \[W-22], \[W-31]: key, then the sequence fields (null oldest in either
//! sense), then the sequence number, then retracts before adds. Bytes are those of `arrow::row`, made
//! once per batch; the first eight of a key also lie in a number each, which decides most comparisons, and
//! all of them where the key is one whole number: then there are no bytes.

use crate::error::{Error, Result, column};
use crate::kind;
use crate::layout::Layout;
use crate::spec::MergeSpec;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow::row::{RowConverter, Rows, SortField};
use std::cmp::Ordering;
use std::sync::Arc;

/// Makes sort keys for batches of one layout.
#[derive(Debug)]
pub(crate) struct SortKeys {
    layout: Layout,
    keys: RowConverter,
    sequence: Option<RowConverter>,
    /// Bytes of a key before those that tell keys apart: the null marker where the first column has no
    /// nulls and a fixed width.
    skip: usize,
    /// The key column where it is the only one and its values are whole numbers.
    whole: Option<usize>,
    key_names: Vec<String>,
}

/// A batch and the bytes by which its rows compare.
#[derive(Debug)]
pub(crate) struct Keyed {
    pub(crate) batch: RecordBatch,
    prefixes: Vec<u64>,
    /// None where equal prefixes are equal keys.
    keys: Option<Rows>,
    sequence: Option<Rows>,
    /// Known only once the order was checked.
    distinct: bool,
    /// Where the rows lie in the merge tree.
    pub(crate) origin: Origin,
}

/// Where rows lie in the merge tree, as far as changelogs care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) level: i32,
    /// They are not merged, but tell what was before.
    pub(crate) reference: bool,
}

impl SortKeys {
    pub(crate) fn new(spec: &MergeSpec, layout: Layout) -> Result<Self> {
        let converter = |columns: &[usize], options: SortOptions| -> Result<RowConverter> {
            let mut fields = Vec::new();
            for i in columns {
                let Some(field) = layout.schema.fields().get(*i) else {
                    continue;
                };
                let sort = SortField::new_with_options(field.data_type().clone(), options);
                if !RowConverter::supports_fields(std::slice::from_ref(&sort)) {
                    return column(
                        field.name(),
                        format!("values of type {} do not compare", field.data_type()),
                    );
                }
                fields.push(sort);
            }
            Ok(RowConverter::new(fields)?)
        };
        let ascending = SortOptions {
            descending: false,
            nulls_first: true,
        };
        // Nulls are the oldest in either sense [W-22].
        let by_age = SortOptions {
            descending: spec.sequence_is_descending(),
            nulls_first: true,
        };
        let first = layout
            .keys
            .first()
            .and_then(|i| layout.schema.fields().get(*i));
        let fixed = first.is_some_and(|f| !f.is_nullable() && f.data_type().is_primitive());
        let names = layout
            .keys
            .iter()
            .filter_map(|i| layout.schema.fields().get(*i));
        Ok(Self {
            keys: converter(&layout.keys, ascending)?,
            sequence: match layout.sequence.is_empty() {
                true => None,
                false => Some(converter(&layout.sequence, by_age)?),
            },
            skip: usize::from(fixed),
            whole: match layout.keys.as_slice() {
                [only] if fixed && first.is_some_and(|f| is_whole(f.data_type())) => Some(*only),
                _ => None,
            },
            key_names: names.map(|f| f.name().clone()).collect(),
            layout,
        })
    }

    /// As if the key were of another type: for tests of that way.
    #[cfg(test)]
    pub(crate) fn by_bytes(&mut self) {
        self.whole = None;
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Checks a batch and makes its keys.
    pub(crate) fn encode(&self, batch: RecordBatch) -> Result<Keyed> {
        let batch = self.layout.adopt(batch)?;
        let columns = |at: &[usize]| -> Vec<ArrayRef> {
            let picked = Layout::pick(&batch, at).into_iter();
            picked.map(comparable).collect()
        };
        let (prefixes, keys) = match self.whole {
            Some(at) => {
                let numbers = batch.columns().get(at).and_then(numbers);
                let other = || Error::Batch("the key column holds nulls or another type".into());
                (numbers.ok_or_else(other)?, None)
            }
            None => {
                let keys = self.keys.convert_columns(&columns(&self.layout.keys))?;
                let prefixes = keys.iter().map(|row| prefix(row.data(), self.skip));
                (prefixes.collect(), Some(keys))
            }
        };
        let sequence = match &self.sequence {
            Some(converter) => Some(converter.convert_columns(&columns(&self.layout.sequence))?),
            None => None,
        };
        Ok(Keyed {
            batch,
            prefixes,
            keys,
            sequence,
            distinct: false,
            origin: Origin {
                level: 0,
                reference: false,
            },
        })
    }

    /// Refuses NaN in a key: Java takes it for equal to every other key and loses rows \[F-14.1].
    pub(crate) fn refuse_nan(&self, keyed: &Keyed) -> Result<()> {
        for (array, name) in Layout::pick(&keyed.batch, &self.layout.keys)
            .iter()
            .zip(&self.key_names)
        {
            let row = match array.data_type() {
                DataType::Float32 => first_nan::<Float32Type>(array, |v| v.is_nan()),
                DataType::Float64 => first_nan::<Float64Type>(array, |v| v.is_nan()),
                _ => None,
            };
            if let Some(row) = row {
                return Err(Error::Rows {
                    key: self.layout.describe_key(&keyed.batch, row),
                    what: format!(
                        "NaN in key column '{name}' has no place in the order of keys, and Java loses \
                         other rows by it; filter such rows out, or use another key"
                    ),
                });
            }
        }
        Ok(())
    }
}

/// Types of [`numbers`].
fn is_whole(data_type: &DataType) -> bool {
    use DataType::{Date32, Int8, Int16, Int32, Int64, Timestamp};
    matches!(
        data_type,
        Int8 | Int16 | Int32 | Int64 | Date32 | Timestamp(_, _)
    )
}

/// Whole numbers without nulls as numbers that order the same; `None` for other columns.
fn numbers(column: &ArrayRef) -> Option<Vec<u64>> {
    fn of<T: ArrowPrimitiveType<Native: Into<i64>>>(column: &ArrayRef) -> Option<Vec<u64>> {
        let values = column.as_primitive_opt::<T>()?.values().iter();
        let number = |v: &T::Native| Into::<i64>::into(*v).cast_unsigned() ^ (1 << 63);
        Some(values.map(number).collect())
    }
    if column.null_count() > 0 {
        return None;
    }
    match column.data_type() {
        DataType::Int8 => of::<Int8Type>(column),
        DataType::Int16 => of::<Int16Type>(column),
        DataType::Int32 => of::<Int32Type>(column),
        DataType::Int64 => of::<Int64Type>(column),
        DataType::Date32 => of::<Date32Type>(column),
        DataType::Timestamp(TimeUnit::Second, _) => of::<TimestampSecondType>(column),
        DataType::Timestamp(TimeUnit::Millisecond, _) => of::<TimestampMillisecondType>(column),
        DataType::Timestamp(TimeUnit::Microsecond, _) => of::<TimestampMicrosecondType>(column),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => of::<TimestampNanosecondType>(column),
        _ => None,
    }
}

fn first_nan<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    is_nan: fn(T::Native) -> bool,
) -> Option<usize> {
    let array = array.as_primitive_opt::<T>()?;
    (0..array.len()).find(|i| array.is_valid(*i) && is_nan(array.value(*i)))
}

/// -0.0 equals 0.0, and all NaNs are one, after everything: as `tidegate_model::KeyOrder` has it.
pub(crate) fn comparable(array: ArrayRef) -> ArrayRef {
    if let Some(floats) = array.as_primitive_opt::<Float32Type>() {
        let plain = |v: f32| if v.is_nan() { f32::NAN.abs() } else { v + 0.0 };
        return Arc::new(floats.unary::<_, Float32Type>(plain));
    }
    if let Some(floats) = array.as_primitive_opt::<Float64Type>() {
        let plain = |v: f64| if v.is_nan() { f64::NAN.abs() } else { v + 0.0 };
        return Arc::new(floats.unary::<_, Float64Type>(plain));
    }
    array
}

/// All NaNs are one, after everything; -0.0 stays below 0.0, as with Java's `compare` and `equals`.
pub(crate) fn one_nan(array: ArrayRef) -> ArrayRef {
    if let Some(floats) = array.as_primitive_opt::<Float32Type>() {
        let plain = |v: f32| if v.is_nan() { f32::NAN.abs() } else { v };
        return Arc::new(floats.unary::<_, Float32Type>(plain));
    }
    if let Some(floats) = array.as_primitive_opt::<Float64Type>() {
        let plain = |v: f64| if v.is_nan() { f64::NAN.abs() } else { v };
        return Arc::new(floats.unary::<_, Float64Type>(plain));
    }
    array
}

/// The first bytes of a key as a number that orders the same; shorter keys are filled with zeros, so
/// equal numbers decide nothing.
fn prefix(key: &[u8], skip: usize) -> u64 {
    let key = key.get(skip..).unwrap_or_default();
    match key.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let filled = key.iter().fold(0, |n: u64, b| (n << 8) | u64::from(*b));
            // No key at all: nothing to shift.
            filled.checked_shl(8 * (8 - key.len() as u32)).unwrap_or(0)
        }
    }
}

impl Keyed {
    pub(crate) fn len(&self) -> usize {
        self.prefixes.len()
    }

    pub(crate) fn prefix(&self, row: usize) -> u64 {
        self.prefixes.get(row).copied().unwrap_or(u64::MAX)
    }

    pub(crate) fn kind(&self, row: usize) -> i8 {
        Layout::kinds(&self.batch)
            .get(row)
            .copied()
            .unwrap_or(kind::INSERT)
    }

    pub(crate) fn sequence_number(&self, row: usize) -> i64 {
        Layout::sequences(&self.batch)
            .get(row)
            .copied()
            .unwrap_or(i64::MIN)
    }

    /// Rows must be in range: `arrow::row` panics otherwise.
    pub(crate) fn compare_keys(&self, row: usize, other: &Self, other_row: usize) -> Ordering {
        let decided = self.prefix(row).cmp(&other.prefix(other_row));
        match (decided, &self.keys, &other.keys) {
            (Ordering::Equal, Some(keys), Some(others)) => {
                keys.row(row).data().cmp(others.row(other_row).data())
            }
            _ => decided,
        }
    }

    /// The order of versions of one key.
    pub(crate) fn compare_age(&self, row: usize, other: &Self, other_row: usize) -> Ordering {
        let fields = match (&self.sequence, &other.sequence) {
            (Some(a), Some(b)) => a.row(row).data().cmp(b.row(other_row).data()),
            _ => Ordering::Equal,
        };
        fields
            .then_with(|| {
                self.sequence_number(row)
                    .cmp(&other.sequence_number(other_row))
            })
            .then_with(|| {
                let adds = |k: &Self, row| !kind::is_retract(k.kind(row));
                adds(self, row).cmp(&adds(other, other_row))
            })
    }

    /// Key, then age.
    pub(crate) fn compare(&self, row: usize, other: &Self, other_row: usize) -> Ordering {
        self.compare_keys(row, other, other_row)
            .then_with(|| self.compare_age(row, other, other_row))
    }

    /// True where equal prefixes are equal keys.
    pub(crate) fn is_exact(&self) -> bool {
        self.keys.is_none()
    }

    /// True where rows came in the order of age, after a row of this sequence number: no two of them have to
    /// be compared by it.
    pub(crate) fn ages_after(&self, before: Option<i64>) -> bool {
        let numbers = Layout::sequences(&self.batch);
        self.sequence.is_none()
            && before
                .zip(numbers.first())
                .is_none_or(|(before, first)| before < *first)
            && numbers.is_sorted_by(|a, b| a < b)
    }

    /// The first row that is before the one above it; `None` = sorted.
    pub(crate) fn first_out_of_order(&mut self) -> Option<usize> {
        let mut distinct = true;
        for row in 1..self.len() {
            match self.compare_keys(row - 1, self, row) {
                Ordering::Less => {}
                Ordering::Equal if self.compare_age(row - 1, self, row) != Ordering::Greater => {
                    distinct = false;
                }
                _ => return Some(row),
            }
        }
        self.distinct = distinct;
        None
    }

    /// True where the batch was found sorted and no key has two rows in it.
    pub(crate) fn has_distinct_keys(&self) -> bool {
        self.distinct
    }

    /// Bytes of the keys alone.
    pub(crate) fn key_size(&self) -> usize {
        self.keys.as_ref().map_or(0, Rows::size)
            + self.sequence.as_ref().map_or(0, Rows::size)
            + self.prefixes.len() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Row, batch, schema, spec};
    use arrow::array::{
        Date32Array, Int8Array, Int16Array, Int32Array, Int64Array, TimestampMicrosecondArray,
    };
    use arrow::datatypes::Field;
    use proptest::prelude::*;

    proptest! {
        /// Numbers order keys as their bytes do, for every type that has them.
        #[test]
        fn numbers_order_as_bytes_do(values in prop::collection::vec(any::<i64>(), 2..20)) {
            let columns: [ArrayRef; 6] = [
                Arc::new(Int64Array::from(values.clone())),
                Arc::new(Int32Array::from_iter_values(values.iter().map(|v| *v as i32))),
                Arc::new(Int16Array::from_iter_values(values.iter().map(|v| *v as i16))),
                Arc::new(Int8Array::from_iter_values(values.iter().map(|v| *v as i8))),
                Arc::new(Date32Array::from_iter_values(values.iter().map(|v| *v as i32))),
                Arc::new(TimestampMicrosecondArray::from(values.clone())),
            ];
            for column in columns {
                prop_assert!(is_whole(column.data_type()));
                let numbers = numbers(&column).unwrap();
                let sort = SortField::new(column.data_type().clone());
                let bytes = RowConverter::new(vec![sort]).unwrap().convert_columns(&[column]).unwrap();
                for (a, b) in (0..values.len()).zip(1..values.len()) {
                    prop_assert_eq!(numbers[a].cmp(&numbers[b]), bytes.row(a).cmp(&bytes.row(b)));
                }
            }
        }
    }

    /// A key that may be null, or has a second column, is told apart by bytes.
    #[test]
    fn only_a_key_that_is_one_whole_number_has_no_bytes() {
        let keyed = |fields: [Field; 2], keys: &[&str]| {
            let columns =
                ["a", "b"].map(|c| tidegate_model::DataField::new(c, "INT".parse().unwrap()));
            let options = [("bucket", "1")].into_iter().collect();
            let keys = keys.iter().map(|k| (*k).to_owned()).collect();
            let table =
                tidegate_model::TableSchema::create(columns.into(), vec![], keys, options, None, 0)
                    .unwrap();
            let spec = MergeSpec::new(&table).unwrap();
            let schema = crate::key_value_schema(&arrow::datatypes::Schema::new(fields.to_vec()));
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from(vec![1])),
                Arc::new(Int8Array::from(vec![0])),
                Arc::new(Int32Array::from(vec![1])),
                Arc::new(Int32Array::from(vec![1])),
            ];
            let keys = SortKeys::new(&spec, Layout::new(&spec, schema.clone()).unwrap()).unwrap();
            let batch = RecordBatch::try_new(schema, columns).unwrap();
            keys.encode(batch).unwrap().is_exact()
        };
        let field = |name: &str, nullable| Field::new(name, DataType::Int32, nullable);
        assert!(keyed([field("a", false), field("b", true)], &["a"]));
        assert!(!keyed([field("a", true), field("b", true)], &["a"]));
        assert!(!keyed([field("a", false), field("b", false)], &["a", "b"]));
    }

    /// Without sequence fields, and with numbers that rise on from what was before.
    #[test]
    fn rows_age_as_they_come_only_where_their_numbers_rise() {
        let keyed = |options: &[(&str, &str)], numbers: &[i64]| {
            let spec = spec(options);
            let keys = SortKeys::new(&spec, Layout::new(&spec, schema()).unwrap()).unwrap();
            let row = |sequence: &i64| Row {
                id: 1,
                sequence: *sequence,
                kind: 0,
                s: None,
                v: 0,
            };
            let rows: Vec<Row> = numbers.iter().map(row).collect();
            keys.encode(batch(&rows)).unwrap()
        };
        assert!(keyed(&[], &[3, 4, 9]).ages_after(None));
        assert!(keyed(&[], &[3, 4, 9]).ages_after(Some(2)));
        assert!(!keyed(&[], &[3, 4, 9]).ages_after(Some(3)));
        assert!(!keyed(&[], &[3, 3]).ages_after(None));
        assert!(!keyed(&[("sequence.field", "s")], &[3, 4]).ages_after(None));
    }
}
