//! Names and partition paths against Java's.

use crate::support::{data_type, datum, golden, list};
use proptest::prelude::*;
use tidegate_model::layout::{self, DataFileName, PartitionPaths, escape, format_of, unescape};
use tidegate_model::{BinaryRow, BucketId, Datum, LogicalType, SchemaId, SnapshotId, java_text};
use tidegate_sink::{Epoch, JobName};

const DEFAULT: &str = "__DEFAULT_PARTITION__";

fn path(column: &str, t: &str, legacy: bool, value: Option<Datum>) -> Result<String, String> {
    let t = data_type(t);
    let row = BinaryRow::from_datums(&[value], std::slice::from_ref(&t)).unwrap();
    let paths = PartitionPaths::new(vec![(column.to_owned(), t)], DEFAULT, legacy);
    paths.path(&row).map_err(|e| e.to_string())
}

#[test]
fn every_partition_of_java_gets_javas_path() {
    let mut seen = 0;
    for case in list(&golden("partition-path.json")) {
        let t = data_type(case["type"].as_str().unwrap());
        let legacy = case["legacyName"].as_bool().unwrap();
        let row =
            BinaryRow::from_datums(&[datum(&case["value"], &t)], std::slice::from_ref(&t)).unwrap();
        let paths = PartitionPaths::new(vec![("p".to_owned(), t)], DEFAULT, legacy);
        assert_eq!(
            paths.names(&row).unwrap(),
            [case["name"].as_str().unwrap()],
            "{case}"
        );
        assert_eq!(
            format!("{}/", paths.path(&row).unwrap()),
            case["path"].as_str().unwrap()
        );
        seen += 1;
    }
    assert!(seen > 500, "{seen}");
}

/// Random, decimal-looking and power-of-two numbers, and what Java 17 prints for them.
#[test]
fn numbers_are_spelled_as_java_17_spells_them() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/golden/vectors/java-number-text.txt"
    );
    let text = std::fs::read_to_string(path).unwrap();
    for line in text.lines() {
        let parts: Vec<_> = line.split(' ').collect();
        let got = match parts[0] {
            "D" => java_text::double(f64::from_bits(parts[1].parse::<i64>().unwrap() as u64)),
            _ => java_text::float(f32::from_bits(parts[1].parse::<i32>().unwrap() as u32)),
        };
        assert_eq!(got, parts[2], "{line}");
    }
    assert!(text.lines().count() > 2_500);
}

/// The table of [F-1.4].
#[test]
fn the_table_of_the_format_sheet_holds() {
    let text = |s: &str| Some(Datum::String(s.to_owned()));
    let ts = |millis, nanos_of_milli| {
        Some(Datum::Timestamp {
            millis,
            nanos_of_milli,
        })
    };
    let decimal = Some(Datum::Decimal {
        unscaled: 150,
        precision: 10,
        scale: 2,
    });
    let day = 1_704_067_200_000;
    for (t, value, legacy, plain) in [
        ("DATE", Some(Datum::Date(19_723)), "19723", "2024-01-01"),
        ("INT", Some(Datum::Int(7)), "7", "7"),
        ("TINYINT", Some(Datum::TinyInt(-1)), "-1", "-1"),
        ("BOOLEAN", Some(Datum::Boolean(true)), "true", "true"),
        ("FLOAT", Some(Datum::Float(1.0)), "1.0", "1.0"),
        ("FLOAT", Some(Datum::Float(1e10)), "1.0E10", "1.0E10"),
        ("DOUBLE", Some(Datum::Double(1e-4)), "1.0E-4", "1.0E-4"),
        ("DECIMAL(10,2)", decimal, "1.50", "1.50"),
        (
            "TIMESTAMP(3)",
            ts(day + 123, 0),
            "2024-01-01T00%3A00%3A00.123",
            "2024-01-01 00%3A00%3A00.123",
        ),
        (
            "TIMESTAMP(3)",
            ts(day, 0),
            "2024-01-01T00%3A00",
            "2024-01-01 00%3A00%3A00.000",
        ),
        (
            "TIMESTAMP(6)",
            ts(day + 123, 456_000),
            "2024-01-01T00%3A00%3A00.123456",
            "2024-01-01 00%3A00%3A00.123456",
        ),
        (
            "TIMESTAMP_LTZ(3)",
            ts(day + 123, 0),
            "2024-01-01T00%3A00%3A00.123",
            "2024-01-01 00%3A00%3A00.123",
        ),
        (
            "TIME(3)",
            Some(Datum::TimeMillis(3_661_001)),
            "3661001",
            "01%3A01%3A01.001",
        ),
        (
            "STRING",
            text("a b#c%d:e?f\\g{h}i[j]k^l\"m'n*o/p=q"),
            "a b%23c%25d%3Ae%3Ff%5Cg%7Bh%7Di%5Bj%5Dk%5El%22m%27n%2Ao%2Fp%3Dq",
            "a b%23c%25d%3Ae%3Ff%5Cg%7Bh%7Di%5Bj%5Dk%5El%22m%27n%2Ao%2Fp%3Dq",
        ),
        ("STRING", text(""), DEFAULT, DEFAULT),
        ("STRING", text(" \t"), DEFAULT, DEFAULT),
        ("STRING", None, DEFAULT, DEFAULT),
        // Java's isWhitespace is not Unicode's: a no-break space is no blank.
        ("STRING", text("\u{a0}"), "\u{a0}", "\u{a0}"),
    ] {
        assert_eq!(
            path("p", t, true, value.clone()).unwrap(),
            format!("p={legacy}"),
            "{t}"
        );
        assert_eq!(
            path("p", t, false, value).unwrap(),
            format!("p={plain}"),
            "{t}"
        );
    }
    let bytes = Some(Datum::Bytes(b"ab".to_vec()));
    assert!(
        path("p", "BYTES", true, bytes.clone())
            .unwrap_err()
            .contains("column 'p'")
    );
    assert_eq!(path("p", "BYTES", false, bytes).unwrap(), "p=ab");
}

