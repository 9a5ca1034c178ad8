//! When a keyed writer compacts, and how results get into checkpoints.
//!
//! Compactions run on the process's compaction thread while rows come in. After each flush the buckets
//! that got a file are looked at \[W-23]; what is done is collected at the next barrier, whatever is not
//! waits for a later one \[W-24]. A bucket with more runs than the stop trigger makes the barrier wait.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use futures::{FutureExt, StreamExt};
use tidegate_lsm::{Circumstances, Now};
use tidegate_model::layout::DataFileName;
use tidegate_model::{BucketView, CompactIncrement, DataField, DataFileMeta};
use uuid::Uuid;

use super::compaction::{Compacted, Compactor, OldRows, Shop};
use super::inputs::{Inputs, readable};
use super::lookup::Lookup;
use super::tree::Tree;
use super::vectors::{self, Read};
use super::{KeyedWriter, LostTree};
use crate::error::{Result, WriterError};
use crate::files::Files;
use crate::route::GroupKey;
use crate::taking::{Of, delete};
use crate::uploads::{Uploads, part_bytes};

impl KeyedWriter {
    fn compaction_names(&self) -> DataFileName {
        let table = &self.taking.files.table;
        DataFileName::new(
            &self.prefix,
            &Uuid::new_v4().to_string(),
            &table.format,
            &table.compression,
            table.suffix_includes_compression,
        )
    }

    fn key_fields(&self) -> Vec<DataField> {
        let at = self.spec.key_columns().iter();
        let fields = at.filter_map(|at| self.spec.columns().get(*at));
        fields.cloned().collect()
    }

    /// How compactions look old rows up, where the table wants that.
    fn old_rows(&self) -> Option<OldRows> {
        let looks = self.looks_up.as_ref()?;
        let options = &self.taking.options;
        Some(OldRows {
            lookup: Lookup::new(
                Arc::clone(&looks.keys),
                self.order.clone(),
                options.spill_directory.clone(),
                options.spill_limit,
            ),
            table: looks.table,
            places_only: looks.places_only,
        })
    }

    /// The files of a bucket as a view has them, for compactions.
    pub(super) fn tree(&self, key: &GroupKey, view: BucketView, read: Read) -> Result<Tree> {
        let circumstances = Circumstances {
            deletion_vectors: self.vectors.is_some(),
            keep_deletes: false,
        };
        let directory = self.taking.directories.of(key)?;
        let (order, options) = (&self.order, &self.compacting);
        Tree::open(directory, view.files, order, options, circumstances, read)
    }

    /// Compactions write files of their own names, on the share of the compaction thread.
    pub(super) fn new_shop(&self, compactor: Compactor) -> Arc<Shop> {
        let part_bytes = part_bytes(&self.taking.store, compactor.share.allowance());
        let files = Files {
            plan: self.taking.files.plan.clone(),
            schema_id: self.taking.files.schema_id,
            partition_keys: self.taking.files.partition_keys.clone(),
            names: self.compaction_names(),
            next: AtomicU64::new(0),
            table: self.taking.files.table.clone(),
            share: Arc::clone(&compactor.share),
            clock: Arc::clone(&self.taking.files.clock),
            encoder_bytes: self.taking.files.encoder_bytes,
            part_bytes,
        };
        let (store, runtime) = (self.taking.store.clone(), self.taking.runtime.clone());
        Arc::new(Shop {
            uploads: Uploads::new(
                store.clone(),
                runtime.clone(),
                self.taking.options.requests,
                part_bytes,
            ),
            compactor,
            files: Arc::new(files),
            changelog: self.told.clone(),
            old_rows: self.old_rows(),
            inputs: Inputs::new(
                store,
                Arc::clone(&self.taking.schema),
                Arc::clone(&self.views),
                self.key_fields(),
            ),
            cancelled: AtomicBool::new(false),
            spec: self.spec.clone(),
            schema: self.batches.clone(),
            order: self.order.clone(),
            options: self.compacting.clone(),
            runtime,
        })
    }

    /// Takes compactions that are done; where it `wait`s, at least one of those that run.
    async fn collect(&mut self, mut wait: bool) -> Result<()> {
        loop {
            let done = match std::mem::take(&mut wait) {
                true => self.running.next().await,
                false => match self.running.next().now_or_never() {
                    Some(done) => done,
                    None => return Ok(()),
                },
            };
            let Some((key, result)) = done else {
                return Ok(());
            };
            let compacted = result?;
            self.taking.metrics.compactions += 1;
            let tree = self.buckets.get_mut(&key).and_then(|b| b.tree.as_mut());
            let Some(tree) = tree else {
                if let Some(lost) = self.buckets.get_mut(&key).and_then(|b| b.lost.as_mut()) {
                    lost.runs = false;
                }
                self.remove_forsaken(&key, &compacted).await;
                continue;
            };
            let useless = tree.finished(compacted)?;
            self.remove_useless(useless).await;
            self.trigger(&key, false)?;
        }
    }

