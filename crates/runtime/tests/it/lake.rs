//! A target in memory that keeps every rule of the contract, and can be told to fail.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use serde::{Deserialize, Serialize};
use tidegate_sink::*;

#[derive(Clone, Debug)]
pub struct LakeCommit {
    pub user: String,
    pub identifier: i64,
    pub epoch: u64,
    pub digest: Digest,
    pub files: Vec<String>,
    pub positions: Positions,
}

/// What the next commits do, one each, before the rest goes well.
#[derive(Clone, Debug)]
pub enum CommitFault {
    Transient,
    Undecided,
    /// Carried out, and the answer is lost.
    AnswerLost,
    Refused,
    Final,
    /// Takes so long.
    Slow(std::time::Duration),
}

#[derive(Debug, Default)]
pub struct Inner {
    pub files: BTreeMap<String, Vec<i64>>,
    pub commits: Vec<LakeCommit>,
    pub faults: Vec<CommitFault>,
    /// From here on every commit fails.
    pub down: bool,
    pub notes: usize,
    pub aborts: usize,
    pub opened: usize,
    pub fail_writes_at: Option<i64>,
    /// The next prepare takes so long.
    pub prepare_delay: Option<std::time::Duration>,
    /// The next write waits before it has any effect.
    pub write_delay: Option<std::time::Duration>,
    /// Every prepare takes so long.
    pub slow_prepares: Option<std::time::Duration>,
    /// Empty commits are published too, as `commit.force-create-snapshot` asks of a table.
    pub force_empty: bool,
    /// Writers remember the state of buckets; once, the newest commit is put over by somebody else while
    /// they open.
    pub put_over_at_open: Option<bool>,
    /// Commits that were put over once others had built on them: only their files tell of them.
    pub by_files: BTreeSet<i64>,
    /// When writers were opened: when runs began.
    pub opened_at: Vec<tokio::time::Instant>,
    /// When writers were asked to prepare: when barriers came.
    pub prepared_at: Vec<tokio::time::Instant>,
    /// The newest version, as far as others made it.
    pub tip: Option<Version>,
    /// What hides commits, if anything does.
    pub hidden: Option<String>,
    /// Since which versions that was asked.
    pub asked_since: Vec<Option<Version>>,
    next_file: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Lake(pub Arc<Mutex<Inner>>);

impl Lake {
    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn rows(&self) -> Vec<i64> {
        let inner = self.lock();
        let files = inner.commits.iter().flat_map(|c| &c.files);
        let mut rows: Vec<i64> = files.flat_map(|f| inner.files[f].clone()).collect();
        rows.sort_unstable();
        rows
    }

    pub fn orphans(&self) -> Vec<String> {
        let inner = self.lock();
        let used: Vec<_> = inner.commits.iter().flat_map(|c| &c.files).collect();
        inner
            .files
            .keys()
            .filter(|f| !used.contains(f))
            .cloned()
            .collect()
    }

    pub fn identifiers(&self) -> Vec<i64> {
        self.lock().commits.iter().map(|c| c.identifier).collect()
    }
}

#[derive(Serialize, Deserialize)]
struct Payload {
    epoch: u64,
    files: Vec<String>,
    active: Vec<u8>,
    finished: Vec<u8>,
    replaces: Option<(Vec<u8>, Vec<u8>)>,
}

impl Payload {
    fn of(committable: &Committable) -> Self {
        serde_json::from_slice(&committable.payload).unwrap()
    }
}

struct LakeWriter {
    lake: Lake,
    prefix: RunPrefix,
    open: Option<String>,
}

impl Writer for LakeWriter {
    type Batch = RecordBatch;

    fn write<'a>(&'a mut self, rows: Rows<RecordBatch>) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(async move {
            let delay = self.lake.lock().write_delay.take();
            if let Some(delay) = delay {
                tokio::time::sleep(delay).await;
            }
            let mut inner = self.lake.lock();
            let ids = rows
                .batch
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec();
            if let Some(bad) = inner.fail_writes_at
                && ids.contains(&bad)
            {
                inner.fail_writes_at = None;
                return Err(SinkError::new(ErrorKind::Transient, "disk trouble"));
            }
            inner.next_file += 1;
            let number = inner.next_file;
            let name = self
                .open
                .get_or_insert_with(|| format!("{}{number}", self.prefix))
                .clone();
            inner.files.entry(name).or_default().extend(ids);
            Ok(())
        })
    }

    fn prepare<'a>(&'a mut self) -> BoxFuture<'a, Result<Vec<Message>, SinkError>> {
        Box::pin(async move {
            let delay = {
                let mut inner = self.lake.lock();
                inner.prepared_at.push(tokio::time::Instant::now());
                inner.prepare_delay.take().or(inner.slow_prepares)
            };
            if let Some(delay) = delay {
                tokio::time::sleep(delay).await;
            }
            let message = |name: String| Message {
                version: 1,
                bytes: name.into_bytes(),
            };
            Ok(self.open.take().map(message).into_iter().collect())
        })
    }

    fn abort<'a>(&'a mut self) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(async move {
            let mut inner = self.lake.lock();
            inner.aborts += 1;
            if let Some(name) = self.open.take() {
                inner.files.remove(&name);
            }
            Ok(())
        })
    }
}

