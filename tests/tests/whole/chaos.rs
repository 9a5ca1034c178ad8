//! A short chaos run; `cargo xtask chaos` makes a long one.

use std::time::Duration;
use tidegate_test_services::S3Server;
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
