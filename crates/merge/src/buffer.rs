//! Sorting what a writer holds \[W-22]: batches as they came, in; sorted batches out, merged for level 0
//! and unmerged for `changelog-producer = input` \[W-23].

use crate::engine::{self, Groups, How, RowRef};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::sort_key::{Keyed, SortKeys};
use crate::spec::MergeSpec;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::cmp::Ordering;

/// Key-value batches in the order in which they came.
///
/// ```
/// use arrow::array::{Int64Array, Int8Array, RecordBatch, StringArray};
/// use std::sync::Arc;
/// # use arrow::datatypes::{DataType, Field, Schema};
/// use tidegate_merge::{MergeSpec, SortBuffer, key_value_schema};
/// # use tidegate_model::{DataField, Options, TableSchema};
/// # let columns = vec![DataField::new("id", "BIGINT".parse()?), DataField::new("v", "STRING".parse()?)];
/// # let options: Options = [("bucket", "1")].into_iter().collect();
/// # let table = TableSchema::create(columns, vec![], vec!["id".into()], options, None, 0)?;
/// # let values = Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("v", DataType::Utf8, true)]);
///
/// let schema = key_value_schema(&values);
/// let mut buffer = SortBuffer::new(&MergeSpec::new(&table)?, schema.clone())?;
/// buffer.push(RecordBatch::try_new(schema, vec![
///     Arc::new(Int64Array::from(vec![10, 11, 12])), // sequence numbers
///     Arc::new(Int8Array::from(vec![0, 0, 2])),     // +I +I +U
///     Arc::new(Int64Array::from(vec![7, 3, 7])),
///     Arc::new(StringArray::from(vec!["a", "b", "c"])),
/// ])?)?;
/// let sorted = buffer.sort();
/// let merged: Vec<RecordBatch> = sorted.merged(1024).collect::<Result<_, _>>()?;
/// assert_eq!(merged[0].column(2).as_ref(), &Int64Array::from(vec![3, 7]));
/// assert_eq!(merged[0].column(3).as_ref(), &StringArray::from(vec!["b", "c"]));
/// assert_eq!(sorted.unmerged(1024).next().unwrap()?.num_rows(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SortBuffer {
    spec: MergeSpec,
    keys: SortKeys,
    batches: Vec<Keyed>,
    rows: usize,
    bytes: usize,
    /// The largest sequence number, as long as rows came in the order of their age.
    in_order: Option<Option<i64>>,
}

impl SortBuffer {
    /// An empty buffer for batches of this key-value schema
    /// ([`key_value_schema`](crate::key_value_schema) over the value columns).
    ///
    /// # Errors
    /// Where the schema lacks a column that merging needs, or a key does not compare.
    pub fn new(spec: &MergeSpec, schema: SchemaRef) -> Result<Self> {
        let keys = SortKeys::new(spec, Layout::new(spec, schema)?)?;
        Ok(Self {
            spec: spec.clone(),
            keys,
            batches: Vec::new(),
            rows: 0,
            bytes: 0,
            in_order: Some(None),
        })
    }

    /// Takes a batch and makes its sort keys. The buffer keeps the batch's arrays: give it slices of
    /// something large only where the rest is wanted too.
    ///
    /// # Errors
    /// Where the batch is of another schema, a row kind is none, or a key holds NaN. Nothing is taken
    /// then.
    pub fn push(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let too_many =
            || Error::Batch("the write buffer holds 2^32 rows or batches; flush it".into());
        u32::try_from(self.rows + batch.num_rows()).map_err(|_| too_many())?;
        u32::try_from(self.batches.len()).map_err(|_| too_many())?;
        let keyed = self.keys.encode(batch)?;
        self.keys.refuse_nan(&keyed)?;
        self.in_order = self.in_order.and_then(|before| {
            let last = keyed.sequence_number(keyed.len().saturating_sub(1));
            keyed.ages_after(before).then_some(Some(last))
        });
        self.rows += keyed.len();
        self.bytes += keyed.batch.get_array_memory_size()
            + keyed.key_size()
            + keyed.len() * size_of::<(u64, RowRef)>();
        self.batches.push(keyed);
        Ok(())
    }

