use super::*;
use crate::testing::{at, file, names, order};
use proptest::prelude::*;
use tidegate_model::{DataField, TableSchema};

const NOON: Now = Now {
    millis: 1_000_000,
    hour: 12,
};

fn options(given: &[(&str, &str)]) -> CompactionOptions {
    let columns = vec![DataField::new("id", "INT".parse().unwrap())];
    let given = given.iter().copied().chain([("bucket", "1")]).collect();
    CompactionOptions::of(
        &TableSchema::create(columns, vec![], vec!["id".into()], given, None, 0).unwrap(),
    )
    .unwrap()
}

/// Files of these (level, size), all with the same keys; those of level 0 newest first.
fn levels(runs: &[(i32, i64)]) -> Levels {
    let files = runs
        .iter()
        .enumerate()
        .map(|(i, (level, size))| DataFileMeta {
            file_size: *size,
            max_sequence_number: 1000 - i as i64,
            ..at(*level, &format!("{i}"), 1, 9)
        });
    Levels::new(files, order(), 6).unwrap()
}

fn compaction(levels: &Levels, given: &[(&str, &str)]) -> Compaction {
    Compaction::new(options(given), Circumstances::default(), levels)
}

/// How many files go to which level.
fn picked(runs: &[(i32, i64)], given: &[(&str, &str)]) -> Option<(usize, i32)> {
    let levels = levels(runs);
    let pick = compaction(&levels, given).pick(&levels, NOON)?;
    // Always the newest ones, without a gap.
    let all: Vec<_> = levels
        .runs()
        .iter()
        .flat_map(|r| r.run.files.clone())
        .collect();
    assert_eq!(names(&pick.files), names(&all[..pick.files.len()]));
    Some((pick.files.len(), pick.output.0))
}

#[test]
fn below_the_trigger_nothing_is_picked() {
    assert_eq!(picked(&[(0, 1), (0, 1), (0, 1), (0, 1)], &[]), None);
    assert_eq!(picked(&[], &[]), None);
}

#[test]
fn too_much_above_the_oldest_run_goes_all_to_the_top() {
    // 4 × 60 > 2 × 100
    assert_eq!(
        picked(&[(0, 60), (0, 60), (0, 60), (0, 60), (5, 100)], &[]),
        Some((5, 5))
    );
    // With 200 % exactly it is not yet too much; then the ratio decides.
    assert_eq!(
        picked(&[(0, 50), (0, 50), (0, 50), (0, 50), (5, 100)], &[]),
        Some((5, 5))
    );
    assert_eq!(
        picked(&[(0, 1), (0, 1), (0, 1), (0, 1), (5, 100)], &[]),
        Some((4, 4))
    );
    let strict = [("compaction.max-size-amplification-percent", "3")];
    assert_eq!(
        picked(&[(0, 1), (0, 1), (0, 1), (0, 1), (5, 100)], &strict),
        Some((5, 5))
    );
}

#[test]
fn runs_are_added_while_the_next_one_is_about_as_large() {
    // 1 + 1 + 2 against 9: stops before level 3, so the output is level 2.
    let runs = [(0, 1), (0, 1), (0, 2), (3, 900), (4, 901), (5, 10_000_000)];
    assert_eq!(picked(&runs, &[]), Some((3, 2)));
    // A ratio that takes the next one in.
    assert_eq!(
        picked(&runs, &[("compaction.size-ratio", "30000")]),
        Some((5, 4))
    );
    // The same at night only.
    let night = [
        ("compaction.offpeak.start.hour", "11"),
        ("compaction.offpeak.end.hour", "13"),
        ("compaction.offpeak-ratio", "30000"),
    ];
    assert_eq!(picked(&runs, &night), Some((5, 4)));
}

/// [W-41].2: once something was added, levels 0 and 1 go along regardless of size.
#[test]
fn levels_0_and_1_go_along_whatever_their_size() {
    let runs = [(0, 1), (0, 1), (0, 500), (1, 9_000), (4, 100_000)];
    assert_eq!(picked(&runs, &[]), Some((4, 3)));
    // But a first run that is smaller than its neighbour triggers nothing.
    assert_eq!(
        picked(
            &[(0, 1), (0, 500), (0, 9_000), (1, 9_000), (4, 100_000)],
            &[]
        ),
        None
    );
}

#[test]
fn too_many_runs_are_brought_down_to_the_trigger() {
    let runs = [
        (0, 1),
        (0, 500),
        (0, 9_000),
        (2, 90_000),
        (3, 500_000),
        (4, 5_000_000),
    ];
    // Two candidates, then level 0 along; the next run is level 2: output 1.
    assert_eq!(picked(&runs, &[]), Some((3, 1)));
}

