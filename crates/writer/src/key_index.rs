//! Where each key of a table is, on local disk: for tables whose keys may change their partition \[W-72].
//!
//! Owns a map from the bytes of a key to the number of a place. New entries wait in memory; a full memory becomes
//! a sorted run in a file without a name, which vanishes with the process; runs of like size are merged, so that
//! their number grows with the logarithm of the keys. Of a run the first key of each block and a filter stay in
//! memory. Asked for a batch of keys at once, in their order, so that a block is read once per batch.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::budget::{BudgetShare, Reservation};
use crate::error::{Result, WriterError};
use crate::fold::Fold;
use crate::keys::KeyRows;

/// Bytes of a block, about: what is read for a key that is not in memory.
const BLOCK_BYTES: usize = 4 << 10;

/// Bits of a filter per key, and how many of them a key sets: one of a hundred absent keys passes.
const FILTER_BITS: u64 = 10;
const FILTER_HASHES: u64 = 4;

/// Memory of an entry beside its key.
const ENTRY_BYTES: usize = 48;

/// Bytes of new entries at least before they become a run.
const LEAST_FRESH: usize = 256 << 10;

/// Bytes of new entries at most: beyond, runs are no better.
const MOST_FRESH: usize = 64 << 20;

/// A map from keys to places.
#[derive(Debug)]
pub(crate) struct KeyIndex {
    fresh: HashMap<Box<[u8]>, u32, Fold>,
    fresh_bytes: usize,
    /// Oldest first.
    runs: Vec<Run>,
    directory: PathBuf,
    share: Arc<BudgetShare>,
    charge: Reservation,
}

impl KeyIndex {
    pub(crate) fn new(directory: PathBuf, share: Arc<BudgetShare>) -> Self {
        Self {
            fresh: HashMap::default(),
            fresh_bytes: 0,
            runs: Vec::new(),
            directory,
            charge: share.take(0),
            share,
        }
    }

    /// The place of each key.
    pub(crate) fn find(&self, keys: &KeyRows) -> Result<Vec<Option<u32>>> {
        let mut found = Vec::new();
        let mut wanted: Vec<(&[u8], usize)> = Vec::new();
        for (row, key) in keys.iter().enumerate() {
            let place = self.fresh.get(key).copied();
            if place.is_none() && !self.runs.is_empty() {
                wanted.push((key, row));
            }
            found.push(place);
        }
        wanted.sort_unstable();
        for run in self.runs.iter().rev() {
            run.find(&self.directory, &wanted, &mut found)?;
            wanted.retain(|(_, row)| found.get(*row).is_some_and(Option::is_none));
        }
        Ok(found)
    }

    /// Notes where a key is now.
    pub(crate) fn put(&mut self, key: &[u8], place: u32) -> Result<()> {
        if self.fresh.insert(key.into(), place).is_none() {
            self.fresh_bytes += key.len() + ENTRY_BYTES;
        }
        let room = (self.share.allowance() / 8).clamp(LEAST_FRESH, MOST_FRESH);
        if self.fresh_bytes >= room {
            self.spill()?;
        }
        Ok(())
    }

    /// Counts what it holds in memory.
    pub(crate) fn charge(&mut self) {
        let runs: usize = self.runs.iter().map(Run::memory).sum();
        self.charge.resize(self.fresh_bytes + runs);
    }

    /// New entries become a run, and runs that are not much larger are merged with it.
    fn spill(&mut self) -> Result<()> {
        let mut entries: Vec<(Box<[u8]>, u32)> = self.fresh.drain().collect();
        self.fresh.shrink_to(0);
        self.fresh_bytes = 0;
        entries.sort_unstable();
        let mut run = RunWriter::new(&self.directory, entries.len())?;
        for (key, place) in &entries {
            run.push(key, *place)?;
        }
        let mut newest = run.finish()?;
        drop(entries);
        while let Some(older) = self.runs.pop_if(|older| older.entries < 2 * newest.entries) {
            newest = self.merged(&older, &newest)?;
        }
        self.runs.push(newest);
        self.charge();
        Ok(())
    }

    fn merged(&self, older: &Run, newer: &Run) -> Result<Run> {
        let mut run = RunWriter::new(&self.directory, older.entries + newer.entries)?;
        let (mut old, mut new) = (
            Entries::of(older, &self.directory),
            Entries::of(newer, &self.directory),
        );
        let (mut left, mut right) = (old.next()?, new.next()?);
        loop {
            match (&left, &right) {
                (None, None) => return run.finish(),
                (Some((key, _)), Some((other, _))) if key == other => left = old.next()?,
                (Some((key, place)), other) if other.as_ref().is_none_or(|(o, _)| key < o) => {
                    run.push(key, *place)?;
                    left = old.next()?;
                }
                (_, Some((key, place))) => {
                    run.push(key, *place)?;
                    right = new.next()?;
                }
                (Some(_), None) => left = None,
            }
        }
    }
}