    /// Rows held.
    pub fn num_rows(&self) -> usize {
        self.rows
    }

    /// Bytes held, those that sorting will take included.
    pub fn memory_size(&self) -> usize {
        self.bytes
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Sorts by key, sequence fields, sequence number, retracts before adds; where all are equal, rows
    /// stay in the order in which they came.
    pub fn sort(self) -> Sorted {
        let mut order: Vec<(u64, RowRef)> = Vec::with_capacity(self.rows);
        for (batch, keyed) in (0u32..).zip(&self.batches) {
            order.extend(
                (0..keyed.len())
                    .zip(0u32..)
                    .map(|(i, row)| (keyed.prefix(i), RowRef { batch, row })),
            );
        }
        let batches = &self.batches;
        let compare =
            |a: RowRef, b: RowRef, by: fn(&Keyed, usize, &Keyed, usize) -> Ordering| match (
                batches.get(a.batch as usize),
                batches.get(b.batch as usize),
            ) {
                (Some(ka), Some(kb)) => by(ka, a.row(), kb, b.row()),
                _ => Ordering::Equal,
            };
        let exact = batches.iter().all(Keyed::is_exact);
        match (self.in_order.is_some(), exact) {
            // Nothing of a batch is looked at: most keys of most tables.
            (true, true) => order.sort_unstable(),
            (true, false) => order.sort_unstable_by(|(p, a), (q, b)| {
                p.cmp(q)
                    .then_with(|| compare(*a, *b, Keyed::compare_keys))
                    .then_with(|| a.cmp(b))
            }),
            (false, _) => order.sort_unstable_by(|(p, a), (q, b)| {
                p.cmp(q)
                    .then_with(|| compare(*a, *b, Keyed::compare))
                    .then_with(|| a.cmp(b))
            }),
        }
        let rows: Vec<RowRef> = order.iter().map(|(_, row)| *row).collect();
        let mut ends = Vec::new();
        for (i, pair) in (1u32..).zip(order.array_windows::<2>()) {
            let [(p, a), (q, b)] = pair;
            if p != q || (!exact && compare(*a, *b, Keyed::compare_keys) != Ordering::Equal) {
                ends.push(i);
            }
        }
        if let Ok(end) = u32::try_from(rows.len())
            && end > 0
        {
            ends.push(end);
        }
        Sorted {
            spec: self.spec,
            keys: self.keys,
            batches: self.batches,
            rows,
            ends,
        }
    }
}

/// A sorted buffer; it can be walked through more than once.
#[derive(Debug)]
pub struct Sorted {
    spec: MergeSpec,
    keys: SortKeys,
    batches: Vec<Keyed>,
    rows: Vec<RowRef>,
    /// Where each key ends.
    ends: Vec<u32>,
}

impl Sorted {
    /// Rows before merging.
    pub fn num_rows(&self) -> usize {
        self.rows.len()
    }

    /// Different keys.
    pub fn num_keys(&self) -> usize {
        self.ends.len()
    }

    /// One row per key, what the engine makes of its versions; deletes stay, as level 0 needs them. At
    /// most so many rows per batch.
    pub fn merged(&self, batch_rows: usize) -> impl Iterator<Item = Result<RecordBatch>> + '_ {
        let mut start = 0;
        self.ends.chunks(batch_rows.max(1)).map(move |chunk| {
            let ends: Vec<u32> = chunk.iter().map(|end| end.saturating_sub(start)).collect();
            let rows = self.rows.get(start as usize..).unwrap_or_default();
            start = chunk.last().copied().unwrap_or(start);
            let groups = Groups {
                batches: &self.batches,
                rows,
                ends: &ends,
            };
            let how = How {
                drop_deletes: false,
                singles_too: false,
            };
            Ok(engine::merge(&self.spec, self.keys.layout(), groups, how)?.batch)
        })
    }

