//! Deletion vectors: which rows of a data file are gone \[F-5.3].
//!
//! Owns the two stored forms and the roaring bitmaps in them. Positions count physical rows from 0.

use crate::index_file::{DeletionVectorRange, IndexFileMeta};

/// What is wrong with stored vectors and where, or why vectors cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct VectorError(String);

type Result<T> = std::result::Result<T, VectorError>;

const MAGIC_32: [u8; 4] = 1_581_511_376_u32.to_be_bytes();
const MAGIC_64: [u8; 4] = 1_681_511_377_u32.to_le_bytes();

/// Serial cookies of a roaring bitmap without and with runs.
const COOKIE_PLAIN: u32 = 12_346;
const COOKIE_RUNS: u32 = 12_347;

/// Positions of a container at most that are listed; of more there are bits.
const SPARSE: usize = 4096;

/// The deleted rows of one data file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeletionVector {
    /// Sorted, each once.
    positions: Vec<u64>,
}

impl DeletionVector {
    /// Of these rows, which ascend.
    pub fn of(positions: Vec<u64>) -> Self {
        Self { positions }
    }

    /// Reads the vector that begins at `offset` of an index file. `length` is as the manifest has it,
    /// `rows` the row count of the data file.
    ///
    /// # Errors
    /// Where length, magic, checksum or bitmap are not as they should be, or a position lies beyond the
    /// data file.
    pub fn decode(bytes: &[u8], offset: i32, length: i32, rows: u64) -> Result<Self> {
        let wrong = |what: String| VectorError(format!("deletion vector at byte {offset}: {what}"));
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

    /// Deletes more rows, which ascend.
    pub fn delete(&mut self, positions: &[u64]) {
        let mut all = Vec::with_capacity(self.positions.len() + positions.len());
        let (mut old, mut new) = (
            self.positions.iter().peekable(),
            positions.iter().peekable(),
        );
        loop {
            let next = match (old.peek(), new.peek()) {
                (Some(a), Some(b)) if b < a => new.next(),
                (Some(_), _) => old.next(),
                (None, _) => new.next(),
            };
            let Some(next) = next else { break };
            if all.last() != Some(next) {
                all.push(*next);
            }
        }
        self.positions = all;
    }

    /// The deleted rows of `rows` rows from `first` on.
    pub fn within(&self, first: u64, rows: usize) -> &[u64] {
        let from = self.positions.partition_point(|p| *p < first);
        let end = first.saturating_add(rows as u64);
        let to = self.positions.partition_point(|p| *p < end);
        self.positions.get(from..to).unwrap_or_default()
    }
}

/// The two stored forms \[F-5.3].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// 32-bit positions, the default.
    #[default]
    Bits32,
    /// `deletion-vectors.bitmap64`
    Bits64,
}

/// Type of index files that hold deletion vectors.
pub const INDEX_TYPE: &str = "DELETION_VECTORS";

/// Version of an index file, its first byte.
const VERSION: u8 = 1;

/// The bytes of an index file with these vectors, by data file, and its entry under this name.
///
/// # Errors
/// Where a position does not fit the form, or the file would have more bytes than its entry can say.
pub fn encode<'a>(
    name: &str,
    vectors: impl IntoIterator<Item = (&'a str, &'a DeletionVector)>,
    form: Form,
) -> Result<(Vec<u8>, IndexFileMeta)> {
    let mut bytes = vec![VERSION];
    let mut ranges = Vec::new();
    for (data_file, vector) in vectors {
        let too_large = || {
            VectorError(format!(
                "{data_file}: its deletion vector does not fit into an index file"
            ))
        };
        let mut body = Vec::new();
        match form {
            Form::Bits32 => {
                body.extend_from_slice(&MAGIC_32);
                if vector.last().is_some_and(|last| last > u64::from(u32::MAX)) {
                    return Err(VectorError(format!(
                        "{data_file}: a row beyond 2^32 is deleted; set deletion-vectors.bitmap64 = true"
                    )));
                }
                roaring(&vector.positions, &mut body);
            }
            Form::Bits64 => {
                body.extend_from_slice(&MAGIC_64);
                let parts = || vector.positions.chunk_by(|a, b| a >> 32 == b >> 32);
                body.extend_from_slice(&(parts().count() as u64).to_le_bytes());
                for part in parts() {
                    let high = part.first().map_or(0, |p| (p >> 32) as u32);
                    body.extend_from_slice(&high.to_le_bytes());
                    roaring(part, &mut body);
                }
            }
        }
        let size = u32::try_from(body.len()).map_err(|_| too_large())?;
        let offset = i32::try_from(bytes.len()).map_err(|_| too_large())?;
        let length = match form {
            Form::Bits32 => size,
            Form::Bits64 => size.saturating_add(8),
        };
        ranges.push(Some(DeletionVectorRange {
            data_file: data_file.to_owned(),
            offset,
            length: i32::try_from(length).map_err(|_| too_large())?,
            cardinality: i64::try_from(vector.len()).ok(),
        }));
        bytes.extend_from_slice(&size.to_be_bytes());
        bytes.extend_from_slice(&body);
        bytes.extend_from_slice(&crc32fast::hash(&body).to_be_bytes());
    }
    let meta = IndexFileMeta {
        index_type: INDEX_TYPE.to_owned(),
        file_name: name.to_owned(),
        file_size: bytes.len() as i64,
        row_count: ranges.len() as i64,
        dv_ranges: Some(ranges),
        external_path: None,
        global_index: None,
    };
    Ok((bytes, meta))
}

