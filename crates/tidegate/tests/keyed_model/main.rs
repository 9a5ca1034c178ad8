//! Keyed tables against a map: 100,000 random records per merge engine, with checkpoints, crashes at any
//! request, restarts and compactions between them. After every commit the content is the map's, and what
//! readers of changes fold is it too.
//!
//! `TIDEGATE_MODEL_SEED=N` plays one seed again (the name of a failure has it), `TIDEGATE_MODEL_RECORDS=N`
//! so many records per engine. The records, and at which request a process dies, are the seed's; where
//! barriers do not wait for compactions, it is the machine that decides which one takes them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::large_futures,
    clippy::print_stdout
)]

mod map;
mod play;
mod source;

use map::{Engine, Function, Group};
use play::Setup;
use source::{Draw, Type};

/// Records of one table: a history of some dozen snapshots, or some hundred.
const OF_A_PLAY: usize = 5_000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text}: no number")),
    )
}

/// Plays tables of one engine, each with options drawn by its seed.
/// `share` of a hundred is for this part of an engine.
fn plays(engine: &str, share: usize, setup: fn(&mut Draw) -> Setup) {
    let records = number("TIDEGATE_MODEL_RECORDS").unwrap_or(100_000) as usize * share / 100;
    let one = number("TIDEGATE_MODEL_SEED");
    let (mut sums, mut done) = ([0; 3], 0);
    for seed in one.map_or(1..u64::MAX, |seed| seed..seed + 1) {
        if done >= records {
            break;
        }
        let of_this = OF_A_PLAY.min(records - done).max(200);
        let mut setup = setup(&mut Draw(seed));
        drawn(&mut setup, &mut Draw(seed ^ 0xd4a7));
        let name = format!("{engine}, TIDEGATE_MODEL_SEED={seed}, {:?}", setup.options);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let counts = runtime.block_on(play::play(&setup, name, seed, of_this));
        (0..3).for_each(|i| sums[i] += counts[i]);
        done += of_this;
    }
    let [compared, partly, crashes] = sums;
    println!(
        "{engine}: {done} records, {compared} commits compared, {partly} of them with files on two levels \
         above 0, {crashes} crashes"
    );
    assert!(one.is_some() || (compared > records / 1000 && crashes > 0));
}

fn set(setup: &mut Setup, name: &str, value: &str) {
    setup.options.push((name.to_owned(), value.to_owned()));
}

/// Options that change no content.
fn drawn(setup: &mut Setup, draw: &mut Draw) {
    match draw.below(4) {
        0 => {
            set(setup, "bucket", "-1");
            set(setup, "dynamic-bucket.target-row-num", "15");
        }
        n => set(setup, "bucket", &n.to_string()),
    }
    let first_row = matches!(setup.engine, Engine::FirstRow);
    match draw.below(5) {
        _ if first_row => {}
        0 | 1 => {}
        2 => set(setup, "changelog-producer", "input"),
        _ => set(setup, "changelog-producer", "full-compaction"),
    }
    if draw.percent(30) && !first_row {
        let every = (1 + draw.below(4)).to_string();
        set(setup, "full-compaction.delta-commits", &every);
    }
    // Small files are soon as large as what they are merged with, and everything is merged then; without
    // this, only newer runs often are, and deletes must outlive that.
    if draw.percent(70) {
        set(
            setup,
            "compaction.max-size-amplification-percent",
            "1000000",
        );
    }
    // A process that is dead goes on asking its store: not for long.
    set(setup, "commit.max-retries", "1");
    set(setup, "commit.min-retry-wait", "1 ms");
    set(setup, "commit.max-retry-wait", "1 ms");
    let trigger = (2 + draw.below(4)).to_string();
    set(setup, "num-sorted-run.compaction-trigger", &trigger);
    if draw.percent(40) {
        set(setup, "commit.force-compact", "true");
    }
    if draw.percent(15) && !first_row {
        set(setup, "write-only", "true");
    }
    if draw.percent(20) {
        set(setup, "data-file.thin-mode", "true");
    }
}

#[test]
fn deduplicate_is_a_map_of_the_newest_records() {
    plays("deduplicate", 100, |draw| {
        let ordered = draw.percent(50);
        let mut setup = Setup {
            engine: Engine::Deduplicate {
                sequence: ordered.then_some(0),
            },
            columns: vec![("s", Type::Number), ("a", Type::Number), ("b", Type::Text)],
            options: Vec::new(),
        };
        if ordered {
            set(&mut setup, "sequence.field", "s");
        }
        setup
    });
}

#[test]
fn first_row_is_a_map_of_the_first_records() {
    plays("first-row", 100, |_| {
        let mut setup = Setup {
            engine: Engine::FirstRow,
            columns: vec![("a", Type::Number), ("b", Type::Text)],
            options: Vec::new(),
        };
        set(&mut setup, "merge-engine", "first-row");
        set(&mut setup, "ignore-delete", "true");
        setup
    });
}

