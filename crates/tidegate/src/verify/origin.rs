//! Who left a file that nothing refers to, guessed by its name.
//!
//! A guess, for people: names can be chosen by anybody. Ours carry the run that wrote them \[R-2], so that
//! the job is told too, and whether that run may still be alive. Java Paimon (Flink, Spark), pypaimon and
//! the `paimon` crate name data files alike and cannot be told apart.

use std::collections::{HashMap, HashSet};

use tidegate_commit::run_prefix;
use tidegate_model::layout;
use tidegate_recovery::JobStatus;
use tidegate_sink::{CheckpointId, CommitUser, Epoch, JobName};

/// Who probably left a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A run of one of our jobs: its data file, manifest or list.
    Run(RunOrigin),
    /// A write of ours that never came to its end: a temporary file, or an upload in parts. With the run,
    /// where it is known.
    Unfinished(Option<RunOrigin>),
    /// Positions or finished files of a job of ours, which no snapshot and no note names any more.
    SideObject {
        /// The job.
        job: String,
        /// The run that wrote it.
        epoch: Epoch,
    },
    /// An object by which a start of ours tried out whether the store creates atomically.
    Probe,
    /// An object of `tidegate doctor`.
    Doctor,
    /// Named as Java Paimon (Flink, Spark), pypaimon and the `paimon` crate name their files.
    Paimon,
    /// Named as pypaimon alone names its manifests.
    Pypaimon,
    /// A temporary file of Java Paimon or pypaimon.
    PaimonTemporary,
    /// Left by Spark, Hive or Hadoop beside a table.
    Hadoop,
    /// An empty object that marks a directory.
    Marker,
    /// Nobody's that is known here.
    Foreign,
}

/// A run of one of our jobs, by the prefix of its files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunOrigin {
    /// The job; `None` where no registration and no snapshot knows such a commit user.
    pub job: Option<String>,
    /// Its commit user, likewise.
    pub user: Option<String>,
    /// The run.
    pub epoch: Epoch,
    /// What became of the run.
    pub state: RunState,
}

/// What is known of the run that a file is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RunState {
    /// A retained checkpoint holds the file: the next start of the job publishes it.
    Waits(CheckpointId),
    /// The newest run, without an end mark: it may be alive, and the file one of its next checkpoint.
    MayBeAlive,
    /// Registered and over: the next run of the job that has a checkpoint and a snapshot removes it.
    Over,
    /// Not registered any more: a newer run has cleaned up behind it before the file was written.
    Forgotten,
}

impl Origin {
    /// One word, the same in every output format and release.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Unfinished(_) => "unfinished",
            Self::SideObject { .. } => "side-object",
            Self::Probe => "probe",
            Self::Doctor => "doctor",
            Self::Paimon => "paimon",
            Self::Pypaimon => "pypaimon",
            Self::PaimonTemporary => "paimon-temporary",
            Self::Hadoop => "hadoop",
            Self::Marker => "directory-marker",
            Self::Foreign => "foreign",
        }
    }

    /// What it is and what may be done about it.
    pub fn explanation(&self) -> String {
        match self {
            Self::Run(run) => run.explanation(),
            Self::Unfinished(Some(run)) => {
                format!("a write that never came to its end; {}", run.explanation())
            }
            Self::Unfinished(None) => "a write of tidegate that never came to its end; its process was \
                killed, or is just writing: remove it once no writer runs"
                .to_owned(),
            Self::SideObject { job, epoch } => format!(
                "positions of job `{job}`, run {epoch}, that no retained snapshot names: of a commit under \
                 way, one that was never published, or one whose snapshot expired; the job's next run \
                 removes those of registered runs"
            ),
            Self::Probe => "the object by which a killed start of tidegate tried its store out; the next \
                start of a job removes it"
                .to_owned(),
            Self::Doctor => "left by a `tidegate doctor` that was killed, unless one is running: remove the \
                folder"
                .to_owned(),
            Self::Paimon => "named as Java Paimon (Flink, Spark), pypaimon and the paimon crate name their \
                files: of a commit under way, or left by one that failed; Paimon's remove_orphan_files \
                looks after these"
                .to_owned(),
            Self::Pypaimon => "named as pypaimon names its manifests: of a commit under way, or left by one \
                that failed or lost a race"
                .to_owned(),
            Self::PaimonTemporary => "a temporary file of Java Paimon or pypaimon: its process was killed, \
                or is just writing"
                .to_owned(),
            Self::Hadoop => "written by Spark, Hive or Hadoop beside the table, never a part of it".to_owned(),
            Self::Marker => "an empty object that marks a directory: harmless".to_owned(),
            Self::Foreign => "no name that Paimon or tidegate gives: somebody put it here".to_owned(),
        }
    }
}

