//! What is written is read back, for every type, and the file looks as Java's does.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType as Arrow, Field, Fields};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use futures::StreamExt;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::schema::printer::print_schema;
use std::sync::Arc;
use tidegate_datafile::*;
use tidegate_model::{DataField, DataType, FieldId, LogicalType as L, Options};

fn field(id: i32, name: &str, logical: L) -> DataField {
    let mut field = DataField::new(name, DataType::nullable(logical));
    field.id = FieldId(id);
    field
}

fn encode(fields: &[DataField], options: &[(&str, &str)], batches: &[RecordBatch]) -> EncodedFile {
    let options: Options = options.iter().copied().collect();
    let plan = FilePlan::of_fields(fields, &options).unwrap();
    let mut encoder = FileEncoder::new(&plan).unwrap();
    for batch in batches {
        encoder.write(&normalise(batch, fields).unwrap()).unwrap();
    }
    encoder.finish().unwrap()
}

fn decode(bytes: Bytes, written: &[DataField], wanted: &[DataField]) -> RecordBatch {
    let plan = ReadPlan::new(written, wanted).unwrap();
    let batches: Vec<_> = read_parquet("f.parquet", bytes, &plan)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    concat_batches(plan.schema(), &batches).unwrap()
}

fn schema_text(bytes: Bytes) -> String {
    let reader = SerializedFileReader::new(bytes).unwrap();
    let mut text = Vec::new();
    print_schema(&mut text, reader.metadata().file_metadata().schema());
    String::from_utf8(text).unwrap()
}

