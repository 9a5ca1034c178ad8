//! Partition and bucket of rows against the slow way, value by value.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray,
    Time32MillisecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray,
};
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tidegate_datafile::normalise;
use tidegate_model::bucket::{BucketFunction, hash};
use tidegate_model::{BinaryRow, Datum, LogicalType};
use tidegate_sink::{Router as _, RowKind, Rows};
use tidegate_writer::{ChannelRouter, Router};

use crate::support::{STRING, orders, schema};

/// A column of every type that can be a key, with its values in both worlds.
fn column(
    logical: &LogicalType,
    rows: usize,
    rng: &mut SmallRng,
) -> (ArrayRef, Vec<Option<Datum>>) {
    // Few distinct values, so that rows meet in partitions; extremes among them.
    macro_rules! values {
        ($make:expr) => {{
            let make = $make;
            (0..rows)
                .map(|_| rng.random_bool(0.9).then(|| make(rng)))
                .collect::<Vec<_>>()
        }};
    }
    fn stamp(value: i64, per_milli: i64, nanos: i64) -> Datum {
        Datum::Timestamp {
            millis: value.div_euclid(per_milli),
            nanos_of_milli: (value.rem_euclid(per_milli) * nanos) as i32,
        }
    }
    fn pick<T: Copy>(rng: &mut SmallRng, from: &[T]) -> T {
        from[rng.random_range(0..from.len())]
    }
    fn text(rng: &mut SmallRng) -> String {
        let length = pick(rng, &[0, 1, 6, 7, 8, 9, 15, 16, 17, 40]);
        "aé"
            .chars()
            .cycle()
            .skip(usize::from(rng.random_bool(0.5)))
            .take(length)
            .collect()
    }
    let micros = |rng: &mut SmallRng| pick(rng, &[-1_001i64, -1, 0, 999, 1_704_067_200_123_456]);
    match logical {
        LogicalType::Boolean => {
            let v = values!(|r: &mut SmallRng| r.random_bool(0.5));
            (
                Arc::new(BooleanArray::from(v.clone())),
                v.into_iter().map(|v| v.map(Datum::Boolean)).collect(),
            )
        }
        LogicalType::TinyInt => {
            let v = values!(|r: &mut SmallRng| pick(r, &[i8::MIN, -1, 0, 1, i8::MAX]));
            (
                Arc::new(Int8Array::from(v.clone())),
                v.into_iter().map(|v| v.map(Datum::TinyInt)).collect(),
            )
        }
        LogicalType::SmallInt => {
            let v = values!(|r: &mut SmallRng| pick(r, &[i16::MIN, -1, 0, 300, i16::MAX]));
            (
                Arc::new(Int16Array::from(v.clone())),
                v.into_iter().map(|v| v.map(Datum::SmallInt)).collect(),
            )
        }
        LogicalType::Int => {
            let v = values!(|r: &mut SmallRng| pick(r, &[i32::MIN, -1, 0, 7, i32::MAX]));
            (
                Arc::new(Int32Array::from(v.clone())),
                v.into_iter().map(|v| v.map(Datum::Int)).collect(),
            )
        }
        LogicalType::BigInt => {
            let v = values!(|r: &mut SmallRng| pick(r, &[i64::MIN, -3, 0, 42, i64::MAX]));
            (
                Arc::new(Int64Array::from(v.clone())),
                v.into_iter().map(|v| v.map(Datum::BigInt)).collect(),
            )
        }
        LogicalType::Float => {
            let v =
                values!(|r: &mut SmallRng| pick(r, &[0.0f32, -0.0, 1.5, f32::INFINITY, f32::NAN]));
            (
                Arc::new(Float32Array::from(v.clone())),
                v.into_iter().map(|v| v.map(Datum::Float)).collect(),
            )
        }
        LogicalType::Double => {
            let v = values!(|r: &mut SmallRng| pick(r, &[0.0f64, -0.0, 1.5, -1e300, f64::NAN]));
            (
                Arc::new(Float64Array::from(v.clone())),
                v.into_iter().map(|v| v.map(Datum::Double)).collect(),
            )
        }
        LogicalType::Decimal { precision, scale } => {
            let most = 10i128.pow(u32::from(*precision)) - 1;
            let v = values!(|r: &mut SmallRng| pick(
                r,
                &[-most, -100, -1, 0, 127, 128, 255, 12_345, most]
            ));
            let array =
                Decimal128Array::from(v.clone()).with_precision_and_scale(*precision, *scale as i8);
            let datum = |unscaled| Datum::Decimal {
                unscaled,
                precision: *precision,
                scale: *scale,
            };
            (
                Arc::new(array.unwrap()),
                v.into_iter().map(|v| v.map(datum)).collect(),
            )
        }
        LogicalType::VarChar(_) => {
            let v = values!(text);
            (
                Arc::new(StringArray::from(v.clone())),
                v.into_iter().map(|v| v.map(Datum::String)).collect(),
            )
        }
        LogicalType::VarBinary(_) => {
            let v = values!(|r: &mut SmallRng| text(r).into_bytes());
            let array: BinaryArray = v.iter().map(|v| v.as_deref()).collect();
            (
                Arc::new(array),
                v.into_iter().map(|v| v.map(Datum::Bytes)).collect(),
            )
        }
        LogicalType::Date => {
            let v = values!(|r: &mut SmallRng| pick(r, &[-1, 0, 19_723]));
            (
                Arc::new(Date32Array::from(v.clone())),
                v.into_iter().map(|v| v.map(Datum::Date)).collect(),
            )
        }
        LogicalType::Time(_) => {
            let v = values!(|r: &mut SmallRng| pick(r, &[0, 3_661_001, 86_399_999]));
            (
                Arc::new(Time32MillisecondArray::from(v.clone())),
                v.into_iter().map(|v| v.map(Datum::TimeMillis)).collect(),
            )
        }
        LogicalType::Timestamp(3) => {
            let v = values!(micros);
            let array = TimestampMillisecondArray::from(v.clone());
            (
                Arc::new(array),
                v.into_iter().map(|v| v.map(|v| stamp(v, 1, 0))).collect(),
            )
        }
        LogicalType::TimestampLtz(6) => {
            let v = values!(micros);
            let array = TimestampMicrosecondArray::from(v.clone()).with_timezone("UTC");
            (
                Arc::new(array),
                v.into_iter()
                    .map(|v| v.map(|v| stamp(v, 1_000, 1_000)))
                    .collect(),
            )
        }
        LogicalType::Timestamp(9) => {
            let v = values!(micros);
            let array = TimestampNanosecondArray::from(v.clone());
            (
                Arc::new(array),
                v.into_iter()
                    .map(|v| v.map(|v| stamp(v, 1_000_000, 1)))
                    .collect(),
            )
        }
        other => panic!("no values for {other}"),
    }
}

