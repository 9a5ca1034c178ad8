//! Index manifests and the files that they name; deletion vectors are read.

use std::collections::HashMap;

use tidegate_format as format;
use tidegate_model::{IndexManifestEntry, layout};
use tidegate_scan::{DeletionVector, Places};

use super::Check;
use super::finding::Kind;
use super::versions::{Line, Version};
use crate::error::Result;

/// Type of index files that hold deletion vectors.
const DELETION_VECTORS: &str = "DELETION_VECTORS";

/// Rows of a data file at most, as far as its deletion vector goes: how many it has is compared where the
/// file is looked at.
const MOST_ROWS: u64 = 1 << 31;

impl Check<'_> {
    /// Everything under one index manifest, once.
    pub(super) async fn index(&mut self, line: &Line, version: &Version, name: &str) -> Result<()> {
        let path = layout::manifest_path(name);
        if !self.known(&path) {
            return Ok(());
        }
        let reason = format!("{} refers to it", version.path);
        if !self.there(Some(&version.path), &reason, &path).await? {
            return Ok(());
        }
        let Some(bytes) = self.store().get_opt(&path).await? else {
            return Ok(());
        };
        let entries = match format::index_manifest::decode(&bytes) {
            Ok(entries) => entries,
            Err(e) => {
                let what = e.to_string();
                self.report
                    .through(&version.path, Kind::Unreadable, &path, what);
                return Ok(());
            }
        };
        let Some(schema) = self.schema(line, version.schema).await? else {
            return Ok(());
        };
        let places = match Places::new(&schema) {
            Ok(places) => places,
            // Told where the schema is.
            Err(_) => return Ok(()),
        };
        let mut vectors: HashMap<String, String> = HashMap::new();
        for entry in entries {
            let at = match places.of_index(&entry) {
                Ok(at) => at,
                Err(e) => {
                    let what = format!("{}: {e}", entry.file.file_name);
                    self.report
                        .through(&version.path, Kind::Unreadable, &path, what);
                    continue;
                }
            };
            for range in entry.file.dv_ranges.iter().flatten().flatten() {
                if let Some(other) = vectors.insert(range.data_file.clone(), at.clone()) {
                    let what = format!(
                        "has two deletion vectors of {}, in {other} and in {at}: readers take either",
                        range.data_file
                    );
                    self.report
                        .through(&version.path, Kind::Doubled, &path, what);
                }
            }
            if entry.file.external_path.is_none() && self.known(&at) {
                self.index_file(version, &path, &at, &entry).await?;
            }
        }
        Ok(())
    }

    async fn index_file(
        &mut self,
        version: &Version,
        manifest: &str,
        path: &str,
        entry: &IndexManifestEntry,
    ) -> Result<()> {
        let reason = format!("{manifest} refers to it");
        let size = entry.file.file_size;
        if !self.size(Some(&version.path), &reason, path, size).await?
            || entry.file.index_type != DELETION_VECTORS
        {
            return Ok(());
        }
        let Some(bytes) = self.store().get_opt(path).await? else {
            return Ok(());
        };
        for range in entry.file.dv_ranges.iter().flatten().flatten() {
            match DeletionVector::decode(path, &bytes, range.offset, range.length, MOST_ROWS) {
                Ok(vector) => {
                    let last = vector.last().unwrap_or(0);
                    let of = super::digest::digest(&range.data_file);
                    let known = self.last_deleted.entry(of).or_default();
                    *known = last.max(*known);
                    let deleted = i64::try_from(vector.len()).unwrap_or(i64::MAX);
                    if let Some(recorded) = range.cardinality
                        && recorded != deleted
                    {
                        let what = format!(
                            "deletes {deleted} rows of {}, {manifest} records {recorded}",
                            range.data_file
                        );
                        self.report.through(&version.path, Kind::Count, path, what);
                    }
                }
                Err(e) => {
                    let what = format!("of {}: {e}", range.data_file);
                    self.report
                        .through(&version.path, Kind::Unreadable, path, what);
                }
            }
        }
        Ok(())
    }
}
