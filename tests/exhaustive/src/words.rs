//! Counterexamples for a person: each step a line.
//!
//! Owns: the words. Does not own: the order ([`World::story`](crate::world::World::story)).

use crate::effects::End;
use std::fmt;
use tidegate_protocol::{Draft, Fact, Fence, Garbage, Step};

/// What happens, where somebody listens.
#[derive(Debug, Default)]
pub(crate) struct Story(Option<Vec<String>>);

impl Story {
    /// Nobody listens.
    pub(crate) fn untold() -> Self {
        Self(None)
    }

    /// Every line is kept.
    pub(crate) fn told() -> Self {
        Self(Some(Vec::new()))
    }

    /// One more line.
    pub(crate) fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.0 {
            lines.push(line());
        }
    }

    /// All lines.
    pub(crate) fn lines(self) -> Vec<String> {
        self.0.unwrap_or_default()
    }
}

/// A run of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    /// The job.
    pub(crate) job: u64,
    /// The run.
    pub(crate) epoch: u64,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {} run {}", self.job, self.epoch)
    }
}

fn draft(draft: &Draft) -> String {
    let on = draft.based_on.as_ref().map_or("nothing", |t| t.as_str());
    format!(
        "snapshot {} (commit {} {}, token {}, on {on})",
        draft.id, draft.identifier, draft.half, draft.token
    )
}

/// What a step did and how it was answered.
pub(crate) fn step(name: Name, step: &Step, end: End, fact: &Fact) -> String {
    let what = match step {
        Step::ReadLatest => "reads the newest snapshot".to_owned(),
        Step::ReadHistory { from, to } => format!("reads snapshots {from} to {to}"),
        Step::ReadLive { base, .. } => format!("reads the live files of snapshot {base}"),
        Step::ReadBuckets { base, .. } => format!("reads bucket counts of snapshot {base}"),
        Step::CheckFiles(files) => format!("looks whether {files:?} exist"),
        Step::Write(plan) => format!("writes the manifests of its {} half", plan.half),
        Step::Publish(d) => format!("publishes {}", draft(d)),
        Step::ReadAgain(id) => format!("reads snapshot {id} again"),
        Step::FindRetained => "lists the snapshots".to_owned(),
        Step::Announce(d) => format!("points LATEST at {}", d.id),
        Step::Delete(files) => format!("deletes {}", garbage(files)),
        Step::BackOff(n) => format!("waits (retry {n})"),
        Step::Done(_) => "is done".to_owned(),
    };
    let how = match (end, fact) {
        (End::LostDone, _) => "it is carried out, the answer is lost".to_owned(),
        (End::Lost, _) => "it is not carried out, the answer is lost".to_owned(),
        (End::Late, _) => "it is still on its way, no answer".to_owned(),
        (_, Fact::Latest(latest)) => {
            let stale = if end == End::Stale {
                ", a stale answer"
            } else {
                ""
            };
            match &latest.base {
                Some(base) => format!("{}{stale}", base.snapshot.id),
                None => "none".to_owned(),
            }
        }
        (_, Fact::History(found)) => format!("{} found", found.len()),
        (_, Fact::Live(live)) => {
            let files: Vec<String> = live.iter().map(|f| f.file.to_string()).collect();
            format!("{files:?}")
        }
        (_, Fact::Absent(gone)) if gone.is_empty() => "all do".to_owned(),
        (_, Fact::Absent(gone)) => format!("{gone:?} do not"),
        (_, Fact::Written(written)) => format!("base list {}", written.base_list),
        (_, Fact::Created) => "created".to_owned(),
        (_, Fact::ExistsOurs) => "it is there already".to_owned(),
        (_, Fact::ExistsTheirs(by)) => format!("taken by {} ({})", by.user, by.token),
        (_, Fact::Again(found)) => match found {
            Some(found) => format!("it is {}", found.token),
            None => "it is gone".to_owned(),
        },
        (_, Fact::Retained(Some((from, to)))) => format!("{from} to {to}"),
        (_, Fact::PutRefused(why)) => format!("refused: {why}"),
        (_, Fact::Failed { why, .. }) => format!("it fails: {why}"),
        _ => return format!("{name}: {what}"),
    };
    format!("{name}: {what}: {how}")
}

/// Why a commit is fenced.
pub(crate) fn fence(fence: &Fence) -> String {
    match fence {
        Fence::Content { found } => format!("snapshot {} has other content", found.id),
        Fence::Epoch { found } => format!("snapshot {} is by a newer run", found.id),
        Fence::Positions { .. } => "the source positions are others".to_owned(),
        Fence::Overtaken { found } => format!("commit {} is there already", found.identifier),
    }
}

/// What is deleted.
pub(crate) fn garbage(files: &[Garbage]) -> String {
    let name = |item: &Garbage| match item {
        Garbage::Object(id) => id.to_string(),
        Garbage::File(file) => file.to_string(),
        Garbage::Snapshot(id) => format!("snapshot {id}"),
    };
    files.iter().map(name).collect::<Vec<_>>().join(", ")
}
