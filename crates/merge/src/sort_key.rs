//! Sort keys: a batch with the bytes by which its rows compare.
//!
//! Owns the one order of versions \[W-22], \[W-31]: key, then the sequence fields (null oldest in either
//! sense), then the sequence number, then retracts before adds. Bytes are those of `arrow::row`, made
//! once per batch; the first eight of a key also lie in a number each, which decides most comparisons.

use crate::error::{Error, Result, column};
use crate::kind;
use crate::layout::Layout;
use crate::spec::MergeSpec;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type};
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
    key_names: Vec<String>,
}

/// A batch and the bytes by which its rows compare.
#[derive(Debug)]
pub(crate) struct Keyed {
    pub(crate) batch: RecordBatch,
    prefixes: Vec<u64>,
    keys: Rows,
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
            key_names: names.map(|f| f.name().clone()).collect(),
            layout,
        })
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
        let keys = self.keys.convert_columns(&columns(&self.layout.keys))?;
        let sequence = match &self.sequence {
            Some(converter) => Some(converter.convert_columns(&columns(&self.layout.sequence))?),
            None => None,
        };
        let prefixes = keys
            .iter()
            .map(|row| prefix(row.data(), self.skip))
            .collect();
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
        match self.prefix(row).cmp(&other.prefix(other_row)) {
            Ordering::Equal => self
                .keys
                .row(row)
                .data()
                .cmp(other.keys.row(other_row).data()),
            decided => decided,
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
        self.keys.size()
            + self.sequence.as_ref().map_or(0, Rows::size)
            + self.prefixes.len() * size_of::<u64>()
    }
}