impl RunOrigin {
    fn explanation(&self) -> String {
        let job = match (&self.job, &self.user) {
            (Some(job), Some(user)) => format!("job `{job}` (commit user {user})"),
            (None, Some(user)) => format!("commit user {user}"),
            _ => "a job that neither a registration nor a snapshot knows any more".to_owned(),
        };
        let then = match self.state {
            RunState::Waits(id) => {
                format!("checkpoint {id} holds it and the next start publishes it: keep it")
            }
            RunState::MayBeAlive => "the run has no end mark, so it may be alive and this of its next \
                checkpoint: keep it; if it was killed, the job's next run removes it"
                .to_owned(),
            RunState::Over => {
                "the run is over; the job's next run with a checkpoint and a snapshot removes it".to_owned()
            }
            RunState::Forgotten => "no registration of that run is left, so no later run removes it: it was \
                paused and wrote after a newer one had cleaned up behind it, or the job's registrations \
                were removed; delete it once that process is gone"
                .to_owned(),
        };
        format!("of {job}, run {}: {then}", self.epoch)
    }
}

/// What is known of jobs, runs and checkpoints beside a table.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    /// Commit users by the digits that stand in names of their files.
    users: HashMap<String, (String, Option<String>)>,
    /// Registered runs: digits, epoch; whether it is the newest one without an end mark.
    runs: HashMap<(String, Epoch), bool>,
    /// Files of committables that retained checkpoints hold, by name.
    waiting: HashMap<String, CheckpointId>,
}

/// The 8 digits in `tg<digits>e<epoch>-`.
fn digits(user: &str) -> Option<String> {
    let user = CommitUser::new(user).ok()?;
    let prefix = run_prefix(&user, Epoch(1)).0;
    prefix.get(2..10).map(str::to_owned)
}

impl Jobs {
    /// A commit user that a snapshot names.
    pub(super) fn user(&mut self, user: &str, job: Option<&str>) {
        if let Some(digits) = digits(user) {
            let known = self.users.entry(digits);
            let known = known.or_insert_with(|| (user.to_owned(), None));
            if known.1.is_none() {
                known.1 = job.map(str::to_owned);
            }
        }
    }

    /// The registered runs of a job.
    pub(super) fn registered(&mut self, status: &JobStatus) {
        let newest = status.newest().map(|run| run.registration.epoch());
        for run in &status.runs {
            let user = run.registration.commit_user();
            self.user(user, Some(run.registration.job()));
            let epoch = run.registration.epoch();
            let alive = Some(epoch) == newest && run.ended.is_none();
            if let Some(digits) = digits(user) {
                self.runs.insert((digits, epoch), alive);
            }
        }
    }

    /// A file that a retained checkpoint wants to publish.
    pub(super) fn waits(&mut self, name: &str, checkpoint: CheckpointId) {
        self.waiting.insert(name.to_owned(), checkpoint);
    }

    /// The run whose prefix stands in a name.
    fn run(&self, name: &str) -> Option<RunOrigin> {
        let (digits, epoch) = prefix_in(name)?;
        let user = self.users.get(digits);
        let state = match (
            self.waiting.get(name),
            self.runs.get(&(digits.to_owned(), epoch)),
        ) {
            (Some(checkpoint), _) => RunState::Waits(*checkpoint),
            (None, Some(true)) => RunState::MayBeAlive,
            (None, Some(false)) => RunState::Over,
            (None, None) => RunState::Forgotten,
        };
        Some(RunOrigin {
            job: user.and_then(|(_, job)| job.clone()),
            user: user.map(|(user, _)| user.clone()),
            epoch,
            state,
        })
    }

    /// Who left an unfinished write; `tag` is the writer's, where there is one.
    pub(super) fn unfinished(&self, target: &str, tag: Option<&str>) -> Origin {
        let name = target.rsplit('/').next().unwrap_or_default();
        let run = tag.and_then(|tag| self.run(tag)).or_else(|| self.run(name));
        Origin::Unfinished(run)
    }

