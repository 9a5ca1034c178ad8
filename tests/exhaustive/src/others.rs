//! Those outside the protocol: committers that know nothing of us, and the person at the table.
//!
//! Owns: what a foreign commit reads and puts, with and without a condition; rollbacks and lost records, and
//! who could tell of a rollback. Does not own: whether they happen ([`world`](crate::world)).

use crate::bounds::{Bounds, Variant};
use crate::invariant::{Broken, Invariant};
use crate::jobs;
use crate::shared::Shared;
use crate::table::{Author, Object, Purpose, Table, Told};
use crate::words::Story;
use crate::world::State;
use std::sync::Arc;
use tidegate_model::ids::{CommitIdentifier, Digest, Epoch, SchemaId, SnapshotId};
use tidegate_model::snapshot::CommitKind;
use tidegate_protocol::{Draft, Half, Token};

/// A foreign committer reads the newest snapshot.
pub(crate) fn read(table: &mut Shared<Table>, story: &mut Story) {
    let base = table.newest().cloned();
    story.say(|| match &base {
        Some(base) => format!("a foreign committer reads snapshot {}", base.id),
        None => "a foreign committer reads an empty table".to_owned(),
    });
    table.change(|t| t.reading.push(base));
}

/// It publishes what it builds on that: over what is there, or only where nothing is.
pub(crate) fn publish(
    table: &mut Shared<Table>,
    at: usize,
    over: bool,
    story: &mut Story,
) -> Result<(), Broken> {
    table.change(|t| {
        if at >= t.reading.len() {
            return Ok(());
        }
        let base = t.reading.remove(at);
        let id = base.as_ref().map_or(SnapshotId::FIRST, |b| b.id.next());
        let taken = t.snapshots.get(&id.0).map(|d| d.token.clone());
        if let (Some(taken), false) = (&taken, over) {
            story.say(|| format!("it finds snapshot {id} taken by {taken} and gives up"));
            return Ok(());
        }
        t.foreign += 1;
        let draft = Arc::new(build(t, base.as_deref())?);
        story.say(|| match &taken {
            Some(taken) => format!("a foreign commit is put over snapshot {id} ({taken})"),
            None => format!("a foreign commit is snapshot {id}"),
        });
        match over {
            true => t.put_over(&draft),
            false => t.create(&draft).map(|_| ()),
        }
    })
}

fn build(table: &mut Table, base: Option<&Draft>) -> Result<Draft, Broken> {
    let Some(user) = jobs::user(jobs::FOREIGN) else {
        let why = "the name of the foreign user is no name";
        return Err(Broken::new(Invariant::Turns, why));
    };
    let number = table.foreign;
    let identifier = i64::try_from(number).unwrap_or(i64::MAX);
    let by = Author {
        job: jobs::FOREIGN,
        epoch: 1,
        identifier,
        base: base.map_or(0, |b| b.id.0),
    };
    let half = Half::Append;
    let before = base.map(|b| table.manifests(b)).transpose()?;
    let list = Object::List(before.unwrap_or_default().into());
    let base_list = table.put(Purpose::BaseList, half, &by, list);
    let entries = Object::Manifest(Arc::from([(true, jobs::foreign_file(number))]));
    let manifest = table.put(Purpose::Delta, half, &by, entries);
    let list = Object::List(Arc::from([manifest]));
    let rows = identifier;
    let file = jobs::foreign_file(number);
    table.files.insert(file);
    Ok(Draft {
        id: base.map_or(SnapshotId::FIRST, |b| b.id.next()),
        token: Token::new(format!("f{number}")),
        based_on: None,
        half,
        kind: CommitKind::Append,
        user,
        identifier: CommitIdentifier(identifier),
        job: None,
        epoch: None,
        digest: Digest([0; 32]),
        positions: None,
        empty: false,
        schema: SchemaId(0),
        base_list,
        delta_list: table.put(Purpose::DeltaList, half, &by, list),
        changelog_list: None,
        index: None,
        time_millis: base.map_or(1, |b| b.time_millis + 1),
        total_records: base.map_or(0, |b| b.total_records) + rows,
        delta_records: rows,
        changelog_records: None,
        watermark: base.and_then(|b| b.watermark),
        statistics: None,
        next_row_id: None,
    })
}

/// A person takes the newest snapshots away.
pub(crate) fn roll_back(bounds: &Bounds, state: &mut State, count: usize, story: &mut Story) {
    let mut ids = state.table.snapshots.keys().rev();
    let Some(first) = ids.nth(count.saturating_sub(1)).copied() else {
        return;
    };
    story.say(|| format!("a person removes the snapshots from {first} on"));
    let removed = state.table.change(|t| t.roll_back(SnapshotId(first)));
    let mut told = Vec::new();
    for draft in &removed {
        let Some(job) = jobs::job_of(&draft.user) else {
            continue;
        };
        let of = |run| Told {
            user: draft.user.clone(),
            identifier: draft.identifier,
            half: draft.half,
            digest: draft.digest,
            run,
        };
        let note = state.jobs.get(&job).and_then(|s| s.note.as_ref());
        // Others may fill the number, and then it looks as if one of them had put over ours.
        let sole = bounds.variant == Variant::Runs && bounds.foreign == 0;
        if sole && note.is_some_and(|note| note.token == draft.token) {
            told.push(of(None));
        }
        // Unless what it was built on goes too: that shows.
        let shows = draft.id.0 > first;
        for process in state.processes.iter().filter(|p| p.job == job) {
            let knows = process
                .knows()
                .is_some_and(|l| l.entries().any(|e| e.token == draft.token));
            if knows && (sole || shows) {
                told.push(of(Some(Epoch(process.epoch))));
            }
        }
    }
    if !told.is_empty() {
        state.table.change(|t| {
            t.told.extend(told);
            t.told.sort_by(|a, b| {
                (&a.user, a.identifier, a.half, a.run).cmp(&(&b.user, b.identifier, b.half, b.run))
            });
            t.told.dedup();
        });
    }
}

/// The newest record of a job gets lost.
pub(crate) fn forget(state: &mut State, job: u64, story: &mut Story) {
    let Some(store) = state.jobs.get_mut(&job) else {
        return;
    };
    if let Some((number, _)) = store.change(|s| s.records.pop_last()) {
        story.say(|| format!("the record of checkpoint {number} of job {job} gets lost"));
    }
}
