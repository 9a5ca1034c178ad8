//! What this build can and cannot do of what a table's options ask for.
//!
//! A key belongs here when a writer that ignores it would make files or snapshots that another
//! writer of the table would not have made. Keys that only choose between equivalent encodings, or
//! that concern readers, do not.

use super::{Options, TableOptions};
use crate::data_type::LogicalType;
use crate::error::Result;
use crate::schema::{BucketMode, TableSchema};

/// A key with the values under which nothing special is asked for, and what it asks for otherwise.
struct Refusal {
    key: &'static str,
    harmless: &'static [&'static str],
    why: &'static str,
}

const fn refusal(
    key: &'static str,
    harmless: &'static [&'static str],
    why: &'static str,
) -> Refusal {
    Refusal { key, harmless, why }
}

/// Values are compared in lower case; an absent key is harmless.
const REFUSALS: &[Refusal] = &[
    refusal(
        "type",
        &["table", ""],
        "only tables of Paimon's own type can be written",
    ),
    refusal("branch", &["main", ""], "branches cannot be written yet"),
    refusal(
        "file.format",
        &["parquet"],
        "only Parquet data files can be written",
    ),
    refusal(
        "file.format.per.level",
        &[""],
        "formats per level cannot be written",
    ),
    refusal("manifest.format", &["avro"], "manifests are always Avro"),
    refusal(
        "row-tracking.enabled",
        &["false"],
        "rows without their ids would break the readers of the table",
    ),
    refusal(
        "data-evolution.enabled",
        &["false"],
        "files of single columns are not supported",
    ),
    refusal(
        "clustering.columns",
        &[""],
        "clustered writing is not supported",
    ),
    refusal(
        "clustering.incremental",
        &["false"],
        "clustered writing is not supported",
    ),
    refusal(
        "chain-table.enabled",
        &["false"],
        "chain tables are not supported",
    ),
    refusal("blob-field", &[""], "BLOB columns cannot be written yet"),
    refusal(
        "metadata.iceberg.storage",
        &["disabled"],
        "Iceberg metadata beside the snapshots is not written, its readers would see old rows",
    ),
    refusal(
        "commit.discard-duplicate-files",
        &["false"],
        "duplicate files are always an error",
    ),
    refusal(
        "commit.strict-mode.last-safe-snapshot",
        &["", "-1"],
        "commits of other users are not checked against it",
    ),
    refusal(
        "write.sequence-number-init-mode",
        &["scan"],
        "sequence numbers always come from the files of the bucket",
    ),
];

/// What only tables without a primary key are asked.
const APPEND_REFUSALS: &[Refusal] = &[
    refusal(
        "deletion-vectors.enabled",
        &["false"],
        "tables without primary key and with deletion vectors cannot be written yet",
    ),
    refusal("commit.force-compact", &["false"], "commits do not compact"),
    refusal(
        "changelog-producer",
        &["none"],
        "a table without primary key has no changelog",
    ),
    refusal(
        "rowkind.field",
        &[""],
        "a table without primary key has no row kinds",
    ),
];

/// What only tables with a primary key are asked.
const KEYED_REFUSALS: &[Refusal] = &[
    refusal(
        "changelog-file.format",
        &["parquet"],
        "only Parquet changelog files can be written",
    ),
    refusal(
        "sequence.snapshot-ordering",
        &["false"],
        "files are not stamped with the number of their snapshot yet",
    ),
    refusal(
        "pk-clustering-override",
        &["false"],
        "files that are not in key order cannot be written",
    ),
];

/// Codecs of data files that can be written.
const DATA_CODECS: &[&str] = &["zstd", "snappy", "lz4", "gzip", "none", "uncompressed"];
/// Codecs of Avro files that can be written.
const MANIFEST_CODECS: &[&str] = &["zstd", "zstandard", "snappy", "deflate", "null"];

/// Keys whose wish is left to other writers of the table, with no harm to its content.
const NOT_HONOURED: &[(&str, &[&str], &str)] = &[
    (
        "tag.automatic-creation",
        &["none"],
        "tags are not created by commits",
    ),
    (
        "partition.expiration-time",
        &[],
        "partitions are not expired by commits",
    ),
    ("commit.callbacks", &[], "Java callbacks are not called"),
    ("tag.callbacks", &[], "Java callbacks are not called"),
    (
        "metastore.partitioned-table",
        &["false"],
        "partitions are not registered in a metastore",
    ),
    (
        "partition.mark-done-action",
        &[],
        "partitions are not marked as done",
    ),
];

/// The same of tables without a primary key.
const APPEND_NOT_HONOURED: &[(&str, &[&str], &str)] = &[
    (
        "full-compaction.delta-commits",
        &[],
        "append tables are not compacted",
    ),
    (
        "compaction.optimization-interval",
        &[],
        "append tables are not compacted",
    ),
];

/// The same of tables with one.
const KEYED_NOT_HONOURED: &[(&str, &[&str], &str)] = &[
    (
        "record-level.expire-time",
        &[],
        "compactions keep rows that have expired",
    ),
    (
        "local-merge-buffer-size",
        &[],
        "rows are merged once they are in their bucket",
    ),
];

fn says(options: &Options, key: &str, harmless: &[&str]) -> Option<String> {
    let value = options.get(key)?;
    let plain = value.trim().to_ascii_lowercase();
    (!harmless.contains(&plain.as_str())).then(|| value.to_owned())
}