/// By the value, so that one value has one writer; splits each batch.
struct LakeRouter(usize);

impl Router<RecordBatch> for LakeRouter {
    fn route(
        &self,
        _: usize,
        rows: Rows<RecordBatch>,
    ) -> Result<Vec<(usize, Rows<RecordBatch>)>, SinkError> {
        let ids = rows.batch.column(0).as_primitive::<Int64Type>().values();
        let mut routed = Vec::new();
        for writer in 0..self.0 {
            let mine = ids.iter().map(|id| Some(*id as usize % self.0 == writer));
            let mine: arrow::array::BooleanArray = mine.collect();
            let part = arrow::compute::filter_record_batch(&rows.batch, &mine).unwrap();
            if part.num_rows() > 0 {
                routed.push((writer, Rows::inserts(part)));
            }
        }
        Ok(routed)
    }
}

struct LakeCommitter {
    lake: Lake,
    user: CommitUser,
    epoch: u64,
}

fn published(commit: &LakeCommit, version: usize) -> Published {
    Published {
        identifier: CommitIdentifier(commit.identifier),
        digest: Some(commit.digest),
        version: version as u64 + 1,
        token: format!("t{}-{}", commit.identifier, commit.epoch),
    }
}

impl LakeCommitter {
    fn mine(&self) -> Vec<(usize, LakeCommit)> {
        let inner = self.lake.lock();
        let all = inner.commits.iter().cloned().enumerate();
        all.filter(|(_, c)| c.user == self.user.as_str())
            .filter(|(_, c)| !inner.by_files.contains(&c.identifier))
            .collect()
    }
}

impl LakeCommitter {
    async fn publish(
        &mut self,
        committable: &Committable,
        takes_over: bool,
    ) -> Result<Outcome, SinkError> {
        // A real one waits for its store.
        tokio::task::yield_now().await;
        let fault = {
            let mut inner = self.lake.lock();
            match inner.down {
                true => Some(CommitFault::Transient),
                false if inner.faults.is_empty() => None,
                false => Some(inner.faults.remove(0)),
            }
        };
        let mut lost = false;
        match fault {
            Some(CommitFault::Transient) => {
                return Err(SinkError::new(ErrorKind::Transient, "no network"));
            }
            Some(CommitFault::Undecided) => return Ok(Outcome::Undecided("no answer".into())),
            Some(CommitFault::Refused) => return Ok(Outcome::Refused("conflict".into())),
            Some(CommitFault::Final) => {
                return Err(SinkError::new(ErrorKind::Corrupt, "manifest is broken"));
            }
            Some(CommitFault::Slow(delay)) => tokio::time::sleep(delay).await,
            Some(CommitFault::AnswerLost) => lost = true,
            None => {}
        }
        let payload = Payload::of(committable);
        if self
            .lake
            .lock()
            .by_files
            .contains(&committable.identifier.0)
        {
            return Ok(Outcome::AlreadyPublished(Published {
                identifier: committable.identifier,
                digest: Some(committable.digest),
                version: 0,
                token: String::new(),
            }));
        }
        let mine = self.mine();
        if let Some((at, there)) = mine
            .iter()
            .find(|(_, c)| c.identifier == committable.identifier.0)
        {
            return Ok(match there.digest == committable.digest {
                true => Outcome::AlreadyPublished(published(there, *at)),
                false => Outcome::Fenced("other content under our identifier".into()),
            });
        }
        if mine.iter().any(|(_, c)| c.epoch > self.epoch) {
            return Ok(Outcome::Fenced("a newer epoch has committed".into()));
        }
        //
        if let (Some((_, last)), Some((active, finished))) = (mine.last(), &payload.replaces)
            && (last.positions.active != *active || last.positions.finished != *finished)
        {
            return Ok(Outcome::Refused("the source positions moved".into()));
        }
        let mut positions = Positions {
            active: payload.active,
            finished: payload.finished,
        };
        if payload.files.is_empty() {
            if !takes_over && !self.lake.lock().force_empty {
                return Ok(Outcome::Empty);
            }
            positions = mine
                .last()
                .map_or_else(Positions::default, |(_, c)| c.positions.clone());
        }
        probe::hit(probe::BEFORE_PUBLISH);
        let mut inner = self.lake.lock();
        assert!(
            payload.files.iter().all(|f| inner.files.contains_key(f)),
            "nothing lost"
        );
        let commit = LakeCommit {
            user: self.user.to_string(),
            identifier: committable.identifier.0,
            epoch: self.epoch,
            digest: committable.digest,
            files: payload.files,
            positions,
        };
        let done = published(&commit, inner.commits.len());
        inner.commits.push(commit);
        drop(inner);
        probe::hit(probe::PUBLISHED);
        if lost {
            return Ok(Outcome::Undecided("the answer was lost".into()));
        }
        Ok(Outcome::Published(done))
    }
}

