//! Arbitrary bytes read as rows of every kind of type: an error or values, never a panic; and what is
//! read is written back to the same values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use tidegate_model::{BinaryRow, DataType, LogicalType};

static TYPES: LazyLock<Vec<LogicalType>> = LazyLock::new(|| {
    [
        "INT",
        "STRING",
        "DECIMAL(30, 3)",
        "TIMESTAMP(9)",
        "ARRAY<MAP<STRING, BYTES>>",
        "ROW<a ROW<b STRING, c DECIMAL(9, 2)>, d MULTISET<BIGINT>>",
        "ARRAY<ARRAY<BOOLEAN>>",
        "DATE",
    ]
    .iter()
    .map(|t| t.parse::<DataType>().expect("a type").logical)
    .collect()
});

fuzz_target!(|data: &[u8]| {
    let Ok(row) = BinaryRow::from_serialized(data) else {
        return;
    };
    for i in 0..(row.arity() as usize).min(16) {
        for data_type in TYPES.iter() {
            let _ = row.get(i, data_type);
        }
    }
    let types: Vec<_> = TYPES
        .iter()
        .cycle()
        .take((row.arity() as usize).min(64))
        .collect();
    if let Ok(values) = row.datums(types.iter().copied()) {
        let types: Vec<_> = types.into_iter().cloned().collect();
        // A decimal may hold more digits than its type; such a row cannot be written again.
        if let Ok(again) = BinaryRow::from_datums(&values, &types) {
            assert_eq!(again.datums(&types).expect("our own row"), values);
        }
    }
});
