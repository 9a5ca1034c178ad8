//! Options that exclude each other in keyed tables \[W-62..W-65a]: what Java refuses to make, a writer
//! and a reader of ours refuse to open.

use super::MergeEngine;
use crate::error::{Result, option};
use tidegate_model::{Options, TableSchema};

/// The sequence fields \[W-65].
pub(super) fn sequence_fields(
    schema: &TableSchema,
    options: &Options,
    engine: MergeEngine,
) -> Result<Vec<usize>> {
    let key = "sequence.field";
    let Some(text) = options.get(key).filter(|text| !text.trim().is_empty()) else {
        return Ok(Vec::new());
    };
    let mut out = Vec::new();
    for name in text.split(',').map(str::trim) {
        let Some(at) = schema.index_of(name) else {
            return option(
                key,
                text,
                format!("'{name}' is no column of the table; name one that is"),
            );
        };
        if out.contains(&at) {
            return option(
                key,
                text,
                format!("'{name}' is named twice; name each column once"),
            );
        }
        let function = format!("fields.{name}.aggregate-function");
        if let Some(given) = options.get(&function) {
            return option(
                &function,
                given,
                format!(
                    "'{name}' is a sequence field and takes the newest value; remove the function, or take '{name}' out of '{key}'"
                ),
            );
        }
        if let Some(field) = schema.fields.get(at)
            && let Some(why) = field.data_type.logical.unfit_as_key()
        {
            return option(
                key,
                text,
                format!(
                    "'{name}' of type {}: {why}, so its values do not order; use another column",
                    field.data_type.logical
                ),
            );
        }
        out.push(at);
    }
    if engine == MergeEngine::FirstRow {
        return option(
            key,
            text,
            "not with merge-engine = first-row, which keeps what arrived first; remove it",
        );
    }
    let crosses = schema
        .partition_keys
        .iter()
        .find(|k| !schema.primary_keys.contains(k));
    if let Some(column) = crosses {
        return option(
            key,
            text,
            format!(
                "not where a key may change its partition: partition column '{column}' is not in the primary key; add it there, or remove the option"
            ),
        );
    }
    Ok(out)
}

/// Options by which versions would be ordered, or files laid out, in a way that is not merged here.
const OTHER_ORDERS: [(&str, &str); 2] = [
    (
        "sequence.snapshot-ordering",
        "versions ordered by the snapshot that brought them are not merged by this build; set it to 'false' and name a 'sequence.field'",
    ),
    (
        "pk-clustering-override",
        "files that are sorted by other columns than the key are not merged by this build; set it to 'false'",
    ),
];

/// `fields.<column>.<what>` of a column that is none: Java does not open such a table.
pub(super) fn columns(schema: &TableSchema, options: &Options) -> Result<()> {
    for (key, value) in options.iter() {
        let named = key
            .strip_prefix("fields.")
            .and_then(|rest| rest.rsplit_once('.'));
        let Some((names, _)) = named else {
            continue;
        };
        for name in names.split(',').map(str::trim) {
            if schema.index_of(name).is_none() {
                return option(
                    key,
                    value,
                    format!("'{name}' is no column of the table; name one that is, or remove it"),
                );
            }
        }
    }
    Ok(())
}

/// Everything else.
pub(super) fn check(options: &Options, engine: MergeEngine) -> Result<()> {
    for (key, what) in OTHER_ORDERS {
        if options.bool(key)?.unwrap_or(false) {
            return option(key, "true", what);
        }
    }
    let key = "changelog-producer";
    let producers = ["none", "input", "full-compaction", "lookup"];
    let producer = options.word(key, &producers)?.unwrap_or("none");
    let vectors = options.bool("deletion-vectors.enabled")?.unwrap_or(false);
    if engine == MergeEngine::FirstRow {
        if !matches!(producer, "none" | "lookup") {
            return option(
                key,
                producer,
                "merge-engine = first-row takes 'none' or 'lookup' only; use one of these",
            );
        }
        if vectors {
            return option(
                "deletion-vectors.enabled",
                "true",
                "merge-engine = first-row never deletes old rows and takes no deletion vectors; set it to 'false'",
            );
        }
    }
    if vectors && producer == "full-compaction" {
        return option(
            key,
            producer,
            "with deletion-vectors.enabled = true only 'none', 'input' and 'lookup'; use one of these",
        );
    }
    let every = "full-compaction.delta-commits";
    if producer == "lookup"
        && let Some(given) = options.get(every)
    {
        return option(
            every,
            given,
            "not with changelog-producer = lookup; remove it, or use 'full-compaction'",
        );
    }
    if matches!(producer, "full-compaction" | "lookup")
        && options.bool("streaming-read-overwrite")?.unwrap_or(false)
    {
        return option(
            "streaming-read-overwrite",
            "true",
            format!(
                "not with changelog-producer = {producer}, whose changelog has overwrites already; set it to 'false'"
            ),
        );
    }
    Ok(())
}

/// `changelog-producer.row-deduplicate` with the columns that it ignores \[W-52].
pub(super) fn row_deduplicate(
    schema: &TableSchema,
    options: &Options,
) -> Result<Option<Vec<usize>>> {
    if !options
        .bool("changelog-producer.row-deduplicate")?
        .unwrap_or(false)
    {
        return Ok(None);
    }
    let key = "changelog-producer.row-deduplicate-ignore-fields";
    let mut ignored = Vec::new();
    let Some(text) = options.get(key) else {
        return Ok(Some(ignored));
    };
    for name in text.split(',').map(str::trim) {
        match schema.index_of(name) {
            Some(at) => ignored.push(at),
            None => {
                return option(
                    key,
                    text,
                    format!("'{name}' is no column of the table; name one that is"),
                );
            }
        }
    }
    Ok(Some(ignored))
}
