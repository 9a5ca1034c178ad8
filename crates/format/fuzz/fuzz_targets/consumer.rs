//! Consumer files: an error or a value that is written back to itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_format::consumer;

fuzz_target!(|data: &[u8]| {
    let Ok(value) = consumer::decode(data) else {
        return;
    };
    let again = consumer::encode(&value);
    assert_eq!(consumer::decode(&again).expect("our own bytes"), value);
});
