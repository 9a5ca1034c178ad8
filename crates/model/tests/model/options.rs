//! Options: the grammar, the defaults, and what is refused.

use proptest::prelude::*;
use std::time::Duration;
use tidegate_model::options::{
    not_honoured, parse_bytes, parse_duration, parse_map, unsupported_for_write,
};
use tidegate_model::{BucketFunction, DataField, Options, StatsMode, TableOptions, TableSchema};

fn schema(options: &[(&str, &str)]) -> TableSchema {
    let mut schema = TableSchema::create(
        vec![
            DataField::new("id", "BIGINT NOT NULL".parse().unwrap()),
            DataField::new("dt", "STRING".parse().unwrap()),
            DataField::new("at", "TIMESTAMP_LTZ(3)".parse().unwrap()),
        ],
        vec!["dt".into(), "at".into()],
        vec![],
        Options::new(),
        None,
        0,
    )
    .unwrap();
    schema.options = options.iter().copied().collect();
    schema
}

fn of(options: &[(&str, &str)]) -> TableOptions {
    TableOptions::of(&schema(options)).unwrap()
}

#[test]
fn sizes_and_durations_take_javas_units() {
    for (text, wanted) in [
        ("0", Some(0)),
        ("128", Some(128)),
        ("1b", Some(1)),
        ("64 mb", Some(64 << 20)),
        (" 64 MB ", Some(64 << 20)),
        ("2g", Some(2 << 30)),
        ("1tb", Some(1 << 40)),
        ("3 kibibytes", Some(3 << 10)),
        ("", None),
        ("mb", None),
        ("1.5 mb", None),
        ("-1", None),
        ("99999999 tb", None),
        ("18446744073709551615", None),
    ] {
        assert_eq!(parse_bytes(text), wanted, "{text}");
    }
    for (text, wanted) in [
        ("10", Some(Duration::from_millis(10))),
        ("10 ms", Some(Duration::from_millis(10))),
        ("10s", Some(Duration::from_secs(10))),
        ("2 min", Some(Duration::from_secs(120))),
        ("2 m", Some(Duration::from_secs(120))),
        ("1 H", Some(Duration::from_secs(3_600))),
        ("3 days", Some(Duration::from_secs(3 * 86_400))),
        ("7 ns", Some(Duration::from_nanos(7))),
        ("1 week", None),
        ("-1 s", None),
        ("999999999999999999 d", None),
    ] {
        assert_eq!(parse_duration(text), wanted, "{text}");
    }
    let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
    assert_eq!(
        parse_map("0:avro, 5:parquet"),
        Some(vec![pair("0", "avro"), pair("5", "parquet")])
    );
    assert_eq!(parse_map(""), Some(vec![]));
    assert_eq!(parse_map("avro"), None);
}

#[test]
fn the_defaults_are_paimons() {
    let o = of(&[]);
    assert_eq!((o.bucket, o.bucket_function), (-1, BucketFunction::Default));
    assert_eq!(o.data_file.target_size, 256 << 20);
    assert_eq!(o.data_file.target_rows, i64::MAX as u64);
    assert_eq!(
        (
            o.data_file.format.as_str(),
            o.data_file.compression.as_str()
        ),
        ("parquet", "zstd")
    );
    assert_eq!(
        (o.data_file.zstd_level, o.data_file.prefix.as_str()),
        (1, "data-")
    );
    assert_eq!(o.stats.mode, StatsMode::Truncate(16));
    assert!(o.stats.dense_store && o.partition_legacy_name);
    assert_eq!(o.partition_default_name, "__DEFAULT_PARTITION__");
    assert_eq!(
        (o.manifest.target_size, o.manifest.merge_min_count),
        (8 << 20, 30)
    );
    assert_eq!(o.manifest.full_compaction_threshold, 16 << 20);
    assert_eq!(o.commit.max_retries, 10);
    assert!(!o.commit.empty_commit_makes_snapshot());
    assert!(
        of(&[("snapshot.ignore-empty-commit", "false")])
            .commit
            .empty_commit_makes_snapshot()
    );
    assert!(
        of(&[("commit.force-create-snapshot", "TRUE")])
            .commit
            .empty_commit_makes_snapshot()
    );

    let mut keyed = schema(&[]);
    keyed.primary_keys = vec!["id".into(), "dt".into(), "at".into()];
    let keyed = TableOptions::of(&keyed).unwrap();
    assert_eq!(keyed.data_file.target_size, 128 << 20);
    assert_eq!(keyed.bucket_keys, ["id"]);
}