    /// A compaction is done whose bucket was given up meanwhile.
    async fn remove_forsaken(&mut self, key: &GroupKey, compacted: &Compacted) {
        let Ok(directory) = self.taking.directories.of(key) else {
            return;
        };
        let lifted = |f: &&DataFileMeta| {
            let mut inputs = compacted.before.iter();
            !inputs.any(|b| b.file_name == f.file_name)
        };
        let made = compacted.after.iter().filter(lifted);
        let made = made.chain(&compacted.changelog);
        let paths = made.map(|f| format!("{directory}/{}", f.file_name));
        let paths = paths.collect();
        self.remove_useless(paths).await;
    }

    /// Buckets of which a compaction was left out when it was committed: what this writer knows of their
    /// files is wrong. They are not compacted until a fresh view shows all that it did \[R-15].
    async fn look_after_lost(&mut self) -> Result<()> {
        let lost = self.views.take_lost(&|key| self.buckets.contains_key(key));
        for key in lost {
            let Some(bucket) = self.buckets.get_mut(&key) else {
                continue;
            };
            let lost = bucket.lost.get_or_insert_default();
            lost.newest = None;
            if let Some(tree) = bucket.tree.take() {
                lost.runs = tree.busy;
                self.remove_useless(tree.unseen()).await;
            }
        }
        let waiting = self.buckets.iter().filter(|(_, bucket)| {
            let lost = bucket.lost.as_ref();
            lost.is_some_and(|lost| lost.newest.is_some() && !lost.runs)
        });
        let waiting: Vec<GroupKey> = waiting.map(|(key, _)| key.clone()).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        let count = waiting.len();
        let views = self.views.fresh_views(&waiting).await;
        let views = views.map_err(|source| WriterError::Views { count, source })?;
        for (key, view) in waiting.into_iter().zip(views) {
            let Some(bucket) = self.buckets.get(&key) else {
                continue;
            };
            let newest = bucket.lost.as_ref().and_then(|lost| lost.newest.as_ref());
            let complete =
                newest.is_some_and(|name| view.files.iter().any(|f| f.file_name == *name));
            if complete {
                let read = vectors::read(&self.taking.store, self.vectors, &view).await?;
                let tree = self.tree(&key, view, read)?;
                if let Some(bucket) = self.buckets.get_mut(&key) {
                    (bucket.tree, bucket.lost) = (Some(tree), None);
                }
            }
        }
        Ok(())
    }

    /// Deletes what one compaction made and another used up; what stays behind carries the run's prefix.
    async fn remove_useless(&mut self, paths: Vec<String>) {
        let Some(shop) = self.shop.clone().filter(|_| !paths.is_empty()) else {
            return;
        };
        let answers = self.taking.store.delete_many(&paths).await;
        for (path, answer) in paths.iter().zip(answers) {
            if let Err(error) = answer {
                tracing::warn!(%path, %error, "an intermediate file of a compaction stays behind");
            }
        }
        shop.uploads.let_go(&paths.into_iter().collect());
    }

    /// Waits while a bucket has more runs than the stop trigger and is being compacted \[W-23].
    pub(super) async fn wait_where_stalled(&mut self) -> Result<()> {
        if self.shop.is_none() {
            return Ok(());
        }
        self.look_after_lost().await?;
        self.collect(false).await?;
        let stalls = |writer: &Self| {
            let mut trees = writer.buckets.values().filter_map(|b| b.tree.as_ref());
            trees.any(|tree| tree.busy && tree.stalls())
        };
        while stalls(self) && !self.running.is_empty() {
            self.taking.metrics.stalls += 1;
            self.collect(true).await?;
        }
        Ok(())
    }

    fn now(&self) -> Now {
        let millis = self.taking.options.clock.local_millis();
        let hour = millis.div_euclid(3_600_000).rem_euclid(24) as u8;
        Now { millis, hour }
    }

    /// Starts a compaction of a bucket, where there is something to compact and none is running.
    fn trigger(&mut self, key: &GroupKey, full: bool) -> Result<()> {
        let now = self.now();
        let tree = self.buckets.get_mut(key).and_then(|b| b.tree.as_mut());
        let (Some(shop), Some(tree)) = (&self.shop, tree) else {
            return Ok(());
        };
        // Files that another writer made in another format are left to it.
        if tree.busy || !tree.files().all(readable) {
            return Ok(());
        }
        let Some(job) = tree.pick(full, now) else {
            return Ok(());
        };
        tree.busy = true;
        let answer = shop.start(job)?;
        let key = key.clone();
        self.running.push(Box::pin(async move {
            let gone = || {
                Err(WriterError::Task {
                    what: "a compaction",
                    reason: "its job panicked".to_owned(),
                })
            };
            (key, answer.await.unwrap_or_else(|_| gone()))
        }));
        Ok(())
    }

