//! A table in memory, and jobs that commit to it under a schedule.
//!
//! Owns: the effects of steps, faults, and the invariants that hold after each of them. One list of
//! choices is one schedule.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::ids::{
    BucketId, CommitIdentifier, CommitUser, Digest, Epoch, SchemaId, SnapshotId,
};
use tidegate_model::snapshot::CommitKind;
use tidegate_protocol::merge::{ManifestSummary, MergeSettings, Piece};
use tidegate_protocol::*;

/// Where the schedule comes from; after its end only benign choices are left.
pub(crate) struct Choices<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Choices<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn is_over(&self) -> bool {
        self.at >= self.bytes.len()
    }

    fn next(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte
    }
}

/// What may happen in a schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    /// Processes die and come back under a new epoch, the old one perhaps not dead at all.
    pub(crate) crashes: bool,
    /// Old snapshots expire.
    pub(crate) expiry: bool,
    pub(crate) rules: Rules,
}

#[derive(Clone, Debug)]
enum Object {
    Manifest(Vec<(bool, FileId)>),
    List(Vec<ObjectId>),
}

#[derive(Default)]
struct Table {
    snapshots: BTreeMap<i64, Draft>,
    /// All that ever became visible, expired ones included.
    history: Vec<Draft>,
    objects: BTreeMap<ObjectId, Object>,
    next_object: u64,
    next_token: u64,
    /// Publishes that were sent and may still arrive.
    late: Vec<Draft>,
    clock: i64,
    /// Snapshots that were created below the retained history.
    buried: BTreeSet<i64>,
    /// Those on a base that had expired and was created again by a request of its own that came late:
    /// see [`Table::was_visible`].
    vouched: BTreeSet<Token>,
    rows: BTreeMap<FileId, i64>,
    /// Files that a base list lost or doubled.
    broken: Option<String>,
}

impl Table {
    fn put(&mut self, object: Object) -> ObjectId {
        self.next_object += 1;
        let id = ObjectId(self.next_object);
        self.objects.insert(id, object);
        id
    }

    fn list(&self, id: ObjectId) -> Result<Vec<ObjectId>, String> {
        match self.objects.get(&id) {
            Some(Object::List(list)) => Ok(list.clone()),
            other => Err(format!("list {id} is {other:?}")),
        }
    }

    fn entries(&self, id: ObjectId) -> Result<Vec<(bool, FileId)>, String> {
        match self.objects.get(&id) {
            Some(Object::Manifest(entries)) => Ok(entries.clone()),
            other => Err(format!("manifest {id} is {other:?}")),
        }
    }

    fn manifests(&self, draft: &Draft) -> Result<Vec<ObjectId>, String> {
        let mut all = self.list(draft.base_list)?;
        all.extend(self.list(draft.delta_list)?);
        Ok(all)
    }

    /// Live files, by [0-2]; an ADD of a live file is an error.
    fn live(&self, draft: &Draft) -> Result<BTreeSet<FileId>, String> {
        let mut live = BTreeSet::new();
        for manifest in self.manifests(draft)? {
            for (is_add, file) in self.entries(manifest)? {
                if is_add && !live.insert(file) {
                    return Err(format!("snapshot {}: {file} is added twice", draft.id));
                }
                if !is_add && !live.remove(&file) {
                    return Err(format!(
                        "snapshot {}: {file} is removed and not there",
                        draft.id
                    ));
                }
            }
        }
        Ok(live)
    }

    fn summary(&self, id: ObjectId) -> ManifestSummary {
        let entries = self.entries(id).unwrap_or_default();
        let added = entries.iter().filter(|(is_add, _)| *is_add).count() as u64;
        let deleted = entries.len() as u64 - added;
        ManifestSummary {
            id,
            size: 10 * (added + deleted),
            added,
            deleted,
        }
    }

