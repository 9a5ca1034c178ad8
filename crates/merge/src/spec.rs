//! What a table's schema says about merging: engine, keys, sequence fields, what is ignored.

mod exclusions;
pub(crate) mod function;
pub(crate) mod rules;

use crate::error::{Error, Result};
use crate::kind;
use rules::Rules;
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
    rules: Rules,
    row_deduplicate: Option<Vec<usize>>,
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
        let keys = schema.trimmed_primary_keys();
        let keys = keys.into_iter().map(|name| match schema.index_of(name) {
            Some(at) => Ok(at),
            None => Err(tidegate_model::Error::Schema(format!(
                "primary key column '{name}' is no column of the table"
            ))),
        });
        let sequence = exclusions::sequence_fields(schema, &options, engine)?;
        let ignore_delete = ignore_delete(&options)?;
        exclusions::columns(schema, &options)?;
        exclusions::check(&options, engine)?;
        Ok(Self {
            rules: Rules::new(schema, &options, engine, &sequence, ignore_delete)?,
            engine,
            row_deduplicate: exclusions::row_deduplicate(schema, &options)?,
            columns: schema.fields.clone(),
            keys: keys.collect::<Result<_, _>>()?,
            sequence,
            sequence_descending: options
                .word("sequence.field.sort-order", &["ascending", "descending"])?
                == Some("descending"),
            ignore_delete,
            ignore_update_before: options.bool("ignore-update-before")?.unwrap_or(false),
        })
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
            MergeEngine::PartialUpdate => self.partial_update_refuses(row_kind),
            MergeEngine::Aggregation
                if self.rules.removes_on_delete && row_kind == kind::DELETE =>
            {
                None
            }
            MergeEngine::Aggregation => self.function_refuses(row_kind, 0),
            MergeEngine::Deduplicate => None,
        }
    }

    fn partial_update_refuses(&self, row_kind: i8) -> Option<String> {
        if self.rules.removes_on_delete {
            return None;
        }
        if !self.rules.groups.is_empty() {
            // Columns in no group are not touched by retracts [W-63].
            return self.function_refuses(row_kind, 1);
        }
        Some(format!(
            "a row of kind {}: {NO_RETRACTS}",
            kind::short(row_kind)
        ))
    }

    fn function_refuses(&self, row_kind: i8, first_lane: usize) -> Option<String> {
        let mut columns = self.columns.iter().zip(&self.rules.columns);
        let refuses = columns.find(|(_, rule)| {
            rule.lane >= first_lane && !rule.ignores_retracts && !rule.function.takes_retracts()
        });
        refuses.map(|(column, _)| {
            format!(
                "a row of kind {}, which the aggregate function of column '{}' cannot take back: set \
                 'fields.{}.ignore-retract' = 'true' to let it keep its value, or ignore-delete = true \
                 to leave such rows out",
                kind::short(row_kind),
                column.name,
                column.name
            )
        })
    }

    /// Columns that must be read so that those asked for come out merged: they themselves, the key, the
    /// sequence fields, and what the engine looks at. Sorted, by place in the table.
    pub fn needs(&self, projection: &[usize]) -> Vec<usize> {
        let lanes = self.rules.lanes(projection);
        // What removes a row must be seen, whatever is asked for.
        let seen =
            |(group, lane): &(&rules::SequenceGroup, usize)| group.removes || lanes.contains(lane);
        let groups = self.rules.groups.iter().zip(1..).filter(seen);
        let ordering = groups.flat_map(|(group, _)| &group.ordering);
        let all = projection
            .iter()
            .chain(&self.keys)
            .chain(&self.sequence)
            .chain(ordering);
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

    /// `changelog-producer.row-deduplicate`: the columns whose change alone is no change; `None` = every
    /// update is told.
    pub(crate) fn ignored_by_row_deduplicate(&self) -> Option<&[usize]> {
        self.row_deduplicate.as_deref()
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(crate) fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|f| f.name == name)
    }

    pub(crate) fn column_name(&self, at: usize) -> &str {
        self.columns.get(at).map_or("?", |f| f.name.as_str())
    }
}

/// What a table with partial-update says to a retract that no option of it has a use for \[W-62].
pub(crate) const NO_RETRACTS: &str = "merge-engine = partial-update takes no retracts unless told what \
    they mean: set ignore-delete = true to leave them out, partial-update.remove-record-on-delete = true \
    to remove the row, or order columns by fields.<column>.sequence-group";

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