#[test]
fn old_schema_versions_change_defaults() {
    let mut old = schema(&[]);
    old.version = 1;
    let o = TableOptions::of(&old).unwrap();
    assert_eq!((o.bucket, o.data_file.format.as_str()), (1, "orc"));
    old.version = 2;
    let o = TableOptions::of(&old).unwrap();
    assert_eq!((o.bucket, o.data_file.format.as_str()), (-1, "orc"));
    assert!(
        unsupported_for_write(&old)
            .unwrap()
            .contains("'file.format' = 'orc'")
    );
}

#[test]
fn a_mode_of_a_column_beats_the_table_and_the_column_limit() {
    let o = of(&[
        ("metadata.stats-mode", "counts"),
        ("metadata.stats-keep-first-n-columns", "1"),
        ("fields.dt.stats-mode", "TRUNCATE(5)"),
    ]);
    assert_eq!(o.stats.mode_of("id", 0), StatsMode::Counts);
    assert_eq!(o.stats.mode_of("at", 2), StatsMode::None);
    assert_eq!(o.stats.mode_of("dt", 1), StatsMode::Truncate(5));
}

#[test]
fn a_text_of_the_wrong_kind_is_an_error_with_key_and_text() {
    for (key, value, wanted) in [
        (
            "bucket",
            "x",
            "option 'bucket' = 'x': must be a whole number",
        ),
        (
            "bucket",
            "0",
            "option 'bucket' = '0': must be a number of buckets above 0",
        ),
        ("bucket", "-3", "must be a number of buckets above 0"),
        (
            "target-file-size",
            "0",
            "option 'target-file-size' = '0': must be above 0",
        ),
        ("target-file-size", "1x", "must be a size such as 64 mb"),
        (
            "commit.min-retry-wait",
            "soon",
            "must be a duration such as 10 s",
        ),
        ("partition.legacy-name", "yes", "must be true or false"),
        (
            "metadata.stats-mode",
            "truncate(0)",
            "must be none, counts, full or truncate(n)",
        ),
        (
            "fields.a.stats-mode",
            "all",
            "option 'fields.a.stats-mode' = 'all'",
        ),
        ("file.compression.zstd-level", "23", "must be from 1 to 22"),
        ("data-file.prefix", "a/b", "without slashes"),
        (
            "data-file.path-directory",
            "../x",
            "must be a directory below the table",
        ),
        (
            "data-file.path-directory",
            "",
            "must be a directory below the table",
        ),
        (
            "bucket-function.type",
            "md5",
            "must be default, mod or hive",
        ),
        ("target-file-row-num", "0", "must be a whole number above 0"),
    ] {
        let error = TableOptions::of(&schema(&[(key, value)]))
            .unwrap_err()
            .to_string();
        assert!(error.contains(wanted), "{error}");
    }
    assert!(TableOptions::of(&schema(&[("some.unknown.key", "kept")])).is_ok());
}

