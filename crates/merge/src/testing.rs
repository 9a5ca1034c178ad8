//! Rows and tables for tests, and what they should become, worked out row by row.

use crate::kind;
use crate::layout::key_value_schema;
use crate::merger::{Merger, Step};
use crate::spec::MergeSpec;
use arrow::array::{Array, AsArray, Int8Array, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int8Type, Int32Type, Int64Type, Schema, SchemaRef};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_model::{DataField, TableSchema};

/// A version of a key in the table `(id BIGINT, s INT, v INT, primary key (id))`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: i64,
    pub(crate) sequence: i64,
    pub(crate) kind: i8,
    pub(crate) s: Option<i32>,
    pub(crate) v: i32,
}

pub(crate) fn spec(options: &[(&str, &str)]) -> MergeSpec {
    let column = |name: &str, t: &str| DataField::new(name, t.parse().unwrap());
    let columns = vec![
        column("id", "BIGINT"),
        column("s", "INT"),
        column("v", "INT"),
    ];
    let options = options.iter().copied().chain([("bucket", "1")]).collect();
    let schema = TableSchema::create(columns, vec![], vec!["id".into()], options, None, 0).unwrap();
    MergeSpec::new(&schema).unwrap()
}

pub(crate) fn schema() -> SchemaRef {
    key_value_schema(&Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("s", DataType::Int32, true),
        Field::new("v", DataType::Int32, true),
    ]))
}

pub(crate) fn batch(rows: &[Row]) -> RecordBatch {
    RecordBatch::try_new(
        schema(),
        vec![
            Arc::new(Int64Array::from_iter_values(
                rows.iter().map(|r| r.sequence),
            )),
            Arc::new(Int8Array::from_iter_values(rows.iter().map(|r| r.kind))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.id))),
            Arc::new(Int32Array::from_iter(rows.iter().map(|r| r.s))),
            Arc::new(Int32Array::from_iter_values(rows.iter().map(|r| r.v))),
        ],
    )
    .unwrap()
}

pub(crate) fn rows(batch: &RecordBatch) -> Vec<Row> {
    let s = batch.column(3).as_primitive::<Int32Type>();
    (0..batch.num_rows())
        .map(|i| Row {
            sequence: batch.column(0).as_primitive::<Int64Type>().value(i),
            kind: batch.column(1).as_primitive::<Int8Type>().value(i),
            id: batch.column(2).as_primitive::<Int64Type>().value(i),
            s: s.is_valid(i).then(|| s.value(i)),
            v: batch.column(4).as_primitive::<Int32Type>().value(i),
        })
        .collect()
}

/// Random versions; sequence numbers may tie, as those of two writers do \[W-32].
pub(crate) fn versions(keys: i64) -> impl Strategy<Value = Vec<Row>> {
    let one = (
        0..keys,
        0i64..50,
        0i8..4,
        prop::option::of(0i32..4),
        any::<i32>(),
    );
    let row = |(id, sequence, kind, s, v)| Row {
        id,
        sequence,
        kind,
        s,
        v,
    };
    prop::collection::vec(one.prop_map(row), 0..60)
}

/// What decides about versions, as the words of the rules have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    pub(crate) by_field: bool,
    pub(crate) descending: bool,
    pub(crate) ignore_delete: bool,
}

impl Words {
    pub(crate) fn options(self) -> Vec<(&'static str, &'static str)> {
        let mut out = Vec::new();
        if self.by_field {
            out.push(("sequence.field", "s"));
        }
        if self.descending {
            out.push(("sequence.field.sort-order", "descending"));
        }
        if self.ignore_delete {
            out.push(("ignore-delete", "true"));
        }
        out
    }

    /// Versions of each key, oldest first; ties as they stand.
    pub(crate) fn grouped(self, rows: &[Row]) -> BTreeMap<i64, Vec<Row>> {
        let mut out: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
        rows.iter()
            .for_each(|r| out.entry(r.id).or_default().push(r.clone()));
        for versions in out.values_mut() {
            versions.sort_by_key(|r| {
                let field = match r.s {
                    _ if !self.by_field => (0, 0),
                    None => (0, 0),
                    Some(s) if self.descending => (1, -s),
                    Some(s) => (1, s),
                };
                (field, r.sequence, !kind::is_retract(r.kind))
            });
        }
        out
    }
}

/// Feeds runs to a merge, `cut` rows at a time, and collects what it says.
pub(crate) fn drive(
    merger: &mut Merger,
    runs: &[Vec<Row>],
    cut: usize,
) -> crate::Result<(Vec<Row>, Vec<Row>)> {
    let mut fed = vec![0; runs.len()];
    let (mut merged, mut changelog) = (Vec::new(), Vec::new());
    loop {
        match merger.step()? {
            Step::Needs(run) => {
                let from = fed[run];
                let to = (from + cut).min(runs[run].len());
                fed[run] = to;
                match from == to {
                    true => merger.end(run)?,
                    false => merger.push(run, batch(&runs[run][from..to]))?,
                }
            }
            Step::Batch(b) => {
                assert!(b.num_rows() > 0);
                merged.extend(rows(&b));
            }
            Step::Changelog(b) => changelog.extend(rows(&b)),
            Step::Done => return Ok((merged, changelog)),
        }
    }
}
