//! Arbitrary text as a fault rule: an error that quotes it or a rule, never a panic; spaces between
//! the words do not matter.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_storage::Rule;

fuzz_target!(|text: &str| {
    let words: Vec<&str> = text.split_whitespace().collect();
    match (text.parse::<Rule>(), words.join("  ").parse::<Rule>()) {
        (Ok(a), Ok(b)) => assert_eq!(a, b),
        (Err(_), Err(_)) => {}
        (a, b) => panic!("{a:?} but {b:?}"),
    }
});