impl Committer for LakeCommitter {
    fn combine(
        &self,
        context: &CommitContext,
        messages: Vec<Message>,
        expected: u32,
        received: u32,
    ) -> Result<Committable, SinkError> {
        let mut files: Vec<_> = messages
            .into_iter()
            .map(|m| String::from_utf8(m.bytes).unwrap())
            .collect();
        files.sort();
        let positions = context.positions.clone().unwrap();
        let mut digest = [0u8; 32];
        for (n, part) in digest.chunks_mut(8).enumerate() {
            let mut hasher = DefaultHasher::new();
            (n, &files, &positions).hash(&mut hasher);
            part.copy_from_slice(&hasher.finish().to_be_bytes());
        }
        let payload = Payload {
            epoch: context.epoch.0,
            files,
            active: positions.active,
            finished: positions.finished,
            replaces: context.replaces.clone().map(|p| (p.active, p.finished)),
        };
        Ok(Committable {
            user: self.user.clone(),
            identifier: context.checkpoint.try_into().unwrap(),
            digest: Digest(digest),
            expected,
            received,
            version: 1,
            payload: serde_json::to_vec(&payload).unwrap(),
        })
    }

    fn is_empty(&self, committable: &Committable) -> Result<bool, SinkError> {
        Ok(Payload::of(committable).files.is_empty())
    }

    fn commit<'a>(
        &'a mut self,
        committable: &'a Committable,
    ) -> BoxFuture<'a, Result<Outcome, SinkError>> {
        Box::pin(self.publish(committable, false))
    }

    fn take_over<'a>(
        &'a mut self,
        committable: &'a Committable,
    ) -> BoxFuture<'a, Result<Outcome, SinkError>> {
        Box::pin(self.publish(committable, true))
    }

    fn standing<'a>(&'a mut self, saved: &'a Saved) -> BoxFuture<'a, Result<Standing, SinkError>> {
        Box::pin(async move {
            let mine = self.mine();
            if let Some(known) = &saved.newest_published
                && !mine.iter().any(|(_, c)| {
                    c.identifier == known.identifier.0 && Some(c.digest) == known.digest
                })
            {
                return Ok(Standing::Mismatch(Mismatch::Behind {
                    missing: known.clone(),
                }));
            }
            let known = saved
                .newest_published
                .as_ref()
                .map_or(0, |p| p.identifier.0);
            let mut there = Vec::new();
            let mut beyond = Vec::new();
            for (at, commit) in mine.iter().filter(|(_, c)| c.identifier > known) {
                let same = saved
                    .committables
                    .iter()
                    .find(|c| c.identifier.0 == commit.identifier);
                match same {
                    Some(saved) if saved.digest == commit.digest => {
                        there.push(published(commit, *at));
                    }
                    Some(saved) => {
                        return Ok(Standing::Mismatch(Mismatch::Diverged {
                            found: published(commit, *at),
                            saved: saved.digest,
                        }));
                    }
                    None => beyond.push(published(commit, *at)),
                }
            }
            Ok(match (beyond.is_empty(), there.is_empty()) {
                (false, _) => Standing::Mismatch(Mismatch::AheadBeyond { commits: beyond }),
                (true, true) => Standing::Equal,
                (true, false) => Standing::AheadByPrefix(there),
            })
        })
    }

    fn history<'a>(&'a mut self) -> BoxFuture<'a, Result<JobHistory, SinkError>> {
        Box::pin(async move {
            let mine = self.mine();
            let newest = mine.last();
            Ok(JobHistory {
                newest: newest.map(|(at, c)| published(c, *at)),
                positions: newest.map(|(_, c)| c.positions.clone()),
                largest_identifier: newest.map(|(_, c)| CommitIdentifier(c.identifier)),
                newest_epoch: newest.map(|(_, c)| Epoch(c.epoch)),
                tip: self.lake.lock().tip.clone(),
            })
        })
    }

    fn hidden<'a>(
        &'a mut self,
        begun_on: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<Option<String>, SinkError>> {
        let mut inner = self.lake.lock();
        inner.asked_since.push(begun_on.cloned());
        let hidden = inner.hidden.clone();
        Box::pin(async { Ok(hidden) })
    }

    fn resolve<'a>(
        &'a mut self,
        saved: &'a Saved,
        resolution: Resolution,
        dry_run: bool,
    ) -> BoxFuture<'a, Result<ResolutionPlan, SinkError>> {
        Box::pin(async move {
            let mine = self.mine();
            let above = mine.last().map(|(_, c)| CommitIdentifier(c.identifier));
            let mut plan = ResolutionPlan {
                steps: vec![],
                positions: None,
                above,
            };
            match resolution {
                Resolution::RollbackTable { .. } => {
                    let known = saved
                        .newest_published
                        .as_ref()
                        .map_or(0, |p| p.identifier.0);
                    let keep: Vec<_> = saved.committables.iter().map(|c| c.identifier.0).collect();
                    let goes =
                        |c: &LakeCommit| c.identifier > known && !keep.contains(&c.identifier);
                    let count = mine.iter().filter(|(_, c)| goes(c)).count();
                    plan.steps.push(format!("remove {count} commits"));
                    if !dry_run {
                        self.lake.lock().commits.retain(|c| !goes(c));
                    }
                }
                Resolution::ContinueFromTable => {
                    plan.positions = mine.last().map(|(_, c)| c.positions.clone());
                    plan.steps.push("go on where the table stands".into());
                }
                Resolution::AcceptDuplicates => {
                    plan.positions = saved.positions.clone();
                    plan.steps.push("rows will be there twice".into());
                }
            }
            Ok(plan)
        })
    }

    fn leave_note<'a>(&'a mut self) -> BoxFuture<'a, Result<(), SinkError>> {
        self.lake.lock().notes += 1;
        Box::pin(async { Ok(()) })
    }
}

