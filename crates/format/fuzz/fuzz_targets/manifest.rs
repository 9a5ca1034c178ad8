//! Manifests: an error or entries that are written back to themselves; lent and owned entries agree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_format::{Codec, manifest};

fuzz_target!(|data: &[u8]| {
    let decoded = manifest::decode(data);
    if let Ok(mut scan) = manifest::scan(data) {
        let mut count = 0;
        while let Some(view) = scan.next() {
            let Ok(view) = view else { break };
            let entry = view.to_entry();
            if let (Ok(all), Ok(entry)) = (&decoded, entry) {
                assert_eq!(all[count], entry);
            }
            count += 1;
        }
    }
    if let Ok(entries) = decoded {
        let again = manifest::encode(&entries, Codec::Null, [0; 16]).expect("entries just read");
        assert_eq!(manifest::decode(&again).expect("our own bytes"), entries);
    }
});
