//! Arbitrary text as a job name, a commit user and a digest: what is accepted reads back as itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_sink::{CommitUser, Digest, JobName};

fuzz_target!(|text: &str| {
    if let Ok(name) = JobName::new(text) {
        assert_eq!(name.as_str(), text);
    }
    if let Ok(user) = CommitUser::new(text) {
        assert_eq!(user.as_str(), text);
    }
    if let Ok(digest) = Digest::parse(text) {
        assert_eq!(digest.to_string(), text.to_ascii_lowercase());
    }
});
