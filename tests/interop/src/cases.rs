//! The tables: columns of the matrix. A case says everything about one table and its rows.

use crate::types::{Atom, Column, PLACES, Shape, atoms, nested, place};
use serde_json::{Value, json};

/// One table.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Block of the matrix.
    pub(crate) group: &'static str,
    /// Column of the matrix.
    pub(crate) name: String,
    /// Columns, `id INT NOT NULL` first.
    pub(crate) columns: Vec<Column>,
    /// Partition columns.
    pub(crate) partition: Vec<String>,
    /// Primary key; none of an append table.
    pub(crate) key: Vec<String>,
    /// Table options.
    pub(crate) options: Vec<(String, String)>,
    /// How many rows one batch has.
    pub(crate) rows: usize,
}

impl Case {
    fn new(group: &'static str, name: String, columns: Vec<Column>, rows: usize) -> Self {
        let mut all = vec![Column::new("id", "INT NOT NULL", Shape::Plain, Vec::new())];
        all.extend(columns);
        for (i, column) in all.iter_mut().enumerate() {
            column.shift += i * 7;
        }
        Self {
            group,
            name,
            columns: all,
            partition: Vec::new(),
            key: Vec::new(),
            options: Vec::new(),
            rows,
        }
    }

    fn with(mut self, options: &[(&str, &str)]) -> Self {
        self.options.extend(
            options
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned())),
        );
        self
    }

    /// Whether a partition column is null in some row.
    pub(crate) fn has_null_partition(&self) -> bool {
        let mut keys = self
            .columns
            .iter()
            .filter(|c| self.partition.contains(&c.name));
        keys.any(|c| c.values.contains(&Value::Null))
    }

    /// The same with other partitions in place of null ones.
    pub(crate) fn without_null_partitions(&self) -> Self {
        let mut case = self.clone();
        let keys = &self.partition;
        for column in case.columns.iter_mut().filter(|c| keys.contains(&c.name)) {
            column.values.retain(|v| !v.is_null());
        }
        case
    }

    /// Rows with ids `from..from + count`.
    pub(crate) fn batch(&self, from: usize, count: usize) -> Vec<Value> {
        (from..from + count)
            .map(|i| {
                let cells = self.columns.iter().map(|c| match c.name.as_str() {
                    "id" => (c.name.clone(), json!(i)),
                    _ => (c.name.clone(), c.value(i)),
                });
                Value::Object(cells.collect())
            })
            .collect()
    }
}

/// Name, option texts.
pub(crate) type Bucket = (&'static str, &'static [(&'static str, &'static str)]);

/// The bucket modes.
pub(crate) const BUCKETS: &[Bucket] = &[
    ("unaware", &[("bucket", "-1")]),
    ("fixed", &[("bucket", "3"), ("bucket-key", "id")]),
    (
        "mod",
        &[
            ("bucket", "3"),
            ("bucket-key", "id"),
            ("bucket-function.type", "mod"),
        ],
    ),
    (
        "hive",
        &[
            ("bucket", "3"),
            ("bucket-key", "id"),
            ("bucket-function.type", "hive"),
        ],
    ),
];

/// A kind of partitioning: its name and its columns.
fn partitions() -> Vec<(String, Vec<Column>)> {
    let all = atoms();
    let mut list = vec![("none".to_owned(), Vec::new())];
    for name in [
        "string",
        "char_5",
        "varchar_20",
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "decimal_5_2",
        "decimal_38_10",
        "date",
        "time_0",
        "time_3",
        "timestamp_0",
        "timestamp_3",
        "timestamp_6",
        "timestamp_9",
        "ltz_0",
        "ltz_3",
        "ltz_6",
        "ltz_9",
    ] {
        let Some(atom) = all.iter().find(|a| a.name == name) else {
            continue;
        };
        let mut column = Column::new("p", atom.sql, atom.shape.clone(), atom.values.clone());
        column.row = "partition column".to_owned();
        if name == "string" {
            column.values = [
                "",
                " ",
                "a",
                "a/b",
                "x=y",
                "a:b",
                "%41",
                "#?&",
                "ü€🦀",
                "q\"'\\",
                "\u{7f}",
                "{[*]}",
                "tab\there",
            ]
            .iter()
            .map(|t| json!(t))
            .collect();
        }
        column.values.push(Value::Null);
        list.push((name.to_owned(), vec![column]));
    }
    let mut dt = Column::new(
        "dt",
        "STRING",
        Shape::Plain,
        vec![json!("2024-01-01"), json!("x/y"), Value::Null],
    );
    dt.row = "partition column".to_owned();
    let mut hour = Column::new(
        "hr",
        "INT NOT NULL",
        Shape::Plain,
        vec![json!(0), json!(23)],
    );
    hour.row = "second partition column".to_owned();
    list.push(("string,int".to_owned(), vec![dt, hour]));
    list
}

