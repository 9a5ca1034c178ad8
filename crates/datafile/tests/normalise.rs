//! Rows become canonical without losing anything, or the first value in the way is named.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType as Arrow, Field, Int8Type, TimeUnit};
use arrow::record_batch::RecordBatch;
use std::sync::Arc;
use tidegate_datafile::{Error, Normaliser, normalise};
use tidegate_model::{DataField, DataType, LogicalType as L};

fn one(logical: L, array: impl Array + 'static) -> Result<ArrayRef, Error> {
    column(DataType::nullable(logical), Arc::new(array))
}

fn column(data_type: DataType, array: ArrayRef) -> Result<ArrayRef, Error> {
    let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap();
    Ok(normalise(&batch, &[DataField::new("c", data_type)])?
        .column(0)
        .clone())
}

fn refusal(logical: L, array: impl Array + 'static) -> String {
    one(logical, array).unwrap_err().to_string()
}

const STRING: L = L::VarChar(i32::MAX as u32);

#[test]
fn other_widths_and_layouts_are_taken() {
    let expected: ArrayRef = Arc::new(Int8Array::from(vec![Some(-1), None]));
    assert_eq!(
        &one(L::TinyInt, Int64Array::from(vec![Some(-1), None])).unwrap(),
        &expected
    );
    let expected: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    assert_eq!(
        &one(STRING, LargeStringArray::from(vec![Some("a"), None])).unwrap(),
        &expected
    );
    assert_eq!(
        &one(STRING, StringViewArray::from(vec![Some("a"), None])).unwrap(),
        &expected
    );
    let keys = DictionaryArray::<Int8Type>::from_iter([Some("a"), None]);
    assert_eq!(&one(STRING, keys).unwrap(), &expected);
    let nothing = one(STRING, NullArray::new(2)).unwrap();
    assert_eq!(
        (nothing.null_count(), nothing.data_type()),
        (2, &Arrow::Utf8)
    );
    let wide = one(L::Double, Float32Array::from(vec![0.5])).unwrap();
    assert_eq!(
        wide.as_primitive::<arrow::datatypes::Float64Type>()
            .value(0),
        0.5
    );
    let whole = one(
        L::Decimal {
            precision: 5,
            scale: 2,
        },
        Int32Array::from(vec![7]),
    )
    .unwrap();
    assert_eq!(
        whole
            .as_primitive::<arrow::datatypes::Decimal128Type>()
            .value(0),
        700
    );
}

#[test]
fn a_number_out_of_range_is_named_with_its_row() {
    let error = refusal(L::TinyInt, Int32Array::from(vec![1, 128]));
    assert_eq!(error, "column `c`, row 1: value 128 does not fit TINYINT");
    let error = refusal(L::BigInt, UInt64Array::from(vec![u64::MAX]));
    assert!(
        error.contains("row 0: value 18446744073709551615"),
        "{error}"
    );
}

#[test]
fn types_that_would_lose_something_are_refused() {
    for (logical, array) in [
        (
            L::Float,
            Arc::new(Float64Array::from(vec![0.5])) as ArrayRef,
        ),
        (L::Int, Arc::new(Float64Array::from(vec![1.0]))),
        (L::Int, Arc::new(StringArray::from(vec!["1"]))),
        (STRING, Arc::new(Int32Array::from(vec![1]))),
        (L::Boolean, Arc::new(Int32Array::from(vec![1]))),
    ] {
        let found = array.data_type().clone();
        let error = column(DataType::nullable(logical), array).unwrap_err();
        assert!(
            matches!(error, Error::TypeMismatch { .. }),
            "{found}: {error}"
        );
    }
}

#[test]
fn nulls_in_not_null_columns_are_named() {
    let given = Arc::new(Int32Array::from(vec![Some(1), None]));
    let error = column(DataType::not_null(L::Int), given)
        .unwrap_err()
        .to_string();
    assert_eq!(error, "column `c`, row 1: null, but the column is NOT NULL");
}

#[test]
fn lengths_count_characters_of_text_and_bytes_of_bytes() {
    assert!(one(L::VarChar(3), StringArray::from(vec!["äöü", ""])).is_ok());
    let error = refusal(L::VarChar(3), StringArray::from(vec!["abc", "abcd"]));
    assert_eq!(
        error,
        r#"column `c`, row 1: value "abcd" has 4 characters, too many for VARCHAR(3)"#
    );
    let error = refusal(L::Binary(2), BinaryArray::from(vec![&b"abc"[..]]));
    assert!(
        error.contains("has 3 bytes, too many for BINARY(2)"),
        "{error}"
    );
}

