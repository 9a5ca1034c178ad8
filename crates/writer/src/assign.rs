//! Which bucket a key of a table with dynamic buckets goes to \[W-71], \[F-5.2].
//!
//! Owns the hash index of each partition: key hashes by bucket, as the table's HASH index files hold
//! them, in order of appearance. A known hash keeps its bucket; a new one goes to the first bucket with
//! room, else to a new one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tidegate_model::{BinaryRow, BucketId, TableSchema};

use crate::error::{Result, WriterError};
use crate::fold::Fold;

/// Buckets of a partition at most: Java numbers them by 16 bits.
pub(crate) const MOST_BUCKETS: i32 = 32_767;

/// What the options say about dynamic buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DynamicBuckets {
    /// `dynamic-bucket.target-row-num`: keys of a bucket.
    pub(crate) target_rows: usize,
    /// `dynamic-bucket.max-buckets`; `None` = no bound of its own.
    pub(crate) max_buckets: Option<i32>,
}

impl DynamicBuckets {
    pub(crate) fn of(schema: &TableSchema) -> Result<Self> {
        let config = |e: tidegate_model::Error| WriterError::Config(e.to_string());
        let target = schema.options.positive("dynamic-bucket.target-row-num");
        let target = target.map_err(config)?.unwrap_or(2_000_000);
        let most = schema.options.i32("dynamic-bucket.max-buckets");
        Ok(Self {
            target_rows: usize::try_from(target).unwrap_or(usize::MAX),
            max_buckets: most.map_err(config)?.filter(|most| *most > 0),
        })
    }
}

/// The key hashes of all partitions that rows came for.
#[derive(Clone, Debug)]
pub(crate) struct Assigners {
    options: DynamicBuckets,
    partitions: HashMap<BinaryRow, Assigner>,
}

/// The key hashes of a partition.
#[derive(Clone, Debug, Default)]
struct Assigner {
    bucket_of: HashMap<u32, i32, Fold>,
    hashes: BTreeMap<i32, Vec<i32>>,
    /// Buckets with hashes that no index file has yet.
    changed: BTreeSet<i32>,
}

impl Assigners {
    pub(crate) fn new(options: DynamicBuckets) -> Self {
        Self {
            options,
            partitions: HashMap::new(),
        }
    }

    pub(crate) fn knows(&self, partition: &BinaryRow) -> bool {
        self.partitions.contains_key(partition)
    }

    /// What the table has of a partition.
    pub(crate) fn adopt(&mut self, partition: BinaryRow, buckets: Vec<(BucketId, Vec<i32>)>) {
        let mut assigner = Assigner::default();
        for (bucket, hashes) in buckets {
            for hash in &hashes {
                assigner.bucket_of.insert(hash.cast_unsigned(), bucket.0);
            }
            assigner.hashes.entry(bucket.0).or_default().extend(hashes);
        }
        self.partitions.insert(partition, assigner);
    }

    /// The bucket of a key hash; partitions must be [adopted](Self::adopt) before.
    pub(crate) fn bucket(&mut self, partition: &BinaryRow, hash: i32) -> Result<i32> {
        let Some(assigner) = self.partitions.get_mut(partition) else {
            return Err(WriterError::Task {
                what: "finding a bucket",
                reason: "the hash index of its partition was not read".to_owned(),
            });
        };
        assigner.bucket(hash, self.options)
    }

    /// The index files to write: all hashes of each bucket that got new ones.
    pub(crate) fn changed(&self) -> Vec<(BinaryRow, BucketId, Vec<i32>)> {
        let mut out = Vec::new();
        for (partition, assigner) in &self.partitions {
            for bucket in &assigner.changed {
                let hashes = assigner.hashes.get(bucket).cloned().unwrap_or_default();
                out.push((partition.clone(), BucketId(*bucket), hashes));
            }
        }
        out
    }

    /// The index files were handed over.
    pub(crate) fn handed_over(&mut self) {
        for assigner in self.partitions.values_mut() {
            assigner.changed.clear();
        }
    }

