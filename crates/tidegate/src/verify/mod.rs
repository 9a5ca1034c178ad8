//! Proof for users: is a table whole, and which commit carries what?
//!
//! Owns the checks over a whole table, read with the same readers that users have. Changes nothing.
//!
//! What [`verify`] looks at, from every snapshot, tag, long-lived changelog and branch: snapshot ids
//! without holes, each snapshot built on the one before it, lists and manifests with their recorded sizes,
//! counts and ranges, every ADD and DELETE replayed strictly (no file live twice, none added again after it
//! was deleted), record counts, index files and deletion vectors, every data file with its recorded size,
//! row count and statistics against its rows, every row against the partition and bucket of its file, of
//! keyed tables also the order of rows, first and last key, sequence numbers and counts of deletes of each
//! file, and that files of one level do not overlap in the newest snapshot; the
//! marks of jobs: identifiers that grow, positions that are there and have the recorded hash; jobs'
//! checkpoints against the table; and every file under the table that nothing of all that refers to, with
//! a guess who left it.
//!
//! Memory is bounded: of versions and manifests a few hundred bytes each are kept, of files 120 bytes each,
//! of a share of them at a time ([`Options::files_at_once`]). Findings beyond 10,000 of a kind are counted.

mod bounds;
mod data;
mod digest;
mod finding;
mod identities;
mod indexes;
mod jobs;
mod keys;
mod levels;
mod metadata;
mod origin;
mod place;
mod pointers;
mod receipts;
mod unknown;
mod versions;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use tidegate_model::snapshot::ListRef;
use tidegate_model::{LogicalType, SchemaId, TableSchema};
use tidegate_scan::{Places, TableReader, manifest_list};
use tidegate_storage::Store;

pub use finding::{Finding, Kind, Report, Severity, UnknownFile};
pub use origin::{Origin, RunOrigin, RunState};
pub use receipts::{Commit, commits};

use crate::error::Result;
use crate::table::Table;
use identities::Share;
use versions::Line;

/// How a table is looked at.
#[derive(Clone, Debug)]
pub struct Options {
    /// Options for opening the stores of checkpoints and of data files outside the table.
    pub store: BTreeMap<String, String>,
    /// Files remembered at a time. A table with more changes of files in its manifests is gone through in
    /// several rounds, each of which reads all metadata again.
    pub files_at_once: u64,
}

impl Default for Options {
    /// No store options, a million files: about 120 MiB.
    fn default() -> Self {
        Self {
            store: BTreeMap::new(),
            files_at_once: 1_000_000,
        }
    }
}

/// Looks at everything.
///
/// # Errors
/// As [`verify_with`].
pub async fn verify(table: &Table) -> Result<Report> {
    verify_with(table, Options::default()).await
}

/// Looks at everything. A table that is being written to may be looked at: what expires meanwhile is no
/// finding, and files of commits under way are notes at most.
///
/// # Errors
/// Only where looking itself fails for good (the store is gone); what is wrong with the table is in
/// the report.
pub async fn verify_with(table: &Table, options: Options) -> Result<Report> {
    let mut check = Check {
        table,
        options,
        report: Report::default(),
        origins: origin::Jobs::default(),
        commits: jobs::Commits::default(),
        manifests: HashMap::new(),
        entries: 0,
        referred: HashSet::new(),
        seen: HashSet::new(),
        strange_companions: HashSet::new(),
        last_deleted: HashMap::new(),
        schemas: HashMap::new(),
        formats: HashSet::new(),
        unread: false,
        partition_types: table.schema().partition_types(),
    };
    let lines = check.lines().await?;
    for line in &lines {
        check.metadata(line).await?;
        check.pointers(line).await?;
        check.levels(line).await?;
    }
    let places = Places::new(table.schema()).map_err(crate::Error::from);
    let places = match places {
        Ok(places) => Some(places),
        Err(e) => {
            let place = tidegate_model::layout::schema_path(table.schema().id);
            check.report.error(Kind::Unreadable, &place, e.to_string());
            None
        }
    };
    check.jobs(places.as_ref()).await?;
    let of = check.entries.div_ceil(check.options.files_at_once.max(1));
    for nth in 0..of.max(1) {
        let share = Share { nth, of: of.max(1) };
        check.seen.clear();
        if let Some(places) = &places {
            for line in &lines {
                check.replay(line, places, share).await?;
            }
            check.unknown_files(&lines, share).await?;
        }
    }
    check.unfinished().await?;
    check.expired_meanwhile().await?;
    Ok(check.report)
}

/// Whether a version is the table's own or a branch's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Table,
    Branch,
}

