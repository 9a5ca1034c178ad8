//! The types of the matrix, their edge values, and the places in a table where a type can stand.
//!
//! Values are canonical JSON (see `java/README.md`) with as many digits of a second as the type has.

use serde_json::{Value, json};

/// How values of a column compare.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// BOOLEAN, integers, DECIMAL, texts, byte strings and dates: equal as JSON.
    Plain,
    /// FLOAT: equal bits, all NaN are one.
    Float,
    /// DOUBLE: likewise.
    Double,
    /// TIME and timestamps: trailing zeros of a second do not count.
    Clock,
    /// ARRAY.
    Array(Box<Shape>),
    /// MAP and MULTISET: pairs in any order.
    Map(Box<Shape>, Box<Shape>),
    /// ROW.
    Row(Vec<(String, Shape)>),
}

/// An atomic type with its edge values.
pub(crate) struct Atom {
    /// Row of the matrix, stem of column names.
    pub(crate) name: &'static str,
    /// As Paimon spells it.
    pub(crate) sql: &'static str,
    /// How values compare.
    pub(crate) shape: Shape,
    /// Edge values without null.
    pub(crate) values: Vec<Value>,
}

/// A column of a table, and how its values go from row to row.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// Name in the table.
    pub(crate) name: String,
    /// Type with its nullability.
    pub(crate) sql: String,
    /// Row of the matrix.
    pub(crate) row: String,
    /// How values compare.
    pub(crate) shape: Shape,
    /// Row `i` has `values[(i + shift) % len]`.
    pub(crate) values: Vec<Value>,
    /// Sets columns out of step.
    pub(crate) shift: usize,
}

impl Column {
    /// A column whose matrix row is its type.
    pub(crate) fn new(name: &str, sql: &str, shape: Shape, values: Vec<Value>) -> Self {
        Self {
            name: name.to_owned(),
            sql: sql.to_owned(),
            row: sql.to_owned(),
            shape,
            values,
            shift: 0,
        }
    }

    /// The value of row `i`.
    pub(crate) fn value(&self, i: usize) -> Value {
        let count = self.values.len().max(1);
        self.values
            .get((i + self.shift) % count)
            .cloned()
            .unwrap_or(Value::Null)
    }
}

fn atom(name: &'static str, sql: &'static str, shape: Shape, values: &[&str]) -> Atom {
    let parse = |text: &&str| {
        serde_json::from_str(text).unwrap_or_else(|_| Value::String((*text).to_owned()))
    };
    Atom {
        name,
        sql,
        shape,
        values: values.iter().map(parse).collect(),
    }
}

const SECONDS: &[&str] = &[
    "0001-01-01T00:00:00",
    "1582-10-10T12:00:00",
    "1900-02-28T23:59:59",
    "1969-12-31T23:59:59",
    "1970-01-01T00:00:00",
    "2024-02-29T12:34:56",
    "9999-12-31T23:59:59",
];
const MILLIS: &[&str] = &[
    "0001-01-01T00:00:00.000",
    "1582-10-10T12:00:00.001",
    "1969-12-31T23:59:59.999",
    "1969-12-31T23:59:59.001",
    "1970-01-01T00:00:00.000",
    "2024-02-29T12:34:56.789",
    "9999-12-31T23:59:59.999",
];
const MICROS: &[&str] = &[
    "0001-01-01T00:00:00.000001",
    "1582-10-10T12:00:00.123456",
    "1969-12-31T23:59:59.999999",
    "1969-12-31T23:59:59.000001",
    "1970-01-01T00:00:00.000000",
    "2024-02-29T12:34:56.789012",
    "9999-12-31T23:59:59.999999",
];
/// Within the 64 bits of nanoseconds that Arrow has.
const NANOS: &[&str] = &[
    "1677-09-22T00:00:00.000000001",
    "1900-02-28T23:59:59.999999999",
    "1969-12-31T23:59:59.999999999",
    "1969-12-31T23:59:59.000000001",
    "1970-01-01T00:00:00.000000000",
    "2024-02-29T12:34:56.789012345",
    "2262-04-11T23:47:16.854775807",
];

/// The same instants with a zone.
fn zoned(texts: &[&str]) -> Vec<Value> {
    texts.iter().map(|t| json!(format!("{t}Z"))).collect()
}

fn ltz(name: &'static str, sql: &'static str, texts: &[&str]) -> Atom {
    Atom {
        values: zoned(texts),
        ..atom(name, sql, Shape::Clock, &[])
    }
}

