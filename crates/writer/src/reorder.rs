//! The rows of a batch in another order.
//!
//! Owns a gather of short texts that is quicker than the library's, which calls a copy for each value:
//! sorting rows by bucket is the dearest thing that happens to them before they are encoded. All other
//! columns are the library's.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericByteArray, RecordBatch, UInt32Array};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{BinaryType, ByteArrayType, DataType, Utf8Type};
use arrow::error::{ArrowError, Result};

/// Values of up to this many bytes are copied as if they had all of them: two moves and no call.
const SHORT: usize = 16;

/// The rows with these numbers, in their order.
///
/// # Errors
/// Those of the library; a number that is no row of the batch.
pub(crate) fn reorder(batch: &RecordBatch, rows: Vec<u32>) -> Result<RecordBatch> {
    let rows = UInt32Array::from(rows);
    let columns = batch.columns().iter().map(|column| {
        let all = column.null_count() == 0;
        match column.data_type() {
            DataType::Utf8 if all => bytes::<Utf8Type>(column.as_string(), rows.values()),
            DataType::Binary if all => bytes::<BinaryType>(column.as_binary(), rows.values()),
            _ => take(column, &rows, None),
        }
    });
    RecordBatch::try_new(batch.schema(), columns.collect::<Result<_>>()?)
}

fn bytes<T: ByteArrayType<Offset = i32>>(
    column: &GenericByteArray<T>,
    rows: &[u32],
) -> Result<ArrayRef> {
    let (offsets, data) = (column.value_offsets(), column.value_data());
    let all = offsets.first().zip(offsets.last());
    let length = all.map_or(0, |(first, last)| (last - first) as usize);
    let mut out: Vec<u8> = Vec::with_capacity(length + SHORT);
    let mut ends: Vec<i32> = Vec::with_capacity(rows.len() + 1);
    ends.push(0);
    let mut end = 0;
    for row in rows {
        let Some([start, stop]) = offsets.get(*row as usize..).and_then(|o| o.first_chunk()) else {
            let what = format!("row {row} of {}", column.len());
            return Err(ArrowError::InvalidArgumentError(what));
        };
        let (start, size) = (*start as usize, (*stop - *start) as usize);
        // What was copied too much goes before the next value comes.
        out.truncate(end);
        let tail = data.get(start..).unwrap_or_default();
        match tail.first_chunk::<SHORT>() {
            Some(short) if size <= SHORT => out.extend_from_slice(short),
            _ => out.extend_from_slice(tail.get(..size).unwrap_or_default()),
        }
        end += size;
        ends.push(end as i32);
    }
    out.truncate(end);
    let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
    let array = GenericByteArray::<T>::try_new(offsets, out.into(), None)?;
    Ok(Arc::new(array))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BinaryArray, Int64Array, StringArray};
    use arrow::compute::take_record_batch;

    /// As the library does it, for texts of every length around the short ones, slices, nulls, and rows
    /// that come more than once or not at all.
    #[test]
    fn every_value_is_where_the_library_would_put_it() {
        let texts: Vec<String> = (0..97)
            .map(|n| "äx".repeat(n % 13) + &"y".repeat(n % 5))
            .collect();
        let some = |n: usize| {
            (!n.is_multiple_of(7))
                .then(|| texts.get(n).cloned())
                .flatten()
        };
        let batch = RecordBatch::try_from_iter_with_nullable([
            (
                "text",
                Arc::new(StringArray::from_iter_values(&texts)) as ArrayRef,
                false,
            ),
            (
                "bytes",
                Arc::new(BinaryArray::from_iter_values(&texts)) as ArrayRef,
                false,
            ),
            (
                "some",
                Arc::new(StringArray::from_iter((0..97).map(some))) as ArrayRef,
                true,
            ),
            (
                "id",
                Arc::new(Int64Array::from_iter_values(0..97)) as ArrayRef,
                false,
            ),
        ])
        .unwrap();
        for (from, count) in [(0, 97), (5, 40), (60, 37), (96, 1), (10, 0)] {
            let part = batch.slice(from, count);
            let orders: [Vec<u32>; 4] = [
                (0..count as u32).rev().collect(),
                (0..count as u32)
                    .map(|n| n * 31 % count.max(1) as u32)
                    .collect(),
                (0..count as u32).filter(|n| n % 3 == 0).collect(),
                Vec::new(),
            ];
            for rows in orders {
                let wanted = take_record_batch(&part, &UInt32Array::from(rows.clone())).unwrap();
                assert_eq!(reorder(&part, rows).unwrap(), wanted, "{from} {count}");
            }
            assert!(reorder(&part, vec![count as u32]).is_err() || count == 0);
        }
    }
}
