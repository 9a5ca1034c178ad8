//! One data file: there, whole, with the rows, statistics, partition and bucket that its manifest records.

use std::sync::Arc;

use futures::TryStreamExt;
use tidegate_model::{TableSchema, layout};
use tidegate_scan::{ScanPlan, Split, TableReader};

use super::finding::{Kind, Severity};
use super::versions::{Line, Version};
use super::{Check, bounds, keys, place};
use crate::error::Result;

/// What is wrong with a file whose rows could not be read; `None` where only this build cannot.
fn damage(error: &tidegate_scan::Error, written: &TableSchema) -> Option<Kind> {
    use tidegate_format::Problem;
    if let tidegate_scan::Error::Format(e) = error {
        match e.problem() {
            Problem::Codec(_) | Problem::Version { .. } => return None,
            // Java 1.0.1 wrote records of tables with a primary key into a union.
            Problem::Schema(_) if !written.primary_keys.is_empty() => return None,
            _ => {}
        }
    }
    if let tidegate_scan::Error::Inconsistent { .. } = error {
        // Of a file that can be read: other rows than its manifest has.
        return Some(Kind::Count);
    }
    Some(Kind::Unreadable)
}

impl Check<'_> {
    /// Told once for each reason.
    fn not_read(&mut self, path: &str, why: String) {
        if self.formats.insert(why.clone()) {
            let what = format!("its rows are not looked at by this build: {why}");
            self.report.note(Kind::NotRead, path, what);
        }
    }

    pub(super) async fn data_file(
        &mut self,
        line: &Line,
        version: &Version,
        split: &Split,
    ) -> Result<()> {
        let path = split.path.clone();
        let reason = format!("{} holds it", version.path);
        let size = split.file.file_size;
        let right = match split.is_outside() {
            false => self.size(Some(&version.path), &reason, &path, size).await?,
            true => self.size_outside(version, &reason, split).await?,
        };
        if !right {
            return Ok(());
        }
        self.report.files += 1;
        if let Some(last) = self
            .last_deleted
            .get(&super::digest::digest(&split.file.file_name))
            && i64::try_from(*last).is_ok_and(|last| last >= split.file.row_count)
        {
            let what = format!(
                "a deletion vector deletes its row {last}, it has {} rows",
                split.file.row_count
            );
            self.report.through(&version.path, Kind::Count, &path, what);
        }
        let Some(written) = self.schema(line, split.file.schema_id).await? else {
            return Ok(());
        };
        let format = layout::format_of(&split.file.file_name).unwrap_or("");
        if !["parquet", "avro"].contains(&format) {
            if self.formats.insert(format.to_owned()) {
                let what = format!(
                    "rows in files of format `{format}` are not looked at by this build; their sizes are"
                );
                self.report.note(Kind::NotRead, &path, what);
            }
            return Ok(());
        }
        self.rows_of(version, split, &written).await
    }

    /// A file that lies outside the table.
    async fn size_outside(
        &mut self,
        version: &Version,
        reason: &str,
        split: &Split,
    ) -> Result<bool> {
        let found = match self.reader().locate(&split.path) {
            Ok((store, name)) => store.head(&name).await?,
            Err(e) => {
                self.not_read(&split.path, e.to_string());
                return Ok(false);
            }
        };
        let recorded = split.file.file_size;
        let (kind, what) = match found {
            None => (Kind::Missing, "it is not there".to_owned()),
            Some(meta) if u64::try_from(recorded) != Ok(meta.size) => {
                let what = format!("records {recorded} bytes, it has {}", meta.size);
                (Kind::Size, what)
            }
            Some(_) => return Ok(true),
        };
        let what = format!("{reason} and {what}");
        self.report.through(&version.path, kind, &split.path, what);
        Ok(false)
    }

    fn reader(&self) -> TableReader {
        let reader = TableReader::new(self.store().clone());
        reader.with_store_options(self.options.store.clone())
    }

    async fn rows_of(
        &mut self,
        version: &Version,
        split: &Split,
        written: &Arc<TableSchema>,
    ) -> Result<()> {
        let path = split.path.clone();
        let mut columns = written.fields.clone();
        if let Some(held) = &split.file.write_cols {
            columns.retain(|c| held.contains(&c.name));
        }
        let types = tidegate_datafile::arrow_schema(&columns).map_err(|e| e.to_string());
        if let Err(why) = types {
            self.not_read(&path, why);
            return Ok(());
        }
        let mut place = match place::Place::new(split, written, &mut columns) {
            Ok(place) => place,
            Err(why) => {
                let what = format!("where its rows belong cannot be told: {why}");
                self.report.error(Kind::Unreadable, &path, what);
                None
            }
        };
        let mut keys = match keys::Keys::new(split, written, &mut columns) {
            Ok(keys) => keys,
            Err(why) => {
                let what = format!("how its keys compare cannot be told: {why}");
                self.report.error(Kind::Unreadable, &path, what);
                None
            }
        };
        let of_file = match &keys {
            Some(_) => Arc::new(keys::of_file(written)),
            None => written.clone(),
        };
        let mut bounds = bounds::Bounds::new(&split.file, written, &columns);
        let plan = ScanPlan::of_file(self.reader(), split.clone(), of_file, columns);
        let mut rows = 0i64;
        let mut batches = match plan.read() {
            Ok(batches) => batches,
            Err(e) => {
                let why = e.to_string();
                self.report
                    .through(&version.path, Kind::Unreadable, &path, why);
                return Ok(());
            }
        };
        loop {
            match batches.try_next().await {
                Ok(Some(batch)) => {
                    rows = rows.saturating_add(i64::try_from(batch.num_rows()).unwrap_or(i64::MAX));
                    bounds.look(&batch);
                    if let Some(place) = &mut place {
                        place.look(&batch);
                    }
                    if let Some(keys) = &mut keys {
                        keys.look(&batch);
                    }
                }
                Ok(None) => break,
                Err(e) => {
                    let (why, kind) = (e.to_string(), damage(&e, written));
                    match kind {
                        Some(kind) => self.report.through(&version.path, kind, &path, why),
                        None => self.not_read(&path, why),
                    }
                    return Ok(());
                }
            }
        }
        self.report.rows += rows.unsigned_abs();
        if rows != split.file.row_count {
            let recorded = split.file.row_count;
            let what = format!("its manifest records {recorded} rows, it has {rows}");
            self.report.error(Kind::Count, &path, what);
        }
        for (kind, what) in keys.into_iter().flat_map(keys::Keys::findings) {
            self.report.error(kind, &path, what);
        }
        let of_values = bounds.findings();
        let of_values = of_values
            .into_iter()
            .map(|what| (Severity::Error, Kind::Statistics, what));
        let of_places = place.map(place::Place::findings).unwrap_or_default();
        for (severity, kind, what) in of_values.chain(of_places) {
            match severity {
                Severity::Error => self.report.error(kind, &path, what),
                _ => self.report.warn(kind, &path, what),
            }
        }
        Ok(())
    }
}
