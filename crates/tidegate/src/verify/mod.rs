//! Proof for users: is a table whole, and which commit carries what?
//!
//! Owns the checks over a whole table, read with the same readers that users have. Changes nothing.
//!
//! What [`verify`] looks at: snapshot ids without holes, each snapshot built on the one before it,
//! lists and manifests with their recorded sizes, every ADD and DELETE replayed strictly (no file
//! live twice, none added again after it was deleted), record counts, every data file with its
//! recorded size, row count and statistics against its rows, every row against the partition and bucket
//! of its file, and the marks of jobs: identifiers that grow, positions that are there and have the
//! recorded hash.

mod bounds;
mod place;
mod pointers;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use futures::TryStreamExt;
use tidegate_commit::{ActiveAt, Marks, positions_hash};
use tidegate_model::{
    CommitKind, EntryKind, FileIdentity, ManifestEntry, ManifestFile, Snapshot, TableSchema, layout,
};
use tidegate_scan::{At, TableReader, manifest, manifest_list};
use tidegate_sink::Positions;

use crate::error::Result;
use crate::table::Table;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Rows may be lost, doubled or wrong.
    Error,
    /// Readers get along with it.
    Warning,
}

impl Severity {
    /// `error` or `warning`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// Which file or snapshot.
    pub place: String,
    /// What is wrong.
    pub what: String,
}

/// What was looked at and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Snapshots looked at.
    pub snapshots: u64,
    /// Different manifests read.
    pub manifests: u64,
    /// Different data files read.
    pub files: u64,
    /// Rows read.
    pub rows: u64,
    /// In the order in which they were found.
    pub findings: Vec<Finding>,
}

impl Report {
    /// How many findings are errors.
    pub fn errors(&self) -> usize {
        self.findings
            .iter()
            .filter(|f| f.severity == Severity::Error)
            .count()
    }

    /// How many findings are warnings.
    pub fn warnings(&self) -> usize {
        self.findings.len() - self.errors()
    }

    fn error(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.findings.push(Finding {
            severity: Severity::Error,
            place: place.into(),
            what: what.into(),
        });
    }

    fn warn(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.findings.push(Finding {
            severity: Severity::Warning,
            place: place.into(),
            what: what.into(),
        });
    }
}

/// A commit of a job of ours, as its snapshot tells.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// What it says of itself.
    pub marks: Marks,
    /// Where the sources stood; `None` where the engine keeps that for itself.
    pub positions: Option<Positions>,
    /// Data files that it added.
    pub files: Vec<String>,
}

/// All commits of our jobs that are still there, oldest first.
///
/// # Errors
/// Faults of the store, unreadable metadata.
pub async fn commits(table: &Table) -> Result<Vec<Commit>> {
    let mut commits = Vec::new();
    for snapshot in table.snapshots().await? {
        let Some(marks) = Marks::of(&snapshot)? else {
            continue;
        };
        let positions = match &marks.positions {
            None => None,
            Some(p) => {
                let active = match &p.active {
                    ActiveAt::Inline(bytes) => bytes.clone(),
                    ActiveAt::Object(name) => table.store().get(name).await?.to_vec(),
                };
                let finished = match &p.finished_at {
                    Some(name) => table.store().get(name).await?.to_vec(),
                    None => Vec::new(),
                };
                Some(Positions { active, finished })
            }
        };
        let mut files = Vec::new();
        for meta in manifest_list(table.store(), &snapshot.delta_manifest_list).await? {
            let added = manifest(table.store(), &meta).await?;
            files.extend(
                added
                    .into_iter()
                    .filter(|e| e.kind == EntryKind::Add)
                    .map(|e| e.file.file_name),
            );
        }
        commits.push(Commit {
            snapshot,
            marks,
            positions,
            files,
        });
    }
    Ok(commits)
}