#[test]
fn what_cannot_be_honoured_is_refused_with_the_way_out() {
    assert_eq!(unsupported_for_write(&schema(&[])), None);
    for harmless in [
        ("file.format", "PARQUET"),
        ("row-tracking.enabled", "false"),
        ("data-file.external-paths.strategy", "round-robin"),
        ("file-index.read.enabled", "true"),
        ("file-index.in-manifest-threshold", "1 kb"),
        ("changelog-producer", "none"),
        ("branch", "main"),
        ("manifest.compression", "null"),
        ("write-only", "true"),
        ("merge-engine", "aggregation"),
        ("anything", "else"),
    ] {
        assert_eq!(
            unsupported_for_write(&schema(&[harmless])),
            None,
            "{harmless:?}"
        );
    }
    for (key, value) in [
        ("file.format", "orc"),
        ("file.format.per.level", "0:avro"),
        ("row-tracking.enabled", "true"),
        ("data-evolution.enabled", "TRUE"),
        ("deletion-vectors.enabled", "true"),
        ("changelog-producer", "input"),
        ("rowkind.field", "dt"),
        ("branch", "dev"),
        ("type", "format-table"),
        ("file-index.bloom-filter.columns", "id"),
        ("clustering.incremental", "true"),
        ("chain-table.enabled", "true"),
        ("metadata.iceberg.storage", "table-location"),
        ("manifest.format", "orc"),
        ("manifest.compression", "none"),
        ("file.compression", "brotli"),
        ("commit.force-compact", "true"),
        ("commit.strict-mode.last-safe-snapshot", "4"),
        ("write.sequence-number-init-mode", "snapshot"),
        ("bucket", "-2"),
        ("partition.legacy-name", "false"),
    ] {
        let why =
            unsupported_for_write(&schema(&[(key, value)])).unwrap_or_else(|| panic!("{key}"));
        assert!(
            why.starts_with(&format!("option '{key}' = '{value}' is not supported")),
            "{why}"
        );
        assert!(why.contains("; "), "no way out: {why}");
    }
    let external = [
        ("data-file.external-paths", "s3://b"),
        ("data-file.external-paths.strategy", "round-robin"),
    ];
    assert!(unsupported_for_write(&schema(&external)).is_some());
    let broken = unsupported_for_write(&schema(&[("bucket", "many")])).unwrap();
    assert!(broken.contains("option 'bucket' = 'many'"), "{broken}");
    let function = [
        ("bucket", "4"),
        ("bucket-key", "at"),
        ("bucket-function.type", "hive"),
    ];
    assert!(
        unsupported_for_write(&schema(&function))
            .unwrap()
            .contains("TIMESTAMP(3)")
    );

    let keyed = |options: &[(&str, &str)]| {
        let mut table = schema(options);
        // The partition column is part of the key, else rows would need an index over all partitions.
        table.primary_keys = vec!["id".into()];
        table.primary_keys.extend(table.partition_keys.clone());
        table
    };
    for harmless in [
        ("bucket", "-1"),
        ("bucket", "3"),
        ("changelog-producer", "input"),
        ("changelog-producer", "lookup"),
        ("deletion-vectors.enabled", "true"),
        ("force-lookup", "true"),
        ("changelog-producer", "full-compaction"),
        ("rowkind.field", "dt"),
        ("merge-engine", "first-row"),
        ("commit.force-compact", "true"),
    ] {
        assert_eq!(
            unsupported_for_write(&keyed(&[harmless])),
            None,
            "{harmless:?}"
        );
    }
    for (key, value) in [
        ("changelog-file.format", "avro"),
        ("sequence.snapshot-ordering", "true"),
        ("pk-clustering-override", "true"),
    ] {
        let why = unsupported_for_write(&keyed(&[(key, value)]));
        let why = why.unwrap_or_else(|| panic!("{key}"));
        assert!(
            why.starts_with(&format!("option '{key}' = '{value}' is not supported")),
            "{why}"
        );
    }
    let mut table = keyed(&[]);
    table.primary_keys = vec!["id".into()];
    table.partition_keys = vec!["dt".into()];
    assert_eq!(
        unsupported_for_write(&table),
        None,
        "keys may move between partitions"
    );
    table.options.set("sequence.field", "id");
    let why = unsupported_for_write(&table).unwrap();
    assert!(why.contains("sequence.field"), "{why}");
    assert!(why.contains("lacks a partition column"), "{why}");
    let mut table = keyed(&[("bucket", "-2")]);
    table.primary_keys = vec!["id".into()];
    assert_eq!(unsupported_for_write(&table), None);
    table.options.set("postpone.default-bucket-num", "0");
    let why = unsupported_for_write(&table).unwrap();
    assert!(why.contains("postpone.default-bucket-num"), "{why}");
    let mut table = schema(&[]);
    table.fields[0].data_type = "ARRAY<VARIANT>".parse().unwrap();
    assert!(
        unsupported_for_write(&table)
            .unwrap()
            .contains("column 'id'")
    );
}

#[test]
fn what_is_left_to_others_is_said() {
    let mut keyed = schema(&[
        ("record-level.expire-time", "1 d"),
        ("full-compaction.delta-commits", "3"),
    ]);
    keyed.primary_keys = vec!["id".into()];
    let lines = not_honoured(&keyed);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("rows that have expired"), "{lines:?}");
    assert!(not_honoured(&schema(&[("tag.automatic-creation", "none")])).is_empty());
    let lines = not_honoured(&schema(&[("tag.automatic-creation", "process-time")]));
    assert_eq!(
        lines,
        ["'tag.automatic-creation' = 'process-time': tags are not created by commits"]
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_grammar_panic(text in ".{0,24}") {
        let _ = (parse_bytes(&text), parse_duration(&text), parse_map(&text), StatsMode::parse(&text));
    }
}
