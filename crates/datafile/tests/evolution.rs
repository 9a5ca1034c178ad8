//! Columns whose type changed are cast by Java's rules, or refused before a file is opened.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use arrow::array::*;
use arrow::record_batch::RecordBatch;
use std::sync::Arc;
use tidegate_datafile::{Error, ReadPlan};
use tidegate_model::{DataField, DataType, FieldId, LogicalType as L};

const STRING: L = L::VarChar(i32::MAX as u32);

fn cast(from: L, to: L, array: impl Array + 'static) -> Result<ArrayRef, Error> {
    let written = [DataField::new("old", DataType::nullable(from))];
    let wanted = [DataField::new("new", DataType::nullable(to))];
    let plan = ReadPlan::new(&written, &wanted)?;
    let batch =
        RecordBatch::try_from_iter_with_nullable([("old", Arc::new(array) as ArrayRef, true)])
            .unwrap();
    Ok(plan.shape("f", &batch)?.column(0).clone())
}

fn same(made: Result<ArrayRef, Error>, expected: impl Array + 'static) {
    assert_eq!(&made.unwrap(), &(Arc::new(expected) as ArrayRef));
}

fn decimal(p: u8, s: i8, values: Vec<Option<i128>>) -> Decimal128Array {
    Decimal128Array::from(values)
        .with_precision_and_scale(p, s)
        .unwrap()
}

#[test]
fn integers_keep_their_low_bits_and_floats_saturate() {
    same(
        cast(L::BigInt, L::Int, Int64Array::from(vec![1 << 32 | 7, -1])),
        Int32Array::from(vec![7, -1]),
    );
    same(
        cast(L::Int, L::TinyInt, Int32Array::from(vec![300])),
        Int8Array::from(vec![44]),
    );
    same(
        cast(
            L::Double,
            L::Int,
            Float64Array::from(vec![1e20, f64::NAN, -2.9]),
        ),
        Int32Array::from(vec![i32::MAX, 0, -2]),
    );
    same(
        cast(L::Double, L::TinyInt, Float64Array::from(vec![1e20])),
        Int8Array::from(vec![-1]),
    );
    same(
        cast(
            L::Float,
            L::Double,
            Float32Array::from(vec![Some(0.5), None]),
        ),
        Float64Array::from(vec![Some(0.5), None]),
    );
}

#[test]
fn decimals_round_half_up_and_become_null_where_they_do_not_fit() {
    let from = L::Decimal {
        precision: 10,
        scale: 3,
    };
    let to = L::Decimal {
        precision: 4,
        scale: 2,
    };
    let made = cast(
        from.clone(),
        to,
        decimal(
            10,
            3,
            vec![Some(1_235), Some(-1_235), Some(1_234), Some(99_999)],
        ),
    );
    same(
        made,
        decimal(4, 2, vec![Some(124), Some(-124), Some(123), None]),
    );
    same(
        cast(from.clone(), L::Int, decimal(10, 3, vec![Some(-1_999)])),
        Int32Array::from(vec![-1]),
    );
    same(
        cast(from, STRING, decimal(10, 3, vec![Some(-40)])),
        StringArray::from(vec!["-0.040"]),
    );
    same(
        cast(
            L::Int,
            L::Decimal {
                precision: 4,
                scale: 2,
            },
            Int32Array::from(vec![7, 100]),
        ),
        decimal(4, 2, vec![Some(700), None]),
    );
}

#[test]
fn text_is_cut_padded_and_parsed() {
    same(
        cast(L::VarChar(5), L::VarChar(2), StringArray::from(vec!["äöü"])),
        StringArray::from(vec!["äö"]),
    );
    same(
        cast(STRING, L::Char(3), StringArray::from(vec!["a"])),
        StringArray::from(vec!["a  "]),
    );
    same(
        cast(STRING, L::Int, StringArray::from(vec![" 7 "])),
        Int32Array::from(vec![7]),
    );
    same(
        cast(STRING, L::Boolean, StringArray::from(vec!["Yes", "f"])),
        BooleanArray::from(vec![true, false]),
    );
    same(
        cast(STRING, L::Date, StringArray::from(vec!["1969-12-31"])),
        Date32Array::from(vec![-1]),
    );
    let error = cast(STRING, L::Int, StringArray::from(vec!["seven"]))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("column `old`") && error.contains("\"seven\""),
        "{error}"
    );
}

