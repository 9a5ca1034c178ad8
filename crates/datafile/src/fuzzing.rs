//! What the fuzz targets run, and `cargo test` on their seeds. No part of data files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "checks report by a panic"
)]

use crate::{ReadPlan, read_parquet as read};
use arrow::array::{Array, ArrayRef, BinaryArray, RecordBatch, StringArray};
use std::sync::{Arc, LazyLock};
use tidegate_model::{DataField, DataType, FieldId};

fn fields(types: &[&str]) -> Vec<DataField> {
    let field = |(i, text): (usize, &&str)| {
        let data_type: DataType = text.parse().expect("a type");
        let mut field = DataField::new(format!("c{i}"), data_type);
        field.id = FieldId(i as i32);
        field
    };
    types.iter().enumerate().map(field).collect()
}

/// Columns as they were written, and as every one of them is wanted later.
static PLANS: LazyLock<[ReadPlan; 3]> = LazyLock::new(|| {
    let written = fields(&[
        "BIGINT",
        "VARCHAR(20)",
        "DECIMAL(20, 2)",
        "TIMESTAMP(9)",
        "ARRAY<TIMESTAMP(3)>",
        "MAP<VARCHAR(20), DOUBLE>",
    ]);
    let evolved = fields(&[
        "STRING",
        "DATE",
        "INT",
        "DATE",
        "ARRAY<TIMESTAMP(6)>",
        "MAP<STRING, DECIMAL(10, 3)>",
    ]);
    let others = fields(&[
        "TINYINT",
        "BYTES",
        "BOOLEAN",
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "ROW<a INT, b ARRAY<STRING>>",
        "MULTISET<STRING>",
    ]);
    let plan = |written: &[DataField], wanted: &[DataField]| {
        ReadPlan::new(written, wanted).expect("these types are readable")
    };
    [
        plan(&written, &written),
        plan(&written, &evolved),
        plan(&others, &others),
    ]
});

/// A data file of every kind of column: batches or an error that names the file. The Parquet library
/// may give up with a panic inside; the reader makes an error of that.
pub fn read_parquet(data: &[u8]) {
    for plan in PLANS.iter() {
        match read("fuzz.parquet", data.to_vec().into(), plan) {
            Ok(batches) => {
                for batch in batches.take(16) {
                    match batch {
                        Ok(batch) => assert_eq!(batch.schema(), *plan.schema()),
                        Err(error) => assert!(error.to_string().contains("fuzz.parquet")),
                    }
                }
            }
            Err(error) => assert!(error.to_string().contains("fuzz.parquet"), "{error}"),
        }
    }
}

/// Lines as the values of a text and of a bytes column, read as every type that such a column may
/// become: values, nulls, or an error that names file and column.
pub fn evolved_text(data: &[u8]) {
    static TYPES: &[&str] = &[
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(5, 2)",
        "DECIMAL(38, 38)",
        "DECIMAL(38, 0)",
        "BOOLEAN",
        "DATE",
        "CHAR(3)",
        "VARCHAR(2)",
        "STRING",
        "BINARY(4)",
        "VARBINARY(3)",
        "BYTES",
        "TIMESTAMP(3)",
        "TIME(3)",
    ];
    static WANTED: LazyLock<Vec<DataType>> =
        LazyLock::new(|| TYPES.iter().map(|t| t.parse().expect("a type")).collect());
    let lines: Vec<&[u8]> = data.split(|b| *b == b'\n').collect();
    let bytes: ArrayRef = Arc::new(BinaryArray::from_iter_values(lines.iter().copied()));
    let texts = lines.iter().map(|line| String::from_utf8_lossy(line));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    for (kind, array) in [("STRING", texts), ("BYTES", bytes)] {
        let written = [DataField::new("c", kind.parse().expect("a type"))];
        let rows = array.len();
        let batch =
            RecordBatch::try_from_iter_with_nullable([("c", array, true)]).expect("a batch");
        for wanted in WANTED.iter() {
            let wanted = [DataField::new("c", wanted.clone())];
            let Ok(plan) = ReadPlan::new(&written, &wanted) else {
                continue;
            };
            match plan.shape("fuzz.parquet", &batch) {
                Ok(shaped) => assert_eq!(shaped.num_rows(), rows),
                Err(error) => assert!(error.to_string().contains("fuzz.parquet"), "{error}"),
            }
        }
    }
}

#[cfg(test)]
tidegate_fuzz_support::seeds!(
    read_parquet: packed,
    evolved_text: packed,
);

/// Seeds reach every variant of what a reader of data files says.
#[cfg(test)]
mod corpus {
    use super::{PLANS, read};
    use crate::Error;
    use std::collections::BTreeSet;
    use tidegate_fuzz_support::{reached, variants};

    variants!(Error {
        Corrupt { .. },
    } elsewhere {
        // Of types, options, rows that are written, and stores; a column's new type is judged before any
        // file is read.
        UnsupportedType { .. }, Option { .. }, MissingColumn { .. }, UnknownColumn { .. },
        TypeMismatch { .. }, Value { .. }, Null { .. }, UnsupportedFormat { .. }, NoCast { .. },
        Read { .. }, Model(..), Arrow(..), Parquet(..), Misuse(..),
    });

    #[test]
    fn seeds_reach_every_variant() {
        let folder = env!("CARGO_MANIFEST_DIR");
        let all = reached(folder, "read_parquet", |data| {
            let mut found = Vec::new();
            for plan in PLANS.iter() {
                match read("fuzz.parquet", data.to_vec().into(), plan) {
                    Ok(batches) => {
                        let batches = batches.take(16).filter_map(Result::err);
                        found.extend(batches.map(|e| name(&e)));
                    }
                    Err(e) => found.push(name(&e)),
                }
            }
            found
        });
        assert_eq!(all, DECODERS.iter().copied().collect::<BTreeSet<_>>());
    }
}
