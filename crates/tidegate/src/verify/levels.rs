//! Files of one level of a bucket must not meet in their keys \[F-6.8]: readers merge them as one run.
//!
//! Owns the check of a line's newest version; of older ones only their metadata is looked at.

use std::collections::HashMap;

use tidegate_model::{BinaryRow, BucketId, KeyOrder};
use tidegate_scan::{At, Split, TableReader};

use super::Check;
use super::finding::Kind;
use super::versions::Line;
use crate::error::Result;

impl Check<'_> {
    /// The newest version of a line, where its table has a key.
    pub(super) async fn levels(&mut self, line: &Line) -> Result<()> {
        let Some(version) = line.snapshots.last() else {
            return Ok(());
        };
        let mut reader = TableReader::new(self.store().clone());
        if let Some(branch) = &line.branch {
            reader = reader.with_branch(branch);
        }
        // What cannot be read was told where it was read first.
        let Ok(listing) = reader.files(&At::Snapshot(version.id)).await else {
            return Ok(());
        };
        if listing.schema.primary_keys.is_empty() {
            return Ok(());
        }
        let Ok(order) = KeyOrder::of(&listing.schema) else {
            return Ok(());
        };
        let mut buckets: HashMap<(&BinaryRow, BucketId), Vec<&Split>> = HashMap::new();
        for split in &listing.splits {
            let bucket = buckets.entry((&split.partition, split.bucket));
            bucket.or_default().push(split);
        }
        for files in buckets.values() {
            let metas: Vec<_> = files.iter().map(|split| &split.file).collect();
            let path = |name: &str| {
                let split = files.iter().find(|s| s.file.file_name == name);
                split.map_or_else(|| name.to_owned(), |s| s.path.clone())
            };
            match tidegate_lsm::overlap(&metas, &order) {
                Ok(None) => {}
                Ok(Some((a, b))) => {
                    let what = format!(
                        "it is on level {} with {}, and both have a key: readers may show old rows",
                        a.level, b.file_name
                    );
                    let place = path(&a.file_name);
                    self.report
                        .through(&version.path, Kind::Levels, &place, what);
                }
                Err(e) => {
                    let what = e.to_string();
                    self.report
                        .through(&version.path, Kind::Keys, &version.path, what);
                }
            }
        }
        Ok(())
    }
}
