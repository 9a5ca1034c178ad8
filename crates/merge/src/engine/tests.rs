//! `aggregation` and `partial-update` against a naive reading of the rules, value by value.

use crate::kind::{DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, is_retract};
use crate::merger::{Deletes, MergeOptions, Merger, Step};
use crate::{MergeSpec, Result, key_value_schema};
use arrow::array::{Array, ArrayRef, AsArray, Int8Array, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int8Type, Int32Type, Schema, SchemaRef};
use proptest::prelude::*;
use std::sync::Arc;
use tidegate_model::{DataField, TableSchema};

/// `(k INT, g INT, a INT, b INT, c INT)`, all but k nullable.
type Cells = [Option<i32>; 4];

#[derive(Clone, Debug)]
struct Version {
    k: i32,
    kind: i8,
    cells: Cells,
}

fn versions() -> impl Strategy<Value = Vec<Version>> {
    let cell = || prop::option::of(-3i32..4);
    let kind = prop_oneof![4 => Just(INSERT), 2 => Just(UPDATE_AFTER), 1 => Just(DELETE), 1 => Just(UPDATE_BEFORE)];
    let one = (0i32..4, kind, [cell(), cell(), cell(), cell()]);
    prop::collection::vec(
        one.prop_map(|(k, kind, cells)| Version { k, kind, cells }),
        1..25,
    )
}

fn wide_schema() -> SchemaRef {
    let column = |name: &str| Field::new(name, DataType::Int32, true);
    key_value_schema(&Schema::new(vec![
        Field::new("k", DataType::Int32, false),
        column("g"),
        column("a"),
        column("b"),
        column("c"),
    ]))
}

/// Merges versions dealt to runs; (k, kind, sequence, cells) of each key.
fn merge_all(
    options: &[(&str, &str)],
    all: &[Version],
    runs: usize,
) -> Result<Vec<(i32, i8, i64, Cells)>> {
    merge_some(options, all, runs, &[1, 2, 3, 4])
}

/// The same where these columns are asked for; cells of others are left out.
fn merge_some(
    options: &[(&str, &str)],
    all: &[Version],
    runs: usize,
    asked: &[usize],
) -> Result<Vec<(i32, i8, i64, Cells)>> {
    let columns = ["k", "g", "a", "b", "c"].map(|c| DataField::new(c, "INT".parse().unwrap()));
    let options = options.iter().copied().chain([("bucket", "1")]).collect();
    let table = TableSchema::create(columns.to_vec(), vec![], vec!["k".into()], options, None, 0)?;
    let spec = MergeSpec::new(&table)?;
    let mut dealt: Vec<Vec<(i64, &Version)>> = vec![Vec::new(); runs];
    for (i, version) in all.iter().enumerate() {
        dealt[i * 5 % runs].push((i as i64, version));
    }
    let options = MergeOptions {
        batch_rows: 2,
        deletes: Deletes::Keep,
        ..MergeOptions::default()
    };
    let read: Vec<usize> = [0, 1]
        .into_iter()
        .chain(spec.needs(asked).iter().map(|c| c + 2))
        .collect();
    let schema = Arc::new(wide_schema().project(&read)?);
    let mut merger = Merger::new(&spec, schema, runs, options)?;
    let mut out = Vec::new();
    loop {
        match merger.step()? {
            Step::Needs(run) if dealt[run].is_empty() => merger.end(run)?,
            Step::Needs(run) => {
                let mut rows = std::mem::take(&mut dealt[run]);
                rows.sort_by_key(|(i, v)| (v.k, *i));
                let cell = |at: usize| -> ArrayRef {
                    Arc::new(
                        rows.iter()
                            .map(|(_, v)| v.cells[at])
                            .collect::<Int32Array>(),
                    )
                };
                let batch = RecordBatch::try_new(
                    wide_schema(),
                    vec![
                        Arc::new(Int64Array::from_iter_values(rows.iter().map(|(i, _)| *i))),
                        Arc::new(Int8Array::from_iter_values(
                            rows.iter().map(|(_, v)| v.kind),
                        )),
                        Arc::new(Int32Array::from_iter_values(rows.iter().map(|(_, v)| v.k))),
                        cell(0),
                        cell(1),
                        cell(2),
                        cell(3),
                    ],
                )?;
                merger.push(run, batch.project(&read)?)?;
            }
            Step::Batch(batch) => {
                for i in 0..batch.num_rows() {
                    let cells = [(1, "g"), (2, "a"), (3, "b"), (4, "c")].map(|(at, name)| {
                        let column = batch.column_by_name(name).filter(|_| asked.contains(&at))?;
                        let column = column.as_primitive::<Int32Type>();
                        column.is_valid(i).then(|| column.value(i))
                    });
                    out.push((
                        batch.column(2).as_primitive::<Int32Type>().value(i),
                        batch.column(1).as_primitive::<Int8Type>().value(i),
                        batch
                            .column(0)
                            .as_primitive::<arrow::datatypes::Int64Type>()
                            .value(i),
                        cells,
                    ));
                }
            }
            Step::Changelog(_) => {}
            Step::Done => return Ok(out),
        }
    }
}

