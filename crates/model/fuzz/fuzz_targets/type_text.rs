//! Arbitrary text read as a type: what parses prints as a text that parses to the same type.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_model::DataType;

fuzz_target!(|text: &str| {
    if let Ok(data_type) = text.parse::<DataType>() {
        data_type
            .logical
            .validate()
            .expect("the parser checks ranges");
        let again: DataType = data_type.to_string().parse().expect("our own text");
        assert_eq!(again, data_type);
    }
});
