//! The snapshot that this half becomes: plan of the objects, then the draft.
//!
//! Owns: snapshot content \[C-35]–\[C-40], \[C-45], reuse after a lost race \[C-44], \[C-49]. Does not
//! own: which manifests are worth merging ([`merge`](crate::merge)).

use super::Attempt;
use crate::committable::{Changes, FileChange};
use crate::fact::{BaseFact, LatestFact, Written};
use crate::merge::{self, Merged, Piece};
use crate::rules::Rule;
use crate::step::{Draft, IndexPlan, Outcome, Refusal, Step, WritePlan};
use std::sync::Arc;
use tidegate_model::ids::{SchemaId, SnapshotId};

/// The record counts of a snapshot \[C-40].
struct Counts {
    total: i64,
    delta: i64,
    changelog: Option<i64>,
}

impl Attempt {
    /// Plans the objects of the snapshot on the present base.
    pub(super) fn build(&mut self) {
        let Some(latest) = self.latest.clone() else {
            return self.step = Step::ReadLatest;
        };
        if latest
            .base
            .as_ref()
            .is_some_and(|b| b.snapshot.id.0 == i64::MAX)
        {
            return self.give_up(Outcome::Refused(Refusal::IdsExhausted));
        }
        if let Err(refusal) = self.counts(latest.base.as_ref()) {
            return self.give_up(Outcome::Refused(refusal));
        }
        if self
            .delta
            .as_ref()
            .is_some_and(|(of, _)| *of != self.changes)
        {
            self.discard_delta();
        }
        let manifests = latest
            .base
            .as_ref()
            .map(|b| b.manifests.clone())
            .unwrap_or_default();
        let rules = self.rules();
        let earlier: &[Merged] = if rules.on(Rule::MergeReused) {
            &self.merged
        } else {
            &[]
        };
        let base = merge::plan(&manifests, &self.settings.merge, earlier, rules);
        // Merges of a lost race that this base does not contain any more.
        for merged in std::mem::take(&mut self.merged) {
            let again =
                |p: &Piece| matches!(p, Piece::Reuse { inputs, .. } if *inputs == merged.inputs);
            if base.pieces.iter().any(again) {
                self.merged.push(merged);
            } else {
                self.junk(merged.outputs.iter().map(|m| m.id));
            }
        }
        let changes = self.changes.clone();
        let index_changes = !changes.index_added.is_empty() || !changes.index_deleted.is_empty();
        let from = latest.base.as_ref().and_then(|b| b.index);
        self.step = Step::Write(WritePlan {
            half: self.half(),
            delta: self.delta.is_none().then(|| changes.clone()),
            base,
            index: (index_changes && rules.on(Rule::IndexRewritten))
                .then_some(IndexPlan { from, changes }),
        });
    }

    pub(super) fn on_written(&mut self, plan: &WritePlan, written: Written) {
        if let (Some(changes), Some(delta)) = (&plan.delta, written.delta) {
            self.delta = Some((changes.clone(), delta));
        }
        let inputs = plan.base.pieces.iter().filter_map(|piece| match piece {
            Piece::Merge { inputs, .. } => Some(inputs.clone()),
            _ => None,
        });
        let merged = inputs.zip(written.merged);
        self.merged
            .extend(merged.map(|(inputs, outputs)| Merged { inputs, outputs }));
        self.objects = std::iter::once(written.base_list)
            .chain(written.index)
            .collect();
        match self.draft(&written.base_list, written.index) {
            Ok(draft) => self.step = Step::Publish(draft),
            Err(refusal) => self.give_up(Outcome::Refused(refusal)),
        }
    }