/// Every atomic type that a Java append table can hold and we write.
pub(crate) fn atoms() -> Vec<Atom> {
    use Shape::{Clock, Double, Float, Plain};
    let mut list = vec![
        atom("boolean", "BOOLEAN", Plain, &["true", "false"]),
        atom(
            "tinyint",
            "TINYINT",
            Plain,
            &["-128", "-1", "0", "1", "127"],
        ),
        atom(
            "smallint",
            "SMALLINT",
            Plain,
            &["-32768", "-1", "0", "1", "32767"],
        ),
        atom(
            "int",
            "INT",
            Plain,
            &["-2147483648", "-1", "0", "1", "2147483647"],
        ),
        atom(
            "bigint",
            "BIGINT",
            Plain,
            &[
                "-9223372036854775808",
                "-1",
                "0",
                "1",
                "9007199254740993",
                "9223372036854775807",
            ],
        ),
        atom(
            "float",
            "FLOAT",
            Float,
            &[
                "0.0",
                "-0.0",
                "1.5",
                "0.1",
                "-3.4028235E38",
                "3.4028235E38",
                "1.4E-45",
                "NaN",
                "Infinity",
                "-Infinity",
            ],
        ),
        atom(
            "double",
            "DOUBLE",
            Double,
            &[
                "0.0",
                "-0.0",
                "1.5",
                "0.1",
                "-1.7976931348623157E308",
                "1.7976931348623157E308",
                "4.9E-324",
                "NaN",
                "Infinity",
                "-Infinity",
            ],
        ),
    ];
    for (name, sql, values) in [
        (
            "decimal_5_2",
            "DECIMAL(5, 2)",
            &["-999.99", "-0.01", "0.00", "1.50", "999.99"][..],
        ),
        (
            "decimal_9_0",
            "DECIMAL(9, 0)",
            &["-999999999", "0", "7", "999999999"],
        ),
        (
            "decimal_18_4",
            "DECIMAL(18, 4)",
            &[
                "-99999999999999.9999",
                "-0.0001",
                "0.0000",
                "99999999999999.9999",
            ],
        ),
        (
            "decimal_19_5",
            "DECIMAL(19, 5)",
            &[
                "-99999999999999.99999",
                "-0.00001",
                "0.00000",
                "99999999999999.99999",
            ],
        ),
        (
            "decimal_38_0",
            "DECIMAL(38, 0)",
            &[
                "-99999999999999999999999999999999999999",
                "-1",
                "0",
                "99999999999999999999999999999999999999",
            ],
        ),
        (
            "decimal_38_10",
            "DECIMAL(38, 10)",
            &[
                "-9999999999999999999999999999.9999999999",
                "-0.0000000001",
                "0.0000000000",
                "9999999999999999999999999999.9999999999",
            ],
        ),
        (
            "decimal_38_38",
            "DECIMAL(38, 38)",
            &[
                "-0.99999999999999999999999999999999999999",
                "-0.00000000000000000000000000000000000001",
                "0.00000000000000000000000000000000000000",
                "0.99999999999999999999999999999999999999",
            ],
        ),
    ] {
        list.push(Atom {
            values: values.iter().map(|v| json!(v)).collect(),
            ..atom(name, sql, Plain, &[])
        });
    }
    let texts = |texts: &[&str]| texts.iter().map(|t| json!(t)).collect::<Vec<_>>();
    let mut long = "ab€ü🦀\u{D7FF}".repeat(500);
    long.push('!');
    let strings = [
        "",
        " ",
        "a",
        "true",
        "null",
        "NaN",
        "ü€🦀",
        "\u{D7FF}",
        "\u{E000}\u{FFFF}",
        "\u{10FFFF}",
        "quote\" back\\slash\nline\ttab\u{1}",
        "0123456789abcdef0123456789abcdef",
        &long,
    ];
    list.push(Atom {
        values: texts(&[
            "abcde",
            "  a  ",
            "üüüüü",
            "\u{D7FF}\u{D7FF}\u{E000}ab",
            "🦀🦀🦀🦀🦀",
        ]),
        ..atom("char_5", "CHAR(5)", Plain, &[])
    });
    list.push(Atom {
        values: texts(&["", " ", "a", "01234567890123456789", "🦀ü€\u{D7FF}"]),
        ..atom("varchar_20", "VARCHAR(20)", Plain, &[])
    });
    list.push(Atom {
        values: texts(&strings),
        ..atom("string", "STRING", Plain, &[])
    });
    list.push(Atom {
        values: texts(&["AAAAAA==", "/////w==", "AQIDBA=="]),
        ..atom("binary_4", "BINARY(4)", Plain, &[])
    });
    list.push(Atom {
        values: texts(&["", "AA==", "/w==", "AAECAwQFBgcICQoLDA0ODxAREhM="]),
        ..atom("varbinary_20", "VARBINARY(20)", Plain, &[])
    });
    list.push(Atom {
        values: texts(&["", "AA==", "/w==", &"AAH/gH8B".repeat(400)]),
        ..atom("bytes", "BYTES", Plain, &[])
    });
    list.extend([
        atom(
            "date",
            "DATE",
            Plain,
            &[
                "0001-01-01",
                "1582-10-10",
                "1969-12-31",
                "1970-01-01",
                "2024-02-29",
                "9999-12-31",
            ],
        ),
        atom(
            "time_0",
            "TIME(0)",
            Clock,
            &["00:00:00", "12:34:56", "23:59:59"],
        ),
        atom(
            "time_3",
            "TIME(3)",
            Clock,
            &["00:00:00.000", "12:34:56.789", "23:59:59.999"],
        ),
        atom(
            "time_9",
            "TIME(9)",
            Clock,
            &["00:00:00.000", "12:34:56.789", "23:59:59.999"],
        ),
        atom("timestamp_0", "TIMESTAMP(0)", Clock, SECONDS),
        atom("timestamp_3", "TIMESTAMP(3)", Clock, MILLIS),
        atom("timestamp_6", "TIMESTAMP(6)", Clock, MICROS),
        atom("timestamp_9", "TIMESTAMP(9)", Clock, NANOS),
        ltz("ltz_0", "TIMESTAMP(0) WITH LOCAL TIME ZONE", SECONDS),
        ltz("ltz_3", "TIMESTAMP(3) WITH LOCAL TIME ZONE", MILLIS),
        ltz("ltz_6", "TIMESTAMP(6) WITH LOCAL TIME ZONE", MICROS),
        ltz("ltz_9", "TIMESTAMP(9) WITH LOCAL TIME ZONE", NANOS),
    ]);
    list
}

