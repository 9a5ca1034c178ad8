//! What a legal table is.

use tidegate_model::layout;
use tidegate_model::{BinaryRow, BucketMode, DataField, Datum, LogicalType, Options, TableSchema};

fn columns(list: &[(&str, &str)]) -> Vec<DataField> {
    list.iter()
        .map(|(name, t)| DataField::new(*name, t.parse().unwrap()))
        .collect()
}

fn create(
    list: &[(&str, &str)],
    partition: &[&str],
    primary: &[&str],
    options: &[(&str, &str)],
) -> Result<TableSchema, String> {
    let names = |list: &[&str]| list.iter().map(|s| s.to_string()).collect::<Vec<_>>();
    let options: Options = options.iter().copied().collect();
    TableSchema::create(
        columns(list),
        names(partition),
        names(primary),
        options,
        None,
        7,
    )
    .map_err(|e| e.to_string())
}

const ORDERS: &[(&str, &str)] = &[
    ("id", "BIGINT NOT NULL"),
    ("name", "STRING"),
    ("amount", "DECIMAL(10,2)"),
    ("dt", "STRING"),
];

/// [F-2.2]: id, name, dt, amt, ts get 0 to 4, r = 5, a = 6, b = 7, m = 8.
#[test]
fn ids_are_assigned_depth_first_and_the_highest_is_kept() {
    let schema = create(
        &[
            ("id", "INT"),
            ("name", "STRING"),
            ("dt", "STRING"),
            ("amt", "INT"),
            ("ts", "TIMESTAMP"),
            ("r", "ROW<a INT, b ARRAY<STRING>>"),
            ("m", "MAP<INT, STRING>"),
        ],
        &[],
        &[],
        &[],
    )
    .unwrap();
    let ids: Vec<_> = schema.fields.iter().map(|f| f.id.0).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5, 8]);
    assert_eq!(schema.highest_field_id.0, 8);
    assert_eq!((schema.version, schema.id.0, schema.time_millis), (3, 0, 7));
}

#[test]
fn keys_given_as_options_are_moved_and_key_columns_become_not_null() {
    let options = [
        ("primary-key", "dt, id"),
        ("partition", "dt"),
        ("bucket", "2"),
        ("x", "y"),
    ];
    let schema = create(ORDERS, &[], &[], &options).unwrap();
    assert_eq!(
        (&schema.primary_keys[..], &schema.partition_keys[..]),
        (&["dt".into(), "id".into()][..], &["dt".into()][..])
    );
    assert_eq!(schema.trimmed_primary_keys(), ["id"]);
    assert!(!schema.field("dt").unwrap().data_type.nullable);
    assert_eq!(
        schema.options.iter().collect::<Vec<_>>(),
        [("bucket", "2"), ("x", "y")]
    );
    assert_eq!(schema.bucket_mode().unwrap(), BucketMode::Fixed(2));
    let nullable = create(ORDERS, &[], &["name"], &[("primary-key.nullable", "true")]).unwrap();
    assert!(nullable.field("name").unwrap().data_type.nullable);
    assert!(
        create(ORDERS, &["dt"], &[], &[("partition", "dt")])
            .unwrap_err()
            .contains("beside it")
    );
}

#[test]
fn illegal_tables_are_refused_naming_column_or_option() {
    type Case<'a> = (
        &'a [(&'a str, &'a str)],
        &'a [&'a str],
        &'a [&'a str],
        &'a [(&'a str, &'a str)],
        &'a str,
    );
    let cases: &[Case<'_>] = &[
        (&[], &[], &[], &[], "at least one column"),
        (
            &[("a", "INT"), ("a", "INT")],
            &[],
            &[],
            &[],
            "column 'a' occurs twice",
        ),
        (&[(" ", "INT")], &[], &[], &[], "must not be blank"),
        (
            &[("_KEY_a", "INT")],
            &[],
            &[],
            &[],
            "column '_KEY_a': the name is reserved",
        ),
        (&[("rowkind", "INT")], &[], &[], &[], "reserved"),
        (&[("_ROW_ID", "INT")], &[], &[], &[], "reserved"),
        (
            &[("b", "BLOB")],
            &[],
            &[],
            &[],
            "column 'b': values of type BLOB cannot be written yet",
        ),
        (
            &[("b", "ROW<x MAP<INT, VARIANT>>")],
            &[],
            &[],
            &[],
            "type VARIANT",
        ),
        (&[("b", "GEOMETRY")], &[], &[], &[], "type GEOMETRY"),
        (&[("b", "GEOGRAPHY")], &[], &[], &[], "type GEOGRAPHY"),
        (&[("b", "VECTOR<FLOAT, 3>")], &[], &[], &[], "type VECTOR"),
        (
            ORDERS,
            &["day"],
            &[],
            &[],
            "partition column 'day' is no column",
        ),
        (
            ORDERS,
            &["dt", "dt"],
            &[],
            &[],
            "partition column 'dt' occurs twice",
        ),
        (
            &[("a", "BYTES"), ("b", "INT")],
            &["a"],
            &[],
            &[],
            "byte strings give directory names",
        ),
        (
            &[("a", "ARRAY<INT>"), ("b", "INT")],
            &["a"],
            &[],
            &[],
            "not of an atomic type",
        ),
        (
            &[("a", "ARRAY<INT>"), ("b", "INT")],
            &[],
            &["a"],
            &[],
            "primary key column 'a' of type ARRAY<INT>",
        ),
        (
            ORDERS,
            &["dt"],
            &["dt"],
            &[],
            "all primary key columns are partition columns",
        ),
        (ORDERS, &[], &[], &[("bucket", "4")], "needs 'bucket-key'"),
        (ORDERS, &[], &[], &[("bucket-key", "id")], "'bucket' is -1"),
        (ORDERS, &[], &[], &[("bucket", "-2")], "needs a primary key"),
        (
            ORDERS,
            &[],
            &[],
            &[("bucket", "4"), ("bucket-key", "id, name")],
            "' name' is no column",
        ),
        (
            ORDERS,
            &[],
            &[],
            &[("bucket", "4"), ("bucket-key", "id,id")],
            "occurs twice",
        ),
        (
            ORDERS,
            &["dt"],
            &[],
            &[("bucket", "4"), ("bucket-key", "dt")],
            "'dt' is a partition column",
        ),
        (
            ORDERS,
            &[],
            &["id"],
            &[("bucket", "4"), ("bucket-key", "name")],
            "'name' is not in the primary key",
        ),
        (
            &[("a", "ROW<x INT>")],
            &[],
            &[],
            &[("bucket", "4"), ("bucket-key", "a")],
            "not of an atomic type",
        ),
        (
            ORDERS,
            &[],
            &[],
            &[
                ("bucket", "4"),
                ("bucket-key", "name"),
                ("bucket-function.type", "mod"),
            ],
            "bucket-function.type=mod does not support",
        ),
        (
            ORDERS,
            &[],
            &[],
            &[("write-buffer-size", "lots")],
            "option 'write-buffer-size' = 'lots'",
        ),
    ];
    for (list, partition, primary, options, wanted) in cases {
        let error = create(list, partition, primary, options).unwrap_err();
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
}

