//! What the table and the published note tell of a job, and how a checkpoint stands to it
//! \[R-4], \[R-7].
//!
//! Owns the reading; the judgement is the protocol's.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use tidegate_model::{CommitKind, SnapshotId, layout};
use tidegate_protocol::guard::{
    self, Files, JobView, SavedCommittable, SavedState, Standing as Judged, UnknownReason,
};
use tidegate_protocol::{EmptyCommits, Entry, Half, Seen, SnapshotFact, Token};
use tidegate_sink::{
    CommitIdentifier, Committable as Framed, Epoch, JobHistory, JobName, Mismatch, Positions,
    Published, Saved, Standing, Version,
};

use crate::committable::{self, Decoded};
use crate::committer::PaimonCommitter;
use crate::error::{CommitError, Result};
use crate::executor::Known;
use crate::meta::{Meta, Visible};
use crate::note::Note;
use crate::properties::{ActiveAt, Marks, PositionMarks, positions_hash};

/// Snapshots read at once on the way down.
const CHUNK: i64 = 32;

/// The published note of a job; `None` where none was left.
pub(crate) async fn read_note(meta: &Meta, job: &JobName) -> Result<Option<Note>> {
    let path = layout::published_path(job);
    let bytes = meta.store.get_opt(&path).await;
    let bytes = bytes.map_err(|e| CommitError::store(format!("reading {path}"), e))?;
    bytes.map(|bytes| Note::decode(&path, &bytes)).transpose()
}

/// The note as an entry of the ledger: it stands for a snapshot that may be expired.
pub(crate) fn note_entry(note: &Note) -> Entry {
    Entry {
        identifier: note.identifier,
        half: note.half,
        digest: Some(note.digest),
        epoch: Some(note.epoch),
        positions: note.positions.as_ref().map(|p| p.hash),
        id: note.snapshot,
        token: Token::new(note.token.as_str()),
        based_on: None,
        empty: false,
    }
}

async fn side_object(meta: &Meta, path: &str) -> Result<Vec<u8>> {
    let bytes = meta.store.get_opt(path).await;
    let bytes = bytes.map_err(|e| CommitError::store(format!("reading {path}"), e))?;
    let bytes = bytes.ok_or_else(|| CommitError::Missing {
        path: path.to_owned(),
        referrer: "a snapshot or the published note".to_owned(),
    })?;
    Ok(bytes.to_vec())
}

/// The positions behind their marks.
pub(crate) async fn read_positions(meta: &Meta, marks: &PositionMarks) -> Result<Positions> {
    let active = match &marks.active {
        ActiveAt::Inline(bytes) => bytes.clone(),
        ActiveAt::Object(path) => side_object(meta, path).await?,
    };
    let finished = match &marks.finished_at {
        Some(path) => side_object(meta, path).await?,
        None => Vec::new(),
    };
    let positions = Positions { active, finished };
    if positions_hash(&positions) != marks.hash {
        return Err(CommitError::corrupt(
            "positions of the job",
            format!(
                "their hash is {}, recorded is {}",
                positions_hash(&positions),
                marks.hash
            ),
        ));
    }
    Ok(positions)
}

/// This job's own snapshots, ascending, and how far down was looked.
#[derive(Debug, Default)]
pub(crate) struct Own {
    pub(crate) snapshots: Vec<(Visible, Option<Marks>)>,
    pub(crate) floor: Option<SnapshotId>,
    /// The snapshot below the floor stands and is not the one that the floor was built on.
    pub(crate) broken: bool,
    /// The newest of the snapshots looked at that does not say what it was built on.
    unchained: Option<SnapshotId>,
    /// What the note names lies below a broken chain, and was put over there \[R-14].
    note_put_over: bool,
}

impl Own {
    pub(crate) fn newest(&self) -> Option<&(Visible, Option<Marks>)> {
        self.snapshots.last()
    }