    /// Who left a file.
    pub(super) fn origin(&self, path: &str, bytes: u64) -> Origin {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let top = path.split('/').next().unwrap_or_default();
        if top.starts_with(".tidegate-probe-") {
            return Origin::Probe;
        }
        if top.starts_with(".tidegate-doctor-") {
            return Origin::Doctor;
        }
        if let Some(job) = dir.strip_prefix(layout::JOBS_DIR)
            && let Some(epoch) = layout::side_object_epoch(name)
            && let Ok(job) = JobName::new(job.trim_start_matches('/'))
        {
            return Origin::SideObject {
                job: job.to_string(),
                epoch,
            };
        }
        if let Some(run) = self.run(name) {
            return Origin::Run(run);
        }
        if bytes == 0 && is_directory(name) {
            return Origin::Marker;
        }
        let hadoop = ["_SUCCESS", "_temporary", "_metadata", "_common_metadata"];
        let spark =
            name.starts_with("part-") || name.ends_with(".crc") || name.contains("$folder$");
        if spark || path.split('/').any(|part| hadoop.contains(&part)) {
            return Origin::Hadoop;
        }
        let temporary = name.strip_prefix('.').and_then(|n| n.strip_suffix(".tmp"));
        if temporary.is_some_and(ends_with_uuid) {
            return Origin::PaimonTemporary;
        }
        paimon(dir, name)
    }
}

/// What Paimon's own writers may have left.
fn paimon(dir: &str, name: &str) -> Origin {
    if dir == layout::MANIFEST_DIR {
        let starts = [
            layout::MANIFEST_LIST_PREFIX,
            layout::INDEX_MANIFEST_PREFIX,
            layout::MANIFEST_PREFIX,
        ];
        let rest = starts.iter().find_map(|start| name.strip_prefix(start));
        return match rest {
            Some(rest) if numbered_uuid(rest) => Origin::Paimon,
            Some(rest) if is_uuid(rest) => Origin::Pypaimon,
            Some(rest) if rest.strip_suffix("-changelog").is_some_and(is_uuid) => Origin::Pypaimon,
            _ => Origin::Foreign,
        };
    }
    let bucket = dir.rsplit('/').next().and_then(layout::bucket_of_dir);
    if bucket.is_some() {
        // `<prefix><uuid>-<n>.<ext>`, companions included: a uuid, whatever stands before it.
        let stem = super::digest::stem(name);
        let found = (0..stem.len()).any(|at| stem.get(at..).is_some_and(numbered_uuid));
        return if found {
            Origin::Paimon
        } else {
            Origin::Foreign
        };
    }
    let of = |directory: &str, prefix: &str| {
        dir == directory && name.strip_prefix(prefix).is_some_and(numbered_uuid)
    };
    match of(layout::INDEX_DIR, "index-") || of(layout::STATISTICS_DIR, "stat-") {
        true => Origin::Paimon,
        false => Origin::Foreign,
    }
}

fn is_directory(name: &str) -> bool {
    let known: HashSet<&str> = [
        layout::SCHEMA_DIR,
        layout::SNAPSHOT_DIR,
        layout::CHANGELOG_DIR,
        layout::MANIFEST_DIR,
        layout::INDEX_DIR,
        layout::STATISTICS_DIR,
        layout::TAG_DIR,
        layout::CONSUMER_DIR,
        layout::BRANCH_DIR,
    ]
    .into();
    known.contains(name) || layout::bucket_of_dir(name).is_some() || name.contains('=')
}

/// `tg<8 hex digits>e<epoch>-` somewhere in a name: its digits and epoch.
fn prefix_in(name: &str) -> Option<(&str, Epoch)> {
    name.match_indices("tg").find_map(|(at, _)| {
        let rest = name.get(at + 2..)?;
        let digits = rest.get(..8)?;
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        let epoch = rest.get(8..)?.strip_prefix('e')?;
        let (epoch, _) = epoch.split_once('-')?;
        let epoch = Epoch::parse(epoch)?;
        digits.bytes().all(hex).then_some((digits, epoch))
    })
}

/// `8-4-4-4-12` hexadecimal digits.
fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|p| p.len()).collect();
    lengths == [8, 4, 4, 4, 12] && text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

/// `<uuid>-<number>`.
fn numbered_uuid(text: &str) -> bool {
    let parts = text.rsplit_once('-');
    parts.is_some_and(|(uuid, number)| {
        is_uuid(uuid) && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    })
}

