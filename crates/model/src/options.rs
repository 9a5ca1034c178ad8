//! Table options: Paimon's keys with text values, unknown ones kept; typed access to those that the
//! write and read paths use \[F-8].
//!
//! Texts are read once, into [`TableOptions`]; no other crate parses an option of these. What this
//! build cannot honour is refused before anything is written: [`unsupported_for_write`].
//!
//! ```
//! use tidegate_model::Options;
//!
//! let mut options = Options::new();
//! options.set("target-file-size", "64 mb");
//! assert_eq!(options.bytes("target-file-size")?, Some(64 << 20));
//! options.set("target-file-size", "big");
//! assert_eq!(
//!     options.bytes("target-file-size").unwrap_err().to_string(),
//!     "option 'target-file-size' = 'big': must be a size such as 64 mb (b, kb, mb, gb or tb; none = bytes)",
//! );
//! # Ok::<(), tidegate_model::Error>(())
//! ```

mod known;
mod support;
mod table;
mod value;

pub use known::{KeyKind, key_kind};
pub use support::{not_honoured, unsupported_for_write};
pub use table::{CommitOptions, DataFileOptions, ManifestOptions, StatsOptions, TableOptions};
pub use value::{parse_bool, parse_bytes, parse_duration, parse_map};

use crate::error::{Error, Result};
use std::time::Duration;

/// Options in the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    entries: Vec<(String, String)>,
}

impl Options {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// The text of an option.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }

    /// Sets an option, in place when it is there.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        let (key, value) = (key.into(), value.into());
        match self.entries.iter_mut().find(|(k, _)| *k == key) {
            Some(entry) => entry.1 = value,
            None => self.entries.push((key, value)),
        }
    }

    /// Removes an option and returns its text.
    pub fn remove(&mut self, key: &str) -> Option<String> {
        let at = self.entries.iter().position(|(k, _)| k == key)?;
        Some(self.entries.remove(at).1)
    }

    /// All options in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    fn typed<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Option<T>,
        what: &str,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match parse(value) {
            Some(parsed) => Ok(Some(parsed)),
            None => Err(Error::Option {
                key: key.to_owned(),
                value: value.to_owned(),
                expected: what.to_owned(),
            }),
        }
    }

    /// A number of bytes.
    pub fn bytes(&self, key: &str) -> Result<Option<u64>> {
        self.typed(
            key,
            parse_bytes,
            "must be a size such as 64 mb (b, kb, mb, gb or tb; none = bytes)",
        )
    }

    /// A length of time.
    pub fn duration(&self, key: &str) -> Result<Option<Duration>> {
        self.typed(
            key,
            parse_duration,
            "must be a duration such as 10 s (d, h, min, s, ms or ns; none = milliseconds)",
        )
    }

    /// `true` or `false`.
    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        self.typed(key, parse_bool, "must be true or false")
    }

    /// A whole number of 32 bits.
    pub fn i32(&self, key: &str) -> Result<Option<i32>> {
        self.typed(
            key,
            |v| v.trim().parse().ok(),
            "must be a whole number of 32 bits",
        )
    }

    /// A whole number of 64 bits.
    pub fn i64(&self, key: &str) -> Result<Option<i64>> {
        self.typed(
            key,
            |v| v.trim().parse().ok(),
            "must be a whole number of 64 bits",
        )
    }

    /// A number above zero.
    pub fn positive(&self, key: &str) -> Result<Option<u64>> {
        self.typed(
            key,
            |v| {
                v.trim()
                    .parse()
                    .ok()
                    .filter(|n: &u64| *n > 0 && *n <= i64::MAX as u64)
            },
            "must be a whole number above 0",
        )
    }

    /// Pairs such as `0:avro,5:parquet`.
    pub fn map(&self, key: &str) -> Result<Option<Vec<(String, String)>>> {
        self.typed(
            key,
            parse_map,
            "must be a list of pairs such as k1:v1,k2:v2",
        )
    }

    /// One of a few words, in lower case.
    pub fn word(&self, key: &str, words: &[&'static str]) -> Result<Option<&'static str>> {
        self.typed(
            key,
            |v| {
                words
                    .iter()
                    .find(|w| w.eq_ignore_ascii_case(v.trim()))
                    .copied()
            },
            &format!("must be one of {}", words.join(", ")),
        )
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Options {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(iter: I) -> Self {
        let mut options = Self::new();
        iter.into_iter().for_each(|(k, v)| options.set(k, v));
        options
    }
}
