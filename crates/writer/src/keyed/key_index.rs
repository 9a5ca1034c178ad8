//! The keys of a file that has each key once, in order: the ordinal of a key is the position of its row.
//!
//! Owns the packed form and finding keys in it. Keys are `arrow::row` bytes, front-coded in blocks; what
//! stays in memory is the first key of each block, and the blocks themselves or, where they do not fit,
//! a file without a name on local disk. Knows nothing of tables and stores.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Bytes of a block, about.
const BLOCK_BYTES: usize = 4096;

/// The keys of one file.
#[derive(Debug)]
pub(crate) struct KeyIndex {
    blocks: Vec<Block>,
    last: Box<[u8]>,
    body: Body,
    bytes: u64,
}

#[derive(Debug)]
struct Block {
    first: Box<[u8]>,
    /// Position of its first key.
    row: u64,
    at: u64,
    length: usize,
    /// Of its bytes: a disk that gives back others must not find keys elsewhere.
    checksum: u32,
}

#[derive(Debug)]
enum Body {
    Memory(Vec<u8>),
    Disk(Mutex<File>),
}

/// An index in the making.
#[derive(Debug)]
pub(crate) struct KeyIndexBuilder {
    blocks: Vec<Block>,
    last: Vec<u8>,
    rows: u64,
    block: Vec<u8>,
    body: Vec<u8>,
    /// Where blocks go once they are more than memory may hold.
    disk: Option<File>,
    bytes: u64,
}

impl KeyIndexBuilder {
    pub(crate) fn new() -> Self {
        Self {
            blocks: Vec::new(),
            last: Vec::new(),
            rows: 0,
            block: Vec::new(),
            body: Vec::new(),
            disk: None,
            bytes: 0,
        }
    }

    /// Takes the next key; false where it does not come after the one before it.
    pub(crate) fn push(&mut self, key: &[u8]) -> bool {
        if self.rows > 0 && key <= self.last.as_slice() {
            return false;
        }
        if self.block.len() >= BLOCK_BYTES {
            self.end_block();
        }
        let begins = self.blocks.last().is_none_or(|b| b.length > 0);
        if begins {
            self.blocks.push(Block {
                first: key.into(),
                row: self.rows,
                at: self.bytes,
                length: 0,
                checksum: 0,
            });
            // The first key stands in the directory; what follows is told from it.
            self.block.clear();
            self.block.push(0);
        } else {
            let pairs = key.iter().zip(&self.last);
            let shared = pairs.take_while(|(a, b)| a == b).count();
            let rest = key.get(shared..).unwrap_or_default();
            varint(&mut self.block, shared);
            varint(&mut self.block, rest.len());
            self.block.extend_from_slice(rest);
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        self.rows += 1;
        true
    }

    fn end_block(&mut self) {
        if let Some(block) = self.blocks.last_mut().filter(|b| b.length == 0) {
            block.length = self.block.len();
            block.checksum = crc32fast::hash(&self.block);
            self.bytes += self.block.len() as u64;
            self.body.append(&mut self.block);
        }
    }

    /// Bytes of keys in memory.
    pub(crate) fn memory(&self) -> usize {
        self.body.len() + self.block.len() + self.blocks.len() * size_of::<Block>()
    }

    /// Puts whole blocks to local disk, to a file without a name in `directory`.
    pub(crate) fn spill(&mut self, directory: &Path) -> io::Result<()> {
        let file = match &mut self.disk {
            Some(file) => file,
            None => self.disk.insert(tempfile::tempfile_in(directory)?),
        };
        file.write_all(&self.body)?;
        self.body.clear();
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<KeyIndex> {
        self.end_block();
        let body = match self.disk.take() {
            None => Body::Memory(std::mem::take(&mut self.body)),
            Some(mut file) => {
                file.write_all(&self.body)?;
                Body::Disk(Mutex::new(file))
            }
        };
        Ok(KeyIndex {
            blocks: self.blocks,
            last: self.last.into(),
            body,
            bytes: self.bytes,
        })
    }
}

fn varint(out: &mut Vec<u8>, mut n: usize) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn read_varint(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let mut n = 0usize;
    for shift in (0..usize::BITS).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        n |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(n);
        }
    }
    None
}

impl KeyIndex {
    /// Its last key; none where the file is empty.
    pub(crate) fn last(&self) -> &[u8] {
        &self.last
    }

    /// Bytes that it holds in memory.
    pub(crate) fn memory(&self) -> usize {
        let directory = self.blocks.iter().map(|b| b.first.len()).sum::<usize>()
            + self.blocks.len() * size_of::<Block>();
        match &self.body {
            Body::Memory(bytes) => directory + bytes.len(),
            Body::Disk(_) => directory,
        }
    }

    /// Bytes that it holds on local disk.
    pub(crate) fn on_disk(&self) -> u64 {
        match &self.body {
            Body::Memory(_) => 0,
            Body::Disk(_) => self.bytes,
        }
    }

