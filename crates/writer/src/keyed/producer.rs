//! The changelog producer of a table, as its writers see it.

use tidegate_model::TableSchema;

/// Who makes the changelog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Producer {
    None,
    /// The rows as they came \[W-51].
    Input,
    /// What compactions to the top level change \[W-52].
    FullCompaction,
    /// What compactions of level 0 change, old rows looked up \[W-53].
    Lookup,
}

pub(crate) fn producer(schema: &TableSchema) -> Producer {
    let word = schema.options.get("changelog-producer").unwrap_or("none");
    match word.trim().to_ascii_lowercase().as_str() {
        "input" => Producer::Input,
        "full-compaction" => Producer::FullCompaction,
        "lookup" => Producer::Lookup,
        _ => Producer::None,
    }
}
