//! Merging as Java does it: what its reader saw after each commit, from the rows of the commits alone.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use arrow::array::{ArrayRef, Int8Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType as Arrow, Field, Fields, Schema, SchemaRef, TimeUnit};
use arrow::json::{ArrayWriter, ReaderBuilder};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;
use tidegate_merge::{
    Deletes, MergeOptions, MergeSpec, Merger, SortBuffer, Step, key_value_schema, kind,
};
use tidegate_model::{DataField, LogicalType, TableSchema};

fn arrow_type(logical: &LogicalType) -> Arrow {
    use LogicalType as L;
    match logical {
        L::Boolean => Arrow::Boolean,
        L::TinyInt => Arrow::Int8,
        L::SmallInt => Arrow::Int16,
        L::Int => Arrow::Int32,
        L::BigInt => Arrow::Int64,
        L::Float => Arrow::Float32,
        L::Double => Arrow::Float64,
        L::Decimal { precision, scale } => Arrow::Decimal128(*precision, *scale as i8),
        L::VarChar(_) => Arrow::Utf8,
        L::Date => Arrow::Date32,
        L::Timestamp(3) => Arrow::Timestamp(TimeUnit::Millisecond, None),
        L::Array(e) => Arrow::List(Arc::new(Field::new(
            "element",
            arrow_type(&e.logical),
            true,
        ))),
        L::Row(fields) => Arrow::Struct(arrow_fields(fields)),
        L::Map(k, v) => {
            let entries = vec![
                Field::new("key", arrow_type(&k.logical), false),
                Field::new("value", arrow_type(&v.logical), true),
            ];
            Arrow::Map(
                Arc::new(Field::new("entries", Arrow::Struct(entries.into()), false)),
                false,
            )
        }
        other => panic!("{other}"),
    }
}

fn arrow_fields(fields: &[DataField]) -> Fields {
    let field = |f: &DataField| {
        Field::new(
            &f.name,
            arrow_type(&f.data_type.logical),
            f.data_type.nullable,
        )
    };
    fields.iter().map(field).collect()
}

struct Table {
    spec: MergeSpec,
    schema: SchemaRef,
    keys: Vec<String>,
}

impl Table {
    fn new(given: &Value) -> Self {
        let text = |v: &Value| v.as_str().unwrap().to_owned();
        let list = |v: &Value| v.as_array().unwrap().iter().map(text).collect::<Vec<_>>();
        let columns = given["fields"].as_array().unwrap().iter();
        let columns = columns.map(|f| {
            DataField::new(
                text(&f["name"]),
                f["type"].as_str().unwrap().parse().unwrap(),
            )
        });
        let options = given["options"].as_object().unwrap().iter();
        let options = options.map(|(k, v)| (k.clone(), text(v))).collect();
        let keys = list(&given["primaryKeys"]);
        let partitions = list(&given["partitionKeys"]);
        let schema = TableSchema::create(
            columns.collect(),
            partitions,
            keys.clone(),
            options,
            None,
            0,
        )
        .unwrap();
        let values = Schema::new(arrow_fields(&schema.fields));
        Self {
            spec: MergeSpec::new(&schema).unwrap(),
            schema: key_value_schema(&values),
            keys,
        }
    }

    /// Rows in the oracle's JSON; maps are lists of pairs there.
    fn values(&self, rows: &[Value]) -> Vec<ArrayRef> {
        let fields: Vec<_> = self.schema.fields().iter().skip(2).cloned().collect();
        let rows: Vec<Value> = rows
            .iter()
            .map(|row| {
                let mut row = row.as_object().unwrap().clone();
                row.remove("_kind");
                for field in &fields {
                    if let (Arrow::Map(..), Some(Value::Array(pairs))) =
                        (field.data_type(), row.get(field.name()))
                    {
                        let pair = |p: &Value| (p[0].as_str().unwrap().to_owned(), p[1].clone());
                        let map: Map<String, Value> = pairs.iter().map(pair).collect();
                        row.insert(field.name().clone(), Value::Object(map));
                    }
                }
                Value::Object(row)
            })
            .collect();
        let mut decoder = ReaderBuilder::new(Arc::new(Schema::new(fields)))
            .build_decoder()
            .unwrap();
        let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
        decoder.decode(text.as_bytes()).unwrap();
        decoder
            .flush()
            .unwrap()
            .map_or_else(Vec::new, |b| b.columns().to_vec())
    }

