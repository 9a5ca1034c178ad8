//! Deletion vectors: which rows of a data file are gone \[F-5.3].
//!
//! Owns the two stored forms and the roaring bitmaps in them. Positions count physical rows from 0.

use crate::error::{Error, Result};
use arrow::array::BooleanArray;
use arrow::buffer::BooleanBuffer;

const MAGIC_32: [u8; 4] = 1_581_511_376_u32.to_be_bytes();
const MAGIC_64: [u8; 4] = 1_681_511_377_u32.to_le_bytes();

/// Serial cookies of a roaring bitmap without and with runs.
const COOKIE_PLAIN: u32 = 12_346;
const COOKIE_RUNS: u32 = 12_347;

/// The deleted rows of one data file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletionVector {
    /// Sorted, each once.
    positions: Vec<u64>,
}

impl DeletionVector {
    /// Reads the vector that begins at `offset` of an index file. `length` is as the manifest has it,
    /// `rows` the row count of the data file.
    ///
    /// # Errors
    /// Where length, magic, checksum or bitmap are not as they should be, or a position lies beyond the
    /// data file.
    pub fn decode(file: &str, bytes: &[u8], offset: i32, length: i32, rows: u64) -> Result<Self> {
        let wrong = |what: String| Error::Inconsistent {
            file: file.to_owned(),
            what: format!("deletion vector at byte {offset}: {what}"),
        };
        let start = usize::try_from(offset).map_err(|_| wrong("negative offset".into()))?;
        let blob = bytes
            .get(start..)
            .ok_or_else(|| wrong(format!("the file has only {} bytes", bytes.len())))?;
        let mut at = Cursor::new(blob);
        let short = || wrong("the file ends inside it".into());
        let size = u32::from_be_bytes(at.array().ok_or_else(short)?);
        let body = at.take(size as usize).ok_or_else(short)?;
        let checksum = u32::from_be_bytes(at.array().ok_or_else(short)?);
        if crc32fast::hash(body) != checksum {
            return Err(wrong("its checksum does not hold".into()));
        }
        let (magic, bitmap) = body.split_at_checked(4).ok_or_else(short)?;
        let mut bitmap = Cursor {
            bitmap_rows: rows,
            ..Cursor::new(bitmap)
        };
        let (expected, positions) = if magic == MAGIC_32 {
            (i64::from(size), bitmap.roaring(0).map(|p| vec![p]))
        } else if magic == MAGIC_64 {
            (i64::from(size) + 8, bitmap.roaring_64())
        } else {
            return Err(wrong(format!("unknown kind {magic:02x?}")));
        };
        if i64::from(length) != expected {
            return Err(wrong(format!(
                "it has length {expected}, the manifest says {length}"
            )));
        }
        let positions = positions.ok_or_else(|| {
            wrong("its bitmap cannot be read, or has rows beyond the data file".into())
        })?;
        let positions: Vec<u64> = positions.concat();
        if positions
            .iter()
            .zip(positions.iter().skip(1))
            .any(|(a, b)| a >= b)
        {
            return Err(wrong("its positions are not in order".into()));
        }
        Ok(Self { positions })
    }

    /// How many rows are deleted.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// True where none is.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The last deleted row.
    pub fn last(&self) -> Option<u64> {
        self.positions.last().copied()
    }

    /// Whether a row is deleted.
    pub fn contains(&self, position: u64) -> bool {
        self.positions.binary_search(&position).is_ok()
    }

    /// True for the rows that stay, of `rows` rows from `first` on; `None` where all stay.
    pub fn kept(&self, first: u64, rows: usize) -> Option<BooleanArray> {
        let from = self.positions.partition_point(|p| *p < first);
        let to = self.positions.partition_point(|p| *p < first + rows as u64);
        let deleted = self.positions.get(from..to).filter(|d| !d.is_empty())?;
        let mut next = deleted.iter().map(|p| (p - first) as usize).peekable();
        let kept = BooleanBuffer::collect_bool(rows, |row| next.next_if_eq(&row).is_none());
        Some(BooleanArray::new(kept, None))
    }
}

/// Reads little-endian numbers; `None` at the end of the bytes.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    bitmap_rows: u64,
}

