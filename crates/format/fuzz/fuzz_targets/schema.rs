//! Schema files: an error or a value that is written back to itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_format::schema;

fuzz_target!(|data: &[u8]| {
    let Ok(value) = schema::decode(data) else {
        return;
    };
    let again = schema::encode(&value);
    assert_eq!(schema::decode(&again).expect("our own bytes"), value);
});