/// Every primitive type, with values at the edges and a null.
fn primitives() -> (Vec<DataField>, RecordBatch) {
    const DAY: i64 = 86_400_000;
    let ts = |unit: i64| {
        vec![
            Some(-unit),
            Some(0),
            Some(DAY * 80_000 * (unit / 1000) + 1),
            None,
        ]
    };
    let columns: Vec<(L, ArrayRef)> = vec![
        (
            L::Boolean,
            Arc::new(BooleanArray::from(vec![
                Some(true),
                Some(false),
                Some(true),
                None,
            ])),
        ),
        (
            L::TinyInt,
            Arc::new(Int8Array::from(vec![
                Some(i8::MIN),
                Some(0),
                Some(i8::MAX),
                None,
            ])),
        ),
        (
            L::SmallInt,
            Arc::new(Int16Array::from(vec![
                Some(i16::MIN),
                Some(0),
                Some(i16::MAX),
                None,
            ])),
        ),
        (
            L::Int,
            Arc::new(Int32Array::from(vec![
                Some(i32::MIN),
                Some(0),
                Some(i32::MAX),
                None,
            ])),
        ),
        (
            L::BigInt,
            Arc::new(Int64Array::from(vec![
                Some(i64::MIN),
                Some(0),
                Some(i64::MAX),
                None,
            ])),
        ),
        (
            L::Float,
            Arc::new(Float32Array::from(vec![
                Some(-0.0),
                Some(f32::NEG_INFINITY),
                Some(f32::MAX),
                None,
            ])),
        ),
        (
            L::Double,
            Arc::new(Float64Array::from(vec![
                Some(5e-324),
                Some(f64::INFINITY),
                Some(f64::MIN),
                None,
            ])),
        ),
        (
            L::Decimal {
                precision: 9,
                scale: 2,
            },
            Arc::new(
                Decimal128Array::from(vec![Some(-999_999_999), Some(0), Some(999_999_999), None])
                    .with_precision_and_scale(9, 2)
                    .unwrap(),
            ),
        ),
        (
            L::Decimal {
                precision: 18,
                scale: 6,
            },
            Arc::new(
                Decimal128Array::from(vec![
                    Some(-(10i128.pow(18)) + 1),
                    Some(1),
                    Some(10i128.pow(18) - 1),
                    None,
                ])
                .with_precision_and_scale(18, 6)
                .unwrap(),
            ),
        ),
        (
            L::Decimal {
                precision: 38,
                scale: 10,
            },
            Arc::new(
                Decimal128Array::from(vec![
                    Some(-(10i128.pow(38)) + 1),
                    Some(1),
                    Some(10i128.pow(38) - 1),
                    None,
                ])
                .with_precision_and_scale(38, 10)
                .unwrap(),
            ),
        ),
        (
            L::Char(3),
            Arc::new(StringArray::from(vec![
                Some("äöü"),
                Some(""),
                Some("a"),
                None,
            ])),
        ),
        (
            L::VarChar(i32::MAX as u32),
            Arc::new(StringArray::from(vec![
                Some("🦀"),
                Some(""),
                Some("long text"),
                None,
            ])),
        ),
        (
            L::Binary(2),
            Arc::new(BinaryArray::from(vec![
                Some(&[0u8, 255][..]),
                Some(&[]),
                Some(&[1]),
                None,
            ])),
        ),
        (
            L::VarBinary(i32::MAX as u32),
            Arc::new(BinaryArray::from(vec![
                Some(&[0xffu8; 40][..]),
                Some(&[]),
                Some(&[1]),
                None,
            ])),
        ),
        (
            L::Date,
            Arc::new(Date32Array::from(vec![
                Some(-719_162),
                Some(0),
                Some(2_932_896),
                None,
            ])),
        ),
        (
            L::Time(3),
            Arc::new(Time32MillisecondArray::from(vec![
                Some(0),
                Some(1),
                Some(86_399_999),
                None,
            ])),
        ),
        (
            L::Timestamp(3),
            Arc::new(TimestampMillisecondArray::from(ts(1_000))),
        ),
        (
            L::Timestamp(6),
            Arc::new(TimestampMicrosecondArray::from(ts(1_000_000))),
        ),
        (
            L::Timestamp(9),
            Arc::new(TimestampNanosecondArray::from(ts(1_000_000_000))),
        ),
        (
            L::TimestampLtz(3),
            Arc::new(TimestampMillisecondArray::from(ts(1_000)).with_timezone("UTC")),
        ),
        (
            L::TimestampLtz(6),
            Arc::new(TimestampMicrosecondArray::from(ts(1_000_000)).with_timezone("UTC")),
        ),
        (
            L::TimestampLtz(9),
            Arc::new(TimestampNanosecondArray::from(ts(1_000_000_000)).with_timezone("UTC")),
        ),
    ];
    let fields: Vec<DataField> = columns
        .iter()
        .enumerate()
        .map(|(i, (t, _))| field(i as i32, &format!("c{i}"), t.clone()))
        .collect();
    let batch = RecordBatch::try_from_iter_with_nullable(
        fields
            .iter()
            .zip(columns)
            .map(|(f, (_, column))| (f.name.clone(), column, true)),
    )
    .unwrap();
    (fields, batch)
}

#[test]
fn every_primitive_type_comes_back_equal() {
    let (fields, batch) = primitives();
    let expected = normalise(&batch, &fields).unwrap();
    for options in [
        vec![],
        vec![("parquet.writer.version", "v2")],
        vec![("file.compression", "snappy")],
        vec![
            ("file.compression", "none"),
            ("parquet.enable.dictionary", "false"),
        ],
        vec![("file.compression", "gzip")],
        vec![("file.compression", "lz4")],
    ] {
        let file = encode(&fields, &options, std::slice::from_ref(&batch));
        assert_eq!(file.size, file.last_bytes.len() as u64);
        assert_eq!(
            decode(file.last_bytes, &fields, &fields),
            expected,
            "{options:?}"
        );
    }
}

