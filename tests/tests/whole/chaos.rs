//! Short chaos runs, two minutes of campaign among them; `cargo xtask chaos` makes long ones.

use std::time::Duration;
use tidegate_test_services::S3Server;
use tidegate_tests::campaign::{self, Place};
use tidegate_tests::chaos::{Plan, run};
use tidegate_tests::lab::Lab;

fn plan(kills: usize, bucket: i32) -> Plan {
    Plan {
        kills,
        seed: 20_261_130,
        bucket,
        limit: Some(Duration::from_secs(180)),
        judge: false,
    }
}

#[test]
fn twenty_kills_at_random_moments_lose_double_and_leave_nothing() {
    let outcome = run(&mut Lab::new(), &plan(20, -1), |_| {});
    println!("{}", outcome.picture());
    assert!(outcome.kills >= 10, "{}", outcome.picture());
    assert!(outcome.critical() >= 0.15, "{}", outcome.picture());
}

#[test]
fn kills_at_random_moments_on_s3_with_fixed_buckets() {
    let server = S3Server::shared().unwrap();
    let outcome = run(&mut Lab::on_s3(server), &plan(6, 2), |_| {});
    println!("{}", outcome.picture());
}

/// A minute on a place, half of it with each kind of buckets; what came of it.
fn a_minute_of_every_fault(place: Place) -> String {
    let mut said = String::new();
    for bucket in [-1, 2] {
        let plan = campaign::Plan {
            place,
            bucket,
            time: Duration::from_secs(30),
            seed: 20_261_130,
            judge: true,
        };
        let outcome = campaign::run(&plan, |_| {});
        assert!(outcome.acknowledged > 0 && outcome.kills > 0, "{outcome}");
        said.push_str(&format!("{}, {bucket}:\n{outcome}\n", place.name()));
    }
    said
}

#[test]
fn every_kind_of_fault_at_once_on_a_disk_loses_and_doubles_nothing() {
    println!("{}", a_minute_of_every_fault(Place::Local));
}

#[test]
fn every_kind_of_fault_at_once_on_s3_behind_the_proxy_loses_and_doubles_nothing() {
    println!("{}", a_minute_of_every_fault(Place::MiniStack));
}
