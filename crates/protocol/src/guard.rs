//! The rewind guard: how a checkpoint and the table stand to each other \[R-7], and the ways out of
//! a mismatch \[R-8].
//!
//! Owns: the judgement. Does not own: reading snapshots or the note, or carrying a way out through.
//! It is a pure function of saved committables and this job's own snapshots, never of the newest one
//! (invariant 6).

use crate::fact::SnapshotFact;
use crate::ids::Half;
use crate::ledger::Entry;
use crate::rules::{Rule, Rules};
use tidegate_model::ids::SnapshotId;
use tidegate_model::ids::{CommitIdentifier, Digest};

/// One committable as the checkpoint saved it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SavedCommittable {
    /// Which commit.
    pub identifier: CommitIdentifier,
    /// Content.
    pub digest: Digest,
    /// Halves that publishing makes visible; empty where it makes no snapshot.
    pub halves: Vec<Half>,
    /// Hash of its positions.
    pub positions: Option<Digest>,
    /// The snapshot seen at `combine`, where it still stands under its identity: this committable
    /// can only be visible above it.
    pub seen: Option<SnapshotId>,
    /// Whether its new files are live in a retained snapshot, where that was looked at.
    pub files: Files,
}

/// Whether the new files of a committable are live in a retained snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Files {
    /// Not looked at.
    Unread,
    /// All of them.
    Live,
    /// None of them.
    Absent,
    /// Some of them.
    Partly,
}

/// What a checkpoint saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SavedState {
    /// Committables that may not be published yet, in order of their identifiers.
    pub committables: Vec<SavedCommittable>,
    /// The newest commit that was known to be published when the checkpoint was taken.
    pub newest_published: Option<Entry>,
    /// Hash of the positions of the last non-empty committable at or before the checkpoint.
    pub positions: Option<Digest>,
}

/// What the table tells of one job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobView {
    /// Its own snapshots that are retained, in any order.
    pub own: Vec<SnapshotFact>,
    /// The smallest retained snapshot id that was looked at; everything above was, and is one chain
    /// ([`is_below`]). 1 means that nothing of this job can be hidden: the whole history was looked at, or the commit user was
    /// made after everything below.
    pub floor: SnapshotId,
    /// The newest snapshot of anybody; `None` for a table without any.
    pub newest: Option<SnapshotId>,
    /// The published note \[R-4].
    pub note: Option<Entry>,
}

/// True where `found` is the snapshot that stood below `above` when that was made: its number is the one
/// before, and `above` was built on it, as far as it says. Another one under this number was put there
/// late, where the real one had expired: no reader gets to it, and neither it nor anything below it is
/// history that a [`JobView`] may rest on \[C-51a].
pub fn is_below(above: &SnapshotFact, found: &SnapshotFact) -> bool {
    let built_on = above.based_on.as_ref();
    found.id.next() == above.id && built_on.is_none_or(|parent| *parent == found.token)
}

/// How they stand to each other.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// The table shows what the checkpoint knew, nothing of the committables.
    Equal,
    /// It shows a prefix of the committables, the last perhaps with its APPEND half only.
    AheadByPrefix(Vec<Entry>),
    /// It has commits of this job that the checkpoint knows nothing of.
    AheadBeyond(Vec<Entry>),
    /// It lacks a commit that the checkpoint knows to be published.
    Behind(Entry),
    /// Same identifier, other content.
    Diverged {
        /// The commit in the table.
        found: Entry,
        /// What the checkpoint holds.
        saved: Digest,
    },
    /// It cannot be told.
    Unknown(UnknownReason),
}

/// What is missing for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UnknownReason {
    /// Snapshots below this id are expired, there is no note, and the newest commit that the
    /// checkpoint knows is not among the rest.
    HistoryExpired {
        /// The smallest retained id.
        floor: SnapshotId,
    },
    /// This committable's identifier is below the newest visible one of its user, and it is not
    /// found.
    NotFound(CommitIdentifier),
    /// Some files of this committable are live and some are not.
    PartlyLive(CommitIdentifier),
    /// The checkpoint holds committables in no strict order.
    OutOfOrder(CommitIdentifier),
}

