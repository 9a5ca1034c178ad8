//! S3 against a real server over HTTP (MiniStack), started by the tests.

use std::collections::BTreeMap;

use bytes::Bytes;
use tidegate_storage::{Create, ErrorKind, Store, UploadOptions};
use tidegate_test_services::S3Server;

fn open(prefix: &str) -> Store {
    let server = S3Server::shared().unwrap();
    Store::open(&server.url(prefix), &server.options()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_on_s3_behave_as_on_disk() {
    let store = open("basic/wh");
    store.probe_create().await.unwrap();
    assert!(matches!(
        store.create_if_absent("a/b", "one".into()).await,
        Create::Created
    ));
    match store.create_if_absent("a/b", "two".into()).await {
        Create::Exists(theirs) => assert_eq!(theirs, "one"),
        other => panic!("{other:?}"),
    }
    for path in ["dt=a%2Fb/é x/😀.bin", "q?/#h/%"] {
        store.write_once(path, path.into()).await.unwrap();
        assert_eq!(store.get(path).await.unwrap(), path);
        assert_eq!(
            store.head(path).await.unwrap().unwrap().size,
            path.len() as u64
        );
    }
    let found: Vec<_> = store
        .list("")
        .await
        .unwrap()
        .into_iter()
        .map(|m| m.path)
        .collect();
    assert_eq!(found, ["a/b", "dt=a%2Fb/é x/😀.bin", "q?/#h/%"]);
    let top: Vec<_> = store
        .list_names("")
        .await
        .unwrap()
        .into_iter()
        .map(|e| e.name)
        .collect();
    assert_eq!(top, ["a", "dt=a%2Fb", "q?"]);
    assert_eq!(store.get_range("a/b", 1..3).await.unwrap(), "ne");
    assert_eq!(
        store.get_range("a/b", 1..9).await.unwrap_err().kind(),
        ErrorKind::Corrupt
    );
    assert_eq!(
        store.get_range("a/b", 7..9).await.unwrap_err().kind(),
        ErrorKind::Corrupt
    );
    assert!(store.get_opt("a/c").await.unwrap().is_none());
    assert!(store.head("a/c").await.unwrap().is_none());
    let results = store
        .delete_many(&["a/b", "dt=a%2Fb/é x/😀.bin", "q?/#h/%", "never"])
        .await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert!(store.list("").await.unwrap().is_empty());
    store.delete("never").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_in_parts_is_confirmed_by_the_store() {
    let store = open("upload");
    let options = UploadOptions {
        part_size: Some(5 << 20),
        parts_under_way: None,
    };
    let content = Bytes::from(
        (0..12_000_000_u32)
            .map(|i| (i % 251) as u8)
            .collect::<Vec<_>>(),
    );
    let mut upload = store.upload_with("data/f", options).await.unwrap();
    for at in (0..content.len()).step_by(1_000_003) {
        upload
            .write(content.slice(at..content.len().min(at + 1_000_003)))
            .await
            .unwrap();
    }
    assert_eq!(upload.finish().await.unwrap(), content.len() as u64);
    assert_eq!(store.get("data/f").await.unwrap(), content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_cannot_be_reached_is_a_failure_without_effect() {
    let mut options: BTreeMap<String, String> = S3Server::shared().unwrap().options();
    options.insert("s3.endpoint".into(), "http://127.0.0.1:9".into());
    let store = Store::open("s3://bucket/x", &options)
        .unwrap()
        .with_retry(tidegate_storage::RetryPolicy::none());
    match store.create_if_absent("a", "b".into()).await {
        Create::Failed(error) => {
            assert!(error.is_transient() && !error.effect_unknown(), "{error}");
            assert!(error.to_string().contains("cannot be reached"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_bucket_is_named() {
    let options = S3Server::shared().unwrap().options();
    let store = Store::open("s3://no-such-bucket/x", &options).unwrap();
    match store.create_if_absent("a", "b".into()).await {
        Create::Failed(error) => {
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.to_string().contains("404 NoSuchBucket"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(
        store.get_opt("a").await.is_err(),
        "a missing bucket is no absent object"
    );
    assert!(store.list("").await.is_err());
}
