//! Key-value files have the columns, ids and entries of \[F-6.2].
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use arrow::array::*;
use arrow::datatypes::{DataType, TimeUnit};
use arrow::record_batch::RecordBatch;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use std::sync::Arc;
use tidegate_datafile::{
    EncodedFile, FileEncoder, FilePlan, ReadPlan, key_value_fields, key_value_schema, read_parquet,
};
use tidegate_model::{BinaryRow, DataField, Datum, LogicalType, Options, TableSchema};

fn table(options: &[(&str, &str)]) -> TableSchema {
    let columns = [
        ("pt", "INT"),
        ("k", "BIGINT"),
        ("v", "STRING"),
        ("d", "DECIMAL(20, 2)"),
    ];
    let columns = columns.map(|(name, of)| DataField::new(name, of.parse().unwrap()));
    let mut all: Options = [("bucket", "1")].into_iter().collect();
    options.iter().for_each(|(k, v)| all.set(*k, *v));
    TableSchema::create(
        columns.to_vec(),
        vec!["pt".into()],
        vec!["pt".into(), "k".into()],
        all,
        None,
        0,
    )
    .unwrap()
}

fn rows(schema: &TableSchema, first: i64, keys: &[i64], kinds: &[i8]) -> RecordBatch {
    let decimals = Decimal128Array::from(vec![150; keys.len()]);
    let texts = keys
        .iter()
        .map(|k| (k % 2 == 0).then(|| format!("{k}-a text above sixteen")));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(
            first..first + keys.len() as i64,
        )),
        Arc::new(Int8Array::from(kinds.to_vec())),
        Arc::new(Int32Array::from(vec![7; keys.len()])),
        Arc::new(Int64Array::from(keys.to_vec())),
        Arc::new(StringArray::from_iter(texts)),
        Arc::new(decimals.with_precision_and_scale(20, 2).unwrap()),
    ];
    RecordBatch::try_new(key_value_schema(&schema.fields).unwrap(), columns).unwrap()
}

fn encode(schema: &TableSchema, batches: &[RecordBatch]) -> EncodedFile {
    let mut encoder = FileEncoder::new(&FilePlan::key_value(schema).unwrap()).unwrap();
    batches.iter().for_each(|b| encoder.write(b).unwrap());
    encoder.finish().unwrap()
}

fn columns(file: &EncodedFile) -> Vec<(String, i32)> {
    let reader = SerializedFileReader::new(file.last_bytes.clone()).unwrap();
    let root = reader.metadata().file_metadata().schema().clone();
    let fields = root.get_fields().iter();
    fields
        .map(|f| (f.name().to_owned(), f.get_basic_info().id()))
        .collect()
}

#[test]
fn a_key_value_file_repeats_its_keys_and_a_thin_one_does_not() {
    let system = [
        ("_SEQUENCE_NUMBER", 2_147_483_646),
        ("_VALUE_KIND", 2_147_483_645),
    ];
    let values = [("pt", 0), ("k", 1), ("v", 2), ("d", 3)];
    let expected = |keys: &[(&str, i32)]| -> Vec<(String, i32)> {
        let all = keys.iter().chain(&system).chain(&values);
        all.map(|(name, id)| ((*name).to_owned(), *id)).collect()
    };
    let normal = table(&[]);
    let file = encode(&normal, &[rows(&normal, 5, &[1, 2], &[0, 3])]);
    assert_eq!(columns(&file), expected(&[("_KEY_k", 1_073_741_824)]));
    let thin = table(&[("data-file.thin-mode", "true")]);
    let thin_file = encode(&thin, &[rows(&thin, 5, &[1, 2], &[0, 3])]);
    assert_eq!(columns(&thin_file), expected(&[]));
    // What the entry says is the same.
    assert_eq!(file.keyed, thin_file.keyed);
    assert_eq!(file.value_stats, thin_file.value_stats);
}

#[test]
fn the_entry_says_first_and_last_key_sequences_and_deletes() {
    let schema = table(&[]);
    let file = encode(
        &schema,
        &[
            rows(&schema, 40, &[-3, 2], &[0, 1]),
            rows(&schema, 10, &[4, 9, 12], &[2, 3, 0]),
        ],
    );
    let keyed = file.keyed.unwrap();
    let key =
        |k| BinaryRow::from_datums(&[Some(Datum::BigInt(k))], &[LogicalType::BigInt]).unwrap();
    assert_eq!((keyed.min_key, keyed.max_key), (key(-3), key(12)));
    assert_eq!(keyed.key_stats.min_values, key(-3));
    assert_eq!(keyed.key_stats.max_values, key(12));
    assert_eq!(keyed.key_stats.null_counts, Some(vec![Some(0)]));
    assert_eq!(
        (keyed.min_sequence_number, keyed.max_sequence_number),
        (10, 41)
    );
    assert_eq!(keyed.delete_row_count, 2);
    // Value statistics are those of the table's columns alone.
    assert_eq!(file.value_stats_cols, None);
    assert_eq!(file.value_stats.min_values.arity(), 4);
    assert_eq!(
        file.value_stats.null_counts,
        Some(vec![Some(0), Some(0), Some(2), Some(0)])
    );
}