    fn draft(
        &self,
        base_list: &crate::ids::ObjectId,
        new_index: Option<crate::ids::ObjectId>,
    ) -> Result<Draft, Refusal> {
        let (Some(latest), Some((_, delta))) = (&self.latest, &self.delta) else {
            return Err(Refusal::Store(
                "no base and no delta to build on".to_owned(),
            ));
        };
        let (c, rules) = (&self.committable, self.rules());
        let base = latest.base.as_ref();
        let counts = self.counts(base)?;
        let carried = base
            .and_then(|b| b.index)
            .filter(|_| rules.on(Rule::IndexCarried));
        Ok(Draft {
            id: base.map_or(SnapshotId::FIRST, |b| {
                let next = b.snapshot.id.next();
                if rules.on(Rule::IdFollowsBase) {
                    next
                } else {
                    next.next()
                }
            }),
            token: latest.token.clone(),
            based_on: base
                .map(|b| b.snapshot.token.clone())
                .filter(|_| rules.on(Rule::ChainRecorded)),
            half: self.half(),
            kind: self.kind(),
            user: c.user.clone(),
            identifier: c.identifier,
            job: c.job.clone(),
            epoch: c.epoch,
            digest: c.digest,
            // An empty commit does not move the compare-and-set on the source.
            positions: match self.is_empty() {
                true => c.replaces,
                false => c.positions,
            },
            empty: self.is_empty(),
            schema: if rules.on(Rule::NewestSchema) {
                latest.schema
            } else {
                SchemaId(0)
            },
            base_list: *base_list,
            delta_list: delta.list,
            changelog_list: delta.changelog.as_ref().map(|(_, list)| *list),
            index: new_index.or(carried),
            time_millis: self.time(latest),
            total_records: counts.total,
            delta_records: counts.delta,
            changelog_records: counts.changelog,
            watermark: self.watermark(base),
            statistics: base.and_then(|b| b.statistics).and_then(|(file, schema)| {
                let fits = schema == latest.schema || !rules.on(Rule::StatisticsOfNewestSchema);
                fits.then_some(file)
            }),
            next_row_id: base
                .map_or(Some(0), |b| b.next_row_id)
                .filter(|_| rules.on(Rule::RowIdCarried)),
        })
    }

    /// Never below the parent's clock, so that time travel stays a function of time (B59).
    fn time(&self, latest: &LatestFact) -> i64 {
        match &latest.base {
            Some(base) if self.rules().on(Rule::ClockMonotone) => {
                latest.now_millis.max(base.time_millis.saturating_add(1))
            }
            _ => latest.now_millis,
        }
    }

    /// max of both, never back; the smallest i64 says that none was seen \[C-38].
    fn watermark(&self, base: Option<&BaseFact>) -> Option<i64> {
        let ours = self.committable.watermark;
        if !self.rules().on(Rule::WatermarkMonotone) {
            return ours;
        }
        let theirs = base.and_then(|b| b.watermark);
        [ours, theirs]
            .into_iter()
            .flatten()
            .filter(|w| *w != i64::MIN)
            .max()
    }

    fn counts(&self, base: Option<&BaseFact>) -> Result<Counts, Refusal> {
        let checked = self.rules().on(Rule::CountsChecked);
        let add = |a: i64, b: i64| match a.checked_add(b) {
            Some(sum) => Ok(sum),
            None if checked => Err(Refusal::CountOverflow),
            None => Ok(a.wrapping_add(b)),
        };
        let sum = |files: &[FileChange]| files.iter().try_fold(0i64, |n, f| add(n, f.rows));
        let changes: &Arc<Changes> = &self.changes;
        let added = sum(&changes.added)?;
        let deleted = if self.rules().on(Rule::DeletedRowsCount) {
            sum(&changes.deleted)?
        } else {
            0
        };
        let delta = add(added, deleted.checked_neg().ok_or(Refusal::CountOverflow)?)?;
        let before = match base {
            None => 0,
            Some(_) if !self.rules().on(Rule::TotalsAddUp) => 0,
            Some(BaseFact {
                total_records: Some(total),
                ..
            }) => *total,
            Some(base) => {
                return Err(Refusal::Store(format!(
                    "snapshot {} was written without a total record count, so that none can be \
                     continued; let a newer writer commit once",
                    base.snapshot.id
                )));
            }
        };
        let changelog = &changes.changelog;
        let changelog = (!changelog.is_empty())
            .then(|| sum(changelog))
            .transpose()?;
        Ok(Counts {
            total: add(before, delta)?,
            delta,
            changelog,
        })
    }
}

impl WritePlan {
    /// True where `written` has exactly what this plan asks for.
    pub(super) fn is_answered_by(&self, written: &Written) -> bool {
        let merges = self
            .base
            .pieces
            .iter()
            .filter(|p| matches!(p, Piece::Merge { .. }))
            .count();
        self.delta.is_some() == written.delta.is_some()
            && merges == written.merged.len()
            && self.index.is_some() == written.index.is_some()
    }
}
