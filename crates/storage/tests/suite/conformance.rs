//! The conformance suite against every backend that can be had here.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_storage::conformance::{self, Check, Options, Outcome, Usable};
use tidegate_storage::{Fault, Faults, Op, RetryPolicy, Rule, Store};
use tidegate_test_services::S3Server;

fn thorough() -> Options {
    Options {
        rounds: 200,
        long_listing: 1205,
        ..Options::default()
    }
}

async fn all_pass(store: &Store) {
    let report = conformance::run(store, &thorough()).await;
    println!("{report}");
    // What the machine is like that runs the tests is not the backend's fault.
    let of_machine = |check: &Check| ["free space", "syncs"].contains(&check.name);
    assert!(report.failed().all(of_machine), "{report}");
    assert_eq!(report.verdict().usable, Usable::ReadWrite);
    let skipped = report
        .checks
        .iter()
        .filter(|c| c.outcome == Outcome::Skipped && !of_machine(c));
    assert!(skipped.count() <= 1, "{report}");
    assert!(
        store.list("").await.unwrap().is_empty(),
        "the suite cleans up"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_local_file_system_conforms() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().to_str().unwrap(), &BTreeMap::new()).unwrap();
    all_pass(&store).await;
    assert_eq!(
        dir.path().read_dir().unwrap().count(),
        0,
        "no directory stays"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_conforms() {
    let store = Store::open("memory://conforms/a/b", &BTreeMap::new()).unwrap();
    all_pass(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_real_s3_server_conforms() {
    let server = S3Server::shared().unwrap();
    let store = Store::open(&server.url("conformance/x"), &server.options()).unwrap();
    all_pass(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn throttling_and_slowness_do_not_break_conformance() {
    let faults = Faults::seeded(11);
    let throttled = Fault::Before(tidegate_storage::ErrorKind::Throttled);
    faults.chance(&[], throttled, 0.2);
    let store = Store::open("memory://", &BTreeMap::new())
        .unwrap()
        .with_retry(RetryPolicy {
            base: Duration::from_micros(10),
            seed: Some(3),
            ..RetryPolicy::default()
        })
        .with_faults(faults.clone());
    let options = Options {
        rounds: 5,
        ..Options::default()
    };
    let report = conformance::run(&store, &options).await;
    // Checks that switch repeating off for a fault of their own see the throttling.
    let unexpected: Vec<_> = report
        .failed()
        .filter(|check| !matches!(check.name, "lost answer" | "late request"))
        .collect();
    assert!(unexpected.is_empty(), "{report}");
    assert!(!faults.log().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_loses_a_write_is_found_out() {
    // Acknowledged to the caller? No: held back for ever, and reported as such.
    let faults = Faults::new();
    faults.rule(
        Rule::new(Fault::Late)
            .on(Op::Put)
            .path("read/back")
            .always(),
    );
    let store = Store::open("memory://", &BTreeMap::new())
        .unwrap()
        .with_retry(RetryPolicy::none())
        .with_faults(faults);
    let report = conformance::run(&store, &Options::default()).await;
    assert_eq!(report.verdict().usable, Usable::ReadOnly, "{report}");
    assert!(
        report
            .failed()
            .any(|check| check.name == "write, then read")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_cannot_be_reached_is_of_no_use() {
    let faults = Faults::new();
    faults.rule(Rule::new(Fault::DieBefore));
    let store = Store::open("memory://", &BTreeMap::new())
        .unwrap()
        .with_faults(faults);
    let report = conformance::run(&store, &Options::default()).await;
    assert_eq!(report.verdict().usable, Usable::Not, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_may_only_be_read_says_so_once_with_the_way_out() {
    for (kind, way_out) in [
        (
            tidegate_storage::ErrorKind::PermissionDenied,
            "the right to",
        ),
        (tidegate_storage::ErrorKind::Full, "make room"),
    ] {
        let faults = Faults::new();
        let refused = Fault::Before(kind);
        for op in [Op::Put, Op::Create, Op::Delete] {
            faults.rule(Rule::new(refused).on(op).always());
        }
        let store = Store::open("memory://", &BTreeMap::new())
            .unwrap()
            .with_retry(RetryPolicy::none())
            .with_faults(faults);
        let report = conformance::run(&store, &Options::default()).await;
        let verdict = report.verdict();
        assert_eq!(verdict.usable, Usable::ReadOnly, "{report}");
        let stays = |reason: &String| reason.contains("stay under");
        assert!(!verdict.reasons.iter().any(stays), "{report}");
        let failed: Vec<_> = report.failed().collect();
        assert_eq!(failed.len(), 1, "{report}");
        assert!(
            failed
                .iter()
                .all(|c| c.name == "write" && c.detail.contains(way_out)),
            "{report}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_run_left_is_named() {
    let store = Store::open("memory://", &BTreeMap::new()).unwrap();
    let left = ".tidegate-doctor-0123456789abcdef0123456789abcdef";
    let object = format!("{left}/race/3");
    store.put(&object, "x".into()).await.unwrap();
    let report = conformance::run(&store, &Options::default()).await;
    let verdict = report.verdict();
    assert_eq!(verdict.usable, Usable::ReadWrite, "{report}");
    assert!(
        verdict
            .reasons
            .iter()
            .any(|r| r.contains(left) && r.contains("remove it")),
        "{report}"
    );
    assert!(
        store.get(&object).await.is_ok(),
        "nothing of others is removed"
    );
}