#[test]
fn decimals_keep_every_digit_or_are_refused() {
    let decimal = |v: i128, p, s| {
        Decimal128Array::from(vec![v])
            .with_precision_and_scale(p, s)
            .unwrap()
    };
    let to = L::Decimal {
        precision: 5,
        scale: 2,
    };
    let same = one(to.clone(), decimal(1_230, 10, 3)).unwrap();
    assert_eq!(
        same.as_primitive::<arrow::datatypes::Decimal128Type>()
            .value(0),
        123
    );
    assert!(
        refusal(to.clone(), decimal(1_234, 10, 3))
            .contains("value 1.234 does not fit DECIMAL(5, 2) exactly")
    );
    assert!(refusal(to.clone(), decimal(100_000, 10, 2)).contains("value 1000.00 does not fit"));
    assert!(refusal(to, Int64Array::from(vec![1_000])).contains("value 1000 does not fit"));
}

/// B53.4: digits below a column's precision are refused, never cut, wherever the value goes.
#[test]
fn b53_times_keep_every_digit_or_are_refused() {
    let nanos = |v| TimestampNanosecondArray::from(vec![v]);
    let millis = one(L::Timestamp(3), nanos(-1_000_000)).unwrap();
    assert_eq!(
        millis
            .as_primitive::<arrow::datatypes::TimestampMillisecondType>()
            .value(0),
        -1
    );
    let error = refusal(L::Timestamp(3), nanos(-1_000_001));
    assert!(
        error.contains("1969-12-31T23:59:59.998999999 does not fit TIMESTAMP(3) exactly"),
        "{error}"
    );
    assert!(
        refusal(
            L::Timestamp(0),
            TimestampMillisecondArray::from(vec![1_500])
        )
        .contains("TIMESTAMP(0)")
    );
    assert!(
        refusal(L::Timestamp(5), TimestampMicrosecondArray::from(vec![11]))
            .contains("TIMESTAMP(5)")
    );
    let far = TimestampSecondArray::from(vec![253_402_300_799]);
    assert!(
        refusal(L::Timestamp(9), far.clone()).contains("TIMESTAMP(9)"),
        "the year 9999 in nanoseconds"
    );
    assert!(one(L::Timestamp(6), far).is_ok());
    let huge = TimestampMicrosecondArray::from(vec![i64::MAX, i64::MIN]);
    assert!(one(L::Timestamp(6), huge.clone()).is_ok());
    assert!(refusal(L::Timestamp(3), huge).contains("row 0"));
    assert!(one(L::Time(3), Time32SecondArray::from(vec![86_399])).is_ok());
    assert!(
        refusal(L::Time(3), Time32SecondArray::from(vec![86_400])).contains("not a time of day")
    );
    assert!(
        refusal(L::Time(9), Time64NanosecondArray::from(vec![1]))
            .contains("stored in milliseconds")
    );
    assert!(one(L::Date, Date64Array::from(vec![-86_400_000])).is_ok());
    assert!(refusal(L::Date, Date64Array::from(vec![1])).contains("not a whole day"));
}

/// B53: a local time and an instant are different types; zones only name an instant.
#[test]
fn b53_local_times_and_instants_are_never_mixed_up() {
    let local = TimestampMicrosecondArray::from(vec![0]);
    let instant = local.clone().with_timezone("Asia/Kolkata");
    assert!(matches!(
        one(L::TimestampLtz(6), local),
        Err(Error::TypeMismatch { .. })
    ));
    assert!(matches!(
        one(L::Timestamp(6), instant.clone()),
        Err(Error::TypeMismatch { .. })
    ));
    let made = one(L::TimestampLtz(6), instant).unwrap();
    assert_eq!(
        made.data_type(),
        &Arrow::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
    );
    assert_eq!(
        made.as_primitive::<arrow::datatypes::TimestampMicrosecondType>()
            .value(0),
        0
    );
}

#[test]
fn columns_are_matched_by_name_case_included() {
    let fields = [
        DataField::new("id", DataType::nullable(L::Int)),
        DataField::new("Id", DataType::nullable(L::Int)),
    ];
    let ints = |v| Arc::new(Int32Array::from(vec![v])) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("Id", ints(2)), ("id", ints(1))]).unwrap();
    let made = normalise(&batch, &fields).unwrap();
    assert_eq!(made.column(0), &ints(1));
    let missing = RecordBatch::try_from_iter([("id", ints(1))]).unwrap();
    let error = normalise(&missing, &fields).unwrap_err().to_string();
    assert!(error.contains("no column `Id`"), "{error}");
    let extra =
        RecordBatch::try_from_iter([("id", ints(1)), ("ID", ints(1)), ("Id", ints(1))]).unwrap();
    assert!(matches!(
        normalise(&extra, &fields),
        Err(Error::UnknownColumn { .. })
    ));
}

fn list_of(values: ArrayRef, lengths: &[usize], nulls: Option<Vec<bool>>) -> ListArray {
    let field = Arc::new(Field::new("item", values.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
    ListArray::new(field, offsets, values, nulls.map(NullBuffer::from))
}

#[test]
fn faults_inside_lists_name_the_row_of_the_batch() {
    let array = L::Array(Box::new(DataType::nullable(L::TinyInt)));
    let values: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 999]));
    let error = refusal(array, list_of(values, &[2, 0, 2], None));
    assert_eq!(
        error,
        "column `c[element]`, row 2: value 999 does not fit TINYINT"
    );
}