    fn batch(&self, rows: &[Value], next_sequence: &mut i64) -> Option<RecordBatch> {
        let kinds: Vec<i8> = rows
            .iter()
            .map(|row| match row["_kind"].as_str().unwrap() {
                "+I" => kind::INSERT,
                "-U" => kind::UPDATE_BEFORE,
                "+U" => kind::UPDATE_AFTER,
                _ => kind::DELETE,
            })
            .collect();
        let taken: Vec<usize> = (0..rows.len())
            .filter(|i| !self.spec.drops_on_write(kinds[*i]))
            .collect();
        if taken.is_empty() {
            return None;
        }
        let rows: Vec<Value> = taken.iter().map(|i| rows[*i].clone()).collect();
        let first = *next_sequence;
        *next_sequence += rows.len() as i64;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(first..*next_sequence)),
            Arc::new(Int8Array::from_iter_values(taken.iter().map(|i| kinds[*i]))),
        ];
        columns.extend(self.values(&rows));
        Some(RecordBatch::try_new(self.schema.clone(), columns).unwrap())
    }

    fn flushed(&self, batch: RecordBatch) -> RecordBatch {
        let mut buffer = SortBuffer::new(&self.spec, self.schema.clone()).unwrap();
        buffer.push(batch).unwrap();
        let merged: Vec<_> = buffer.sort().merged(1000).map(Result::unwrap).collect();
        arrow::compute::concat_batches(&self.schema, &merged).unwrap()
    }

    fn merged(&self, files: &[RecordBatch], deletes: Deletes) -> RecordBatch {
        let options = MergeOptions {
            deletes,
            batch_rows: 3,
            ..MergeOptions::default()
        };
        let mut merger =
            Merger::new(&self.spec, self.schema.clone(), files.len(), options).unwrap();
        let mut fed = vec![false; files.len()];
        let mut out = Vec::new();
        loop {
            match merger.step().unwrap() {
                Step::Needs(run) if std::mem::replace(&mut fed[run], true) => {
                    merger.end(run).unwrap()
                }
                Step::Needs(run) => merger.push(run, files[run].clone()).unwrap(),
                Step::Batch(batch) => out.push(batch),
                Step::Changelog(_) => panic!("none was asked for"),
                Step::Done => return arrow::compute::concat_batches(&self.schema, &out).unwrap(),
            }
        }
    }

    /// Rows by key, in JSON; the order of elements that a hash table gave is none.
    fn shown(&self, values: Vec<ArrayRef>, unordered: &[&str]) -> Vec<Value> {
        let fields: Vec<_> = self.schema.fields().iter().skip(2).cloned().collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), values).unwrap();
        let mut writer = ArrayWriter::new(Vec::new());
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        let bytes = writer.into_inner();
        if bytes.is_empty() {
            return Vec::new();
        }
        let mut rows: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
        for row in &mut rows {
            for name in unordered {
                if let Some(Value::Array(list)) = row.get_mut(name) {
                    list.sort_by_key(Value::to_string);
                }
            }
        }
        rows.sort_by_key(|row| {
            json!(self.keys.iter().map(|k| &row[k]).collect::<Vec<_>>()).to_string()
        });
        rows
    }
}

/// Every state of the table, merged from what each commit flushed.
fn as_java(name: &str, unordered: &[&str]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/java/{name}.json"));
    let given: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let table = Table::new(&given);
    let (mut files, mut sequence) = (Vec::new(), 0);
    let mut states = 0;
    for commit in given["commits"].as_array().unwrap() {
        let batch = table.batch(commit["write"].as_array().unwrap(), &mut sequence);
        files.extend(batch.map(|b| table.flushed(b)));
        let Some(then) = commit["then"].as_array() else {
            continue;
        };
        states += 1;
        let merged = table.merged(&files, Deletes::Drop);
        let ours = table.shown(merged.columns()[2..].to_vec(), unordered);
        let java = match then.is_empty() {
            true => Vec::new(),
            false => table.shown(table.values(then), unordered),
        };
        assert_eq!(ours.len(), java.len(), "{name}: {ours:?} against {java:?}");
        for (a, b) in ours.iter().zip(&java) {
            assert_eq!(a, b, "{name}");
        }
    }
    assert!(states > 0);
}

#[test]
fn aggregate_functions() {
    as_java("pk_aggregation_functions", &[]);
}

#[test]
fn aggregates_take_retracts_back() {
    as_java("pk_aggregation_retract", &["c"]);
}

#[test]
fn nested_update() {
    as_java("pk_aggregation_nested_update", &["n1"]);
}

#[test]
fn partial_update() {
    as_java("pk_partial_update", &[]);
}

#[test]
fn sequence_groups() {
    as_java("pk_partial_update_sequence_groups", &[]);
}

#[test]
fn aggregates_in_sequence_groups() {
    as_java("pk_partial_update_group_aggregates", &[]);
}

#[test]
fn a_delete_of_a_group_removes_the_record() {
    as_java("pk_partial_update_remove_record_on_group", &[]);
}

#[test]
fn first_row() {
    as_java("pk_first_row_changelog_none", &[]);
    as_java("pk_first_row_ignore_delete", &[]);
}

#[test]
fn what_is_ignored() {
    as_java("pk_ignore_delete", &[]);
    as_java("pk_ignore_update_before", &[]);
}

#[test]
fn sequence_fields() {
    as_java("pk_sequence_field_ascending", &[]);
    as_java("pk_sequence_field_descending", &[]);
    as_java("pk_sequence_fields_two", &[]);
}
