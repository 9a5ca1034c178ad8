//! The local and the memory store, through the public interface only.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use tidegate_storage::{Create, ErrorKind, Op, Store, UploadOptions};

fn stores() -> (tempfile::TempDir, Vec<Store>) {
    let dir = tempfile::tempdir().unwrap();
    let none = BTreeMap::new();
    let local = Store::open(dir.path().join("wh").to_str().unwrap(), &none).unwrap();
    let memory = Store::open("memory://", &none).unwrap();
    let child = Store::open("memory://", &none)
        .unwrap()
        .child("deeper/still");
    static UNIQUE: AtomicU32 = AtomicU32::new(0);
    let unique = UNIQUE.fetch_add(1, Ordering::Relaxed);
    let nested = Store::open(&format!("memory://nested-{unique}/a/b"), &none).unwrap();
    (dir, vec![local, memory, child, nested])
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_creator_wins_and_its_bytes_stay() {
    let (_dir, stores) = stores();
    for store in stores {
        let path = "snapshot/snapshot-1";
        assert!(matches!(
            store.create_if_absent(path, "one".into()).await,
            Create::Created
        ));
        match store.create_if_absent(path, "two".into()).await {
            Create::Exists(theirs) => assert_eq!(theirs, "one"),
            other => panic!("{}: {other:?}", store.url()),
        }
        assert_eq!(store.get(path).await.unwrap(), "one");
        store.probe_create().await.unwrap();
        assert_eq!(store.list("").await.unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn put_replaces_and_reads_give_exactly_the_bytes() {
    let (_dir, stores) = stores();
    for store in stores {
        assert!(store.get_opt("a/b").await.unwrap().is_none());
        assert!(store.head("a/b").await.unwrap().is_none());
        store.put("a/b", "0123456789".into()).await.unwrap();
        store.put("a/b", "abcdefghij".into()).await.unwrap();
        assert_eq!(store.get_range("a/b", 2..5).await.unwrap(), "cde");
        assert_eq!(store.get_range("a/b", 5..5).await.unwrap(), "");
        let beyond = store.get_range("a/b", 5..11).await.unwrap_err();
        assert_eq!(beyond.kind(), ErrorKind::Corrupt);
        let meta = store.head("a/b").await.unwrap().unwrap();
        assert_eq!((meta.path.as_str(), meta.size), ("a/b", 10));
        assert!(
            store.head("a").await.unwrap().is_none(),
            "a directory is no object"
        );
        let absent = store.get("a/c").await.unwrap_err();
        assert!(
            absent.is_not_found() && absent.to_string().contains("a/c"),
            "{absent}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_names_are_used_byte_for_byte() {
    let (dir, stores) = stores();
    let odd = [
        "dt=a%2Fb/é x/😀.bin",
        "dt=__DEFAULT_PARTITION__/a b+c&d.orc",
        "q?/#h/%",
    ];
    for store in stores {
        for path in odd {
            store.write_once(path, path.into()).await.unwrap();
        }
        let mut found: Vec<_> = store
            .list("")
            .await
            .unwrap()
            .into_iter()
            .map(|m| m.path)
            .collect();
        found.sort();
        let mut expected: Vec<_> = odd.iter().map(|path| (*path).to_owned()).collect();
        expected.sort();
        assert_eq!(found, expected);
        let top: Vec<_> = store
            .list_names("")
            .await
            .unwrap()
            .into_iter()
            .map(|e| (e.name, e.is_dir))
            .collect();
        assert!(top.contains(&("dt=a%2Fb".to_owned(), true)), "{top:?}");
        assert_eq!(
            store.list_names("dt=a%2Fb/é x").await.unwrap()[0].size,
            odd[0].len() as u64
        );
    }
    assert!(dir.path().join("wh/dt=a%2Fb/é x/😀.bin").is_file());
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_paths_are_refused_without_effect() {
    let (_dir, stores) = stores();
    for store in stores {
        for path in ["", "/a", "a/", "a//b", "../a", "a/./b", "a\nb"] {
            let error = store.get(path).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NameTooLong, "{path:?}");
            match store.create_if_absent(path, Bytes::new()).await {
                Create::Failed(error) => assert!(!error.effect_unknown()),
                other => panic!("{path:?}: {other:?}"),
            }
        }
        assert!(store.child("../x").list("").await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_appears_whole_or_not_at_all() {
    let (dir, stores) = stores();
    let options = UploadOptions {
        part_size: Some(10),
        parts_under_way: Some(3),
    };
    for store in stores {
        let content: Vec<u8> = (0..=250).collect();
        let mut upload = store.upload_with("data/f", options).await.unwrap();
        for piece in content.chunks(7) {
            upload.write(Bytes::copy_from_slice(piece)).await.unwrap();
            assert!(store.head("data/f").await.unwrap().is_none());
        }
        assert_eq!(upload.written(), 251);
        assert_eq!(upload.finish().await.unwrap(), 251);
        assert_eq!(store.get("data/f").await.unwrap(), content);

        let mut given_up = store.upload_with("data/g", options).await.unwrap();
        given_up.write(Bytes::from(content.clone())).await.unwrap();
        given_up.abort().await.unwrap();
        let mut dropped = store.upload_with("data/h", options).await.unwrap();
        dropped.write(Bytes::from(content)).await.unwrap();
        drop(dropped);

        let small = store.upload("data/small").await.unwrap();
        assert_eq!(small.finish().await.unwrap(), 0);
        let found: Vec<_> = store
            .list("data")
            .await
            .unwrap()
            .into_iter()
            .map(|m| m.path)
            .collect();
        assert_eq!(found, ["data/f", "data/small"]);
    }
    assert_eq!(names(&dir.path().join("wh/data")), ["f", "small"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_is_repeatable() {
    let (_dir, stores) = stores();
    for store in stores {
        store.put("x/a", "1".into()).await.unwrap();
        store.put("x/b", "2".into()).await.unwrap();
        store.delete("x/a").await.unwrap();
        store.delete("x/a").await.unwrap();
        let results = store.delete_many(&["x/b", "x/never"]).await;
        assert!(results.iter().all(Result::is_ok) && results.len() == 2);
        assert!(store.list("x").await.unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_counted_by_kind() {
    let (_dir, stores) = stores();
    for store in stores {
        let before = store.metrics();
        store.write_once("m", "12345".into()).await.unwrap();
        let _ = store.create_if_absent("m", "1".into()).await;
        store.child("c").get_opt("none").await.unwrap();
        let counts = store.metrics().since(&before);
        assert_eq!(
            (counts.writes(), counts.reads(), counts.lists()),
            (2, 2, 0),
            "{counts}"
        );
        assert_eq!(counts.of(Op::Put).bytes, 5);
        assert_eq!(counts.of(Op::Get).errors, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_files_are_hidden_and_found_for_cleaning() {
    let dir = tempfile::tempdir().unwrap();
    let root = Store::open(dir.path().to_str().unwrap(), &BTreeMap::new()).unwrap();
    let store = root.child("table").with_tag("run-7");
    let options = UploadOptions {
        part_size: Some(2),
        parts_under_way: Some(1),
    };
    let mut open = store
        .upload_with("bucket-0/data-1.parquet", options)
        .await
        .unwrap();
    open.write("abcdef".into()).await.unwrap();
    assert!(store.list("").await.unwrap().is_empty());
    assert!(store.list_names("bucket-0").await.unwrap().is_empty());
    let found = store.list_unfinished("").await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].target, "bucket-0/data-1.parquet");
    assert_eq!(found[0].tag.as_deref(), Some("run-7"));
    store.discard_unfinished(&found[0]).await.unwrap();
    store.discard_unfinished(&found[0]).await.unwrap();
    assert!(names(&dir.path().join("table/bucket-0")).is_empty());
    drop(open);
}

#[test]
fn urls_come_back_as_they_were_given() {
    let none = BTreeMap::new();
    for (given, shown) in [
        ("file:///lake/a%20b", "file:///lake/a%20b"),
        ("file:/lake/", "file:///lake"),
        ("/lake/x/../y", "file:///lake/y"),
        ("memory://m/p/q", "memory://m/p/q"),
    ] {
        let store = Store::open(given, &none).unwrap();
        assert_eq!(store.url(), shown);
        assert_eq!(Store::open(shown, &none).unwrap().url(), shown);
        assert_eq!(store.child("t").url(), format!("{shown}/t"));
        assert_eq!(store.child("t").url_of("x"), format!("{shown}/t/x"));
    }
    let error = Store::open("ftp://x/y", &none).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_object_by_its_url() {
    let none = BTreeMap::new();
    let root = Store::open("/", &none).unwrap();
    assert_eq!(root.url(), "file:///");
    assert_eq!(root.url_of("a"), "file:///a");
    for (store, url) in [
        (root.child("no-such-dir"), "file:///no-such-dir/x"),
        (
            Store::open("memory://m-errors/p", &none).unwrap(),
            "memory://m-errors/p/x",
        ),
    ] {
        let error = store.get("x").await.unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("get {url}: not found")),
            "{error}"
        );
    }
    let error = Store::open("ftp://x", &none).unwrap_err().to_string();
    assert!(
        error.starts_with("open: wrong store configuration: 'ftp://x'"),
        "{error}"
    );
}