fn key_types() -> Vec<LogicalType> {
    vec![
        LogicalType::Boolean,
        LogicalType::TinyInt,
        LogicalType::SmallInt,
        LogicalType::Int,
        LogicalType::BigInt,
        LogicalType::Float,
        LogicalType::Double,
        LogicalType::Decimal {
            precision: 10,
            scale: 2,
        },
        LogicalType::Decimal {
            precision: 30,
            scale: 5,
        },
        STRING,
        LogicalType::VarBinary(2_147_483_647),
        LogicalType::Date,
        LogicalType::Time(3),
        LogicalType::Timestamp(3),
        LogicalType::TimestampLtz(6),
        LogicalType::Timestamp(9),
    ]
}

/// Routes random rows and compares with rows made and hashed one by one.
fn check(
    types: &[LogicalType],
    partition: &[usize],
    bucket: &[usize],
    function: BucketFunction,
    count: i32,
    seed: u64,
) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let names: Vec<String> = (0..types.len()).map(|i| format!("c{i}")).collect();
    let columns: Vec<(&str, LogicalType)> = names
        .iter()
        .map(String::as_str)
        .zip(types.iter().cloned())
        .collect();
    let partition_names: Vec<&str> = partition.iter().map(|i| names[*i].as_str()).collect();
    let keys: Vec<&str> = bucket.iter().map(|i| names[*i].as_str()).collect();
    let (count_text, keys) = (count.to_string(), keys.join(","));
    let mut options = vec![];
    if count > 0 {
        options = vec![
            ("bucket", count_text.as_str()),
            ("bucket-key", keys.as_str()),
            ("bucket-function.type", function.name()),
        ];
    }
    let schema = schema(&columns, &partition_names, &options);
    let mut router = Router::new(&schema).unwrap();
    for _ in 0..3 {
        let rows = rng.random_range(1..200);
        let (arrays, datums): (Vec<_>, Vec<_>) =
            types.iter().map(|t| column(t, rows, &mut rng)).unzip();
        let fields = names.iter().zip(arrays).map(|(n, a)| (n.as_str(), a, true));
        let batch = RecordBatch::try_from_iter_with_nullable(fields).unwrap();
        let batch = normalise(&batch, &schema.fields).unwrap();
        let slow = |which: &[usize], row: usize| {
            let values: Vec<_> = which.iter().map(|i| datums[*i][row].clone()).collect();
            let types: Vec<_> = which.iter().map(|i| types[*i].clone()).collect();
            BinaryRow::from_datums(&values, &types).unwrap()
        };
        let mut expected: BTreeMap<(BinaryRow, i32), Vec<u32>> = BTreeMap::new();
        for row in 0..rows {
            let number = match count > 0 {
                false => 0,
                true => {
                    let types: Vec<_> = bucket.iter().map(|i| types[*i].clone()).collect();
                    function
                        .bucket(slow(bucket, row).bytes(), &types, count)
                        .unwrap()
                }
            };
            assert!((0..count.max(1)).contains(&number));
            expected
                .entry((slow(partition, row), number))
                .or_default()
                .push(row as u32);
        }
        let routed = router.route(&batch).unwrap();
        let mut found = BTreeMap::new();
        for (group, list) in routed.iter() {
            let key = router.key(group).unwrap();
            let list = list.map_or_else(|| (0..rows as u32).collect(), <[u32]>::to_vec);
            let old = found.insert((key.partition.clone(), key.bucket.0), list);
            assert!(old.is_none(), "a group twice in one batch");
        }
        assert_eq!(found, expected);
    }
}

