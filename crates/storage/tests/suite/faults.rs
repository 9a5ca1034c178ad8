//! Injected faults F1 to F8 and what the store makes of them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use tidegate_storage::{
    Create, Decider, ErrorKind, Fault, Faults, Injected, Op, RetryPolicy, Rule, Store,
    UploadOptions,
};

fn memory() -> Store {
    Store::open("memory://", &BTreeMap::new())
        .unwrap()
        .with_retry(quick())
}

fn quick() -> RetryPolicy {
    RetryPolicy {
        base: Duration::from_micros(1),
        cap: Duration::from_micros(100),
        seed: Some(5),
        ..RetryPolicy::default()
    }
}

/// A store with faults and the same store without.
fn with(faults: &Faults) -> (Store, Store) {
    let plain = memory();
    (plain.clone().with_faults(faults.clone()), plain)
}

#[tokio::test]
async fn f1_who_dies_before_publishing_published_nothing_and_sends_nothing_more() {
    let faults = Faults::new();
    faults.rule(Rule::new(Fault::DieBefore).on(Op::Create).path("snapshot-"));
    let (store, plain) = with(&faults);
    store.write_once("manifest/m", "1".into()).await.unwrap();
    let outcome = store
        .create_if_absent("snapshot/snapshot-1", "s".into())
        .await;
    assert!(matches!(outcome, Create::Unknown(_)), "{outcome:?}");
    assert!(store.get("manifest/m").await.is_err() && faults.dead());
    assert!(store.delete("manifest/m").await.is_err());
    let left: Vec<_> = plain
        .list("")
        .await
        .unwrap()
        .into_iter()
        .map(|m| m.path)
        .collect();
    assert_eq!(left, ["manifest/m"]);
    faults.heal();
    store.get("manifest/m").await.unwrap();
}

#[tokio::test]
async fn f2_who_dies_after_publishing_has_published() {
    let faults = Faults::new();
    faults.rule(Rule::new(Fault::DieAfter).on(Op::Create));
    let (store, plain) = with(&faults);
    let outcome = store
        .create_if_absent("snapshot/snapshot-1", "s".into())
        .await;
    assert!(matches!(outcome, Create::Unknown(_)), "{outcome:?}");
    assert!(store.list("").await.is_err());
    assert_eq!(plain.get("snapshot/snapshot-1").await.unwrap(), "s");
}

#[tokio::test]
async fn f3_the_second_creation_of_a_name_loses_its_answer() {
    let faults = Faults::new();
    faults.rule(
        Rule::new(Fault::After)
            .on(Op::Create)
            .path("snapshot-")
            .nth(2),
    );
    let (store, _) = with(&faults);
    assert!(matches!(
        store.create_if_absent("snapshot-1", "a".into()).await,
        Create::Created
    ));
    assert!(matches!(
        store.create_if_absent("other", "x".into()).await,
        Create::Created
    ));
    assert!(matches!(
        store.create_if_absent("snapshot-2", "b".into()).await,
        Create::Unknown(_)
    ));
    let again = store.create_if_absent("snapshot-2", "b".into()).await;
    assert!(
        matches!(again, Create::Exists(_)) && again.holds(b"b"),
        "{again:?}"
    );
    let expected = Injected {
        op: Op::Create,
        path: "snapshot-2".into(),
        fault: Fault::After,
    };
    assert_eq!(faults.log(), [expected]);
}

#[tokio::test]
async fn f3_an_answer_that_another_object_exists_may_be_lost_too() {
    let faults = Faults::new();
    faults.rule(Rule::new(Fault::After).on(Op::Create).nth(2));
    let (store, _) = with(&faults);
    assert!(matches!(
        store.create_if_absent("s", "theirs".into()).await,
        Create::Created
    ));
    assert!(matches!(
        store.create_if_absent("s", "ours".into()).await,
        Create::Unknown(_)
    ));
    let again = store.create_if_absent("s", "ours".into()).await;
    assert!(
        matches!(&again, Create::Exists(theirs) if theirs == "theirs"),
        "{again:?}"
    );
}

#[tokio::test]
async fn f4_a_held_request_takes_effect_after_its_sender_is_gone() {
    let faults = Faults::new();
    faults.rule(Rule::new(Fault::Late).on(Op::Create));
    let (store, plain) = with(&faults);
    assert!(matches!(
        store.create_if_absent("s", "late".into()).await,
        Create::Unknown(_)
    ));
    drop(store);
    assert!(
        plain.get_opt("s").await.unwrap().is_none(),
        "absence settles nothing"
    );
    assert_eq!(faults.held(), 1);
    assert_eq!(faults.release().await, 1);
    assert_eq!(plain.get("s").await.unwrap(), "late");
}

