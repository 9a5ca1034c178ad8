//! One seed is one schedule, and none breaks a promise.

use tidegate_simulation::{schedule, script};

/// The same requests in the same order with the same fates, and the same bytes in the store at the end.
#[test]
fn a_seed_gives_the_same_trace_twice() {
    let tasks = std::thread::available_parallelism().map_or(2, usize::from) as u64;
    let differing: Vec<String> = std::thread::scope(|scope| {
        let part = |nth| {
            let seeds = (nth..200).step_by(tasks as usize);
            seeds.filter_map(|seed| Some(format!("seed {seed}: {}", schedule::difference(seed)?)))
        };
        let threads: Vec<_> = (0..tasks)
            .map(|nth| scope.spawn(move || part(nth).collect::<Vec<_>>()))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_default())
            .collect()
    });
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// What a seed has decided is a script that needs no seed.
#[test]
fn the_decisions_of_a_seed_play_as_a_script() {
    for seed in 0..10 {
        let played = schedule::of_seed(seed, true);
        let text = script::write(&played);
        let numbers = script::read(&text).unwrap_or_default();
        assert_eq!(
            schedule::of_script(&numbers, true).trace,
            played.trace,
            "seed {seed}"
        );
    }
}

/// A few in every test; `cargo xtask simulate` plays as many as one likes.
#[test]
fn no_schedule_breaks_a_promise() {
    let mut counting = 0;
    for seed in 0..40 {
        let report = schedule::of_seed(seed, false);
        assert_eq!(report.verdict, Ok(()), "seed {seed}");
        counting += u32::from(report.counts());
    }
    assert!(
        counting > 20,
        "{counting} of 40 schedules have enough happening in them"
    );
}

/// Schedules that once broke something, minimised.
#[test]
fn what_once_broke_holds() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.retain(|path| path.extension().is_some_and(|e| e == "sim"));
    files.sort();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let numbers = script::read(&text);
        assert!(numbers.is_ok(), "{}: {numbers:?}", path.display());
        let report = schedule::of_script(&numbers.unwrap_or_default(), false);
        assert_eq!(report.verdict, Ok(()), "{}", path.display());
    }
}