/// Looks at everything.
///
/// # Errors
/// Only where looking itself fails for good (the store is gone); what is wrong with the table is in
/// the report.
pub async fn verify(table: &Table) -> Result<Report> {
    let mut check = Check {
        reader: TableReader::new(table.store().clone()),
        table,
        report: Report::default(),
        entries: HashMap::new(),
        live: HashMap::new(),
        gone: HashSet::new(),
        files: BTreeMap::new(),
    };
    let snapshots = match table.snapshots().await {
        Ok(snapshots) => snapshots,
        // An unreadable snapshot is a finding; without it nothing can be said of the others.
        Err(e) if e.kind() == tidegate_sink::ErrorKind::Corrupt => {
            check.report.error(layout::SNAPSHOT_DIR, e.to_string());
            return Ok(check.report);
        }
        Err(e) => return Err(e),
    };
    check.report.snapshots = snapshots.len() as u64;
    let mut before: Option<&Snapshot> = None;
    let mut lists = Vec::new();
    for snapshot in &snapshots {
        lists = check.snapshot(before, snapshot, lists).await?;
        before = Some(snapshot);
    }
    if let Some(newest) = snapshots.last() {
        check.whole_fold(newest).await?;
    }
    check.pointers(&snapshots).await?;
    check.jobs(&snapshots).await?;
    check.data_files(&snapshots).await?;
    Ok(check.report)
}

struct Check<'t> {
    reader: TableReader,
    table: &'t Table,
    report: Report,
    /// Manifests by name, read once.
    entries: HashMap<String, Vec<ManifestEntry>>,
    live: HashMap<FileIdentity, i64>,
    /// Identities that were deleted.
    gone: HashSet<FileIdentity>,
    /// Every data file that a retained snapshot refers to: path, size, and one snapshot that holds it.
    files: BTreeMap<String, i64>,
}