    /// The one conditional create.
    fn create(&mut self, draft: &Draft) -> bool {
        if self.snapshots.contains_key(&draft.id.0) {
            return false;
        }
        let newest = self.snapshots.keys().next_back().copied();
        self.snapshots.insert(draft.id.0, draft.clone());
        if newest.is_some_and(|newest| draft.id.0 < newest) {
            // The store cannot know that the snapshots around it expired: it lies below the
            // retained history and no reader gets there.
            self.buried.insert(draft.id.0);
            if self.buried.contains(&(draft.id.0 - 1)) {
                self.vouched.insert(draft.token.clone());
            }
        } else {
            self.history.push(draft.clone());
        }
        true
    }

    /// True where readers saw it. Excused is what was built on a base that had expired and was created
    /// again by a late request of its own, so that it vouches for it: three accidents at once, left to
    /// a later look.
    fn was_visible(&self, id: SnapshotId, token: &Token) -> bool {
        self.history.iter().any(|d| d.token == *token)
            || self.vouched.contains(token)
            || self.buried.contains(&(id.0 - 1))
    }

    /// Only what no reader sees may go.
    fn remove_buried(&mut self, id: SnapshotId) -> Result<(), String> {
        if self.snapshots.contains_key(&id.0) && !self.buried.remove(&id.0) {
            return Err(format!("snapshot {id} is deleted, and readers see it"));
        }
        self.snapshots.remove(&id.0);
        Ok(())
    }

    fn fact(draft: &Draft) -> SnapshotFact {
        SnapshotFact {
            id: draft.id,
            token: draft.token.clone(),
            user: draft.user.clone(),
            identifier: draft.identifier,
            kind: draft.kind,
            job: draft.job.clone(),
            epoch: draft.epoch,
            digest: Some(draft.digest),
            positions: draft.positions,
            based_on: draft.based_on.clone(),
            empty: draft.empty,
        }
    }

    fn latest(&mut self) -> Fact {
        self.next_token += 1;
        self.clock += 1;
        let newest = self.snapshots.values().next_back().cloned();
        let base = newest.as_ref().map(|draft| {
            let ids = self.manifests(draft).unwrap_or_else(|e| {
                self.broken.get_or_insert(e);
                Vec::new()
            });
            let manifests = ids.into_iter().map(|id| self.summary(id)).collect();
            BaseFact {
                snapshot: Self::fact(draft),
                time_millis: draft.time_millis,
                total_records: Some(draft.total_records),
                watermark: draft.watermark,
                index: draft.index,
                statistics: None,
                next_row_id: draft.next_row_id,
                manifests,
            }
        });
        Fact::Latest(LatestFact {
            base,
            schema: SchemaId(0),
            // A clock that jumps back now and then.
            now_millis: self.clock % 7 * 100,
            token: Token::new(format!("t{}", self.next_token)),
        })
    }

    fn write(&mut self, plan: &WritePlan) -> Written {
        let delta = plan.delta.as_ref().map(|changes| {
            let added = changes.added.iter().map(|f| (true, f.file));
            let entries: Vec<_> = changes
                .deleted
                .iter()
                .map(|f| (false, f.file))
                .chain(added)
                .collect();
            let manifest = self.put(Object::Manifest(entries));
            let list = self.put(Object::List(vec![manifest]));
            DeltaObjects {
                manifests: vec![self.summary(manifest)],
                list,
                changelog: None,
            }
        });
        let (mut list, mut merged) = (Vec::new(), Vec::new());
        for piece in &plan.base.pieces {
            match piece {
                Piece::Keep(m) => list.push(m.id),
                Piece::Reuse { outputs, .. } => list.extend(outputs.iter().map(|m| m.id)),
                Piece::Merge {
                    inputs,
                    drop_deletes,
                } => {
                    let outputs = self.merge(inputs, *drop_deletes);
                    list.extend(outputs.iter().map(|m| m.id));
                    merged.push(outputs);
                }
            }
        }
        let base_list = self.put(Object::List(list));
        Written {
            delta,
            merged,
            base_list,
            index: None,
        }
    }

    fn merge(&mut self, inputs: &[ManifestSummary], drop_deletes: bool) -> Vec<ManifestSummary> {
        let mut out: Vec<(bool, FileId)> = Vec::new();
        for input in inputs {
            for (is_add, file) in self.entries(input.id).unwrap_or_default() {
                match out.iter().position(|e| *e == (true, file)) {
                    Some(at) if !is_add => {
                        out.remove(at);
                    }
                    _ => out.push((is_add, file)),
                }
            }
        }
        out.retain(|(is_add, _)| *is_add || !drop_deletes);
        if out.is_empty() {
            return Vec::new();
        }
        let id = self.put(Object::Manifest(out));
        vec![self.summary(id)]
    }