#[tokio::test]
async fn f4_a_held_request_may_come_between_two_others() {
    let faults = Faults::new();
    faults.rule(Rule::new(Fault::LateAfter(1)).on(Op::Create));
    let (store, _) = with(&faults);
    assert!(matches!(
        store.create_if_absent("s", "late".into()).await,
        Create::Unknown(_)
    ));
    assert!(store.get_opt("s").await.unwrap().is_none());
    assert_eq!(store.get("s").await.unwrap(), "late");
}

#[tokio::test]
async fn f5_a_refusal_is_a_failure_and_not_repeated() {
    let faults = Faults::new();
    faults.rule(Rule::new(Fault::Before(ErrorKind::PermissionDenied)).on(Op::Create));
    let (store, plain) = with(&faults);
    match store.create_if_absent("s", "x".into()).await {
        Create::Failed(error) => assert!(!error.effect_unknown() && !error.is_transient()),
        other => panic!("{other:?}"),
    }
    assert!(plain.list("").await.unwrap().is_empty());
    assert_eq!(store.metrics().of(Op::Create).requests, 1);
}

#[tokio::test]
async fn f6_the_next_three_requests_are_throttled_and_waited_out() {
    for op in [Op::Create, Op::Put, Op::Get, Op::Head, Op::List, Op::Delete] {
        let faults = Faults::new();
        let (store, _) = with(&faults);
        store.put("there", "x".into()).await.unwrap();
        faults.rule(
            Rule::new(Fault::Before(ErrorKind::Throttled))
                .on(op)
                .times(3),
        );
        let before = store.metrics();
        match op {
            Op::Create => {
                let made = store.create_if_absent("s", "x".into()).await;
                assert!(matches!(made, Create::Created), "{made:?}");
            }
            Op::Put => store.put("s", "x".into()).await.unwrap(),
            Op::Get => assert_eq!(store.get("there").await.unwrap(), "x"),
            Op::Head => assert!(store.head("there").await.unwrap().is_some()),
            Op::List => assert_eq!(store.list("").await.unwrap().len(), 1),
            _ => store.delete("there").await.unwrap(),
        }
        let counts = store.metrics().since(&before).of(op);
        assert_eq!(
            (counts.requests, counts.errors, counts.retries),
            (4, 3, 3),
            "{op}"
        );
    }
}

#[tokio::test]
async fn f7_a_failing_part_is_repeated_and_for_good_gives_the_upload_up() {
    let parts = UploadOptions {
        part_size: Some(10),
        parts_under_way: Some(2),
    };
    let dir = tempfile::tempdir().unwrap();
    let plain = Store::open(dir.path().to_str().unwrap(), &BTreeMap::new())
        .unwrap()
        .with_retry(quick());
    for op in [Op::BeginUpload, Op::PutPart, Op::CompleteUpload] {
        for always in [false, true] {
            let faults = Faults::new();
            let rule = Rule::new(Fault::Before(ErrorKind::Transient)).on(op);
            faults.rule(if always { rule.always() } else { rule.times(2) });
            let store = plain.clone().with_faults(faults.clone());
            let name = format!("{op}-{always}");
            let mut upload = store.upload_with(&name, parts).await.unwrap();
            let mut result = Ok(0);
            for _ in 0..7 {
                if let Err(error) = upload.write(Bytes::from_static(b"sevens!")).await {
                    result = Err(error);
                    break;
                }
            }
            if result.is_ok() {
                result = upload.finish().await;
            } else {
                drop(upload);
            }
            if always {
                assert_eq!(result.unwrap_err().op(), op);
                assert!(plain.head(&name).await.unwrap().is_none());
            } else {
                assert_eq!(result.unwrap(), 49);
                assert_eq!(plain.get(&name).await.unwrap(), "sevens!".repeat(7));
            }
            assert!(plain.list_unfinished("").await.unwrap().is_empty());
        }
    }
}

#[tokio::test]
async fn f8_a_failing_read_or_list_is_an_error_and_never_absence() {
    let faults = Faults::new();
    let (store, _) = with(&faults);
    let store = store.with_retry(RetryPolicy::none());
    store.put("tag/tag-a", "x".into()).await.unwrap();
    for op in [Op::Get, Op::GetRange, Op::Head, Op::List] {
        let denied = Fault::Before(ErrorKind::PermissionDenied);
        faults.rule(Rule::new(denied).on(op).path("tag").always());
    }
    assert!(store.get_opt("tag/tag-a").await.is_err());
    assert!(store.get_range("tag/tag-a", 0..1).await.is_err());
    assert!(store.head("tag/tag-a").await.is_err());
    assert!(store.list("tag").await.is_err());
    assert!(store.list_names("tag").await.is_err());
    faults.heal();
    assert_eq!(store.get("tag/tag-a").await.unwrap(), "x");
}

