//! Rows of keyed tables with what happened to them.

use crate::error::Result;
use arrow::array::{ArrayRef, Int8Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use std::sync::Arc;
use tidegate_merge::kind;
use tidegate_model::{DataField, LogicalType};

/// Rows, and the kind of each.
#[derive(Clone, Debug, PartialEq)]
pub struct KindedRows {
    /// One of [`tidegate_merge::kind`] per row.
    pub kinds: Int8Array,
    /// The rows.
    pub rows: RecordBatch,
}

impl KindedRows {
    /// Rows that are all there: `+I`.
    pub fn inserts(rows: RecordBatch) -> Self {
        Self {
            kinds: Int8Array::from(vec![kind::INSERT; rows.num_rows()]),
            rows,
        }
    }

    /// The rows with a column of their kinds, as texts, in front, under a name such as `_kind`.
    ///
    /// # Errors
    /// Rows and kinds of different number.
    pub fn labelled(&self, name: &str) -> Result<RecordBatch> {
        let fields = self.rows.schema_ref().fields().iter().cloned();
        let label = Arc::new(Field::new(name, DataType::Utf8, false));
        let fields: Vec<_> = std::iter::once(label).chain(fields).collect();
        let columns = self.rows.columns().iter().cloned();
        let texts: ArrayRef = Arc::new(self.texts());
        let columns = std::iter::once(texts).chain(columns).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .map_err(|e| tidegate_datafile::Error::from(e).into())
    }

    /// The column that [`labelled`](Self::labelled) adds.
    pub fn label(name: &str) -> DataField {
        DataField::new(
            name,
            tidegate_model::DataType::not_null(LogicalType::STRING),
        )
    }

    /// The kinds as `+I`, `-U`, `+U` and `-D`.
    pub fn texts(&self) -> StringArray {
        let texts = self.kinds.values().iter().map(|k| Some(kind::short(*k)));
        texts.collect()
    }
}
