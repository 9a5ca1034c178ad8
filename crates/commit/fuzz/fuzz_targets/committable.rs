//! Arbitrary bytes as the payload of a committable: an error or its content, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_commit::committable::{PAYLOAD_VERSION, decode, from_java};
use tidegate_sink::{CommitIdentifier, CommitUser, Committable, Digest};

fuzz_target!(|data: &[u8]| {
    let user = CommitUser::new("fuzz").expect("a user");
    let open = |identifier: i64, payload: Vec<u8>| {
        let _ = decode(&Committable {
            user: user.clone(),
            identifier: CommitIdentifier(identifier),
            digest: Digest([0; 32]),
            expected: 1,
            received: 1,
            version: PAYLOAD_VERSION,
            payload,
        });
    };
    // The frame's identifier is Java's first field: most payloads get past the comparison.
    let first = data.get(12..20).and_then(|b| b.try_into().ok()).map_or(0, i64::from_be_bytes);
    open(first, data.to_vec());
    // Nothing but our extras behind an empty committable of Java.
    if let Ok(java) = from_java(&user, 5, data) {
        let read = decode(&java).expect("what was framed can be read");
        assert!(read.extras.is_none());
        let mut payload = java.payload.clone();
        payload.pop();
        payload.extend_from_slice(data);
        open(java.identifier.0, payload);
    }
});