/// Compares a checkpoint with the table \[R-7].
///
/// Goes on with *equal* and *ahead by a prefix*; everything else is for a person. The judgement
/// rests on this job's own snapshots: a table that others wrote to in between stands no worse.
pub fn judge(saved: &SavedState, view: &JobView, rules: Rules) -> Standing {
    let table = Own::new(view, rules);
    if let Some(standing) = judge_newest(saved, &table) {
        return standing;
    }
    let mut last = saved.newest_published.as_ref().map(|p| p.identifier);
    for c in &saved.committables {
        if last.is_some_and(|last| last >= c.identifier) && rules.on(Rule::GuardOrder) {
            return Standing::Unknown(UnknownReason::OutOfOrder(c.identifier));
        }
        last = Some(c.identifier);
    }
    for c in &saved.committables {
        if let Some(found) = table.find_any(c.identifier)
            && !is_content(found, c)
            && rules.on(Rule::GuardDiverged)
        {
            return Standing::Diverged {
                found: found.clone(),
                saved: c.digest,
            };
        }
    }
    let beyond = table.beyond(saved);
    if !beyond.is_empty() && rules.on(Rule::GuardBeyond) {
        return Standing::AheadBeyond(beyond);
    }
    if let Some(gone) = rolled_back(saved, view)
        && rules.on(Rule::GuardNoteGone)
    {
        return Standing::Behind(gone.clone());
    }
    judge_committables(saved, &table)
}

/// The noted commit, where it is one that the checkpoint holds as not yet known to be published, and
/// its snapshot would be above the newest one: it was visible, and somebody rolled the table back by
/// just that. Without a note this cannot be told from a crash before the commit.
fn rolled_back<'a>(saved: &SavedState, view: &'a JobView) -> Option<&'a Entry> {
    let note = view.note.as_ref()?;
    let above = note.id >= view.floor && view.newest.is_none_or(|newest| newest < note.id);
    let held =
        |c: &SavedCommittable| c.identifier == note.identifier && Some(c.digest) == note.digest;
    (above && saved.committables.iter().any(held)).then_some(note)
}

/// The newest commit that the checkpoint knows must still be there, unless it is expired.
fn judge_newest(saved: &SavedState, table: &Own<'_>) -> Option<Standing> {
    let known = saved.newest_published.as_ref()?;
    match table.find(known.identifier, known.half) {
        Some(found) if found.digest != known.digest && table.rules.on(Rule::GuardDiverged) => {
            let saved = known.digest.unwrap_or(Digest([0; 32]));
            Some(Standing::Diverged {
                found: found.clone(),
                saved,
            })
        }
        Some(_) => None,
        None if known.id >= table.floor && table.rules.on(Rule::GuardBehind) => {
            Some(Standing::Behind(known.clone()))
        }
        None => None,
    }
}

fn judge_committables(saved: &SavedState, table: &Own<'_>) -> Standing {
    let rules = table.rules;
    let complete = table.is_complete(saved.newest_published.as_ref());
    let mut published: Vec<Entry> = Vec::new();
    let mut any = false;
    let mut first_missing: Option<CommitIdentifier> = None;
    let mut waiting = 0usize;
    for c in &saved.committables {
        let halves = c.halves.iter();
        let mut found: Vec<Entry> = halves
            .filter_map(|half| table.find(c.identifier, *half))
            .cloned()
            .collect();
        // An empty one may have been forced: to take over, or by an option since unset.
        if c.halves.is_empty() && rules.on(Rule::GuardEmptyVisible) {
            found.extend(table.find_any(c.identifier).cloned());
        }
        if c.halves.is_empty() && found.is_empty() && rules.on(Rule::GuardEmptySkipped) {
            continue;
        }
        waiting = waiting.saturating_add(1);
        let whole = found.len() == c.halves.len();
        // An APPEND half alone is a usual crash; its COMPACT half may have been dropped.
        let is_there = if rules.on(Rule::GuardHalves) {
            !found.is_empty()
        } else {
            whole
        };
        let live = c.files == Files::Live && rules.on(Rule::GuardLiveFiles);
        if is_there || live {
            if let (Some(missing), true) = (first_missing, rules.on(Rule::GuardPrefix)) {
                return Standing::Unknown(UnknownReason::NotFound(missing));
            }
            any = true;
            published.append(&mut found);
            continue;
        }
        if c.files == Files::Partly && rules.on(Rule::GuardPartlyLive) {
            return Standing::Unknown(UnknownReason::PartlyLive(c.identifier));
        }
        if table
            .newest_identifier()
            .is_some_and(|newest| newest > c.identifier)
            && rules.on(Rule::GuardPrefix)
        {
            return Standing::Unknown(UnknownReason::NotFound(c.identifier));
        }
        let seen = c.seen.is_some_and(|seen| seen.next() >= table.floor);
        if !complete && !seen && rules.on(Rule::GuardUnknown) {
            return Standing::Unknown(UnknownReason::HistoryExpired { floor: table.floor });
        }
        first_missing = first_missing.or(Some(c.identifier));
    }
    if waiting == 0 && !complete && rules.on(Rule::GuardUnknown) {
        return Standing::Unknown(UnknownReason::HistoryExpired { floor: table.floor });
    }
    if any {
        Standing::AheadByPrefix(published)
    } else {
        Standing::Equal
    }
}

