use super::*;
use crate::testing::{Row, Words, batch, drive, rows, schema, spec, versions};
use arrow::array::Int64Array;
use proptest::prelude::*;

fn merger(words: Words, engine: &str, runs: usize, options: MergeOptions) -> Merger {
    let mut given = words.options();
    given.push(("merge-engine", engine));
    Merger::new(&spec(&given), schema(), runs, options).unwrap()
}

/// Deals rows to runs and sorts each as a file is.
fn runs_of(words: Words, rows: &[Row], runs: usize, unique: bool) -> Vec<Vec<Row>> {
    let mut out = vec![Vec::new(); runs];
    for (i, row) in rows.iter().enumerate() {
        out[(i * 7 + row.v.unsigned_abs() as usize) % runs].push(row.clone());
    }
    out.iter()
        .map(|rows| {
            let groups = words.grouped(rows).into_values();
            match unique {
                true => groups
                    .filter_map(|versions| versions.last().cloned())
                    .collect(),
                false => groups.flatten().collect(),
            }
        })
        .collect()
}

fn words() -> impl Strategy<Value = Words> {
    let one = (any::<bool>(), any::<bool>(), any::<bool>());
    one.prop_map(|(by_field, descending, ignore_delete)| Words {
        by_field,
        descending: by_field && descending,
        ignore_delete,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The newest version of each key stays, however rows lie in runs and batches.
    #[test]
    fn deduplicate_is_the_newest_version(
        words in words(), all in versions(12), count in 1usize..6, cut in 1usize..9,
        batch_rows in 1usize..5, drops in any::<bool>(), unique in any::<bool>(),
    ) {
        let runs = runs_of(words, &all, count, unique);
        let deletes = if drops { Deletes::Drop } else { Deletes::Keep };
        let options = MergeOptions { batch_rows, deletes, changelog: Changelog::Input };
        let mut merger = merger(words, "deduplicate", count, options);
        let (merged, changelog) = drive(&mut merger, &runs, cut).unwrap();
        let everything: Vec<Row> = runs.concat();
        let grouped = words.grouped(&everything);
        let expected: Vec<Row> = grouped
            .values()
            .filter_map(|versions| {
                let counted = |r: &&Row| !(words.ignore_delete && versions.len() > 1 && kind::is_retract(r.kind));
                let last = versions.iter().rfind(counted)?;
                (!(drops && kind::is_retract(last.kind))).then(|| last.clone())
            })
            .collect();
        prop_assert_eq!(merged, expected);
        prop_assert_eq!(changelog, grouped.into_values().flatten().collect::<Vec<_>>());
    }

    /// The oldest insert stays; a retract among versions is refused unless it is ignored.
    #[test]
    fn first_row_is_the_oldest_add_or_an_error(
        ignore_delete in any::<bool>(), all in versions(12), count in 1usize..6, cut in 1usize..9,
    ) {
        let words = Words { by_field: false, descending: false, ignore_delete };
        let runs = runs_of(words, &all, count, true);
        let mut merger = merger(words, "first-row", count, MergeOptions::default());
        let merged = drive(&mut merger, &runs, cut);
        let grouped = words.grouped(&runs.concat());
        let mixed = grouped.values().any(|v| v.len() > 1 && v.iter().any(|r| kind::is_retract(r.kind)));
        if mixed && !ignore_delete {
            let message = merged.unwrap_err().to_string();
            prop_assert!(message.contains("ignore-delete = true"), "{}", message);
            return Ok(());
        }
        let expected: Vec<Row> = grouped
            .values()
            .filter_map(|versions| match versions.as_slice() {
                [alone] => Some(alone.clone()),
                many => many.iter().find(|r| !kind::is_retract(r.kind)).cloned(),
            })
            .collect();
        prop_assert_eq!(merged.unwrap().0, expected);
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Long stretches of one run, which go through by slices, at every kind of border.
    #[test]
    fn stretches_of_one_run_go_through_whole(
        borders in prop::collection::vec((0i64..6000, 0usize..3, 1i64..2500), 1..6),
        cut in prop::sample::select(vec![300usize, 511, 513, 1000, 4096]),
        drops in any::<bool>(), doubled in any::<bool>(),
    ) {
        let words = Words { by_field: false, descending: false, ignore_delete: false };
        let mut runs = vec![Vec::new(); 3];
        for (sequence, (start, run, len)) in (0i64..).zip(borders) {
            for id in start..start + len {
                let kind = if id % 97 == 0 { kind::DELETE } else { kind::INSERT };
                runs[run].push(Row { id, sequence, kind, s: None, v: run as i32 });
                if doubled && id % 700 == 0 {
                    runs[run].push(Row { id, sequence, kind: kind::UPDATE_AFTER, s: None, v: -1 });
                }
            }
        }
        let runs: Vec<Vec<Row>> =
            runs.iter().map(|rows| words.grouped(rows).into_values().flatten().collect()).collect();
        let deletes = if drops { Deletes::Drop } else { Deletes::Keep };
        let options = MergeOptions { deletes, changelog: Changelog::Input, ..MergeOptions::default() };
        let mut merger = merger(words, "deduplicate", 3, options);
        let (merged, changelog) = drive(&mut merger, &runs, cut).unwrap();
        let grouped = words.grouped(&runs.concat());
        let expected: Vec<Row> = grouped
            .values()
            .filter_map(|versions| versions.last().cloned())
            .filter(|r| !(drops && kind::is_retract(r.kind)))
            .collect();
        prop_assert!(merged == expected, "{} rows, {} expected", merged.len(), expected.len());
        prop_assert!(changelog == grouped.into_values().flatten().collect::<Vec<_>>());
    }
}

fn row(id: i64, sequence: i64, v: i32) -> Row {
    Row {
        id,
        sequence,
        kind: kind::INSERT,
        s: None,
        v,
    }
}

const PLAIN: Words = Words {
    by_field: false,
    descending: false,
    ignore_delete: false,
};

/// [W-31]: retracts before adds on a full tie, so that an add wins whatever the order of the runs.
#[test]
fn on_a_full_tie_an_add_beats_a_retract_and_else_the_later_run_wins() {
    let delete = Row {
        kind: kind::DELETE,
        ..row(1, 5, 1)
    };
    let add = row(1, 5, 2);
    for runs in [
        vec![vec![delete.clone()], vec![add.clone()]],
        vec![vec![add.clone()], vec![delete]],
    ] {
        let mut merger = merger(PLAIN, "deduplicate", 2, MergeOptions::default());
        assert_eq!(
            drive(&mut merger, &runs, 9).unwrap().0,
            std::slice::from_ref(&add)
        );
    }
    let runs = vec![vec![row(1, 5, 10)], vec![row(1, 5, 20)]];
    let mut merger = merger(PLAIN, "deduplicate", 2, MergeOptions::default());
    assert_eq!(drive(&mut merger, &runs, 9).unwrap().0, [row(1, 5, 20)]);
}

#[test]
fn a_run_that_is_not_sorted_is_an_error_within_a_batch_and_between_two() {
    for cut in [1, 2] {
        let runs = vec![vec![row(2, 1, 0), row(1, 2, 0)], vec![]];
        let mut merger = merger(PLAIN, "deduplicate", 2, MergeOptions::default());
        let error = drive(&mut merger, &runs, cut).unwrap_err().to_string();
        assert!(
            error.starts_with("run 0 is not sorted: key (id=1)"),
            "{error}"
        );
    }
}

#[test]
fn what_was_not_asked_for_is_refused() {
    let mut merger = merger(PLAIN, "deduplicate", 2, MergeOptions::default());
    assert!(matches!(merger.step().unwrap(), Step::Needs(0)));
    merger.push(0, batch(&[row(1, 1, 1)])).unwrap();
    assert!(matches!(
        merger.push(0, batch(&[row(2, 1, 1)])),
        Err(Error::Run { run: 0, .. })
    ));
    merger.end(1).unwrap();
    assert!(matches!(merger.end(1), Err(Error::Run { run: 1, .. })));
    assert!(matches!(merger.end(2), Err(Error::Run { run: 2, .. })));
}

#[test]
fn no_runs_and_runs_without_rows_are_done() {
    let mut none = merger(PLAIN, "deduplicate", 0, MergeOptions::default());
    assert!(matches!(none.step().unwrap(), Step::Done));
    let mut empty = merger(PLAIN, "deduplicate", 3, MergeOptions::default());
    assert_eq!(
        drive(&mut empty, &[vec![], vec![], vec![]], 1).unwrap(),
        (vec![], vec![])
    );
    let mut merger = merger(PLAIN, "deduplicate", 1, MergeOptions::default());
    merger.push(0, batch(&[])).unwrap();
    assert!(
        matches!(merger.step().unwrap(), Step::Needs(0)),
        "an empty batch is no end"
    );
}

#[test]
fn batches_of_another_form_are_refused_by_name() {
    let mut merger = merger(PLAIN, "deduplicate", 1, MergeOptions::default());
    let wrong = batch(&[Row {
        kind: 7,
        ..row(1, 1, 1)
    }]);
    assert!(
        merger
            .push(0, wrong)
            .unwrap_err()
            .to_string()
            .contains("_VALUE_KIND")
    );
    let mut columns = batch(&[row(1, 1, 1)]).columns().to_vec();
    columns[4] = std::sync::Arc::new(Int64Array::from(vec![1]));
    let fields: Vec<_> = schema()
        .fields()
        .iter()
        .zip(&columns)
        .map(|(f, c)| f.as_ref().clone().with_data_type(c.data_type().clone()))
        .collect();
    let other = RecordBatch::try_new(
        std::sync::Arc::new(arrow::datatypes::Schema::new(fields)),
        columns,
    );
    let message = merger.push(0, other.unwrap()).unwrap_err().to_string();
    assert!(message.contains("column 'v': comes as Int64"), "{message}");
    let without_key = schema().project(&[0, 1, 3, 4]).unwrap();
    let error = Merger::new(
        &spec(&[]),
        std::sync::Arc::new(without_key),
        1,
        MergeOptions::default(),
    );
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("column 'id': is part of the primary key")
    );
}

/// A slice shares the arrays of its batch: nothing was copied.
#[test]
fn a_run_alone_is_not_copied() {
    let all: Vec<Row> = (0..3000).map(|id| row(id, id, 0)).collect();
    let input = batch(&all);
    let mut merger = merger(PLAIN, "deduplicate", 2, MergeOptions::default());
    let mut given = Some(input.clone());
    let mut seen = 0;
    loop {
        match merger.step().unwrap() {
            Step::Needs(0) => match given.take() {
                Some(b) => merger.push(0, b).unwrap(),
                None => merger.end(0).unwrap(),
            },
            Step::Needs(run) => merger.end(run).unwrap(),
            Step::Batch(b) => {
                if seen == 0 {
                    let data = |b: &RecordBatch| b.column(4).to_data().buffers()[0].data_ptr();
                    assert_eq!(data(&b), data(&input));
                }
                seen += rows(&b).len();
            }
            Step::Changelog(_) => panic!("none was asked for"),
            Step::Done => break,
        }
    }
    assert_eq!(seen, 3000);
}
