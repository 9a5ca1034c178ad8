//! Publishing: an entry in the log, then the files into their place.
//!
//! Owns the order and the decisions of the contract over the log: fences, compare-and-set on the
//! source, standing, ways out. One invariant carries recovery: an entry is added only when all files
//! of the entry before it are final, so that only the newest entry can be unfinished.

use std::collections::BTreeSet;

use futures::stream::{self, TryStreamExt};
use tidegate_sink::{
    BoxFuture, CommitContext, CommitIdentifier, Committable, Committer, Digest, JobHistory,
    Message, Mismatch, Outcome, Resolution, ResolutionPlan, Run, Saved, SinkError, Standing,
    Version, probe,
};
use tidegate_storage::Store;

use crate::error::FilesError;
use crate::log::{
    Appended, DataFile, Entry, Log, Numbered, PENDING, Plan, VERSION, digest, pending_path,
};

/// Files moved at the same time.
const MOVES: usize = 4;

/// Bytes of a file in memory while it is copied where the store does not do it.
const PIECE: u64 = 8 << 20;

/// Makes a file final: whole under its final name, whoever else does the same at the same time.
async fn finalise(store: &Store, file: &DataFile) -> Result<(), FilesError> {
    let doing = || format!("making {} final", file.name);
    match copy(store, file).await {
        Ok(()) => Ok(()),
        Err(error) if error.is_not_found() => {
            // Another run has finished it: a pending file goes only once the final one is there.
            let there = store
                .head(&file.name)
                .await
                .map_err(FilesError::store(doing()))?;
            match there {
                Some(there) if there.size == file.bytes => Ok(()),
                _ => Err(FilesError::corrupt(
                    store.url_of(&file.name),
                    "the commit log names it and it is neither pending nor final",
                )),
            }
        }
        Err(error) => Err(FilesError::store(doing())(error)),
    }
}

async fn copy(store: &Store, file: &DataFile) -> Result<(), tidegate_storage::StoreError> {
    let from = pending_path(&file.name);
    if file.bytes <= store.capabilities().copies_up_to {
        return store.copy_once(&from, &file.name).await;
    }
    let mut upload = store.upload(&file.name).await?;
    let mut at = 0;
    while at < file.bytes {
        let end = file.bytes.min(at + PIECE);
        upload.write(store.get_range(&from, at..end).await?).await?;
        at = end;
    }
    upload.finish().await?;
    Ok(())
}

async fn finalise_all(store: &Store, files: &[DataFile]) -> Result<(), FilesError> {
    stream::iter(files.iter().map(Ok))
        .try_for_each_concurrent(MOVES, |file| finalise(store, file))
        .await?;
    // Only now: a pending file that is gone means that its final one is there.
    let pending: Vec<_> = files.iter().map(|file| pending_path(&file.name)).collect();
    let deleted = store.delete_many(&pending).await;
    stream::iter(deleted)
        .try_collect::<()>()
        .await
        .map_err(FilesError::store("tidying up"))
}

/// Names of the pending files.
pub(crate) async fn pending_names(store: &Store) -> Result<BTreeSet<String>, FilesError> {
    let names = store.list_names(PENDING).await;
    let names = names.map_err(FilesError::store("listing pending files"))?;
    Ok(names.into_iter().map(|entry| entry.name).collect())
}

/// Finishes what the newest entry of a log began.
pub(crate) async fn roll_forward(store: &Store, newest: &Entry) -> Result<(), FilesError> {
    let pending = pending_names(store).await?;
    let files = newest
        .plan
        .files
        .iter()
        .filter(|file| pending.contains(&file.name));
    finalise_all(store, &files.cloned().collect::<Vec<_>>()).await
}

/// The committer of one run.
pub(crate) struct FilesCommitter {
    store: Store,
    run: Run,
    log: Log,
    /// The newest entry as last seen; an older one than the real newest only costs a lost race.
    newest: Option<Numbered>,
    /// Whether the files of `newest` may still have to be made final.
    unfinished: bool,
    /// `newest` must be read again.
    stale: bool,
}

impl FilesCommitter {
    pub(crate) async fn open(store: Store, run: Run) -> Result<Self, FilesError> {
        let log = Log::new(store.clone(), &run.user)?;
        log.make_durable().await?;
        let mut committer = Self {
            store,
            run,
            log,
            newest: None,
            unfinished: false,
            stale: true,
        };
        committer.settle().await?;
        Ok(committer)
    }

    /// Knows the newest entry, and all its files are final.
    async fn settle(&mut self) -> Result<(), FilesError> {
        if self.stale {
            self.newest = self.log.newest().await?;
            self.unfinished = true;
            self.stale = false;
        }
        if self.unfinished
            && let Some(newest) = &self.newest
        {
            roll_forward(&self.store, &newest.entry).await?;
        }
        self.unfinished = false;
        Ok(())
    }