    /// What must hold whenever one looks.
    fn check(&self) -> Result<(), String> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let mut halves = BTreeSet::new();
        let (mut previous, mut dead): (Option<&Draft>, BTreeSet<FileId>) = (None, BTreeSet::new());
        for draft in &self.history {
            if !halves.insert((draft.user.clone(), draft.identifier, draft.half)) {
                return Err(format!(
                    "{}/{} {} is published twice",
                    draft.user, draft.identifier, draft.half
                ));
            }
            if let Some(parent) = previous {
                if draft.id != parent.id.next() || draft.based_on.as_ref() != Some(&parent.token) {
                    return Err(format!(
                        "snapshot {} is not built on {}",
                        draft.id, parent.id
                    ));
                }
                if draft.time_millis <= parent.time_millis || draft.watermark < parent.watermark {
                    return Err(format!(
                        "snapshot {}: time or watermark moves back",
                        draft.id
                    ));
                }
            }
            previous = Some(draft);
        }
        let mut before: Option<BTreeSet<FileId>> = None;
        for (id, draft) in &self.snapshots {
            if self.buried.contains(id) {
                continue;
            }
            let live = self.live(draft)?;
            let rows: i64 = live.iter().map(|f| self.rows[f]).sum();
            if rows != draft.total_records {
                return Err(format!(
                    "snapshot {} says {} rows and has {rows}",
                    draft.id, draft.total_records
                ));
            }
            if let Some(before) = before {
                dead.extend(before.difference(&live).copied());
            }
            if let Some(file) = live.intersection(&dead).next() {
                return Err(format!("snapshot {}: {file} is back", draft.id));
            }
            before = Some(live);
        }
        Ok(())
    }

    /// Objects that no visible snapshot refers to.
    fn leaked(&self) -> Vec<ObjectId> {
        let mut referenced = BTreeSet::new();
        for draft in &self.history {
            for list in [draft.base_list, draft.delta_list] {
                referenced.insert(list);
                referenced.extend(self.list(list).unwrap_or_default());
            }
        }
        self.objects
            .keys()
            .filter(|id| !referenced.contains(id))
            .copied()
            .collect()
    }
}

/// One process of a job.
struct Process {
    job: usize,
    epoch: u64,
    committables: Vec<Arc<Committable>>,
    at: usize,
    attempt: Option<Attempt>,
    ledger: Option<Ledger>,
    /// Why it stopped before its end.
    stopped: Option<String>,
    /// No other process of this job: its compactions are published or reported as dropped.
    strict: bool,
}

impl Process {
    fn is_over(&self) -> bool {
        self.stopped.is_some() || self.at >= self.committables.len()
    }
}

fn digest(name: &str) -> Digest {
    let mut bytes = [0; 32];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    Digest(bytes)
}

