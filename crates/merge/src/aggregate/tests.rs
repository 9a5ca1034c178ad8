//! Each function by examples, the values in JSON.

use crate::kind::{DELETE, INSERT, UPDATE_BEFORE};
use crate::merger::{MergeOptions, Merger, Step};
use crate::{MergeSpec, Result, key_value_schema};
use arrow::array::{ArrayRef, Int8Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::json::{ArrayWriter, ReaderBuilder};
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_model::{DataField, TableSchema};

fn struct_list(fields: Fields) -> DataType {
    DataType::List(Arc::new(Field::new(
        "element",
        DataType::Struct(fields),
        true,
    )))
}

fn map_of(value: DataType) -> DataType {
    let entries = vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", value, true),
    ];
    DataType::Map(
        Arc::new(Field::new(
            "entries",
            DataType::Struct(entries.into()),
            false,
        )),
        false,
    )
}

fn fields(given: &[(&str, DataType)]) -> Fields {
    given
        .iter()
        .map(|(name, t)| Field::new(*name, t.clone(), true))
        .collect()
}

/// What versions of one key become in column `x`; options of the column without `fields.x.`.
fn merged(
    sql: &str,
    arrow: DataType,
    options: &[(&str, &str)],
    versions: &[(i8, Value)],
) -> Result<Value> {
    let columns = vec![
        DataField::new("k", "INT".parse()?),
        DataField::new("x", sql.parse()?),
    ];
    let own = options
        .iter()
        .map(|(k, v)| (format!("fields.x.{k}"), (*v).to_owned()));
    let table = [("bucket", "1"), ("merge-engine", "aggregation")];
    let table = table
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    let schema = TableSchema::create(
        columns,
        vec![],
        vec!["k".into()],
        table.chain(own).collect(),
        None,
        0,
    )?;
    let spec = MergeSpec::new(&schema)?;
    let values = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int32, false),
        Field::new("x", arrow, true),
    ]));
    let kv = key_value_schema(&values);
    let options = MergeOptions::default();
    let mut merger = Merger::new(&spec, kv.clone(), versions.len(), options)?;
    let mut fed = vec![false; versions.len()];
    let mut out = Value::Null;
    loop {
        match merger.step()? {
            Step::Needs(run) if std::mem::replace(&mut fed[run], true) => merger.end(run)?,
            Step::Needs(run) => {
                let (kind, x) = &versions[run];
                let mut decoder = ReaderBuilder::new(values.clone()).build_decoder()?;
                decoder.decode(json!({"k": 1, "x": x}).to_string().as_bytes())?;
                let mut columns: Vec<ArrayRef> = vec![
                    Arc::new(Int64Array::from(vec![run as i64])),
                    Arc::new(Int8Array::from(vec![*kind])),
                ];
                columns.extend(decoder.flush()?.unwrap().columns().to_vec());
                merger.push(run, RecordBatch::try_new(kv.clone(), columns)?)?;
            }
            Step::Batch(batch) => {
                assert_eq!(batch.num_rows(), 1);
                let mut writer = ArrayWriter::new(Vec::new());
                writer.write(&batch.project(&[3])?)?;
                writer.finish()?;
                let rows: Value = serde_json::from_slice(&writer.into_inner()).unwrap();
                out = rows[0]["x"].clone();
            }
            Step::Changelog(_) => {}
            Step::Done => return Ok(out),
        }
    }
}

/// Inserts only.
fn of(sql: &str, arrow: DataType, options: &[(&str, &str)], values: &[Value]) -> Value {
    let versions: Vec<_> = values.iter().map(|v| (INSERT, v.clone())).collect();
    merged(sql, arrow, options, &versions).unwrap()
}

fn function(name: &'static str) -> [(&'static str, &'static str); 1] {
    [("aggregate-function", name)]
}

#[test]
fn values_are_picked_by_place_and_null() {
    let values = [
        json!(null),
        json!(3),
        json!(null),
        json!(5),
        json!(4),
        json!(null),
    ];
    for (name, expected) in [
        ("last_value", json!(null)),
        ("last_non_null_value", json!(4)),
        ("first_value", json!(null)),
        ("first_non_null_value", json!(3)),
        ("first_not_null_value", json!(3)),
        ("max", json!(5)),
        ("min", json!(3)),
        ("sum", json!(12)),
        ("product", json!(60)),
    ] {
        assert_eq!(
            of("INT", DataType::Int32, &function(name), &values),
            expected,
            "{name}"
        );
    }
    let default = of("INT", DataType::Int32, &[], &values);
    assert_eq!(
        default,
        json!(4),
        "last_non_null_value unless told otherwise"
    );
}

