//! The old row of a key \[W-53]: where the keys of level 0 lie in the files above a compaction.
//!
//! Owns the key indexes of such files, made when a file is first looked into by decoding its key columns
//! alone and kept while they are of use and there is room. Keys of a level-0 file come sorted, so that
//! looking them up is a merge of two sorted lists per file. A hit is a file and the position of a row.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::record_batch::RecordBatch;
use futures::StreamExt;
use tidegate_merge::KeyBytes;
use tidegate_model::{DataFileMeta, KeyOrder};
use tokio::runtime::Handle;

use super::core::merging;
use super::inputs::Inputs;
use super::key_index::{Finder, KeyIndex, KeyIndexBuilder};
use super::vectors::Vectors;
use crate::budget::{BudgetShare, Reservation};
use crate::error::{Result, WriterError};

/// Bytes of an index in memory before it goes to local disk, at least.
const LEAST_MEMORY: usize = 64 << 10;

/// Rows that are looked for in one file above.
#[derive(Debug)]
pub(crate) struct Hits {
    pub(crate) file: DataFileMeta,
    /// Ascending, each once.
    pub(crate) positions: Vec<u64>,
}

/// Looks keys up, and keeps the indexes that it needed.
#[derive(Debug)]
pub(crate) struct Lookup {
    keys: Arc<KeyBytes>,
    order: KeyOrder,
    directory: PathBuf,
    /// Bytes of indexes on local disk at most.
    limit: u64,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// By path.
    indexes: HashMap<String, Kept>,
    uses: u64,
}

#[derive(Debug)]
struct Kept {
    index: Arc<KeyIndex>,
    last_use: u64,
    _charge: Reservation,
}

/// What a look-up reads with.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) inputs: &'a Inputs,
    pub(crate) share: &'a BudgetShare,
    pub(crate) runtime: &'a Handle,
    pub(crate) directory: &'a str,
}

impl Lookup {
    pub(crate) fn new(
        keys: Arc<KeyBytes>,
        order: KeyOrder,
        directory: PathBuf,
        limit: u64,
    ) -> Self {
        Self {
            keys,
            order,
            directory,
            limit,
            held: Mutex::default(),
        }
    }

    /// Where the keys of `newer` lie in `older`, the files of levels above, without rows that are deleted
    /// already; by level, and by key within one.
    pub(crate) fn hits(
        &self,
        reading: Reading<'_>,
        newer: &[&DataFileMeta],
        older: &[DataFileMeta],
        vectors: &Vectors,
    ) -> Result<Vec<Vec<Hits>>> {
        let mut levels: BTreeMap<i32, Vec<&DataFileMeta>> = BTreeMap::new();
        for file in older {
            if newer.iter().any(|n| self.meet(n, file)) {
                levels.entry(file.level.0).or_default().push(file);
            }
        }
        let mut found = Vec::with_capacity(levels.len());
        for files in levels.values_mut() {
            files.sort_by(|a, b| self.compare(a, b));
            let mut positions: Vec<Vec<u64>> = vec![Vec::new(); files.len()];
            for newer in newer {
                self.look_into(reading, newer, files, &mut positions)?;
            }
            let mut hits = Vec::new();
            for (file, mut positions) in files.iter().zip(positions) {
                positions.sort_unstable();
                positions.dedup();
                if let Some(deleted) = vectors.of(&file.file_name) {
                    positions.retain(|p| !deleted.contains(*p));
                }
                if !positions.is_empty() {
                    hits.push(Hits {
                        file: (*file).clone(),
                        positions,
                    });
                }
            }
            if !hits.is_empty() {
                found.push(hits);
            }
        }
        Ok(found)
    }

    /// The keys of a level-0 file in the files of one level, which are in the order of their keys.
    fn look_into(
        &self,
        reading: Reading<'_>,
        newer: &DataFileMeta,
        files: &[&DataFileMeta],
        positions: &mut [Vec<u64>],
    ) -> Result<()> {
        let met = files.iter().zip(positions.iter_mut());
        let mut met = met.filter(|(file, _)| self.meet(newer, file));
        let Some((mut file, mut hits)) = met.next() else {
            return Ok(());
        };
        let mut index = self.index(reading, file)?;
        let mut finder = Finder::default();
        let runtime = reading.runtime;
        let keys = reading
            .inputs
            .open_keys(reading.directory, newer, reading.share);
        let mut keys = runtime.block_on(keys)?;
        while let Some(batch) = runtime.block_on(keys.batches.next()) {
            let rows = self.bytes(&batch?)?;
            for key in &rows {
                while key.data() > index.last() {
                    let Some(next) = met.next() else {
                        return Ok(());
                    };
                    (file, hits) = next;
                    index = self.index(reading, file)?;
                    finder = Finder::default();
                }
                let place = finder.find(&index, key.data());
                hits.extend(place.map_err(|e| self.failed(e))?);
            }
        }
        Ok(())
    }

