//! Reading Avro's binary encoding, every length checked against what is left.

use crate::error::{Error, Position, Problem, Result};

/// A place in a run of bytes.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self {
            bytes,
            at: at.min(bytes.len()),
        }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// What was read since `start`.
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    /// An error at this place.
    pub(crate) fn error(&self, problem: Problem) -> Error {
        Error::new(problem).at(Position::Byte(self.at as u64))
    }

    /// The next `n` bytes.
    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let end = self
            .at
            .checked_add(n)
            .filter(|end| *end <= self.bytes.len());
        let Some(end) = end else {
            return Err(self.error(Problem::Truncated {
                needed: (n - self.left()) as u64,
            }));
        };
        let taken = self.bytes.get(self.at..end).unwrap_or_default();
        self.at = end;
        Ok(taken)
    }

    /// The next `N` bytes as an array.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// A zigzag varint.
    pub(crate) fn long(&mut self) -> Result<i64> {
        let start = self.at;
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let Some(&byte) = self.bytes.get(self.at) else {
                return Err(self.error(Problem::Truncated { needed: 1 }));
            };
            self.at += 1;
            let low = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift == 63 && low > 1 {
                break;
            }
            value |= low << shift;
            if byte & 0x80 == 0 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        self.at = start;
        Err(self.error(Problem::Unexpected {
            expected: "a number of at most 64 bits",
            found: "a longer one".to_owned(),
        }))
    }

    /// A zigzag varint of 32 bits.
    pub(crate) fn int(&mut self) -> Result<i32> {
        let start = self.at;
        let value = self.long()?;
        i32::try_from(value).map_err(|_| {
            self.at = start;
            self.error(Problem::Unexpected {
                expected: "a number of 32 bits",
                found: value.to_string(),
            })
        })
    }

    /// Bytes after their length.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.long()?;
        match usize::try_from(length) {
            Ok(n) if n <= self.left() => self.take(n),
            _ => Err(self.error(Problem::Length {
                length,
                available: self.left() as u64,
            })),
        }
    }

    /// A text after its length.
    pub(crate) fn text(&mut self) -> Result<&'a str> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|e| {
            let at = self.at - bytes.len() + e.valid_up_to();
            Error::new(Problem::NotUtf8).at(Position::Byte(at as u64))
        })
    }

    /// The item count of the next block of an array or map; 0 = the end. With the block's byte
    /// length where the writer gave it.
    pub(crate) fn block(&mut self) -> Result<(u64, Option<u64>)> {
        let count = self.long()?;
        if count >= 0 {
            return Ok((count as u64, None));
        }
        let length = self.long()?;
        let size = u64::try_from(length).map_err(|_| {
            self.error(Problem::Length {
                length,
                available: self.left() as u64,
            })
        })?;
        Ok((count.unsigned_abs(), Some(size)))
    }
}