#[tokio::test]
async fn a_torn_write_leaves_the_beginning_under_the_final_name() {
    let dir = tempfile::tempdir().unwrap();
    let local = Store::open(dir.path().to_str().unwrap(), &BTreeMap::new()).unwrap();
    for plain in [local, memory()] {
        let faults = Faults::new();
        faults.rule(Rule::new(Fault::Torn { keep: 3 }).always());
        let store = plain.clone().with_faults(faults);
        let error = store.put("hint/LATEST", "12345".into()).await.unwrap_err();
        assert!(error.effect_unknown());
        assert_eq!(plain.get("hint/LATEST").await.unwrap(), "123");
    }
}

#[tokio::test]
async fn the_same_seed_gives_the_same_faults_in_any_order() {
    async fn run(seed: u64, backwards: bool) -> Vec<String> {
        let faults = Faults::seeded(seed);
        faults
            .chance(&[Op::Put], Fault::Before(ErrorKind::PermissionDenied), 0.3)
            .chance(&[Op::Get], Fault::After, 0.3);
        let (store, _) = with(&faults);
        let store = store.with_retry(RetryPolicy::none());
        let mut order: Vec<u32> = (0..100).collect();
        if backwards {
            order.reverse();
        }
        for i in order {
            let _ = store.put(&format!("p{i}"), "x".into()).await;
            let _ = store.get(&format!("p{i}")).await;
        }
        let mut struck: Vec<_> = faults.log().iter().map(ToString::to_string).collect();
        struck.sort();
        struck
    }
    let first = run(1, false).await;
    assert!(first.len() > 20, "{first:?}");
    assert_eq!(first, run(1, true).await);
    assert_ne!(first, run(2, false).await);
}

#[tokio::test(start_paused = true)]
async fn latency_is_added_to_every_request() {
    let faults = Faults::new();
    faults.latency(Duration::from_millis(20));
    let (store, _) = with(&faults);
    let begun = tokio::time::Instant::now();
    store.put("a", "x".into()).await.unwrap();
    store.get("a").await.unwrap();
    assert_eq!(begun.elapsed().as_millis(), 40);
}

#[tokio::test(start_paused = true)]
async fn b65_the_rate_of_requests_falls_while_the_store_throttles() {
    let faults = Faults::new();
    faults.rule(Rule::new(Fault::Before(ErrorKind::Throttled)).always());
    let store = Store::open("memory://", &BTreeMap::new())
        .unwrap()
        .with_faults(faults);
    let begun = tokio::time::Instant::now();
    let error = store.put("a", "x".into()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Throttled);
    let requests = store.metrics().of(Op::Put).requests;
    let seconds = begun.elapsed().as_secs();
    assert_eq!(requests, 10);
    assert!(
        (20..=80).contains(&seconds),
        "{requests} requests in {seconds} s"
    );
}

#[tokio::test]
async fn b65_thirty_percent_throttling_is_survived() {
    let faults = Faults::seeded(9);
    faults.chance(&[], Fault::Before(ErrorKind::Throttled), 0.3);
    let (store, plain) = with(&faults);
    for i in 0..200 {
        let name = format!("s-{i}");
        let made = store.create_if_absent(&name, name.clone().into()).await;
        assert!(matches!(made, Create::Created), "{made:?}");
        store
            .write_once(&format!("m-{i}"), "x".into())
            .await
            .unwrap();
    }
    assert_eq!(plain.list("").await.unwrap().len(), 400);
    assert!(faults.log().len() > 100);
}

/// whenever a creation is dropped, the same bytes offered again settle it.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_creation_is_settled_by_offering_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().to_str().unwrap(), &BTreeMap::new()).unwrap();
    for i in 0..200_u64 {
        let path = format!("s/{i}");
        let limit = Duration::from_micros(i * 10);
        let first = tokio::time::timeout(limit, store.create_if_absent(&path, "ours".into())).await;
        let again = store.create_if_absent(&path, "ours".into()).await;
        assert!(again.holds(b"ours"), "{first:?}, then {again:?}");
    }
    // A dropped creation may still be linking; its temporary file goes before it ends.
    let begun = Instant::now();
    while !store.list_unfinished("").await.unwrap().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        tokio::task::yield_now().await;
    }
    assert_eq!(store.list("s").await.unwrap().len(), 200);
}

