//! Arbitrary bytes as a checkpoint record, and arbitrary bodies under a right checksum: an error or a
//! record, never a panic; and what is read is written back to an equal record.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_recovery::{decode, encode};

fn check(bytes: &[u8]) {
    if let Ok(record) = decode(bytes, "fuzz") {
        let again = encode(&record).expect("a record that was read can be written");
        assert_eq!(decode(&again, "fuzz").expect("and read again"), record);
    }
}

fuzz_target!(|data: &[u8]| {
    check(data);
    let Some((version, body)) = data.split_first() else { return };
    let version = u16::from(version % 3).to_be_bytes();
    let length = (body.len() as u64).to_be_bytes();
    let checksum = crc32fast::hash(&[&version[..], &length, body].concat()).to_be_bytes();
    check(&[b"TGCK", &version[..], &length, &checksum, body].concat());
});
