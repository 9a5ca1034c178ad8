use crate::kind::{DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, is_retract};
use crate::merger::{Changelog, Deletes, MergeOptions, Merger, Step};
use crate::testing::{Row, batch, rows, schema, spec};
use crate::{MergeSpec, Result};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tidegate_model::Level;

/// A sorted run at a level; `old` ones take no part in the compaction.
#[derive(Clone, Debug)]
struct Run {
    level: i32,
    old: bool,
    rows: Vec<Row>,
}

const TOP: i32 = 5;

fn drive(
    spec: &MergeSpec,
    runs: &[Run],
    cut: usize,
    options: MergeOptions,
) -> Result<(Vec<Row>, Vec<Row>)> {
    let mut merger = Merger::new(spec, schema(), runs.len(), options)?;
    let mut fed = vec![0; runs.len()];
    let (mut merged, mut changelog) = (Vec::new(), Vec::new());
    loop {
        match merger.step()? {
            Step::Needs(at) => {
                let run = &runs[at];
                let (from, to) = (fed[at], (fed[at] + cut).min(run.rows.len()));
                fed[at] = to;
                let level = Level(run.level);
                match (from == to, run.old) {
                    (true, _) => merger.end(at)?,
                    (_, true) => merger.push_old(at, batch(&run.rows[from..to]), level)?,
                    _ => merger.push_at(at, batch(&run.rows[from..to]), level)?,
                }
            }
            Step::Batch(b) => merged.extend(rows(&b)),
            Step::Changelog(b) => changelog.extend(rows(&b)),
            Step::Done => return Ok((merged, changelog)),
        }
    }
}

/// Level 0 twice or more often, some levels above, some of them old; each key once per run.
fn trees() -> impl Strategy<Value = Vec<Run>> {
    let row = (0i64..14, 0i8..4, prop::option::of(0i32..3), 0i32..3);
    let run = (
        prop::collection::vec(row, 0..10),
        prop::sample::select(vec![0, 0, 0, 2, 3, TOP]),
    );
    prop::collection::vec(run, 1..6).prop_map(|given| {
        let mut out: Vec<Run> = Vec::new();
        for (i, (rows, level)) in given.into_iter().enumerate() {
            if level > 0 && out.iter().any(|r| r.level == level) {
                continue;
            }
            // Sequence numbers fall with the level, as in a tree that grew.
            let base = (10 - i64::from(level)) * 1000 + i as i64 * 100;
            let keyed: BTreeMap<i64, Row> = rows
                .into_iter()
                .zip(0i64..)
                .map(|((id, kind, s, v), n)| {
                    (
                        id,
                        Row {
                            id,
                            sequence: base + n,
                            kind,
                            s,
                            v,
                        },
                    )
                })
                .collect();
            out.push(Run {
                level,
                old: false,
                rows: keyed.into_values().collect(),
            });
        }
        out
    })
}

/// Versions of each key with their run, oldest first.
fn grouped(runs: &[Run]) -> BTreeMap<i64, Vec<(Row, Run)>> {
    let mut out: BTreeMap<i64, Vec<(Row, Run)>> = BTreeMap::new();
    for run in runs {
        for row in &run.rows {
            out.entry(row.id)
                .or_default()
                .push((row.clone(), run.clone()));
        }
    }
    out.values_mut()
        .for_each(|versions| versions.sort_by_key(|(row, _)| row.sequence));
    out
}

/// `deduplicate`, or `aggregation` with v summed and s last_non_null_value.
fn merge_by_hand(versions: &[Row], sums: bool, singles_too: bool) -> Row {
    let newest = versions.last().unwrap().clone();
    if !sums || (versions.len() == 1 && !singles_too) {
        return newest;
    }
    let mut out = Row {
        kind: INSERT,
        s: None,
        v: 0,
        ..newest
    };
    for row in versions {
        if is_retract(row.kind) {
            out.v -= row.v;
            if row.s.is_some() {
                out.s = None;
            }
        } else {
            out.v += row.v;
            out.s = row.s.or(out.s);
        }
    }
    out
}

fn told(old: Option<&Row>, new: &Row, deduplicate: bool, out: &mut Vec<Row>) {
    let of = |row: &Row, kind| Row {
        kind,
        ..row.clone()
    };
    match (old.filter(|r| !is_retract(r.kind)), is_retract(new.kind)) {
        (None, true) => {}
        (None, false) => out.push(of(new, INSERT)),
        (Some(old), true) => out.push(of(old, DELETE)),
        (Some(old), false) if deduplicate && (old.s, old.v) == (new.s, new.v) => {}
        (Some(old), false) => out.extend([of(old, UPDATE_BEFORE), of(new, UPDATE_AFTER)]),
    }
}