/// Each key's versions with their sequence numbers; `None` from `rule` = an error is expected.
fn expected(
    all: &[Version],
    rule: impl Fn(&[(i64, &Version)]) -> Option<(i8, i64, Cells)>,
) -> Option<Vec<(i32, i8, i64, Cells)>> {
    let mut out = Vec::new();
    for k in 0..4 {
        let own: Vec<_> = (0i64..).zip(all).filter(|(_, v)| v.k == k).collect();
        match own.as_slice() {
            [] => {}
            [(i, v)] => out.push((k, v.kind, *i, v.cells)),
            many => {
                let (kind, i, cells) = rule(many)?;
                out.push((k, kind, i, cells));
            }
        }
    }
    Some(out)
}

fn newest(many: &[(i64, &Version)]) -> i64 {
    many.last().unwrap().0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// g: last_non_null_value, a: sum, b: last_value, c: product
    #[test]
    fn aggregation_is_each_column_by_its_function(all in versions(), runs in 1usize..5, removes in any::<bool>()) {
        let options = [
            ("merge-engine", "aggregation"),
            ("aggregation.remove-record-on-delete", if removes { "true" } else { "false" }),
            ("fields.a.aggregate-function", "sum"),
            ("fields.b.aggregate-function", "last_value"),
            ("fields.c.aggregate-function", "product"),
        ];
        let by_hand = expected(&all, |many| {
            let mut row: Cells = [None; 4];
            let mut removed = false;
            for (_, v) in many {
                removed = removes && v.kind == DELETE;
                if removed {
                    row = v.cells;
                    continue;
                }
                let [g, a, b, c] = v.cells;
                if is_retract(v.kind) {
                    if g.is_some() { row[0] = None; }
                    row[1] = match (row[1], a) {
                        (Some(x), Some(y)) => Some(x - y),
                        (None, Some(y)) => Some(-y),
                        (x, None) => x,
                    };
                    row[2] = None;
                    row[3] = match (row[3], c) {
                        (Some(_), Some(0)) => return None,
                        (Some(x), Some(y)) => Some(x / y),
                        (x, _) => x,
                    };
                } else {
                    if g.is_some() { row[0] = g; }
                    row[1] = match (row[1], a) { (Some(x), Some(y)) => Some(x + y), (x, y) => x.or(y) };
                    row[2] = b;
                    row[3] = match (row[3], c) { (Some(x), Some(y)) => Some(x * y), (x, y) => x.or(y) };
                }
            }
            Some((if removed { DELETE } else { INSERT }, newest(many), row))
        });
        let ours = merge_all(&options, &all, runs);
        match by_hand {
            None => prop_assert!(ours.is_err()),
            Some(rows) => prop_assert_eq!(ours.unwrap(), rows),
        }
    }

    #[test]
    fn partial_update_without_groups_fills_columns(
        all in versions(), runs in 1usize..5, mode in prop::sample::select(vec!["", "ignore-delete", "partial-update.remove-record-on-delete"]),
    ) {
        let mut options = vec![("merge-engine", "partial-update")];
        if !mode.is_empty() {
            options.push((mode, "true"));
        }
        let by_hand = expected(&all, |many| {
            let mut row: Cells = [None; 4];
            let (mut filled, mut inserted, mut removed, mut last) = (false, false, false, None);
            for (i, v) in many {
                removed = false;
                if is_retract(v.kind) {
                    if !filled { row = v.cells; filled = true; }
                    match mode {
                        "" => return None,
                        "ignore-delete" => continue,
                        _ => {}
                    }
                    last = Some(*i);
                    if v.kind == DELETE { row = v.cells; removed = true; }
                } else {
                    last = Some(*i);
                    for (cell, new) in row.iter_mut().zip(v.cells) { *cell = new.or(*cell); }
                    (filled, inserted) = (true, true);
                }
            }
            let kind = if removed || !inserted { DELETE } else { INSERT };
            Some((kind, last.unwrap_or(newest(many)), row))
        });
        let ours = merge_all(&options, &all, runs);
        match by_hand {
            None => prop_assert!(ours.unwrap_err().to_string().contains("ignore-delete = true")),
            Some(rows) => prop_assert_eq!(ours.unwrap(), rows),
        }
    }

    /// g orders a (overwritten) and b (summed); c is in no group.
    #[test]
    fn sequence_groups_order_their_columns(all in versions(), runs in 1usize..5, removes in any::<bool>()) {
        let mut options = vec![
            ("merge-engine", "partial-update"),
            ("fields.g.sequence-group", "a,b"),
            ("fields.b.aggregate-function", "sum"),
        ];
        if removes {
            options.push(("partial-update.remove-record-on-sequence-group", "g"));
        }
        let by_hand = expected(&all, |many| {
            let mut row: Cells = [None; 4];
            let (mut filled, mut inserted, mut removed) = (false, false, false);
            for (_, v) in many {
                removed = false;
                let [g, a, b, c] = v.cells;
                let retract = is_retract(v.kind);
                if retract && !filled { row = v.cells; }
                filled = true;
                let newer = g.is_some() && g >= row[0];
                if retract {
                    if newer && removes && v.kind == DELETE {
                        row = v.cells;
                        removed = true;
                        continue;
                    }
                    if newer { row[0] = g; row[1] = None; }
                    if g.is_some() {
                        row[2] = match (row[2], b) {
                            (Some(x), Some(y)) => Some(x - y),
                            (None, Some(y)) => Some(-y),
                            (x, None) => x,
                        };
                    }
                } else {
                    inserted = true;
                    if newer { row[0] = g; row[1] = a; }
                    if g.is_some() {
                        row[2] = match (row[2], b) { (Some(x), Some(y)) => Some(x + y), (x, y) => x.or(y) };
                    }
                    row[3] = c.or(row[3]);
                }
            }
            let kind = if removed || !inserted { DELETE } else { INSERT };
            Some((kind, newest(many), row))
        });
        prop_assert_eq!(merge_all(&options, &all, runs).unwrap(), by_hand.unwrap());
    }

    /// Case B44: whatever is asked for, a column is what it is when all are.
    #[test]
    fn a_projection_changes_no_value(
        all in versions(), runs in 1usize..5, asked in prop::sample::subsequence(vec![1usize, 2, 3, 4], 0..5),
        mode in 0usize..4,
    ) {
        let group = [("merge-engine", "partial-update"), ("fields.g.sequence-group", "a,b")];
        let options = match mode {
            0 => vec![("merge-engine", "aggregation"), ("fields.b.aggregate-function", "sum")],
            1 => vec![("merge-engine", "partial-update"), ("ignore-delete", "true")],
            2 => vec![group[0], group[1], ("fields.b.aggregate-function", "sum")],
            _ => vec![group[0], group[1], ("partial-update.remove-record-on-sequence-group", "g")],
        };
        let mut whole = merge_all(&options, &all, runs).unwrap();
        for (.., cells) in &mut whole {
            for (at, cell) in (1..).zip(cells) {
                *cell = cell.filter(|_| asked.contains(&at));
            }
        }
        prop_assert_eq!(merge_some(&options, &all, runs, &asked).unwrap(), whole);
    }
}
