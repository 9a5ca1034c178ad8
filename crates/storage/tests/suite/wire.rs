//! What broken servers and networks do to S3 requests, seen through a proxy.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use std::time::Duration;

use crate::proxy::{Action, Proxy, Seen};
use bytes::Bytes;
use tidegate_storage::conformance::{self, Options, Usable};
use tidegate_storage::{Create, ErrorKind, Op, RetryPolicy, Store, UploadOptions};
use tidegate_test_services::S3Server;

const CONFLICT: &str = "<Error><Code>ConditionalRequestConflict</Code></Error>";
const SLOW_DOWN: &str = "<Error><Code>SlowDown</Code></Error>";
const INTERNAL: &str = "<Error><Code>InternalError</Code></Error>";
const NO_SUCH_UPLOAD: &str = "<Error><Code>NoSuchUpload</Code></Error>";
const DENIED: &str = "<Error><Code>AccessDenied</Code></Error>";

fn quick() -> RetryPolicy {
    RetryPolicy {
        base: Duration::from_millis(1),
        cap: Duration::from_millis(10),
        attempts: 10,
        seed: Some(1),
    }
}

/// A store behind a proxy, and the same store without it.
async fn behind(
    prefix: &str,
    script: impl Fn(&Seen, usize) -> Action + Send + Sync + 'static,
) -> (Store, Store, Proxy) {
    let server = S3Server::shared().unwrap();
    let proxy = Proxy::start(&server.endpoint, script).await;
    let url = server.url(prefix);
    let plain = Store::open(&url, &server.options()).unwrap();
    let mut options = server.options();
    options.insert("s3.endpoint".into(), proxy.endpoint());
    if prefix.ends_with("hang") {
        options.insert("s3.request-timeout".into(), "2 s".into());
    }
    let store = Store::open(&url, &options).unwrap().with_retry(quick());
    (store, plain, proxy)
}