/// Sorted entries in a file.
#[derive(Debug)]
struct Run {
    file: File,
    blocks: Vec<Block>,
    filter: Vec<u64>,
    entries: usize,
    keys_bytes: usize,
}

#[derive(Debug)]
struct Block {
    first: Box<[u8]>,
    at: u64,
    length: usize,
    /// Of its bytes: a disk that gives back others must not become places.
    checksum: u32,
}

fn failed(directory: &Path, what: &'static str) -> impl Fn(io::Error) -> WriterError {
    move |source| WriterError::Spill {
        dir: directory.to_owned(),
        what,
        source,
    }
}

/// Two words of a key, out of which the bits of a filter are made.
fn words(key: &[u8]) -> (u64, u64) {
    let mut first = 0x9e37_79b9_7f4a_7c15_u64;
    let (chunks, tail) = key.as_chunks::<8>();
    let mut mix = |word: u64| {
        first = (first ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        first ^= first >> 32;
    };
    chunks.iter().for_each(|c| mix(u64::from_le_bytes(*c)));
    mix(tail
        .iter()
        .fold(tail.len() as u64, |w, b| (w << 8) | u64::from(*b)));
    (
        first,
        first.rotate_left(32).wrapping_mul(0xc4ce_b9fe_1a85_ec53) | 1,
    )
}

/// The places of a key's bits among `bits`.
fn bits_of(key: &[u8], bits: u64) -> impl Iterator<Item = u64> {
    let (first, step) = words(key);
    (0..FILTER_HASHES).map(move |n| first.wrapping_add(n.wrapping_mul(step)) % bits.max(1))
}

impl Run {
    fn memory(&self) -> usize {
        self.keys_bytes + self.blocks.len() * size_of::<Block>() + self.filter.len() * 8
    }

    fn may_have(&self, key: &[u8]) -> bool {
        let bits = self.filter.len() as u64 * 64;
        bits_of(key, bits).all(|bit| {
            let word = self.filter.get((bit / 64) as usize);
            word.is_some_and(|word| word & (1 << (bit % 64)) != 0)
        })
    }

    /// Looks for sorted keys.
    fn find(
        &self,
        directory: &Path,
        wanted: &[(&[u8], usize)],
        found: &mut [Option<u32>],
    ) -> Result<()> {
        let mut read: Option<(usize, Vec<u8>)> = None;
        for (key, row) in wanted {
            if !self.may_have(key) {
                continue;
            }
            let after = self.blocks.partition_point(|b| b.first.as_ref() <= *key);
            let Some(at) = after.checked_sub(1) else {
                continue;
            };
            let bytes = match &read {
                Some((known, bytes)) if *known == at => bytes,
                _ => &read.insert((at, self.block(directory, at)?)).1,
            };
            let mut rest = bytes.as_slice();
            while let Some((entry, place)) = next_entry(&mut rest) {
                if entry == *key {
                    if let Some(found) = found.get_mut(*row) {
                        *found = Some(place);
                    }
                    break;
                }
            }
        }
        Ok(())
    }

    fn block(&self, directory: &Path, at: usize) -> Result<Vec<u8>> {
        let failed = failed(directory, "reading the index of keys");
        let Some(block) = self.blocks.get(at) else {
            return Ok(Vec::new());
        };
        let mut bytes = vec![0; block.length];
        let read = self.file.read_exact_at(&mut bytes, block.at);
        read.map_err(&failed)?;
        if crc32fast::hash(&bytes) != block.checksum {
            return Err(failed(io::Error::other(
                "other bytes come back than were written",
            )));
        }
        Ok(bytes)
    }
}

/// Key and place at the beginning of a block's bytes.
fn next_entry<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], u32)> {
    let (length, tail) = rest.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    let (key, tail) = tail.split_at_checked(length)?;
    let (place, tail) = tail.split_first_chunk::<4>()?;
    *rest = tail;
    Some((key, u32::from_le_bytes(*place)))
}

/// All entries of a run in order.
struct Entries<'a> {
    run: &'a Run,
    directory: &'a Path,
    block: usize,
    bytes: Vec<u8>,
    at: usize,
}

impl<'a> Entries<'a> {
    fn of(run: &'a Run, directory: &'a Path) -> Self {
        Self {
            run,
            directory,
            block: 0,
            bytes: Vec::new(),
            at: 0,
        }
    }

