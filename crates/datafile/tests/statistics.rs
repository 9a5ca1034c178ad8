//! Statistics hold for every value of the file, whatever the values are.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use arrow::array::*;
use arrow::record_batch::RecordBatch;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use proptest::prelude::*;
use std::sync::Arc;
use tidegate_datafile::{EncodedFile, FileEncoder, FilePlan, normalise};
use tidegate_model::{DataField, DataType, Datum, LogicalType as L, Options};

const STRING: L = L::VarChar(i32::MAX as u32);

fn encode(logical: L, options: &[(&str, &str)], batches: Vec<ArrayRef>) -> EncodedFile {
    let fields = [DataField::new("c", DataType::nullable(logical))];
    let options: Options = options.iter().copied().collect();
    let mut encoder = FileEncoder::new(&FilePlan::of_fields(&fields, &options).unwrap()).unwrap();
    for array in batches {
        let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap();
        encoder.write(&normalise(&batch, &fields).unwrap()).unwrap();
        encoder.end_row_group().unwrap();
    }
    encoder.finish().unwrap()
}

type Bounds = (Option<Datum>, Option<Datum>, Option<i64>);

fn bounds(file: &EncodedFile, logical: &L) -> Bounds {
    let stats = &file.value_stats;
    let nulls = stats.null_counts.as_ref().unwrap()[0];
    (
        stats.min_values.get(0, logical).unwrap(),
        stats.max_values.get(0, logical).unwrap(),
        nulls,
    )
}

fn of_texts(texts: Vec<Option<String>>) -> Bounds {
    bounds(
        &encode(STRING, &[], vec![Arc::new(StringArray::from(texts))]),
        &STRING,
    )
}

/// B55: each of the awkward texts in a file of its own.
#[test]
fn b55_bounds_hold_for_awkward_texts() {
    let texts = [
        "fifteen letters\u{2022} and text".to_owned(),
        "sixteen letters!".to_owned() + "and more",
        "\u{D7FF}".repeat(20),
        "\u{1F980}".repeat(20),
        String::new(),
        "x".repeat(1 << 20),
        "shared prefix of sixteen and a".to_owned(),
    ];
    for text in texts {
        let (Some(Datum::String(low)), Some(Datum::String(high)), Some(0)) =
            of_texts(vec![Some(text.clone())])
        else {
            panic!("no bounds for {text:?}")
        };
        assert!(low <= text && text <= high, "{low:?} {text:?} {high:?}");
        assert!(low.chars().count() <= 16 && high.chars().count() <= 16);
    }
    assert_eq!(
        of_texts(vec![Some("\u{10FFFF}".repeat(20))]),
        (None, None, Some(0)),
        "no upper bound exists"
    );
    assert_eq!(of_texts(vec![None, None]), (None, None, Some(2)));
}

#[test]
fn long_texts_do_not_swell_the_footer() {
    let file = encode(
        STRING,
        &[("file.compression", "zstd")],
        vec![Arc::new(StringArray::from(vec!["é".repeat(1 << 19)]))],
    );
    assert!(file.size < 4096, "{} bytes", file.size);
    let reader = SerializedFileReader::new(file.last_bytes).unwrap();
    let stats = reader
        .metadata()
        .row_group(0)
        .column(0)
        .statistics()
        .unwrap()
        .clone();
    assert!(stats.max_bytes_opt().is_some_and(|b| b.len() <= 64) && !stats.max_is_exact());
}

#[test]
fn row_groups_of_nothing_but_nulls_do_not_hide_the_bounds_of_others() {
    let nulls: ArrayRef = Arc::new(Int32Array::from(vec![None::<i32>; 3]));
    let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(-5), Some(9)]));
    let file = encode(L::Int, &[], vec![nulls.clone(), values, nulls]);
    assert_eq!(
        bounds(&file, &L::Int),
        (Some(Datum::Int(-5)), Some(Datum::Int(9)), Some(6))
    );
}