/// Every atomic type at the top, nullable and (if asked for) not, and types within types.
fn wide(required: bool) -> Vec<Column> {
    let all = atoms();
    let tops = |p: &'static str| all.iter().map(move |a| place(a, p));
    let strict = tops("top!").filter(|_| required);
    tops("top").chain(strict).chain(nested()).collect()
}

fn table(
    group: &'static str,
    bucket: &Bucket,
    partition: &(String, Vec<Column>),
    columns: Vec<Column>,
) -> Case {
    let (kind, keys) = partition;
    let mut all = keys.clone();
    all.extend(columns);
    let mut case = Case::new(group, format!("{}/{kind}", bucket.0), all, 20).with(bucket.1);
    case.partition = keys.iter().map(|c| c.name.clone()).collect();
    case
}

/// Types × bucket modes × partitions. `mod` and `hive` decide the bucket alone, so they meet only some
/// kinds of partition; NOT NULL columns stand in the tables with the common kinds only.
pub(crate) fn crossed() -> Vec<Case> {
    let kinds = partitions();
    let mut list = Vec::new();
    for bucket in BUCKETS {
        for kind in &kinds {
            let every = matches!(bucket.0, "unaware" | "fixed");
            let common = matches!(kind.0.as_str(), "none" | "string" | "date" | "int");
            if every || common {
                list.push(table("types", bucket, kind, wide(common)));
            }
        }
    }
    list
}

/// Every atomic type in every place, in both bucket modes. MULTISET stands in tables of its own, since
/// a reader that does not know it opens no table that has it.
pub(crate) fn places() -> Vec<Case> {
    let all = atoms();
    let kinds = partitions();
    let mut list = Vec::new();
    for bucket in BUCKETS.iter().take(2) {
        for kind in kinds
            .iter()
            .filter(|k| k.0 == "none" || k.0 == "string,int")
        {
            let columns = |chosen: &dyn Fn(&str) -> bool| -> Vec<Column> {
                let chosen: Vec<&&str> = PLACES
                    .iter()
                    .filter(|p| !p.starts_with("top") && chosen(p))
                    .collect();
                all.iter()
                    .flat_map(|a| chosen.iter().map(|p| place(a, p)))
                    .collect()
            };
            let mut places = table("nested", bucket, kind, columns(&|p| p != "multiset"));
            places.name.push_str(" nested");
            list.push(places);
            let mut multiset = table("nested", bucket, kind, columns(&|p| p == "multiset"));
            multiset.name.push_str(" multiset");
            list.push(multiset);
        }
    }
    list
}

/// Few columns by every kind of partition, for the turns: there the types are not in
/// question. The bucket modes take turns too.
pub(crate) fn narrow() -> Vec<Case> {
    let all = atoms();
    let columns: Vec<Column> = ["int", "string", "decimal_38_10", "timestamp_6"]
        .iter()
        .filter_map(|name| all.iter().find(|a| a.name == *name))
        .map(|a| place(a, "top"))
        .collect();
    let mut list = Vec::new();
    for kind in partitions().iter().filter(|k| k.0 != "none") {
        for bucket in BUCKETS.iter().take(2) {
            let mut case = table("partitions", bucket, kind, columns.clone());
            case.name.push_str(" narrow");
            list.push(case);
        }
    }
    list
}

/// Bucket keys of every type, for every bucket function that takes it.
pub(crate) fn bucket_keys() -> Vec<Case> {
    let mut list = Vec::new();
    for function in ["default", "mod", "hive"] {
        for atom in atoms() {
            let fits = match function {
                "mod" => matches!(atom.name, "int" | "bigint"),
                "hive" => hive_takes(&atom),
                _ => true,
            };
            if !fits {
                continue;
            }
            let key = Column {
                name: "k".to_owned(),
                row: "bucket key".to_owned(),
                ..place(&atom, "top")
            };
            let v = Column::new(
                "v",
                "STRING",
                Shape::Plain,
                vec![json!("a"), json!("ü🦀"), Value::Null],
            );
            let case = Case::new(
                "bucket-key",
                format!("{function}({})", atom.name),
                vec![key, v],
                30,
            );
            list.push(case.with(&[
                ("bucket", "4"),
                ("bucket-key", "k"),
                ("bucket-function.type", function),
            ]));
        }
    }
    list
}