#[test]
fn partial_update_fills_a_map_group_by_group() {
    plays("partial-update", 70, |draw| {
        let which = draw.below(3);
        let mut groups = vec![
            Group {
                ordering: 0,
                plain: vec![1, 2],
                computed: Vec::new(),
                removes: false,
            },
            Group {
                ordering: 3,
                plain: vec![4],
                computed: Vec::new(),
                removes: which == 1,
            },
        ];
        let mut options = vec![
            ("merge-engine", "partial-update"),
            ("fields.g1.sequence-group", "a,b"),
            ("fields.g2.sequence-group", "c,d"),
        ];
        match which {
            // Rows go where the second group says so; nothing computed, since a row that comes again would
            // add to what stood before.
            1 => {
                groups[1].plain.push(5);
                options.push(("partial-update.remove-record-on-sequence-group", "g2"));
            }
            _ => {
                let (function, name) = match which {
                    0 => (Function::Sum, "sum"),
                    _ => (Function::Max, "max"),
                };
                groups[1].computed.push((5, function));
                options.push(("fields.d.aggregate-function", name));
                options.push(("fields.d.ignore-retract", "true"));
            }
        }
        Setup {
            engine: Engine::PartialUpdate {
                free: vec![6],
                groups,
                delete_removes: false,
            },
            columns: vec![
                ("g1", Type::Number),
                ("a", Type::Number),
                ("b", Type::Text),
                ("g2", Type::Number),
                ("c", Type::Text),
                ("d", Type::Number),
                ("f", Type::Text),
            ],
            options: options
                .into_iter()
                .map(|(n, v)| (n.to_owned(), v.to_owned()))
                .collect(),
        }
    });
}

#[test]
fn partial_update_without_groups_removes_rows_on_delete() {
    plays("partial-update, removing", 30, |_| {
        let mut setup = Setup {
            engine: Engine::PartialUpdate {
                free: vec![0, 1, 2],
                groups: Vec::new(),
                delete_removes: true,
            },
            columns: vec![("a", Type::Number), ("b", Type::Text), ("c", Type::Truth)],
            options: Vec::new(),
        };
        set(&mut setup, "merge-engine", "partial-update");
        set(&mut setup, "partial-update.remove-record-on-delete", "true");
        setup
    });
}

#[test]
fn aggregation_computes_a_map_column_by_column() {
    plays("aggregation", 100, |draw| {
        let ordered = draw.percent(30);
        // With an order of its own only what does not depend on the order of merges.
        let functions: Vec<(&str, Type, Function, &str)> = match ordered {
            true => vec![
                ("s", Type::Number, Function::LastValue, ""),
                ("total", Type::Number, Function::Sum, "sum"),
                ("most", Type::Number, Function::Max, "max"),
                ("least", Type::Text, Function::Min, "min"),
                ("newest", Type::Text, Function::LastValue, "last_value"),
            ],
            false => vec![
                ("total", Type::Number, Function::Sum, "sum"),
                ("most", Type::Number, Function::Max, "max"),
                ("least", Type::Text, Function::Min, "min"),
                ("newest", Type::Text, Function::LastValue, "last_value"),
                (
                    "known",
                    Type::Text,
                    Function::LastNonNull,
                    "last_non_null_value",
                ),
                ("oldest", Type::Number, Function::FirstValue, "first_value"),
                (
                    "eldest",
                    Type::Text,
                    Function::FirstNonNull,
                    "first_non_null_value",
                ),
                ("list", Type::Text, Function::Concatenate, "listagg"),
                ("every", Type::Truth, Function::And, "bool_and"),
                ("any", Type::Truth, Function::Or, "bool_or"),
            ],
        };
        let mut setup = Setup {
            engine: Engine::Aggregation {
                functions: functions.iter().map(|f| f.2).collect(),
                sequence: ordered.then_some(0),
            },
            columns: functions.iter().map(|f| (f.0, f.1)).collect(),
            options: Vec::new(),
        };
        set(&mut setup, "merge-engine", "aggregation");
        set(&mut setup, "fields.op.ignore-retract", "true");
        if ordered {
            set(&mut setup, "sequence.field", "s");
        }
        for (column, _, function, name) in functions.iter().filter(|f| !f.3.is_empty()) {
            set(
                &mut setup,
                &format!("fields.{column}.aggregate-function"),
                name,
            );
            if !matches!(function, Function::Sum | Function::LastValue) {
                set(
                    &mut setup,
                    &format!("fields.{column}.ignore-retract"),
                    "true",
                );
            }
        }
        setup
    });
}