#[test]
fn bucket_modes_follow_from_keys_and_option() {
    let of = |partition: &[&str], primary: &[&str], bucket: &str| {
        create(ORDERS, partition, primary, &[("bucket", bucket)])
            .unwrap()
            .bucket_mode()
            .unwrap()
    };
    assert_eq!(of(&["dt"], &[], "-1"), BucketMode::Unaware);
    assert_eq!(of(&["dt"], &["dt", "id"], "-1"), BucketMode::Dynamic);
    assert_eq!(of(&["dt"], &["id"], "-1"), BucketMode::CrossPartition);
    assert_eq!(of(&[], &["id"], "-2"), BucketMode::Postpone);
    assert_eq!(of(&[], &["id"], "3").total_buckets(), 3);
    assert_eq!(BucketMode::Unaware.total_buckets(), -1);
    assert_eq!(BucketMode::Postpone.total_buckets(), -2);
    let schema = create(
        ORDERS,
        &[],
        &[],
        &[("bucket", "4"), ("bucket-key", "name,id")],
    )
    .unwrap();
    let keys: Vec<_> = schema
        .bucket_fields()
        .unwrap()
        .iter()
        .map(|f| f.name.as_str())
        .collect();
    assert_eq!(
        keys,
        ["name", "id"],
        "in the order of the option, not of the columns"
    );
}

#[test]
fn a_declared_table_is_compared_column_by_column() {
    let table = create(
        ORDERS,
        &["dt"],
        &[],
        &[
            ("bucket", "4"),
            ("bucket-key", "id"),
            ("file.compression", "lz4"),
        ],
    )
    .unwrap();
    let same = create(
        ORDERS,
        &["dt"],
        &[],
        &[("bucket", "4"), ("bucket-key", "id")],
    )
    .unwrap();
    assert_eq!(table.compatible_with(&same), Ok(()));
    let other = create(
        &[
            ("id", "BIGINT"),
            ("name", "STRING"),
            ("price", "INT"),
            ("dt", "STRING"),
        ],
        &[],
        &[],
        &[],
    )
    .unwrap();
    assert_eq!(
        table.compatible_with(&other).unwrap_err(),
        [
            "column 'id': declared as BIGINT, the table has BIGINT NOT NULL",
            "column 'price': declared as INT, the table has none of this name",
            "column 'amount': not declared, the table has DECIMAL(10, 2)",
            "partition columns: declared (), the table has (dt)",
            "option 'bucket': declared (-1), the table has (4)",
            "option 'bucket-key': declared (), the table has (id)",
        ]
    );
    let mut swapped = same.clone();
    swapped.fields.swap(0, 1);
    assert!(table.compatible_with(&swapped).unwrap_err()[0].contains("in the order name, id"));
}

#[test]
fn partition_paths_come_from_keys_and_options() {
    let schema = create(
        ORDERS,
        &["dt", "id"],
        &[],
        &[("partition.default-name", "none")],
    )
    .unwrap();
    assert_eq!(
        schema.partition_types(),
        [LogicalType::STRING, LogicalType::BigInt]
    );
    let row =
        BinaryRow::from_datums(&[None, Some(Datum::BigInt(4))], &schema.partition_types()).unwrap();
    let path = schema.partition_paths().unwrap().path(&row).unwrap();
    assert_eq!(
        layout::join([path.as_str(), "bucket-0"]),
        "dt=none/id=4/bucket-0"
    );
}
