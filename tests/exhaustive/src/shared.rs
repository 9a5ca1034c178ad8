//! A part of a state that many states have in common.
//!
//! Owns: sharing, and the hash that is computed once per change instead of once per state.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A value that is copied when it is changed, and hashed then.
#[derive(Clone)]
pub struct Shared<T> {
    value: Arc<T>,
    hash: u64,
}

impl<T: Clone + Hash> Shared<T> {
    /// Takes the value.
    pub fn new(value: T) -> Self {
        let hash = hash_of(&value);
        Self {
            value: Arc::new(value),
            hash,
        }
    }

    /// Changes the value; others that share it keep theirs. It is to be sealed before it is hashed.
    pub fn change<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        self.hash = OPEN;
        change(Arc::make_mut(&mut self.value))
    }

    /// Hashes what was changed.
    pub fn seal(&mut self) {
        if self.hash == OPEN {
            self.hash = hash_of(&*self.value);
        }
    }

    /// Its hash.
    pub fn fingerprint(&self) -> u64 {
        match self.hash {
            OPEN => hash_of(&*self.value),
            hash => hash,
        }
    }
}

/// Changed, and not hashed yet.
const OPEN: u64 = 0;

fn hash_of<T: Hash>(value: &T) -> u64 {
    let mut hasher = Mixer(0x9e37_79b9_7f4a_7c15);
    value.hash(&mut hasher);
    hasher.finish().max(1)
}

/// Folded multiplication, as in wyhash and ahash: quick for many small values, the same in every run.
struct Mixer(u64);

impl Mixer {
    fn mix(&mut self, word: u64) {
        let product =
            u128::from(self.0 ^ word).wrapping_mul(0xa076_1d64_78bd_642f_e703_7ed1_a0b4_28db);
        self.0 = (product as u64) ^ ((product >> 64) as u64).rotate_left(23);
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        let mut last = Self(self.0);
        last.mix(0xe703_7ed1_a0b4_28db);
        last.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words
            .iter()
            .for_each(|word| self.mix(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        self.mix(u64::from_le_bytes(last) ^ ((rest.len() as u64) << 60));
    }

    fn write_u8(&mut self, n: u8) {
        self.mix(u64::from(n));
    }

    fn write_u32(&mut self, n: u32) {
        self.mix(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        self.mix(n);
    }

    fn write_usize(&mut self, n: usize) {
        self.mix(n as u64);
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq + Clone + Hash> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint() == other.fingerprint() && *self.value == *other.value
    }
}

impl<T: Clone + Hash> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.fingerprint());
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}