fn on_put(action: Action, first: usize) -> impl Fn(&Seen, usize) -> Action + Send + Sync {
    move |seen, before| {
        if seen.method == "PUT" && before < first {
            action.clone()
        } else {
            Action::Forward
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b20_a_store_that_ignores_the_condition_is_refused_for_writing() {
    let script = |seen: &Seen, _| match seen.conditional {
        true => Action::Without("if-none-match"),
        false => Action::Forward,
    };
    let (store, _, _proxy) = behind("ignores", script).await;
    let refused = store.probe_create().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(
        refused.to_string().contains("refused for writing"),
        "{refused}"
    );

    let options = Options {
        rounds: 3,
        upload: 0,
        ..Options::default()
    };
    let report = conformance::run(&store, &options).await;
    let verdict = report.verdict();
    assert_eq!(verdict.usable, Usable::ReadOnly, "{report}");
    assert!(
        verdict
            .reasons
            .iter()
            .any(|reason| reason.contains("both win")),
        "{report}"
    );
    assert!(
        store.list("").await.unwrap().is_empty(),
        "probes are removed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn conditional_writes_switched_off_make_a_store_read_only() {
    let server = S3Server::shared().unwrap();
    let mut options = server.options();
    options.insert("s3.conditional-put".into(), "disabled".into());
    let url = server.url("disabled");
    let error = Store::open_for_write(&url, &options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    Store::open_for_write(&url, &server.options())
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_an_answer_lost_after_the_effect_is_unknown_and_then_found_to_be_ours() {
    for (name, action) in [
        ("close", Action::ForwardThenClose),
        ("500", Action::ForwardThenAnswer(500, INTERNAL)),
        ("hang", Action::ForwardThenHang),
        ("cut", Action::CutAnswer(10)),
    ] {
        let (store, _, _proxy) = behind(&format!("lost-{name}"), on_put(action, 1)).await;
        match store.create_if_absent("s-1", "mine".into()).await {
            Create::Unknown(error) => {
                assert!(
                    error.effect_unknown() && error.is_transient(),
                    "{name}: {error}"
                );
            }
            other => panic!("{name}: {other:?}"),
        }
        let again = store.create_if_absent("s-1", "mine".into()).await;
        assert!(
            matches!(again, Create::Exists(_)) && again.holds(b"mine"),
            "{name}: {again:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b02_no_hidden_repetition_turns_our_own_object_into_somebody_elses() {
    // One request per create: a client that repeats by itself would report *exists* at once.
    let (store, _, proxy) = behind("hidden", on_put(Action::ForwardThenClose, 1)).await;
    let outcome = store.create_if_absent("s-1", "mine".into()).await;
    assert!(matches!(outcome, Create::Unknown(_)), "{outcome:?}");
    assert_eq!(proxy.count("PUT"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_409_is_repeated_and_412_is_an_answer() {
    let (store, plain, proxy) = behind("conflict", on_put(Action::Answer(409, CONFLICT), 2)).await;
    let outcome = store.create_if_absent("s-1", "mine".into()).await;
    assert!(matches!(outcome, Create::Created), "{outcome:?}");
    assert_eq!(proxy.count("PUT"), 3);
    assert_eq!(plain.get("s-1").await.unwrap(), "mine");

    let always = on_put(Action::Answer(409, CONFLICT), usize::MAX);
    let (store, plain, _proxy) = behind("conflict-always", always).await;
    match store.create_if_absent("s-1", "mine".into()).await {
        Create::Failed(error) => assert!(!error.effect_unknown(), "{error}"),
        other => panic!("{other:?}"),
    }
    assert!(plain.head("s-1").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn f6_slow_down_is_waited_out_and_stays_in_doubt_where_it_lasts() {
    let (store, _, proxy) = behind("slow", on_put(Action::Answer(503, SLOW_DOWN), 3)).await;
    let outcome = store.create_if_absent("s-1", "mine".into()).await;
    assert!(matches!(outcome, Create::Created), "{outcome:?}");
    assert_eq!(proxy.count("PUT"), 4);
    assert_eq!(store.metrics().of(Op::Create).retries, 3);

    // A 503 that was carried out nevertheless is found to be ours.
    let done = on_put(Action::ForwardThenAnswer(503, SLOW_DOWN), 1);
    let (store, _, _proxy) = behind("slow-done", done).await;
    let outcome = store.create_if_absent("s-1", "mine".into()).await;
    assert!(
        matches!(outcome, Create::Exists(_)) && outcome.holds(b"mine"),
        "{outcome:?}"
    );

    let always = on_put(Action::Answer(503, SLOW_DOWN), usize::MAX);
    let (store, _, proxy) = behind("slow-always", always).await;
    match store.create_if_absent("s-1", "mine".into()).await {
        Create::Unknown(error) => assert_eq!(error.kind(), ErrorKind::Throttled),
        other => panic!("{other:?}"),
    }
    assert_eq!(proxy.count("PUT"), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn f5_access_denied_is_a_failure_without_effect() {
    let denied = on_put(Action::Answer(403, DENIED), usize::MAX);
    let (store, plain, proxy) = behind("denied", denied).await;
    match store.create_if_absent("s-1", "mine".into()).await {
        Create::Failed(error) => {
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
            assert!(!error.effect_unknown() && !error.is_transient());
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(proxy.count("PUT"), 1);
    assert!(plain.head("s-1").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_after_a_doubtful_answer_stays_in_doubt() {
    let script = |seen: &Seen, before| match (seen.method.as_str(), before) {
        ("PUT", 0) => Action::ForwardThenAnswer(503, SLOW_DOWN),
        ("PUT", _) => Action::Answer(403, DENIED),
        _ => Action::Forward,
    };
    let (store, plain, _proxy) = behind("doubt", script).await;
    let outcome = store.create_if_absent("s-1", "mine".into()).await;
    assert!(matches!(outcome, Create::Unknown(_)), "{outcome:?}");
    assert_eq!(plain.get("s-1").await.unwrap(), "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_and_plain_writes_are_repeated() {
    let script = |_: &Seen, before| match before {
        0 => Action::Close,
        1 => Action::Answer(503, SLOW_DOWN),
        2 => Action::Answer(500, INTERNAL),
        3 => Action::CutAnswer(60),
        _ => Action::Forward,
    };
    let (store, _, _proxy) = behind("repeated", script).await;
    let bytes = Bytes::from(vec![7; 5000]);
    store.put("a/b", bytes.clone()).await.unwrap();
    assert_eq!(store.get("a/b").await.unwrap(), bytes);
    assert_eq!(
        store.get_range("a/b", 10..20).await.unwrap(),
        bytes.slice(10..20)
    );
    assert_eq!(store.list("a").await.unwrap().len(), 1);
    assert_eq!(store.list_names("").await.unwrap().len(), 1);
    let results = store.delete_many(&["a/b"]).await;
    assert!(results[0].is_ok(), "{results:?}");
    assert!(store.get_opt("a/b").await.unwrap().is_none());
    let counts = store.metrics();
    assert!(counts.of(Op::Get).retries >= 4, "{counts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn b65_a_completing_call_whose_answer_was_lost_succeeds_when_repeated() {
    let script = |seen: &Seen, before| {
        let completing = seen.method == "POST" && seen.target.contains("uploadId=");
        match (completing, before) {
            (true, 0) => Action::ForwardThenClose,
            (true, _) => Action::Answer(404, NO_SUCH_UPLOAD),
            _ => Action::Forward,
        }
    };
    let (store, plain, _proxy) = behind("completed", script).await;
    let bytes = Bytes::from(vec![3; 6 << 20]);
    let mut upload = store.upload_with("data/f", parts()).await.unwrap();
    upload.write(bytes.clone()).await.unwrap();
    assert_eq!(upload.finish().await.unwrap(), bytes.len() as u64);
    assert_eq!(plain.get("data/f").await.unwrap(), bytes);
}

fn parts() -> UploadOptions {
    UploadOptions {
        part_size: Some(5 << 20),
        parts_under_way: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b65_a_part_that_fails_for_good_leaves_no_unfinished_upload() {
    let script = |seen: &Seen, _| match seen.target.contains("partNumber=2") {
        true => Action::Answer(500, INTERNAL),
        false => Action::Forward,
    };
    let (store, plain, _proxy) = behind("part", script).await;
    let mut upload = store.upload_with("data/f", parts()).await.unwrap();
    let mut failure = upload.write(Bytes::from(vec![3; 16 << 20])).await;
    if failure.is_ok() {
        failure = upload.finish().await.map(drop);
    } else {
        let again = upload.write(Bytes::from_static(b"more")).await.unwrap_err();
        assert!(again.to_string().contains("given up"), "{again}");
    }
    let failure = failure.unwrap_err();
    assert_eq!(failure.op(), Op::PutPart, "{failure}");
    assert!(plain.list_unfinished("").await.unwrap().is_empty());
    assert!(plain.list("").await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn b65_uploads_of_the_dead_are_listed_and_discarded() {
    let (_, plain, _proxy) = behind("dead", |_, _| Action::Forward).await;
    let faults = tidegate_storage::Faults::new();
    let doomed = plain.clone().with_faults(faults.clone());
    let mut open = Vec::new();
    for i in 0..10 {
        let mut upload = doomed
            .upload_with(&format!("d/{i}&x"), parts())
            .await
            .unwrap();
        upload.write(Bytes::from(vec![1; 5 << 20])).await.unwrap();
        open.push(upload);
    }
    faults.rule(tidegate_storage::Rule::new(
        tidegate_storage::Fault::DieBefore,
    ));
    assert!(doomed.list("").await.is_err());
    drop(open);
    let found = plain.list_unfinished("d").await.unwrap();
    assert_eq!(found.len(), 10);
    assert!(
        found
            .iter()
            .all(|one| one.modified.is_some() && one.target.ends_with("&x"))
    );
    for one in &found {
        plain.discard_unfinished(one).await.unwrap();
        plain.discard_unfinished(one).await.unwrap();
    }
    assert!(plain.list_unfinished("").await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn b24_a_completing_call_that_fails_once_is_repeated_and_for_good_fails_the_upload() {
    let once = |seen: &Seen, before| match (seen.target.contains("uploadId="), before) {
        (true, 0) if seen.method == "POST" => Action::Answer(500, INTERNAL),
        _ => Action::Forward,
    };
    let (store, plain, _proxy) = behind("complete-once", once).await;
    let mut upload = store.upload_with("f", parts()).await.unwrap();
    upload.write(Bytes::from(vec![9; 6 << 20])).await.unwrap();
    assert_eq!(upload.finish().await.unwrap(), 6 << 20);
    assert_eq!(plain.head("f").await.unwrap().unwrap().size, 6 << 20);

    let always = |seen: &Seen, _| match seen.target.contains("uploadId=") && seen.method == "POST" {
        true => Action::Answer(500, INTERNAL),
        false => Action::Forward,
    };
    let (store, plain, _proxy) = behind("complete-never", always).await;
    let mut upload = store.upload_with("f", parts()).await.unwrap();
    upload.write(Bytes::from(vec![9; 6 << 20])).await.unwrap();
    let error = upload.finish().await.unwrap_err();
    assert!(error.effect_unknown(), "{error}");
    assert!(plain.head("f").await.unwrap().is_none());
    assert!(plain.list_unfinished("").await.unwrap().is_empty());
}