    /// The note names a snapshot that was looked for and is not there: replaced, or rolled back \[R-14].
    fn has_lost(&self, note: &Note) -> bool {
        let looked_at = self.floor.is_some_and(|floor| note.snapshot >= floor);
        let there = |v: &Visible| v.snapshot.id == note.snapshot && v.token.as_str() == note.token;
        self.note_put_over || looked_at && !self.snapshots.iter().any(|(visible, _)| there(visible))
    }
}

impl PaimonCommitter {
    /// Reads this job's snapshots from the newest one down to the first with an identifier below
    /// `bound`, or to where the history ends.
    pub(crate) async fn own_snapshots(&mut self, bound: Option<CommitIdentifier>) -> Result<Own> {
        self.executor.refresh(None, true).await?;
        let Known::Tip(tip) = &self.executor.known else {
            return Ok(Own {
                snapshots: Vec::new(),
                floor: Some(SnapshotId::FIRST),
                ..Own::default()
            });
        };
        let mut own = Own::default();
        let newest = tip.visible.snapshot.id;
        let mut high = newest;
        let mut above: Option<SnapshotFact> = None;
        let mut earliest = None;
        'down: loop {
            let low = SnapshotId(high.0.saturating_sub(CHUNK - 1).max(1));
            let found = self.executor.meta.snapshots(low, high).await?;
            let complete = i64::try_from(found.len()).ok() == Some(high.0 - low.0 + 1);
            let mut expect = high;
            for visible in found.into_iter().rev() {
                // Ids below a hole belong to no history that can be relied on.
                if visible.snapshot.id != expect {
                    break 'down;
                }
                // Nor does what the one above was not built on: it came late, where that had expired, or was
                // put over it.
                let fact = visible.fact()?;
                if above
                    .as_ref()
                    .is_some_and(|above| !guard::is_below(above, &fact))
                {
                    own.broken = true;
                    break 'down;
                }
                // A foreign one does not say. Then readers' first snapshot is the last that counts.
                if above.as_ref().is_some_and(|above| above.based_on.is_none()) {
                    let first = match earliest {
                        Some(first) => first,
                        None => self.executor.meta.earliest(newest).await?,
                    };
                    earliest = Some(first);
                    if first.is_some_and(|first| fact.id < first) {
                        break 'down;
                    }
                }
                if fact.based_on.is_none() && fact.id > SnapshotId::FIRST {
                    own.unchained = own.unchained.max(Some(fact.id));
                }
                above = Some(fact);
                expect = SnapshotId(expect.0 - 1);
                own.floor = Some(visible.snapshot.id);
                let marks = Marks::of(&visible.snapshot)?;
                let ours = visible.snapshot.commit_user == self.run.user
                    || marks.as_ref().is_some_and(|m| m.job == self.run.job);
                if !ours {
                    continue;
                }
                let identifier = visible.snapshot.commit_identifier;
                own.snapshots.push((visible, marks));
                if bound.is_some_and(|bound| identifier < bound) {
                    break 'down;
                }
            }
            if !complete || low <= SnapshotId::FIRST {
                break;
            }
            high = SnapshotId(low.0 - 1);
        }
        own.snapshots.reverse();
        if own.broken {
            own.note_put_over = self.note_was_put_over(own.floor).await?;
        }
        Ok(own)
    }

    /// The note names a snapshot below a broken chain: it has not expired where another one stands in its place
    /// and the one above was not built on it. Below a hole, another one came late.
    async fn note_was_put_over(&self, floor: Option<SnapshotId>) -> Result<bool> {
        let noted = self.noted.as_ref();
        let Some(note) =
            noted.filter(|n| floor.is_some_and(|floor| n.snapshot < floor) && !n.token.is_empty())
        else {
            return Ok(false);
        };
        let meta = &self.executor.meta;
        let there = meta.snapshot(note.snapshot).await?;
        let above = meta.snapshot(note.snapshot.next()).await?;
        let (Some(there), Some(above)) = (there, above) else {
            return Ok(false);
        };
        let parent = above.fact()?.based_on;
        let built_on_it = parent.is_some_and(|parent| parent.as_str() == note.token);
        Ok(there.token.as_str() != note.token && !built_on_it)
    }

    pub(crate) fn view(&self, own: &Own) -> Result<JobView> {
        let facts = own.snapshots.iter().map(|(visible, _)| visible.fact());
        Ok(JobView {
            own: facts.collect::<Result<_>>()?,
            floor: own.floor.unwrap_or(SnapshotId::FIRST),
            newest: match &self.executor.known {
                Known::Tip(tip) => Some(tip.visible.snapshot.id),
                Known::Empty | Known::Nothing => None,
            },
            note: self
                .noted
                .as_ref()
                .filter(|_| !own.note_put_over)
                .map(note_entry),
        })
    }

    /// What the table knows of this job without any checkpoint.
    pub(crate) async fn job_history(&mut self) -> Result<JobHistory> {
        self.noted = read_note(&self.executor.meta, &self.run.job).await?;
        // One commit further down than the newest: its halves are all seen then.
        let own = self.own_snapshots(Some(CommitIdentifier(i64::MAX))).await?;
        let note = self.noted.clone();
        let newest = own.newest();
        let note_is_newer = match (&note, newest) {
            (Some(note), Some((visible, _))) => {
                note.identifier > visible.snapshot.commit_identifier && !own.has_lost(note)
            }
            (Some(note), None) => !own.has_lost(note),
            (None, _) => false,
        };
        let epochs = own
            .snapshots
            .iter()
            .filter_map(|(_, marks)| marks.as_ref().map(|m| m.epoch));
        let newest_epoch = epochs
            .chain(note.as_ref().map(|n| n.epoch))
            .max_by_key(|Epoch(n)| *n);
        let identifiers = own
            .snapshots
            .iter()
            .map(|(v, _)| v.snapshot.commit_identifier);
        let largest_identifier = identifiers.chain(note.as_ref().map(|n| n.identifier)).max();
        let (newest, marks) = if note_is_newer {
            (
                note.as_ref().map(published_of_note),
                note.and_then(|n| n.positions),
            )
        } else {
            (
                newest.map(|(visible, marks)| published(visible, marks.as_ref())),
                newest.and_then(|(_, marks)| marks.as_ref()?.positions.clone()),
            )
        };
        let positions = match marks {
            Some(marks) => match read_positions(&self.executor.meta, &marks).await {
                // The other ways out do not need them: a loss must not close those too.
                Err(error @ CommitError::Missing { .. }) => {
                    tracing::warn!(%error, "the source positions of the newest commit are lost");
                    None
                }
                read => Some(read?),
            },
            None => None,
        };
        Ok(JobHistory {
            newest,
            positions,
            largest_identifier,
            newest_epoch,
            tip: match &self.executor.known {
                Known::Tip(tip) => Some(Version {
                    number: u64::try_from(tip.visible.snapshot.id.0).unwrap_or(0),
                    token: tip.visible.token.as_str().to_owned(),
                }),
                Known::Empty | Known::Nothing => None,
            },
        })
    }

    /// Why commits of this job may be in the table although no snapshot and no note shows one
    /// ([`tidegate_sink::Committer::hidden`]).
    pub(crate) async fn hidden_commits(
        &mut self,
        begun_on: Option<&Version>,
    ) -> Result<Option<String>> {
        let own = self.own_snapshots(None).await?;
        let floor = own.floor.unwrap_or(SnapshotId::FIRST);
        let begun = begun_on.map(|v| SnapshotId(i64::try_from(v.number).unwrap_or(i64::MAX)));
        let stands = match (begun, begun_on) {
            (Some(id), Some(version)) if id >= floor => {
                let there = self.executor.meta.snapshot(id).await?;
                there.is_some_and(|there| there.token.as_str() == version.token)
            }
            _ => false,
        };
        if floor > SnapshotId::FIRST && !stands {
            return Ok(Some(match own.broken {
                true => format!(
                    "snapshot {floor} was not built on the one that stands below it, since another committer \
                     has written over one of them"
                ),
                false => format!("snapshots below {floor} are expired"),
            }));
        }
        // One that does not say what it was built on may hold what was built on a snapshot of ours before
        // that was put over.
        let Some(unchained) = own
            .unchained
            .filter(|id| begun.is_none_or(|begun| *id > begun))
        else {
            return Ok(None);
        };
        let Known::Tip(tip) = &self.executor.known else {
            return Ok(None);
        };
        let meta = &self.executor.meta;
        // What the prefixes of all runs of the job begin with.
        let own_epoch = format!("{}-", self.run.epoch);
        let prefix = self.run.prefix.0.as_str();
        let stem = prefix.strip_suffix(own_epoch.as_str()).unwrap_or(prefix);
        for manifest in meta.manifests(&tip.visible.snapshot).await? {
            for entry in meta.entries(&manifest.file_name).await? {
                if !stem.is_empty() && entry.file.file_name.contains(stem) {
                    return Ok(Some(format!(
                        "the table holds {}, a file of this job, and no snapshot that says which commit it is of: \
                         one was put over after snapshot {unchained} or one before it was built on it",
                        entry.file.file_name
                    )));
                }
            }
        }
        Ok(None)
    }

    /// Compares a checkpoint with the table \[R-7].
    pub(crate) async fn compare(&mut self, saved: &Saved) -> Result<Standing> {
        self.noted = read_note(&self.executor.meta, &self.run.job).await?;
        let own = self.own_snapshots(bound(saved)).await?;
        let view = self.view(&own)?;
        let mut state = self.saved_state(saved, &own).await?;
        let rules = self.settings.protocol.rules;
        let mut judged = guard::judge(&state, &view, rules);
        if matches!(judged, Judged::Unknown(_)) && !saved.committables.is_empty() {
            // Neither marker nor note: the files themselves tell.
            for (committable, framed) in state.committables.iter_mut().zip(&saved.committables) {
                let decoded = committable::decode(framed)?;
                committable.files = self.look_for_files(&decoded, own.floor).await?;
            }
            judged = guard::judge(&state, &view, rules);
        }
        if matches!(judged, Judged::Equal | Judged::AheadByPrefix(_)) {
            self.know_newest_published(saved, &state, &own)?;
        }
        // A commit that lacks its COMPACT half is not done: whoever restores commits it again.
        if let Judged::AheadByPrefix(there) = &mut judged
            && let Some(unfinished) = guard::unfinished(&state, there, rules)
        {
            there.retain(|entry| entry.identifier != unfinished);
        }
        Ok(self.standing_of(judged, &own))
    }

    /// Where everything of this job that is retained lies above the newest commit that the checkpoint knows to
    /// be published, and that one is expired, the checkpoint is its note: without it no attempt could tell
    /// whether what is restored is published \[R-4].
    fn know_newest_published(
        &mut self,
        saved: &Saved,
        state: &SavedState,
        own: &Own,
    ) -> Result<()> {
        let (Some(known), Some(next)) = (&state.newest_published, saved.committables.first())
        else {
            return Ok(());
        };
        let floor = own.floor.unwrap_or(SnapshotId::FIRST);
        let noted = self.noted.as_ref().map(|note| note.identifier);
        // Without a number it is in what others built on it, and goes with that.
        let expired = known.id >= SnapshotId::FIRST && known.id.next() == floor;
        if expired && noted < Some(known.identifier) {
            let extras = committable::decode(next)?.extras;
            self.ledger.remember_note(Entry {
                positions: extras.and_then(|extras| extras.replaces),
                ..known.clone()
            });
        }
        Ok(())
    }

    pub(crate) async fn saved_state(&self, saved: &Saved, own: &Own) -> Result<SavedState> {
        let mut committables = Vec::with_capacity(saved.committables.len());
        for framed in &saved.committables {
            committables.push(self.saved_committable(framed).await?);
        }
        let newest_published = saved.newest_published.as_ref().map(|published| {
            let id = SnapshotId(i64::try_from(published.version).unwrap_or(i64::MAX));
            let kind = own
                .snapshots
                .iter()
                .find(|(visible, _)| visible.snapshot.id == id)
                .map(|(visible, _)| visible.snapshot.commit_kind);
            Entry {
                identifier: published.identifier,
                half: if kind == Some(CommitKind::Compact) {
                    Half::Compact
                } else {
                    Half::Append
                },
                digest: published.digest,
                epoch: None,
                positions: None,
                id,
                token: Token::new(published.token.as_str()),
                based_on: None,
                empty: false,
            }
        });
        Ok(SavedState {
            committables,
            newest_published,
            positions: saved.positions.as_ref().map(positions_hash),
        })
    }

    async fn saved_committable(&self, framed: &Framed) -> Result<SavedCommittable> {
        let decoded = committable::decode(framed)?;
        let append = decoded.java.messages.iter().any(|m| !m.data.is_empty());
        let compact = decoded.java.messages.iter().any(|m| !m.compact.is_empty());
        let mut halves = Vec::new();
        if append || self.settings.protocol.empty == EmptyCommits::Publish {
            halves.push(Half::Append);
        }
        if compact {
            halves.push(Half::Compact);
        }
        let seen = match decoded.extras.as_ref().map(|e| &e.seen) {
            Some(Seen::Snapshot { id, token }) => {
                let stands = self.executor.meta.snapshot(*id).await?;
                stands
                    .filter(|visible| visible.token == *token)
                    .map(|_| *id)
            }
            _ => None,
        };
        let positions = decoded.extras.as_ref().and_then(|e| e.positions.as_ref());
        Ok(SavedCommittable {
            identifier: framed.identifier,
            digest: framed.digest,
            halves,
            positions: positions.map(positions_hash),
            seen,
            files: Files::Unread,
        })
    }

    /// Whether any retained snapshot speaks of the new files of a committable, as ADD or as DELETE:
    /// both prove that it was published. What stands below the history that counts proves nothing.
    async fn look_for_files(&self, decoded: &Decoded, floor: Option<SnapshotId>) -> Result<Files> {
        let mut wanted: HashSet<String> = decoded
            .java
            .messages
            .iter()
            .flat_map(|m| m.data.new_files.iter().chain(&m.compact.compact_after))
            .map(|file| file.file_name.clone())
            .collect();
        let all = wanted.len();
        let meta = &self.executor.meta;
        let ids = meta.snapshot_ids().await?.into_iter().rev();
        let ids = ids.filter(|id| floor.is_none_or(|floor| *id >= floor));
        let mut seen = HashSet::new();
        for visible in meta.snapshots_of(ids.collect()).await? {
            for manifest in meta.manifests(&visible.snapshot).await? {
                if wanted.is_empty() {
                    return Ok(Files::Live);
                }
                if !seen.insert(manifest.file_name.clone()) {
                    continue;
                }
                for entry in meta.entries(&manifest.file_name).await? {
                    wanted.remove(&entry.file.file_name);
                }
            }
        }
        Ok(match wanted.len() {
            0 => Files::Live,
            left if left == all => Files::Absent,
            _ => Files::Partly,
        })
    }

    fn standing_of(&self, judged: Judged, own: &Own) -> Standing {
        let digest_of = |entry: &Entry| Published {
            identifier: entry.identifier,
            digest: entry.digest,
            version: u64::try_from(entry.id.0).unwrap_or(0),
            token: entry.token.as_str().to_owned(),
        };
        // One commit may show twice, as APPEND and as COMPACT: the later one speaks for both.
        let all = |entries: Vec<Entry>| {
            let mut by_identifier = BTreeMap::new();
            for entry in entries {
                let newer = by_identifier
                    .get(&entry.identifier)
                    .is_none_or(|p: &Published| {
                        i64::try_from(p.version).is_ok_and(|v| v < entry.id.0)
                    });
                if newer {
                    by_identifier.insert(entry.identifier, digest_of(&entry));
                }
            }
            by_identifier.into_values().collect::<Vec<_>>()
        };
        let floor = own.floor.unwrap_or(SnapshotId::FIRST);
        Standing::Mismatch(match judged {
            Judged::Equal => return Standing::Equal,
            Judged::AheadByPrefix(entries) => return Standing::AheadByPrefix(all(entries)),
            Judged::AheadBeyond(entries) => Mismatch::AheadBeyond {
                commits: all(entries),
            },
            Judged::Behind(entry) => Mismatch::Behind {
                missing: digest_of(&entry),
            },
            Judged::Diverged { found, saved } => Mismatch::Diverged {
                found: digest_of(&found),
                saved,
            },
            Judged::Unknown(reason) => Mismatch::Unknown {
                why: match reason {
                    UnknownReason::HistoryExpired { floor } if own.broken => format!(
                        "snapshot {floor} was not built on the one that stands below it: a snapshot was put over \
                         another one, by a committer that does not create conditionally, and commits of this job may \
                         have gone with it; compare the rows of the table with the source before accepting duplicates"
                    ),
                    UnknownReason::HistoryExpired { floor } => format!(
                        "snapshots below {floor} are expired, no published note was left, and the newest commit that the checkpoint knows is not among the rest"
                    ),
                    UnknownReason::NotFound(id) => format!(
                        "commit {id} is older than the newest visible commit of this job and is not in the table (looked down to snapshot {floor})"
                    ),
                    UnknownReason::PartlyLive(id) => {
                        format!("some files of commit {id} are in the table and some are not")
                    }
                    UnknownReason::OutOfOrder(id) => {
                        format!("the checkpoint holds commit {id} out of order")
                    }
                },
            },
        })
    }

    /// Leaves the published note \[R-4]. Does nothing where it says so already.
    pub(crate) async fn write_note(&mut self) -> Result<()> {
        if self.newest.is_none() {
            let own = self.own_snapshots(Some(CommitIdentifier(i64::MAX))).await?;
            self.newest = own
                .newest()
                .and_then(|(visible, marks)| note_of(visible, marks.as_ref()?));
        }
        let Some(note) = self.newest.clone() else {
            return Ok(());
        };
        if self.noted.as_ref() == Some(&note) {
            return Ok(());
        }
        self.put_note(note).await
    }

    pub(crate) async fn put_note(&mut self, note: Note) -> Result<()> {
        let path = layout::published_path(&self.run.job);
        let written = self
            .executor
            .meta
            .store
            .put(&path, Bytes::from(note.encode()))
            .await;
        written.map_err(|e| CommitError::store(format!("writing {path}"), e))?;
        if note.user == self.run.user {
            self.ledger.remember_note(note_entry(&note));
        }
        self.noted = Some(note);
        Ok(())
    }
}