    /// All rows in order, not merged: the changelog of `changelog-producer = input`, or a run to spill.
    pub fn unmerged(&self, batch_rows: usize) -> impl Iterator<Item = Result<RecordBatch>> + '_ {
        self.rows
            .chunks(batch_rows.max(1))
            .map(|rows| engine::gather(&self.batches, rows, self.keys.layout()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Row, Words, batch, rows, schema, spec, versions};
    use arrow::array::{Float64Array, Int8Array, Int64Array};
    use arrow::datatypes::{DataType, Field, Schema};
    use proptest::prelude::*;
    use std::sync::Arc;
    use tidegate_model::{DataField, TableSchema};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Sorting is stable by key, sequence fields, sequence, retract before add, whatever the cuts.
        #[test]
        fn a_sorted_buffer_is_every_row_in_order_and_the_newest_of_each_key(
            all in versions(12), cut in 1usize..20, out in 1usize..20,
            by_field in any::<bool>(), descending in any::<bool>(), ignore_delete in any::<bool>(),
            numbered in any::<bool>(), by_bytes in any::<bool>(),
        ) {
            let mut all = all;
            if numbered {
                (0..).zip(&mut all).for_each(|(number, row)| row.sequence = number);
            }
            let words = Words { by_field, descending: by_field && descending, ignore_delete };
            let mut buffer = SortBuffer::new(&spec(&words.options()), schema()).unwrap();
            if by_bytes {
                buffer.keys.by_bytes();
            }
            for chunk in all.chunks(cut) {
                buffer.push(batch(chunk)).unwrap();
            }
            prop_assert_eq!(buffer.num_rows(), all.len());
            prop_assert_eq!(buffer.is_empty(), buffer.memory_size() == 0);
            let sorted = buffer.sort();
            let grouped = words.grouped(&all);
            prop_assert_eq!(sorted.num_keys(), grouped.len());
            let merged: Vec<Row> = sorted.merged(out).flat_map(|b| rows(&b.unwrap())).collect();
            let expected: Vec<Row> = grouped
                .values()
                .filter_map(|versions| match versions.as_slice() {
                    [alone] => Some(alone.clone()),
                    many => many
                        .iter()
                        .rfind(|r| !(ignore_delete && crate::kind::is_retract(r.kind)))
                        .cloned(),
                })
                .collect();
            prop_assert_eq!(merged, expected);
            let unmerged: Vec<Row> = sorted.unmerged(out).flat_map(|b| rows(&b.unwrap())).collect();
            prop_assert_eq!(unmerged, grouped.into_values().flatten().collect::<Vec<_>>());
        }
    }

    /// Zeros of both signs are one key, as Java has it; NaN is refused before it loses rows.
    #[test]
    fn float_keys_are_compared_by_value_and_nan_is_refused() {
        let columns = vec![DataField::new("k", "DOUBLE".parse().unwrap())];
        let options = [("bucket", "1")].into_iter().collect();
        let table =
            TableSchema::create(columns, vec![], vec!["k".into()], options, None, 0).unwrap();
        let values = Schema::new(vec![Field::new("k", DataType::Float64, false)]);
        let kv = crate::key_value_schema(&values);
        let of = |keys: Vec<f64>| {
            let rows = keys.len() as i64;
            let columns: Vec<arrow::array::ArrayRef> = vec![
                Arc::new(Int64Array::from_iter_values(0..rows)),
                Arc::new(Int8Array::from(vec![0; rows as usize])),
                Arc::new(Float64Array::from(keys)),
            ];
            RecordBatch::try_new(kv.clone(), columns).unwrap()
        };
        let mut buffer = SortBuffer::new(&MergeSpec::new(&table).unwrap(), kv.clone()).unwrap();
        buffer.push(of(vec![0.0, -1.0, -0.0, 2.0])).unwrap();
        let message = buffer
            .push(of(vec![1.0, f64::NAN]))
            .unwrap_err()
            .to_string();
        assert!(
            message.starts_with("key (k=NaN): NaN in key column 'k'"),
            "{message}"
        );
        assert_eq!(
            buffer.num_rows(),
            4,
            "the refused batch left nothing behind"
        );
        assert_eq!(buffer.sort().num_keys(), 3);
    }
}