/// The types that Hive's hash is defined for in Paimon.
fn hive_takes(atom: &Atom) -> bool {
    matches!(
        atom.name,
        "boolean"
            | "int"
            | "bigint"
            | "float"
            | "double"
            | "string"
            | "varchar_20"
            | "char_5"
            | "date"
            | "decimal_5_2"
            | "decimal_9_0"
            | "decimal_18_4"
            | "decimal_38_10"
            | "tinyint"
            | "smallint"
            | "binary_4"
            | "varbinary_20"
            | "bytes"
    )
}

/// A keyed table: the key column of a type, `p` as a partition where it is asked for, and two values. `id`
/// is another number in each version of a row, and tells which one it is.
fn keyed_table(name: String, atom: &Atom, partitioned: bool, set: &[(&str, &str)]) -> Case {
    let mut key = Column {
        name: "k".to_owned(),
        row: "key".to_owned(),
        ..place(atom, "top!")
    };
    // Released Java loses rows where it merges NaN in a key. With both 0.0 and -0.0 among the keys ours and the
    // twin kept different rows; why is not settled (perhaps Java's write buffer orders them by sign).
    let text = |v: &Value| v.to_string().to_lowercase();
    key.values
        .retain(|v| !text(v).contains("nan") && text(v) != "-0.0");
    let texts = |list: &[&str]| list.iter().map(|t| json!(t)).collect();
    let mut columns = vec![
        key,
        Column::new(
            "v",
            "INT",
            Shape::Plain,
            (0..7).map(|n| json!(n * 11 - 30)).collect(),
        ),
        Column::new("w", "STRING", Shape::Plain, texts(&["a", "ü🦀", ""])),
    ];
    let mut case_key = vec!["k".to_owned()];
    let mut partition = Vec::new();
    if partitioned {
        // No slash: where released Java looks rows up, it makes local files of that name.
        let days = texts(&["2024-01-01", "x=y"]);
        columns.push(Column::new("p", "STRING NOT NULL", Shape::Plain, days));
        case_key.push("p".to_owned());
        partition.push("p".to_owned());
    }
    // Rows are taken back only where each engine's answer to that does not hang on when it is merged.
    let with_deletes = !set
        .iter()
        .any(|(k, v)| *k == "merge-engine" && *v != "deduplicate");
    let kinds: &[&str] = match with_deletes {
        true => &["+I", "+U", "+I", "-D", "+I"],
        false => &["+I", "+U"],
    };
    columns.push(Column::new("op", "STRING", Shape::Plain, texts(kinds)));
    let mut case = Case::new("keyed", name, columns, 17).with(set);
    case.options
        .push(("rowkind.field".to_owned(), "op".to_owned()));
    case.partition = partition;
    case.key = case_key;
    case
}