#[test]
fn b46_every_key_type_gets_the_partition_and_bucket_of_its_binary_row() {
    for (i, logical) in key_types().into_iter().enumerate() {
        let seed = i as u64;
        let types = [logical.clone(), LogicalType::BigInt];
        for count in [1, 2, 3, 7, 128] {
            check(&types, &[], &[0], BucketFunction::Default, count, seed);
            check(&types, &[], &[1, 0], BucketFunction::Default, count, seed);
            if BucketFunction::Hive
                .unfit(std::slice::from_ref(&logical))
                .is_none()
            {
                check(&types, &[], &[0, 1], BucketFunction::Hive, count, seed);
            }
            check(&types, &[], &[1], BucketFunction::Mod, count, seed);
        }
        if logical.unfit_as_partition().is_none() {
            check(&types, &[0], &[], BucketFunction::Default, -1, seed);
            check(&types, &[0], &[1], BucketFunction::Default, 5, seed);
        }
    }
}

/// Numbers without nulls are hashed without laying their rows out, and places up to a bound are looked up
/// in a table: the same buckets come of it, below and above.
#[test]
fn numbers_without_nulls_get_the_bucket_of_their_binary_row() {
    let mut rng = SmallRng::seed_from_u64(7);
    let longs: Vec<i64> = (0..500)
        .map(|_| rng.random())
        .chain([i64::MIN, -1, 0, i64::MAX])
        .collect();
    let ints: Vec<i32> = longs.iter().map(|v| *v as i32).collect();
    for (logical, array) in [
        (
            LogicalType::BigInt,
            Arc::new(Int64Array::from(longs.clone())) as ArrayRef,
        ),
        (
            LogicalType::Int,
            Arc::new(Int32Array::from(ints.clone())) as ArrayRef,
        ),
    ] {
        for count in [1, 16, 1000, 70_000] {
            let text = count.to_string();
            let options = [("bucket", text.as_str()), ("bucket-key", "k")];
            let schema = schema(&[("k", logical.clone())], &[], &options);
            let mut router = Router::new(&schema).unwrap();
            let batch = RecordBatch::try_from_iter_with_nullable([("k", array.clone(), true)]);
            let batch = batch.unwrap();
            // Once more: what was met is remembered.
            for _ in 0..2 {
                let routed = router.route(&batch).unwrap();
                for (group, rows) in routed.iter() {
                    let all: Vec<u32> = (0..batch.num_rows() as u32).collect();
                    for row in rows.unwrap_or(&all) {
                        let datum = match logical {
                            LogicalType::BigInt => Datum::BigInt(longs[*row as usize]),
                            _ => Datum::Int(ints[*row as usize]),
                        };
                        let key = std::slice::from_ref(&logical);
                        let row = BinaryRow::from_datums(&[Some(datum)], key).unwrap();
                        let wanted = BucketFunction::Default
                            .bucket(row.bytes(), key, count)
                            .unwrap();
                        assert_eq!(router.key(group).unwrap().bucket.0, wanted, "{count}");
                    }
                }
            }
        }
    }
}