    /// After a flush: the new files are in their trees, and buckets are compacted where that is due.
    pub(super) async fn after_flush(&mut self) -> Result<()> {
        if self.shop.is_none() {
            return Ok(());
        }
        let mut flushed: HashMap<GroupKey, Vec<DataFileMeta>> = HashMap::new();
        for file in self
            .taking
            .durable
            .iter()
            .filter(|file| file.of == Of::Data)
        {
            if let Some(key) = self.taking.router.key(file.group) {
                flushed
                    .entry(key.clone())
                    .or_default()
                    .push(file.meta.clone());
            }
        }
        for (key, files) in &flushed {
            let Some(bucket) = self.buckets.get_mut(key) else {
                continue;
            };
            if let Some(tree) = &mut bucket.tree {
                tree.flushed(files)?;
            }
            if let (Some(lost), Some(file)) = (&mut bucket.lost, files.last()) {
                lost.newest = Some(file.file_name.clone());
            }
        }
        self.owed.extend(flushed.keys().cloned());
        // At the end of the input too, so that the changelog is whole [F-14].
        let at_end = self.ended;
        let due = self
            .full_every
            .is_some_and(|every| at_end || (self.taking.prepares + 1).is_multiple_of(every));
        if due {
            let owed: Vec<GroupKey> = std::mem::take(&mut self.owed).into_iter().collect();
            return self.compact_now(&owed, true).await;
        }
        if self.full_every.is_none() {
            self.owed.clear();
        }
        for key in flushed.keys() {
            self.trigger(key, false)?;
        }
        if self.waits {
            self.come_to_an_end().await?;
        }
        Ok(())
    }

    async fn come_to_an_end(&mut self) -> Result<()> {
        while !self.running.is_empty() {
            self.collect(true).await?;
        }
        Ok(())
    }

    /// Compacts buckets and waits until it is done.
    async fn compact_now(&mut self, keys: &[GroupKey], full: bool) -> Result<()> {
        self.come_to_an_end().await?;
        for key in keys {
            self.trigger(key, full)?;
        }
        self.come_to_an_end().await
    }

    /// Compacts these buckets, fully or where the table's options see a reason, and waits until it is
    /// done: for a run that does nothing else. The next [`KeyedWriter::prepare`] hands the result over.
    ///
    /// # Errors
    /// As [`KeyedWriter::prepare`]; [`WriterError::Config`] where the table is `write-only`.
    pub async fn compact(&mut self, keys: &[GroupKey], full: bool) -> Result<()> {
        self.taking.check()?;
        if self.shop.is_none() {
            return Err(WriterError::Config(
                "option 'write-only' = 'true': this writer does not compact; set it to false for it"
                    .to_owned(),
            ));
        }
        self.open_buckets(keys).await?;
        let result = self.compact_now(keys, full).await;
        self.taking.fail_on_error(result)
    }

    /// Whether any of these buckets has something to compact, fully or where the table's options see a reason.
    ///
    /// # Errors
    /// Where the buckets' files cannot be learned.
    pub async fn any_due(&mut self, keys: &[GroupKey], full: bool) -> Result<bool> {
        self.taking.check()?;
        self.open_buckets(keys).await?;
        let now = self.now();
        let mut trees = keys
            .iter()
            .filter_map(|key| self.buckets.get(key)?.tree.as_ref());
        Ok(trees.any(|tree| tree.files().all(readable) && tree.is_due(full, now)))
    }

    /// What compactions did in each bucket since the last barrier, handed over now.
    pub(super) fn compacted(&mut self) -> HashMap<GroupKey, CompactIncrement> {
        let mut all = HashMap::new();
        let mut paths = HashSet::new();
        for (key, bucket) in &mut self.buckets {
            let Some(tree) = &mut bucket.tree else {
                continue;
            };
            let Some(increment) = tree.hand_over() else {
                continue;
            };
            let path = |file: &DataFileMeta| format!("{}/{}", tree.directory, file.file_name);
            let files = increment.compact_after.iter();
            paths.extend(files.chain(&increment.changelog_files).map(path));
            all.insert(key.clone(), increment);
        }
        if let Some(shop) = &self.shop {
            shop.uploads.let_go(&paths);
        }
        all
    }

    /// Ends all compactions; nothing of them stays.
    pub(super) async fn give_up_compactions(&mut self) -> Result<()> {
        let Some(shop) = self.shop.take() else {
            return Ok(());
        };
        shop.give_up();
        while self.running.next().await.is_some() {}
        shop.uploads.settled().await;
        let begun = shop.uploads.begun();
        for bucket in self.buckets.values_mut() {
            if let Some(tree) = &mut bucket.tree {
                tree.give_up();
            }
            if let Some(lost) = &mut bucket.lost {
                *lost = LostTree::default();
            }
        }
        self.owed.clear();
        self.shop = Some(self.new_shop(shop.compactor.clone()));
        delete(&self.taking.store, &begun).await
    }
}