impl Check<'_> {
    async fn list(
        &mut self,
        place: &str,
        list: &tidegate_model::snapshot::ListRef,
    ) -> Result<Vec<ManifestFile>> {
        let path = layout::manifest_path(&list.name);
        match self.table.store().head(&path).await? {
            None => {
                self.report
                    .error(&path, format!("{place} refers to it and it is not there"));
                return Ok(Vec::new());
            }
            Some(meta) => {
                if let Some(size) = list.size
                    && u64::try_from(size).ok() != Some(meta.size)
                {
                    self.report.error(
                        &path,
                        format!("{place} records {size} bytes, it has {}", meta.size),
                    );
                }
            }
        }
        match manifest_list(self.table.store(), list).await {
            Ok(metas) => Ok(metas),
            Err(e) => {
                self.report.error(&path, e.to_string());
                Ok(Vec::new())
            }
        }
    }

    async fn manifest(&mut self, place: &str, meta: &ManifestFile) -> Result<Vec<ManifestEntry>> {
        if let Some(known) = self.entries.get(&meta.file_name) {
            return Ok(known.clone());
        }
        let path = layout::manifest_path(&meta.file_name);
        let found = self.table.store().head(&path).await?;
        match &found {
            None => self
                .report
                .error(&path, format!("{place} refers to it and it is not there")),
            Some(f) if u64::try_from(meta.file_size).ok() != Some(f.size) => {
                self.report.error(
                    &path,
                    format!(
                        "its list records {} bytes, it has {}",
                        meta.file_size, f.size
                    ),
                );
            }
            Some(_) => {}
        }
        let mut entries = Vec::new();
        if found.is_some() {
            match manifest(self.table.store(), meta).await {
                Ok(read) => entries = read,
                Err(e) => self.report.error(&path, e.to_string()),
            }
            self.report.manifests += 1;
            let adds = entries.iter().filter(|e| e.kind == EntryKind::Add).count() as i64;
            let deletes = entries.len() as i64 - adds;
            if (adds, deletes) != (meta.num_added_files, meta.num_deleted_files) {
                self.report.error(&path, format!(
                    "its list records {} added and {} deleted files, it has {adds} and {deletes}",
                    meta.num_added_files, meta.num_deleted_files
                ));
            }
        }
        self.entries.insert(meta.file_name.clone(), entries.clone());
        Ok(entries)
    }

    fn replay(&mut self, place: &str, entry: &ManifestEntry) {
        let identity = entry.identity();
        let name = &entry.file.file_name;
        match entry.kind {
            EntryKind::Add => {
                if self.gone.contains(&identity) {
                    self.report.error(
                        place,
                        format!("adds {name} again, which was deleted before"),
                    );
                }
                if self.live.insert(identity, entry.file.row_count).is_some() {
                    self.report.error(
                        place,
                        format!("adds {name}, which is live already: its rows are doubled"),
                    );
                }
            }
            EntryKind::Delete => {
                if self.live.remove(&identity).is_none() {
                    self.report
                        .error(place, format!("deletes {name}, which is not live"));
                }
                self.gone.insert(identity);
            }
        }
    }

    /// One snapshot after the other: the first is folded as a whole, the others by their changes.
    /// `lists` are the manifests of the one before, base and delta; the answer is those of this one.
    async fn snapshot(
        &mut self,
        before: Option<&Snapshot>,
        snapshot: &Snapshot,
        mut lists: Vec<String>,
    ) -> Result<Vec<String>> {
        let place = format!("snapshot-{}", snapshot.id);
        if let Some(before) = before
            && before.id.next() != snapshot.id
        {
            self.report.error(
                &place,
                format!("follows snapshot-{}: ids have a hole", before.id),
            );
        }
        let base = self.list(&place, &snapshot.base_manifest_list).await?;
        let delta = self.list(&place, &snapshot.delta_manifest_list).await?;
        if before.is_none() {
            let mut entries = Vec::new();
            for meta in &base {
                entries.extend(self.manifest(&place, meta).await?);
            }
            // Merged manifests may hold a DELETE whose ADD stands elsewhere; all are folded at once.
            let deleted: HashSet<FileIdentity> = entries
                .iter()
                .filter(|e| e.kind == EntryKind::Delete)
                .map(ManifestEntry::identity)
                .collect();
            for entry in entries
                .iter()
                .filter(|e| e.kind == EntryKind::Add && !deleted.contains(&e.identity()))
            {
                self.replay(&place, entry);
            }
            self.gone.extend(deleted);
        } else {
            let mut names: Vec<String> = base.iter().map(|m| m.file_name.clone()).collect();
            names.sort_unstable();
            lists.sort_unstable();
            // The same manifests hold the same files; others were merged, or are wrong.
            if names != lists {
                let whole = self.fold(&place, &base).await?;
                self.compare(&place, "its base list", &whole);
            }
        }
        let mut changed = 0i64;
        for meta in &delta {
            for entry in self.manifest(&place, meta).await? {
                changed += match entry.kind {
                    EntryKind::Add => entry.file.row_count,
                    EntryKind::Delete => -entry.file.row_count,
                };
                self.replay(&place, &entry);
            }
        }
        if let Some(recorded) = snapshot.delta_record_count
            && recorded != changed
        {
            self.report.error(
                &place,
                format!("records {recorded} changed rows, its manifests add up to {changed}"),
            );
        }
        let total: i64 = self.live.values().sum();
        if let Some(recorded) = snapshot.total_record_count
            && recorded != total
        {
            self.report.error(
                &place,
                format!("records {recorded} rows in all, its live files add up to {total}"),
            );
        }
        if let Some(changelog) = &snapshot.changelog_manifest_list {
            for meta in self.list(&place, changelog).await? {
                self.manifest(&place, &meta).await?;
            }
        }
        Ok(base.into_iter().chain(delta).map(|m| m.file_name).collect())
    }

    /// The newest snapshot folded from its own lists must be what its history gave.
    async fn whole_fold(&mut self, newest: &Snapshot) -> Result<()> {
        let place = format!("snapshot-{}", newest.id);
        let mut metas = Vec::new();
        for list in [&newest.base_manifest_list, &newest.delta_manifest_list] {
            metas.extend(self.list(&place, list).await?);
        }
        let whole = self.fold(&place, &metas).await?;
        self.compare(&place, "it", &whole);
        Ok(())
    }

    /// The live files of some manifests together.
    async fn fold(&mut self, place: &str, metas: &[ManifestFile]) -> Result<HashSet<FileIdentity>> {
        let mut entries = Vec::new();
        for meta in metas {
            entries.extend(self.manifest(place, meta).await?);
        }
        let deleted: HashSet<FileIdentity> = entries
            .iter()
            .filter(|e| e.kind == EntryKind::Delete)
            .map(ManifestEntry::identity)
            .collect();
        let mut whole = HashSet::new();
        for entry in entries.iter().filter(|e| e.kind == EntryKind::Add) {
            let identity = entry.identity();
            if !deleted.contains(&identity) && !whole.insert(identity) {
                self.report
                    .error(place, format!("holds {} twice", entry.file.file_name));
            }
        }
        Ok(whole)
    }

    /// What lists hold must be what the snapshots up to here gave.
    fn compare(&mut self, place: &str, what: &str, whole: &HashSet<FileIdentity>) {
        let mut lost: Vec<&str> = Vec::new();
        for identity in self.live.keys().filter(|i| !whole.contains(i)) {
            lost.push(&identity.file_name);
        }
        let mut strange: Vec<&str> = Vec::new();
        for identity in whole.iter().filter(|i| !self.live.contains_key(i)) {
            strange.push(&identity.file_name);
        }
        lost.sort_unstable();
        strange.sort_unstable();
        for name in lost {
            self.report.error(
                place,
                format!("{what} has lost {name}, which an earlier snapshot added and none deleted"),
            );
        }
        for name in strange {
            self.report.error(
                place,
                format!("{what} holds {name}, which no retained snapshot added"),
            );
        }
    }

    /// What snapshots of our jobs say of themselves.
    async fn jobs(&mut self, snapshots: &[Snapshot]) -> Result<()> {
        let mut newest: BTreeMap<String, (i64, u64)> = BTreeMap::new();
        let mut halves: HashSet<(String, i64, CommitKind)> = HashSet::new();
        let mut before: Option<String> = None;
        for snapshot in snapshots {
            let place = format!("snapshot-{}", snapshot.id);
            let token = match tidegate_commit::snapshot(self.table.store(), snapshot.id).await? {
                Some(visible) => Some(visible.token.to_string()),
                None => None,
            };
            let marks = match Marks::of(snapshot) {
                Ok(marks) => marks,
                Err(e) => {
                    self.report.error(&place, e.to_string());
                    None
                }
            };
            if let Some(marks) = marks {
                if let (Some(parent), Some(based_on)) = (&before, &marks.based_on)
                    && parent != based_on
                {
                    self.report.error(&place, format!(
                        "was built on another snapshot-{} than the one that is there: a foreign committer replaced it", snapshot.id.0 - 1
                    ));
                }
                let identifier = snapshot.commit_identifier.0;
                let user = snapshot.commit_user.as_str().to_owned();
                if let Some((last, epoch)) = newest.get(&user) {
                    if identifier < *last {
                        self.report.error(
                            &place,
                            format!("identifier {identifier} of {user} follows {last}"),
                        );
                    }
                    if marks.epoch.0 < *epoch {
                        self.report.error(
                            &place,
                            format!(
                                "epoch {} of job {} follows epoch {epoch}",
                                marks.epoch, marks.job
                            ),
                        );
                    }
                }
                if !halves.insert((user.clone(), identifier, snapshot.commit_kind)) {
                    self.report.error(
                        &place,
                        format!("commit {identifier} of {user} is published a second time"),
                    );
                }
                newest.insert(user, (identifier, marks.epoch.0));
                if let Some(p) = &marks.positions {
                    self.positions(&place, p).await?;
                }
            }
            before = token;
        }
        Ok(())
    }

    async fn positions(
        &mut self,
        place: &str,
        marks: &tidegate_commit::PositionMarks,
    ) -> Result<()> {
        let mut positions = Positions::default();
        match &marks.active {
            ActiveAt::Inline(bytes) => positions.active.clone_from(bytes),
            ActiveAt::Object(name) => match self.table.store().get_opt(name).await? {
                Some(bytes) => positions.active = bytes.to_vec(),
                None => {
                    self.report.error(
                        name,
                        format!("{place} refers to these positions and they are not there"),
                    );
                    return Ok(());
                }
            },
        }
        if let Some(name) = &marks.finished_at {
            match self.table.store().get_opt(name).await? {
                Some(bytes) => positions.finished = bytes.to_vec(),
                None => {
                    self.report.error(
                        name,
                        format!("{place} refers to these positions and they are not there"),
                    );
                    return Ok(());
                }
            }
        }
        if positions_hash(&positions) != marks.hash {
            self.report.error(
                place,
                "its source positions do not have the hash that it records",
            );
        }
        Ok(())
    }

    /// Every data file that a retained snapshot holds, read once under one snapshot that holds it.
    async fn data_files(&mut self, snapshots: &[Snapshot]) -> Result<()> {
        let mut seen: BTreeSet<String> = BTreeSet::new();
        for snapshot in snapshots.iter().rev() {
            let place = format!("snapshot-{}", snapshot.id);
            let plan = match self.reader.scan(&At::Snapshot(snapshot.id)).await {
                Ok(plan) => plan,
                Err(e) => {
                    // What cannot be planned was mostly told above; it is told once more per snapshot.
                    self.report.error(&place, e.to_string());
                    continue;
                }
            };
            let splits: Vec<_> = plan
                .splits()
                .iter()
                .filter(|s| seen.insert(s.path.clone()))
                .cloned()
                .collect();
            for split in splits {
                self.files.insert(split.path.clone(), split.file.file_size);
                let outside = split.file.external_path.is_some();
                if !outside {
                    match self.table.store().head(&split.path).await? {
                        None => {
                            self.report.error(
                                &split.path,
                                format!("{place} holds it and it is not there"),
                            );
                            continue;
                        }
                        Some(meta)
                            if u64::try_from(split.file.file_size).ok() != Some(meta.size) =>
                        {
                            self.report.error(
                                &split.path,
                                format!(
                                    "its manifest records {} bytes, it has {}",
                                    split.file.file_size, meta.size
                                ),
                            );
                            continue;
                        }
                        Some(_) => {}
                    }
                }
                self.report.files += 1;
                self.data_file(plan.clone(), &split).await?;
            }
        }
        Ok(())
    }

    async fn data_file(
        &mut self,
        mut plan: tidegate_scan::ScanPlan,
        split: &tidegate_scan::Split,
    ) -> Result<()> {
        let path = split.path.clone();
        plan.retain(|s| s.path == path);
        let schema = self.reader.schema(split.file.schema_id).await?;
        let mut columns = plan.columns().to_vec();
        let mut place = match place::Place::new(split, &schema, &mut columns) {
            Ok(place) => Some(place),
            Err(why) => {
                self.report.error(
                    &path,
                    format!("where its rows belong cannot be told: {why}"),
                );
                None
            }
        };
        plan = plan.with_file_columns(&TableSchema {
            fields: columns,
            ..schema.clone()
        });
        let mut bounds = bounds::Bounds::new(&split.file, &schema, plan.columns());
        let mut rows = 0u64;
        let mut batches = match plan.read() {
            Ok(batches) => batches,
            Err(e) => {
                self.report.error(&path, e.to_string());
                return Ok(());
            }
        };
        loop {
            match batches.try_next().await {
                Ok(Some(batch)) => {
                    rows += batch.num_rows() as u64;
                    bounds.look(&batch);
                    if let Some(place) = &mut place {
                        place.look(&batch);
                    }
                }
                Ok(None) => break,
                Err(e) => {
                    self.report.error(&path, e.to_string());
                    return Ok(());
                }
            }
        }
        self.report.rows += rows;
        if rows != split.row_count() {
            self.report.error(
                &path,
                format!(
                    "its manifest records {} rows, it has {rows}",
                    split.row_count()
                ),
            );
        }
        // Statistics cover deleted rows too, so their null counts are only exact without any.
        let of_values = bounds.findings(split.deletion.is_none());
        let of_places = place.map(place::Place::findings).unwrap_or_default();
        for (severity, what) in of_values.into_iter().chain(of_places) {
            match severity {
                Severity::Error => self.report.error(&path, what),
                Severity::Warning => self.report.warn(&path, what),
            }
        }
        Ok(())
    }
}
