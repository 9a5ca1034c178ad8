//! Lines about the rewind guard.

use super::text::{self, Res, Words};
use tidegate_model::ids::SnapshotId;
use tidegate_protocol::Rules;
use tidegate_protocol::guard::*;

/// What the lines before have said.
pub(crate) struct Scene {
    saved: SavedState,
    view: JobView,
    around: Surroundings,
}

impl Default for Scene {
    fn default() -> Self {
        Self {
            saved: SavedState::default(),
            view: JobView {
                own: Vec::new(),
                floor: SnapshotId::FIRST,
                newest: None,
                note: None,
            },
            around: Surroundings {
                snapshots: Vec::new(),
                tags: Vec::new(),
                largest_recorded: None,
            },
        }
    }
}

impl Scene {
    /// `Ok(None)` where the command is none of its own.
    pub(crate) fn line(
        &mut self,
        command: &str,
        w: &mut Words<'_>,
        rules: Rules,
    ) -> Res<Option<String>> {
        match command {
            // saved-newest 5 append 7/t7 digest=d5 positions=p5
            "saved-newest" => self.saved.newest_published = Some(text::entry(w)?),
            "saved-positions" => self.saved.positions = Some(text::digest(w.take()?)?),
            // saved 6 d6 halves=append,compact files=live seen=9
            "saved" => {
                let identifier = text::identifier(w.take()?)?;
                let digest = text::digest(w.take()?)?;
                let halves = text::list(w.key("halves").or(Some("append")), text::half)?;
                let files = match w.key("files") {
                    None => Files::Unread,
                    Some("live") => Files::Live,
                    Some("absent") => Files::Absent,
                    Some("partly") => Files::Partly,
                    Some(other) => return Err(format!("files={other}?")),
                };
                self.saved.committables.push(SavedCommittable {
                    identifier,
                    digest,
                    halves,
                    positions: w.key("positions").map(text::digest).transpose()?,
                    seen: w.key("seen").map(text::number).transpose()?.map(SnapshotId),
                    files,
                });
            }
            "own" => {
                let fact = text::snapshot(w)?;
                self.around.snapshots.push(fact.clone());
                self.view.own.push(fact);
            }
            "other" => self.around.snapshots.push(text::snapshot(w)?),
            "tag" => {
                let name = w.take()?.to_owned();
                self.around
                    .tags
                    .push((name, SnapshotId(text::number(w.take()?)?)));
            }
            "floor" => self.view.floor = SnapshotId(text::number(w.take()?)?),
            "newest" => self.view.newest = Some(SnapshotId(text::number(w.take()?)?)),
            "saw-note" => self.view.note = Some(text::entry(w)?),
            "recorded" => self.around.largest_recorded = Some(text::identifier(w.take()?)?),
            "judge" => {
                let judged = judge(&self.saved, &self.view, rules);
                let mut said = standing(&judged);
                if let Standing::AheadByPrefix(there) = &judged
                    && let Some(half) = unfinished(&self.saved, there, rules)
                {
                    said.push_str(&format!(" unfinished={half}"));
                }
                return Ok(Some(said));
            }
            "way-out" => {
                let way = match w.take()? {
                    "rollback-table" => WayOut::RollbackTable {
                        including_others: w.flag("--including-others"),
                    },
                    "continue-from-table" => WayOut::ContinueFromTable,
                    "accept-duplicates" => WayOut::AcceptDuplicates,
                    other => return Err(format!("no way out {other}")),
                };
                let found = way_out(way, &self.saved, &self.view, &self.around, rules);
                return Ok(Some(match found {
                    Ok(plan) => plan_text(&plan),
                    Err(closed) => closed_text(&closed),
                }));
            }
            _ => return Ok(None),
        }
        Ok(Some(String::new()))
    }
}

fn standing(standing: &Standing) -> String {
    match standing {
        Standing::Equal => "equal".to_owned(),
        Standing::AheadByPrefix(list) => {
            format!(
                "ahead-by-prefix {}",
                text::join(list.iter().map(text::place_of))
            )
        }
        Standing::AheadBeyond(list) => {
            format!(
                "ahead-beyond {}",
                text::join(list.iter().map(text::place_of))
            )
        }
        Standing::Behind(entry) => format!("behind {}", text::place_of(entry)),
        Standing::Diverged { found, saved } => {
            format!(
                "diverged {} saved={}",
                text::place_of(found),
                text::name(*saved)
            )
        }
        Standing::Unknown(why) => match why {
            UnknownReason::HistoryExpired { floor } => format!("unknown history-expired {floor}"),
            UnknownReason::NotFound(id) => format!("unknown not-found {id}"),
            UnknownReason::PartlyLive(id) => format!("unknown partly-live {id}"),
            UnknownReason::OutOfOrder(id) => format!("unknown out-of-order {id}"),
        },
    }
}

fn plan_text(plan: &WayOutPlan) -> String {
    let back = match &plan.roll_back_to {
        None => "none".to_owned(),
        Some(Rollback::Empty) => "empty".to_owned(),
        Some(Rollback::To(id)) => id.to_string(),
    };
    format!(
        "plan to={back} removed={} go-on-from={} expects={} above={} publish={} give-up={}",
        text::join(plan.removed.iter().map(|s| s.id)),
        text::some(plan.go_on_from.map(text::name)),
        text::some(plan.expects.map(text::name)),
        text::some(plan.above),
        text::join(&plan.publish),
        text::join(&plan.give_up),
    )
}

fn closed_text(closed: &Closed) -> String {
    match closed {
        Closed::OthersWouldGo { snapshots, tags } => format!(
            "closed others-would-go {} tags={}",
            text::join(snapshots.iter().map(|s| s.id)),
            text::join(tags.iter().map(|(name, _)| name)),
        ),
        Closed::TargetExpired => "closed target-expired".to_owned(),
        Closed::NoPositions => "closed no-positions".to_owned(),
        Closed::HistoryExpired { floor } => format!("closed history-expired {floor}"),
    }
}
