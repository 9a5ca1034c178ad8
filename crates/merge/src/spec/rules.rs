//! Which function and which sequence group each column has \[W-62..W-64].

use super::MergeEngine;
use super::function::{Function, given, ignores_retracts};
use crate::error::{Result, option};
use tidegate_model::{Options, TableSchema};

/// How the columns of a table with `partial-update` or `aggregation` are merged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    /// By place in the table.
    pub(crate) columns: Vec<ColumnRule>,
    /// Sequence groups; lane 0 is that of the columns in none, lane g + 1 that of group g.
    pub(crate) groups: Vec<SequenceGroup>,
    /// `aggregation.remove-record-on-delete`, `partial-update.remove-record-on-delete`
    pub(crate) removes_on_delete: bool,
}

/// One column.
#[derive(Clone, Debug)]
pub(crate) struct ColumnRule {
    pub(crate) function: Function,
    pub(crate) lane: usize,
    pub(crate) ignores_retracts: bool,
}

/// Columns that are overwritten together, by an order of their own \[W-63].
#[derive(Clone, Debug)]
pub(crate) struct SequenceGroup {
    /// Places in the table, in the option's order.
    pub(crate) ordering: Vec<usize>,
    /// A -D of the group removes the row.
    pub(crate) removes: bool,
}

const SUFFIX: &str = ".sequence-group";

impl Rules {
    pub(super) fn new(
        schema: &TableSchema,
        options: &Options,
        engine: MergeEngine,
        sequence: &[usize],
        ignores_deletes: bool,
    ) -> Result<Self> {
        match engine {
            MergeEngine::Aggregation => Self::aggregation(schema, options, sequence),
            MergeEngine::PartialUpdate => Self::partial_update(schema, options, ignores_deletes),
            MergeEngine::Deduplicate | MergeEngine::FirstRow => Ok(Self::default()),
        }
    }

    fn aggregation(schema: &TableSchema, options: &Options, sequence: &[usize]) -> Result<Self> {
        let removes = "aggregation.remove-record-on-delete";
        let removes_on_delete = options.bool(removes)?.unwrap_or(false);
        let mut columns = Vec::new();
        for (at, field) in schema.fields.iter().enumerate() {
            let ignores = ignores_retracts(field, options)?;
            if ignores && removes_on_delete {
                return option(
                    removes,
                    "true",
                    format!(
                        "with fields.{}.ignore-retract = true deletes would do both; remove one of the two",
                        field.name
                    ),
                );
            }
            let function = if sequence.contains(&at) {
                Function::LastValue
            } else if schema.primary_keys.contains(&field.name) {
                Function::Key
            } else {
                given(field, options)?.unwrap_or(Function::LastNonNull)
            };
            columns.push(ColumnRule {
                function,
                lane: 0,
                ignores_retracts: ignores,
            });
        }
        Ok(Self {
            columns,
            groups: Vec::new(),
            removes_on_delete,
        })
    }