#[test]
fn extremes_follow_the_order_of_java() {
    let max = |sql, t, values: &[Value]| of(sql, t, &function("max"), values);
    assert_eq!(
        max(
            "STRING",
            DataType::Utf8,
            &[json!("z"), json!("é"), json!("a")]
        ),
        json!("é")
    );
    assert_eq!(
        max("BOOLEAN", DataType::Boolean, &[json!(false), json!(true)]),
        json!(true)
    );
    let decimal = DataType::Decimal128(10, 2);
    assert_eq!(
        max("DECIMAL(10, 2)", decimal, &[json!("-1.00"), json!("-2.00")]).to_string(),
        "-1.00"
    );
    let zeros = of(
        "DOUBLE",
        DataType::Float64,
        &function("min"),
        &[json!(0.0), json!(-0.0)],
    );
    assert_eq!(zeros.to_string(), "-0.0");
}

#[test]
fn integers_never_wrap() {
    for (name, values) in [
        ("sum", [json!(120), json!(8)]),
        ("product", [json!(64), json!(2)]),
    ] {
        let versions = values.map(|v| (INSERT, v));
        let error = merged("TINYINT", DataType::Int8, &function(name), &versions).unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with("key (k=1): column 'x': "), "{message}");
        assert!(
            message.contains("does not fit its type TINYINT"),
            "{message}"
        );
    }
    let zero = [(INSERT, json!(1)), (DELETE, json!(0))];
    assert!(merged("INT", DataType::Int32, &function("product"), &zero).is_err());
}

#[test]
fn decimals_that_do_not_fit_are_null_and_products_are_rounded_half_up() {
    let decimal = |name, values: &[Value]| {
        of(
            "DECIMAL(4, 2)",
            DataType::Decimal128(4, 2),
            &function(name),
            values,
        )
        .to_string()
    };
    assert_eq!(decimal("sum", &[json!("99.99"), json!("0.01")]), "null");
    assert_eq!(decimal("sum", &[json!("99.98"), json!("0.01")]), "99.99");
    assert_eq!(decimal("product", &[json!("0.05"), json!("0.10")]), "0.01");
    assert_eq!(
        decimal("product", &[json!("-0.05"), json!("0.10")]),
        "-0.01"
    );
    assert_eq!(decimal("product", &[json!("0.04"), json!("0.10")]), "0.00");
    let divided = |a: &str, b: &str| {
        let versions = [(INSERT, json!(a)), (DELETE, json!(b))];
        merged(
            "DECIMAL(4, 2)",
            DataType::Decimal128(4, 2),
            &function("product"),
            &versions,
        )
    };
    assert_eq!(divided("6.00", "0.50").unwrap().to_string(), "12.00");
    assert_eq!(
        divided("1.00", "8.00").unwrap().to_string(),
        "0.13",
        "0.125 rounds up"
    );
    assert!(
        divided("1.00", "3.00")
            .unwrap_err()
            .to_string()
            .contains("no exact decimal result")
    );
    assert!(divided("1.00", "0.00").is_err());
    let largest = "9".repeat(38);
    let huge = of(
        "DECIMAL(38, 0)",
        DataType::Decimal128(38, 0),
        &function("product"),
        &[json!(largest), json!(largest)],
    );
    assert_eq!(huge, json!(null));
}