/// Keyed tables: each engine with each changelog that it may have, in each kind of bucket; then every type
/// as a key, by every function that takes it.
pub(crate) fn keyed() -> Vec<Case> {
    let all = atoms();
    let mut list = Vec::new();
    let engines: &[(&str, &[(&str, &str)])] = &[
        ("deduplicate", &[]),
        ("ordered", &[("sequence.field", "v")]),
        ("first-row", &[("merge-engine", "first-row")]),
        ("partial-update", &[("merge-engine", "partial-update")]),
        (
            "aggregation",
            &[
                ("merge-engine", "aggregation"),
                ("fields.v.aggregate-function", "sum"),
                ("fields.w.aggregate-function", "max"),
            ],
        ),
    ];
    let buckets: &[Bucket] = &[
        ("fixed", &[("bucket", "2")]),
        ("mod", &[("bucket", "2"), ("bucket-function.type", "mod")]),
        ("hive", &[("bucket", "2"), ("bucket-function.type", "hive")]),
        (
            "dynamic",
            &[("bucket", "-1"), ("dynamic-bucket.target-row-num", "3")],
        ),
    ];
    let Some(int) = all.iter().find(|a| a.name == "int") else {
        return list;
    };
    for (engine, set) in engines {
        for producer in ["none", "input", "full-compaction"] {
            if *engine == "first-row" && producer != "none" {
                continue;
            }
            for (i, bucket) in buckets.iter().enumerate() {
                // The functions stand with one changelog each.
                if matches!(bucket.0, "mod" | "hive") && producer != "input" {
                    continue;
                }
                let mut options = set.to_vec();
                options.extend(bucket.1);
                options.push(("changelog-producer", producer));
                let name = format!("{engine}/{producer}/{}", bucket.0);
                list.push(keyed_table(name, int, i % 2 == 0, &options));
            }
        }
    }
    for function in ["default", "mod", "hive"] {
        for atom in &all {
            let fits = match function {
                "mod" => matches!(atom.name, "int" | "bigint"),
                "hive" => hive_takes(atom),
                _ => true,
            };
            if fits {
                let options = [
                    ("bucket", "4"),
                    ("bucket-function.type", function),
                    ("changelog-producer", "input"),
                ];
                let name = format!("{function}({})", atom.name);
                list.push(keyed_table(name, atom, false, &options));
            }
        }
    }
    list
}

/// One of the option variants: what is set, and what its files must look like.
pub(crate) fn options() -> Vec<Case> {
    let kinds = partitions();
    let all = atoms();
    let some: Vec<Column> = [
        "int",
        "bigint",
        "double",
        "decimal_18_4",
        "decimal_38_10",
        "string",
        "bytes",
        "date",
        "timestamp_3",
        "timestamp_6",
        "ltz_3",
        "boolean",
    ]
    .iter()
    .filter_map(|name| all.iter().find(|a| a.name == *name))
    .map(|a| place(a, "top"))
    .chain(nested().into_iter().take(3))
    .collect();
    let variants: &[(&str, &[(&str, &str)])] = &[
        ("plain", &[]),
        ("zstd", &[("file.compression", "zstd")]),
        (
            "zstd level 9",
            &[
                ("file.compression", "zstd"),
                ("file.compression.zstd-level", "9"),
            ],
        ),
        ("snappy", &[("file.compression", "snappy")]),
        ("lz4", &[("file.compression", "lz4")]),
        ("gzip", &[("file.compression", "gzip")]),
        ("none", &[("file.compression", "none")]),
        ("stats none", &[("metadata.stats-mode", "none")]),
        ("stats counts", &[("metadata.stats-mode", "counts")]),
        ("stats full", &[("metadata.stats-mode", "full")]),
        (
            "stats truncate(4)",
            &[("metadata.stats-mode", "truncate(4)")],
        ),
        (
            "stats per field",
            &[
                ("metadata.stats-mode", "none"),
                ("fields.string__top.stats-mode", "full"),
                ("fields.int__top.stats-mode", "counts"),
            ],
        ),
        (
            "stats not dense",
            &[
                ("metadata.stats-mode", "none"),
                ("metadata.stats-dense-store", "false"),
            ],
        ),
        (
            "stats first 3",
            &[("metadata.stats-keep-first-n-columns", "3")],
        ),
        ("no dictionary", &[("parquet.enable.dictionary", "false")]),
        (
            "small row groups",
            &[("parquet.block.size", "1024"), ("file.block-size", "1 kb")],
        ),
        (
            "small pages",
            &[
                ("parquet.page.size", "64"),
                ("parquet.page.row.count.limit", "3"),
            ],
        ),
        ("rolling by size", &[("target-file-size", "2 kb")]),
        ("rolling by rows", &[("target-file-row-num", "7")]),
        ("manifest zstd", &[("manifest.compression", "zstd")]),
        ("manifest snappy", &[("manifest.compression", "snappy")]),
        ("manifest deflate", &[("manifest.compression", "deflate")]),
        ("manifest null", &[("manifest.compression", "null")]),
        (
            "manifest small",
            &[
                ("manifest.target-file-size", "1 kb"),
                ("manifest.merge-min-count", "2"),
            ],
        ),
        (
            "manifest full merge",
            &[("manifest.full-compaction-threshold-size", "1 b")],
        ),
        ("legacy names off", &[("partition.legacy-name", "false")]),
        ("default name", &[("partition.default-name", "__NONE__")]),
        (
            "path directory",
            &[("data-file.path-directory", "data/deep")],
        ),
        ("prefix", &[("data-file.prefix", "part-")]),
        (
            "suffix",
            &[
                ("file.suffix.include.compression", "true"),
                ("file.compression", "snappy"),
            ],
        ),
        (
            "no empty hints",
            &[("snapshot.ignore-empty-commit", "false")],
        ),
    ];
    let mut list = Vec::new();
    for bucket in BUCKETS.iter().take(2) {
        for (name, set) in variants {
            let mut columns = some.clone();
            let words = ["aaaaaaaaaaaaaaaaaaaa", "zzzzzzzzzzzzzzzzzzzz"];
            let words = words.iter().map(|w| json!(w)).collect();
            columns.push(Column::new("word", "STRING", Shape::Plain, words));
            let dates = kinds.iter().find(|k| k.0 == "date");
            let kind = dates.filter(|_| name.starts_with("legacy") || name.starts_with("default"));
            let none = ("none".to_owned(), Vec::new());
            let mut case = table("options", bucket, kind.unwrap_or(&none), columns).with(set);
            case.name = format!("{} {name}", bucket.0);
            case.rows = 40;
            if matches!(*name, "rolling by size" | "small row groups") {
                // Sizes are looked at only now and then, by Java as by us: many rows, few columns.
                // Our files and row groups end between batches only, so there must be several.
                case.rows = 12_000;
                let kept = ["id", "word"];
                case.columns.retain(|c| kept.contains(&c.name.as_str()));
                if let Some(word) = case.columns.last_mut() {
                    word.values = (0..12_001)
                        .map(|i| json!(format!("word-{}", i * 7_919)))
                        .collect();
                }
            }
            list.push(case);
        }
    }
    list
}

