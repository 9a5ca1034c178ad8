//! Any bytes as a data file of every kind of column: batches or an error that names the file.
//!
//! The Parquet library may give up with a panic inside; the reader makes an error of that. libFuzzer
//! would end the process in its own hook before, so that hook goes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;
use tidegate_datafile::{ReadPlan, read_parquet};
use tidegate_model::{DataField, DataType, FieldId, LogicalType as L};

fn plan() -> &'static ReadPlan {
    static PLAN: OnceLock<ReadPlan> = OnceLock::new();
    PLAN.get_or_init(|| {
        let nullable = |logical| Box::new(DataType::nullable(logical));
        let types = [
            L::BigInt,
            L::VarChar(20),
            L::Decimal { precision: 20, scale: 2 },
            L::Timestamp(9),
            L::Array(nullable(L::Timestamp(3))),
            L::Map(nullable(L::VarChar(20)), nullable(L::Double)),
        ];
        let fields: Vec<DataField> = types
            .into_iter()
            .enumerate()
            .map(|(i, logical)| {
                let mut field = DataField::new(format!("c{i}"), DataType::nullable(logical));
                field.id = FieldId(i as i32);
                field
            })
            .collect();
        ReadPlan::new(&fields, &fields).expect("these types are readable")
    })
}

fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| {})),
    |bytes: &[u8]| {
        match read_parquet("fuzz.parquet", bytes.to_vec().into(), plan()) {
            Ok(batches) => batches.take(64).for_each(drop),
            Err(error) => assert!(error.to_string().contains("fuzz.parquet")),
        }
    }
);
