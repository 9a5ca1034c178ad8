//! What the fuzz targets run, and `cargo test` on their seeds. No part of reading.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "checks report by a panic"
)]

use crate::{DeletionVector, avro};

/// An index file: a vector of rows below the file's row count, or an error.
pub fn deletion_vector(data: &[u8]) {
    let [a, b, bytes @ ..] = data else { return };
    let (length, rows) = (i32::from(*a), u64::from(*b) * 257);
    // The checksum would keep nearly all inputs from the bitmap: write the right one.
    let mut file = Vec::with_capacity(bytes.len() + 9);
    file.push(1);
    file.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    file.extend_from_slice(bytes);
    file.extend_from_slice(&crc32fast::hash(bytes).to_be_bytes());
    for length in [length, bytes.len() as i32, bytes.len() as i32 + 8] {
        if let Ok(vector) = DeletionVector::decode("fuzz", &file, 1, length, rows) {
            assert!(vector.len() as u64 <= rows);
        }
    }
    // As it stands, with any place in it.
    let _ = DeletionVector::decode("fuzz", bytes, i32::from(*a as i8), length, rows);
}

/// An Avro data file, the number of its rows in the first byte: batches with just so many, or an error
/// that names the file.
pub fn avro_file(data: &[u8]) {
    let [rows, bytes @ ..] = data else { return };
    let rows = u64::from(*rows);
    match avro::decode("fuzz.avro", bytes, rows) {
        Ok(batches) => {
            let read: usize = batches.iter().map(|b| b.num_rows()).sum();
            assert_eq!(read as u64, rows);
        }
        Err(error) => assert!(error.to_string().contains("fuzz.avro"), "{error}"),
    }
}

#[cfg(test)]
tidegate_fuzz_support::seeds!(
    deletion_vector: packed,
    avro_file: packed,
);

/// Seeds reach every variant of what a reader of files says.
#[cfg(test)]
mod corpus {
    use crate::{DeletionVector, Error, avro};
    use std::collections::BTreeSet;
    use tidegate_fuzz_support::{reached, variants};

    variants!(Error {
        Format(..), Inconsistent { .. },
    } elsewhere {
        // Of stores and of whole tables; rows are read by `tidegate-datafile`.
        Store(..), DataFile(..), Model(..), NoTable(..), NoSnapshot { .. }, NoTag { .. },
        NoSchema { .. }, NoColumn { .. }, Unsupported { .. }, NothingThen { .. }, Gap { .. },
        // Of keyed buckets, and of what a caller asks.
        Lsm(..), Merge(..), Condition { .. },
    });

    #[test]
    fn seeds_reach_every_variant() {
        let folder = env!("CARGO_MANIFEST_DIR");
        let mut all = reached(folder, "deletion_vector", |data| {
            let [a, b, bytes @ ..] = data else {
                return Vec::new();
            };
            let (length, rows) = (i32::from(*a), u64::from(*b) * 257);
            let read = DeletionVector::decode("fuzz", bytes, i32::from(*a as i8), length, rows);
            read.err().iter().map(name).collect()
        });
        all.extend(reached(folder, "avro_file", |data| {
            let [rows, bytes @ ..] = data else {
                return Vec::new();
            };
            let read = avro::decode("fuzz.avro", bytes, u64::from(*rows));
            read.err().iter().map(name).collect()
        }));
        assert_eq!(all, DECODERS.iter().copied().collect::<BTreeSet<_>>());
    }
}