/// The commit of which only the APPEND half is there, where its COMPACT half can still follow: nothing of
/// the job has gone past it. `there` are the entries of [`Standing::AheadByPrefix`]. Committing it again
/// finds the one half and publishes the other, or leaves it out where it comes too late \[R-15].
pub fn unfinished(saved: &SavedState, there: &[Entry], rules: Rules) -> Option<CommitIdentifier> {
    let newest = there.iter().map(|e| e.identifier).max()?;
    let has = |half| {
        there
            .iter()
            .any(|e| e.identifier == newest && e.half == half)
    };
    let last = saved.committables.iter().find(|c| c.identifier == newest)?;
    let to_come = last.halves.contains(&Half::Compact) && !has(Half::Compact);
    (to_come && has(Half::Append) && rules.on(Rule::GuardUnfinished)).then_some(newest)
}

/// The same content, by its digest; where none is recorded, by its live files.
fn is_content(found: &Entry, saved: &SavedCommittable) -> bool {
    match found.digest {
        Some(digest) => digest == saved.digest,
        None => saved.files == Files::Live,
    }
}

/// The visible commits of the job, and its note where that adds something.
struct Own<'a> {
    entries: Vec<Entry>,
    note: Option<&'a Entry>,
    floor: SnapshotId,
    rules: Rules,
}

impl<'a> Own<'a> {
    fn new(view: &'a JobView, rules: Rules) -> Self {
        let mut entries: Vec<Entry> = view.own.iter().filter_map(Entry::of).collect();
        entries.sort_by_key(|e| e.id);
        // A note about a snapshot that would have to be retained and is not speaks of a table that
        // was rolled back since.
        let stands = |n: &&Entry| {
            n.id < view.floor || entries.iter().any(|e| e.id == n.id && e.token == n.token)
        };
        let note = view
            .note
            .as_ref()
            .filter(|_| rules.on(Rule::GuardNote))
            .filter(stands);
        Self {
            note,
            floor: view.floor,
            rules,
            entries,
        }
    }

    fn find(&self, identifier: CommitIdentifier, half: Half) -> Option<&Entry> {
        let own = self
            .entries
            .iter()
            .find(|e| e.identifier == identifier && e.half == half);
        own.or_else(|| {
            self.note
                .filter(|n| n.identifier == identifier && n.half >= half)
        })
    }

    fn find_any(&self, identifier: CommitIdentifier) -> Option<&Entry> {
        self.find(identifier, Half::Append)
            .or_else(|| self.find(identifier, Half::Compact))
    }

    fn newest_identifier(&self) -> Option<CommitIdentifier> {
        self.entries
            .iter()
            .chain(self.note)
            .map(|e| e.identifier)
            .max()
    }

    /// Commits that the checkpoint knows nothing of, oldest first.
    fn beyond(&self, saved: &SavedState) -> Vec<Entry> {
        let known = saved.newest_published.as_ref().map(|p| p.identifier);
        let is_saved = |id| saved.committables.iter().any(|c| c.identifier == id);
        // The take-over of a run may become visible after the next one has restored.
        let brings = |e: &Entry| !e.empty || !self.rules.on(Rule::GuardEmptyBeyond);
        let is_beyond = |e: &&Entry| {
            known.is_none_or(|k| e.identifier > k) && !is_saved(e.identifier) && brings(e)
        };
        let own = self.entries.iter().filter(is_beyond);
        let noted = self.note.filter(is_beyond);
        let noted = noted.filter(|n| !self.entries.iter().any(|e| e.id == n.id));
        noted.into_iter().chain(own).cloned().collect()
    }

    /// True where no commit of this job after `known` can be hidden in expired history.
    fn is_complete(&self, known: Option<&Entry>) -> bool {
        self.floor <= SnapshotId::FIRST
            || known.is_some_and(|k| k.id.next() >= self.floor)
            || self
                .note
                .is_some_and(|n| known.is_none_or(|k| n.identifier >= k.identifier))
    }

