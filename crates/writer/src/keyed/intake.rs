//! What rows go through before they are buffered \[W-21]: the table's types, not-null checks, row kinds,
//! kinds that are dropped or refused, keys that have no order.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int8Array, RecordBatch, StringArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Float32Type, Float64Type, SchemaRef};
use tidegate_datafile::{Normaliser, SYSTEM_COLUMNS};
use tidegate_merge::{MergeSpec, kind};
use tidegate_model::TableSchema;
use tidegate_sink::{RowKind, Rows};

use crate::error::{Result, WriterError};

/// Makes rows what the buffer takes.
#[derive(Debug)]
pub(crate) struct Intake {
    normaliser: Normaliser,
    spec: MergeSpec,
    /// `rowkind.field`: its place and name.
    kind_column: Option<(usize, String)>,
    /// Key columns whose values may be NaN.
    float_keys: Vec<(usize, String)>,
}

/// Rows with one kind each, in the table's columns.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) values: RecordBatch,
    pub(crate) kinds: Int8Array,
}

impl Intake {
    pub(crate) fn new(schema: &TableSchema, spec: &MergeSpec) -> Result<Self> {
        let config = |text: String| WriterError::Config(text);
        let kind_column = match schema.options.get("rowkind.field").map(str::trim) {
            None | Some("") => None,
            Some(name) => {
                use tidegate_model::LogicalType::{Char, VarChar};
                let refused = |what: String| {
                    config(format!(
                        "option 'rowkind.field' = '{name}': {what}; name a STRING column or remove the option"
                    ))
                };
                let at = schema.index_of(name);
                let at =
                    at.ok_or_else(|| refused("the table has no column of this name".into()))?;
                match schema.fields.get(at).map(|f| &f.data_type.logical) {
                    Some(Char(_) | VarChar(_)) => Some((at, name.to_owned())),
                    other => {
                        let logical = other.map(ToString::to_string).unwrap_or_default();
                        return Err(refused(format!("the column is of type {logical}")));
                    }
                }
            }
        };
        let float_keys = spec.key_columns().iter().filter_map(|at| {
            use tidegate_model::LogicalType::{Double, Float};
            let field = schema.fields.get(*at)?;
            let floats = matches!(field.data_type.logical, Float | Double);
            floats.then(|| (*at, field.name.clone()))
        });
        Ok(Self {
            normaliser: Normaliser::new(&schema.fields).map_err(|e| config(e.to_string()))?,
            spec: spec.clone(),
            kind_column,
            float_keys: float_keys.collect(),
        })
    }

    /// `None` where nothing of it is to be buffered.
    pub(crate) fn take(&self, rows: Rows<RecordBatch>) -> Result<Option<Taken>> {
        let Rows { batch, kinds } = rows;
        if batch.num_rows() == 0 {
            return Ok(None);
        }
        let values = self
            .normaliser
            .normalise(&batch)
            .map_err(|e| WriterError::Rows(e.to_string()))?;
        let kinds = match &self.kind_column {
            Some((at, name)) => of_column(&values, *at, name)?,
            None => of_rows(kinds, values.num_rows())?,
        };
        self.refuse(&values, &kinds)?;
        let dropped = |kind: &i8| self.spec.drops_on_write(*kind);
        if !kinds.values().iter().any(dropped) {
            return Ok(Some(Taken { values, kinds }));
        }
        let kept: BooleanArray = kinds.values().iter().map(|k| Some(!dropped(k))).collect();
        let failed = || WriterError::arrow("leaving out rows of ignored kinds");
        let values = filter_record_batch(&values, &kept).map_err(failed())?;
        let kinds = kinds.values().iter().copied().filter(|k| !dropped(k));
        let kinds: Int8Array = kinds.collect();
        Ok((!kinds.is_empty()).then_some(Taken { values, kinds }))
    }