/// Texts are told apart by two words and their length where they are short: none looks like another.
#[test]
fn partition_texts_of_every_length_are_told_apart() {
    let mut texts: Vec<String> = Vec::new();
    for length in 0..=20 {
        for letters in ["ab", "\0a", "\0\0", "aa"] {
            texts.push(letters.chars().cycle().take(length).collect());
        }
    }
    texts.sort();
    texts.dedup();
    let schema = schema(&[("p", STRING), ("v", LogicalType::BigInt)], &["p"], &[]);
    let mut router = Router::new(&schema).unwrap();
    for _ in 0..2 {
        let batch = RecordBatch::try_from_iter_with_nullable([
            (
                "p",
                Arc::new(StringArray::from(texts.clone())) as ArrayRef,
                true,
            ),
            (
                "v",
                Arc::new(Int64Array::from(vec![1; texts.len()])) as ArrayRef,
                true,
            ),
        ]);
        let routed = router.route(&batch.unwrap()).unwrap();
        assert_eq!(router.len(), texts.len());
        for (group, rows) in routed.iter() {
            let [row] = rows.unwrap() else {
                panic!("{rows:?}")
            };
            let text = Datum::String(texts[*row as usize].clone());
            let row = BinaryRow::from_datums(&[Some(text)], &[STRING]).unwrap();
            assert_eq!(router.key(group).unwrap().partition, row);
        }
        texts.reverse();
    }
}

#[test]
fn rows_with_more_than_56_key_columns_have_a_longer_header() {
    let types = vec![LogicalType::Int; 60];
    let all: Vec<usize> = (0..60).collect();
    check(&types, &[], &all, BucketFunction::Default, 16, 1);
    check(&types, &all, &[], BucketFunction::Default, -1, 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_mixture_of_key_columns_is_routed_as_row_by_row(
        picks in prop::collection::vec(0usize..16, 2..6),
        split in 0usize..3,
        count in prop::sample::select(vec![-1, 1, 4, 16]),
        seed: u64,
    ) {
        let all = key_types();
        let types: Vec<_> = picks.iter().map(|i| all[*i].clone()).collect();
        let partition: Vec<usize> =
            (0..split.min(types.len() - 1)).filter(|i| types[*i].unfit_as_partition().is_none()).collect();
        let bucket: Vec<usize> = (split.min(types.len() - 1)..types.len()).collect();
        check(&types, &partition, &bucket, BucketFunction::Default, count, seed);
    }

    #[test]
    fn spreading_gives_each_row_to_one_writer_and_each_bucket_one_writer(
        rows in prop::collection::vec((0i64..50, prop::option::of(0u8..4)), 1..300),
        writers in 1usize..6,
        channel in 0usize..6,
    ) {
        let texts: Vec<_> = rows.iter().map(|(_, dt)| dt.map(|dt| dt.to_string())).collect();
        let rows: Vec<_> = rows.iter().zip(&texts).map(|((id, _), dt)| (*id, dt.as_deref())).collect();
        let batch = orders(&rows);
        let kinds: Vec<_> = (0..rows.len())
            .map(|i| if i % 3 == 0 { RowKind::UpdateAfter } else { RowKind::Insert })
            .collect();
        let columns = [("id", LogicalType::BigInt), ("name", STRING), ("dt", STRING)];

        let unaware = ChannelRouter::new(&schema(&columns, &["dt"], &[]), writers).unwrap();
        let parts = unaware.spread(channel, batch.clone()).unwrap();
        prop_assert_eq!(parts, vec![(channel % writers, batch.clone())]);

        let options = [("bucket", "4"), ("bucket-key", "id")];
        let schema = schema(&columns, &["dt"], &options);
        let fixed = ChannelRouter::new(&schema, writers).unwrap();
        let parts = fixed.route(channel, Rows { batch, kinds: Some(kinds.clone()) }).unwrap();
        let mut seen = 0;
        let mut router = Router::new(&schema).unwrap();
        for (writer, part) in parts {
            let kinds_of_part = part.kinds.unwrap();
            prop_assert_eq!(kinds_of_part.len(), part.batch.num_rows());
            seen += part.batch.num_rows();
            let part = normalise(&part.batch, &schema.fields).unwrap();
            for (group, _) in router.route(&part).unwrap().iter() {
                let key = router.key(group).unwrap();
                let partition = hash(key.partition.bytes());
                let spread = partition.checked_abs().unwrap_or(i32::MAX) as usize % writers;
                prop_assert_eq!(writer, (spread + key.bucket.0 as usize) % writers);
            }
        }
        prop_assert_eq!(seen, rows.len());
    }
}