/// B51: a part longer than file systems take is refused, the column named; shorter ones pass.
#[test]
fn a_path_part_beyond_255_bytes_is_refused_naming_the_column() {
    let of = |text: String| path("dt", "STRING", true, Some(Datum::String(text)));
    assert!(of("a".repeat(252)).is_ok());
    let error = of("a".repeat(253)).unwrap_err();
    assert!(
        error.contains("partition column 'dt'") && error.contains("256 bytes"),
        "{error}"
    );
    assert!(of("é".repeat(126)).is_ok());
    assert!(of("é".repeat(127)).is_err());
    assert!(of("/".repeat(84)).is_ok());
    assert!(of("/".repeat(85)).is_err());
}

#[test]
fn columns_are_escaped_and_joined_in_order() {
    let columns = vec![
        ("x%20x".to_owned(), LogicalType::Int),
        ("a.b".to_owned(), LogicalType::STRING),
    ];
    let paths = PartitionPaths::new(columns, "none", true);
    let types = [LogicalType::Int, LogicalType::STRING];
    let row = BinaryRow::from_datums(
        &[Some(Datum::Int(1)), Some(Datum::String("..".into()))],
        &types,
    );
    assert_eq!(paths.path(&row.unwrap()).unwrap(), "x%2520x=1/a.b=..");
    let row = BinaryRow::from_datums(&[None, None], &types).unwrap();
    assert_eq!(paths.path(&row).unwrap(), "x%2520x=none/a.b=none");
    assert!(paths.path(&BinaryRow::empty()).is_err());
    assert_eq!(
        PartitionPaths::new(vec![], DEFAULT, true)
            .path(&BinaryRow::empty())
            .unwrap(),
        ""
    );
}

#[test]
fn names_with_numbers_are_read_back_and_foreign_names_are_ignored() {
    assert_eq!(layout::schema_path(SchemaId(0)), "schema/schema-0");
    assert_eq!(layout::schema_id("schema-10"), Some(SchemaId(10)));
    assert_eq!(
        layout::changelog_path(SnapshotId(4)),
        "changelog/changelog-4"
    );
    assert_eq!(layout::changelog_id("changelog-4"), Some(SnapshotId(4)));
    for foreign in [
        "snapshot-",
        "snapshot-1.tmp",
        "snapshot-+1",
        "snapshot--1",
        "snapshot--0",
        "snapshot-01",
        "snapshot-00",
        "LATEST",
        ".snapshot-1.8f2.tmp",
        "snapshot-99999999999999999999",
        "xsnapshot-1",
        "snapshot-1 ",
    ] {
        assert_eq!(layout::snapshot_id(foreign), None, "{foreign}");
    }
    for foreign in ["epoch-+3", "epoch-03", "epoch-"] {
        assert_eq!(layout::epoch_of(foreign), None, "{foreign}");
    }
    for foreign in ["bucket-+1", "bucket-01", "bucket-4294967296"] {
        assert_eq!(layout::bucket_of_dir(foreign), None, "{foreign}");
    }
    assert_eq!(layout::snapshot_id("snapshot-0"), Some(SnapshotId(0)));
    assert_eq!(layout::tag_name("tag-v 1"), Some("v 1"));
    assert_eq!(layout::tag_name("tag-"), None);
    assert_eq!(layout::branch_name("branch-b"), Some("b"));
    assert_eq!(layout::consumer_id("consumer-c"), Some("c"));
    assert_eq!(
        layout::in_branch("b", &layout::snapshot_path(SnapshotId(2))),
        "branch/branch-b/snapshot/snapshot-2"
    );
    for bucket in [BucketId(0), BucketId(31), BucketId::POSTPONE] {
        assert_eq!(
            layout::bucket_of_dir(&layout::bucket_dir(bucket)),
            Some(bucket)
        );
    }
    assert_eq!(layout::bucket_dir(BucketId::POSTPONE), "bucket-postpone");
    assert_eq!(layout::table_dir("shop", "orders"), "shop.db/orders");
    assert_eq!(layout::database_name("shop.db"), Some("shop"));
    assert_eq!(layout::database_name(".db"), None);
    assert_eq!(layout::join(["", "a/", "/b", "c"]), "a/b/c");
}