struct Check<'t> {
    table: &'t Table,
    options: Options,
    report: Report,
    /// What is known of jobs and runs.
    origins: origin::Jobs,
    /// Commits of our jobs in the table itself.
    commits: jobs::Commits,
    /// Manifests by name, each read once.
    manifests: HashMap<String, metadata::Summary>,
    /// ADDs and DELETEs in them.
    entries: u64,
    /// Paths of metadata, index files and objects of jobs that something refers to.
    referred: HashSet<u128>,
    /// Paths of data files of this round that are live in some version.
    seen: HashSet<u128>,
    /// Names of companions that are named otherwise than their data file.
    strange_companions: HashSet<u128>,
    /// The last row that a deletion vector deletes, by data file.
    last_deleted: HashMap<u128, u64>,
    /// By branch and number.
    schemas: HashMap<(Option<String>, SchemaId), Option<Arc<TableSchema>>>,
    /// What was told once: formats and types that are not read.
    formats: HashSet<String>,
    partition_types: Vec<LogicalType>,
    /// A list or manifest could not be read since this was cleared.
    unread: bool,
}

impl<'t> Check<'t> {
    fn store(&self) -> &'t Store {
        self.table.store()
    }

    /// Something refers to an object; true the first time.
    fn known(&mut self, path: &str) -> bool {
        self.referred.insert(digest::digest(path))
    }

    /// Whether an object is there; else that is found, `reason` says why it must be, and `version` by which
    /// version it was come upon.
    async fn there(&mut self, version: Option<&str>, reason: &str, path: &str) -> Result<bool> {
        Ok(self.size_of(version, reason, path).await?.is_some())
    }

    /// Whether an object is there and has the recorded size; a negative one is not known.
    async fn size(
        &mut self,
        version: Option<&str>,
        reason: &str,
        path: &str,
        recorded: i64,
    ) -> Result<bool> {
        let Some(size) = self.size_of(version, reason, path).await? else {
            return Ok(false);
        };
        let right = recorded < 0 || u64::try_from(recorded) == Ok(size);
        if !right {
            let what = format!("{reason} with {recorded} bytes, it has {size}");
            self.told(version, Kind::Size, path, what);
        }
        Ok(right)
    }

    async fn size_of(
        &mut self,
        version: Option<&str>,
        reason: &str,
        path: &str,
    ) -> Result<Option<u64>> {
        let found = self.store().head(path).await?;
        if found.is_none() {
            let what = format!("{reason} and it is not there");
            self.told(version, Kind::Missing, path, what);
        }
        Ok(found.map(|meta| meta.size))
    }

    fn told(&mut self, version: Option<&str>, kind: Kind, path: &str, what: String) {
        match version {
            Some(version) => self.report.through(version, kind, path, what),
            None => self.report.error(kind, path, what),
        }
    }

    /// The names in a manifest list; none, and `unread` set, where it cannot be read, which was told before.
    async fn names_in(&mut self, list: &ListRef) -> Result<Vec<String>> {
        match manifest_list(self.store(), list).await {
            Ok(files) => Ok(files.into_iter().map(|m| m.file_name).collect()),
            Err(tidegate_scan::Error::Store(e)) if !e.is_not_found() => Err(e.into()),
            Err(_) => {
                self.unread = true;
                Ok(Vec::new())
            }
        }
    }

    /// A schema of a line; `None` where it cannot be read, which is told once.
    async fn schema(&mut self, line: &Line, id: SchemaId) -> Result<Option<Arc<TableSchema>>> {
        let key = (line.branch.clone(), id);
        if let Some(known) = self.schemas.get(&key) {
            return Ok(known.clone());
        }
        let reader = TableReader::new(self.store().clone());
        let reader = match &line.branch {
            Some(branch) => reader.with_branch(branch),
            None => reader,
        };
        let path = Line::path(
            line.branch.as_deref(),
            &tidegate_model::layout::schema_path(id),
        );
        let found = match reader.schema(id).await {
            Ok(schema) => Some(Arc::new(schema)),
            Err(tidegate_scan::Error::Store(e)) => return Err(e.into()),
            Err(e @ tidegate_scan::Error::NoSchema { .. }) => {
                self.report.error(Kind::Missing, &path, e.to_string());
                None
            }
            Err(e) => {
                self.report.error(Kind::Unreadable, &path, e.to_string());
                None
            }
        };
        self.schemas.insert(key, found.clone());
        Ok(found)
    }

    /// What was found by way of a version that has expired since is no finding: its files went with it.
    async fn expired_meanwhile(&mut self) -> Result<()> {
        let mut gone = HashSet::new();
        for way in self.report.ways() {
            if self.store().head(&way).await?.is_none() {
                gone.insert(way);
            }
        }
        if gone.is_empty() {
            return Ok(());
        }
        self.report
            .retain(|finding| finding.version.as_ref().is_none_or(|v| !gone.contains(v)));
        let mut gone: Vec<String> = gone.into_iter().collect();
        gone.sort_unstable();
        for version in gone {
            let what =
                "expired while the table was looked at; what only it refers to was not looked at";
            self.report.note(Kind::Expired, &version, what);
        }
        Ok(())
    }
}