/// The note that speaks of a snapshot of ours.
pub(crate) fn note_of(visible: &Visible, marks: &Marks) -> Option<Note> {
    Some(Note {
        user: visible.snapshot.commit_user.clone(),
        identifier: visible.snapshot.commit_identifier,
        half: Half::of(visible.snapshot.commit_kind)?,
        digest: marks.digest,
        snapshot: visible.snapshot.id,
        token: visible.token.as_str().to_owned(),
        epoch: marks.epoch,
        checkpoint: marks.checkpoint,
        positions: marks.positions.clone(),
    })
}

fn published(visible: &Visible, marks: Option<&Marks>) -> Published {
    Published {
        identifier: visible.snapshot.commit_identifier,
        digest: marks.map(|m| m.digest),
        version: u64::try_from(visible.snapshot.id.0).unwrap_or(0),
        token: visible.token.as_str().to_owned(),
    }
}

fn published_of_note(note: &Note) -> Published {
    Published {
        identifier: note.identifier,
        digest: Some(note.digest),
        version: u64::try_from(note.snapshot.0).unwrap_or(0),
        token: note.token.clone(),
    }
}

/// The smallest identifier that a checkpoint speaks of.
pub(crate) fn bound(saved: &Saved) -> Option<CommitIdentifier> {
    let committables = saved.committables.iter().map(|c| c.identifier);
    committables
        .chain(saved.newest_published.as_ref().map(|p| p.identifier))
        .min()
}
