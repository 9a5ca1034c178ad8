//! Partition columns of rows: from the partition of their file, as Java reads them \[F-1.4].
//!
//! Owns which of the wanted columns a file is asked for and where the others come from.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use tidegate_datafile::{arrow_schema, constant};
use tidegate_model::{BinaryRow, DataField, Datum, LogicalType, TableSchema};

use crate::error::{Error, Result};

/// Where each wanted column comes from.
pub(crate) struct PartitionColumns {
    wanted: Vec<DataField>,
    schema: SchemaRef,
    of_files: Vec<DataField>,
    /// For each wanted column its place among the partition keys; `None`: in the file.
    places: Vec<Option<usize>>,
    /// Types of all partition keys.
    types: Vec<LogicalType>,
}

impl PartitionColumns {
    /// All columns come from the files.
    pub(crate) fn none(wanted: &[DataField]) -> Self {
        Self {
            wanted: Vec::new(),
            schema: Arc::new(arrow::datatypes::Schema::empty()),
            of_files: wanted.to_vec(),
            places: Vec::new(),
            types: Vec::new(),
        }
    }

    pub(crate) fn new(schema: &TableSchema, wanted: &[DataField]) -> Result<Self> {
        let place = |field: &DataField| {
            let mut keys = schema.partition_keys.iter();
            keys.position(|key| *key == field.name)
        };
        let places: Vec<_> = wanted.iter().map(place).collect();
        if places.iter().all(Option::is_none) {
            return Ok(Self::none(wanted));
        }
        let in_file = wanted.iter().zip(&places).filter(|(_, at)| at.is_none());
        let types = schema.partition_keys.iter().map(|key| {
            let field = schema.fields.iter().find(|f| f.name == *key);
            field.map(|f| f.data_type.logical.clone())
        });
        Ok(Self {
            schema: Arc::new(arrow_schema(wanted)?),
            of_files: in_file.map(|(field, _)| field.clone()).collect(),
            // A schema whose keys are no columns is refused when it is read.
            types: types.collect::<Option<_>>().unwrap_or_default(),
            wanted: wanted.to_vec(),
            places,
        })
    }

    /// Whether there is anything to add.
    pub(crate) fn any(&self) -> bool {
        !self.places.is_empty()
    }

    /// The columns that files are asked for.
    pub(crate) fn of_files(&self) -> &[DataField] {
        &self.of_files
    }

    /// The values of a partition, one per key.
    pub(crate) fn values(&self, file: &str, partition: &BinaryRow) -> Result<Vec<Option<Datum>>> {
        let values = partition.datums(&self.types);
        let values = values.map_err(|e| inconsistent(file, &e))?;
        Ok(values)
    }

    /// A batch of the file's columns as one of all wanted columns.
    pub(crate) fn add(
        &self,
        file: &str,
        values: &[Option<Datum>],
        batch: &RecordBatch,
    ) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let mut from_file = batch.columns().iter();
        let mut columns = Vec::with_capacity(self.wanted.len());
        for (field, place) in self.wanted.iter().zip(&self.places) {
            let column = match place {
                Some(at) => {
                    let value = values.get(*at).and_then(Option::as_ref);
                    constant(field, value, rows).map_err(|e| inconsistent(file, &e))?
                }
                None => from_file.next().cloned().ok_or_else(|| {
                    inconsistent(file, &format!("column `{}` was not read", field.name))
                })?,
            };
            columns.push(column);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|e| inconsistent(file, &e))
    }
}

fn inconsistent(file: &str, why: &dyn std::fmt::Display) -> Error {
    Error::Inconsistent {
        file: file.to_owned(),
        what: format!("its partition in the manifest: {why}"),
    }
}
