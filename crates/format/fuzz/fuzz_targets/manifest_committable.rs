//! Committables, the version in the first byte: an error or a committable that is written back to
//! itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_format::manifest_committable as committable;

fuzz_target!(|data: &[u8]| {
    let Some((version, bytes)) = data.split_first() else {
        return;
    };
    let version = i32::from(version % 6);
    if let Ok(decoded) = committable::decode(bytes, version) {
        let again = committable::encode(&decoded.committable, version, decoded.message_version)
            .expect("a committable just read");
        assert_eq!(committable::decode(&again, version).expect("our own bytes"), decoded);
    }
});