    fn next(&mut self) -> Result<Option<(Box<[u8]>, u32)>> {
        loop {
            let mut rest = self.bytes.get(self.at..).unwrap_or_default();
            if let Some((key, place)) = next_entry(&mut rest) {
                let key = key.into();
                self.at = self.bytes.len() - rest.len();
                return Ok(Some((key, place)));
            }
            if self.block >= self.run.blocks.len() {
                return Ok(None);
            }
            self.bytes = self.run.block(self.directory, self.block)?;
            self.block += 1;
            self.at = 0;
        }
    }
}

/// A run being written.
struct RunWriter<'a> {
    directory: &'a Path,
    run: Run,
    block: Vec<u8>,
    first: Option<Box<[u8]>>,
    at: u64,
}

impl<'a> RunWriter<'a> {
    fn new(directory: &'a Path, entries: usize) -> Result<Self> {
        let created = std::fs::create_dir_all(directory);
        created.map_err(failed(directory, "creating the directory"))?;
        let file = tempfile::tempfile_in(directory);
        let words = (entries as u64 * FILTER_BITS).div_ceil(64).max(1);
        Ok(Self {
            directory,
            run: Run {
                file: file.map_err(failed(directory, "creating a file"))?,
                blocks: Vec::new(),
                filter: vec![0; words as usize],
                entries: 0,
                keys_bytes: 0,
            },
            block: Vec::with_capacity(BLOCK_BYTES + 256),
            first: None,
            at: 0,
        })
    }

    fn push(&mut self, key: &[u8], place: u32) -> Result<()> {
        let length = u32::try_from(key.len()).unwrap_or(u32::MAX);
        self.block.extend(length.to_le_bytes());
        self.block.extend(key);
        self.block.extend(place.to_le_bytes());
        self.first.get_or_insert_with(|| key.into());
        self.run.entries += 1;
        let bits = self.run.filter.len() as u64 * 64;
        for bit in bits_of(key, bits) {
            if let Some(word) = self.run.filter.get_mut((bit / 64) as usize) {
                *word |= 1 << (bit % 64);
            }
        }
        match self.block.len() >= BLOCK_BYTES {
            true => self.end_block(),
            false => Ok(()),
        }
    }

    fn end_block(&mut self) -> Result<()> {
        let Some(first) = self.first.take() else {
            return Ok(());
        };
        let written = self.run.file.write_all(&self.block);
        written.map_err(failed(self.directory, "writing the index of keys"))?;
        self.run.keys_bytes += first.len();
        self.run.blocks.push(Block {
            first,
            at: self.at,
            length: self.block.len(),
            checksum: crc32fast::hash(&self.block),
        });
        self.at += self.block.len() as u64;
        self.block.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<Run> {
        self.end_block()?;
        Ok(self.run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::MemoryBudget;

    fn find(index: &KeyIndex, numbers: &[u64]) -> Vec<Option<u32>> {
        let keys: Vec<[u8; 8]> = numbers.iter().map(|n| n.to_be_bytes()).collect();
        let rows = KeyRows::of(keys.iter().map(<[u8; 8]>::as_slice));
        index.find(&rows).unwrap()
    }

    #[test]
    fn w_72_every_key_is_found_where_it_was_last_put_however_often_runs_are_merged() {
        let directory = tempfile::tempdir().unwrap();
        let share = Arc::new(MemoryBudget::new(1 << 20).join());
        let mut index = KeyIndex::new(directory.path().to_owned(), share);
        let mut expected = HashMap::new();
        let mut state = 7u64;
        for round in 0..120_000u32 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let key = (state >> 33) % 40_000;
            index.put(&key.to_be_bytes(), round).unwrap();
            expected.insert(key, round);
        }
        assert!(
            !index.runs.is_empty() && index.runs.len() < 8,
            "{}",
            index.runs.len()
        );
        let asked: Vec<u64> = (0..45_000).rev().collect();
        let found = find(&index, &asked);
        for (key, place) in asked.iter().zip(found) {
            assert_eq!(place, expected.get(key).copied(), "key {key}");
        }
        index.charge();
        assert!(index.charge.bytes() > 0);
    }

    #[test]
    fn bytes_that_a_disk_made_up_are_an_error_and_no_place() {
        let directory = tempfile::tempdir().unwrap();
        let share = Arc::new(MemoryBudget::new(1 << 20).join());
        let mut index = KeyIndex::new(directory.path().to_owned(), share);
        (0..100u64).for_each(|n| index.put(&n.to_be_bytes(), n as u32).unwrap());
        index.spill().unwrap();
        index.runs[0].file.write_all_at(&[0xff], 9).unwrap();
        let keys = KeyRows::of(
            std::iter::once(5u64.to_be_bytes())
                .collect::<Vec<_>>()
                .iter()
                .map(<[u8; 8]>::as_slice),
        );
        assert!(index.find(&keys).is_err());
    }
}
