//! What the fuzz targets run, and `cargo test` on their seeds. No part of storage.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "checks report by a panic"
)]

#[cfg(feature = "s3")]
use crate::backend::s3_uploads;
use crate::backend::temp_name::parse_temp;
use crate::{ErrorKind, ObjectPath, Rule, Store};
use std::collections::BTreeMap;

/// An error that quotes it or a rule, never a panic; spaces between the words do not matter.
pub fn fault_rule(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    match (text.parse::<Rule>(), words.join("  ").parse::<Rule>()) {
        (Ok(a), Ok(b)) => assert_eq!(a, b),
        (Err(_), Err(_)) => {}
        (a, b) => panic!("{a:?} but {b:?}"),
    }
}

/// What is accepted stays below the root and is its parent and its name.
pub fn object_path(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(path) = ObjectPath::new(text) else {
        return;
    };
    assert_eq!(path.as_str(), text);
    assert!(!text.split('/').any(|n| matches!(n, "" | "." | "..")));
    assert!(!text.bytes().any(|b| b.is_ascii_control()));
    match path.parent() {
        Some(parent) => {
            ObjectPath::new(parent).expect("the parent of a path is a path");
            assert_eq!(format!("{parent}/{}", path.name()), text);
        }
        None => assert_eq!(path.name(), text),
    }
}

/// The first line as a URL, the others as options: a store whose own URL opens the same one, or an
/// error of configuration or of a path that has no valid form. Nothing is asked of any store.
pub fn store_url(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut lines = text.lines();
    let url = lines.next().unwrap_or_default();
    let options: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    match Store::open(url, &options) {
        Ok(store) => {
            let again = Store::open(store.url(), &options).expect("a store's own URL");
            assert_eq!(again.url(), store.url());
        }
        Err(error) => {
            let expected = matches!(error.kind(), ErrorKind::Config | ErrorKind::NameTooLong);
            assert!(expected, "{error}");
            for (key, value) in &options {
                let quoted = crate::is_secret(key)
                    && value.len() > 8
                    && error.to_string().contains(value.as_str());
                assert!(
                    !quoted || url.contains(value.as_str()),
                    "a secret in: {error}"
                );
            }
        }
    }
}

/// Pages of a server, read or not; names of temporary files of ours, or of somebody else's.
pub fn s3_answers(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    #[cfg(feature = "s3")]
    if let Some(page) = s3_uploads::parse(text) {
        for (key, id, begun) in page.uploads {
            assert!(key.len() + id.len() <= text.len());
            assert!(begun.is_none_or(|time| time >= std::time::SystemTime::UNIX_EPOCH));
        }
    }
    if let Some((target, tag)) = parse_temp(text) {
        assert!(text.contains(target) && tag.is_none_or(|tag| text.contains(tag)));
    }
}

#[cfg(test)]
tidegate_fuzz_support::seeds!(
    fault_rule: plain,
    object_path: plain,
    store_url: packed,
    s3_answers: plain,
);

/// Seeds reach every kind of error that text given to a store can make.
#[cfg(test)]
mod corpus {
    use crate::{ErrorKind, ObjectPath, Store};
    use std::collections::{BTreeMap, BTreeSet};
    use tidegate_fuzz_support::{reached, variants};

    variants!(ErrorKind {
        Config, NameTooLong,
    } elsewhere {
        // What a store answers.
        NotFound, AlreadyExists, PermissionDenied, Full, Throttled, Transient, Unsupported,
        Corrupt, Other,
    });

    #[test]
    fn seeds_reach_every_variant() {
        let folder = env!("CARGO_MANIFEST_DIR");
        let text = |data: &[u8]| {
            std::str::from_utf8(data)
                .map(str::to_owned)
                .unwrap_or_default()
        };
        let mut all = reached(folder, "store_url", |data| {
            let text = text(data);
            let mut lines = text.lines();
            let url = lines.next().unwrap_or_default();
            let options = lines.filter_map(|line| line.split_once('='));
            let options: BTreeMap<String, String> =
                options.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
            Store::open(url, &options)
                .err()
                .map(|e| name(&e.kind()))
                .into_iter()
                .collect()
        });
        all.extend(reached(folder, "object_path", |data| {
            let path = ObjectPath::new(text(data));
            path.err().map(|e| name(&e.kind())).into_iter().collect()
        }));
        assert_eq!(all, DECODERS.iter().copied().collect::<BTreeSet<_>>());
    }
}