impl<'a> Cursor<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            bitmap_rows: 0,
        }
    }

    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(n)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Bitmaps by their high 32 bits.
    fn roaring_64(&mut self) -> Option<Vec<Vec<u64>>> {
        let count = u64::from_le_bytes(self.array()?);
        let mut parts = Vec::new();
        for _ in 0..count {
            let high = u64::from(self.u32()?);
            parts.push(self.roaring(high << 32)?);
        }
        Some(parts)
    }

    /// One bitmap in the portable form. Every position lies below `bitmap_rows`, which bounds the
    /// memory taken.
    fn roaring(&mut self, base: u64) -> Option<Vec<u64>> {
        let cookie = self.u32()?;
        let (count, runs) = if cookie & 0xffff == COOKIE_RUNS {
            let count = (cookie >> 16) as usize + 1;
            (count, Some(self.take(count.div_ceil(8))?))
        } else if cookie == COOKIE_PLAIN {
            (
                usize::try_from(self.u32()?).ok().filter(|n| *n <= 65_536)?,
                None,
            )
        } else {
            return None;
        };
        let mut headers = Vec::new();
        for _ in 0..count {
            headers.push((self.u16()?, u32::from(self.u16()?) + 1));
        }
        if runs.is_none() || count >= 4 {
            self.take(count * 4)?;
        }
        let mut positions = Vec::new();
        for (index, (key, cardinality)) in headers.into_iter().enumerate() {
            let base = base | u64::from(key) << 16;
            let is_run =
                runs.is_some_and(|r| r.get(index / 8).is_some_and(|b| b >> (index % 8) & 1 == 1));
            let before = positions.len();
            let rows = self.bitmap_rows;
            let mut put = |low: u64| {
                let position = base | low;
                (position < rows).then(|| positions.push(position))
            };
            if is_run {
                for _ in 0..self.u16()? {
                    let (start, more) = (u64::from(self.u16()?), u64::from(self.u16()?));
                    (start..=start + more)
                        .try_for_each(|low| if low > 0xffff { None } else { put(low) })?;
                }
            } else if cardinality <= 4096 {
                for _ in 0..cardinality {
                    put(u64::from(self.u16()?))?;
                }
            } else {
                for word in 0..1024u64 {
                    let mut bits = u64::from_le_bytes(self.array()?);
                    while bits != 0 {
                        put(word * 64 + u64::from(bits.trailing_zeros()))?;
                        bits &= bits - 1;
                    }
                }
            }
            if positions.len() - before != cardinality as usize {
                return None;
            }
        }
        Some(positions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(|b| b.is_ascii_hexdigit()).collect();
        digits
            .chunks(2)
            .map(|c| u8::from_str_radix(std::str::from_utf8(c).unwrap(), 16).unwrap())
            .collect()
    }

    const V1: &str = "01 00000016 5e43f2d0 3a300000 01000000 0000 0000 10000000 0100 fa2b5192";
    const V2: &str = "01 00000022 d1d33964 0100000000000000 00000000 3a300000 01000000 0000 0000 10000000 0100 eebd85f4";

    #[test]
    fn both_forms_of_java_decode_and_their_lengths_differ() {
        for (hex, length) in [(V1, 22), (V2, 42)] {
            let vector = DeletionVector::decode("i", &bytes(hex), 1, length, 2).unwrap();
            assert_eq!(vector.positions, [1]);
            assert!(DeletionVector::decode("i", &bytes(hex), 1, length + 1, 2).is_err());
            assert!(
                DeletionVector::decode("i", &bytes(hex), 1, length, 1).is_err(),
                "row 1 of one row"
            );
        }
    }

    #[test]
    fn a_changed_byte_is_noticed() {
        let good = bytes(V1);
        for at in 1..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            assert!(
                DeletionVector::decode("i", &bad, 1, 22, 1 << 32).is_err(),
                "byte {at}"
            );
        }
    }

    #[test]
    fn runs_and_dense_containers_are_read() {
        let mut runs = Cursor {
            bitmap_rows: 1 << 20,
            ..Cursor::new(&[])
        };
        let body = bytes("3b300000 01 0000 0400 0100 0300 0400");
        runs.bytes = &body;
        assert_eq!(runs.roaring(0), Some(vec![3, 4, 5, 6, 7]));
        let mut dense = bytes("3a300000 01000000 0000 8813 10000000");
        let mut words = vec![0u8; 8192];
        (0..5001usize).for_each(|i| words[i / 8] |= 1 << (i % 8));
        dense.extend(words);
        let mut dense = Cursor {
            bitmap_rows: 1 << 20,
            ..Cursor::new(&dense)
        };
        assert_eq!(
            dense.roaring(1 << 32).map(|p| (p.len(), p[5000])),
            None,
            "beyond the rows"
        );
        dense.at = 0;
        dense.bitmap_rows = u64::MAX;
        assert_eq!(
            dense.roaring(1 << 32).map(|p| (p.len(), p[5000])),
            Some((5001, (1 << 32) + 5000))
        );
    }

    #[test]
    fn kept_rows_are_relative_to_the_batch() {
        let vector = DeletionVector {
            positions: vec![1, 10, 12],
        };
        assert!(vector.kept(2, 8).is_none());
        let kept: Vec<bool> = vector.kept(9, 4).unwrap().values().iter().collect();
        assert_eq!(kept, [true, false, true, false]);
    }
}
