//! Arbitrary JSON as a snapshot with our marks: an error, none or marks, never a panic; what is read
//! is written back to properties that read the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_commit::Marks;
use tidegate_format::snapshot;

fuzz_target!(|data: &[u8]| {
    let Ok(mut snapshot) = snapshot::decode(data) else { return };
    if let Ok(Some(marks)) = Marks::of(&snapshot) {
        snapshot.properties = marks.to_properties();
        assert_eq!(Marks::of(&snapshot).expect("what was written can be read"), Some(marks));
    }
});