    /// What stands in the way of a commit on top of the newest entry.
    async fn obstacle(&self, entry: &Entry) -> Result<Option<Outcome>, FilesError> {
        let id = CommitIdentifier(entry.identifier);
        let Some(newest) = &self.newest else {
            return Ok(entry.plan.replaces.as_ref().map(|_| {
                Outcome::Refused(format!(
                    "commit {id} goes on from positions that {} does not know: its commit log has \
                     no entry of this job; bring the log back, or take another job name",
                    self.store.url()
                ))
            }));
        };
        if newest.entry.identifier >= entry.identifier {
            let (_, at) = self.log.above(Some(id)).await?;
            return Ok(Some(match at {
                //
                Some(at) if at.entry.digest == entry.digest => {
                    Outcome::AlreadyPublished(at.published())
                }
                Some(at) => Outcome::Fenced(format!(
                    "commit {id} is published with other content by epoch {}: another run goes on \
                     with this job",
                    at.epoch()
                )),
                None if newest.epoch().0 > entry.plan.epoch => Outcome::Fenced(format!(
                    "epoch {} has published commit {} since",
                    newest.epoch(),
                    newest.entry.identifier
                )),
                None => Outcome::Refused(format!(
                    "commit {id} is not in the log, which is at {} already: whether it ever was is \
                     not known",
                    newest.entry.identifier
                )),
            }));
        }
        if newest.epoch() > self.run.epoch {
            return Ok(Some(Outcome::Fenced(format!(
                "epoch {} goes on with this job; this run is epoch {}",
                newest.epoch(),
                self.run.epoch
            ))));
        }
        //
        let moved = entry.plan.replaces.is_some()
            && newest.entry.plan.positions_hash.is_some()
            && entry.plan.replaces != newest.entry.plan.positions_hash;
        Ok(moved.then(|| {
            Outcome::Refused(format!(
                "commit {id} replaces other positions than those of commit {}",
                newest.entry.identifier
            ))
        }))
    }

    /// Appends it to the log; an empty one only where it `takes_over`.
    async fn publish(
        &mut self,
        committable: &Committable,
        takes_over: bool,
    ) -> Result<Outcome, FilesError> {
        if !committable.is_complete() {
            return Ok(Outcome::Refused(format!(
                "commit {} holds the reports of {} of {} writers",
                committable.identifier, committable.received, committable.expected
            )));
        }
        let mut entry = Entry::new(committable)?;
        // The run that publishes, which need not be the one that wrote the files.
        entry.plan.epoch = self.run.epoch.0;
        if committable.user != self.run.user {
            return Ok(Outcome::Refused(format!(
                "commit {} is of user {}, this committer is {}'s",
                committable.identifier, committable.user, self.run.user
            )));
        }
        loop {
            self.settle().await?;
            if let Some(outcome) = self.obstacle(&entry).await? {
                return Ok(outcome);
            }
            if entry.plan.files.is_empty() {
                if !takes_over {
                    return Ok(Outcome::Empty);
                }
                // The next commit compares with the last one that brought something.
                entry
                    .plan
                    .stand_at(self.newest.as_ref().map(|newest| &newest.entry.plan));
            }
            let number = self.newest.as_ref().map_or(1, |newest| newest.number + 1);
            probe::hit(probe::BEFORE_PUBLISH);
            // Dropped from here on, the log is read again.
            self.stale = true;
            match self.log.append(number, entry.clone()).await? {
                Appended::Theirs => {}
                Appended::Unknown(why) => return Ok(Outcome::Undecided(why)),
                Appended::Ours(now) => {
                    probe::hit(probe::PUBLISHED);
                    let before = self.newest.replace((*now).clone());
                    self.unfinished = true;
                    self.stale = false;
                    finalise_all(&self.store, &now.entry.plan.files).await?;
                    self.unfinished = false;
                    if let Some(before) = before {
                        // What stays is found by `clean`.
                        let _ = self.log.forget(&before.entry, &now.entry).await;
                    }
                    return Ok(Outcome::Published(now.published()));
                }
            }
        }
    }

    async fn compare(&self, saved: &Saved) -> Result<Standing, FilesError> {
        let known = saved.newest_published.as_ref();
        let (there, at) = self.log.above(known.map(|known| known.identifier)).await?;
        if let Some(known) = known {
            match (at, known.digest) {
                (None, _) => {
                    return Ok(Standing::Mismatch(Mismatch::Behind {
                        missing: known.clone(),
                    }));
                }
                (Some(at), Some(saved)) if at.entry.digest != saved.to_string() => {
                    let found = at.published();
                    return Ok(Standing::Mismatch(Mismatch::Diverged { found, saved }));
                }
                _ => {}
            }
        }
        let mut ahead = Vec::new();
        let mut rest = there.into_iter().peekable();
        let mut missing = None;
        for committable in &saved.committables {
            if known.is_some_and(|known| committable.identifier <= known.identifier) {
                continue;
            }
            match rest.next_if(|found| found.entry.identifier == committable.identifier.0) {
                Some(found) if found.entry.digest != committable.digest.to_string() => {
                    let (found, saved) = (found.published(), committable.digest);
                    return Ok(Standing::Mismatch(Mismatch::Diverged { found, saved }));
                }
                Some(found) => match missing {
                    None => ahead.push(found.published()),
                    Some(missing) => {
                        let why = format!(
                            "commit {} is in the log and commit {missing} before it is not",
                            committable.identifier
                        );
                        return Ok(Standing::Mismatch(Mismatch::Unknown { why }));
                    }
                },
                None if Plan::of(committable)?.files.is_empty() => {}
                None => missing = missing.or(Some(committable.identifier)),
            }
        }
        let commits: Vec<_> = rest.map(|beyond| beyond.published()).collect();
        Ok(match (commits.is_empty(), ahead.is_empty()) {
            (false, _) => Standing::Mismatch(Mismatch::AheadBeyond { commits }),
            (true, true) => Standing::Equal,
            (true, false) => Standing::AheadByPrefix(ahead),
        })
    }