/// Why this build must not write the table; `None` = it may. The text names the key (or column), its
/// value and the way out.
pub fn unsupported_for_write(schema: &TableSchema) -> Option<String> {
    for field in &schema.fields {
        if let Some(word) = field.data_type.logical.not_writable() {
            return Some(format!(
                "column '{}' has type {}: values of type {word} cannot be written yet; leave the \
                 column out, or store it as BYTES or STRING",
                field.name, field.data_type.logical
            ));
        }
    }
    let options = schema.effective_options();
    let own = match schema.is_append() {
        true => APPEND_REFUSALS,
        false => KEYED_REFUSALS,
    };
    for refusal in REFUSALS.iter().chain(own) {
        if let Some(value) = says(&options, refusal.key, refusal.harmless) {
            let way_out = match refusal.harmless.iter().find(|h| !h.is_empty()) {
                Some(harmless) => format!("set it to '{harmless}' or remove it"),
                None => "remove it".to_owned(),
            };
            return Some(not_supported(refusal.key, &value, refusal.why, &way_out));
        }
    }
    let paths = "data-file.external-paths";
    if options.get(paths).is_some_and(|p| !p.trim().is_empty())
        && let Some(strategy) = says(&options, "data-file.external-paths.strategy", &["none"])
    {
        return Some(not_supported(
            "data-file.external-paths.strategy",
            &strategy,
            "data files cannot be written outside the table yet",
            "set it to 'none'",
        ));
    }
    for (key, value) in options.iter() {
        let index = key
            .strip_prefix("file-index.")
            .and_then(|k| k.strip_suffix(".columns"));
        if index.is_some() && !value.trim().is_empty() {
            return Some(not_supported(
                key,
                value,
                "file indexes are not written yet",
                "remove it",
            ));
        }
    }
    codec(&options, "file.compression", DATA_CODECS)
        .or_else(|| codec(&options, "manifest.compression", MANIFEST_CODECS))
        .or_else(|| partition_names(schema, &options))
        .or_else(|| parsed(schema))
}

fn not_supported(key: &str, value: &str, why: &str, way_out: &str) -> String {
    format!("option '{key}' = '{value}' is not supported for writing: {why}; {way_out}")
}

fn codec(options: &Options, key: &str, known: &[&str]) -> Option<String> {
    let value = says(options, key, known)?;
    Some(not_supported(
        key,
        &value,
        "this codec is not known",
        &format!("use one of {}", known.join(", ")),
    ))
}

/// Java names such partitions by the zone of its process: readers elsewhere would not find them.
fn partition_names(schema: &TableSchema, options: &Options) -> Option<String> {
    let plain = says(options, "partition.legacy-name", &["true"])?;
    let column = schema
        .partition_fields()
        .into_iter()
        .find(|f| matches!(f.data_type.logical, LogicalType::TimestampLtz(_)))?;
    Some(not_supported(
        "partition.legacy-name",
        &plain,
        &format!(
            "directories of column '{}' would depend on the time zone",
            column.name
        ),
        "set it to 'true'",
    ))
}

/// Options that do not parse, and bucket functions that do not fit the keys.
fn parsed(schema: &TableSchema) -> Option<String> {
    let check = || -> Result<Option<String>> {
        let options = TableOptions::of(schema)?;
        if options.bucket == -2 && schema.is_append() {
            return Ok(Some(not_supported(
                "bucket",
                "-2",
                "postponed buckets need a primary key",
                "use -1 or a number of buckets",
            )));
        }
        if options.bucket <= 0 && !schema.is_append() {
            return match schema.bucket_mode()? {
                BucketMode::Postpone => schema.postponed_buckets().map(|_| None),
                // A later row decides by where its key is, not by its sequence field [W-65].
                BucketMode::CrossPartition => Ok(cross_partition(&schema.options)),
                _ => Ok(None),
            };
        }
        if options.bucket <= 0 {
            return Ok(None);
        }
        let types: Vec<_> = schema
            .bucket_fields()?
            .into_iter()
            .map(|f| f.data_type.logical.clone())
            .collect();
        Ok(options.bucket_function.unfit(&types).map(|what| {
            not_supported(
                "bucket-function.type",
                options.bucket_function.name(),
                &format!("it does not take {what}"),
                "use 'default'",
            )
        }))
    };
    check().unwrap_or_else(|error| Some(error.to_string()))
}

fn cross_partition(options: &Options) -> Option<String> {
    let key = "sequence.field";
    let value = options.get(key).filter(|value| !value.trim().is_empty())?;
    Some(not_supported(
        key,
        value,
        "the primary key lacks a partition column, and where a key is decides which of its rows is the newest",
        "remove it, or set 'bucket' to a number of buckets",
    ))
}

/// Wishes of the options that commits of this build leave undone, one line each, for a warning.
pub fn not_honoured(schema: &TableSchema) -> Vec<String> {
    let own = match schema.is_append() {
        true => APPEND_NOT_HONOURED,
        false => KEYED_NOT_HONOURED,
    };
    NOT_HONOURED
        .iter()
        .chain(own)
        .filter_map(|(key, harmless, why)| {
            says(&schema.options, key, harmless).map(|value| format!("'{key}' = '{value}': {why}"))
        })
        .collect()
}