fn options_of(sums: bool, deduplicate: bool) -> Vec<(&'static str, &'static str)> {
    let mut out = vec![(
        "changelog-producer.row-deduplicate",
        if deduplicate { "true" } else { "false" },
    )];
    if sums {
        out.extend([
            ("merge-engine", "aggregation"),
            ("fields.v.aggregate-function", "sum"),
        ]);
    }
    out
}

/// Applies a changelog to a state and refuses what does not follow.
fn fold(state: &mut BTreeMap<i64, (Option<i32>, i32)>, changelog: &[Row]) {
    for row in changelog {
        let value = (row.s, row.v);
        match row.kind {
            INSERT => assert_eq!(
                state.insert(row.id, value),
                None,
                "+I of a key that is there"
            ),
            UPDATE_BEFORE | DELETE => assert_eq!(state.remove(&row.id), Some(value), "{row:?}"),
            _ => assert_eq!(state.insert(row.id, value), None, "+U without its -U"),
        }
    }
}

fn state(rows: &[Row]) -> BTreeMap<i64, (Option<i32>, i32)> {
    rows.iter()
        .filter(|r| !is_retract(r.kind))
        .map(|r| (r.id, (r.s, r.v)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// [W-52], and case B45: the top level, with the changelog applied, is the new top level.
    #[test]
    fn a_full_compaction_tells_what_changed_against_the_top(
        mut runs in trees(), cut in 1usize..5, sums in any::<bool>(), deduplicate in any::<bool>(),
    ) {
        // The top holds no deletes.
        runs.iter_mut().filter(|r| r.level == TOP).for_each(|r| r.rows.retain(|r| !is_retract(r.kind)));
        let spec = spec(&options_of(sums, deduplicate));
        let changelog = Changelog::FullCompaction { top: Level(TOP) };
        let options = MergeOptions { batch_rows: 3, changelog, ..MergeOptions::default() };
        let (merged, changes) = drive(&spec, &runs, cut, options).unwrap();
        let (mut expected, mut by_hand) = (Vec::new(), Vec::new());
        for versions in grouped(&runs).values() {
            let all: Vec<Row> = versions.iter().map(|(row, _)| row.clone()).collect();
            let old = versions.iter().find(|(_, run)| run.level == TOP).map(|(row, _)| row);
            let new = merge_by_hand(&all, sums, false);
            if old.is_none() || versions.len() > 1 {
                told(old, &new, deduplicate, &mut by_hand);
            }
            if !is_retract(new.kind) {
                expected.push(new);
            }
        }
        prop_assert_eq!(&merged, &expected);
        prop_assert_eq!(&changes, &by_hand);
        let top: Vec<Row> = runs.iter().filter(|r| r.level == TOP).flat_map(|r| r.rows.clone()).collect();
        let mut folded = state(&top);
        fold(&mut folded, &changes);
        prop_assert_eq!(folded, state(&merged));
    }

    /// [W-53]: only level 0 and the lowest record above it count; references are read, not written.
    #[test]
    fn a_look_up_compaction_tells_what_level_0_changed(
        mut runs in trees(), old_from in 1i32..7, cut in 1usize..5, sums in any::<bool>(),
        deduplicate in any::<bool>(), drops in any::<bool>(),
    ) {
        runs.iter_mut().for_each(|r| r.old = r.level >= old_from);
        let spec = spec(&options_of(sums, deduplicate));
        let deletes = if drops { Deletes::Drop } else { Deletes::Keep };
        let options = MergeOptions { batch_rows: 3, changelog: Changelog::Lookup, deletes };
        let (merged, changes) = drive(&spec, &runs, cut, options).unwrap();
        let (mut expected, mut by_hand) = (Vec::new(), Vec::new());
        for versions in grouped(&runs).values() {
            if versions.iter().all(|(_, run)| run.old) {
                continue;
            }
            let above = |old: bool| {
                let of = versions.iter().filter(|(_, run)| run.level > 0 && run.old == old);
                of.min_by_key(|(_, run)| run.level)
            };
            let before = above(false).or(above(true)).map(|(row, _)| row);
            let counted: Vec<Row> = versions
                .iter()
                .filter(|(row, run)| run.level == 0 || Some(row) == before)
                .map(|(row, _)| row.clone())
                .collect();
            let new = merge_by_hand(&counted, sums, true);
            if versions.iter().any(|(_, run)| run.level == 0) {
                told(before, &new, deduplicate, &mut by_hand);
            }
            if !(drops && is_retract(new.kind)) {
                expected.push(new);
            }
        }
        prop_assert_eq!(merged, expected);
        prop_assert_eq!(changes, by_hand);
    }

    /// [W-54]: what lies above wins; a key that is new is told once.
    #[test]
    fn first_row_keeps_what_lies_above(mut runs in trees(), old_from in 1i32..7, cut in 1usize..5) {
        for run in &mut runs {
            run.old = run.level >= old_from;
            run.rows.iter_mut().for_each(|r| r.kind = if is_retract(r.kind) { INSERT } else { r.kind });
        }
        let spec = spec(&[("merge-engine", "first-row"), ("changelog-producer", "lookup")]);
        let options =
            MergeOptions { batch_rows: 3, changelog: Changelog::Lookup, ..MergeOptions::default() };
        let (merged, changes) = drive(&spec, &runs, cut, options).unwrap();
        let (mut expected, mut by_hand) = (Vec::new(), Vec::new());
        for versions in grouped(&runs).values() {
            let merged_above = versions.iter().any(|(_, run)| run.level > 0 && !run.old);
            let read_above = versions.iter().any(|(_, run)| run.old);
            let first = versions.iter().find(|(_, run)| !run.old).map(|(row, _)| row.clone());
            match first {
                Some(first) if merged_above => expected.push(first),
                Some(first) if !read_above => {
                    by_hand.push(Row { kind: INSERT, ..first.clone() });
                    expected.push(first);
                }
                _ => {}
            }
        }
        prop_assert_eq!(merged, expected);
        prop_assert_eq!(changes, by_hand);
    }
}

fn row(id: i64, sequence: i64, kind: i8, v: i32) -> Row {
    Row {
        id,
        sequence,
        kind,
        s: Some(1),
        v,
    }
}

/// Slices go past the groups: their changelog must be the same.
#[test]
fn long_stretches_are_told_row_by_row() {
    let run = |level, old, from: i64, to: i64| Run {
        level,
        old,
        rows: (from..to)
            .map(|id| row(id, id, if id % 9 == 0 { DELETE } else { UPDATE_AFTER }, 7))
            .collect(),
    };
    let spec = spec(&[]);
    let count = |from: i64, to: i64| (from..to).filter(|id| id % 9 != 0).count();
    let runs = [
        run(0, false, 0, 2000),
        run(2, false, 3000, 5000),
        run(4, true, 6000, 8000),
    ];
    for cut in [700, 5000] {
        let options = MergeOptions {
            changelog: Changelog::Lookup,
            ..MergeOptions::default()
        };
        let (merged, changes) = drive(&spec, &runs, cut, options).unwrap();
        assert_eq!(
            merged.len(),
            4000,
            "references are not written, deletes stay"
        );
        assert_eq!(changes.len(), count(0, 2000));
        assert!(changes.iter().all(|r| r.kind == INSERT && r.id < 2000));
    }
    let runs = [run(0, false, 0, 2000), run(TOP, false, 3000, 5000)];
    let changelog = Changelog::FullCompaction { top: Level(TOP) };
    let options = MergeOptions {
        changelog,
        ..MergeOptions::default()
    };
    let (merged, changes) = drive(&spec, &runs, 5000, options).unwrap();
    assert_eq!(merged.len(), count(0, 2000) + count(3000, 5000));
    assert_eq!(changes.len(), count(0, 2000));
}

/// `changelog-producer.row-deduplicate-ignore-fields`
#[test]
fn ignored_columns_alone_are_no_change() {
    let runs = [
        Run {
            level: TOP,
            old: false,
            rows: vec![row(1, 1, INSERT, 7), row(2, 2, INSERT, 7)],
        },
        Run {
            level: 0,
            old: false,
            rows: vec![
                row(1, 3, INSERT, 8),
                Row {
                    s: Some(2),
                    ..row(2, 4, INSERT, 7)
                },
            ],
        },
    ];
    let changelog = Changelog::FullCompaction { top: Level(TOP) };
    let options = MergeOptions {
        changelog,
        ..MergeOptions::default()
    };
    let changes = |given: &[(&str, &str)]| {
        let (_, changes) = drive(&spec(given), &runs, 9, options).unwrap();
        changes.iter().map(|r| r.id).collect::<Vec<_>>()
    };
    let deduplicate = ("changelog-producer.row-deduplicate", "true");
    assert_eq!(changes(&[deduplicate]), [1, 1, 2, 2]);
    let ignore = ("changelog-producer.row-deduplicate-ignore-fields", "v");
    assert_eq!(changes(&[deduplicate, ignore]), [2, 2]);
}

#[test]
fn two_records_at_the_top_and_references_without_a_look_up_are_errors() {
    let twice = Run {
        level: TOP,
        old: false,
        rows: vec![row(1, 1, INSERT, 7)],
    };
    let changelog = Changelog::FullCompaction { top: Level(TOP) };
    let options = MergeOptions {
        changelog,
        ..MergeOptions::default()
    };
    let error = drive(&spec(&[]), &[twice.clone(), twice.clone()], 9, options)
        .unwrap_err()
        .to_string();
    assert!(error.contains("level 5 has two records of it"), "{error}");
    let old = Run { old: true, ..twice };
    let error = drive(&spec(&[]), &[old], 9, options)
        .unwrap_err()
        .to_string();
    assert!(error.contains("Changelog::Lookup"), "{error}");
}
