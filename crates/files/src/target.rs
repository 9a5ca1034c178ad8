//! A directory as a target of an engine, and what readers may ask of it.
//!
//! Owns settings and clean-up after crashed runs.

use std::collections::BTreeSet;

use arrow::array::RecordBatch;
use tidegate_sink::{
    BoxFuture, CleanReport, Committable, Committer, Epoch, Run, RunPrefix, SinkError, Target,
    Writer, WriterMemory, WriterSet,
};
use tidegate_storage::{Store, Unfinished};

use crate::committer::{FilesCommitter, pending_names, roll_forward};
use crate::encode::Format;
use crate::error::FilesError;
use crate::log::{CONTROL, DataFile, Log, Plan, pending_path};
use crate::writer::{AnyWriter, FilesWriter};

/// A file that is part of the directory's rows, and where it is now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommittedFile {
    /// The file.
    pub file: DataFile,
    /// Path relative to the directory: its name, or the pending one where a crash came between.
    pub path: String,
}

/// A directory of plain files that rows can be carried into exactly once.
#[derive(Clone, Debug)]
pub struct FilesTarget {
    store: Store,
    format: Format,
    roll_at: u64,
}

impl FilesTarget {
    /// The root of a store as a target.
    pub fn new(store: Store, format: Format) -> Self {
        Self {
            store,
            format,
            roll_at: 128 << 20,
        }
    }

    /// Begins a new file once one has about so many bytes; 128 MiB by default.
    #[must_use]
    pub fn roll_at(mut self, bytes: u64) -> Self {
        self.roll_at = bytes.max(1);
        self
    }

    /// A place below the directory for what an engine keeps beside a target, such as registrations
    /// of runs; plain readers skip it.
    pub fn control(&self) -> Store {
        self.store.child(CONTROL)
    }

    /// The files whose rows count, sorted by name: exact at every moment, other than a plain
    /// listing. A file that is moved between this call and its reading is at its name.
    ///
    /// # Errors
    /// Faults of the store; unreadable log entries.
    pub async fn committed(&self) -> Result<Vec<CommittedFile>, FilesError> {
        // In this order: what is not pending any more is final when the log is read.
        let pending = pending_names(&self.store).await?;
        let mut files = Vec::new();
        for log in Log::all(&self.store).await? {
            for number in log.numbers().await? {
                for file in log.read(number).await?.entry.plan.files {
                    let path = match pending.contains(&file.name) {
                        true => pending_path(&file.name),
                        false => file.name.clone(),
                    };
                    files.push(CommittedFile { file, path });
                }
            }
        }
        files.sort();
        Ok(files)
    }

    /// Puts files into their place that a crash left pending although they are committed; the next
    /// start of their job does the same.
    ///
    /// # Errors
    /// Faults of the store.
    pub async fn roll_forward(&self) -> Result<(), FilesError> {
        for log in Log::all(&self.store).await? {
            if let Some(newest) = log.newest().await? {
                roll_forward(&self.store, &newest.entry).await?;
            }
        }
        Ok(())
    }

    async fn sweep(
        &self,
        run: &Run,
        earlier: &[RunPrefix],
        pending: &[Committable],
    ) -> Result<CleanReport, FilesError> {
        let (remove, kept) = self.left_behind(run, earlier, pending).await?;
        let mut report = CleanReport { removed: 0, kept };
        for result in self.store.delete_many(&remove).await {
            result.map_err(FilesError::store("removing files of earlier runs"))?;
            report.removed += 1;
        }
        for upload in self.unfinished(run, earlier).await? {
            self.discard(&upload).await?;
            report.removed += 1;
        }
        Ok(report)
    }

    /// Paths of earlier runs that nothing refers to, and how many files a pending committable holds.
    async fn left_behind(
        &self,
        run: &Run,
        earlier: &[RunPrefix],
        pending: &[Committable],
    ) -> Result<(Vec<String>, u64), FilesError> {
        let mut kept = BTreeSet::new();
        for committable in pending {
            kept.extend(
                Plan::of(committable)?
                    .files
                    .into_iter()
                    .map(|file| file.name),
            );
        }
        let log = Log::new(self.store.clone(), &run.user)?;
        let newest = log.newest().await?;
        if let Some(newest) = &newest {
            roll_forward(&self.store, &newest.entry).await?;
            kept.extend(newest.entry.plan.files.iter().map(|file| file.name.clone()));
        }
        let theirs = |name: &str| {
            let of = |prefix: &RunPrefix| {
                name.strip_prefix("part-")
                    .is_some_and(|rest| rest.starts_with(&prefix.0))
            };
            earlier.iter().any(of)
        };
        let names = pending_names(&self.store).await?;
        let (keep, mut remove): (Vec<_>, Vec<_>) = names
            .into_iter()
            .filter(|name| theirs(name))
            .partition(|name| kept.contains(name));
        remove
            .iter_mut()
            .for_each(|name| *name = pending_path(name));
        if let Some(newest) = &newest {
            remove.extend(log.stray_positions(&newest.entry, run.epoch).await?);
        }
        Ok((remove, keep.len() as u64))
    }

