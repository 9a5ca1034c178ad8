//! Records and registrations on a store that loses answers, fails and comes late.

use std::collections::BTreeMap;

use tidegate_recovery::*;
use tidegate_sink::*;
use tidegate_storage::{ErrorKind as StoreErrorKind, Fault, Faults, Op, RetryPolicy, Rule, Store};

fn faulty() -> (Store, Store, Faults) {
    let whole = Store::open("memory://", &BTreeMap::new()).unwrap();
    let faults = Faults::new();
    let faulty = whole
        .clone()
        .with_retry(RetryPolicy::none())
        .with_faults(faults.clone());
    (whole, faulty, faults)
}

fn job() -> JobName {
    JobName::new("orders").unwrap()
}

fn record(id: u64) -> CheckpointRecord {
    let user = CommitUser::new("user-1").unwrap();
    CheckpointRecord::new(job(), CheckpointId(id), user, Epoch(1))
}

async fn open(store: &Store) -> JobCheckpoints {
    let user = CommitUser::new("user-1").unwrap();
    let mut records = CheckpointStore::new(store.clone()).job(&job(), &user);
    records.load().await.unwrap();
    records
}

/// A lost answer is settled by offering the same bytes again: what exists then is ours.
#[tokio::test]
async fn r_6_a_record_whose_answer_was_lost_is_ours() {
    let (whole, faulty, faults) = faulty();
    faults.rule(Rule::new(Fault::After).on(Op::Create));
    open(&faulty).await.write(&record(1)).await.unwrap();
    assert_eq!(open(&whole).await.newest().await.unwrap(), Some(record(1)));
}

/// Absence settles nothing: while answers are lost it stays undecided, nothing is deleted, and
/// a late put is found by the next offer.
#[tokio::test]
async fn r_6_a_record_that_stays_undecided_may_be_offered_again() {
    let (whole, faulty, faults) = faulty();
    faults.rule(Rule::new(Fault::Late).on(Op::Create).always());
    let mut records = open(&faulty).await;
    let error = records.write(&record(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Undecided, "{error}");
    assert_eq!(open(&whole).await.newest().await.unwrap(), None);
    faults.heal();
    faults.release().await;
    records.write(&record(1)).await.unwrap();
    assert_eq!(open(&whole).await.newest().await.unwrap(), Some(record(1)));
}

/// The late put of a run that is gone, found by the next: fenced, never overwritten.
#[tokio::test]
async fn r_5_a_late_record_of_an_earlier_run_fences() {
    let (_, faulty, faults) = faulty();
    faults.rule(Rule::new(Fault::Late).on(Op::Create).times(5));
    let undecided = open(&faulty).await.write(&record(1)).await.unwrap_err();
    assert_eq!(undecided.kind(), ErrorKind::Undecided);
    let mut next = open(&faulty).await;
    faults.release().await;
    let ours = CheckpointRecord {
        epoch: Epoch(2),
        ..record(1)
    };
    assert_eq!(
        next.write(&ours).await.unwrap_err().kind(),
        ErrorKind::Fenced
    );
}

/// A definite refusal is an error of its own kind, without effect.
#[tokio::test]
async fn a_full_or_forbidden_store_is_a_clear_error() {
    for (fault, kind) in [
        (StoreErrorKind::Full, ErrorKind::Exhausted),
        (StoreErrorKind::PermissionDenied, ErrorKind::Config),
    ] {
        let (_, faulty, faults) = faulty();
        faults.rule(Rule::new(Fault::Before(fault)).on(Op::Create));
        let error = open(&faulty).await.write(&record(1)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(
            error.to_string().starts_with("writing a checkpoint record"),
            "{error}"
        );
    }
}

/// F8: a listing or read that fails is an error, never *absent*.
#[tokio::test]
async fn f8_a_failing_listing_or_read_is_never_absence() {
    for op in [Op::List, Op::Get] {
        let (whole, faulty, faults) = faulty();
        open(&whole).await.write(&record(1)).await.unwrap();
        let registry = Registry::new(faulty.clone());
        registry.claim(&claim()).await.unwrap();
        let transient = Fault::Before(StoreErrorKind::Transient);
        faults.rule(Rule::new(transient).on(op).times(2));
        let user = CommitUser::new("user-1").unwrap();
        let mut records = CheckpointStore::new(faulty.clone()).job(&job(), &user);
        let read = async {
            records.load().await?;
            records.newest().await
        };
        assert_eq!(read.await.unwrap_err().kind(), ErrorKind::Transient);
        assert_eq!(
            registry.job(&job()).await.unwrap_err().kind(),
            ErrorKind::Transient
        );
        assert_eq!(registry.job(&job()).await.unwrap().runs.len(), 1);
    }
}

fn claim() -> Claim {
    Claim {
        job: job(),
        user: CommitUser::new("user-1").unwrap(),
        restored: None,
        checkpoints: "memory://checkpoints".into(),
        host: "here".into(),
        started_ms: 0,
        source: "files".into(),
        adopts: None,
        begun_on: None,
    }
}

/// A registration whose answer was lost is our own, not a rival.
#[tokio::test]
async fn r_2_a_claim_whose_answer_was_lost_is_ours() {
    let (whole, faulty, faults) = faulty();
    faults.rule(Rule::new(Fault::After).on(Op::Create));
    let run = Registry::new(faulty).claim(&claim()).await.unwrap();
    assert_eq!(run.epoch, Epoch(1));
    assert_eq!(
        Registry::new(whole).job(&job()).await.unwrap().runs.len(),
        1
    );
}

/// A claim that lands late is found out by listing again: whoever is not the newest is fenced.
#[tokio::test]
async fn r_2_after_creating_the_newest_epoch_wins() {
    let (whole, faulty, faults) = faulty();
    // The first run's claim of epoch 1 hangs; meanwhile another one restored from epoch 4.
    faults.rule(Rule::new(Fault::Delay(std::time::Duration::from_millis(50))).on(Op::Create));
    let slow = tokio::spawn(async move { Registry::new(faulty).claim(&claim()).await });
    tokio::task::yield_now().await;
    let restored = Claim {
        restored: Some((Epoch(4), CheckpointId(1))),
        ..claim()
    };
    assert_eq!(
        Registry::new(whole).claim(&restored).await.unwrap().epoch,
        Epoch(5)
    );
    let error = slow.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced);
    assert!(error.to_string().contains("epoch-5"), "{error}");
}

/// Retention that is interrupted leaves no gap and goes on later.
#[tokio::test]
async fn an_interrupted_retention_goes_on_later() {
    let (whole, faulty, faults) = faulty();
    let mut records = open(&faulty).await;
    for id in 1..=6 {
        records.write(&record(id)).await.unwrap();
    }
    let transient = Fault::Before(StoreErrorKind::Transient);
    faults.rule(Rule::new(transient).on(Op::Delete).nth(2));
    assert_eq!(records.retain(2, CheckpointId(6)).await, [CheckpointId(1)]);
    assert_eq!(open(&whole).await.list().len(), 5);
    records.retain(2, CheckpointId(6)).await;
    assert_eq!(open(&whole).await.list().len(), 2);
}
