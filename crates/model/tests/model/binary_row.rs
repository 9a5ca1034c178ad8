//! Rows and arrays, byte for byte.

use crate::support::{data_type, datum, golden, hex, list, sorted, to_hex};
use proptest::prelude::*;
use tidegate_model::binary_row::{
    BinaryArrayReader, BinaryArrayWriter, BinaryRowReader, BinaryRowWriter, encode_array,
};
use tidegate_model::{BinaryRow, Datum, LogicalType};

fn types(value: &serde_json::Value) -> Vec<LogicalType> {
    list(value)
        .iter()
        .map(|t| data_type(t.as_str().unwrap()))
        .collect()
}

fn has_map(t: &LogicalType) -> bool {
    matches!(t, LogicalType::Map(..) | LogicalType::Multiset(_))
        || t.children().any(|t| has_map(&t.logical))
}

#[test]
fn every_row_of_java_is_written_and_read_to_the_byte() {
    let mut seen = 0;
    for group in list(&golden("binary-row.json")) {
        let types = types(&group["types"]);
        let mut writer = BinaryRowWriter::new(types.len());
        for case in list(&group["rows"]) {
            let values: Vec<_> = list(&case["values"])
                .iter()
                .zip(&types)
                .map(|(v, t)| datum(v, t))
                .collect();
            let java = case["row"].as_str().unwrap();
            let row =
                BinaryRow::from_serialized(&hex(case["serialized"].as_str().unwrap())).unwrap();
            assert_eq!(to_hex(row.bytes()), java);
            let read: Vec<_> = row
                .datums(&types)
                .unwrap()
                .into_iter()
                .map(sorted)
                .collect();
            let wanted: Vec<_> = values.iter().cloned().map(sorted).collect();
            // Debug text, so that NaN equals NaN.
            assert_eq!(format!("{read:?}"), format!("{wanted:?}"), "{types:?}");
            // The same writer for all rows: nothing of the row before may shine through.
            writer.reset();
            if types.iter().any(has_map) {
                let values = row.datums(&types).unwrap();
                writer.write_all(&values, &types).unwrap();
            } else {
                writer.write_all(&values, &types).unwrap();
            }
            assert_eq!(to_hex(writer.as_bytes()), java, "{types:?} {values:?}");
            assert_eq!(writer.to_row().to_serialized(), row.to_serialized());
            seen += 1;
        }
    }
    assert!(seen > 500, "{seen} rows");
}

#[test]
fn every_array_of_java_is_written_and_read_to_the_byte() {
    for case in list(&golden("binary-array.json")) {
        let element = data_type(case["elementType"].as_str().unwrap());
        let values: Vec<_> = list(&case["elements"])
            .iter()
            .map(|v| datum(v, &element))
            .collect();
        let java = case["bytes"].as_str().unwrap();
        assert_eq!(
            to_hex(&encode_array(&values, &element).unwrap()),
            java,
            "{element} {values:?}"
        );
        let bytes = hex(java);
        let array = BinaryArrayReader::new(&bytes).unwrap();
        let read: Vec<_> = (0..array.len())
            .map(|i| array.get(i, &element).unwrap())
            .collect();
        assert_eq!(format!("{read:?}"), format!("{values:?}"));
    }
}

fn decimal(unscaled: i128, precision: u8, scale: u8) -> Datum {
    Datum::Decimal {
        unscaled,
        precision,
        scale,
    }
}

fn timestamp(millis: i64, nanos_of_milli: i32) -> Datum {
    Datum::Timestamp {
        millis,
        nanos_of_milli,
    }
}

