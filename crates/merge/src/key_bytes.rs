//! Keys alone, as bytes that order as keys do: what an index over the keys of a file holds.

use crate::error::{Result, column};
use crate::sort_key::comparable;
use arrow::array::ArrayRef;
use arrow::compute::SortOptions;
use arrow::datatypes::FieldRef;
use arrow::row::{RowConverter, Rows, SortField};

/// Makes the bytes of keys: equal keys have equal bytes, and bytes order as a [`Merger`](crate::Merger)
/// orders keys.
#[derive(Debug)]
pub struct KeyBytes {
    converter: RowConverter,
}

impl KeyBytes {
    /// For keys of these columns, in the order of the key.
    ///
    /// # Errors
    /// Where values of a column do not compare.
    pub fn new(columns: &[FieldRef]) -> Result<Self> {
        let ascending = SortOptions {
            descending: false,
            nulls_first: true,
        };
        let mut fields = Vec::with_capacity(columns.len());
        for field in columns {
            let sort = SortField::new_with_options(field.data_type().clone(), ascending);
            if !RowConverter::supports_fields(std::slice::from_ref(&sort)) {
                return column(
                    field.name(),
                    format!("values of type {} do not compare", field.data_type()),
                );
            }
            fields.push(sort);
        }
        Ok(Self {
            converter: RowConverter::new(fields)?,
        })
    }

    /// The bytes of each row's key.
    ///
    /// # Errors
    /// Where the columns are not those that it was made for.
    pub fn of(&self, columns: &[ArrayRef]) -> Result<Rows> {
        let columns: Vec<ArrayRef> = columns.iter().cloned().map(comparable).collect();
        Ok(self.converter.convert_columns(&columns)?)
    }
}