#[test]
fn retracts_are_taken_back_or_refused_or_ignored() {
    let versions = |a: Value, b: Value| [(INSERT, a), (UPDATE_BEFORE, b)];
    let int = |name: &'static str, a: Value, b: Value| {
        merged("INT", DataType::Int32, &function(name), &versions(a, b))
    };
    assert_eq!(int("sum", json!(7), json!(2)).unwrap(), json!(5));
    assert_eq!(int("sum", json!(null), json!(2)).unwrap(), json!(-2));
    assert_eq!(int("sum", json!(7), json!(null)).unwrap(), json!(7));
    assert_eq!(int("product", json!(7), json!(2)).unwrap(), json!(3));
    assert_eq!(int("product", json!(null), json!(2)).unwrap(), json!(null));
    assert_eq!(int("last_value", json!(7), json!(2)).unwrap(), json!(null));
    assert_eq!(
        int("last_non_null_value", json!(7), json!(2)).unwrap(),
        json!(null)
    );
    assert_eq!(
        int("last_non_null_value", json!(7), json!(null)).unwrap(),
        json!(7)
    );
    for name in ["max", "min", "first_value", "first_non_null_value"] {
        let message = int(name, json!(7), json!(2)).unwrap_err().to_string();
        assert!(
            message.contains("'fields.x.ignore-retract' = 'true'"),
            "{name}: {message}"
        );
        let ignoring = [("aggregate-function", name), ("ignore-retract", "true")];
        let kept = merged(
            "INT",
            DataType::Int32,
            &ignoring,
            &versions(json!(7), json!(2)),
        );
        assert_eq!(kept.unwrap(), json!(7), "{name}");
    }
}

#[test]
fn booleans_join() {
    let bool_of =
        |name, values: &[Value]| of("BOOLEAN", DataType::Boolean, &function(name), values);
    let mixed = [json!(true), json!(null), json!(false)];
    assert_eq!(bool_of("bool_and", &mixed), json!(false));
    assert_eq!(bool_of("bool_or", &mixed), json!(true));
    assert_eq!(bool_of("bool_or", &[json!(null), json!(null)]), json!(null));
}

#[test]
fn texts_are_listed() {
    let list = |options: &[(&'static str, &'static str)], values: &[&str]| {
        let mut all = function("listagg").to_vec();
        all.extend(options);
        of(
            "STRING",
            DataType::Utf8,
            &all,
            &values.iter().map(|v| json!(v)).collect::<Vec<_>>(),
        )
    };
    // As Java 1.4.2 answers: what is empty adds nothing, what is blank is text.
    assert_eq!(list(&[], &["a", "", "b", "a"]), json!("a,b,a"));
    assert_eq!(list(&[], &["a", " "]), json!("a, "));
    assert_eq!(list(&[], &[" ", "b"]), json!(" ,b"));
    assert_eq!(list(&[], &["", "b"]), json!("b"));
    assert_eq!(list(&[], &["", ""]), json!(""));
    assert_eq!(
        list(&[("list-agg-delimiter", "; ")], &["a", "b"]),
        json!("a; b")
    );
    assert_eq!(
        list(&[("distinct", "true")], &["a,b", "b,c,,c", "a"]),
        json!("a,b,c")
    );
    let distinct = list(&[("distinct", "true")], &["a", "b, ,c"]);
    assert_eq!(distinct, json!("a,b, ,c"));
}

#[test]
fn arrays_are_collected() {
    let ints = DataType::List(Arc::new(Field::new("element", DataType::Int32, true)));
    let collect = |distinct: &'static str, versions: &[(i8, Value)]| {
        let options = [("aggregate-function", "collect"), ("distinct", distinct)];
        merged("ARRAY<INT>", ints.clone(), &options, versions).unwrap()
    };
    let adds = [
        (INSERT, json!([1, 2, null])),
        (INSERT, json!(null)),
        (INSERT, json!([2, 3, 3, null])),
    ];
    assert_eq!(collect("false", &adds), json!([1, 2, null, 2, 3, 3, null]));
    assert_eq!(collect("true", &adds), json!([1, 2, null, 3]));
    let taken = [
        (INSERT, json!([1, 2, 2, null])),
        (DELETE, json!([2, null, 9])),
    ];
    assert_eq!(
        collect("false", &taken),
        json!([1, 2]),
        "one element for each taken back"
    );
    assert_eq!(
        collect("true", &[(INSERT, json!(null)), (INSERT, json!([1, 1]))]),
        json!([1])
    );
    assert_eq!(
        collect("false", &[(DELETE, json!([1])), (DELETE, json!([2]))]),
        json!(null)
    );
}