#[test]
fn objects_of_a_job_lie_under_its_directory() {
    let job = JobName::new("orders").unwrap();
    assert_eq!(
        layout::epoch_path(&job, Epoch(3)),
        "tidegate/jobs/orders/epoch-3"
    );
    assert_eq!(layout::epoch_of("epoch-3"), Some(Epoch(3)));
    assert_eq!(
        layout::ended_path(&job, Epoch(3)),
        "tidegate/jobs/orders/ended-3"
    );
    assert_eq!(layout::ended_epoch_of("ended-3"), Some(Epoch(3)));
    assert_eq!(
        layout::published_path(&job),
        "tidegate/jobs/orders/published"
    );
    assert_eq!(
        layout::positions_path(&job, Epoch(7), "ab"),
        "tidegate/jobs/orders/positions-e7-ab"
    );
    assert_eq!(
        layout::finished_path(&job, Epoch(7), "ab"),
        "tidegate/jobs/orders/finished-e7-ab"
    );
}

#[test]
fn the_last_extension_names_the_format() {
    let name = |format: &str, codec: &str, include| {
        DataFileName::new("data-", "u", format, codec, include).nth(4)
    };
    for (got, wanted) in [
        (name("parquet", "zstd", false), "data-u-4.parquet"),
        (name("parquet", "zstd", true), "data-u-4.zst.parquet"),
        (name("parquet", "none", true), "data-u-4.parquet"),
        (name("parquet", "LZ4", true), "data-u-4.lz4.parquet"),
        (name("json", "gzip", false), "data-u-4.json.gz"),
    ] {
        assert_eq!(got, wanted);
    }
    for (file, format) in [
        ("data-u-4.parquet", Some("parquet")),
        ("data-u-4.zst.parquet", Some("parquet")),
        ("data-u-4.json.gz", Some("json")),
        ("data-u-4", None),
        ("data.gz", None),
    ] {
        assert_eq!(format_of(file), format);
    }
}

#[test]
fn a_bad_escape_stays_as_it_is() {
    for (text, wanted) in [
        ("%", "%"),
        ("%4", "%4"),
        ("%zz", "%zz"),
        ("%2F%", "/%"),
        ("%é1", "%é1"),
        ("%+1", "%+1"),
        ("%2f", "/"),
    ] {
        assert_eq!(unescape(text), wanted);
    }
}

proptest! {
    #[test]
    fn escaping_is_undone(text in any::<String>()) {
        let escaped = escape(&text);
        prop_assert!(!escaped.contains(['/', '\\', ':', '=', '\n']));
        prop_assert_eq!(unescape(&escaped), text);
    }

    #[test]
    fn equal_paths_mean_equal_texts(a in ".{0,12}", b in ".{0,12}") {
        let of = |s: &str| path("p", "STRING", true, Some(Datum::String(s.to_owned()))).unwrap();
        let blank = |s: &str| s.chars().all(java_text::is_whitespace);
        if a != b && !blank(&a) && !blank(&b) {
            prop_assert_ne!(of(&a), of(&b));
        }
    }

    #[test]
    fn floats_read_back(value in any::<f64>(), single in any::<f32>()) {
        prop_assume!(!value.is_nan() && !single.is_nan());
        let text = java_text::double(value).replace("Infinity", "inf");
        prop_assert_eq!(text.parse::<f64>().unwrap(), value);
        let text = java_text::float(single).replace("Infinity", "inf");
        prop_assert_eq!(text.parse::<f32>().unwrap(), single);
    }
}
