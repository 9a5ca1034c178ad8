//! Index manifests: an error or entries that are written back to themselves.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_format::{Codec, index_manifest};

fuzz_target!(|data: &[u8]| {
    let Ok(value) = index_manifest::decode(data) else {
        return;
    };
    let again = index_manifest::encode(&value, Codec::Null, [0; 16]).expect("values just read");
    assert_eq!(index_manifest::decode(&again).expect("our own bytes"), value);
});
