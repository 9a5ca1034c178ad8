//! What other writers do differently is read all the same [F-6.4].
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use arrow::array::*;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type, Int96, Int96Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;
use tidegate_datafile::{Error, ReadPlan, read_parquet};
use tidegate_model::{DataField, DataType, LogicalType as L};

fn fields(logical: L) -> Vec<DataField> {
    vec![DataField::new("c", DataType::nullable(logical))]
}

fn read(bytes: Bytes, logical: L) -> Result<ArrayRef, Error> {
    let fields = fields(logical);
    let plan = ReadPlan::new(&fields, &fields).unwrap();
    let batch: RecordBatch = read_parquet("f.parquet", bytes, &plan)?.next().unwrap()?;
    Ok(batch.column(0).clone())
}

/// A file of one column by its Parquet schema; `put` writes it.
fn file(
    column: &str,
    put: impl FnOnce(&mut parquet::file::writer::SerializedColumnWriter<'_>),
) -> Bytes {
    let schema = Arc::new(parse_message_type(&format!("message m {{ {column} }}")).unwrap());
    let properties = Arc::new(WriterProperties::builder().build());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    put(&mut column);
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    bytes.into()
}

fn int64(column: &str, values: &[i64]) -> Bytes {
    file(column, |c| {
        c.typed::<Int64Type>()
            .write_batch(values, None, None)
            .unwrap();
    })
}

fn int32(column: &str, values: &[i32]) -> Bytes {
    file(column, |c| {
        c.typed::<Int32Type>()
            .write_batch(values, None, None)
            .unwrap();
    })
}

fn same(made: ArrayRef, expected: impl Array + 'static) {
    assert_eq!(&made, &(Arc::new(expected) as ArrayRef));
}

#[test]
fn timestamps_of_another_unit_are_converted_dictionaries_included() {
    // Many equal values, so that the writer makes a dictionary of them.
    let micros = vec![1_500_000i64; 100];
    let made = read(
        int64("required int64 c (TIMESTAMP(MICROS,true));", &micros),
        L::Timestamp(3),
    )
    .unwrap();
    same(made, TimestampMillisecondArray::from(vec![1_500; 100]));
    let made = read(
        int64("required int64 c (TIMESTAMP(MILLIS,false));", &[-1]),
        L::Timestamp(6),
    )
    .unwrap();
    same(made, TimestampMicrosecondArray::from(vec![-1_000]));
    let made = read(
        int64("required int64 c (TIMESTAMP(NANOS,false));", &[5]),
        L::TimestampLtz(9),
    )
    .unwrap();
    same(
        made,
        TimestampNanosecondArray::from(vec![5]).with_timezone("UTC"),
    );
    let made = read(int64("required int64 c;", &[7]), L::Timestamp(6)).unwrap();
    same(made, TimestampMicrosecondArray::from(vec![7]));
}

#[test]
fn numbers_and_decimals_of_other_physical_types_are_read() {
    same(
        read(int32("required int32 c;", &[-128]), L::TinyInt).unwrap(),
        Int8Array::from(vec![-128]),
    );
    same(
        read(int64("required int64 c;", &[7]), L::SmallInt).unwrap(),
        Int16Array::from(vec![7]),
    );
    let error = read(int32("required int32 c;", &[200]), L::TinyInt)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("f.parquet") && error.contains("column `c`"),
        "{error}"
    );
    let decimal = |p: u8, v| {
        Decimal128Array::from(vec![v])
            .with_precision_and_scale(p, 2)
            .unwrap()
    };
    let to = |precision| L::Decimal {
        precision,
        scale: 2,
    };
    same(
        read(int32("required int32 c;", &[-150]), to(9)).unwrap(),
        decimal(9, -150),
    );
    same(
        read(int64("required int64 c (DECIMAL(10,2));", &[-150]), to(5)).unwrap(),
        decimal(5, -150),
    );
    let binary = file("required binary c (DECIMAL(20,2));", |c| {
        c.typed::<ByteArrayType>()
            .write_batch(&[ByteArray::from(vec![0xff, 0x6a])], None, None)
            .unwrap();
    });
    same(read(binary, to(20)).unwrap(), decimal(20, -150));
    let plain = file("required binary c;", |c| {
        c.typed::<ByteArrayType>()
            .write_batch(&[ByteArray::from(vec![0xff, 0x6a])], None, None)
            .unwrap();
    });
    same(read(plain.clone(), to(20)).unwrap(), decimal(20, -150));
    assert!(
        read(plain, L::VarChar(10))
            .unwrap_err()
            .to_string()
            .contains("column `c`"),
        "not UTF-8"
    );
}