#[test]
fn the_parquet_schema_is_javas() {
    let (fields, batch) = primitives();
    let file = encode(&fields, &[], &[batch]);
    let expected = "\
message paimon_schema {
  OPTIONAL BOOLEAN c0 [0];
  OPTIONAL INT32 c1 [1] (INTEGER(8,true));
  OPTIONAL INT32 c2 [2] (INTEGER(16,true));
  OPTIONAL INT32 c3 [3];
  OPTIONAL INT64 c4 [4];
  OPTIONAL FLOAT c5 [5];
  OPTIONAL DOUBLE c6 [6];
  OPTIONAL INT32 c7 [7] (DECIMAL(9,2));
  OPTIONAL INT64 c8 [8] (DECIMAL(18,6));
  OPTIONAL FIXED_LEN_BYTE_ARRAY (16) c9 [9] (DECIMAL(38,10));
  OPTIONAL BYTE_ARRAY c10 [10] (STRING);
  OPTIONAL BYTE_ARRAY c11 [11] (STRING);
  OPTIONAL BYTE_ARRAY c12 [12];
  OPTIONAL BYTE_ARRAY c13 [13];
  OPTIONAL INT32 c14 [14] (DATE);
  OPTIONAL INT32 c15 [15] (TIME(MILLIS,true));
  OPTIONAL INT64 c16 [16] (TIMESTAMP(MILLIS,false));
  OPTIONAL INT64 c17 [17] (TIMESTAMP(MICROS,false));
  OPTIONAL INT96 c18 [18];
  OPTIONAL INT64 c19 [19] (TIMESTAMP(MILLIS,true));
  OPTIONAL INT64 c20 [20] (TIMESTAMP(MICROS,true));
  OPTIONAL INT96 c21 [21];
}
";
    let text = schema_text(file.last_bytes.clone());
    assert_eq!(text, expected);
    let reader = SerializedFileReader::new(file.last_bytes).unwrap();
    assert!(
        reader
            .metadata()
            .file_metadata()
            .key_value_metadata()
            .is_none(),
        "no ARROW:schema entry"
    );
}

/// `ARRAY<ROW<t TIMESTAMP(9), m MAP<STRING, INT>>>` with null and empty at every level.
fn nested() -> (Vec<DataField>, RecordBatch) {
    let fields = vec![
        field(0, "id", L::Int),
        field(
            1,
            "a",
            L::Array(Box::new(DataType::nullable(L::Row(vec![
                field(2, "t", L::Timestamp(9)),
                field(
                    3,
                    "m",
                    L::Map(
                        Box::new(DataType::nullable(L::VarChar(i32::MAX as u32))),
                        Box::new(DataType::nullable(L::Int)),
                    ),
                ),
            ])))),
        ),
        field(4, "s", L::Multiset(Box::new(DataType::nullable(L::Int)))),
    ];
    let schema = arrow_schema(&fields).unwrap();
    let Arrow::List(element) = schema.field(1).data_type() else {
        panic!()
    };
    let Arrow::Struct(row) = element.data_type() else {
        panic!()
    };
    let Arrow::Map(entry, _) = row[1].data_type() else {
        panic!()
    };
    let Arrow::Struct(pair) = entry.data_type() else {
        panic!()
    };
    let entries = StructArray::new(
        pair.clone(),
        vec![
            Arc::new(StringArray::from(vec!["x", "y"])),
            Arc::new(Int32Array::from(vec![Some(1), None])),
        ],
        None,
    );
    let map = MapArray::new(
        entry.clone(),
        OffsetBuffer::from_lengths([2, 0, 0]),
        entries,
        Some(NullBuffer::from(vec![true, true, false])),
        false,
    );
    let rows = StructArray::new(
        row.clone(),
        vec![
            Arc::new(TimestampNanosecondArray::from(vec![
                Some(-1),
                None,
                Some(1_700_000_000_123_456_789),
            ])),
            Arc::new(map),
        ],
        Some(NullBuffer::from(vec![true, true, false])),
    );
    let list = ListArray::new(
        element.clone(),
        OffsetBuffer::from_lengths([3, 0, 0]),
        Arc::new(rows),
        Some(NullBuffer::from(vec![true, false, true])),
    );
    let Arrow::Map(entry, _) = schema.field(2).data_type() else {
        panic!()
    };
    let Arrow::Struct(pair) = entry.data_type() else {
        panic!()
    };
    let counts = StructArray::new(
        pair.clone(),
        vec![
            Arc::new(Int32Array::from(vec![7, 8])),
            Arc::new(Int32Array::from(vec![1, 2])),
        ],
        None,
    );
    let multiset = MapArray::new(
        entry.clone(),
        OffsetBuffer::from_lengths([1, 1, 0]),
        counts,
        None,
        false,
    );
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![1, 2, 3])),
        Arc::new(list),
        Arc::new(multiset),
    ];
    (
        fields,
        RecordBatch::try_new(Arc::new(schema), columns).unwrap(),
    )
}