/// [W-42]: nothing goes to level 0.
#[test]
fn an_output_of_level_0_takes_runs_up_to_one_above() {
    // Only level 0: all of it goes to the top.
    assert_eq!(
        picked(&[(0, 1), (0, 1), (0, 1), (0, 1), (0, 1_000)], &[]),
        Some((5, 5))
    );
    let upward = |given: &[LevelRun], count| {
        let (count, level) = output(given, count, Level(5));
        (count, level.0)
    };
    let runs = levels(&[(0, 1), (0, 1), (1, 1), (3, 1)]).runs();
    assert_eq!(upward(&runs, 1), (3, 1));
    assert_eq!(
        upward(&runs, 2),
        (3, 1),
        "next is level 1, and 0 is no output"
    );
    assert_eq!(upward(&runs, 3), (3, 2));
    assert_eq!(upward(&runs, 4), (4, 5));
    // Where that takes all runs, it goes to the top.
    assert_eq!(upward(&levels(&[(0, 1), (0, 1), (1, 1)]).runs(), 1), (3, 5));
    assert_eq!(upward(&levels(&[(0, 1), (0, 1)]).runs(), 1), (2, 5));
}

#[test]
fn early_full_compactions_by_time_and_size() {
    let runs = [(0, 10), (5, 1_000)];
    assert_eq!(picked(&runs, &[]), None);
    assert_eq!(
        picked(&runs, &[("compaction.total-size-threshold", "1011")]),
        Some((2, 5))
    );
    assert_eq!(
        picked(&runs, &[("compaction.total-size-threshold", "1010")]),
        None
    );
    assert_eq!(
        picked(&runs, &[("compaction.incremental-size-threshold", "9")]),
        Some((2, 5))
    );
    assert_eq!(
        picked(&runs, &[("compaction.incremental-size-threshold", "10")]),
        None
    );
    assert_eq!(
        picked(&runs[1..], &[("compaction.total-size-threshold", "1 gb")]),
        None,
        "one run"
    );

    // The top's files were made at 0: due after the interval, and then again after it.
    let levels = levels(&runs);
    let mut compaction = compaction(&levels, &[("compaction.optimization-interval", "100 s")]);
    let mut at = |millis| {
        compaction
            .pick(&levels, Now { millis, hour: 0 })
            .map(|p| p.files.len())
    };
    assert_eq!(
        [at(100_000), at(100_001), at(200_001), at(200_002)],
        [None, Some(2), None, Some(2)]
    );
}

/// [W-43]
#[test]
fn level_0_is_lifted_radically_or_gently() {
    let runs = [(0, 1), (0, 1), (3, 1_000)];
    assert_eq!(picked(&runs, &[]), None);
    assert_eq!(
        picked(&runs, &[("compaction.force-up-level-0", "true")]),
        Some((2, 2))
    );
    assert_eq!(
        picked(&runs, &[("changelog-producer", "lookup")]),
        Some((2, 2))
    );
    assert_eq!(
        picked(&runs[2..], &[("changelog-producer", "lookup")]),
        None,
        "no level 0"
    );
    let levels = levels(&runs);
    let gentle = [
        ("changelog-producer", "lookup"),
        ("lookup-compact", "gentle"),
        ("lookup-compact.max-interval", "6"),
    ];
    let mut compaction = compaction(&levels, &gentle);
    let found: Vec<_> = (0..12)
        .map(|_| compaction.pick(&levels, NOON).is_some())
        .collect();
    let every_sixth: Vec<_> = (1..=12).map(|i| i % 6 == 0).collect();
    assert_eq!(found, every_sixth);
}

