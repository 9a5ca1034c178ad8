//! What a table's schema says about merging: engine, keys, sequence fields, what is ignored.

mod exclusions;

use crate::error::{Error, Result, option};
use crate::kind;
use tidegate_model::{DataField, Options, TableSchema};

/// What becomes of the versions of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MergeEngine {
    /// The newest version stays \[W-60].
    Deduplicate,
    /// The oldest one stays \[W-61].
    FirstRow,
    /// Non-null columns overwrite \[W-62], \[W-63].
    PartialUpdate,
    /// Each column by a function \[W-64].
    Aggregation,
}

impl MergeEngine {
    /// The option's word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deduplicate => "deduplicate",
            Self::FirstRow => "first-row",
            Self::PartialUpdate => "partial-update",
            Self::Aggregation => "aggregation",
        }
    }

    fn of(options: &Options) -> Result<Self> {
        let all = [
            Self::Deduplicate,
            Self::FirstRow,
            Self::PartialUpdate,
            Self::Aggregation,
        ];
        let word = options.word("merge-engine", &all.map(Self::name))?;
        Ok(all
            .into_iter()
            .find(|e| Some(e.name()) == word)
            .unwrap_or(Self::Deduplicate))
    }
}

/// How the rows of one table are merged, parsed and checked once. Columns are meant by their place in
/// the table.
///
/// ```
/// use tidegate_merge::{MergeEngine, MergeSpec};
/// use tidegate_model::{DataField, Options, TableSchema};
///
/// let columns = vec![
///     DataField::new("id", "BIGINT".parse()?),
///     DataField::new("v", "STRING".parse()?),
///     DataField::new("at", "TIMESTAMP(3)".parse()?),
/// ];
/// let options: Options = [("sequence.field", "at"), ("bucket", "2")].into_iter().collect();
/// let schema = TableSchema::create(columns, vec![], vec!["id".into()], options, None, 0)?;
/// let spec = MergeSpec::new(&schema)?;
/// assert_eq!(spec.engine(), MergeEngine::Deduplicate);
/// // Who reads `v` alone must read the key and the sequence field too.
/// assert_eq!(spec.needs(&[1]), [0, 1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MergeSpec {
    engine: MergeEngine,
    columns: Vec<DataField>,
    keys: Vec<usize>,
    sequence: Vec<usize>,
    sequence_descending: bool,
    ignore_delete: bool,
    ignore_update_before: bool,
}

impl MergeSpec {
    /// Reads the schema of a keyed table.
    ///
    /// # Errors
    /// Where it has no primary key, an option does not parse, or options exclude each other
    /// \[W-62..W-65a]: the message names option, value and way out.
    pub fn new(schema: &TableSchema) -> Result<Self> {
        if schema.primary_keys.is_empty() {
            return Err(Error::NoPrimaryKey);
        }
        let options = schema.effective_options();
        let engine = MergeEngine::of(&options)?;
        if matches!(
            engine,
            MergeEngine::PartialUpdate | MergeEngine::Aggregation
        ) {
            return option(
                "merge-engine",
                engine.name(),
                "rows of this engine cannot be merged yet; use 'deduplicate' or 'first-row'",
            );
        }
        let keys = schema.trimmed_primary_keys();
        let keys = keys.into_iter().map(|name| match schema.index_of(name) {
            Some(at) => Ok(at),
            None => Err(tidegate_model::Error::Schema(format!(
                "primary key column '{name}' is no column of the table"
            ))),
        });
        let spec = Self {
            engine,
            columns: schema.fields.clone(),
            keys: keys.collect::<Result<_, _>>()?,
            sequence: exclusions::sequence_fields(schema, &options, engine)?,
            sequence_descending: options
                .word("sequence.field.sort-order", &["ascending", "descending"])?
                == Some("descending"),
            ignore_delete: ignore_delete(&options)?,
            ignore_update_before: options.bool("ignore-update-before")?.unwrap_or(false),
        };
        exclusions::check(&options, engine)?;
        Ok(spec)
    }

    /// What becomes of the versions of a key.
    pub fn engine(&self) -> MergeEngine {
        self.engine
    }

    /// `ignore-delete`, or the engine's older key of it: writers drop -D and -U \[W-21], and merges skip
    /// those that were written all the same.
    pub fn ignores_deletes(&self) -> bool {
        self.ignore_delete
    }

    /// True where a writer drops rows of this kind before it buffers them \[W-21].
    pub fn drops_on_write(&self, row_kind: i8) -> bool {
        match row_kind {
            kind::DELETE => self.ignore_delete,
            kind::UPDATE_BEFORE => self.ignore_delete || self.ignore_update_before,
            _ => false,
        }
    }

    /// Why a writer must not take rows of this kind; `None` = it may. What is taken here never makes
    /// the table unreadable later.
    pub fn refuses_on_write(&self, row_kind: i8) -> Option<String> {
        if !kind::is_retract(row_kind) || self.drops_on_write(row_kind) {
            return None;
        }
        match self.engine {
            MergeEngine::FirstRow => Some(format!(
                "a row of kind {} in a table with merge-engine = first-row, which keeps what came \
                 first: set ignore-delete = true to leave such rows out, or send inserts only",
                kind::short(row_kind)
            )),
            _ => None,
        }
    }

    /// Columns that must be read so that those asked for come out merged: they themselves, the key, the
    /// sequence fields, and what the engine looks at. Sorted, by place in the table.
    pub fn needs(&self, projection: &[usize]) -> Vec<usize> {
        let all = projection.iter().chain(&self.keys).chain(&self.sequence);
        let mut needed: Vec<_> = all.copied().collect();
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    /// The trimmed primary key, in key order.
    pub fn key_columns(&self) -> &[usize] {
        &self.keys
    }

    /// `sequence.field`, in the option's order.
    pub fn sequence_columns(&self) -> &[usize] {
        &self.sequence
    }

    /// `sequence.field.sort-order` = descending: the smallest value is the newest.
    pub fn sequence_is_descending(&self) -> bool {
        self.sequence_descending
    }

    /// The table's columns.
    pub fn columns(&self) -> &[DataField] {
        &self.columns
    }

    pub(crate) fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|f| f.name == name)
    }

    pub(crate) fn column_name(&self, at: usize) -> &str {
        self.columns.get(at).map_or("?", |f| f.name.as_str())
    }
}

/// The option, or one of the keys that it had before.
fn ignore_delete(options: &Options) -> Result<bool> {
    for key in [
        "ignore-delete",
        "first-row.ignore-delete",
        "deduplicate.ignore-delete",
        "partial-update.ignore-delete",
    ] {
        if let Some(given) = options.bool(key)? {
            return Ok(given);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