    fn bytes(&self, batch: &RecordBatch) -> Result<arrow::row::Rows> {
        self.keys.of(batch.columns()).map_err(merging)
    }

    fn failed(&self, source: std::io::Error) -> WriterError {
        WriterError::Spill {
            dir: self.directory.clone(),
            what: "keeping the keys of a data file",
            source,
        }
    }

    fn meet(&self, a: &DataFileMeta, b: &DataFileMeta) -> bool {
        let apart = |low: &DataFileMeta, high: &DataFileMeta| {
            let order = self.order.compare(&low.max_key, &high.min_key);
            order.is_ok_and(std::cmp::Ordering::is_lt)
        };
        !apart(a, b) && !apart(b, a)
    }

    fn compare(&self, a: &DataFileMeta, b: &DataFileMeta) -> std::cmp::Ordering {
        let order = self.order.compare(&a.min_key, &b.min_key);
        // Keys that do not decode were refused when the levels were made.
        order.unwrap_or(std::cmp::Ordering::Equal)
    }

    /// The index of a file: the one that is kept, or made now.
    fn index(&self, reading: Reading<'_>, file: &DataFileMeta) -> Result<Arc<KeyIndex>> {
        let path = format!("{}/{}", reading.directory, file.file_name);
        {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.uses += 1;
            let uses = held.uses;
            if let Some(kept) = held.indexes.get_mut(&path) {
                kept.last_use = uses;
                return Ok(Arc::clone(&kept.index));
            }
        }
        let index = Arc::new(self.built(reading, file, &path)?);
        self.keep(reading.share, path, &index);
        Ok(index)
    }

    fn built(&self, reading: Reading<'_>, file: &DataFileMeta, path: &str) -> Result<KeyIndex> {
        let runtime = reading.runtime;
        let most = (reading.share.allowance() / 16).max(LEAST_MEMORY);
        let mut builder = KeyIndexBuilder::new();
        let mut charge = reading.share.take(0);
        let keys = reading
            .inputs
            .open_keys(reading.directory, file, reading.share);
        let mut keys = runtime.block_on(keys)?;
        while let Some(batch) = runtime.block_on(keys.batches.next()) {
            for key in &self.bytes(&batch?)? {
                if !builder.push(key.data()) {
                    return Err(WriterError::KeyOrder {
                        path: path.to_owned(),
                        level: file.level.0,
                    });
                }
            }
            if builder.memory() > most {
                builder.spill(&self.directory).map_err(|e| self.failed(e))?;
            }
            charge.resize(builder.memory());
        }
        builder.finish().map_err(|e| self.failed(e))
    }

    /// Keeps an index while there is room: those that were not used for the longest time go first.
    fn keep(&self, share: &BudgetShare, path: String, index: &Arc<KeyIndex>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let most = share.allowance() / 8;
        loop {
            let memory: usize = held.indexes.values().map(|k| k.index.memory()).sum();
            let disk: u64 = held.indexes.values().map(|k| k.index.on_disk()).sum();
            let fits = memory + index.memory() <= most && disk + index.on_disk() <= self.limit;
            if fits && let Some(charge) = share.try_take(index.memory()) {
                let kept = Kept {
                    index: Arc::clone(index),
                    last_use: held.uses,
                    _charge: charge,
                };
                held.indexes.insert(path, kept);
                return;
            }
            let oldest = held.indexes.iter().min_by_key(|(_, k)| k.last_use);
            let Some(oldest) = oldest.map(|(path, _)| path.clone()) else {
                return;
            };
            held.indexes.remove(&oldest);
        }
    }

    /// Files that are no more.
    pub(crate) fn forget(&self, directory: &str, files: &[DataFileMeta]) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        for file in files {
            held.indexes
                .remove(&format!("{directory}/{}", file.file_name));
        }
    }
}
