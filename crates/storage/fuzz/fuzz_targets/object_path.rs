//! Arbitrary text as a path: what is accepted stays below the root and is its parent and its name.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_storage::ObjectPath;

fuzz_target!(|text: &str| {
    let Ok(path) = ObjectPath::new(text) else { return };
    assert_eq!(path.as_str(), text);
    assert!(!text.split('/').any(|n| matches!(n, "" | "." | "..")));
    assert!(!text.chars().any(char::is_control));
    match path.parent() {
        Some(parent) => {
            ObjectPath::new(parent).expect("the parent of a path is a path");
            assert_eq!(format!("{parent}/{}", path.name()), text);
        }
        None => assert_eq!(path.name(), text),
    }
});
