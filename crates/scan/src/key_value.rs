//! The layout of key-value files \[F-6.2], as far as a reader needs it: two system columns by their
//! field ids. Key columns are not read: they are value columns too.

use tidegate_model::{DataField, DataType, FieldId, LogicalType};

pub(crate) const SEQUENCE_NUMBER: &str = "_SEQUENCE_NUMBER";
pub(crate) const VALUE_KIND: &str = "_VALUE_KIND";
pub(crate) const SYSTEM_COLUMNS: usize = 2;

pub(crate) fn key_value_fields(values: &[DataField]) -> Vec<DataField> {
    let field = |name: &str, id, logical| DataField {
        id: FieldId(id),
        ..DataField::new(name, DataType::not_null(logical))
    };
    let system = [
        field(SEQUENCE_NUMBER, 2_147_483_646, LogicalType::BigInt),
        field(VALUE_KIND, 2_147_483_645, LogicalType::TinyInt),
    ];
    system.into_iter().chain(values.iter().cloned()).collect()
}
