//! Killed at each named place of a checkpoint, for unaware and for fixed buckets.

use std::collections::BTreeMap;
use tidegate_tests::lab::{Generator, Lab};

const PLACES: [&str; 7] = [
    "before-checkpoint",
    "prepared",
    "recorded",
    "before-publish",
    "published",
    "answered",
    "notified",
];

fn job(bucket: i32) -> Generator<'static> {
    Generator {
        rows: Some(600),
        rate: Some(1500),
        interval: Some("100 ms"),
        bucket,
        ..Generator::default()
    }
}

/// Sequence ranges of the files of a bucket never overlap, and are dense from 0.
fn sequences_do_not_overlap(lab: &Lab) {
    let mut buckets: BTreeMap<(String, i64), Vec<(i64, i64)>> = BTreeMap::new();
    for file in lab.data_files() {
        let bucket = (
            file["partition"].to_string(),
            file["bucket"].as_i64().unwrap(),
        );
        let range = (
            file["min_sequence_number"].as_i64().unwrap(),
            file["max_sequence_number"].as_i64().unwrap(),
        );
        buckets.entry(bucket).or_default().push(range);
    }
    assert!(buckets.len() > 1, "several buckets are looked at");
    for (bucket, mut ranges) in buckets {
        ranges.sort_unstable();
        let mut next = 0;
        for (min, max) in ranges {
            assert_eq!(min, next, "bucket {bucket:?}");
            next = max + 1;
        }
    }
}

fn killed_at_each_place(bucket: i32) {
    for place in PLACES {
        let lab = Lab::new();
        lab.generator(&job(bucket));
        lab.run_slowly_to(&format!("{place}:2"), 200).killed();
        lab.run(&[]).expect(0);
        lab.whole(600);
        if bucket > 0 {
            sequences_do_not_overlap(&lab);
        }
    }
}

#[test]
fn killed_at_each_named_place_unaware() {
    killed_at_each_place(-1);
}

#[test]
fn killed_at_each_named_place_fixed_buckets() {
    killed_at_each_place(3);
}

#[test]
fn killed_at_every_place_in_turn_in_one_job() {
    for bucket in [-1, 2] {
        let lab = Lab::new();
        lab.generator(&Generator {
            rows: Some(2000),
            rate: Some(2000),
            ..job(bucket)
        });
        for place in PLACES.iter().chain(PLACES.iter().rev()) {
            lab.run_slowly_to(place, 200).killed();
        }
        lab.run(&[]).expect(0);
        lab.whole(2000);
        if bucket > 0 {
            sequences_do_not_overlap(&lab);
        }
    }
}
