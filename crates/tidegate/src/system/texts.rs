//! Values as texts: those of Java's `toString`, which its system tables show.

use tidegate_model::layout::PartitionPaths;
use tidegate_model::options::TableOptions;
use tidegate_model::{BinaryRow, Datum, LogicalType, TableSchema, calendar, java_text};

use crate::error::Result;

/// Texts of partition values: `{2024-01-01, 7}` and `dt=2024-01-01/hh=7`.
pub(super) struct PartitionTexts {
    /// Null and blank values are the name of their directory.
    paths: PartitionPaths,
}

impl PartitionTexts {
    pub(super) fn of(schema: &TableSchema) -> Result<Self> {
        let columns = schema
            .partition_keys
            .iter()
            .filter_map(|key| schema.field(key))
            .map(|f| (f.name.clone(), f.data_type.logical.clone()))
            .collect();
        let default_name = TableOptions::of(schema)?.partition_default_name;
        Ok(Self {
            paths: PartitionPaths::new(columns, default_name, false),
        })
    }

    /// The values themselves: `null` and blanks are told apart.
    pub(super) fn braces(&self, partition: &BinaryRow) -> Result<String> {
        let mut values = self.paths.names(partition)?;
        let row = partition.reader();
        for (i, (value, (_, logical))) in values.iter_mut().zip(self.paths.columns()).enumerate() {
            if row.is_null(i)? {
                "null".clone_into(value);
            } else if matches!(logical, LogicalType::Char(_) | LogicalType::VarChar(_)) {
                row.str(i)?.unwrap_or_default().clone_into(value);
            }
        }
        Ok(format!("{{{}}}", values.join(", ")))
    }

    pub(super) fn spec(&self, partition: &BinaryRow) -> Result<String> {
        let values = self.paths.names(partition)?;
        let names = self.paths.columns().iter().map(|(name, _)| name);
        let parts: Vec<String> = names.zip(values).map(|(n, v)| format!("{n}={v}")).collect();
        Ok(parts.join("/"))
    }
}

/// A value as Java's `toString` prints it: dates as days, times as milliseconds.
pub(super) fn datum_text(datum: &Datum) -> String {
    match datum {
        Datum::Boolean(v) => v.to_string(),
        Datum::TinyInt(v) => v.to_string(),
        Datum::SmallInt(v) => v.to_string(),
        Datum::Int(v) | Datum::Date(v) | Datum::TimeMillis(v) => v.to_string(),
        Datum::BigInt(v) => v.to_string(),
        Datum::Float(v) => java_text::float(*v),
        Datum::Double(v) => java_text::double(*v),
        Datum::Decimal {
            unscaled, scale, ..
        } => java_text::decimal(*unscaled, *scale),
        Datum::String(v) => v.clone(),
        Datum::Timestamp {
            millis,
            nanos_of_milli,
        } => {
            let mut text = String::new();
            calendar::write_iso(&mut text, *millis, *nanos_of_milli);
            text
        }
        // Java prints the identity of the array object here, which tells nobody anything.
        Datum::Bytes(v) => v.iter().fold("0x".to_owned(), |mut text, byte| {
            text.push_str(&format!("{byte:02x}"));
            text
        }),
        // Nested values have no order, hence no bounds; nor are they keys.
        _ => "?".to_owned(),
    }
}

/// `[v1, v2]`: the values of a key.
pub(super) fn key_text(key: &BinaryRow, types: &[LogicalType]) -> Result<Option<String>> {
    if key.is_empty() {
        return Ok(None);
    }
    let texts = types.iter().enumerate().map(|(i, t)| {
        let value = key.get(i, t)?;
        Ok(value.map_or_else(|| "null".to_owned(), |d| datum_text(&d)))
    });
    let texts = texts.collect::<Result<Vec<_>>>()?;
    Ok(Some(format!("[{}]", texts.join(", "))))
}