/// The committables of one run of a job: those of `saved`, then its own. Every second one compacts
/// the files of the one before.
fn committables(
    table: &mut Table,
    job: usize,
    epoch: u64,
    saved: &[Arc<Committable>],
) -> Vec<Arc<Committable>> {
    let user = CommitUser::new(format!("u{job}")).unwrap();
    let mut all: Vec<Arc<Committable>> = saved
        .iter()
        .map(|c| {
            Arc::new(Committable {
                epoch: Some(Epoch(epoch)),
                restored: true,
                ..(**c).clone()
            })
        })
        .collect();
    for n in saved.len()..3 {
        let file = |k: u64, table: &mut Table| {
            let id = FileId(job as u64 * 10_000 + epoch * 100 + n as u64 * 10 + k);
            let rows = 1 + k as i64;
            table.rows.insert(id, rows);
            FileChange {
                file: id,
                partition: PartitionId(k % 2),
                bucket: BucketId(0),
                total_buckets: -1,
                rows,
                place: None,
                lifted: false,
            }
        };
        let added = vec![file(0, table), file(1, table)];
        let mut compact = Changes::default();
        if n % 2 == 1
            && let Some(before) = all.last()
        {
            let inputs = before.append.added.clone();
            for input in &inputs {
                let mut output = file(2 + input.partition.0, table);
                output.partition = input.partition;
                output.rows = input.rows;
                table.rows.insert(output.file, input.rows);
                compact.added.push(output);
            }
            compact.deleted = inputs;
        }
        let replaces = all.last().and_then(|c| c.positions);
        all.push(Arc::new(Committable {
            user: user.clone(),
            identifier: CommitIdentifier(n as i64 + 1),
            digest: digest(&format!("{job}.{n}.{epoch}")),
            job: None,
            epoch: Some(Epoch(epoch)),
            restored: false,
            seen: Seen::Unknown,
            positions: Some(digest(&format!("p{job}.{n}.{epoch}"))),
            replaces,
            watermark: (n == 1).then_some(epoch as i64),
            append: Changes {
                added,
                ..Changes::default()
            },
            compact,
        }));
    }
    all
}

/// Runs a schedule; `Err` is a broken invariant.
pub(crate) fn run(bytes: &[u8], world: World) -> Result<(), String> {
    let mut choices = Choices::new(bytes);
    let mut table = Table::default();
    let settings = Settings {
        max_retries: 4,
        max_unknown: 3,
        history_chunk: 2,
        merge: MergeSettings {
            min_count: 2,
            target_size: 80,
            ..MergeSettings::default()
        },
        rules: world.rules,
        ..Settings::default()
    };
    let mut processes: Vec<Process> = (0..2)
        .map(|job| Process {
            job,
            epoch: 1,
            committables: committables(&mut table, job, 1, &[]),
            at: 0,
            attempt: None,
            ledger: None,
            stopped: None,
            strict: !world.crashes,
        })
        .collect();
    for turn in 0..4000 {
        if processes.iter().all(Process::is_over) && table.late.is_empty() {
            return finished(&table, &processes, world);
        }
        let choice = choices.next();
        if (choice >= 240 || choices.is_over()) && !table.late.is_empty() {
            let at = usize::from(choices.next()) % table.late.len();
            let draft = table.late.remove(at);
            table.create(&draft);
            table.check()?;
            continue;
        }
        if world.expiry && (230..240).contains(&choice) && table.snapshots.len() > 1 {
            table.snapshots.pop_first();
            continue;
        }
        // Turns go round when the schedule is over.
        let which = if choices.is_over() {
            turn
        } else {
            usize::from(choice)
        } % processes.len();
        if world.crashes && (200..220).contains(&choice) && processes.len() < 5 {
            restart(
                &mut table,
                &mut processes,
                which,
                choice.is_multiple_of(2),
                &mut choices,
            );
            continue;
        }
        turn_of(&mut table, &mut processes[which], &settings, &mut choices)?;
        table.check()?;
    }
    Err("it does not end".to_owned())
}

/// A new run of the job of `which`, from one of its checkpoints; the old one may not be dead.
fn restart(
    table: &mut Table,
    processes: &mut Vec<Process>,
    which: usize,
    dies: bool,
    choices: &mut Choices<'_>,
) {
    let job = processes[which].job;
    let epoch = 1 + processes
        .iter()
        .filter(|p| p.job == job)
        .map(|p| p.epoch)
        .max()
        .unwrap();
    // A record is complete before its committable is offered: those up to `at` at least are saved.
    let saved = (processes[which].at + 1).min(3);
    let saved = saved.max(usize::from(choices.next() % 4)).min(3);
    let saved: Vec<_> = processes[which].committables[..saved].to_vec();
    let committables = committables(table, job, epoch, &saved);
    if dies {
        processes[which].stopped = Some("died".to_owned());
        processes[which].attempt = None;
    }
    processes.push(Process {
        job,
        epoch,
        committables,
        at: 0,
        attempt: None,
        ledger: None,
        stopped: None,
        strict: false,
    });
}

