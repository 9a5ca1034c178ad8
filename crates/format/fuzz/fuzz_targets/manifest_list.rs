//! Manifest lists: an error or rows that are written back to themselves.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_format::{Codec, manifest_list};

fuzz_target!(|data: &[u8]| {
    let Ok(value) = manifest_list::decode(data) else {
        return;
    };
    let again = manifest_list::encode(&value, Codec::Null, [0; 16]).expect("values just read");
    assert_eq!(manifest_list::decode(&again).expect("our own bytes"), value);
});