/// Of the key the statistics hold 128 characters whatever the table's mode is; value statistics follow
/// the mode \[F-4.4].
#[test]
fn key_statistics_do_not_follow_the_tables_mode() {
    for thin in ["false", "true"] {
        let columns = vec![
            DataField::new("k", "STRING".parse().unwrap()),
            DataField::new("n", "INT".parse().unwrap()),
        ];
        let options = [
            ("bucket", "1"),
            ("metadata.stats-mode", "none"),
            ("data-file.thin-mode", thin),
        ];
        let options = options.into_iter().collect();
        let schema =
            TableSchema::create(columns, vec![], vec!["k".into()], options, None, 0).unwrap();
        let text = "x".repeat(20);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![0])),
            Arc::new(Int8Array::from(vec![0])),
            Arc::new(StringArray::from(vec![text.as_str()])),
            Arc::new(Int32Array::from(vec![1])),
        ];
        let batch =
            RecordBatch::try_new(key_value_schema(&schema.fields).unwrap(), columns).unwrap();
        let file = encode(&schema, &[batch]);
        let stats = file.keyed.unwrap().key_stats;
        let types = LogicalType::VarChar(i32::MAX as u32);
        assert_eq!(
            stats.max_values.get(0, &types).unwrap(),
            Some(Datum::String(text)),
            "thin {thin}"
        );
        assert_eq!(file.value_stats_cols, Some(vec![]));
    }
}

#[test]
fn what_was_written_is_read_back_normal_and_thin() {
    for thin in ["false", "true"] {
        let schema = table(&[("data-file.thin-mode", thin)]);
        let batch = rows(&schema, 0, &[1, 2, 3], &[0, 2, 3]);
        let file = encode(&schema, std::slice::from_ref(&batch));
        let fields = key_value_fields(&schema.fields);
        let plan = ReadPlan::new(&fields, &fields).unwrap();
        let read = read_parquet("f.parquet", file.last_bytes, &plan)
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(read, batch, "thin {thin}");
    }
}

#[test]
fn the_changelogs_options_are_its_own() {
    let schema = table(&[
        ("changelog-file.compression", "none"),
        ("changelog-file.stats-mode", "none"),
    ]);
    let plan = FilePlan::changelog(&schema).unwrap();
    assert_eq!(plan.codec_suffix(), None);
    assert_eq!(
        FilePlan::key_value(&schema).unwrap().codec_suffix(),
        Some("zst")
    );
    let mut encoder = FileEncoder::new(&plan).unwrap();
    encoder.write(&rows(&schema, 0, &[1], &[1])).unwrap();
    assert_eq!(encoder.finish().unwrap().value_stats_cols, Some(vec![]));
}

#[test]
fn a_time_of_a_key_keeps_all_its_digits() {
    let columns = vec![DataField::new("k", "TIMESTAMP(9)".parse().unwrap())];
    let options = [("bucket", "1")].into_iter().collect();
    let schema = TableSchema::create(columns, vec![], vec!["k".into()], options, None, 0).unwrap();
    let kv = key_value_schema(&schema.fields).unwrap();
    assert_eq!(
        kv.field(2).data_type(),
        &DataType::Timestamp(TimeUnit::Nanosecond, None)
    );
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![0])),
        Arc::new(Int8Array::from(vec![0])),
        Arc::new(TimestampNanosecondArray::from(vec![-1])),
    ];
    let file = encode(&schema, &[RecordBatch::try_new(kv, columns).unwrap()]);
    let keyed = file.keyed.unwrap();
    assert_eq!(
        keyed.min_key.get(0, &LogicalType::Timestamp(9)).unwrap(),
        Some(Datum::Timestamp {
            millis: -1,
            nanos_of_milli: 999_999
        })
    );
    // Twelve-byte times have no bounds in statistics, the key is there all the same.
    assert_eq!(
        keyed
            .key_stats
            .min_values
            .get(0, &LogicalType::Timestamp(9))
            .unwrap(),
        None
    );
}
