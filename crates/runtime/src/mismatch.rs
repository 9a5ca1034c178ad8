//! What a person needs to know where a job cannot go on by itself: exit code 6.

use std::fmt;

use tidegate_sink::{CheckpointId, JobHistory, JobName, Mismatch, Resolution, ResolutionPlan};

/// Why the job cannot go on by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// There are no checkpoints, and the target has commits of this job.
    NoCheckpoints(Box<JobHistory>),
    /// There are no checkpoints, the job has run before, and what it committed may be hidden.
    HistoryHidden {
        /// What hides it.
        why: String,
    },
    /// Checkpoint and target disagree \[R-7].
    Standing(Mismatch),
    /// The target knows neither a run nor a commit of this job, and the checkpoint holds one: it was
    /// dropped, or replaced.
    Replaced {
        /// The target that the checkpoint is of.
        of: String,
    },
    /// Another job's checkpoints are of the same source and target \[R-17].
    OtherJob(Vec<JobName>),
}

/// Everything around it, for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MismatchReport {
    /// The job.
    pub job: JobName,
    /// The target.
    pub target: String,
    /// What is wrong.
    pub why: Why,
    /// The checkpoint that was looked at.
    pub checkpoint: Option<CheckpointId>,
    /// The checkpoint directory looked in.
    pub looked_in: String,
    /// The directory that the newest registration names.
    pub registered: Option<String>,
    /// The ways out, each with what it would do or why it cannot be gone \[R-8].
    pub ways: Vec<(Resolution, Result<ResolutionPlan, String>)>,
}

/// Numbers in order, rows of neighbours as `2 to 10`.
fn ranges(ids: &[i64]) -> String {
    let mut rows: Vec<(i64, i64)> = Vec::new();
    for id in ids {
        match rows.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*id) => *last = *id,
            _ => rows.push((*id, *id)),
        }
    }
    let text = |(first, last): &(i64, i64)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first} to {last}"),
    };
    rows.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// The option's value that takes a way out.
pub fn way_name(resolution: Resolution) -> &'static str {
    match resolution {
        Resolution::RollbackTable { .. } => "rollback-table",
        Resolution::ContinueFromTable => "continue-from-table",
        Resolution::AcceptDuplicates => "accept-duplicates",
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCheckpoints(history) => {
                f.write_str("there are no checkpoints, and the table has commits of this job")?;
                if let Some(newest) = &history.newest {
                    write!(
                        f,
                        " (the newest is {} in version {})",
                        newest.identifier, newest.version
                    )?;
                }
                Ok(())
            }
            Self::HistoryHidden { why } => write!(
                f,
                "there are no checkpoints, the job has run before, and whether the table has commits of it \
                 cannot be told: {why}. Put lost checkpoints back; where the job never committed, or its rows \
                 were removed, or may be there twice, begin anew with --on-mismatch accept-duplicates"
            ),
            Self::Standing(Mismatch::AheadBeyond { commits }) => {
                let ids: Vec<_> = commits.iter().map(|c| c.identifier.0).collect();
                write!(
                    f,
                    "the table has {} commits of this job that the checkpoint knows nothing of ({})",
                    ids.len(),
                    ranges(&ids)
                )
            }
            Self::Standing(Mismatch::Behind { missing }) => write!(
                f,
                "commit {} (version {}) was published when the checkpoint was taken, and the table \
                 no longer has it",
                missing.identifier, missing.version
            ),
            Self::Standing(Mismatch::Diverged { found, saved }) => write!(
                f,
                "commit {} in the table (version {}) has other content than the checkpoint's \
                 ({saved})",
                found.identifier, found.version
            ),
            Self::Standing(Mismatch::Unknown { why }) => {
                write!(
                    f,
                    "it cannot be told whether the checkpoint is published: {why}"
                )
            }
            Self::Replaced { of } => write!(
                f,
                "the checkpoint holds a commit to {of} that this table has not and cannot get: it knows \
                 neither a run nor a commit of this job. It was dropped or replaced, or is another one \
                 than the checkpoint's"
            ),
            Self::OtherJob(jobs) => {
                let names: Vec<_> = jobs.iter().map(JobName::as_str).collect();
                write!(
                    f,
                    "the checkpoint directory holds checkpoints of {} for the same table and \
                     source; starting anew would carry every row a second time",
                    names.join(", ")
                )
            }
        }
    }
}

impl fmt::Display for MismatchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "job {} and {} disagree: {}",
            self.job, self.target, self.why
        )?;
        write!(f, "looked in {}", self.looked_in)?;
        if let Some(id) = self.checkpoint {
            write!(f, ", checkpoint {id}")?;
        }
        if let Some(registered) = &self.registered {
            write!(
                f,
                "\nthe job's newest run kept its checkpoints in {registered}"
            )?;
            if *registered != self.looked_in {
                f.write_str(" - another directory: perhaps checkpoint.directory is wrong")?;
            }
        }
        if let Why::OtherJob(jobs) = &self.why {
            for job in jobs {
                write!(
                    f,
                    "\n  --adopt {job}: go on where it stands, under the new name"
                )?;
            }
            f.write_str("\n  --new-job: start anew")?;
        }
        if matches!(self.why, Why::Replaced { .. }) {
            f.write_str("\n  --new-job: start anew: every row of the source is taken again")?;
        }
        for (way, plan) in &self.ways {
            write!(f, "\n  --on-mismatch {}", way_name(*way))?;
            match plan {
                Ok(plan) if plan.steps.is_empty() => {}
                Ok(plan) => write!(f, ": {}", plan.steps.join("; "))?,
                Err(why) => write!(f, ": not possible: {why}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_told_as_a_range() {
        assert_eq!(ranges(&[1, 2, 3, 5, 7, 8, 20]), "1 to 3, 5, 7, 8, 20");
        assert_eq!(ranges(&[]), "");
        assert_eq!(
            ranges(&[i64::MAX - 1, i64::MAX]),
            format!("{}, {}", i64::MAX - 1, i64::MAX)
        );
    }
}
