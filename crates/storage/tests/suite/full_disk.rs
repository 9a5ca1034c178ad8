//! A disk that takes no more (case B24, step 2), and rights that are missing.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use bytes::Bytes;
use tidegate_storage::{Create, ErrorKind, Store, UploadOptions};

const DIRECTORY: &str = "TIDEGATE_TEST_FULL_DIRECTORY";

/// Does nothing unless it was started, with a limit on file sizes, by the test below.
#[tokio::test(flavor = "multi_thread")]
async fn the_process_that_cannot_write_more() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    let store = Store::open(&directory, &BTreeMap::new()).unwrap();
    let large = Bytes::from(vec![1; 4 << 20]);
    match store.create_if_absent("s", large.clone()).await {
        Create::Failed(error) => {
            assert_eq!(error.kind(), ErrorKind::Full, "{error}");
            assert!(!error.effect_unknown(), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let error = store.put("p", large.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    let parts = UploadOptions {
        part_size: Some(256 << 10),
        parts_under_way: None,
    };
    let mut upload = store.upload_with("u", parts).await.unwrap();
    let mut result = upload.write(large).await;
    if result.is_ok() {
        result = upload.finish().await.map(drop);
    }
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Full);
    store.write_once("small", "fits".into()).await.unwrap();
}

#[test]
fn b24_a_full_disk_is_a_failure_that_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let test = std::env::current_exe().unwrap();
    // 1 MiB per file, in blocks of 512 bytes; the write fails instead of a signal ending us.
    let status = Command::new("sh")
        .args(["-c", r#"trap "" XFSZ; ulimit -f 2048; exec "$@""#, "sh"])
        .arg(test)
        .args([
            "--exact",
            "full_disk::the_process_that_cannot_write_more",
            "--nocapture",
        ])
        .env(DIRECTORY, dir.path())
        .status()
        .unwrap();
    assert!(status.success());
    let left: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["small"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_are_named_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let closed = dir.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o555)).unwrap();
    if std::fs::write(closed.join("probe"), "x").is_ok() {
        // This user may write anywhere (root): the rule cannot be seen here.
        return;
    }
    let store = Store::open(closed.to_str().unwrap(), &BTreeMap::new()).unwrap();
    match store.create_if_absent("s", "x".into()).await {
        Create::Failed(error) => {
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
            assert!(error.to_string().contains("closed"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(store.list("").await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_where_a_directory_should_be_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().to_str().unwrap(), &BTreeMap::new()).unwrap();
    store.put("a", "file".into()).await.unwrap();
    assert!(store.get_opt("a/b").await.unwrap().is_none());
    assert!(store.head("a/b").await.unwrap().is_none());
    assert!(store.list_names("a").await.unwrap().is_empty());
    let outcome = store.create_if_absent("a/b", "x".into()).await;
    assert!(matches!(outcome, Create::Failed(_)), "{outcome:?}");
    store.put("d/e", "x".into()).await.unwrap();
    assert!(
        store.get_opt("d").await.unwrap().is_none(),
        "a directory is no object"
    );
    let long = "n".repeat(256);
    match store.create_if_absent(&long, "x".into()).await {
        Create::Failed(error) => assert_eq!(error.kind(), ErrorKind::NameTooLong, "{error}"),
        other => panic!("{other:?}"),
    }
    // The longest legal name has room for no suffix, and must be writable all the same.
    let longest = "n".repeat(255);
    let made = store.create_if_absent(&longest, "x".into()).await;
    assert!(matches!(made, Create::Created), "{made:?}");
}