    /// What earlier runs were writing when they ended: temporary files and uploads in parts. To be
    /// given up at any time, also while an older run still lives: no committable names what is not
    /// finished, and the older run fails when it comes to finish it.
    async fn unfinished(
        &self,
        run: &Run,
        earlier: &[RunPrefix],
    ) -> Result<Vec<Unfinished>, FilesError> {
        if !self.store.capabilities().lists_unfinished {
            return Ok(Vec::new());
        }
        let unfinished = self.store.list_unfinished("").await;
        let mut unfinished = unfinished.map_err(FilesError::store("listing unfinished uploads"))?;
        unfinished.retain(|upload| {
            // Uploads in parts have no tag, but only rows are uploaded so.
            let name = upload.target.rsplit('/').next().unwrap_or_default();
            let whose = upload.tag.as_deref().or(name.strip_prefix("part-"));
            whose.is_some_and(|whose| {
                let named = earlier.iter().any(|prefix| whose.starts_with(&prefix.0));
                named || is_older(whose, run)
            })
        });
        Ok(unfinished)
    }

    async fn discard(&self, upload: &Unfinished) -> Result<(), FilesError> {
        let discarded = self.store.discard_unfinished(upload).await;
        discarded.map_err(FilesError::store("removing unfinished uploads"))
    }
}

/// Whether it begins with the prefix of an epoch of this commit user before this run's; prefixes are
/// `tg<hash of the user>e<epoch>-`.
fn is_older(whose: &str, run: &Run) -> bool {
    let stem = run.prefix.0.strip_suffix(&format!("{}-", run.epoch));
    let epoch = stem
        .and_then(|stem| whose.strip_prefix(stem)?.split_once('-'))
        .and_then(|(epoch, _)| Epoch::parse(epoch));
    epoch.is_some_and(|epoch| epoch < run.epoch)
}

impl Target for FilesTarget {
    type Batch = RecordBatch;

    fn name(&self) -> String {
        self.store.url().to_owned()
    }

    fn writer_memory(&self) -> WriterMemory {
        WriterMemory::Nothing
    }

    fn committer<'a>(
        &'a self,
        run: &'a Run,
    ) -> BoxFuture<'a, Result<Box<dyn Committer>, SinkError>> {
        Box::pin(async move {
            let store = self.store.clone().with_tag(&run.prefix.0);
            let committer = FilesCommitter::open(store, run.clone()).await?;
            for upload in self.unfinished(run, &[]).await? {
                self.discard(&upload).await?;
            }
            Ok(Box::new(committer) as Box<dyn Committer>)
        })
    }

    fn writers<'a>(
        &'a self,
        run: &'a Run,
        count: usize,
    ) -> BoxFuture<'a, Result<WriterSet<RecordBatch>, SinkError>> {
        Box::pin(async move {
            let writer = || {
                let store = self.store.clone().with_tag(&run.prefix.0);
                FilesWriter::new(store, self.format, self.roll_at, &run.prefix.0)
            };
            Ok(WriterSet {
                writers: (0..count)
                    .map(|_| Box::new(writer()) as Box<dyn Writer<Batch = RecordBatch>>)
                    .collect(),
                router: Box::new(AnyWriter(count)),
            })
        })
    }

    fn clean<'a>(
        &'a self,
        run: &'a Run,
        earlier: &'a [RunPrefix],
        pending: &'a [Committable],
    ) -> BoxFuture<'a, Result<CleanReport, SinkError>> {
        Box::pin(async move { Ok(self.sweep(run, earlier, pending).await?) })
    }

    fn leftovers<'a>(
        &'a self,
        run: &'a Run,
        earlier: &'a [RunPrefix],
        pending: &'a [Committable],
    ) -> BoxFuture<'a, Result<u64, SinkError>> {
        Box::pin(async move {
            let (remove, _) = self.left_behind(run, earlier, pending).await?;
            let unfinished = self.unfinished(run, earlier).await?;
            Ok((remove.len() + unfinished.len()) as u64)
        })
    }
}