fn turn_of(
    table: &mut Table,
    process: &mut Process,
    settings: &Settings,
    choices: &mut Choices<'_>,
) -> Result<(), String> {
    if process.is_over() {
        return Ok(());
    }
    let committable = process.committables[process.at].clone();
    let attempt = process.attempt.get_or_insert_with(|| {
        let user = committable.user.clone();
        let ledger = process
            .ledger
            .take()
            .unwrap_or_else(|| Ledger::new(user, None));
        Attempt::new(committable.clone(), ledger, settings.clone())
    });
    let fault = choices.next();
    let step = attempt.next();
    let shown = format!("{step:?}");
    let fact = match step {
        Step::Done(outcome) => return ended(table, process, outcome),
        Step::Publish(draft) => publish(table, &draft, fault),
        Step::Delete(garbage) => {
            for item in garbage {
                match item {
                    Garbage::Object(id) => {
                        table.objects.remove(&id);
                    }
                    Garbage::Snapshot(id) => table.remove_buried(id)?,
                    Garbage::File(_) => {}
                }
            }
            Fact::Deleted(Vec::new())
        }
        Step::Announce(draft) => {
            if !table.was_visible(draft.id, &draft.token) {
                return Err(format!(
                    "LATEST is pointed at {}, which is buried",
                    draft.id
                ));
            }
            Fact::Announced
        }
        Step::BackOff(_) => Fact::Waited,
        Step::Write(plan) if fault >= 240 => {
            let written = table.write(&plan);
            let mut left = vec![written.base_list];
            left.extend(written.merged.iter().flatten().map(|m| m.id));
            if let Some(delta) = written.delta {
                left.push(delta.list);
                left.extend(delta.manifests.iter().map(|m| m.id));
            }
            Fact::Failed {
                retryable: true,
                why: "fault".to_owned(),
                left,
            }
        }
        _ if fault >= 245 => Fact::Failed {
            retryable: true,
            why: "fault".to_owned(),
            left: Vec::new(),
        },
        Step::ReadLatest => table.latest(),
        Step::ReadAgain(id) => Fact::Again(table.snapshots.get(&id.0).map(Table::fact)),
        Step::FindRetained => {
            let id = |id: Option<&i64>| id.map(|id| SnapshotId(*id));
            let (oldest, newest) = (table.snapshots.keys().next(), table.snapshots.keys().last());
            Fact::Retained(id(oldest).zip(id(newest)))
        }
        Step::ReadHistory { from, to } => {
            let range = table.snapshots.range(from.0..=to.0);
            Fact::History(range.map(|(_, d)| Table::fact(d)).collect())
        }
        Step::ReadLive { base, partitions } => {
            // A driver reads the manifests that the base named; what lies under its number by now is
            // not asked.
            let buried = table.buried.contains(&base.0);
            let draft = table.snapshots.get(&base.0).filter(|_| !buried).cloned();
            match draft.map(|d| table.live(&d)).transpose()? {
                None => Fact::Failed {
                    retryable: true,
                    why: "the base is gone".to_owned(),
                    left: Vec::new(),
                },
                Some(live) => Fact::Live(
                    live.into_iter()
                        .map(|file| LiveFile {
                            file,
                            partition: PartitionId(file.0 % 2),
                            bucket: BucketId(0),
                            total_buckets: -1,
                            place: None,
                            vectors: false,
                        })
                        .filter(|f| partitions.contains(&f.partition))
                        .collect(),
                ),
            }
        }
        Step::ReadBuckets { .. } => Fact::Buckets(Vec::new()),
        Step::CheckFiles(_) => Fact::Absent(Vec::new()),
        Step::Write(plan) => Fact::Written(table.write(&plan)),
    };
    if std::env::var_os("TIDEGATE_TRACE").is_some() {
        println!(
            "{}/{} {shown:.300}\n      {fact:.300?}",
            process.job, process.epoch
        );
    }
    attempt.observe(fact).map_err(|e| e.to_string())
}