#[test]
fn maps_are_merged() {
    let merge = |versions: &[(i8, Value)]| {
        merged(
            "MAP<STRING, INT>",
            map_of(DataType::Int32),
            &function("merge_map"),
            versions,
        )
        .unwrap()
    };
    let adds = [
        (INSERT, json!({"a": 1, "b": 2})),
        (INSERT, json!(null)),
        (INSERT, json!({"b": 3, "c": null})),
    ];
    assert_eq!(
        merge(&adds),
        json!({"a": 1, "b": 3}),
        "the writer leaves nulls out"
    );
    let taken = [
        (INSERT, json!({"a": 1, "b": 2})),
        (DELETE, json!({"b": 9, "z": 1})),
    ];
    assert_eq!(merge(&taken), json!({"a": 1}));
}

#[test]
fn maps_are_merged_by_the_time_of_each_key() {
    let value = DataType::Struct(fields(&[("v", DataType::Int32), ("ts", DataType::Utf8)]));
    let sql = "MAP<STRING, ROW<v INT, ts STRING>>";
    let options = function("merge_map_with_keytime");
    let merge = |values: &[Value]| of(sql, map_of(value.clone()), &options, values);
    let at = |v: i32, ts: &str| json!({"v": v, "ts": ts});
    let out = merge(&[
        json!({"a": at(1, "5"), "b": at(1, "5"), "c": at(1, "5"), "d": {"v": 1}}),
        json!({"a": at(2, "4"), "b": at(2, "6"), "c": {"v": 2}, "d": at(2, "1"), "e": at(2, "1")}),
        json!({"b": null}),
    ]);
    let expected = json!({"a": at(1, "5"), "c": at(1, "5"), "d": at(2, "1"), "e": at(2, "1")});
    assert_eq!(out, expected);
    let named = [options[0], ("ts-field", "nothing")];
    let error = merged(sql, map_of(value.clone()), &named, &[])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("'nothing' is no field of the rows; they have v, ts"),
        "{error}"
    );
}

const NESTED: &str = "ARRAY<ROW<id INT, s INT, v STRING>>";

fn nested() -> DataType {
    struct_list(fields(&[
        ("id", DataType::Int32),
        ("s", DataType::Int32),
        ("v", DataType::Utf8),
    ]))
}

fn element(id: i32, s: i32, v: &str) -> Value {
    json!({"id": id, "s": s, "v": v})
}

#[test]
fn nested_rows_are_appended_or_updated_by_key() {
    let update = |options: &[(&str, &str)], versions: &[(i8, Value)]| {
        let mut all = function("nested_update").to_vec();
        all.extend(options);
        merged(NESTED, nested(), &all, versions).unwrap()
    };
    let adds = [
        (
            INSERT,
            json!([element(1, 5, "a"), null, element(2, 5, "b")]),
        ),
        (INSERT, json!([element(2, 4, "B"), element(3, 1, "c")])),
    ];
    let appended = json!([
        element(1, 5, "a"),
        element(2, 5, "b"),
        element(2, 4, "B"),
        element(3, 1, "c")
    ]);
    assert_eq!(update(&[], &adds), appended);
    let by_key = json!([element(1, 5, "a"), element(2, 4, "B"), element(3, 1, "c")]);
    assert_eq!(update(&[("nested-key", "id")], &adds), by_key);
    let ordered = json!([element(1, 5, "a"), element(2, 5, "b"), element(3, 1, "c")]);
    assert_eq!(
        update(
            &[("nested-key", "id"), ("nested-sequence-field", "s")],
            &adds
        ),
        ordered
    );
    assert_eq!(
        update(&[("nested-key", "id"), ("count-limit", "2")], &adds),
        json!([element(1, 5, "a"), element(2, 4, "B")])
    );
    assert_eq!(
        update(&[("count-limit", "3")], &adds),
        json!([element(1, 5, "a"), element(2, 5, "b"), element(2, 4, "B")]),
        "nulls are left out, then it is full"
    );
    let taken = [adds[0].clone(), (DELETE, json!([element(2, 5, "b")]))];
    assert_eq!(update(&[], &taken), json!([element(1, 5, "a")]));
    let taken = [adds[0].clone(), (DELETE, json!([element(2, 9, "other")]))];
    assert_eq!(
        update(&[("nested-key", "id")], &taken),
        json!([element(1, 5, "a")])
    );
    assert_eq!(
        update(&[], &taken),
        json!([element(1, 5, "a"), element(2, 5, "b")])
    );
}