    fn read(&self, block: &Block, out: &mut Vec<u8>) -> io::Result<()> {
        out.clear();
        out.resize(block.length, 0);
        match &self.body {
            Body::Memory(bytes) => {
                let from = usize::try_from(block.at).unwrap_or(usize::MAX);
                let found = bytes.get(from..from.saturating_add(block.length));
                out.copy_from_slice(found.ok_or_else(damaged)?);
            }
            Body::Disk(file) => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(block.at))?;
                file.read_exact(out)?;
                if crc32fast::hash(out) != block.checksum {
                    return Err(damaged());
                }
            }
        }
        Ok(())
    }
}

fn damaged() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "an index of keys holds other bytes than were written to it",
    )
}

/// Finds keys that ascend.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    /// The block that is decoded, and the keys of it that were passed.
    block: Option<usize>,
    bytes: Vec<u8>,
    at: usize,
    key: Vec<u8>,
    row: u64,
}

impl Finder {
    /// The position of a key, where the index has it. Keys must not descend.
    pub(crate) fn find(&mut self, index: &KeyIndex, key: &[u8]) -> io::Result<Option<u64>> {
        if key > index.last() {
            return Ok(None);
        }
        let from = self.block.unwrap_or(0);
        let rest = index.blocks.get(from..).unwrap_or_default();
        let upto = rest.partition_point(|b| b.first.as_ref() <= key);
        let Some(number) = (from + upto).checked_sub(1) else {
            return Ok(None);
        };
        let Some(block) = index.blocks.get(number).filter(|_| upto > 0) else {
            return Ok(None);
        };
        if self.block != Some(number) {
            index.read(block, &mut self.bytes)?;
            self.block = Some(number);
            self.at = 1;
            self.key.clear();
            self.key.extend_from_slice(&block.first);
            self.row = block.row;
        }
        while self.key.as_slice() < key && self.at < self.bytes.len() {
            let shared = read_varint(&self.bytes, &mut self.at).ok_or_else(damaged)?;
            let length = read_varint(&self.bytes, &mut self.at).ok_or_else(damaged)?;
            let end = self.at.checked_add(length).ok_or_else(damaged)?;
            let rest = self.bytes.get(self.at..end).ok_or_else(damaged)?;
            self.key.truncate(shared);
            self.key.extend_from_slice(rest);
            self.at = end;
            self.row += 1;
        }
        Ok((self.key.as_slice() == key).then_some(self.row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn built(keys: &BTreeSet<Vec<u8>>, spilled: bool) -> KeyIndex {
        let directory = std::env::temp_dir();
        let mut builder = KeyIndexBuilder::new();
        for (n, key) in keys.iter().enumerate() {
            assert!(builder.push(key));
            if spilled && n % 100 == 7 {
                builder.spill(&directory).unwrap();
            }
        }
        builder.finish().unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_key_is_found_at_its_ordinal_and_no_other_key_is(
            keys in proptest::collection::btree_set(proptest::collection::vec(0u8..4, 0..40), 0..900),
            asked in proptest::collection::btree_set(proptest::collection::vec(0u8..4, 0..40), 0..60),
            spilled: bool,
        ) {
            let index = built(&keys, spilled);
            let mut finder = Finder::default();
            let all: BTreeSet<&Vec<u8>> = keys.iter().step_by(3).chain(&asked).collect();
            for key in all {
                let found = finder.find(&index, key).unwrap();
                let expected = keys.iter().position(|k| k == key).map(|n| n as u64);
                prop_assert_eq!(found, expected);
                // Asked again it is where it was.
                prop_assert_eq!(finder.find(&index, key).unwrap(), expected);
            }
        }
    }

    #[test]
    fn keys_that_share_their_beginning_take_little_room() {
        let keys: BTreeSet<Vec<u8>> = (0..50_000u64).map(|n| n.to_be_bytes().to_vec()).collect();
        let index = built(&keys, false);
        assert!(index.blocks.len() > 30, "{}", index.blocks.len());
        assert!(index.memory() < 50_000 * 4, "{}", index.memory());
    }

    #[test]
    fn keys_out_of_order_are_refused() {
        let mut builder = KeyIndexBuilder::new();
        assert!(builder.push(b"b"));
        assert!(!builder.push(b"b"));
        assert!(!builder.push(b"a"));
    }

    #[test]
    fn a_disk_that_gives_back_other_bytes_is_noticed() {
        let keys: BTreeSet<Vec<u8>> = (0..9_000u64).map(|n| n.to_be_bytes().to_vec()).collect();
        let index = built(&keys, true);
        assert!(index.on_disk() > 0);
        let Body::Disk(file) = &index.body else {
            panic!("{index:?}")
        };
        {
            let mut file = file.lock().unwrap();
            file.seek(SeekFrom::Start(9)).unwrap();
            file.write_all(&[0xee]).unwrap();
        }
        let found = Finder::default().find(&index, &5u64.to_be_bytes());
        assert_eq!(found.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
