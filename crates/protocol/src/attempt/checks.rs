//! Skip, fence, refuse: what the ledger and the base say to this half.
//!
//! Owns: the order of the checks. Content and epoch \[R-5], source positions \[R-9], conflicts
//! \[C-26], \[C-30], bucket counts \[C-24], \[C-25], existence of files \[C-5]. Does not own: the
//! snapshot (`build`).

use super::Attempt;
use crate::committable::{Changes, FileChange, IndexChange, Place};
use crate::fact::LiveFile;
use crate::ids::{FileId, Half, PartitionId};
use crate::ledger::Entry;
use crate::rules::Rule;
use crate::step::{Draft, DroppedPart, Fence, Outcome, Refusal, Step};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::KeyOrder;
use tidegate_model::ids::{BucketId, CommitIdentifier, Level, SnapshotId};
use tidegate_model::snapshot::CommitKind;

/// What the pending `ReadLive` is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum LiveFor {
    /// The conflict check.
    Conflicts,
    /// The history is not complete: do the files tell?
    Unknown { from: SnapshotId, to: SnapshotId },
    /// A snapshot of ours without a digest: is it this content?
    Content(Box<Entry>),
    /// It was created, and the history around it is gone: do the files tell?
    Created(Box<Draft>),
}

type Part = (PartitionId, BucketId);

impl Attempt {
    /// The ledger reaches the base: is this half visible, fenced, or ours to publish?
    pub(super) fn decide(&mut self) {
        let (c, half) = (self.committable.clone(), self.half());
        self.changes = Arc::new(c.half(half).clone());
        self.done.dropped.clear();
        let in_doubt = self.settle_doubt();
        if let Some(newest) = &self.ledger.newest_epoch
            && c.epoch.is_some()
            && newest.epoch > c.epoch
            && self.rules().on(Rule::EpochFences)
        {
            let found = newest.clone();
            return self.fenced(Fence::Epoch { found });
        }
        if let Some(entry) = self.visible_entry(half)
            && self.rules().on(Rule::LedgerConsulted)
        {
            return self.on_found(entry);
        }
        if in_doubt {
            self.live_for = LiveFor::Conflicts;
            return self.read_live();
        }
        if let Some(ending) = self.ending.clone() {
            return self.give_up(*ending);
        }
        let newest = self.newest_of_user();
        if let Some(found) = newest {
            if found.identifier == CommitIdentifier::BATCH
                && self.rules().on(Rule::ClosedUserRefused)
            {
                return self.give_up(Outcome::Refused(Refusal::UserClosed));
            }
            let later = (found.identifier, found.half) > (c.identifier, half);
            if later && self.done_append().is_some() && half == Half::Compact {
                // A compaction that was overtaken is lost work, not lost rows.
                return self.drop_half();
            }
            if later && self.gap.is_none() && self.rules().on(Rule::OvertakenFences) {
                return self.fenced(Fence::Overtaken { found });
            }
        }
        if let Some((from, to)) = self.gap {
            self.live_for = LiveFor::Unknown { from, to };
            return self.read_live();
        }
        if self.done_append().is_none()
            && self.rules().on(Rule::PositionsCompared)
            && (c.replaces.is_some() || c.positions.is_some())
        {
            // Who names positions and replaces none is the first one of its job.
            let (expected, found) = (c.replaces, self.ledger.newest_positions(None, self.rules()));
            if found != expected && (found.is_some() || self.knows_all()) {
                return self.fenced(Fence::Positions { expected, found });
            }
        }
        self.checks();
    }

    /// Where the APPEND half of this committable is visible.
    fn done_append(&self) -> Option<Entry> {
        self.done
            .append
            .clone()
            .or_else(|| self.visible_entry(Half::Append))
    }

    /// True where this is the COMPACT half of a commit whose APPEND half was settled before it.
    fn append_is_there(&self) -> bool {
        self.half() == Half::Compact
            && !self.committable.append.is_empty()
            && !self.halves.contains(&Half::Append)
    }

    /// The visible half of this committable, by the snapshots or by the note.
    fn visible_entry(&self, half: Half) -> Option<Entry> {
        let identifier = self.committable.identifier;
        let half = if self.rules().on(Rule::HalfTracked) {
            half
        } else {
            Half::Append
        };
        let noted = self
            .note()
            .filter(|n| n.identifier == identifier && n.half >= half);
        self.ledger.find(identifier, half).or(noted).cloned()
    }

    fn newest_of_user(&self) -> Option<Entry> {
        let noted = self.note();
        self.ledger
            .entries()
            .chain(noted)
            .max_by_key(|e| (e.identifier, e.half))
            .cloned()
    }

