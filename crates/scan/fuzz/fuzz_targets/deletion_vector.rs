//! Any bytes as an index file: a vector of rows below the file's row count, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_scan::DeletionVector;

fuzz_target!(|bytes: &[u8]| {
    let [a, b, bytes @ ..] = bytes else { return };
    let (length, rows) = (i32::from(*a), u64::from(*b) * 257);
    // The checksum would keep nearly all inputs from the bitmap: write the right one.
    let mut file = Vec::with_capacity(bytes.len() + 9);
    file.push(1);
    file.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    file.extend_from_slice(bytes);
    file.extend_from_slice(&crc32(bytes).to_be_bytes());
    for length in [length, bytes.len() as i32, bytes.len() as i32 + 8] {
        if let Ok(vector) = DeletionVector::decode("fuzz", &file, 1, length, rows) {
            assert!(vector.len() as u64 <= rows);
        }
    }
});

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}