#[test]
fn rules_are_read_from_text_and_errors_say_how() {
    for (text, rule) in [
        ("F3", Rule::new(Fault::After)),
        (
            "f6 get times=5",
            Rule::new(Fault::Before(ErrorKind::Throttled))
                .on(Op::Get)
                .times(5),
        ),
        (
            "F8 get list path=tag nth=2 times=0",
            Rule::new(Fault::Before(ErrorKind::Transient))
                .on(Op::Get)
                .on(Op::List)
                .path("tag")
                .nth(2)
                .always(),
        ),
    ] {
        assert_eq!(text.parse::<Rule>().unwrap(), rule);
    }
    for wrong in ["", "F9", "F3 creat", "F3 nth=x"] {
        let error = wrong.parse::<Rule>().unwrap_err().to_string();
        assert!(error.contains("write e.g."), "{error}");
    }
}

/// Says what it was told beforehand, one request after the other.
#[derive(Debug)]
struct Told(Mutex<Vec<Option<Fault>>>);

impl Decider for Told {
    fn decide(&self, _: Op, _: &str) -> BoxFuture<'static, Option<Fault>> {
        let fault = self.0.lock().unwrap().pop().flatten();
        Box::pin(async move {
            tokio::task::yield_now().await;
            fault
        })
    }
}

#[tokio::test]
async fn a_decider_chooses_the_fate_of_each_request_and_what_is_late_comes_one_by_one() {
    let told = vec![
        None,
        Some(Fault::Late),
        Some(Fault::Late),
        Some(Fault::After),
    ];
    let faults = Faults::decided_by(Arc::new(Told(Mutex::new(told))));
    let (store, plain) = with(&faults);
    let store = store.with_attempts(1);
    assert!(
        store
            .put("a", "1".into())
            .await
            .unwrap_err()
            .effect_unknown()
    );
    assert_eq!(plain.get("a").await.unwrap(), "1");
    for value in ["2", "3"] {
        assert!(store.put("a", value.into()).await.is_err());
    }
    assert_eq!(
        (store.get("a").await.unwrap(), faults.held()),
        ("1".into(), 2)
    );
    for value in ["2", "3"] {
        assert!(faults.release_one().await);
        assert_eq!(plain.get("a").await.unwrap(), value);
    }
    assert!(!faults.release_one().await);
}

/// Removes what killed probes left, before so many of the creations that a probe expects to be refused.
#[derive(Debug)]
struct Tidies {
    plain: Store,
    /// Creations seen, and creations to tidy up before.
    seen: Mutex<(u32, u32)>,
}

impl Decider for Tidies {
    fn decide(&self, op: Op, _path: &str) -> BoxFuture<'static, Option<Fault>> {
        let mut seen = self.seen.lock().unwrap();
        let mut tidy = false;
        if op == Op::Create {
            seen.0 += 1;
            tidy = seen.0.is_multiple_of(2) && seen.1 > 0;
            seen.1 -= u32::from(tidy);
        }
        let plain = self.plain.clone();
        Box::pin(async move {
            if tidy {
                assert_eq!(plain.remove_probes().await.unwrap(), 1);
            }
            None
        })
    }
}

#[tokio::test]
async fn what_a_killed_probe_left_is_removed_and_a_living_probe_bears_that() {
    let faults = Faults::new();
    faults.rule(Rule::new(Fault::DieBefore).on(Op::Delete));
    let (store, plain) = with(&faults);
    plain
        .put(".tidegate-probe-notes", "mine".into())
        .await
        .unwrap();
    // What it says is right; the object stays.
    store.probe_create().await.unwrap();
    assert_eq!(plain.list("").await.unwrap().len(), 2);
    assert_eq!(plain.remove_probes().await.unwrap(), 1);
    assert_eq!(plain.remove_probes().await.unwrap(), 0);
    assert!(plain.head(".tidegate-probe-notes").await.unwrap().is_some());

    for (tidied, good) in [(1, true), (2, true), (3, false)] {
        let plain = memory();
        let decider = Arc::new(Tidies {
            plain: plain.clone(),
            seen: Mutex::new((0, tidied)),
        });
        let store = plain.clone().with_faults(Faults::decided_by(decider));
        let outcome = store.probe_create().await.map_err(|e| e.kind());
        let expected = if good {
            Ok(())
        } else {
            Err(ErrorKind::Unsupported)
        };
        assert_eq!(outcome, expected, "{tidied}");
        assert!(plain.list("").await.unwrap().is_empty());
    }
}
