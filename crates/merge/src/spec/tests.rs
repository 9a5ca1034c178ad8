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
        (
            vec![("sequence.snapshot-ordering", "true")],
            "name a 'sequence.field'",
        ),
        (
            vec![("pk-clustering-override", "true")],
            "set it to 'false'",
        ),
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

fn grouped(options: &[(&str, &str)]) -> Result<MergeSpec> {
    let columns = ["k", "g", "a", "b", "h", "c"];
    let columns = columns.map(|c| DataField::new(c, "INT".parse().unwrap()));
    let engine = [("merge-engine", "partial-update"), ("bucket", "1")];
    let options = options.iter().copied().chain(engine).collect();
    let schema = TableSchema::create(columns.to_vec(), vec![], vec!["k".into()], options, None, 0)?;
    MergeSpec::new(&schema)
}

#[test]
fn needs_of_partial_update_are_the_ordering_columns_of_what_is_read_and_of_what_removes() {
    let groups = [
        ("fields.g.sequence-group", "a,b"),
        ("fields.h.sequence-group", "c"),
    ];
    let spec = grouped(&groups).unwrap();
    assert_eq!(spec.needs(&[]), [0]);
    assert_eq!(spec.needs(&[3]), [0, 1, 3]);
    assert_eq!(spec.needs(&[5, 2]), [0, 1, 2, 4, 5]);
    let removes = [
        groups[0],
        groups[1],
        ("partial-update.remove-record-on-sequence-group", "h"),
    ];
    assert_eq!(grouped(&removes).unwrap().needs(&[3]), [0, 1, 3, 4]);
}

#[test]
fn sequence_groups_that_mean_nothing_are_refused_by_name() {
    let group = ("fields.g.sequence-group", "a,b");
    for (options, words) in [
        (
            vec![("fields.g.sequence-group", "nope")],
            "'nope' is no column",
        ),
        (
            vec![("fields.nope.sequence-group", "a")],
            "'nope' is no column",
        ),
        (
            vec![("fields.g.sequence-group", "k")],
            "'k' is in the primary key",
        ),
        (
            vec![group, ("fields.h.sequence-group", "b,c")],
            "'b' is in another group too",
        ),
        (
            vec![
                group,
                ("partial-update.remove-record-on-sequence-group", "a"),
            ],
            "'a' orders no sequence group",
        ),
        (
            vec![group, ("partial-update.remove-record-on-delete", "true")],
            "not with sequence groups",
        ),
        (
            vec![
                ("ignore-delete", "true"),
                ("partial-update.remove-record-on-delete", "true"),
            ],
            "not with ignore-delete = true",
        ),
        (
            vec![
                group,
                ("ignore-delete", "true"),
                ("partial-update.remove-record-on-sequence-group", "g"),
            ],
            "not with ignore-delete = true",
        ),
        (
            vec![("fields.a.aggregate-function", "sum")],
            "column 'a' is in no sequence group",
        ),
        (
            vec![("fields.default-aggregate-function", "max")],
            "column 'g' is in no sequence group",
        ),
        (
            vec![("fields.zz.aggregate-function", "sum")],
            "'zz' is no column",
        ),
        (
            vec![("fields.a,zz.ignore-retract", "true")],
            "'zz' is no column",
        ),
    ] {
        let message = grouped(&options).unwrap_err().to_string();
        assert!(message.contains(words), "{options:?}: {message}");
        assert!(message.starts_with("option '"), "{message}");
    }
    grouped(&[("fields.a.aggregate-function", "last_non_null_value")]).unwrap();
    grouped(&[group, ("fields.a.aggregate-function", "sum")]).unwrap();
}

/// Case B44: what a merge could not handle is refused when it is written.
#[test]
fn retracts_that_a_merge_could_not_take_are_refused_on_write() {
    let plain = grouped(&[]).unwrap();
    assert!(
        plain
            .refuses_on_write(kind::DELETE)
            .unwrap()
            .contains("partial-update.remove-record-on-delete")
    );
    assert_eq!(plain.refuses_on_write(kind::UPDATE_AFTER), None);
    let takes = |options: &[(&str, &str)]| grouped(options).unwrap().refuses_on_write(kind::DELETE);
    assert_eq!(takes(&[("ignore-delete", "true")]), None);
    assert_eq!(
        takes(&[("partial-update.remove-record-on-delete", "true")]),
        None
    );
    let group = ("fields.g.sequence-group", "a,b");
    assert_eq!(takes(&[group]), None);
    let maximum = ("fields.b.aggregate-function", "max");
    assert!(
        takes(&[group, maximum])
            .unwrap()
            .contains("'fields.b.ignore-retract' = 'true'")
    );
    assert_eq!(
        takes(&[group, maximum, ("fields.b.ignore-retract", "true")]),
        None
    );
    let of = |options: &[(&str, &str)]| MergeSpec::new(&schema(options)).unwrap();
    let aggregation = of(&[
        ("merge-engine", "aggregation"),
        ("fields.s.aggregate-function", "max"),
    ]);
    assert!(aggregation.refuses_on_write(kind::DELETE).is_some());
    let removes = of(&[
        ("merge-engine", "aggregation"),
        ("fields.s.aggregate-function", "max"),
        ("aggregation.remove-record-on-delete", "true"),
    ]);
    assert_eq!(removes.refuses_on_write(kind::DELETE), None);
    assert!(removes.refuses_on_write(kind::UPDATE_BEFORE).is_some());
    let both = [
        ("merge-engine", "aggregation"),
        ("aggregation.remove-record-on-delete", "true"),
        ("fields.s.ignore-retract", "true"),
    ];
    assert!(refused(&both).contains("fields.s.ignore-retract"));
}