    /// True where no commit of this job can be newer than the newest one seen: what is retained is one chain,
    /// and nothing is hidden between it and the note.
    fn knows_newest(&self) -> bool {
        self.floor <= SnapshotId::FIRST
            || !self.entries.is_empty()
            || self.note.is_some_and(|note| note.id.next() >= self.floor)
    }

    /// Positions of the newest commit that satisfies `which` and carries any.
    fn positions(&self, which: impl Fn(&Entry) -> bool) -> Option<Digest> {
        let all = self.note.into_iter().chain(&self.entries);
        let carrying = all.filter(|e| e.positions.is_some() && which(e));
        carrying.max_by_key(|e| e.id).and_then(|e| e.positions)
    }
}

/// A way out of a mismatch \[R-8].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WayOut {
    /// Take the table back to what the checkpoint knew.
    RollbackTable {
        /// Also where snapshots of other users or tags go with it.
        including_others: bool,
    },
    /// Go on from the positions that the table carries.
    ContinueFromTable,
    /// Go on from the checkpoint although rows will be there twice.
    AcceptDuplicates,
}

/// What else a way out must know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Surroundings {
    /// All retained snapshots of any user, in any order.
    pub snapshots: Vec<SnapshotFact>,
    /// Tags: name and the snapshot they hold.
    pub tags: Vec<(String, SnapshotId)>,
    /// The largest identifier of this user in any checkpoint record.
    pub largest_recorded: Option<CommitIdentifier>,
}

/// What a way out does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WayOutPlan {
    /// The snapshot that becomes the newest one; `None` = the table stays as it is.
    pub roll_back_to: Option<Rollback>,
    /// Snapshots that go, newest first.
    pub removed: Vec<SnapshotFact>,
    /// Hash of the positions where sources go on.
    pub go_on_from: Option<Digest>,
    /// Hash of the positions that the first commit expects to replace \[R-9].
    pub expects: Option<Digest>,
    /// Identifiers go on above this one.
    pub above: Option<CommitIdentifier>,
    /// Saved committables that are still to be published, in order.
    pub publish: Vec<CommitIdentifier>,
    /// Saved committables that are given up.
    pub give_up: Vec<CommitIdentifier>,
}

/// Where a rollback leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Rollback {
    /// To this snapshot.
    To(SnapshotId),
    /// To a table without snapshots.
    Empty,
}

/// Why a way out is closed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Closed {
    /// A rollback would take these with it; `--including-others` allows it.
    OthersWouldGo {
        /// Snapshots of other users, newest first.
        snapshots: Vec<SnapshotFact>,
        /// Tags.
        tags: Vec<(String, SnapshotId)>,
    },
    /// The snapshot to go back to is not there any more.
    TargetExpired,
    /// The table carries no positions of this job.
    NoPositions,
    /// Where the table stands cannot be seen: the newest commit of this job may be among the snapshots
    /// below this one, which are expired.
    HistoryExpired {
        /// The smallest retained id.
        floor: SnapshotId,
    },
}

/// Plans a way out \[R-8].
///
/// Whatever the way, identifiers go on above the largest ever seen, so that no new commit can be
/// taken for an old one (B07), and the first commit states the positions that the table then has.
pub fn way_out(
    way: WayOut,
    saved: &SavedState,
    view: &JobView,
    around: &Surroundings,
    rules: Rules,
) -> Result<WayOutPlan, Closed> {
    let table = Own::new(view, rules);
    let mut plan = WayOutPlan {
        roll_back_to: None,
        removed: Vec::new(),
        go_on_from: saved.positions,
        expects: None,
        above: largest_identifier(saved, view, around).filter(|_| rules.on(Rule::IdentifiersAbove)),
        publish: Vec::new(),
        give_up: Vec::new(),
    };
    let mut stays = SnapshotId(i64::MAX);
    match way {
        WayOut::RollbackTable { including_others } => {
            let first = first_unknown(saved, &table).ok_or(Closed::TargetExpired)?;
            roll_back(&mut plan, first, view, around, including_others, rules)?;
            stays = first;
        }
        WayOut::ContinueFromTable => {
            if !table.knows_newest() && rules.on(Rule::ContinueKnowsNewest) {
                return Err(Closed::HistoryExpired { floor: table.floor });
            }
            let positions = table.positions(|_| true).ok_or(Closed::NoPositions)?;
            plan.go_on_from = Some(positions);
        }
        WayOut::AcceptDuplicates => {}
    }
    if rules.on(Rule::ExpectsTable) {
        plan.expects = table.positions(|e| e.id < stays);
    }
    for c in &saved.committables {
        let found = table.find_any(c.identifier).filter(|e| e.id < stays);
        if found.is_some_and(|e| is_content(e, c)) || c.halves.is_empty() {
            continue;
        }
        match way {
            WayOut::ContinueFromTable => plan.give_up.push(c.identifier),
            _ => plan.publish.push(c.identifier),
        }
    }
    Ok(plan)
}