    /// The identifier is visible already: the same content, or a fence \[R-5].
    fn on_found(&mut self, entry: Entry) {
        match entry.digest {
            Some(digest)
                if digest == self.committable.digest || !self.rules().on(Rule::DigestCompared) =>
            {
                self.skip(entry);
            }
            Some(_) => self.fenced(Fence::Content { found: entry }),
            None => {
                self.live_for = LiveFor::Content(Box::new(entry));
                self.read_live();
            }
        }
    }

    /// Published before; the positions that it replaced are compared here too \[R-9].
    fn skip(&mut self, entry: Entry) {
        let first = self.done.append.is_none();
        let before = self.ledger.newest_positions(Some(entry.id), self.rules());
        if let (Some(expected), Some(found)) = (self.committable.replaces, before)
            && first
            && expected != found
            && entry.half == Half::Append
            && self.rules().on(Rule::PositionsOnSkip)
        {
            return self.fenced(Fence::Positions {
                expected: Some(expected),
                found: Some(found),
            });
        }
        self.finish_half(Some(entry));
    }

    /// The whole COMPACT half comes too late.
    fn drop_half(&mut self) {
        let parts: BTreeSet<Part> = self.changes.parts().collect();
        self.done
            .dropped
            .extend(parts.into_iter().map(|(partition, bucket)| DroppedPart {
                partition,
                bucket,
                dead: Vec::new(),
                met: Vec::new(),
            }));
        self.finish_half(None);
    }

    /// The checks against the base, cheap ones only where they can suffice.
    pub(super) fn checks(&mut self) {
        let files_first = !self.rules().on(Rule::ConflictsFirst);
        if files_first && self.check_files() {
            return;
        }
        let kind = self.kind();
        let checked = kind != CommitKind::Append || !self.rules().on(Rule::AppendUnchecked);
        let conflicts = checked && self.rules().on(Rule::ConflictsChecked);
        // Whoever read it before it was put over has its files.
        let again = self.ledger.put_over == Some(self.committable.identifier)
            && self.rules().on(Rule::PutOverLooked);
        if !self.checked.live && (conflicts || self.committable.restored || again) {
            self.live_for = LiveFor::Conflicts;
            return self.read_live();
        }
        if !self.checked.buckets
            && !self.checked.live
            && self.settings.fixed_buckets
            && kind == CommitKind::Append
            && self.rules().on(Rule::BucketsCompared)
        {
            return self.read_buckets();
        }
        if !self.check_files() {
            self.build();
        }
    }

    /// True where the existence of files is asked for \[C-5]: all outputs, of restored committables.
    fn check_files(&mut self) -> bool {
        // What was put over may have lost parts whose outputs are deleted by now.
        let again = self.ledger.put_over == Some(self.committable.identifier)
            && self.half() == Half::Compact;
        let asked = self.committable.restored || again;
        if self.checked.files || !asked || !self.rules().on(Rule::FilesExist) {
            return false;
        }
        let c = &self.changes;
        let files = c.added.iter().chain(&c.changelog).map(|f| f.file);
        let files: Vec<FileId> = files.chain(c.index_added.iter().map(|f| f.file)).collect();
        if files.is_empty() {
            return false;
        }
        self.step = Step::CheckFiles(files);
        true
    }

    pub(super) fn on_absent(&mut self, absent: Vec<FileId>) {
        if absent.is_empty() {
            self.checked.files = true;
            self.checks();
        } else {
            self.give_up(Outcome::Refused(Refusal::FilesMissing(absent)));
        }
    }

    fn base_id(&self) -> Option<SnapshotId> {
        self.latest
            .as_ref()
            .and_then(|l| l.base.as_ref())
            .map(|b| b.snapshot.id)
    }

    pub(super) fn read_live(&mut self) {
        let most = if self.rules().on(Rule::TouchedPartitions) {
            usize::MAX
        } else {
            1
        };
        let touched: BTreeSet<PartitionId> = self.changes.parts().map(|(p, _)| p).collect();
        let partitions: Vec<PartitionId> = touched.into_iter().take(most).collect();
        match self.base_id() {
            Some(base) if !partitions.is_empty() => {
                self.step = Step::ReadLive { base, partitions };
            }
            _ => self.on_live(&[]),
        }
    }