/// Where a type can stand inside a column: name, and what makes the column of it.
pub(crate) const PLACES: &[&str] = &[
    "top",
    "top!",
    "array",
    "array!",
    "map-key",
    "map-value",
    "map-value!",
    "row",
    "row!",
    "multiset",
];

/// The column that has `atom` in one of [`PLACES`]; `!` = NOT NULL there.
pub(crate) fn place(atom: &Atom, place: &str) -> Column {
    let mut values = Vec::new();
    let given = &atom.values;
    let at = |i: usize| {
        given
            .get(i % given.len().max(1))
            .cloned()
            .unwrap_or(Value::Null)
    };
    let (sql, shape) = match place {
        "top" => {
            values.extend(given.iter().cloned());
            values.push(Value::Null);
            (atom.sql.to_owned(), atom.shape.clone())
        }
        "top!" => {
            values.extend(given.iter().cloned());
            (format!("{} NOT NULL", atom.sql), atom.shape.clone())
        }
        "array" | "array!" => {
            let strict = place == "array!";
            for i in 0..given.len() {
                values.push(match i % 3 {
                    0 => json!([at(i)]),
                    1 if strict => json!([at(i), at(i + 1), at(i + 2)]),
                    1 => json!([at(i), null, at(i + 1)]),
                    _ => json!([at(i), at(i), at(i + 1)]),
                });
            }
            values.extend([json!([]), Value::Null]);
            if !strict {
                values.push(json!([null, null]));
            }
            let word = if strict { " NOT NULL" } else { "" };
            (
                format!("ARRAY<{}{word}>", atom.sql),
                Shape::Array(Box::new(atom.shape.clone())),
            )
        }
        "map-key" => {
            for i in 0..given.len() {
                values.push(match i % 2 {
                    _ if given.len() < 2 => json!([[at(i), 1]]),
                    0 => json!([[at(i), i], [at(i + 1), null]]),
                    _ => json!([[at(i), -1]]),
                });
            }
            values.extend([json!([]), Value::Null]);
            (
                format!("MAP<{} NOT NULL, INT>", atom.sql),
                Shape::Map(Box::new(atom.shape.clone()), Box::new(Shape::Plain)),
            )
        }
        "map-value" | "map-value!" => {
            let strict = place == "map-value!";
            for i in 0..given.len() {
                values.push(match i % 2 {
                    0 => json!([["k", at(i)]]),
                    _ if strict => json!([["", at(i)], ["ü🦀", at(i + 1)]]),
                    _ => json!([["", at(i)], ["ü🦀", null], ["z", at(i + 1)]]),
                });
            }
            values.extend([json!([]), Value::Null]);
            let word = if strict { " NOT NULL" } else { "" };
            (
                format!("MAP<STRING NOT NULL, {}{word}>", atom.sql),
                Shape::Map(Box::new(Shape::Plain), Box::new(atom.shape.clone())),
            )
        }
        "row" | "row!" => {
            let strict = place == "row!";
            values.extend(given.iter().map(|v| json!({"f": v, "n": 1})));
            values.push(Value::Null);
            if !strict {
                values.push(json!({"f": null, "n": null}));
            }
            let word = if strict { " NOT NULL" } else { "" };
            (
                format!("ROW<f {}{word}, n INT>", atom.sql),
                Shape::Row(vec![
                    ("f".to_owned(), atom.shape.clone()),
                    ("n".to_owned(), Shape::Plain),
                ]),
            )
        }
        _ => {
            for i in 0..given.len() {
                values.push(match i % 2 {
                    _ if given.len() < 2 => json!([[at(i), 1]]),
                    0 => json!([[at(i), 1], [at(i + 1), 2147483647]]),
                    _ => json!([[at(i), 3]]),
                });
            }
            values.extend([json!([]), Value::Null]);
            (
                format!("MULTISET<{} NOT NULL>", atom.sql),
                Shape::Map(Box::new(atom.shape.clone()), Box::new(Shape::Plain)),
            )
        }
    };
    let stem = place.replace('!', "_nn").replace('-', "_");
    Column {
        name: format!("{}__{stem}", atom.name),
        sql,
        row: format!("{} {place}", atom.name),
        shape,
        values,
        shift: 0,
    }
}

