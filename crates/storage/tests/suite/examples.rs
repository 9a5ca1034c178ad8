//! The example programs run as written.

use std::collections::BTreeMap;

use tidegate_test_services::S3Server;

#[allow(dead_code, reason = "its main is not called here")]
#[path = "../../examples/one_winner.rs"]
mod one_winner;

#[allow(dead_code, reason = "its main is not called here")]
#[path = "../../examples/check_store.rs"]
mod check_store;

#[tokio::test(flavor = "multi_thread")]
async fn check_store_runs_in_memory() {
    let report = check_store::check("memory://", &BTreeMap::new())
        .await
        .unwrap();
    assert!(report.failed().next().is_none(), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_winner_runs_in_memory_on_disk_and_on_s3() {
    let dir = tempfile::tempdir().unwrap();
    let none = BTreeMap::new();
    one_winner::race("memory://example", &none).await.unwrap();
    let report = one_winner::race(dir.path().to_str().unwrap(), &none)
        .await
        .unwrap();
    assert!(report.contains("won on"), "{report}");
    let server = S3Server::shared().unwrap();
    one_winner::race(&server.url("example"), &server.options())
        .await
        .unwrap();
}