/// Tables that we must refuse by name: option or column, and a word of the refusal.
pub(crate) fn refused() -> Vec<(Case, &'static str)> {
    let plain = |name: &str, set: &[(&str, &str)]| {
        Case::new(
            "refused",
            name.to_owned(),
            vec![Column::new("v", "STRING", Shape::Plain, vec![])],
            1,
        )
        .with(set)
    };
    let typed = |name: &str, sql: &str| {
        Case::new(
            "refused",
            name.to_owned(),
            vec![Column::new("v", sql, Shape::Plain, vec![])],
            1,
        )
    };
    let mut list = vec![
        (
            plain("file.format orc", &[("file.format", "orc")]),
            "file.format",
        ),
        (
            plain("file.format avro", &[("file.format", "avro")]),
            "file.format",
        ),
        (
            plain("file.compression brotli", &[("file.compression", "brotli")]),
            "file.compression",
        ),
        (
            plain("file.compression lzo", &[("file.compression", "lzo")]),
            "file.compression",
        ),
        (
            plain("manifest.format orc", &[("manifest.format", "orc")]),
            "manifest.format",
        ),
        (
            plain(
                "manifest.compression bzip2",
                &[("manifest.compression", "bzip2")],
            ),
            "manifest.compression",
        ),
        (plain("bucket -2", &[("bucket", "-2")]), "bucket"),
        (
            plain("row tracking", &[("row-tracking.enabled", "true")]),
            "row-tracking.enabled",
        ),
        (
            plain("deletion vectors", &[("deletion-vectors.enabled", "true")]),
            "deletion-vectors.enabled",
        ),
        (
            plain("file index", &[("file-index.bloom-filter.columns", "v")]),
            "file-index.bloom-filter.columns",
        ),
        (
            plain("stats-mode", &[("metadata.stats-mode", "most")]),
            "metadata.stats-mode",
        ),
        (typed("VARIANT", "VARIANT"), "VARIANT"),
        (typed("BLOB", "BLOB"), "BLOB"),
        (typed("ARRAY<VARIANT>", "ARRAY<VARIANT>"), "VARIANT"),
    ];
    for sql in ["BYTES", "BINARY(4)", "ARRAY<INT>"] {
        let mut case = typed(&format!("partition by {sql}"), sql);
        case.partition = vec!["v".to_owned()];
        list.push((case, "'v'"));
    }
    let mut ltz = typed(
        "LTZ partition, legacy off",
        "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    )
    .with(&[("partition.legacy-name", "false")]);
    ltz.partition = vec!["v".to_owned()];
    list.push((ltz, "partition.legacy-name"));
    list
}
