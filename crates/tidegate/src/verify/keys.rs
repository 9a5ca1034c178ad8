//! One data file of a keyed table against what its manifest entry says of its keys \[F-6.2]: rows in the
//! order of their keys, first and last key, sequence numbers, records that take rows back.

use std::cmp::Ordering;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int8Type, Int64Type};
use tidegate_datafile::{SEQUENCE_NUMBER, VALUE_KIND, key_value_fields, value_at};
use tidegate_model::{
    BinaryRow, BucketId, DataField, DataFileMeta, KeyOrder, LogicalType, TableSchema,
};
use tidegate_scan::{Split, kind};

use super::finding::Kind;

pub(super) struct Keys<'s> {
    file: &'s DataFileMeta,
    order: KeyOrder,
    types: Vec<LogicalType>,
    names: Vec<String>,
    /// A changelog has every version of a key.
    repeats: bool,
    first: Option<BinaryRow>,
    last: Option<BinaryRow>,
    sequences: Option<(i64, i64)>,
    deletes: i64,
    rows: u64,
    wrong: Option<String>,
}

/// The schema of a key-value file with its system columns, as `written` has the table's.
pub(super) fn of_file(written: &TableSchema) -> TableSchema {
    TableSchema {
        fields: key_value_fields(&written.fields),
        ..written.clone()
    }
}

impl<'s> Keys<'s> {
    /// `read` are the columns that are read; what is missing among them is added. `None` for files that
    /// have no order: of append tables, and those that wait in the postpone bucket.
    ///
    /// # Errors
    /// Says why nobody can tell how its keys compare.
    pub(super) fn new(
        split: &'s Split,
        written: &TableSchema,
        read: &mut Vec<DataField>,
    ) -> Result<Option<Self>, String> {
        if written.primary_keys.is_empty() || split.bucket == BucketId::POSTPONE {
            return Ok(None);
        }
        let order = KeyOrder::of(written).map_err(|e| e.to_string())?;
        let names = written.trimmed_primary_keys();
        let mut types = Vec::with_capacity(names.len());
        for name in &names {
            let field = written.field(name);
            let field = field.ok_or_else(|| format!("its schema has no key column `{name}`"))?;
            // Java lets a NaN equal every key: such files are in no order.
            if matches!(
                field.data_type.logical,
                LogicalType::Float | LogicalType::Double
            ) {
                return Ok(None);
            }
            types.push(field.data_type.logical.clone());
        }
        for field in key_value_fields(&[]) {
            if !read.iter().any(|r| r.name == field.name) {
                read.push(field);
            }
        }
        let prefix = written.options.get("changelog-file.prefix");
        let changelog = prefix.unwrap_or("changelog-");
        Ok(Some(Self {
            file: &split.file,
            order,
            types,
            names: names.into_iter().map(str::to_owned).collect(),
            repeats: split.file.file_name.starts_with(changelog),
            first: None,
            last: None,
            sequences: None,
            deletes: 0,
            rows: 0,
            wrong: None,
        }))
    }

    pub(super) fn look(&mut self, batch: &RecordBatch) {
        if self.wrong.is_some() {
            return;
        }
        if let Err(why) = self.add(batch) {
            self.wrong = Some(why);
        }
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<(), String> {
        let lacks = |name: &str| format!("it has no column `{name}`");
        let column = |name: &str| batch.column_by_name(name).ok_or_else(|| lacks(name));
        let sequences = column(SEQUENCE_NUMBER)?.as_primitive_opt::<Int64Type>();
        let sequences = sequences.ok_or_else(|| lacks(SEQUENCE_NUMBER))?;
        let kinds = column(VALUE_KIND)?.as_primitive_opt::<Int8Type>();
        let kinds = kinds.ok_or_else(|| lacks(VALUE_KIND))?;
        for (sequence, row_kind) in sequences.values().iter().zip(kinds.values()) {
            let (low, high) = self.sequences.unwrap_or((*sequence, *sequence));
            self.sequences = Some((low.min(*sequence), high.max(*sequence)));
            if !(kind::INSERT..=kind::DELETE).contains(row_kind) {
                return Err(format!("a row has kind {row_kind}; kinds are 0 to 3"));
            }
            self.deletes += i64::from(kind::is_retract(*row_kind));
        }
        let keys = self.names.iter().map(|name| column(name));
        let keys = keys.collect::<Result<Vec<_>, String>>()?;
        for row in 0..batch.num_rows() {
            let values: Vec<_> = keys.iter().map(|array| value_at(array, row)).collect();
            let key = BinaryRow::from_datums(&values, &self.types).map_err(|e| e.to_string())?;
            if let Some(before) = &self.last {
                let order = self
                    .order
                    .compare(before, &key)
                    .map_err(|e| e.to_string())?;
                if order == Ordering::Greater || order == Ordering::Equal && !self.repeats {
                    let row = self.rows + row as u64;
                    let how = match order {
                        Ordering::Equal => "is that of the row before it",
                        _ => "is below that of the row before it",
                    };
                    return Err(format!(
                        "the key of its row {row} ({values:?}) {how}: merging it with other files goes wrong"
                    ));
                }
            }
            if self.first.is_none() {
                self.first = Some(key.clone());
            }
            self.last = Some(key);
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    pub(super) fn findings(self) -> Vec<(Kind, String)> {
        if let Some(wrong) = self.wrong {
            return vec![(Kind::Keys, wrong)];
        }
        let mut findings = Vec::new();
        for (which, recorded, found) in [
            ("first", &self.file.min_key, &self.first),
            ("last", &self.file.max_key, &self.last),
        ] {
            let same = match found {
                Some(key) => self.order.compare(recorded, key) == Ok(Ordering::Equal),
                None => true,
            };
            if !same {
                findings.push((
                    Kind::Keys,
                    format!(
                        "its manifest records another {which} key than that of its {which} row"
                    ),
                ));
            }
        }
        if let Some((low, high)) = self.sequences
            && (low < self.file.min_sequence_number || high > self.file.max_sequence_number)
        {
            findings.push((
                Kind::Statistics,
                format!(
                    "its sequence numbers go from {low} to {high}, its manifest records {} to {}",
                    self.file.min_sequence_number, self.file.max_sequence_number
                ),
            ));
        }
        if let Some(recorded) = self.file.delete_row_count
            && recorded != self.deletes
        {
            findings.push((
                Kind::Count,
                format!(
                    "its manifest records {recorded} rows of kind -U or -D, it has {}",
                    self.deletes
                ),
            ));
        }
        findings
    }
}