    async fn look(&self) -> Result<JobHistory, FilesError> {
        let Some(newest) = self.log.newest().await? else {
            return Ok(JobHistory::default());
        };
        Ok(JobHistory {
            positions: self.log.positions(&newest.entry).await?,
            largest_identifier: Some(CommitIdentifier(newest.entry.identifier)),
            newest_epoch: Some(newest.epoch()),
            newest: Some(newest.published()),
            // The log is each commit user's own: it tells nothing of others.
            tip: None,
        })
    }

    async fn way_out(
        &self,
        saved: &Saved,
        resolution: Resolution,
    ) -> Result<ResolutionPlan, FilesError> {
        let history = self.look().await?;
        let above = history.largest_identifier;
        let (step, positions) = match resolution {
            // Readers may have taken the files already, and nothing tells them to forget.
            Resolution::RollbackTable { .. } => {
                return Err(FilesError::Unsupported(
                    "plain files are not rolled back: who has read them cannot be told. Take \
                     continue-from-table, or accept-duplicates, or begin in a new directory"
                        .to_owned(),
                ));
            }
            Resolution::ContinueFromTable => {
                let Some(positions) = history.positions else {
                    return Err(FilesError::Unsupported(
                        "the commit log holds no positions of this job to continue from; take \
                         accept-duplicates"
                            .to_owned(),
                    ));
                };
                (
                    "go on from the positions of the newest entry of the commit log",
                    Some(positions),
                )
            }
            Resolution::AcceptDuplicates => (
                "go on from the checkpoint: rows that were published after it will be there twice",
                saved.positions.clone(),
            ),
        };
        Ok(ResolutionPlan {
            steps: vec![step.to_owned()],
            positions,
            above,
        })
    }
}

impl Committer for FilesCommitter {
    fn combine(
        &self,
        context: &CommitContext,
        messages: Vec<Message>,
        expected: u32,
        received: u32,
    ) -> Result<Committable, SinkError> {
        let files: Vec<_> = messages
            .iter()
            .map(DataFile::from_message)
            .collect::<Result<_, _>>()?;
        let plan = Plan::new(context, files);
        let digest: Digest = digest(&plan.files, plan.positions_hash.as_deref());
        let identifier = CommitIdentifier::try_from(context.checkpoint)
            .map_err(|e| FilesError::Config(e.to_string()))?;
        Ok(Committable {
            user: self.run.user.clone(),
            identifier,
            digest,
            expected,
            received,
            version: VERSION,
            payload: plan.to_payload()?,
        })
    }

    fn is_empty(&self, committable: &Committable) -> Result<bool, SinkError> {
        Ok(Plan::of(committable)?.files.is_empty())
    }

    fn commit<'a>(
        &'a mut self,
        committable: &'a Committable,
    ) -> BoxFuture<'a, Result<Outcome, SinkError>> {
        Box::pin(async move { Ok(self.publish(committable, false).await?) })
    }

    fn take_over<'a>(
        &'a mut self,
        committable: &'a Committable,
    ) -> BoxFuture<'a, Result<Outcome, SinkError>> {
        Box::pin(async move { Ok(self.publish(committable, true).await?) })
    }

    fn standing<'a>(&'a mut self, saved: &'a Saved) -> BoxFuture<'a, Result<Standing, SinkError>> {
        Box::pin(async move { Ok(self.compare(saved).await?) })
    }

    fn history<'a>(&'a mut self) -> BoxFuture<'a, Result<JobHistory, SinkError>> {
        Box::pin(async move { Ok(self.look().await?) })
    }

    fn hidden<'a>(
        &'a mut self,
        _: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<Option<String>, SinkError>> {
        // Entries of the log never expire and are never put over.
        Box::pin(async { Ok(None) })
    }

    fn resolve<'a>(
        &'a mut self,
        saved: &'a Saved,
        resolution: Resolution,
        // Nothing is changed by any way out: the engine goes on elsewhere.
        _dry_run: bool,
    ) -> BoxFuture<'a, Result<ResolutionPlan, SinkError>> {
        Box::pin(async move { Ok(self.way_out(saved, resolution).await?) })
    }

    /// The log is never shortened, so that it is the note.
    fn leave_note<'a>(&'a mut self) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(async { Ok(()) })
    }
}