#[test]
fn nested_keys_with_nulls_follow_the_strategy() {
    let nulls = json!([{"id": null, "s": 1, "v": "x"}, element(1, 1, "a")]);
    let versions = [(INSERT, nulls.clone()), (INSERT, nulls)];
    let with = |strategy| {
        let options = [
            ("aggregate-function", "nested_update"),
            ("nested-key", "id"),
            ("nested-key-null-strategy", strategy),
        ];
        merged(NESTED, nested(), &options, &versions)
    };
    assert_eq!(with("merge").unwrap().as_array().unwrap().len(), 2);
    assert_eq!(with("ignore").unwrap(), json!([element(1, 1, "a")]));
    assert!(
        with("error")
            .unwrap_err()
            .to_string()
            .contains("null in its nested key")
    );
}

#[test]
fn nested_rows_are_filled_field_by_field() {
    let options = [
        ("aggregate-function", "nested_partial_update"),
        ("nested-key", "id"),
    ];
    let out = of(
        NESTED,
        nested(),
        &options,
        &[
            json!([{"id": 1, "v": "a"}, {"id": 2, "s": 7}]),
            json!([{"id": 1, "s": 3}, null, {"id": 3, "v": "c"}]),
            json!([{"id": 1, "v": "A"}]),
        ],
    );
    assert_eq!(
        out,
        json!([element(1, 3, "A"), {"id": 2, "s": 7}, {"id": 3, "v": "c"}])
    );
}

/// Values in hexadecimal, as the JSON reader takes bytes.
fn hex(bytes: &[u8]) -> Value {
    json!(bytes.iter().map(|b| format!("{b:02x}")).collect::<String>())
}

