//! Snapshot files: an error or a value that is written back to itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_format::snapshot;

fuzz_target!(|data: &[u8]| {
    let Ok(value) = snapshot::decode(data) else {
        return;
    };
    let again = snapshot::encode(&value);
    assert_eq!(snapshot::decode(&again).expect("our own bytes"), value);
});