#[test]
fn elements_hidden_below_null_lists_do_not_count() {
    let array = L::Array(Box::new(DataType::not_null(L::TinyInt)));
    let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
    let made = one(
        array.clone(),
        list_of(values.clone(), &[1, 1, 1], Some(vec![true, false, true])),
    )
    .unwrap();
    assert_eq!(made.as_list::<i32>().values().len(), 2);
    let error = refusal(array, list_of(values, &[1, 1, 1], None));
    assert_eq!(
        error,
        "column `c[element]`, row 1: null, but the column is NOT NULL"
    );
}

#[test]
fn sliced_lists_are_taken_as_they_are_seen() {
    let array = L::Array(Box::new(DataType::nullable(L::Int)));
    let values: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4]));
    let sliced = list_of(values, &[1, 2, 1], None).slice(1, 1);
    let made = one(array, sliced).unwrap();
    assert_eq!(
        made.as_list::<i32>().value(0).as_ref(),
        &Int32Array::from(vec![2, 3]) as &dyn Array
    );
}

#[test]
fn a_key_twice_in_one_map_is_refused() {
    let map = L::Map(
        Box::new(DataType::nullable(STRING)),
        Box::new(DataType::nullable(L::Int)),
    );
    let entries = |keys: Vec<&str>| {
        let values = Int32Array::from_iter_values(0..keys.len() as i32);
        let mut builder = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        keys.iter().zip(values.values()).for_each(|(k, v)| {
            builder.keys().append_value(k);
            builder.values().append_value(*v);
        });
        builder.append(true).unwrap();
        builder.finish()
    };
    assert!(one(map.clone(), entries(vec!["a", "b"])).is_ok());
    let error = refusal(map, entries(vec!["a", "b", "a"]));
    assert_eq!(
        error,
        r#"column `c[key]`, row 0: value "a" occurs twice in one map"#
    );
}

#[test]
fn types_without_a_place_in_parquet_files_are_refused_by_name() {
    for logical in [L::Variant, L::Blob, L::Geometry("OGC:CRS84".into())] {
        let error = refusal(logical, NullArray::new(1));
        assert!(
            error.contains("column `c`: type") && error.contains("cannot be stored"),
            "{error}"
        );
    }
}

/// As Java 1.4.2: quotes are left out, a NOT NULL column's null is refused first.
#[test]
fn w_21_nulls_become_the_default_of_their_column() {
    let with = |name: &str, data_type: &str, default: &str| DataField {
        default_value: Some(default.to_owned()),
        ..DataField::new(name, data_type.parse().unwrap())
    };
    let fields = [
        with("n", "INT", "7"),
        with("s", "STRING", "'a b'"),
        with("d", "DECIMAL(5,2)", "1.5"),
        with("t", "DATE", "2024-01-31"),
        with("b", "BOOLEAN", "yes"),
        DataField::new("plain", "INT".parse().unwrap()),
    ];
    let ints = || -> ArrayRef { Arc::new(Int32Array::from(vec![None, Some(3)])) };
    let nulls = |data_type| arrow::array::new_null_array(&data_type, 2);
    let batch = RecordBatch::try_from_iter([
        ("n", ints()),
        ("s", nulls(arrow::datatypes::DataType::Utf8)),
        ("d", nulls(arrow::datatypes::DataType::Decimal128(5, 2))),
        ("t", nulls(arrow::datatypes::DataType::Date32)),
        ("b", nulls(arrow::datatypes::DataType::Null)),
        ("plain", ints()),
    ])
    .unwrap();
    let filled = normalise(&batch, &fields).unwrap();
    let text = |column: usize, row: usize| {
        arrow::util::display::array_value_to_string(filled.column(column), row).unwrap()
    };
    let row: Vec<String> = (0..6).map(|column| text(column, 0)).collect();
    assert_eq!(row, ["7", "a b", "1.50", "2024-01-31", "true", ""]);
    assert_eq!((text(0, 1).as_str(), text(5, 1).as_str()), ("3", "3"));
    let strict = [with("n", "INT NOT NULL", "7")];
    let batch = RecordBatch::try_from_iter([("n", ints())]).unwrap();
    assert!(normalise(&batch, &strict).is_err());
    for (data_type, default) in [
        ("INT", "x"),
        ("TINYINT", "300"),
        ("VARCHAR(2)", "abc"),
        ("ARRAY<INT>", "[1]"),
        ("TIMESTAMP_LTZ(3)", "2024-01-31 00:00:00"),
    ] {
        let error = Normaliser::new(&[with("c", data_type, default)]).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("default value") && error.contains("c"),
            "{error}"
        );
    }
}