fn unhex(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap();
    let byte = |i: usize| u8::from_str_radix(&text[i..i + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

#[test]
fn bitmaps_are_united() {
    let bytes_of = |values: &[u32]| {
        let mut out = Vec::new();
        roaring::RoaringBitmap::from_iter(values)
            .serialize_into(&mut out)
            .unwrap();
        out
    };
    let out = of(
        "BYTES",
        DataType::Binary,
        &function("rbm32"),
        &[
            hex(&bytes_of(&[1, 70_000])),
            json!(null),
            hex(&bytes_of(&[2, u32::MAX])),
        ],
    );
    assert_eq!(out, hex(&bytes_of(&[1, 2, 70_000, u32::MAX])));
    let broken = [(INSERT, json!("00")), (INSERT, json!("01"))];
    let error = merged("BYTES", DataType::Binary, &function("rbm32"), &broken).unwrap_err();
    assert!(
        error.to_string().contains("no 32-bit roaring bitmap"),
        "{error}"
    );
}

#[test]
fn sketches_are_united() {
    use datasketches::hll::{HllSketch, HllType};
    use datasketches::theta::{CompactThetaSketch, ThetaSketchBuilder};
    let hll = |values: std::ops::Range<i64>| {
        let mut sketch = HllSketch::new(12, HllType::Hll4).unwrap();
        values.for_each(|v| sketch.update(v));
        hex(&sketch.serialize())
    };
    let out = of(
        "BYTES",
        DataType::Binary,
        &function("hll_sketch"),
        &[hll(0..1000), hll(500..2000)],
    );
    let estimate = HllSketch::deserialize(&unhex(&out)).unwrap().estimate();
    assert!((1900.0..2100.0).contains(&estimate), "{estimate}");

    let theta = |values: std::ops::Range<i64>| {
        let mut sketch = ThetaSketchBuilder::default().build().unwrap();
        values.for_each(|v| sketch.update(v));
        hex(&sketch.compact(true).serialize())
    };
    let out = of(
        "BYTES",
        DataType::Binary,
        &function("theta_sketch"),
        &[theta(0..1000), theta(500..2000)],
    );
    let estimate = CompactThetaSketch::deserialize(&unhex(&out))
        .unwrap()
        .estimate();
    assert_eq!(estimate, 2000.0, "below 4096 entries it counts exactly");
    let broken = [(INSERT, json!("00")), (INSERT, json!("01"))];
    for name in ["hll_sketch", "theta_sketch"] {
        assert!(
            merged("BYTES", DataType::Binary, &function(name), &broken).is_err(),
            "{name}"
        );
    }
}

/// Bytes of Apache's own C++ library (datasketches for Python 5.2.0): what it wrote, and what it made of
/// the union.
#[test]
fn sketches_of_the_other_library_are_read_and_their_union_is_its_union() {
    use datasketches::hll::HllSketch;
    let theta = |values: &[&str]| {
        let values: Vec<_> = values.iter().map(|v| json!(v)).collect();
        of(
            "BYTES",
            DataType::Binary,
            &function("theta_sketch"),
            &values,
        )
    };
    let three = "02030300001acc93030000000000000015f97dcbbd86a105c397fc1281709d1ee56b61eec8804420";
    let four = "02030300001acc93040000000000000040de2ee1c9db3d08bd3273724691cc14c397fc1281709d1eba40b3c1da06695d";
    let six = "02030300001acc93060000000000000015f97dcbbd86a10540de2ee1c9db3d08bd3273724691cc14c397fc1281709d1ee56b61eec8804420ba40b3c1da06695d";
    assert_eq!(theta(&[three, four]), json!(six));
    let single = "01030300001acc93e56b61eec8804420";
    assert_eq!(theta(&[three, single]), json!(three));

    let hll = |a: &str, b: &str| {
        let out = of(
            "BYTES",
            DataType::Binary,
            &function("hll_sketch"),
            &[json!(a), json!(b)],
        );
        HllSketch::deserialize(&unhex(&out)).unwrap().estimate()
    };
    let three = "0201070403080300cbd7c2042bf2fb06862ff90d";
    let four = "0201070403080400862ff90d7581660781bc5d067b65e608";
    assert!((hll(three, four) - 6.000000074505807).abs() < 1e-9);
    let thousand = "0a01070400080502abf2efb89ca791400000000000a0ca3f000000000000000003000000000000000331232120110522";
    let more = "0a010704000804024cd9712bc7f99b40000000000088c03f000000000000000001000000000000008646304373432647";
    assert!((hll(thousand, more) - 2442.2081280384277).abs() < 1e-6);
}

#[test]
fn functions_that_do_not_fit_are_refused_when_the_table_is_opened() {
    for (sql, options, words) in [
        (
            "INT",
            vec![("aggregate-function", "median")],
            "is no aggregate function; use one of sum",
        ),
        (
            "STRING",
            vec![("aggregate-function", "sum")],
            "takes numbers, and the column is of type STRING",
        ),
        (
            "INT",
            vec![("aggregate-function", "listagg")],
            "takes STRING",
        ),
        (
            "INT",
            vec![("aggregate-function", "collect")],
            "takes ARRAY",
        ),
        (
            "ARRAY<INT>",
            vec![("aggregate-function", "max")],
            "takes values that compare",
        ),
        (
            "ARRAY<INT>",
            vec![("aggregate-function", "nested_update")],
            "takes an ARRAY of rows",
        ),
        (
            "BYTES",
            vec![("aggregate-function", "rbm64")],
            "is not supported",
        ),
        (
            NESTED,
            vec![("aggregate-function", "nested_partial_update")],
            "needs 'fields.x.nested-key'",
        ),
        (
            NESTED,
            vec![
                ("aggregate-function", "nested_update"),
                ("nested-sequence-field", "s"),
            ],
            "needs 'fields.x.nested-key'",
        ),
        (
            NESTED,
            vec![
                ("aggregate-function", "nested_update"),
                ("nested-key", "no"),
            ],
            "'no' is no field of the rows; they have id, s, v",
        ),
        (
            "MAP<STRING, INT>",
            vec![("aggregate-function", "merge_map_with_keytime")],
            "a MAP to rows that end in their time",
        ),
        (
            "STRING",
            vec![
                ("aggregate-function", "listagg"),
                ("distinct", "true"),
                ("list-agg-delimiter", ""),
            ],
            "the delimiter tells the parts apart",
        ),
    ] {
        let message = merged(sql, DataType::Int32, &options, &[])
            .unwrap_err()
            .to_string();
        assert!(message.contains(words), "{message}");
        assert!(message.contains("fields.x."), "{message}");
    }
}