impl Lake {
    fn left_behind(
        &self,
        run: &Run,
        earlier: &[RunPrefix],
        pending: &[Committable],
    ) -> Vec<String> {
        assert!(!earlier.contains(&run.prefix), "never one's own");
        let inner = self.lock();
        let mut used: Vec<String> = inner.commits.iter().flat_map(|c| c.files.clone()).collect();
        used.extend(pending.iter().flat_map(|c| Payload::of(c).files));
        let theirs = |name: &&String| earlier.iter().any(|prefix| name.starts_with(&prefix.0));
        let all = inner.files.keys().filter(theirs);
        all.filter(|name| !used.contains(name)).cloned().collect()
    }
}

impl Target for Lake {
    type Batch = RecordBatch;

    fn name(&self) -> String {
        "lake".into()
    }

    fn writer_memory(&self) -> WriterMemory {
        match self.lock().put_over_at_open {
            Some(_) => WriterMemory::BucketState,
            None => WriterMemory::Nothing,
        }
    }

    fn committer<'a>(
        &'a self,
        run: &'a Run,
    ) -> BoxFuture<'a, Result<Box<dyn Committer>, SinkError>> {
        let committer = LakeCommitter {
            lake: self.clone(),
            user: run.user.clone(),
            epoch: run.epoch.0,
        };
        Box::pin(async move { Ok(Box::new(committer) as Box<_>) })
    }

    fn writers<'a>(
        &'a self,
        run: &'a Run,
        count: usize,
    ) -> BoxFuture<'a, Result<WriterSet<RecordBatch>, SinkError>> {
        Box::pin(async move {
            self.lock().opened += 1;
            let mut inner = self.lock();
            if inner.put_over_at_open == Some(true) && inner.commits.pop().is_some() {
                inner.put_over_at_open = Some(false);
            }
            drop(inner);
            self.lock().opened_at.push(tokio::time::Instant::now());
            let writer = |_| {
                let (lake, prefix) = (self.clone(), run.prefix.clone());
                Box::new(LakeWriter {
                    lake,
                    prefix,
                    open: None,
                }) as Box<dyn Writer<Batch = _>>
            };
            let writers = (0..count).map(writer).collect();
            Ok(WriterSet {
                writers,
                router: Box::new(LakeRouter(count)),
            })
        })
    }

    fn clean<'a>(
        &'a self,
        run: &'a Run,
        earlier: &'a [RunPrefix],
        pending: &'a [Committable],
    ) -> BoxFuture<'a, Result<CleanReport, SinkError>> {
        Box::pin(async move {
            let mine = self.lock().commits.iter().any(|c| c.epoch == run.epoch.0);
            assert!(mine, "[R-13] only with a visible commit of its own epoch");
            let left = self.left_behind(run, earlier, pending);
            let mut inner = self.lock();
            for name in &left {
                inner.files.remove(name);
            }
            Ok(CleanReport {
                removed: left.len() as u64,
                kept: 0,
            })
        })
    }

    fn leftovers<'a>(
        &'a self,
        run: &'a Run,
        earlier: &'a [RunPrefix],
        pending: &'a [Committable],
    ) -> BoxFuture<'a, Result<u64, SinkError>> {
        Box::pin(async move { Ok(self.left_behind(run, earlier, pending).len() as u64) })
    }
}