/// The worked examples of [F-4.5].
#[test]
#[allow(clippy::type_complexity)]
fn the_examples_of_the_format_sheet_hold() {
    let text = |s: &str| Some(Datum::String(s.to_owned()));
    let ints = [Some(Datum::Int(1)), None, Some(Datum::Int(3))];
    let cases: Vec<(&[&str], Vec<Option<Datum>>, &str)> = vec![
        (&[], vec![], "00000000 0000000000000000"),
        (
            &["INT"],
            vec![Some(Datum::Int(1))],
            "00000001 0000000000000000 0100000000000000",
        ),
        (
            &["INT"],
            vec![None],
            "00000001 0001000000000000 0000000000000000",
        ),
        (
            &["BIGINT"],
            vec![Some(Datum::BigInt(-3))],
            "00000001 0000000000000000 fdffffffffffffff",
        ),
        (
            &["STRING"],
            vec![text("")],
            "00000001 0000000000000000 0000000000000080",
        ),
        (
            &["STRING"],
            vec![text("hello")],
            "00000001 0000000000000000 68656c6c6f000085",
        ),
        (
            &["STRING"],
            vec![text("abcdefg")],
            "00000001 0000000000000000 6162636465666787",
        ),
        (
            &["STRING"],
            vec![text("abcdefgh")],
            "00000001 0000000000000000 0800000010000000 6162636465666768",
        ),
        (
            &["STRING"],
            vec![text("hello world")],
            "00000001 0000000000000000 0b00000010000000 68656c6c6f20776f726c640000000000",
        ),
        (
            &["STRING", "INT"],
            vec![text("2024-01-01"), Some(Datum::Int(7))],
            "00000002 0000000000000000 0a00000018000000 0700000000000000 \
             323032342d30312d3031000000000000",
        ),
        (
            &["DECIMAL(10,2)"],
            vec![Some(decimal(12345, 10, 2))],
            "00000001 0000000000000000 3930000000000000",
        ),
        (
            &["DECIMAL(20,2)"],
            vec![Some(decimal(12345, 20, 2))],
            "00000001 0000000000000000 0200000010000000 30390000000000000000000000000000",
        ),
        (
            &["DECIMAL(20,2)"],
            vec![Some(decimal(-100, 20, 2))],
            "00000001 0000000000000000 0100000010000000 9c000000000000000000000000000000",
        ),
        (
            &["DECIMAL(20,2)"],
            vec![None],
            "00000001 0001000000000000 0000000010000000 00000000000000000000000000000000",
        ),
        (
            &["TIMESTAMP(3)"],
            vec![Some(timestamp(1_704_067_200_123, 0))],
            "00000001 0000000000000000 7bf451c28c010000",
        ),
        (
            &["TIMESTAMP(6)"],
            vec![Some(timestamp(1_704_067_200_123, 456_000))],
            "00000001 0000000000000000 40f5060010000000 7bf451c28c010000",
        ),
        (
            &["TIMESTAMP(6)"],
            vec![None],
            "00000001 0001000000000000 0000000010000000 0000000000000000",
        ),
        (
            &["BYTES"],
            vec![Some(Datum::Bytes(hex("cafebabe")))],
            "00000001 0000000000000000 cafebabe00000084",
        ),
        (
            &["ARRAY<INT>"],
            vec![Some(Datum::Array(ints.to_vec()))],
            "00000001 0000000000000000 1800000010000000 \
             03000000 02000000 01000000 00000000 03000000 00000000",
        ),
        (
            &["MAP<STRING, INT>"],
            vec![Some(Datum::Map(vec![(text("k"), Some(Datum::Int(7)))]))],
            "00000001 0000000000000000 2400000010000000 10000000 \
             01000000 00000000 6b00000000000081 01000000 00000000 0700000000000000 00000000",
        ),
        (
            &["ROW<a INT, b STRING>"],
            vec![Some(Datum::Row(vec![Some(Datum::Int(5)), text("x")]))],
            "00000001 0000000000000000 1800000010000000 \
             0000000000000000 0500000000000000 7800000000000081",
        ),
    ];
    for (names, values, wanted) in cases {
        let types: Vec<_> = names.iter().map(|t| data_type(t)).collect();
        let row = BinaryRow::from_datums(&values, &types).unwrap();
        assert_eq!(
            to_hex(&row.to_serialized()),
            to_hex(&hex(wanted)),
            "{names:?} {values:?}"
        );
        assert_eq!(row.datums(&types).unwrap(), values);
    }
    assert_eq!(
        BinaryRow::empty().to_serialized(),
        hex("00000000 0000000000000000")
    );
}

#[test]
fn null_bits_grow_by_words_of_64() {
    for (fields, size, start) in [
        (56, 456, "00ffffffffffffff"),
        (57, 472, "00ffffffffffffff0100000000000000"),
    ] {
        let mut writer = BinaryRowWriter::new(fields);
        (0..fields).for_each(|i| writer.set_null(i));
        assert_eq!(writer.as_bytes().len(), size);
        assert!(to_hex(writer.as_bytes()).starts_with(start));
    }
}

#[test]
fn null_counts_as_in_commit_messages() {
    for (values, wanted) in [
        (&[][..], "0000000000000000"),
        (
            &[Some(0), Some(0)],
            "02000000 00000000 0000000000000000 0000000000000000",
        ),
        (
            &[Some(0), Some(2), None],
            "03000000 04000000 0000000000000000 0200000000000000 0000000000000000",
        ),
    ] {
        let bytes = BinaryArrayWriter::bigints(values);
        assert_eq!(bytes, hex(wanted));
        let array = BinaryArrayReader::new(&bytes).unwrap();
        let read: Vec<_> = (0..array.len()).map(|i| array.i64(i).unwrap()).collect();
        assert_eq!(read, values);
    }
    let bytes = BinaryArrayWriter::strings(&["a", "longer than a slot"]);
    let array = BinaryArrayReader::new(&bytes).unwrap();
    assert_eq!(array.str(1).unwrap(), Some("longer than a slot"));
}

