//! Commit messages, the version in the first byte: an error or a message that is written back to
//! itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_format::commit_message;

fuzz_target!(|data: &[u8]| {
    let Some((version, bytes)) = data.split_first() else {
        return;
    };
    let version = i32::from(version % 14);
    if let Ok(message) = commit_message::decode(bytes, version) {
        let again = commit_message::encode(&message, version).expect("a message just read");
        assert_eq!(commit_message::decode(&again, version).expect("our own bytes"), message);
    }
});