    fn partial_update(
        schema: &TableSchema,
        options: &Options,
        ignores_deletes: bool,
    ) -> Result<Self> {
        let mut groups = Vec::new();
        let mut lanes: Vec<Option<usize>> = vec![None; schema.fields.len()];
        let mut is_ordering = vec![false; schema.fields.len()];
        for (key, value) in options.iter() {
            let Some(ordering) = key
                .strip_prefix("fields.")
                .and_then(|k| k.strip_suffix(SUFFIX))
            else {
                continue;
            };
            let lane = groups.len() + 1;
            let place = |name: &str, lanes: &mut Vec<Option<usize>>| {
                let Some(at) = schema.index_of(name) else {
                    return option(
                        key,
                        value,
                        format!("'{name}' is no column of the table; name one that is"),
                    );
                };
                if schema.primary_keys.iter().any(|k| k == name) {
                    return option(
                        key,
                        value,
                        format!(
                            "'{name}' is in the primary key, which no group orders; take it out"
                        ),
                    );
                }
                match lanes.get_mut(at) {
                    Some(slot @ None) => *slot = Some(lane),
                    Some(Some(other)) if *other == lane => {}
                    _ => {
                        return option(
                            key,
                            value,
                            format!("'{name}' is in another group too; a column is in one"),
                        );
                    }
                }
                Ok(at)
            };
            let ordering: Vec<usize> = ordering
                .split(',')
                .map(|n| place(n.trim(), &mut lanes))
                .collect::<Result<_>>()?;
            for name in value.split(',') {
                place(name.trim(), &mut lanes)?;
            }
            for at in &ordering {
                if let Some(slot) = is_ordering.get_mut(*at) {
                    *slot = true;
                }
                if let Some(field) = schema.fields.get(*at)
                    && let Some(why) = field.data_type.logical.unfit_as_key()
                {
                    return option(
                        key,
                        value,
                        format!(
                            "'{}' of type {}: {why}, so it orders nothing; use another column",
                            field.name, field.data_type.logical
                        ),
                    );
                }
            }
            groups.push(SequenceGroup {
                ordering,
                removes: false,
            });
        }
        let removes_on_delete = options
            .bool("partial-update.remove-record-on-delete")?
            .unwrap_or(false);
        check_removals(options, removes_on_delete, ignores_deletes, &groups)?;
        mark_removals(schema, options, &is_ordering, &lanes, &mut groups)?;
        let mut columns = Vec::new();
        for ((field, lane), ordering) in schema.fields.iter().zip(&lanes).zip(&is_ordering) {
            let function = match lane {
                _ if *ordering => Function::Ordering,
                _ if schema.primary_keys.contains(&field.name) => Function::LastNonNull,
                Some(_) => given(field, options)?.unwrap_or(Function::Overwrite),
                None => match given(field, options)? {
                    None | Some(Function::LastNonNull) => Function::LastNonNull,
                    Some(_) => return needs_a_group(&field.name, options),
                },
            };
            columns.push(ColumnRule {
                function,
                lane: lane.unwrap_or(0),
                ignores_retracts: ignores_retracts(field, options)?,
            });
        }
        Ok(Self {
            columns,
            groups,
            removes_on_delete,
        })
    }

    /// Lanes that these columns are in.
    pub(crate) fn lanes(&self, columns: &[usize]) -> Vec<usize> {
        columns
            .iter()
            .filter_map(|c| self.columns.get(*c))
            .map(|rule| rule.lane)
            .collect()
    }
}

fn needs_a_group<T>(column: &str, options: &Options) -> Result<T> {
    let own = format!("fields.{column}.aggregate-function");
    let common = "fields.default-aggregate-function".to_owned();
    let key = if options.get(&own).is_some() {
        own
    } else {
        common
    };
    option(
        &key,
        options.get(&key).unwrap_or_default(),
        format!(
            "column '{column}' is in no sequence group, and with merge-engine = partial-update only \
             last_non_null_value works there; put the column into a fields.<ordering>.sequence-group"
        ),
    )
}

/// \[W-62]: options that would each do something else with a delete.
fn check_removals(
    options: &Options,
    removes_on_delete: bool,
    ignores_deletes: bool,
    groups: &[SequenceGroup],
) -> Result<()> {
    let on_group = "partial-update.remove-record-on-sequence-group";
    if removes_on_delete {
        let key = "partial-update.remove-record-on-delete";
        if ignores_deletes {
            return option(
                key,
                "true",
                "not with ignore-delete = true; remove one of the two",
            );
        }
        if !groups.is_empty() {
            return option(
                key,
                "true",
                format!("not with sequence groups; name ordering columns in '{on_group}' instead"),
            );
        }
    }
    match options.get(on_group) {
        Some(given) if ignores_deletes => option(
            on_group,
            given,
            "not with ignore-delete = true; remove one of the two",
        ),
        _ => Ok(()),
    }
}

fn mark_removals(
    schema: &TableSchema,
    options: &Options,
    is_ordering: &[bool],
    lanes: &[Option<usize>],
    groups: &mut [SequenceGroup],
) -> Result<()> {
    let key = "partial-update.remove-record-on-sequence-group";
    let Some(text) = options.get(key) else {
        return Ok(());
    };
    for name in text.split(',').map(str::trim) {
        let at = schema
            .index_of(name)
            .filter(|at| is_ordering.get(*at) == Some(&true));
        let group = at.and_then(|at| lanes.get(at).copied().flatten());
        match group.and_then(|lane| groups.get_mut(lane.wrapping_sub(1))) {
            Some(group) => group.removes = true,
            None => {
                return option(
                    key,
                    text,
                    format!(
                        "'{name}' orders no sequence group; name a column before '.sequence-group'"
                    ),
                );
            }
        }
    }
    Ok(())
}