/// The oldest own snapshot that the checkpoint knows nothing of, or that has other content.
fn first_unknown(saved: &SavedState, table: &Own<'_>) -> Option<SnapshotId> {
    let beyond = table.beyond(saved).into_iter().map(|e| e.id);
    let diverged = saved.committables.iter().filter_map(|c| {
        let found = table.find_any(c.identifier)?;
        (!is_content(found, c)).then_some(found.id)
    });
    beyond.chain(diverged).min()
}

fn roll_back(
    plan: &mut WayOutPlan,
    first: SnapshotId,
    view: &JobView,
    around: &Surroundings,
    including_others: bool,
    rules: Rules,
) -> Result<(), Closed> {
    let mut removed: Vec<SnapshotFact> = around
        .snapshots
        .iter()
        .filter(|s| s.id >= first)
        .cloned()
        .collect();
    removed.sort_by_key(|s| std::cmp::Reverse(s.id));
    let is_own = |s: &SnapshotFact| view.own.iter().any(|o| o.id == s.id && o.token == s.token);
    let others: Vec<SnapshotFact> = removed.iter().filter(|s| !is_own(s)).cloned().collect();
    let tags: Vec<(String, SnapshotId)> = around
        .tags
        .iter()
        .filter(|(_, id)| *id >= first)
        .cloned()
        .collect();
    let touches_others = !others.is_empty() || !tags.is_empty();
    if touches_others && !including_others && rules.on(Rule::OthersProtected) {
        return Err(Closed::OthersWouldGo {
            snapshots: others,
            tags,
        });
    }
    let target = SnapshotId(first.0.saturating_sub(1));
    plan.roll_back_to = Some(if target < SnapshotId::FIRST {
        Rollback::Empty
    } else if around.snapshots.iter().any(|s| s.id == target) {
        Rollback::To(target)
    } else {
        return Err(Closed::TargetExpired);
    });
    plan.removed = removed;
    Ok(())
}

/// The largest identifier of this user anywhere, the reserved one left out.
fn largest_identifier(
    saved: &SavedState,
    view: &JobView,
    around: &Surroundings,
) -> Option<CommitIdentifier> {
    let own = view.own.iter().map(|s| s.identifier);
    let known = view
        .note
        .iter()
        .chain(&saved.newest_published)
        .map(|e| e.identifier);
    let held = saved.committables.iter().map(|c| c.identifier);
    own.chain(known)
        .chain(held)
        .chain(around.largest_recorded)
        .filter(|id| *id < CommitIdentifier::BATCH)
        .max()
}

#[cfg(test)]
mod tests {
    use super::is_below;
    use crate::fact::SnapshotFact;
    use crate::ids::Token;
    use tidegate_model::ids::{CommitIdentifier, CommitUser, SnapshotId};
    use tidegate_model::snapshot::CommitKind;

    fn fact(id: i64, token: &str, on: Option<&str>) -> SnapshotFact {
        SnapshotFact {
            id: SnapshotId(id),
            token: Token::new(token),
            user: CommitUser::new("u").unwrap(),
            identifier: CommitIdentifier(1),
            kind: CommitKind::Append,
            job: None,
            epoch: None,
            digest: None,
            positions: None,
            based_on: on.map(Token::new),
            empty: false,
        }
    }

    #[test]
    fn what_a_snapshot_was_not_built_on_does_not_stand_below_it() {
        let above = fact(2, "b", Some("a"));
        assert!(is_below(&above, &fact(1, "a", None)));
        assert!(!is_below(&above, &fact(1, "late", None)));
        assert!(!is_below(&fact(3, "c", Some("a")), &fact(1, "a", None)));
        // A foreign one does not say.
        assert!(is_below(&fact(2, "f", None), &fact(1, "late", None)));
    }
}