/// The low 32 bits of positions as a roaring bitmap in the portable form, without runs.
fn roaring(positions: &[u64], out: &mut Vec<u8>) {
    let containers = || positions.chunk_by(|a, b| a >> 16 == b >> 16);
    let count = containers().count();
    out.extend_from_slice(&COOKIE_PLAIN.to_le_bytes());
    out.extend_from_slice(&(count as u32).to_le_bytes());
    for container in containers() {
        let key = container.first().map_or(0, |p| (p >> 16) as u16);
        out.extend_from_slice(&key.to_le_bytes());
        out.extend_from_slice(&((container.len() - 1) as u16).to_le_bytes());
    }
    let mut at = 8 + 8 * count;
    for container in containers() {
        out.extend_from_slice(&(at as u32).to_le_bytes());
        at += match container.len() {
            dense if dense > SPARSE => 8192,
            sparse => 2 * sparse,
        };
    }
    for container in containers() {
        if container.len() <= SPARSE {
            for position in container {
                out.extend_from_slice(&(*position as u16).to_le_bytes());
            }
        } else {
            let mut words = [0u64; 1024];
            for position in container {
                let low = usize::from(*position as u16);
                if let Some(word) = words.get_mut(low / 64) {
                    *word |= 1 << (low % 64);
                }
            }
            words
                .iter()
                .for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        }
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
            } else if cardinality as usize <= SPARSE {
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
            let vector = DeletionVector::decode(&bytes(hex), 1, length, 2).unwrap();
            assert_eq!(vector.positions, [1]);
            assert!(DeletionVector::decode(&bytes(hex), 1, length + 1, 2).is_err());
            assert!(
                DeletionVector::decode(&bytes(hex), 1, length, 1).is_err(),
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
                DeletionVector::decode(&bad, 1, 22, 1 << 32).is_err(),
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
    fn what_is_written_is_what_java_writes_and_reads_back() {
        let one = DeletionVector::of(vec![1]);
        for (form, hex, length) in [(Form::Bits32, V1, 22), (Form::Bits64, V2, 42)] {
            let (file, meta) = encode("i", [("f", &one)], form).unwrap();
            assert_eq!(file, bytes(hex));
            let range = meta.dv_ranges.unwrap()[0].clone().unwrap();
            assert_eq!(
                (range.offset, range.length, range.cardinality),
                (1, length, Some(1))
            );
            assert_eq!((meta.file_size, meta.row_count), (file.len() as i64, 1));
        }
    }

    proptest::proptest! {
        #[test]
        fn many_vectors_of_any_density_read_back_in_both_forms(
            sets in proptest::collection::vec((proptest::collection::btree_set(0u64..200_000, 0..300), 0u64..70_000, 0u64..9_000), 0..4),
            wide: bool,
        ) {
            let form = if wide { Form::Bits64 } else { Form::Bits32 };
            let vectors: Vec<(String, DeletionVector)> = sets.into_iter().enumerate().map(|(n, (sparse, from, run))| {
                let mut vector = DeletionVector::of(sparse.into_iter().collect());
                vector.delete(&(from..from + run).collect::<Vec<_>>());
                if wide { vector.delete(&[1 << 33, (1 << 33) + 70_000]); }
                (format!("f{n}"), vector)
            }).collect();
            let (file, meta) = encode("i", vectors.iter().map(|(n, v)| (n.as_str(), v)), form).unwrap();
            for ((name, vector), range) in vectors.iter().zip(meta.dv_ranges.unwrap()) {
                let range = range.unwrap();
                proptest::prop_assert_eq!(&range.data_file, name);
                proptest::prop_assert!(vector.positions.is_sorted_by(|a, b| a < b));
                let read = DeletionVector::decode(&file, range.offset, range.length, u64::MAX).unwrap();
                proptest::prop_assert_eq!(&read, vector);
            }
        }
    }

    #[test]
    fn a_row_beyond_32_bits_is_refused_with_the_way_out() {
        let far = DeletionVector::of(vec![1 << 32]);
        let error = encode("i", [("f", &far)], Form::Bits32)
            .unwrap_err()
            .to_string();
        assert!(error.contains("deletion-vectors.bitmap64"), "{error}");
    }

    #[test]
    fn deleted_rows_are_found_by_stretches() {
        let vector = DeletionVector::of(vec![1, 10, 12]);
        assert_eq!(vector.within(2, 8), [] as [u64; 0]);
        assert_eq!(vector.within(9, 4), [10, 12]);
    }
}