fn publish(table: &mut Table, draft: &Draft, fault: u8) -> Fact {
    match fault {
        // Carried out, the answer lost.
        200..=219 => {
            table.create(draft);
            Fact::Unknown
        }
        // Never carried out.
        220..=229 => Fact::Unknown,
        // Carried out some time.
        230..=249 => {
            table.late.push(draft.clone());
            Fact::Unknown
        }
        // Refused; what an earlier request did is another matter.
        250..=251 => Fact::PutRefused("denied".to_owned()),
        _ if table.create(draft) => Fact::Created,
        _ => match table.snapshots.get(&draft.id.0) {
            Some(found) if found == draft => Fact::ExistsOurs,
            Some(found) => Fact::ExistsTheirs(Table::fact(found)),
            None => Fact::Unknown,
        },
    }
}

fn ended(table: &Table, process: &mut Process, outcome: Outcome) -> Result<(), String> {
    if let Outcome::Undecided(_) = outcome
        && process.attempt.as_mut().is_some_and(Attempt::go_on)
    {
        return Ok(());
    }
    process.ledger = process.attempt.take().map(Attempt::into_ledger);
    match outcome {
        Outcome::Published(done) | Outcome::AlreadyPublished(done) => {
            let compacted = done
                .compact
                .as_ref()
                .is_some_and(|e| e.half == Half::Compact);
            let compacts = !process.committables[process.at].compact.is_empty();
            if process.strict && compacts && !compacted && done.dropped.is_empty() {
                return Err(format!("a compaction of job {} got lost", process.job));
            }
            for entry in done.append.iter().chain(&done.compact) {
                if !table.was_visible(entry.id, &entry.token) {
                    return Err(format!(
                        "{} is acknowledged and readers never saw it",
                        entry.id
                    ));
                }
            }
            process.at += 1;
        }
        Outcome::Replaced(replacement) if replacement.offer_again => {
            let ledger = process.ledger.as_mut().ok_or("no ledger")?;
            ledger.accept_replacement(&replacement);
            let lost = replacement.ours.identifier;
            let of = |c: &Arc<Committable>| c.identifier == lost;
            process.at = process
                .committables
                .iter()
                .position(of)
                .ok_or("whose is it?")?;
        }
        // Offered again, as after a pause.
        Outcome::Refused(Refusal::RetriesExhausted { .. } | Refusal::Store(_)) => {}
        other => process.stopped = Some(format!("{other:?}")),
    }
    Ok(())
}

/// At the end nothing is lost, doubled or left over.
fn finished(table: &Table, processes: &[Process], world: World) -> Result<(), String> {
    if world.expiry {
        return Ok(());
    }
    let live = match table.snapshots.values().next_back() {
        Some(draft) => table.live(draft)?,
        None => BTreeSet::new(),
    };
    let rows: i64 = live.iter().map(|f| table.rows[f]).sum();
    let all = || processes.iter().flat_map(|p| &p.committables);
    let mut expected = 0;
    for draft in table
        .history
        .iter()
        .filter(|d| d.kind == CommitKind::Append)
    {
        let published = all()
            .find(|c| c.digest == draft.digest)
            .ok_or("an unknown digest")?;
        expected += published.append.added.iter().map(|f| f.rows).sum::<i64>();
    }
    for job in 0..2 {
        let of_job = || processes.iter().filter(|p| p.job == job);
        // A run that goes back to an older record is fenced where a dead one went on: without a
        // death some run gets through.
        let died = of_job().any(|p| p.stopped.as_deref() == Some("died"));
        let done = of_job().find(|p| p.stopped.is_none());
        if done.is_none() && !died {
            let why: Vec<_> = of_job().map(|p| &p.stopped).collect();
            return Err(format!("job {job} did not end: {why:?}"));
        }
        for c in done.iter().flat_map(|p| &p.committables) {
            let there = table.history.iter().filter(|d| {
                d.user == c.user
                    && d.identifier == c.identifier
                    && d.digest == c.digest
                    && d.kind == CommitKind::Append
            });
            if there.count() != 1 {
                return Err(format!("{}/{} of job {job} is lost", c.user, c.identifier));
            }
        }
    }
    if rows != expected {
        return Err(format!("{rows} rows, {expected} expected"));
    }
    let leaked = table.leaked();
    if !world.crashes && !leaked.is_empty() {
        return Err(format!("left over: {leaked:?}"));
    }
    Ok(())
}