    /// Refuses what [`Self::take`] will refuse for a row's kind, while it is still known where rows came from.
    pub(crate) fn check_kinds(&self, rows: &Rows<RecordBatch>) -> Result<()> {
        let Rows { batch, kinds } = rows;
        let kinds = match &self.kind_column {
            None => of_rows(kinds.clone(), batch.num_rows())?,
            Some((_, name)) => {
                let column = batch.column_by_name(name);
                // Other forms of text are looked at once they are the table's.
                let Some(texts) = column.and_then(|c| c.as_string_opt::<i32>()) else {
                    return Ok(());
                };
                of_texts(texts, name)?
            }
        };
        self.refuse_kinds(&kinds)
    }

    fn refuse_kinds(&self, kinds: &Int8Array) -> Result<()> {
        for (row, kind) in kinds.values().iter().enumerate() {
            if let Some(why) = self.spec.refuses_on_write(*kind) {
                return Err(WriterError::Row { row, why });
            }
        }
        Ok(())
    }

    fn refuse(&self, values: &RecordBatch, kinds: &Int8Array) -> Result<()> {
        self.refuse_kinds(kinds)?;
        for (at, name) in &self.float_keys {
            let Some(column) = values.columns().get(*at) else {
                continue;
            };
            let nan = match column.as_primitive_opt::<Float64Type>() {
                Some(doubles) => doubles.values().iter().position(|v| v.is_nan()),
                None => column
                    .as_primitive_opt::<Float32Type>()
                    .and_then(|floats| floats.values().iter().position(|v| v.is_nan())),
            };
            if let Some(row) = nan {
                return Err(WriterError::Row {
                    row,
                    why: format!(
                        "NaN in key column '{name}', which equals every key to Paimon's readers and would \
                         lose other rows; leave the row out"
                    ),
                });
            }
        }
        Ok(())
    }
}

/// Kinds beside the rows; none are additions.
fn of_rows(kinds: Option<Vec<RowKind>>, rows: usize) -> Result<Int8Array> {
    match kinds {
        None => Ok(Int8Array::from(vec![kind::INSERT; rows])),
        Some(kinds) if kinds.len() == rows => {
            Ok(kinds.into_iter().map(|k| Some(k as i8)).collect())
        }
        Some(kinds) => Err(WriterError::Rows(format!(
            "{} row kinds came with {rows} rows; one per row is needed",
            kinds.len()
        ))),
    }
}

/// Kinds out of the column that `rowkind.field` names, in their short form.
fn of_column(values: &RecordBatch, at: usize, name: &str) -> Result<Int8Array> {
    let column: Option<&ArrayRef> = values.columns().get(at);
    let texts = column.and_then(|c| c.as_string_opt::<i32>());
    let Some(texts) = texts else {
        return Err(WriterError::Rows(format!(
            "option 'rowkind.field' = '{name}': the column is no STRING"
        )));
    };
    of_texts(texts, name)
}

fn of_texts(texts: &StringArray, name: &str) -> Result<Int8Array> {
    let mut kinds = Vec::with_capacity(texts.len());
    for (row, text) in texts.iter().enumerate() {
        kinds.push(match text {
            Some("+I") => kind::INSERT,
            Some("-U") => kind::UPDATE_BEFORE,
            Some("+U") => kind::UPDATE_AFTER,
            Some("-D") => kind::DELETE,
            other => {
                return Err(WriterError::Row {
                    row,
                    why: format!(
                        "column '{name}' is {}, and gives the row's kind (rowkind.field): +I, -U, +U or -D \
                         is needed",
                        other.map_or_else(|| "NULL".to_owned(), |text| format!("'{text}'"))
                    ),
                });
            }
        });
    }
    Ok(Int8Array::from(kinds))
}

/// Kinds and values as one batch of the schema's columns after the first, which is for sequence numbers.
pub(crate) fn unnumbered(taken: Taken, schema: &SchemaRef) -> Result<RecordBatch> {
    let failed = WriterError::arrow("joining row kinds and values");
    let columns = (1..=taken.values.num_columns() + 1).collect::<Vec<_>>();
    let schema = match schema.project(&columns) {
        Ok(schema) => schema,
        Err(error) => return Err(failed(error)),
    };
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(taken.values.num_columns() + SYSTEM_COLUMNS);
    arrays.push(std::sync::Arc::new(taken.kinds));
    arrays.extend(taken.values.columns().iter().cloned());
    RecordBatch::try_new(schema.into(), arrays).map_err(failed)
}
