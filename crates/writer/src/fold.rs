//! A quick hash of words, for keys that come by the million.

use std::hash::{BuildHasherDefault, Hasher};

/// Hashes words of eight bytes, for binary rows and raw values. Tables
/// with millions of chosen colliding partition values are slow, not wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FoldHasher(u64);

pub(crate) type Fold = BuildHasherDefault<FoldHasher>;

impl Hasher for FoldHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, tail) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        if !tail.is_empty() {
            let rest = tail
                .iter()
                .fold(0, |word, byte| (word << 8) | u64::from(*byte));
            self.write_u64(rest);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        // The table takes its index from the low bits, where a product is weakest.
        self.0 ^ (self.0 >> 32)
    }
}
