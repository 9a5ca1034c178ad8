//! Tag files: an error or a value that is written back to itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_format::tag;

fuzz_target!(|data: &[u8]| {
    let Ok(value) = tag::decode(data) else {
        return;
    };
    let again = tag::encode(&value);
    assert_eq!(tag::decode(&again).expect("our own bytes"), value);
});
