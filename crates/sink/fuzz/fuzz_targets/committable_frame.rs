//! Arbitrary bytes as a committable: an error or a committable, never a panic; and since committables
//! are compared by their bytes, what is read is written back byte for byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_sink::Committable;

fuzz_target!(|data: &[u8]| {
    for bytes in [data.to_vec(), [b"TGCM\0\x01", data].concat()] {
        if let Ok(committable) = Committable::from_bytes(&bytes) {
            assert_eq!(committable.to_bytes(), bytes);
        }
    }
});
