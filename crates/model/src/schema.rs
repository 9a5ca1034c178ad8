//! A table's schema: columns, keys, options \[F-2].

use crate::data_type::DataField;
use crate::ids::{FieldId, SchemaId};
use crate::options::Options;

/// One version of a table's schema, immutable once written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    /// Format version of the file: 3; older ones change defaults \[F-2.1].
    pub version: i32,
    /// Number in the file name.
    pub id: SchemaId,
    /// Columns in order.
    pub fields: Vec<DataField>,
    /// Highest id ever used, dropped columns included.
    pub highest_field_id: FieldId,
    /// Partition columns in order.
    pub partition_keys: Vec<String>,
    /// Primary key in order, partition columns included; empty for an append table.
    pub primary_keys: Vec<String>,
    /// All options, unknown ones included, values as text.
    pub options: Options,
    /// Table comment.
    pub comment: Option<String>,
    /// When this version was made, epoch milliseconds.
    pub time_millis: i64,
    /// Keys of the JSON object that this build does not know: name and raw JSON text, kept on a
    /// rewrite.
    pub unknown: Vec<(String, String)>,
}
