//! Default values of columns: what a null becomes when a row is written \[W-21].
//!
//! As released Java does it: the schema holds a text, which is cast to the column's type; single quotes around it
//! are left out. A null in a NOT NULL column is refused before defaults are looked at.

use super::column_of;
use crate::error::{Error, Result};
use arrow::array::{Array, ArrayRef, BinaryArray, Scalar, StringArray};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{CastOptions, cast_with_options, is_not_null};
use arrow::datatypes::Field;
use std::sync::Arc;
use tidegate_model::{DataField, LogicalType};

/// The default of a column as an array of one value; `None` where it has none.
pub(super) fn of(field: &DataField, target: &Field) -> Result<Option<ArrayRef>> {
    use LogicalType as L;
    let Some(text) = &field.default_value else {
        return Ok(None);
    };
    let quoted = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\''));
    let text = quoted.unwrap_or(text);
    let wrong = |why: String| Error::Value {
        column: field.name.clone(),
        row: 0,
        value: format!("{text:?}"),
        reason: format!("the column's default value {why}; set another one, or none"),
    };
    let texts: ArrayRef = Arc::new(StringArray::from(vec![text]));
    let cast = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let one = match &field.data_type.logical {
        L::Char(_) | L::VarChar(_) => texts,
        L::Binary(_) | L::VarBinary(_) => Arc::new(BinaryArray::from(vec![text.as_bytes()])),
        L::TimestampLtz(_) => {
            // Java reads it in the time zone of its process.
            return Err(wrong(
                "would depend on the time zone of the writer".to_owned(),
            ));
        }
        L::Boolean => {
            let value = match text.trim().to_ascii_lowercase().as_str() {
                "t" | "true" | "y" | "yes" | "1" => "true",
                "f" | "false" | "n" | "no" | "0" => "false",
                _ => return Err(wrong("is no BOOLEAN".to_owned())),
            };
            let texts = StringArray::from(vec![value]);
            cast_with_options(&texts, target.data_type(), &cast)?
        }
        L::Array(_) | L::Map(..) | L::Row(_) | L::Multiset(_) => {
            return Err(wrong("cannot be read as a nested value".to_owned()));
        }
        other => cast_with_options(&texts, target.data_type(), &cast)
            .map_err(|e| wrong(format!("is no {other} ({e})")))?,
    };
    // Lengths, digits and ranges are checked as those of any row.
    column_of(field, target, &one)
        .map(Some)
        .map_err(|e| wrong(format!("does not fit: {e}")))
}

/// Puts it where the column is null.
pub(super) fn fill(column: &ArrayRef, default: &ArrayRef) -> Result<ArrayRef> {
    if column.null_count() == 0 {
        return Ok(column.clone());
    }
    Ok(zip(
        &is_not_null(column)?,
        column,
        &Scalar::new(default.clone()),
    )?)
}