/// [W-44]
#[test]
fn a_full_compaction_takes_everything_or_what_must_be_rewritten_at_the_top() {
    let lower = levels(&[(0, 1), (5, 1)]);
    let pick = compaction(&lower, &[])
        .pick_full(&lower, NOON, |_| false)
        .unwrap();
    assert_eq!(
        (pick.files.len(), pick.output, pick.file_by_file),
        (2, Level(5), false)
    );

    let files = vec![at(5, "a", 1, 2), at(5, "b", 3, 4)];
    let top = Levels::new(files, order(), 6).unwrap();
    assert_eq!(compaction(&top, &[]).pick_full(&top, NOON, |_| false), None);
    let pick = compaction(&top, &[])
        .pick_full(&top, NOON, |f| f.file_name == "b")
        .unwrap();
    assert_eq!((names(&pick.files), pick.file_by_file), (vec!["b"], true));
    let all = [("compaction.force-rewrite-all-files", "true")];
    assert_eq!(
        compaction(&top, &all)
            .pick_full(&top, NOON, |_| false)
            .unwrap()
            .files
            .len(),
        2
    );

    let one = Levels::new(vec![file("a", 1, 2)], order(), 6).unwrap();
    assert_eq!(
        compaction(&one, &[])
            .pick_full(&one, NOON, |_| false)
            .unwrap()
            .output,
        Level(5)
    );
    let empty = Levels::new(vec![], order(), 6).unwrap();
    assert_eq!(
        compaction(&empty, &[]).pick_full(&empty, NOON, |_| true),
        None
    );
}

/// [W-45]
#[test]
fn deletes_go_only_where_nothing_older_lies_below() {
    let drops = |runs: &[(i32, i64)], circumstances| {
        let levels = levels(runs);
        let lift = options(&[("compaction.force-up-level-0", "true")]);
        Compaction::new(lift, circumstances, &levels)
            .pick(&levels, NOON)
            .unwrap()
            .drop_deletes
    };
    let plain = Circumstances::default();
    assert!(drops(&[(0, 1), (0, 1)], plain));
    assert!(
        !drops(&[(0, 1), (4, 1_000)], plain),
        "level 4 may hold what is deleted"
    );
    let vectors = Circumstances {
        deletion_vectors: true,
        ..plain
    };
    assert!(drops(&[(0, 1), (4, 1_000)], vectors));
    let keep = Circumstances {
        keep_deletes: true,
        ..vectors
    };
    assert!(!drops(&[(0, 1), (0, 1)], keep));
}

#[test]
fn writers_wait_above_the_stop_trigger_and_checkpoints_above_one_more() {
    let runs = |n: usize| levels(&vec![(0, 1); n]);
    let of = |n| {
        let levels = runs(n);
        let c = compaction(&levels, &[]);
        (c.stalls_writes(&levels), c.stalls_checkpoints(&levels))
    };
    assert_eq!(
        [of(8), of(9), of(10)],
        [(false, false), (true, false), (true, true)]
    );
}

proptest! {
    /// Whatever the tree: no output at level 0, nothing lower than what it passes, and picking until
    /// nothing is picked ends with no more runs than the trigger.
    #[test]
    fn picks_keep_the_tree_in_order_and_come_to_rest(
        flushes in prop::collection::vec(1i64..1000, 1..40), trigger in 2usize..7, lift in any::<bool>(),
    ) {
        let trigger_text = trigger.to_string();
        let given = [
            ("num-sorted-run.compaction-trigger", trigger_text.as_str()),
            ("compaction.force-up-level-0", if lift { "true" } else { "false" }),
        ];
        let mut levels = Levels::new(vec![], order(), options(&given).num_levels).unwrap();
        let mut compaction = compaction(&levels, &given);
        for (i, size) in (1i64..).zip(flushes) {
            let flushed = DataFileMeta {
                file_size: size,
                min_sequence_number: i,
                max_sequence_number: i,
                ..file(&format!("f{i}"), 1, 9)
            };
            levels.apply(&[], &[flushed]).unwrap();
            let mut rounds = 0;
            while let Some(pick) = compaction.pick(&levels, NOON) {
                rounds += 1;
                prop_assert!(rounds < 20, "never comes to rest");
                prop_assert!(pick.output > Level(0) && pick.output <= levels.max_level());
                let newest_left = levels.runs().iter().skip_while(|r| pick.files.contains(&r.run.files[0]))
                    .map(|r| r.level).next();
                if let Some(left) = newest_left {
                    prop_assert!(left > pick.output, "{left} is passed by {}", pick.output);
                }
                let highest = levels.highest_non_empty().unwrap();
                prop_assert!(!pick.drop_deletes || pick.output >= highest);
                let merged = DataFileMeta {
                    file_size: pick.files.iter().map(|f| f.file_size).sum(),
                    max_sequence_number: pick.files.iter().map(|f| f.max_sequence_number).max().unwrap(),
                    ..at(pick.output.0, &format!("c{i}-{rounds}"), 1, 9)
                };
                levels.apply(&pick.files, &[merged]).unwrap();
            }
            prop_assert!(levels.run_count() <= trigger);
            prop_assert!(!lift || levels.files(Level(0)).is_empty());
        }
    }
}
