//! What the fuzz targets run, and `cargo test` on their seeds. No part of the model.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "checks report by a panic"
)]

use crate::layout;
use crate::options::{
    not_honoured, parse_bool, parse_bytes, parse_duration, parse_map, unsupported_for_write,
};
use crate::{
    BinaryRow, BucketFunction, DataField, DataType, LogicalType, Options, StatsMode, TableOptions,
    TableSchema,
};
use std::sync::LazyLock;

static TYPES: LazyLock<Vec<LogicalType>> = LazyLock::new(|| {
    [
        "INT",
        "STRING",
        "DECIMAL(30, 3)",
        "TIMESTAMP(9)",
        "ARRAY<MAP<STRING, BYTES>>",
        "ROW<a ROW<b STRING, c DECIMAL(9, 2)>, d MULTISET<BIGINT>>",
        "ARRAY<ARRAY<BOOLEAN>>",
        "DATE",
    ]
    .iter()
    .map(|t| t.parse::<DataType>().expect("a type").logical)
    .collect()
});

/// Rows of every kind of type: an error or values, never a panic; and what is read is written back to
/// the same values. A bucket function takes any row.
pub fn binary_row(data: &[u8]) {
    let Ok(row) = BinaryRow::from_serialized(data) else {
        return;
    };
    for i in 0..(row.arity() as usize).min(16) {
        for data_type in TYPES.iter() {
            let _ = row.get(i, data_type);
        }
    }
    let types: Vec<_> = TYPES
        .iter()
        .cycle()
        .take((row.arity() as usize).min(64))
        .collect();
    if let Ok(values) = row.datums(types.iter().copied()) {
        let types: Vec<_> = types.into_iter().cloned().collect();
        // A decimal may hold more digits than its type; such a row cannot be written again.
        if let Ok(again) = BinaryRow::from_datums(&values, &types) {
            // Debug text, so that NaN equals NaN.
            let read = again.datums(&types).expect("our own row");
            assert_eq!(format!("{read:?}"), format!("{values:?}"));
        }
    }
    for (function, key) in [
        (BucketFunction::Default, &TYPES[..4]),
        (BucketFunction::Mod, &TYPES[..1]),
        (BucketFunction::Hive, &TYPES[..4]),
    ] {
        if let Ok(bucket) = function.bucket(row.bytes(), key, 7) {
            assert!((0..7).contains(&bucket), "{bucket}");
        }
    }
}

/// What parses as a type prints as a text that parses to the same type.
pub fn type_text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(data_type) = text.parse::<DataType>() {
        data_type
            .logical
            .validate()
            .expect("the parser checks ranges");
        let again: DataType = data_type.to_string().parse().expect("our own text");
        assert_eq!(again, data_type);
    }
}

/// Unescaping never panics and undoes escaping; object names are read or ignored, and a name that is
/// read is the one that its number writes.
pub fn escapes(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = layout::unescape(text);
    assert_eq!(layout::unescape(&layout::escape(text)), text);
    if let Some(id) = layout::snapshot_id(text) {
        let path = layout::snapshot_path(id);
        assert_eq!(path.rsplit_once('/').unwrap().1, text);
    }
    if let Some(bucket) = layout::bucket_of_dir(text) {
        assert_eq!(layout::bucket_dir(bucket), text);
    }
    let _ = (
        layout::schema_id(text),
        layout::changelog_id(text),
        layout::format_of(text),
    );
    let _ = (
        layout::tag_name(text),
        layout::consumer_id(text),
        layout::branch_name(text),
    );
    let _ = (layout::epoch_of(text), layout::ended_epoch_of(text));
    if let Some(name) = layout::database_name(text) {
        assert_eq!(layout::database_dir(name), text);
    }
    let joined = layout::join(text.split(','));
    assert!(!joined.starts_with('/') && !joined.ends_with('/'));
}

fn schema(options: Options) -> TableSchema {
    let field = |name: &str, text: &str| DataField::new(name, text.parse().expect("a type"));
    let fields = vec![field("id", "BIGINT NOT NULL"), field("dt", "STRING")];
    TableSchema::create(fields, vec!["dt".into()], vec![], Options::new(), None, 0)
        .map(|schema| TableSchema { options, ..schema })
        .expect("a schema")
}

/// Lines of `key=value` as options of a table: values, or an error that names key and text.
pub fn option_values(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = (
        parse_bytes(text),
        parse_duration(text),
        parse_bool(text),
        parse_map(text),
    );
    if let Some(mode) = StatsMode::parse(text) {
        let _ = mode.bounds(
            crate::Datum::String(text.into()),
            crate::Datum::String("z".into()),
        );
    }
    let mut options = Options::new();
    for line in text.lines() {
        if let Some((key, value)) = line.split_once('=') {
            options.set(key, value);
        }
    }
    let schema = schema(options);
    if let Err(error) = TableOptions::of(&schema) {
        assert!(!error.to_string().is_empty());
    }
    let _ = (
        schema.validate(),
        unsupported_for_write(&schema),
        not_honoured(&schema),
    );
}

