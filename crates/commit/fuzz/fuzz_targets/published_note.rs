//! Arbitrary bytes as a published note: an error or a note, never a panic; what is read is written
//! back to an equal note.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_commit::Note;

fuzz_target!(|data: &[u8]| {
    if let Ok(note) = Note::decode("fuzz", data) {
        let again = note.encode();
        assert_eq!(Note::decode("fuzz", &again).expect("what was written can be read"), note);
    }
});