    pub(super) fn on_live(&mut self, live: &[LiveFile]) {
        let set: BTreeSet<FileId> = live.iter().map(|f| f.file).collect();
        let added = &self.changes.added;
        let all = !added.is_empty() && added.iter().all(|f| set.contains(&f.file));
        match self.live_for.clone() {
            LiveFor::Unknown { .. } if all && self.rules().on(Rule::LiveCountsAsPublished) => {
                self.finish_half(None);
            }
            // Lost work at most, not lost rows.
            LiveFor::Unknown { .. }
                if self.append_is_there() && self.rules().on(Rule::UnknownCompactDropped) =>
            {
                self.drop_half();
            }
            LiveFor::Unknown { from, to } => {
                self.give_up(Outcome::Refused(Refusal::HistoryMissing { from, to }));
            }
            LiveFor::Created(draft) => self.on_unsure(&draft, all),
            LiveFor::Content(entry) if all => self.skip(*entry),
            LiveFor::Content(entry) => self.fenced(Fence::Content { found: *entry }),
            LiveFor::Conflicts => self.conflicts(live, &set, all),
        }
    }

    /// The conflict check against the base \[C-30].
    fn conflicts(&mut self, live: &[LiveFile], set: &BTreeSet<FileId>, all_added: bool) {
        self.checked.live = true;
        if self.doubtful.is_some() && !all_added {
            // Nobody built on it: it is garbage, and the rest is decided anew.
            self.settle_doubt();
            self.checked.live = false;
            return self.decide();
        }
        if self.half() == Half::Compact && self.rules().on(Rule::DeadPartsDropped) {
            self.drop_dead_parts(set);
            self.drop_parts_that_meet(live);
            self.drop_parts_with_other_vectors(live);
            if self.changes.is_empty() {
                if !self.must_carry_positions() {
                    return self.finish_half(None);
                }
                return self.checks();
            }
        }
        let changes = self.changes.clone();
        let there = |files: &[FileChange], wanted: bool| -> Vec<FileId> {
            let files = files.iter().map(|f| f.file);
            files.filter(|f| set.contains(f) == wanted).collect()
        };
        let dead = there(&changes.deleted, false);
        let fully_gone = dead.len() == changes.deleted.len();
        if all_added && fully_gone && self.rules().on(Rule::LiveCountsAsPublished) {
            return self.finish_half(None);
        }
        let doubled = there(&changes.added, true);
        if !doubled.is_empty() && self.rules().on(Rule::AddsMustNotBeLive) {
            return self.give_up(Outcome::Refused(Refusal::AlreadyLive(doubled)));
        }
        if !dead.is_empty() && self.rules().on(Rule::DeletesMustBeLive) {
            return self.give_up(Outcome::Refused(Refusal::NotLive(dead)));
        }
        if self.kind() != CommitKind::Overwrite && self.rules().on(Rule::BucketsCompared) {
            let counts = live.iter().map(|f| (f.partition, f.total_buckets));
            if let Some(refusal) = self.other_bucket_count(counts) {
                return self.give_up(Outcome::Refused(refusal));
            }
        }
        self.checks();
    }

    /// True where nothing but this COMPACT half can make the source positions of this commit visible. The next
    /// commit of the job replaces them \[R-5], and a checkpoint record waits for this one: so that both find it, a
    /// half of which everything was lost is published nevertheless, empty.
    fn must_carry_positions(&self) -> bool {
        let c = &self.committable;
        c.append.is_empty() && c.positions.is_some() && self.done_append().is_none()
    }

    /// Leaves out the buckets whose inputs are gone \[R-15].
    fn drop_dead_parts(&mut self, live: &BTreeSet<FileId>) {
        let mut dead: BTreeMap<Part, Vec<FileId>> = BTreeMap::new();
        for input in self
            .changes
            .deleted
            .iter()
            .filter(|f| !live.contains(&f.file))
        {
            dead.entry((input.partition, input.bucket))
                .or_default()
                .push(input.file);
        }
        if dead.is_empty() {
            return;
        }
        self.whole_rewrites(&mut dead);
        let mut changes = (*self.changes).clone();
        changes.keep_parts(|part| !dead.contains_key(&part));
        self.changes = Arc::new(changes);
        let parts = dead.into_iter();
        self.done
            .dropped
            .extend(parts.map(|((partition, bucket), dead)| DroppedPart {
                partition,
                bucket,
                dead,
                met: Vec::new(),
            }));
    }

    /// Rows that waited in the postpone bucket of a partition went to its other buckets: where somebody else
    /// distributed them first, all of the partition comes twice \[W-73].
    fn whole_rewrites(&self, dead: &mut BTreeMap<Part, Vec<FileId>>) {
        if !self.rules().on(Rule::RewritesWhole) {
            return;
        }
        let of_rewrites = dead.iter().filter(|((_, b), _)| *b == BucketId::POSTPONE);
        let taken: BTreeMap<PartitionId, Vec<FileId>> = of_rewrites
            .map(|((partition, _), inputs)| (*partition, inputs.clone()))
            .collect();
        for part in self.changes.parts() {
            if let Some(inputs) = taken.get(&part.0) {
                dead.entry(part).or_insert_with(|| inputs.clone());
            }
        }
    }