    /// Memory, about.
    pub(crate) fn memory(&self) -> usize {
        let of = |a: &Assigner| a.bucket_of.capacity() * 10 + a.bucket_of.len() * 4;
        self.partitions.values().map(of).sum()
    }
}

impl Assigner {
    fn bucket(&mut self, hash: i32, options: DynamicBuckets) -> Result<i32> {
        if let Some(bucket) = self.bucket_of.get(&hash.cast_unsigned()) {
            return Ok(*bucket);
        }
        let roomy = self.hashes.iter();
        let roomy = roomy.filter(|(_, hashes)| hashes.len() < options.target_rows);
        let bucket = match roomy.map(|(bucket, _)| *bucket).next() {
            Some(bucket) => bucket,
            None => self.new_bucket(hash, options)?,
        };
        self.bucket_of.insert(hash.cast_unsigned(), bucket);
        self.hashes.entry(bucket).or_default().push(hash);
        self.changed.insert(bucket);
        Ok(bucket)
    }

    /// The first number that is free; where no more are allowed, one that is there.
    fn new_bucket(&self, hash: i32, options: DynamicBuckets) -> Result<i32> {
        let most = options
            .max_buckets
            .unwrap_or(MOST_BUCKETS)
            .min(MOST_BUCKETS);
        if let Some(free) = (0..most).find(|bucket| !self.hashes.contains_key(bucket)) {
            return Ok(free);
        }
        let count = self.hashes.len().max(1);
        let any = hash.cast_unsigned() as usize % count;
        match (options.max_buckets, self.hashes.keys().nth(any)) {
            (Some(_), Some(bucket)) => Ok(*bucket),
            _ => Err(WriterError::Rows(format!(
                "a partition has {MOST_BUCKETS} buckets, and all are full; raise \
                 'dynamic-bucket.target-row-num' or set 'dynamic-bucket.max-buckets'"
            ))),
        }
    }
}

/// The content of a HASH index file \[F-5.2].
pub(crate) fn encode(hashes: &[i32]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| hash.to_be_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigners(target_rows: usize, max_buckets: Option<i32>) -> Assigners {
        Assigners::new(DynamicBuckets {
            target_rows,
            max_buckets,
        })
    }

    #[test]
    fn w_71_a_known_hash_keeps_its_bucket_and_new_ones_fill_the_first_with_room() {
        let p = BinaryRow::empty();
        let mut all = assigners(2, None);
        assert!(all.bucket(&p, 1).is_err(), "the index was not read");
        all.adopt(
            p.clone(),
            vec![(BucketId(1), vec![10, 11]), (BucketId(3), vec![12])],
        );
        assert_eq!(all.bucket(&p, 11).unwrap(), 1);
        assert!(all.changed().is_empty());
        let found: Vec<i32> = [20, 21, 22, 20, 23]
            .map(|h| all.bucket(&p, h).unwrap())
            .into();
        assert_eq!(found, [3, 0, 0, 3, 2]);
        let changed: Vec<_> = all
            .changed()
            .into_iter()
            .map(|(_, b, h)| (b.0, h))
            .collect();
        assert_eq!(
            changed,
            [(0, vec![21, 22]), (2, vec![23]), (3, vec![12, 20])],
            "whole buckets, in order of appearance"
        );
        all.handed_over();
        assert!(all.changed().is_empty());
    }

    #[test]
    fn w_71_beyond_the_most_buckets_a_key_goes_where_buckets_are() {
        let p = BinaryRow::empty();
        let mut all = assigners(1, Some(2));
        all.adopt(p.clone(), Vec::new());
        let found: BTreeSet<i32> = (0..50).map(|h| all.bucket(&p, h).unwrap()).collect();
        assert_eq!(found, [0, 1].into());
    }

    #[test]
    fn f_5_2_an_index_file_is_its_hashes_big_endian() {
        let bytes = encode(&[0x5759_f99e, -0x2df9_1ab9]);
        assert_eq!(bytes, [0x57, 0x59, 0xf9, 0x9e, 0xd2, 0x06, 0xe5, 0x47]);
    }
}
