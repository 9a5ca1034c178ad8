//! Hint files: an error or a number that is written back to itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_format::hint;

fuzz_target!(|data: &[u8]| {
    let Ok(value) = hint::decode(data) else {
        return;
    };
    let again = hint::encode(value);
    assert_eq!(hint::decode(&again).expect("our own bytes"), value);
});