    /// Leaves out the buckets where an output would meet a file of its level that somebody else put there
    /// \[C-30]: another compaction was first.
    fn drop_parts_that_meet(&mut self, live: &[LiveFile]) {
        let Some(order) = self.settings.key_order.clone() else {
            return;
        };
        if !self.rules().on(Rule::LevelsDisjoint) {
            return;
        }
        let gone: BTreeSet<FileId> = self.changes.deleted.iter().map(|f| f.file).collect();
        let mut met: BTreeMap<Part, Vec<FileId>> = BTreeMap::new();
        for output in &self.changes.added {
            let Some(ours) = output.place.as_ref().filter(|p| p.level > Level(0)) else {
                continue;
            };
            let part = (output.partition, output.bucket);
            let stays = |f: &&LiveFile| (f.partition, f.bucket) == part && !gone.contains(&f.file);
            for other in live.iter().filter(stays) {
                let meets = other
                    .place
                    .as_ref()
                    .is_some_and(|theirs| theirs.level == ours.level && meet(&order, ours, theirs));
                if meets {
                    met.entry(part).or_default().push(other.file);
                }
            }
        }
        if met.is_empty() {
            return;
        }
        let mut changes = (*self.changes).clone();
        changes.keep_parts(|part| !met.contains_key(&part));
        self.changes = Arc::new(changes);
        let parts = met.into_iter();
        self.done
            .dropped
            .extend(parts.map(|((partition, bucket), mut met)| {
                met.sort_unstable();
                met.dedup();
                DroppedPart {
                    partition,
                    bucket,
                    dead: Vec::new(),
                    met,
                }
            }));
    }

    /// Leaves out the buckets whose deletion vectors somebody else changed after they were read \[C-32]: an
    /// index file holds all of a bucket's vectors, so replacing another one would bring deleted rows back.
    fn drop_parts_with_other_vectors(&mut self, live: &[LiveFile]) {
        if !self.rules().on(Rule::VectorsCompared) {
            return;
        }
        let mut read: BTreeMap<Part, BTreeSet<FileId>> = BTreeMap::new();
        let vectors = |files: &[IndexChange]| -> Vec<(Part, FileId)> {
            let files = files.iter().filter(|i| i.deletion_vectors);
            files.map(|i| ((i.partition, i.bucket), i.file)).collect()
        };
        let brought = vectors(&self.changes.index_added);
        for (part, _) in &brought {
            read.entry(*part).or_default();
        }
        for (part, file) in vectors(&self.changes.index_deleted) {
            let own = brought.contains(&(part, file));
            let files = read.entry(part).or_default();
            // What an earlier checkpoint of the same commit made was never visible.
            if !own {
                files.insert(file);
            }
        }
        let mut others: BTreeMap<Part, (Vec<FileId>, Vec<FileId>)> = BTreeMap::new();
        for (part, expected) in read {
            let there = live.iter().filter(|f| f.vectors);
            let there = there.filter(|f| (f.partition, f.bucket) == part);
            let there: BTreeSet<FileId> = there.map(|f| f.file).collect();
            if there != expected {
                let gone = expected.difference(&there).copied().collect();
                let met = there.difference(&expected).copied().collect();
                others.insert(part, (gone, met));
            }
        }
        if others.is_empty() {
            return;
        }
        let mut changes = (*self.changes).clone();
        changes.keep_parts(|part| !others.contains_key(&part));
        self.changes = Arc::new(changes);
        let parts = others.into_iter();
        self.done
            .dropped
            .extend(parts.map(|((partition, bucket), (dead, met))| DroppedPart {
                partition,
                bucket,
                dead,
                met,
            }));
    }

    /// What the parts that lost brought. A file that was only lifted is an input: it stays.
    pub(super) fn lost_outputs(&self) -> Vec<FileId> {
        let lost: BTreeSet<Part> = self
            .done
            .dropped
            .iter()
            .filter(|part| part.has_lost())
            .map(|part| (part.partition, part.bucket))
            .collect();
        if lost.is_empty() || !self.rules().on(Rule::LostOutputsDeleted) {
            return Vec::new();
        }
        let c = &self.committable.compact;
        let files = c.added.iter().chain(&c.changelog);
        let files = files.filter(|f| !f.lifted && lost.contains(&(f.partition, f.bucket)));
        let index = c.index_added.iter();
        let index = index.filter(|i| lost.contains(&(i.partition, i.bucket)));
        files.map(|f| f.file).chain(index.map(|i| i.file)).collect()
    }