/// Readers prune row groups and pages by the footer. The Parquet library leaves NaN out of its bounds,
/// so Java's `= NaN` would skip rows that are there.
#[test]
fn the_footer_bounds_no_chunk_that_holds_nan() {
    let floats = |nan: bool| -> ArrayRef {
        let odd = if nan { f32::NAN } else { 3.0 };
        Arc::new(arrow::array::Float32Array::from(vec![
            Some(1.0),
            None,
            Some(odd),
        ]))
    };
    let doubles = |nan: bool| -> ArrayRef {
        let odd = if nan { f64::NAN } else { 3.0 };
        Arc::new(Float64Array::from(vec![Some(1.0), None, Some(odd)]))
    };
    for nan in [false, true] {
        for (logical, array) in [(L::Float, floats(nan)), (L::Double, doubles(nan))] {
            let file = encode(logical.clone(), &[], vec![array]);
            let reader = SerializedFileReader::new(file.last_bytes).unwrap();
            let chunk = reader.metadata().row_group(0).column(0).clone();
            let stats = chunk.statistics().unwrap();
            assert_eq!(stats.null_count_opt(), Some(1));
            let bounded = stats.min_bytes_opt().is_some() || stats.max_bytes_opt().is_some();
            assert_eq!(bounded, !nan, "{logical}");
            assert_eq!(
                chunk.column_index_offset().is_some(),
                !nan,
                "{logical}: pages"
            );
        }
    }
    // Values inside lists are not looked at one by one, so they are never bounded.
    let list =
        arrow::array::ListArray::from_iter_primitive::<arrow::datatypes::Float64Type, _, _>(vec![
            Some(vec![Some(1.0), Some(f64::NAN)]),
        ]);
    let element = L::Array(Box::new(tidegate_model::DataType::nullable(L::Double)));
    let file = encode(element, &[], vec![Arc::new(list)]);
    let reader = SerializedFileReader::new(file.last_bytes).unwrap();
    let chunk = reader.metadata().row_group(0).column(0).clone();
    assert!(
        chunk
            .statistics()
            .is_none_or(|s| s.min_bytes_opt().is_none())
    );
    assert!(chunk.column_index_offset().is_none());
}

/// As Java: NaN is above everything and is stored as the maximum.
#[test]
fn nan_is_the_maximum() {
    let of = |groups: Vec<Vec<Option<f64>>>| {
        let groups = groups
            .into_iter()
            .map(|g| Arc::new(Float64Array::from(g)) as ArrayRef)
            .collect();
        let (low, high, _) = bounds(&encode(L::Double, &[], groups), &L::Double);
        (low, matches!(high, Some(Datum::Double(v)) if v.is_nan()))
    };
    assert_eq!(
        of(vec![vec![Some(1.0), Some(f64::NAN)], vec![Some(-2.0)]]),
        (Some(Datum::Double(-2.0)), true)
    );
    let (low, high) = of(vec![vec![Some(f64::NAN)]]);
    assert!(high && matches!(low, Some(Datum::Double(v)) if v.is_nan()));
    assert_eq!(
        of(vec![vec![Some(1.0), None]]),
        (Some(Datum::Double(1.0)), false)
    );
}

#[test]
fn byte_strings_and_int96_have_null_counts_and_no_bounds() {
    let bytes = L::VarBinary(i32::MAX as u32);
    let file = encode(
        bytes.clone(),
        &[],
        vec![Arc::new(BinaryArray::from(vec![Some(&b"a"[..]), None]))],
    );
    assert_eq!(bounds(&file, &bytes), (None, None, Some(1)));
    let file = encode(
        L::Timestamp(9),
        &[],
        vec![Arc::new(TimestampNanosecondArray::from(vec![
            Some(1),
            None,
        ]))],
    );
    assert_eq!(bounds(&file, &L::Timestamp(9)), (None, None, Some(1)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bounds_enclose_all_values(texts in proptest::collection::vec(proptest::option::of(any::<String>()), 1..20)) {
        let (low, high, nulls) = of_texts(texts.clone());
        prop_assert_eq!(nulls, Some(texts.iter().filter(|t| t.is_none()).count() as i64));
        if let (Some(Datum::String(low)), Some(Datum::String(high))) = (low, high) {
            for text in texts.iter().flatten() {
                prop_assert!(&low <= text && text <= &high);
            }
        }
    }

    #[test]
    fn decimal_bounds_are_exact(values in proptest::collection::vec(-10i128.pow(20)..10i128.pow(20), 1..20)) {
        let decimal = L::Decimal { precision: 21, scale: 3 };
        let array = Decimal128Array::from(values.clone()).with_precision_and_scale(21, 3).unwrap();
        let (low, high, _) = bounds(&encode(decimal.clone(), &[], vec![Arc::new(array)]), &decimal);
        let exact = |v: Option<&i128>| v.map(|v| Datum::Decimal { unscaled: *v, precision: 21, scale: 3 });
        prop_assert_eq!(low, exact(values.iter().min()));
        prop_assert_eq!(high, exact(values.iter().max()));
    }
}