/// Columns of types within types, for every table.
pub(crate) fn nested() -> Vec<Column> {
    use Shape::{Array, Map, Plain, Row};
    let boxed = |shape: &Shape| Box::new(shape.clone());
    let int_array = Array(Box::new(Plain));
    let inner = Row(vec![
        ("s".to_owned(), Plain),
        ("l".to_owned(), int_array.clone()),
        ("m".to_owned(), Map(Box::new(Plain), boxed(&int_array))),
    ]);
    let mut list = Vec::new();
    let mut add = |name: &str, sql: &str, shape: Shape, values: Value| {
        let mut column = Column::new(
            name,
            sql,
            shape,
            values.as_array().cloned().unwrap_or_default(),
        );
        column.row = format!("nested {name}");
        list.push(column);
    };
    add(
        "array_of_array",
        "ARRAY<ARRAY<INT>>",
        Array(boxed(&int_array)),
        json!([[[1, null], [], null], [], null, [[]], [null]]),
    );
    add(
        "array_required",
        "ARRAY<STRING NOT NULL> NOT NULL",
        int_array.clone(),
        json!([[], ["a"], ["", "ü🦀"]]),
    );
    add(
        "map_of_map",
        "MAP<STRING NOT NULL, MAP<INT NOT NULL, STRING>>",
        Map(
            Box::new(Plain),
            Box::new(Map(Box::new(Plain), Box::new(Plain))),
        ),
        json!([
            [["a", [[1, "x"], [2, null]]], ["b", null], ["c", []]],
            [],
            null
        ]),
    );
    add(
        "map_required",
        "MAP<STRING NOT NULL, INT NOT NULL> NOT NULL",
        Map(Box::new(Plain), Box::new(Plain)),
        json!([[], [["a", 1]], [["a", 1], ["b", 2]]]),
    );
    add(
        "row_of_row",
        "ROW<a INT, r ROW<b STRING, q ROW<c BIGINT NOT NULL>>>",
        Row(vec![
            ("a".to_owned(), Plain),
            (
                "r".to_owned(),
                Row(vec![
                    ("b".to_owned(), Plain),
                    ("q".to_owned(), Row(vec![("c".to_owned(), Plain)])),
                ]),
            ),
        ]),
        json!([
            {"a": 1, "r": {"b": "x", "q": {"c": 5}}},
            {"a": null, "r": {"b": null, "q": null}},
            {"a": 2, "r": null},
            null
        ]),
    );
    add(
        "row_required",
        "ROW<a INT NOT NULL, b STRING> NOT NULL",
        Row(vec![("a".to_owned(), Plain), ("b".to_owned(), Plain)]),
        json!([{"a": 1, "b": "x"}, {"a": -1, "b": null}]),
    );
    add(
        "array_of_rows",
        "ARRAY<ROW<s STRING, l ARRAY<INT>, m MAP<STRING NOT NULL, ARRAY<INT>>>>",
        Array(boxed(&inner)),
        json!([
            [{"s": "a", "l": [1, null], "m": [["k", [1]], ["n", null], ["z", []]]}, null],
            [],
            null,
            [{"s": null, "l": null, "m": null}, {"s": "", "l": [], "m": []}]
        ]),
    );
    list
}