    /// Bucket counts of the committable, one per partition where files are counted.
    pub(super) fn bucket_counts(&self) -> Vec<(PartitionId, i32)> {
        let counted = self.changes.added.iter().filter(|f| f.total_buckets > 0);
        let counts: BTreeMap<_, _> = counted.map(|f| (f.partition, f.total_buckets)).collect();
        counts.into_iter().collect()
    }

    /// Files of one partition that do not agree among themselves \[C-24].
    pub(super) fn buckets_disagree(&self) -> Option<Refusal> {
        [&self.committable.append, &self.committable.compact]
            .into_iter()
            .find_map(|changes| {
                let mut counts: BTreeMap<PartitionId, i32> = BTreeMap::new();
                changes
                    .added
                    .iter()
                    .filter(|f| f.total_buckets > 0)
                    .find_map(|f| {
                        let found = *counts.entry(f.partition).or_insert(f.total_buckets);
                        (found != f.total_buckets).then_some(Refusal::BucketCount {
                            partition: f.partition,
                            found,
                            ours: f.total_buckets,
                        })
                    })
            })
    }

    /// The first partition where the base has another bucket count \[C-25].
    fn other_bucket_count(
        &self,
        base: impl Iterator<Item = (PartitionId, i32)>,
    ) -> Option<Refusal> {
        let ours: BTreeMap<PartitionId, i32> = self.bucket_counts().into_iter().collect();
        base.filter(|(_, found)| *found > 0)
            .find_map(|(partition, found)| {
                let ours = *ours.get(&partition)?;
                (ours != found).then_some(Refusal::BucketCount {
                    partition,
                    found,
                    ours,
                })
            })
    }

    fn read_buckets(&mut self) {
        let ours = self.bucket_counts();
        let known = ours
            .iter()
            .filter_map(|(p, _)| Some((*p, *self.ledger.buckets.get(p)?)));
        if let Some(refusal) = self.other_bucket_count(known) {
            return self.give_up(Outcome::Refused(refusal));
        }
        let unknown = ours.iter().map(|(p, _)| *p);
        let partitions: Vec<PartitionId> = unknown
            .filter(|p| !self.ledger.buckets.contains_key(p))
            .collect();
        match self.base_id() {
            Some(base) if !partitions.is_empty() => {
                self.step = Step::ReadBuckets { base, partitions };
            }
            _ => self.on_buckets(&[]),
        }
    }

    pub(super) fn on_buckets(&mut self, found: &[(PartitionId, i32)]) {
        if let Some(refusal) = self.other_bucket_count(found.iter().copied()) {
            return self.give_up(Outcome::Refused(refusal));
        }
        self.ledger.verified(found);
        self.checked.buckets = true;
        self.checks();
    }

    /// The kind of snapshot that this half makes \[C-11], \[C-12].
    pub(super) fn kind(&self) -> CommitKind {
        let c = &self.changes;
        let index = || c.index_added.iter().chain(&c.index_deleted);
        let removes = !c.deleted.is_empty() || index().any(|i| i.deletion_vectors);
        match self.half() {
            Half::Compact => CommitKind::Compact,
            Half::Append if removes && self.rules().on(Rule::OverwriteKind) => {
                CommitKind::Overwrite
            }
            Half::Append => CommitKind::Append,
        }
    }
}

/// Whether two files have keys in common; keys that do not compare count as such.
fn meet(order: &KeyOrder, a: &Place, b: &Place) -> bool {
    let apart = |low: &Place, high: &Place| {
        order
            .compare(&low.max_key, &high.min_key)
            .is_ok_and(Ordering::is_lt)
    };
    !apart(a, b) && !apart(b, a)
}

impl Changes {
    /// Partition and bucket of every change.
    fn parts(&self) -> impl Iterator<Item = Part> + '_ {
        let files = self
            .added
            .iter()
            .chain(&self.deleted)
            .chain(&self.changelog);
        let index = self.index_added.iter().chain(&self.index_deleted);
        files
            .map(|f| (f.partition, f.bucket))
            .chain(index.map(|i| (i.partition, i.bucket)))
    }

    fn keep_parts(&mut self, keep: impl Fn(Part) -> bool) {
        for files in [&mut self.added, &mut self.deleted, &mut self.changelog] {
            files.retain(|f| keep((f.partition, f.bucket)));
        }
        for index in [&mut self.index_added, &mut self.index_deleted] {
            index.retain(|i| keep((i.partition, i.bucket)));
        }
    }
}
