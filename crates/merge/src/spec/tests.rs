use super::*;
use tidegate_model::DataField;

fn schema(options: &[(&str, &str)]) -> TableSchema {
    let column = |name: &str, t: &str| DataField::new(name, t.parse().unwrap());
    let columns = vec![
        column("dt", "STRING"),
        column("id", "BIGINT"),
        column("v", "STRING"),
        column("s", "INT"),
        column("t", "TIMESTAMP(6)"),
        column("list", "ARRAY<INT>"),
    ];
    TableSchema::create(
        columns,
        vec!["dt".into()],
        vec!["id".into(), "dt".into()],
        options.iter().copied().chain([("bucket", "1")]).collect(),
        None,
        0,
    )
    .unwrap()
}

fn refused(options: &[(&str, &str)]) -> String {
    MergeSpec::new(&schema(options)).unwrap_err().to_string()
}

#[test]
fn needs_are_key_sequence_fields_and_what_is_asked_for() {
    let plain = MergeSpec::new(&schema(&[])).unwrap();
    assert_eq!(
        plain.needs(&[]),
        [1],
        "the partition column is constant in a bucket"
    );
    assert_eq!(plain.needs(&[5, 2, 2]), [1, 2, 5]);
    let ordered = MergeSpec::new(&schema(&[("sequence.field", "t, s")])).unwrap();
    assert_eq!(ordered.sequence_columns(), [4, 3]);
    assert_eq!(ordered.needs(&[2]), [1, 2, 3, 4]);
}

#[test]
fn options_that_exclude_each_other_are_named_with_the_way_out() {
    for (options, words) in [
        (
            vec![("merge-engine", "newest")],
            "must be one of deduplicate, first-row",
        ),
        (vec![("sequence.field", "x")], "'x' is no column"),
        (vec![("sequence.field", "s,s")], "named twice"),
        (vec![("sequence.field", "list")], "use another column"),
        (
            vec![("sequence.field", "s"), ("merge-engine", "first-row")],
            "remove it",
        ),
        (
            vec![
                ("sequence.field", "s"),
                ("fields.s.aggregate-function", "max"),
            ],
            "remove the function",
        ),
        (
            vec![("sequence.field.sort-order", "up")],
            "ascending, descending",
        ),
        (
            vec![
                ("merge-engine", "first-row"),
                ("changelog-producer", "input"),
            ],
            "'none' or 'lookup'",
        ),
        (
            vec![
                ("merge-engine", "first-row"),
                ("changelog-producer", "full-compaction"),
            ],
            "'none' or 'lookup'",
        ),
        (
            vec![
                ("merge-engine", "first-row"),
                ("deletion-vectors.enabled", "true"),
            ],
            "deletion vectors",
        ),
        (
            vec![
                ("changelog-producer", "full-compaction"),
                ("deletion-vectors.enabled", "true"),
            ],
            "'none', 'input' and 'lookup'",
        ),
        (
            vec![
                ("changelog-producer", "lookup"),
                ("full-compaction.delta-commits", "3"),
            ],
            "not with changelog-producer = lookup",
        ),
        (
            vec![
                ("changelog-producer", "lookup"),
                ("streaming-read-overwrite", "true"),
            ],
            "not with changelog-producer = lookup",
        ),
        (vec![("ignore-delete", "perhaps")], "must be true or false"),
    ] {
        let message = refused(&options);
        assert!(message.contains(words), "{options:?}: {message}");
        assert!(
            message.contains(options[0].0) || message.contains(options[1].0),
            "{message}"
        );
    }
    for fine in [
        vec![
            ("merge-engine", "first-row"),
            ("changelog-producer", "lookup"),
        ],
        vec![
            ("changelog-producer", "input"),
            ("deletion-vectors.enabled", "true"),
        ],
        vec![
            ("changelog-producer", "full-compaction"),
            ("full-compaction.delta-commits", "3"),
        ],
        vec![
            ("sequence.field", "s"),
            ("sequence.field.sort-order", "DESCENDING"),
        ],
    ] {
        MergeSpec::new(&schema(&fine)).unwrap();
    }
}

#[test]
fn a_sequence_field_needs_keys_that_stay_in_their_partition() {
    let column = |name: &str| DataField::new(name, "INT".parse().unwrap());
    let options = [("sequence.field", "s")].into_iter().collect();
    let crossing = TableSchema::create(
        vec![column("p"), column("id"), column("s")],
        vec!["p".into()],
        vec!["id".into()],
        options,
        None,
        0,
    )
    .unwrap();
    let message = MergeSpec::new(&crossing).unwrap_err().to_string();
    assert!(
        message.contains("partition column 'p' is not in the primary key"),
        "{message}"
    );
}

#[test]
fn what_a_writer_drops_and_refuses_follows_the_options() {
    let plain = MergeSpec::new(&schema(&[])).unwrap();
    assert!((0..4).all(|k| !plain.drops_on_write(k) && plain.refuses_on_write(k).is_none()));
    let drops = MergeSpec::new(&schema(&[("ignore-delete", "true")])).unwrap();
    assert_eq!(
        [0, 1, 2, 3].map(|k| drops.drops_on_write(k)),
        [false, true, false, true]
    );
    let before = MergeSpec::new(&schema(&[("ignore-update-before", "true")])).unwrap();
    assert_eq!(
        [0, 1, 2, 3].map(|k| before.drops_on_write(k)),
        [false, true, false, false]
    );
    let first = MergeSpec::new(&schema(&[("merge-engine", "first-row")])).unwrap();
    assert!(
        first
            .refuses_on_write(kind::DELETE)
            .unwrap()
            .contains("ignore-delete = true")
    );
    assert!(first.refuses_on_write(kind::UPDATE_AFTER).is_none());
    let old_key = MergeSpec::new(&schema(&[
        ("merge-engine", "first-row"),
        ("first-row.ignore-delete", "true"),
    ]))
    .unwrap();
    assert!(old_key.ignores_deletes() && old_key.refuses_on_write(kind::DELETE).is_none());
}

#[test]
fn append_tables_have_nothing_to_merge() {
    let columns = vec![DataField::new("a", "INT".parse().unwrap())];
    let append = TableSchema::create(columns, vec![], vec![], Options::new(), None, 0).unwrap();
    assert!(matches!(MergeSpec::new(&append), Err(Error::NoPrimaryKey)));
}
