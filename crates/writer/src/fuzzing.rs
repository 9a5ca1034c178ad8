//! What the fuzz targets run, and `cargo test` on their seeds. No part of writing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "checks report by a panic"
)]

use crate::spill::{Cursor, Run};
use crate::{GroupId, Router};
use arrow::array::{
    ArrayRef, Decimal128Array, Int32Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use std::sync::{Arc, LazyLock};
use tidegate_datafile::{arrow_schema, normalise};
use tidegate_model::{BinaryRow, BucketFunction, DataField, Datum, LogicalType, TableSchema};

const TYPES: [&str; 4] = ["STRING", "INT", "DECIMAL(20, 2)", "TIMESTAMP(6)"];

fn fields() -> Vec<DataField> {
    let field =
        |(i, text): (usize, &&str)| DataField::new(format!("c{i}"), text.parse().expect("a type"));
    TYPES.iter().enumerate().map(field).collect()
}

/// A block of the spill: rows of the schema, or an error; never a panic.
pub fn spill_block(data: &[u8]) {
    let schema = Arc::new(arrow_schema(&fields()).expect("a schema"));
    let run = Run::of_block(&std::env::temp_dir(), data, GroupId(3), 2).expect("a file");
    let mut rows = 0;
    let taken = Cursor::default().take(&run, GroupId(3), &schema, |batch| {
        rows += batch.num_rows();
        Ok(())
    });
    if taken.is_ok() {
        assert_eq!(rows, 2);
    }
}

/// Rows of few bytes each: each is in one group, and that group is the one of its values, found the
/// slow way.
pub fn route(data: &[u8]) {
    static SCHEMAS: LazyLock<Vec<TableSchema>> = LazyLock::new(|| {
        let schema = |partition: &[&str], options: &[(&str, &str)]| {
            let partition = partition.iter().map(|p| (*p).to_owned()).collect();
            let options = options.iter().copied().collect();
            TableSchema::create(fields(), partition, vec![], options, None, 0).expect("a schema")
        };
        vec![
            schema(&["c0", "c3"], &[]),
            schema(&["c0"], &[("bucket", "3"), ("bucket-key", "c1,c2")]),
            schema(&[], &[("bucket", "7"), ("bucket-key", "c0,c3,c2")]),
            schema(
                &["c3"],
                &[
                    ("bucket", "5"),
                    ("bucket-key", "c1"),
                    ("bucket-function.type", "mod"),
                ],
            ),
        ]
    });
    let [which, data @ ..] = data else { return };
    let schema = &SCHEMAS[usize::from(*which) % SCHEMAS.len()];
    let mut values: Vec<[Option<Datum>; 4]> = Vec::new();
    let mut rest = data;
    while let [flags, tail @ ..] = rest {
        let n = usize::from(flags >> 4).min(tail.len());
        let (bytes, tail) = tail.split_at(n);
        rest = tail;
        let number = bytes
            .iter()
            .fold(i64::from(*flags as i8) >> 7, |n, b| n << 8 | i64::from(*b));
        let some = |bit: u8, datum: Datum| (flags & bit == 0).then_some(datum);
        values.push([
            some(
                1,
                Datum::String(String::from_utf8_lossy(bytes).into_owned()),
            ),
            some(2, Datum::Int(number as i32)),
            some(
                4,
                Datum::Decimal {
                    unscaled: i128::from(number),
                    precision: 20,
                    scale: 2,
                },
            ),
            some(
                8,
                Datum::Timestamp {
                    millis: number.div_euclid(1000),
                    nanos_of_milli: number.rem_euclid(1000) as i32 * 1000,
                },
            ),
        ]);
    }
    let texts = values.iter().map(|v| match &v[0] {
        Some(Datum::String(text)) => Some(text.clone()),
        _ => None,
    });
    let ints = values.iter().map(|v| match v[1] {
        Some(Datum::Int(n)) => Some(n),
        _ => None,
    });
    let decimals = values.iter().map(|v| match v[2] {
        Some(Datum::Decimal { unscaled, .. }) => Some(unscaled),
        _ => None,
    });
    let times = values.iter().map(|v| match v[3] {
        Some(Datum::Timestamp {
            millis,
            nanos_of_milli,
        }) => Some(
            millis
                .wrapping_mul(1000)
                .wrapping_add(i64::from(nanos_of_milli / 1000)),
        ),
        _ => None,
    });
    let decimals: Decimal128Array = decimals.collect();
    let decimals = decimals
        .with_precision_and_scale(20, 2)
        .expect("19 digits at most");
    let batch = RecordBatch::try_from_iter_with_nullable([
        (
            "c0",
            Arc::new(texts.collect::<StringArray>()) as ArrayRef,
            true,
        ),
        ("c1", Arc::new(ints.collect::<Int32Array>()) as _, true),
        ("c2", Arc::new(decimals) as _, true),
        (
            "c3",
            Arc::new(times.collect::<TimestampMicrosecondArray>()) as _,
            true,
        ),
    ])
    .expect("a batch");
    let batch = normalise(&batch, &schema.fields).expect("the table's columns");
    let mut router = Router::new(schema).expect("a router");
    // The whole, and the rest of it, whose arrays begin in the middle of their buffers.
    for from in [0, values.len() / 2] {
        let part = batch.slice(from, values.len() - from);
        let values = &values[from..];
        let routed = router.route(&part).expect("canonical rows");
        let mut seen = vec![false; values.len()];
        for (group, rows) in routed.iter() {
            let key = router.key(group).expect("a group that was met").clone();
            let all: Vec<u32> = (0..values.len() as u32).collect();
            for row in rows.unwrap_or(&all) {
                let row = *row as usize;
                assert!(
                    !std::mem::replace(&mut seen[row], true),
                    "row {row} comes twice"
                );
                let (partition, _) = key_of(schema, &schema.partition_keys, &values[row]);
                assert_eq!(key.partition, partition);
                if router.total_buckets() > 0 {
                    let (bucket_key, types) = key_of(schema, &schema.bucket_keys(), &values[row]);
                    let function = match schema.options.get("bucket-function.type") {
                        Some(text) => BucketFunction::from_option(text).expect("known"),
                        None => BucketFunction::Default,
                    };
                    let bucket =
                        function.bucket(bucket_key.bytes(), &types, router.total_buckets());
                    assert_eq!(bucket.expect("a bucket"), key.bucket.0);
                }
            }
        }
        assert!(seen.iter().all(|s| *s), "a row is lost");
    }
}

fn key_of(
    schema: &TableSchema,
    names: &[String],
    values: &[Option<Datum>; 4],
) -> (BinaryRow, Vec<LogicalType>) {
    let places: Vec<_> = names
        .iter()
        .map(|n| schema.index_of(n).expect("a column"))
        .collect();
    let types: Vec<_> = places
        .iter()
        .map(|i| schema.fields[*i].data_type.logical.clone())
        .collect();
    let values: Vec<_> = places.iter().map(|i| values[*i].clone()).collect();
    (
        BinaryRow::from_datums(&values, &types).expect("values of their types"),
        types,
    )
}

#[cfg(test)]
tidegate_fuzz_support::seeds!(
    spill_block: packed,
    route: packed,
);

/// Seeds reach every variant of what a reader of spilled blocks says.
#[cfg(test)]
mod corpus {
    use super::{Arc, Cursor, GroupId, Run, arrow_schema, fields};
    use crate::WriterError;
    use std::collections::BTreeSet;
    use tidegate_fuzz_support::{reached, variants};

    variants!(WriterError {
        Arrow { .. },
    } elsewhere {
        // Of rows, options, stores and tasks; a spill's own files are always ours.
        Config(..), Rows(..), Row { .. }, Partition(..), BucketCount { .. }, Views { .. }, Encode { .. },
        Upload { .. }, Size { .. }, Spill { .. }, Task { .. }, Unusable(..), Abort { .. }, Merge(..),
        Read { .. }, Levels { .. }, KeyOrder { .. }, Vectors { .. }, Get { .. },
    });

    #[test]
    fn seeds_reach_every_variant() {
        let folder = env!("CARGO_MANIFEST_DIR");
        let schema = Arc::new(arrow_schema(&fields()).unwrap());
        let all = reached(folder, "spill_block", |data| {
            let run = Run::of_block(&std::env::temp_dir(), data, GroupId(3), 2).unwrap();
            let taken = Cursor::default().take(&run, GroupId(3), &schema, |_| Ok(()));
            taken.err().iter().map(name).collect()
        });
        assert_eq!(all, DECODERS.iter().copied().collect::<BTreeSet<_>>());
    }
}
