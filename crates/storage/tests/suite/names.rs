//! Any legal name comes back byte for byte.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tidegate_storage::{ObjectPath, Store};

fn path() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        "[ -~]{1,12}",
        "\\PC{1,6}",
        Just("%2F".to_owned()),
        Just("..".to_owned()),
        Just("...".to_owned()),
        Just(".x.0123456789abcdef.tmp".to_owned()),
        Just(String::new()),
    ];
    proptest::collection::vec(name, 1..4).prop_map(|names| names.join("/"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_accepted_as_a_path_is_found_again_under_it(path in path()) {
        let dir = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        for url in [dir.path().to_str().unwrap(), "memory://"] {
            let store = Store::open(url, &BTreeMap::new()).unwrap();
            runtime.block_on(async {
                let wrote = store.write_once(&path, "x".into()).await;
                if ObjectPath::new(path.as_str()).is_err() {
                    prop_assert!(wrote.is_err(), "{path:?} was written");
                    prop_assert!(store.list("").await.unwrap().is_empty());
                } else {
                    prop_assert!(wrote.is_ok(), "{path:?}: {wrote:?}");
                    let found = store.list("").await.unwrap();
                    prop_assert_eq!(found.len(), 1);
                    prop_assert_eq!(&found[0].path, &path);
                    prop_assert_eq!(store.get(&path).await.unwrap(), "x");
                }
                Ok(())
            })?;
        }
    }
}
