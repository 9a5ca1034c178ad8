//! Column statistics of a file or manifest \[F-4.4].
//!
//! Owns the modes, the cutting of long bounds and the statistics over partition rows. Where the
//! values of a data file come from belongs to `tidegate-datafile`.

use crate::binary_row::BinaryRow;
use crate::data_type::LogicalType;
use crate::datum::Datum;
use crate::error::{Error, Result};
use std::cmp::Ordering;
use std::fmt;

/// Minimum, maximum and null count per covered column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SimpleStats {
    /// One field per covered column, all nullable; null = unknown.
    pub min_values: BinaryRow,
    /// Same for the maximum.
    pub max_values: BinaryRow,
    /// One per covered column; `None` inside = unknown; `None` outside = none at all.
    pub null_counts: Option<Vec<Option<i64>>>,
}

impl SimpleStats {
    /// Statistics over no column: what append files have for their key.
    pub fn empty() -> Self {
        Self {
            min_values: BinaryRow::empty(),
            max_values: BinaryRow::empty(),
            null_counts: Some(Vec::new()),
        }
    }
}

impl Default for SimpleStats {
    fn default() -> Self {
        Self::empty()
    }
}

/// Which statistics a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatsMode {
    /// None at all.
    None,
    /// The null count only.
    Counts,
    /// Null count, minimum and maximum.
    Full,
    /// Texts cut to so many characters, byte strings to so many bytes; everything else as `Full`.
    Truncate(usize),
}

impl StatsMode {
    /// Reads `none`, `counts`, `full` or `truncate(n)`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        match text.as_str() {
            "none" => Some(Self::None),
            "counts" => Some(Self::Counts),
            "full" => Some(Self::Full),
            _ => {
                let n = text
                    .strip_prefix("truncate(")?
                    .strip_suffix(')')?
                    .trim()
                    .parse()
                    .ok()?;
                (n > 0 && n <= i32::MAX as usize).then_some(Self::Truncate(n))
            }
        }
    }

    /// The bounds that a column keeps of its exact ones: `None` where the mode wants none or cutting
    /// leaves no upper bound, since a lower bound alone is not stored.
    pub fn bounds(self, min: Datum, max: Datum) -> Option<(Datum, Datum)> {
        match (self, min, max) {
            (Self::None | Self::Counts, ..) => None,
            (Self::Truncate(n), Datum::String(mut min), Datum::String(max)) => {
                let max = truncate_max(&max, n)?;
                min.truncate(truncate_min(&min, n).len());
                Some((Datum::String(min), Datum::String(max)))
            }
            (Self::Truncate(n), Datum::Bytes(mut min), Datum::Bytes(max)) => {
                let max = truncate_max_bytes(&max, n)?;
                min.truncate(n);
                Some((Datum::Bytes(min), Datum::Bytes(max)))
            }
            (_, min, max) => Some((min, max)),
        }
    }
}

impl fmt::Display for StatsMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Counts => f.write_str("counts"),
            Self::Full => f.write_str("full"),
            Self::Truncate(n) => write!(f, "truncate({n})"),
        }
    }
}

/// The first `n` characters: at most `text`.
pub fn truncate_min(text: &str, n: usize) -> &str {
    match text.char_indices().nth(n) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

/// At most `n` characters that are not below `text`: cut, and the last character that has a successor
/// increased, what follows dropped. `None` where no character has one (B55).
///
/// The successor is the next scalar value: U+D7FF is followed by U+E000, as surrogates are no
/// characters and a text with one could not be read.
pub fn truncate_max(text: &str, n: usize) -> Option<String> {
    let mut rest = truncate_min(text, n);
    if rest.len() == text.len() {
        return Some(text.to_owned());
    }
    while let Some(last) = rest.chars().next_back() {
        rest = rest.get(..rest.len() - last.len_utf8())?;
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            c => char::from_u32(c as u32 + 1),
        };
        if let Some(next) = next {
            return Some(format!("{rest}{next}"));
        }
    }
    None
}

/// At most `n` bytes that are not below `bytes`; `None` where all of them are 0xFF.
pub fn truncate_max_bytes(bytes: &[u8], n: usize) -> Option<Vec<u8>> {
    let Some(mut rest) = bytes.get(..n).filter(|_| bytes.len() > n) else {
        return Some(bytes.to_vec());
    };
    while let Some((last, before)) = rest.split_last() {
        if let Some(next) = last.checked_add(1) {
            let mut out = before.to_vec();
            out.push(next);
            return Some(out);
        }
        rest = before;
    }
    None
}

/// Minimum, maximum and null count over rows of known types: partition statistics of a manifest,
/// never dense and never cut.
#[derive(Clone, Debug)]
pub struct StatsCollector {
    types: Vec<LogicalType>,
    columns: Vec<Column>,
}

#[derive(Clone, Debug, Default)]
struct Column {
    bounds: Option<(Datum, Datum)>,
    nulls: i64,
}

impl StatsCollector {
    /// Over rows with these fields, none seen yet.
    pub fn new(types: Vec<LogicalType>) -> Self {
        let columns = vec![Column::default(); types.len()];
        Self { types, columns }
    }

    /// Takes a row.
    ///
    /// # Errors
    /// Where it is not of the types.
    pub fn add(&mut self, row: &BinaryRow) -> Result<()> {
        if row.arity() as usize != self.types.len() {
            return Err(Error::Binary {
                structure: "row",
                at: 0,
                what: format!("{} fields, {} expected", row.arity(), self.types.len()),
            });
        }
        for (i, (column, data_type)) in self.columns.iter_mut().zip(&self.types).enumerate() {
            match row.get(i, data_type)? {
                None => column.nulls += 1,
                Some(value) => column.take(value),
            }
        }
        Ok(())
    }

    /// The statistics of the rows taken.
    ///
    /// # Errors
    /// Never for rows that were taken; the signature is that of the row writer.
    pub fn finish(self) -> Result<SimpleStats> {
        let nulls = self.columns.iter().map(|c| Some(c.nulls)).collect();
        let (min, max): (Vec<_>, Vec<_>) = self
            .columns
            .into_iter()
            .map(|c| {
                c.bounds
                    .map_or((None, None), |(min, max)| (Some(min), Some(max)))
            })
            .unzip();
        Ok(SimpleStats {
            min_values: BinaryRow::from_datums(&min, &self.types)?,
            max_values: BinaryRow::from_datums(&max, &self.types)?,
            null_counts: Some(nulls),
        })
    }
}

impl Column {
    fn take(&mut self, value: Datum) {
        match &mut self.bounds {
            None => self.bounds = Some((value.clone(), value)),
            Some((min, max)) => {
                if value.compare(min) == Some(Ordering::Less) {
                    *min = value;
                } else if value.compare(max) == Some(Ordering::Greater) {
                    *max = value;
                }
            }
        }
    }
}