#[test]
fn nested_types_with_int96_inside_come_back_equal() {
    let (fields, batch) = nested();
    let file = encode(&fields, &[], std::slice::from_ref(&batch));
    assert_eq!(decode(file.last_bytes.clone(), &fields, &fields), batch);
    let text = schema_text(file.last_bytes);
    for line in [
        "OPTIONAL group element [536871936] {",
        "OPTIONAL INT96 t [2];",
        "REPEATED group key_value (MAP_KEY_VALUE)",
        "REQUIRED BYTE_ARRAY key [536867838] (STRING);",
        "OPTIONAL INT32 value [536873984];",
        "REQUIRED INT32 value [536875008];",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    assert_eq!(
        file.value_stats_cols,
        Some(vec!["id".to_owned()]),
        "nested columns have no statistics"
    );
}

/// Whatever stands in a required field below a null row, first, last or in between, it is no value and
/// stops no reader.
#[test]
fn a_null_row_with_a_required_field_of_any_type_comes_back_null() {
    let (primitives, batch) = primitives();
    for (written, values) in primitives.iter().zip(batch.columns()) {
        for valid in [
            [true, false, true],
            [true, true, false],
            [false, true, true],
            [false, false, false],
        ] {
            null_rows_of(&written.data_type.logical, &values.slice(0, 3), valid);
        }
    }
}

fn null_rows_of(logical: &L, values: &ArrayRef, valid: [bool; 3]) {
    let inner = DataField {
        data_type: DataType::not_null(logical.clone()),
        ..field(1, "f", L::Int)
    };
    let element = DataType::nullable(L::Row(vec![inner.clone()]));
    let middle = DataField {
        data_type: DataType::not_null(L::Row(vec![inner])),
        ..field(2, "r", L::Int)
    };
    let fields = [
        field(3, "row", L::Row(vec![middle])),
        field(4, "list", L::Array(Box::new(element))),
    ];
    let row = |name: &str, column: ArrayRef, nulls: Option<NullBuffer>| -> ArrayRef {
        let field = Field::new(name, column.data_type().clone(), false);
        let fields = Fields::from(vec![field]);
        Arc::new(StructArray::new(fields, vec![column], nulls))
    };
    let nulls = || Some(NullBuffer::from(valid.to_vec()));
    let rows = row("r", row("f", values.clone(), None), nulls());
    let items = row("f", values.clone(), nulls());
    let element = Arc::new(Field::new("element", items.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths([2, 0, 1]);
    let list: ArrayRef = Arc::new(ListArray::new(element, offsets, items, None));
    let given = RecordBatch::try_from_iter([("row", rows), ("list", list)]).unwrap();
    let file = encode(&fields, &[], &[given]);
    let read = decode(file.last_bytes, &fields, &fields);
    let row = read.column(0).as_struct();
    let list = read.column(1).as_list::<i32>().values().as_struct().clone();
    for (at, inner) in [(row, row.column(0).as_struct()), (&list, &list)] {
        for (i, valid) in valid.into_iter().enumerate() {
            assert_eq!(at.is_valid(i), valid, "{logical:?}");
            let found = inner.column(0).slice(i, 1);
            assert!(!valid || found == values.slice(i, 1), "{logical:?}");
        }
    }
}

#[test]
fn a_projection_reads_only_its_columns_and_adds_missing_ones_as_null() {
    let (fields, batch) = primitives();
    let file = encode(&fields, &[], &[batch]);
    let mut renamed = fields[4].clone();
    renamed.name = "renamed".into();
    let wanted = vec![renamed, field(99, "added", L::Date), fields[1].clone()];
    let read = decode(file.last_bytes, &fields, &wanted);
    assert_eq!(read.num_columns(), 3);
    assert_eq!(
        read.column(0)
            .as_primitive::<arrow::datatypes::Int64Type>()
            .value(0),
        i64::MIN
    );
    assert_eq!(read.column(1).null_count(), 4);
    assert_eq!(
        read.column(2)
            .as_primitive::<arrow::datatypes::Int8Type>()
            .value(2),
        i8::MAX
    );
}

#[test]
fn no_columns_at_all_still_count_rows() {
    let (fields, batch) = primitives();
    let file = encode(&fields, &[], &[batch]);
    assert_eq!(decode(file.last_bytes, &fields, &[]).num_rows(), 4);
}

#[test]
fn an_empty_file_is_readable_and_has_no_rows() {
    let (fields, _) = primitives();
    let file = encode(&fields, &[], &[]);
    assert_eq!(file.row_count, 0);
    assert_eq!(decode(file.last_bytes, &fields, &fields).num_rows(), 0);
}

#[test]
fn bytes_taken_while_encoding_are_the_file() {
    let fields = [field(0, "id", L::BigInt)];
    let options: Options = [("file.block-size", "64 kb")].into_iter().collect();
    let plan = FilePlan::of_fields(&fields, &options).unwrap();
    let mut encoder = FileEncoder::new(&plan).unwrap();
    let (mut bytes, mut pieces) = (Vec::new(), 0);
    for start in 0..40i64 {
        let ids = Int64Array::from_iter_values(
            (0..4096).map(|i| (start * 4096 + i).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64)),
        );
        let batch = RecordBatch::try_from_iter([("id", Arc::new(ids) as ArrayRef)]).unwrap();
        encoder.write(&normalise(&batch, &fields).unwrap()).unwrap();
        assert!(encoder.buffered_bytes() < 4 << 20);
        if let Some(piece) = encoder.take_bytes().unwrap() {
            pieces += 1;
            bytes.extend_from_slice(&piece);
        }
        assert!(encoder.encoded_len() >= bytes.len() as u64);
    }
    let file = encoder.finish().unwrap();
    bytes.extend_from_slice(&file.last_bytes);
    assert!(
        pieces > 5,
        "row groups are handed out while encoding goes on"
    );
    assert_eq!(bytes.len() as u64, file.size);
    assert_eq!(decode(bytes.into(), &fields, &fields).num_rows(), 40 * 4096);
}

#[test]
fn one_large_batch_is_cut_into_row_groups() {
    let fields = [field(0, "id", L::BigInt)];
    let options = [("file.block-size", "8 kb"), ("file.compression", "none")];
    let plan = FilePlan::of_fields(&fields, &options.into_iter().collect()).unwrap();
    let mut encoder = FileEncoder::new(&plan).unwrap();
    let ids = Int64Array::from_iter_values(0..10_000);
    let batch = RecordBatch::try_from_iter([("id", Arc::new(ids) as ArrayRef)]).unwrap();
    encoder.write(&normalise(&batch, &fields).unwrap()).unwrap();
    let file = encoder.finish().unwrap();
    let reader =
        parquet::file::serialized_reader::SerializedFileReader::new(file.last_bytes).unwrap();
    let groups = parquet::file::reader::FileReader::metadata(&reader).row_groups();
    let rows: Vec<_> = groups.iter().map(|g| g.num_rows()).collect();
    assert_eq!(rows.iter().sum::<i64>(), 10_000);
    assert!(rows.iter().all(|rows| *rows <= 1_400), "{rows:?}");
}

#[test]
fn dictionaries_go_to_columns_of_few_values_only() {
    let fields = [
        field(0, "id", L::BigInt),
        field(1, "dt", L::VarChar(i32::MAX as u32)),
    ];
    let ids = Int64Array::from_iter_values(0..20_000);
    let days =
        StringArray::from_iter_values((0..20_000).map(|i| format!("2024-01-{:02}", i % 28 + 1)));
    let batch = RecordBatch::try_from_iter([
        ("id", Arc::new(ids) as ArrayRef),
        ("dt", Arc::new(days) as ArrayRef),
    ])
    .unwrap();
    let has_dictionary = |options: &[(&str, &str)]| {
        let file = encode(&fields, options, std::slice::from_ref(&batch));
        let reader = SerializedFileReader::new(file.last_bytes).unwrap();
        let group = reader.metadata().row_group(0);
        [0, 1].map(|i| group.column(i).dictionary_page_offset().is_some())
    };
    assert_eq!(has_dictionary(&[]), [false, true]);
    assert_eq!(
        has_dictionary(&[("parquet.enable.dictionary", "false")]),
        [false, false]
    );
    assert_eq!(
        has_dictionary(&[("parquet.enable.dictionary#dt", "false")]),
        [false, false]
    );
}

#[tokio::test]
async fn files_are_read_by_range_too_and_failures_are_told_apart() {
    let (fields, batch) = primitives();
    let expected = normalise(&batch, &fields).unwrap();
    let bytes = encode(&fields, &[], &[batch]).last_bytes;
    let plan = ReadPlan::new(&fields, &fields).unwrap();
    let open = async |bytes: Bytes, size: u64| {
        FileReader::open("f.parquet", size, Arc::new(bytes), &plan).await
    };
    let reader = open(bytes.clone(), bytes.len() as u64).await.unwrap();
    assert_eq!(reader.row_count(), 4);
    let batches: Vec<_> = reader.stream(None).unwrap().collect().await;
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].as_ref().unwrap(), &expected);
    let reader = open(bytes.clone(), bytes.len() as u64).await.unwrap();
    let batches: Vec<_> = reader.stream(Some(2)).unwrap().collect().await;
    assert_eq!(
        batches
            .iter()
            .map(|b| b.as_ref().unwrap().num_rows())
            .sum::<usize>(),
        2
    );
    assert!(matches!(
        open(bytes.clone(), bytes.len() as u64 + 10).await,
        Err(Error::Read { .. })
    ));
    assert!(matches!(
        open(bytes.clone(), bytes.len() as u64 - 10).await,
        Err(Error::Corrupt { .. })
    ));
    assert!(matches!(
        open(Bytes::from_static(b"PAR1"), 4).await,
        Err(Error::Corrupt { .. })
    ));
}

#[test]
fn unknown_fields_of_struct_columns_are_named() {
    let fields = [field(0, "r", L::Row(vec![field(1, "x", L::Int)]))];
    let given = StructArray::new(
        Fields::from(vec![
            Field::new("x", Arrow::Int32, true),
            Field::new("z", Arrow::Int32, true),
        ]),
        vec![
            Arc::new(Int32Array::from(vec![1])),
            Arc::new(Int32Array::from(vec![1])),
        ],
        None,
    );
    let batch = RecordBatch::try_from_iter([("r", Arc::new(given) as ArrayRef)]).unwrap();
    let error = normalise(&batch, &fields).unwrap_err().to_string();
    assert!(error.contains("r.z"), "{error}");
}