#[test]
fn broken_rows_are_refused_with_the_place() {
    for (bytes, wanted) in [
        (
            "000000",
            "binary row, byte 0: 3 bytes, the arity prefix alone takes 4",
        ),
        ("ffffffff", "binary row, byte 0: negative arity -1"),
        ("7fffffff 00", "fields take at least"),
        (
            "00000001 0000000000000000",
            "1 fields take at least 16 bytes, there are 8",
        ),
    ] {
        let error = BinaryRow::from_serialized(&hex(bytes))
            .unwrap_err()
            .to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let text = data_type("STRING");
    for (bytes, wanted) in [
        (
            "0000000000000000 ffffff0010000000",
            "points at 16777215 bytes from 16",
        ),
        (
            "0000000000000000 0000000000000088",
            "8 bytes cannot lie in a slot",
        ),
        ("0000000000000000 ff00000000000081", "not UTF-8"),
    ] {
        let row = BinaryRow::from_bytes(1, hex(bytes)).unwrap();
        let error = row.get(0, &text).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let row = BinaryRow::from_bytes(1, hex("0000000000000000 0200000000000000")).unwrap();
    assert!(
        row.get(1, &text)
            .unwrap_err()
            .to_string()
            .contains("field 1 of 1")
    );
}

#[test]
fn overlapping_pieces_do_not_multiply_memory() {
    // An array whose 1,000 elements all point at the same 8,000 bytes.
    let element = LogicalType::BYTES;
    let one = encode_array(&[Some(Datum::Bytes(vec![7; 8_000]))], &element).unwrap();
    let mut many = BinaryArrayWriter::new(1_000, &element);
    many.write_nested(0, &one);
    let mut bytes = many.into_bytes();
    let header = 4 + 1_000usize.div_ceil(32) * 4;
    let slot: [u8; 8] = bytes[header..header + 8].try_into().unwrap();
    for i in 0..1_000 {
        bytes[header + 8 * i..header + 8 * i + 8].copy_from_slice(&slot);
    }
    let mut row = BinaryRowWriter::new(1);
    row.write_nested(0, &bytes);
    let error = row.to_row().get(0, &data_type("ARRAY<BYTES>")).unwrap_err();
    assert!(error.to_string().contains("pieces overlap"), "{error}");
}

#[test]
fn a_value_of_another_type_is_refused() {
    let error = BinaryRow::from_datums(&[Some(Datum::Int(1))], &[LogicalType::BigInt]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a value of kind INT cannot be stored as BIGINT"
    );
    let error = BinaryRow::from_datums(&[Some(decimal(100, 2, 0))], &[data_type("DECIMAL(2,0)")])
        .unwrap_err();
    assert!(error.to_string().contains("more than 2 digits"), "{error}");
}

fn value() -> impl Strategy<Value = (LogicalType, Option<Datum>)> {
    let t = |s: &str| data_type(s);
    let leaf = prop_oneof![
        any::<i32>().prop_map(move |v| (LogicalType::Int, Datum::Int(v))),
        any::<i64>().prop_map(|v| (LogicalType::BigInt, Datum::BigInt(v))),
        any::<i16>().prop_map(|v| (LogicalType::SmallInt, Datum::SmallInt(v))),
        any::<bool>().prop_map(|v| (LogicalType::Boolean, Datum::Boolean(v))),
        ".{0,20}".prop_map(|v| (LogicalType::STRING, Datum::String(v))),
        prop::collection::vec(any::<u8>(), 0..20)
            .prop_map(|v| (LogicalType::BYTES, Datum::Bytes(v))),
        (-10i128.pow(37)..10i128.pow(37))
            .prop_map(move |v| (t("DECIMAL(38,4)"), decimal(v, 38, 4))),
        (any::<i64>(), 0..1_000_000i32)
            .prop_map(move |(ms, ns)| (data_type("TIMESTAMP(9)"), timestamp(ms, ns))),
    ];
    prop_oneof![
        4 => leaf.prop_map(|(t, v)| (t, Some(v))),
        1 => prop_oneof![
            Just(LogicalType::Int),
            Just(data_type("TIMESTAMP(9)")),
            Just(data_type("DECIMAL(38,4)")),
            Just(data_type("ARRAY<ROW<a INT>>"))
        ]
        .prop_map(|t| (t, None)),
        1 => prop::collection::vec(prop::option::of(".{0,12}"), 0..40).prop_map(|v| {
            let values = v.into_iter().map(|v| v.map(Datum::String)).collect();
            (data_type("ARRAY<STRING>"), Some(Datum::Array(values)))
        }),
    ]
}

proptest! {
    #[test]
    fn rows_survive_the_round_trip(fields in prop::collection::vec(value(), 0..70)) {
        let (types, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
        let row = BinaryRow::from_datums(&values, &types).unwrap();
        prop_assert_eq!(row.bytes().len() % 8, 0);
        let back = BinaryRow::from_serialized(&row.to_serialized()).unwrap();
        prop_assert_eq!(&back, &row);
        prop_assert_eq!(back.datums(&types).unwrap(), values);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), arity in 0u32..8) {
        let types = ["INT", "STRING", "DECIMAL(30,3)", "TIMESTAMP(9)", "ARRAY<MAP<STRING, BYTES>>",
            "ROW<a ROW<b STRING>, c MULTISET<BIGINT>>", "DOUBLE", "ARRAY<ARRAY<BOOLEAN>>"];
        if let Ok(row) = BinaryRowReader::new(arity, &bytes) {
            for i in 0..arity as usize + 1 {
                for t in types {
                    let _ = row.get(i, &data_type(t));
                }
            }
        }
        let _ = BinaryRow::from_serialized(&bytes);
    }
}