#[test]
fn dates_and_times_change_precision_by_cutting_and_are_printed() {
    let micros = || TimestampMicrosecondArray::from(vec![-1]);
    same(
        cast(L::Timestamp(6), L::Timestamp(3), micros()),
        TimestampMillisecondArray::from(vec![-1]),
    );
    same(
        cast(L::Timestamp(6), L::Timestamp(9), micros()),
        TimestampNanosecondArray::from(vec![-1_000]),
    );
    same(
        cast(L::Timestamp(6), L::Date, micros()),
        Date32Array::from(vec![-1]),
    );
    same(
        cast(L::Date, L::Timestamp(3), Date32Array::from(vec![-1])),
        TimestampMillisecondArray::from(vec![-86_400_000]),
    );
    same(
        cast(L::Timestamp(6), STRING, micros()),
        StringArray::from(vec!["1969-12-31 23:59:59.999999"]),
    );
    same(
        cast(L::Date, STRING, Date32Array::from(vec![0])),
        StringArray::from(vec!["1970-01-01"]),
    );
}

/// B53: whether a local time became an instant cannot be known, so it is not guessed.
#[test]
fn changes_without_a_cast_are_refused_when_planning() {
    for (from, to) in [
        (L::Timestamp(3), L::TimestampLtz(3)),
        (L::TimestampLtz(3), STRING),
        (L::Date, L::Int),
        (L::Boolean, L::Double),
        (L::Int, L::Array(Box::new(DataType::nullable(L::Int)))),
    ] {
        let written = [DataField::new("a", DataType::nullable(from.clone()))];
        let wanted = [DataField::new("b", DataType::nullable(to.clone()))];
        let error = ReadPlan::new(&written, &wanted).expect_err(&format!("{from:?} to {to:?}"));
        assert!(matches!(error, Error::NoCast { .. }), "{error}");
    }
}

#[test]
fn fields_of_rows_are_matched_by_id_at_every_level() {
    let field = |id, name: &str, logical| {
        let mut field = DataField::new(name, DataType::nullable(logical));
        field.id = FieldId(id);
        field
    };
    let list = |logical| L::Array(Box::new(DataType::nullable(logical)));
    let old = list(L::Row(vec![field(1, "a", L::Int), field(2, "b", L::Int)]));
    let new = list(L::Row(vec![
        field(3, "a", L::Int),
        field(1, "renamed", L::BigInt),
    ]));
    let written = [field(0, "old", old)];
    let rows = StructArray::from(vec![
        (
            Arc::new(arrow::datatypes::Field::new(
                "a",
                arrow::datatypes::DataType::Int32,
                true,
            )),
            Arc::new(Int32Array::from(vec![7])) as ArrayRef,
        ),
        (
            Arc::new(arrow::datatypes::Field::new(
                "b",
                arrow::datatypes::DataType::Int32,
                true,
            )),
            Arc::new(Int32Array::from(vec![8])) as ArrayRef,
        ),
    ]);
    let element = Arc::new(arrow::datatypes::Field::new(
        "element",
        rows.data_type().clone(),
        true,
    ));
    let offsets = arrow::buffer::OffsetBuffer::from_lengths([1]);
    let lists = ListArray::new(element, offsets, Arc::new(rows), None);
    let batch = RecordBatch::try_from_iter([("old", Arc::new(lists) as ArrayRef)]).unwrap();
    let plan = ReadPlan::new(&written, &[field(0, "c", new)]).unwrap();
    let made = plan.shape("f", &batch).unwrap();
    let rows = made.column(0).as_list::<i32>().value(0);
    assert_eq!(rows.as_struct().column(0).null_count(), 1);
    assert_eq!(
        rows.as_struct().column(1).as_ref(),
        &Int64Array::from(vec![7]) as &dyn Array
    );
}