fn ends_with_uuid(text: &str) -> bool {
    let at = text.len().checked_sub(36);
    at.and_then(|at| text.get(at..)).is_some_and(is_uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "7f035613-e3e7-4b78-9675-b0bd9d6b9e4b";

    #[test]
    fn names_tell_who_left_a_file() {
        let jobs = Jobs::default();
        for (path, origin) in [
            (".tidegate-probe-0123456789abcdef0123456789abcdef", "probe"),
            (
                ".tidegate-doctor-0123456789abcdef0123456789abcdef/race/3",
                "doctor",
            ),
            ("tidegate/jobs/orders/positions-e3-00ff", "side-object"),
            ("tidegate/jobs/orders/notes", "foreign"),
            ("bucket-0/data-tg40f04ed8e12-UUID-1.parquet", "run"),
            ("dt=a/bucket-3/data-tg40f04ed8e12-UUID-1.parquet", "run"),
            ("manifest/manifest-tg40f04ed8e12-UUID-1", "run"),
            ("manifest/manifest-list-tg40f04ed8e12-UUID-1", "run"),
            ("bucket-0/data-UUID-1.parquet", "paimon"),
            ("dt=a/bucket-0/changelog-UUID-1.zst.parquet", "paimon"),
            ("bucket-0/data-UUID-1.parquet.index", "paimon"),
            (
                "bucket-postpone/data--u-someone-s-1-w-UUID-0.avro",
                "paimon",
            ),
            ("manifest/manifest-UUID-1", "paimon"),
            ("manifest/manifest-list-UUID-0", "paimon"),
            ("manifest/index-manifest-UUID-0", "paimon"),
            ("index/index-UUID-0", "paimon"),
            ("statistics/stat-UUID-0", "paimon"),
            ("manifest/manifest-UUID", "pypaimon"),
            ("manifest/manifest-UUID-changelog", "pypaimon"),
            ("manifest/index-manifest-UUID", "pypaimon"),
            ("snapshot/.snapshot-5.UUID.tmp", "paimon-temporary"),
            ("_SUCCESS", "hadoop"),
            ("_temporary/0/task/x", "hadoop"),
            ("dt=a/part-00000-UUID-c000.snappy.parquet", "hadoop"),
            ("snapshot/.snapshot-5.crc", "hadoop"),
            ("notes.txt", "foreign"),
            ("bucket-0/orders.parquet", "foreign"),
            ("snapshot/snapshot-x", "foreign"),
            ("manifest/manifest-tgXXf04ed8e12-1", "foreign"),
        ] {
            let path = path.replace("UUID", UUID);
            assert_eq!(jobs.origin(&path, 1).name(), origin, "{path}");
        }
        assert_eq!(jobs.origin("bucket-0", 0), Origin::Marker);
        assert_eq!(jobs.origin("dt=a", 0), Origin::Marker);
        assert_eq!(jobs.origin("bucket-0", 1), Origin::Foreign);
    }

    #[test]
    fn a_file_of_ours_names_its_job_and_what_became_of_the_run() {
        let user = CommitUser::new("u").unwrap();
        let name = |epoch| format!("data-{}x-1.parquet", run_prefix(&user, Epoch(epoch)));
        let mut jobs = Jobs::default();
        let run = |jobs: &Jobs, epoch| match jobs.origin(&format!("bucket-0/{}", name(epoch)), 1) {
            Origin::Run(run) => run,
            other => panic!("{other:?}"),
        };
        assert_eq!(run(&jobs, 7).user, None);
        jobs.user("u", Some("orders"));
        let found = run(&jobs, 7);
        assert_eq!(found.job.as_deref(), Some("orders"));
        assert_eq!((found.epoch, found.state), (Epoch(7), RunState::Forgotten));
        jobs.waits(&name(7), CheckpointId(3));
        assert_eq!(run(&jobs, 7).state, RunState::Waits(CheckpointId(3)));
        let prefix = run_prefix(&user, Epoch(9)).0;
        let unfinished = jobs.unfinished("bucket-0/x", Some(&prefix));
        assert!(matches!(unfinished, Origin::Unfinished(Some(run)) if run.epoch == Epoch(9)));
        assert_eq!(
            jobs.unfinished("schema/schema-0", None),
            Origin::Unfinished(None)
        );
    }
}
