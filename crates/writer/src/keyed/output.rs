//! One sorted stream of rows becomes files of a bucket, each ending at the target size \[W-23].

use arrow::record_batch::RecordBatch;
use tidegate_datafile::Dictionaries;
use tidegate_model::{FileSource, Level};

use crate::error::Result;
use crate::files::{Files, Finished, OpenFile, step_rows};
use crate::route::GroupId;
use crate::uploads::Uploads;

/// Takes rows in key order and ends files where they are full.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    files: &'a Files,
    uploads: &'a Uploads,
    directory: &'a str,
    group: GroupId,
    dictionaries: Option<&'a Dictionaries>,
    level: Level,
    source: FileSource,
    open: Option<OpenFile>,
    finished: Vec<Finished>,
    bytes: usize,
}

impl<'a> Output<'a> {
    /// Level-0 files of a writer, unless it is said otherwise.
    pub(crate) fn new(
        files: &'a Files,
        uploads: &'a Uploads,
        directory: &'a str,
        group: GroupId,
        dictionaries: Option<&'a Dictionaries>,
    ) -> Self {
        Self {
            files,
            uploads,
            directory,
            group,
            dictionaries,
            level: Level(0),
            source: FileSource::Append,
            open: None,
            finished: Vec::new(),
            bytes: 0,
        }
    }

    /// Changelog files of a compaction to `level`.
    pub(crate) fn of_level(self, level: Level) -> Self {
        Self { level, ..self }
    }

    /// Files of a compaction to `level`.
    pub(crate) fn of_compaction(self, level: Level) -> Self {
        Self {
            level,
            source: FileSource::Compact,
            ..self
        }
    }

    /// Appends rows.
    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let most = step_rows(rows, self.files.table.target_size);
        let mut start = 0;
        while start < rows.num_rows() {
            let mut file = match self.open.take() {
                Some(file) => file,
                None => self
                    .files
                    .open(self.directory, 0, self.dictionaries)?
                    .of(self.level, self.source),
            };
            let left = self.files.table.target_rows.saturating_sub(file.rows());
            let left = usize::try_from(left).unwrap_or(usize::MAX).max(1);
            let step = (rows.num_rows() - start).min(most).min(left);
            file.write(self.uploads, &rows.slice(start, step))?;
            start += step;
            let full = file.is_full(&self.files.table);
            self.open = Some(file);
            if full {
                self.end_file()?;
            }
        }
        Ok(())
    }

    fn end_file(&mut self) -> Result<()> {
        if let Some(file) = self.open.take() {
            let (finished, bytes) = file.finish(self.files, self.uploads, self.group)?;
            self.bytes += bytes;
            self.finished.push(finished);
        }
        Ok(())
    }

    /// Ends the last file. All of them, and what they held in memory at their end.
    pub(crate) fn finish(mut self) -> Result<(Vec<Finished>, usize)> {
        self.end_file()?;
        Ok((self.finished, self.bytes))
    }
}