#[test]
fn int96_is_read_with_negative_nanoseconds_and_refused_beyond_arrows_range() {
    let value = |nanos: i64, day: i32| {
        let mut v = Int96::new();
        v.set_data(nanos as u32, (nanos >> 32) as u32, day as u32);
        v
    };
    let int96 = |v: Int96| {
        file("required int96 c;", |c| {
            c.typed::<Int96Type>()
                .write_batch(&[v], None, None)
                .unwrap();
        })
    };
    same(
        read(int96(value(-1, 2_440_588)), L::Timestamp(9)).unwrap(),
        TimestampNanosecondArray::from(vec![-1]),
    );
    same(
        read(int96(value(1_000_000, 2_440_588)), L::Timestamp(3)).unwrap(),
        TimestampMillisecondArray::from(vec![1]),
    );
    let year_9999 = int96(value(0, 2_440_588 + 2_932_896));
    assert!(
        read(year_9999.clone(), L::Timestamp(9))
            .unwrap_err()
            .to_string()
            .contains("1677 to 2262")
    );
    assert!(
        read(year_9999, L::Timestamp(6)).is_ok(),
        "microseconds reach farther"
    );
}

#[test]
fn lists_without_the_middle_level_or_with_another_element_name_are_read() {
    let array = || L::Array(Box::new(DataType::nullable(L::Int)));
    for column in [
        "optional group c (LIST) { repeated group list { optional int32 item; } }",
        "optional group c (LIST) { repeated group bag { optional int32 array_element; } }",
    ] {
        let bytes = file(column, |c| {
            c.typed::<Int32Type>()
                .write_batch(&[1, 2], Some(&[3, 3]), Some(&[0, 1]))
                .unwrap();
        });
        let made = read(bytes, array()).unwrap();
        assert_eq!(
            made.as_list::<i32>().value(0).as_ref(),
            &Int32Array::from(vec![1, 2]) as &dyn Array
        );
    }
    let two_levels = file("optional group c (LIST) { repeated int32 array; }", |c| {
        c.typed::<Int32Type>()
            .write_batch(&[1, 2], Some(&[2, 2]), Some(&[0, 1]))
            .unwrap();
    });
    let made = read(two_levels, array()).unwrap();
    assert_eq!(
        made.as_list::<i32>().value(0).as_ref(),
        &Int32Array::from(vec![1, 2]) as &dyn Array
    );
}

#[test]
fn an_optional_column_may_hold_a_not_null_one_unless_it_has_nulls() {
    let required = [DataField::new("c", DataType::not_null(L::Int))];
    let plan = ReadPlan::new(&required, &required).unwrap();
    let file = |levels: &[i16], values: &[i32]| {
        file("optional int32 c;", |c| {
            c.typed::<Int32Type>()
                .write_batch(values, Some(levels), None)
                .unwrap();
        })
    };
    let good = read_parquet("f.parquet", file(&[1], &[5]), &plan)
        .unwrap()
        .next()
        .unwrap();
    assert_eq!(good.unwrap().num_rows(), 1);
    let error = read_parquet("f.parquet", file(&[0], &[]), &plan)
        .unwrap()
        .next()
        .unwrap()
        .unwrap_err();
    assert!(error.to_string().contains("NOT NULL"), "{error}");
}

#[test]
fn a_column_of_another_kind_is_an_error_with_file_and_column() {
    let error = read(int32("required int32 c;", &[1]), L::VarChar(10))
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "data file `f.parquet`: column `c`: holds Int32, expected VARCHAR(10)"
    );
}

#[test]
fn bytes_that_are_no_parquet_file_are_an_error_not_a_panic() {
    let good = int64("required int64 c;", &[1, 2, 3]);
    let check = |bytes: Vec<u8>| {
        let fields = fields(L::BigInt);
        let plan = ReadPlan::new(&fields, &fields).unwrap();
        if let Ok(batches) = read_parquet("f.parquet", bytes.into(), &plan) {
            batches.for_each(drop);
        }
    };
    for end in 0..good.len() {
        check(good[..end].to_vec());
        for bit in [1u8, 0x10, 0x80] {
            let mut bad = good.to_vec();
            bad[end] ^= bit;
            check(bad);
        }
    }
}