/// Rows of partition values: a directory name without slashes or dots of its own that unescapes to the
/// value, or an error that names the column.
pub fn partition_paths(data: &[u8]) {
    let [legacy, data @ ..] = data else { return };
    let Ok(row) = BinaryRow::from_serialized(data) else {
        return;
    };
    let kinds = [
        "STRING",
        "INT",
        "DATE",
        "BIGINT",
        "TIMESTAMP(9)",
        "DECIMAL(20, 2)",
        "DOUBLE",
        "TIME(3)",
        "BYTES",
        "BOOLEAN",
        "FLOAT",
        "TIMESTAMP(3)",
        "SMALLINT",
        "TINYINT",
    ];
    let shift = usize::from(*legacy >> 1);
    let columns: Vec<_> = (0..(row.arity() as usize).min(20))
        .map(|i| {
            let data_type: DataType = kinds[(i + shift) % kinds.len()].parse().expect("a type");
            (format!("c{i}/"), data_type.logical)
        })
        .collect();
    let count = columns.len();
    let paths = layout::PartitionPaths::new(columns, "__DEFAULT__", legacy & 1 == 1);
    let names = paths.names(&row);
    match paths.path(&row) {
        Ok(path) => {
            let names = names.expect("a path has names");
            if count == 0 {
                assert_eq!(path, "");
                return;
            }
            let parts: Vec<_> = path.split('/').collect();
            assert_eq!((parts.len(), names.len()), (count, count));
            for (i, (part, name)) in parts.iter().zip(names).enumerate() {
                let (column, value) = part.split_once('=').expect("key and value");
                assert_eq!(layout::unescape(column), format!("c{i}/"));
                assert_eq!(layout::unescape(value), name);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

#[cfg(test)]
tidegate_fuzz_support::seeds!(
    binary_row: plain,
    type_text: plain,
    escapes: plain,
    option_values: plain,
    partition_paths: plain,
);

/// Seeds reach every variant of what a reader of values says.
#[cfg(test)]
mod corpus {
    use super::TYPES;
    use crate::options::{parse_bool, parse_bytes, parse_duration, parse_map};
    use crate::{
        BinaryRow, BucketFunction, DataType, Error, Options, TableOptions, error::Result, layout,
    };
    use std::collections::BTreeSet;
    use tidegate_fuzz_support::{reached, variants};

    variants!(Error {
        Binary { .. }, TypeText { .. }, TypeNotWritable { .. }, Option { .. }, Schema(..),
        Partition { .. }, BucketFunction { .. },
    } elsewhere {
        // Values, types and entries that somebody gives: text out of range is no type.
        Mismatch { .. }, TypeRange { .. }, Entries { .. },
    });

    fn said<T>(result: Result<T>) -> Vec<&'static str> {
        result.err().iter().map(name).collect()
    }

    fn binary_row(data: &[u8]) -> Vec<&'static str> {
        let row = match BinaryRow::from_serialized(data) {
            Ok(row) => row,
            Err(e) => return vec![name(&e)],
        };
        let mut found = Vec::new();
        for i in 0..(row.arity() as usize).min(16) {
            found.extend(TYPES.iter().flat_map(|t| said(row.get(i, t))));
        }
        for (function, key) in [
            (BucketFunction::Default, &TYPES[..4]),
            (BucketFunction::Mod, &TYPES[..1]),
            (BucketFunction::Hive, &TYPES[..4]),
        ] {
            found.extend(said(function.bucket(row.bytes(), key, 7)));
        }
        found
    }

    fn option_values(data: &[u8]) -> Vec<&'static str> {
        let Ok(text) = std::str::from_utf8(data) else {
            return Vec::new();
        };
        let lines = text.lines().filter_map(|line| line.split_once('='));
        let mut options = Options::new();
        lines.for_each(|(key, value)| options.set(key, value));
        let schema = super::schema(options);
        let _ = (
            parse_bytes(text),
            parse_duration(text),
            parse_bool(text),
            parse_map(text),
        );
        [said(TableOptions::of(&schema)), said(schema.validate())].concat()
    }

    fn partition_paths(data: &[u8]) -> Vec<&'static str> {
        let Some((legacy, data)) = data.split_first() else {
            return Vec::new();
        };
        let Ok(row) = BinaryRow::from_serialized(data) else {
            return vec!["Binary"];
        };
        let kinds = ["STRING", "INT", "DATE", "BIGINT", "TIMESTAMP(9)", "BYTES"];
        let columns = (0..(row.arity() as usize).min(20)).map(|i| {
            let kind = kinds[(i + usize::from(*legacy >> 1)) % kinds.len()];
            (format!("c{i}"), kind.parse::<DataType>().unwrap().logical)
        });
        let paths = layout::PartitionPaths::new(columns.collect(), "__DEFAULT__", legacy & 1 == 1);
        said(paths.path(&row))
    }

    #[test]
    fn seeds_reach_every_variant() {
        let folder = env!("CARGO_MANIFEST_DIR");
        let type_text = |b: &[u8]| match std::str::from_utf8(b) {
            Ok(text) => said(text.parse::<DataType>()),
            Err(_) => Vec::new(),
        };
        let mut all = reached(folder, "binary_row", binary_row);
        all.extend(reached(folder, "type_text", type_text));
        all.extend(reached(folder, "option_values", option_values));
        all.extend(reached(folder, "partition_paths", partition_paths));
        assert_eq!(all, DECODERS.iter().copied().collect::<BTreeSet<_>>());
    }
}
