//! What is found, of which kind and how bad, and the report that all of it goes into.

use std::time::SystemTime;

use super::origin::Origin;

/// Findings of one kind that are kept; more are counted. Memory stays bounded where a table is a heap of
/// rubbish, and nobody reads more.
const KEPT: u64 = 10_000;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Rows may be lost, doubled or wrong.
    Error,
    /// Readers get along with it.
    Warning,
    /// Nothing is wrong with the table: a file that it does not know, or something that was not looked at.
    Note,
}

impl Severity {
    /// `error`, `warning` or `note`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// What kind of damage a finding is, or why it is told at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Something refers to a file that is not there.
    Missing,
    /// A file has another size than what refers to it records.
    Size,
    /// A file cannot be read as what it is.
    Unreadable,
    /// Recorded numbers of rows or entries do not add up.
    Count,
    /// A file is live twice or again, or a commit published twice: rows are doubled.
    Doubled,
    /// A file that was added and never deleted is in no manifest any more: rows are lost.
    Lost,
    /// A file is held or deleted that nothing added.
    Stray,
    /// Snapshot ids are not dense.
    Hole,
    /// A snapshot was built on another parent than the one that is there.
    Replaced,
    /// Identifiers or epochs of a job go backwards.
    Order,
    /// Source positions of a snapshot are gone or not those that it records.
    Positions,
    /// A checkpoint and the table disagree.
    Checkpoint,
    /// A hint leads readers astray.
    Hint,
    /// Recorded statistics do not hold for the data.
    Statistics,
    /// Rows of a keyed table's file are not in the order of their keys, or their keys are not those
    /// recorded.
    Keys,
    /// Two files of one level above 0 of a bucket have a key in common.
    Levels,
    /// Rows stand in a wrong partition.
    Partition,
    /// Rows stand in a wrong bucket.
    Bucket,
    /// A file under the table that nothing refers to.
    Unknown,
    /// Something that this build does not look into.
    NotRead,
    /// A version that expired while it was being looked at.
    Expired,
}

impl Kind {
    /// One word, the same in every output format and release.
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Size => "size",
            Self::Unreadable => "unreadable",
            Self::Count => "count",
            Self::Doubled => "doubled",
            Self::Lost => "lost",
            Self::Stray => "stray",
            Self::Hole => "hole",
            Self::Replaced => "replaced",
            Self::Order => "order",
            Self::Positions => "positions",
            Self::Checkpoint => "checkpoint",
            Self::Hint => "hint",
            Self::Statistics => "statistics",
            Self::Keys => "keys",
            Self::Levels => "levels",
            Self::Partition => "partition",
            Self::Bucket => "bucket",
            Self::Unknown => "unknown-file",
            Self::NotRead => "not-read",
            Self::Expired => "expired",
        }
    }
}

/// A file that nothing refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFile {
    /// Its size; 0 where the store does not say, as of uploads that were never finished.
    pub bytes: u64,
    /// When it was written, by the store's clock.
    pub modified: Option<SystemTime>,
    /// Who probably left it, by its name.
    pub origin: Origin,
}

/// Something that is not as it should be, or worth a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// Of which kind.
    pub kind: Kind,
    /// Which file or snapshot.
    pub place: String,
    /// What is wrong.
    pub what: String,
    /// Of a file that nothing refers to.
    pub unknown: Option<UnknownFile>,
    /// The version that led there, by its file: it may have expired meanwhile.
    pub(super) version: Option<String>,
}

/// What was looked at and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Snapshots looked at, those of branches included.
    pub snapshots: u64,
    /// Tags and long-lived changelogs looked at, those of branches included.
    pub tags: u64,
    /// Branches looked at, `main` not counted.
    pub branches: u64,
    /// Different manifests read.
    pub manifests: u64,
    /// Different data files that were there with their recorded size.
    pub files: u64,
    /// Rows read in them.
    pub rows: u64,
    /// Checkpoint records compared with the table.
    pub checkpoints: u64,
    /// Files that nothing refers to, and their bytes.
    pub unknown: (u64, u64),
    /// In the order in which they were found; of one kind at most 10,000.
    pub findings: Vec<Finding>,
    /// Findings that are counted and not kept.
    pub left_out: u64,
    counts: std::collections::BTreeMap<(Severity, Kind), u64>,
}

impl Report {
    fn count(&self, severity: Severity) -> u64 {
        let of = self.counts.iter().filter(|((s, _), _)| *s == severity);
        of.map(|(_, n)| n).sum()
    }

    /// How many findings are errors.
    pub fn errors(&self) -> u64 {
        self.count(Severity::Error)
    }

    /// How many findings are warnings.
    pub fn warnings(&self) -> u64 {
        self.count(Severity::Warning)
    }

    /// How many findings are notes.
    pub fn notes(&self) -> u64 {
        self.count(Severity::Note)
    }

    pub(super) fn push(&mut self, finding: Finding) {
        let count = self
            .counts
            .entry((finding.severity, finding.kind))
            .or_default();
        *count += 1;
        if let Some(file) = &finding.unknown {
            self.unknown.0 += 1;
            self.unknown.1 += file.bytes;
        }
        match *count <= KEPT {
            true => self.findings.push(finding),
            false => self.left_out += 1,
        }
    }

    fn tell(&mut self, severity: Severity, kind: Kind, place: &str, what: String) {
        self.push(Finding {
            severity,
            kind,
            place: place.to_owned(),
            what,
            unknown: None,
            version: None,
        });
    }

    pub(super) fn error(&mut self, kind: Kind, place: &str, what: impl Into<String>) {
        self.tell(Severity::Error, kind, place, what.into());
    }

    pub(super) fn warn(&mut self, kind: Kind, place: &str, what: impl Into<String>) {
        self.tell(Severity::Warning, kind, place, what.into());
    }

    pub(super) fn note(&mut self, kind: Kind, place: &str, what: impl Into<String>) {
        self.tell(Severity::Note, kind, place, what.into());
    }

    /// An error that a version led to, named by its file: it does not count where that has expired
    /// meanwhile.
    pub(super) fn through(&mut self, version: &str, kind: Kind, place: &str, what: String) {
        self.push(Finding {
            severity: Severity::Error,
            kind,
            place: place.to_owned(),
            what,
            unknown: None,
            version: Some(version.to_owned()),
        });
    }

    /// The versions that findings came through.
    pub(super) fn ways(&self) -> std::collections::BTreeSet<String> {
        let ways = self.findings.iter().filter_map(|f| f.version.clone());
        ways.collect()
    }

    /// Takes findings back.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Finding) -> bool) {
        let counts = &mut self.counts;
        let unknown = &mut self.unknown;
        self.findings.retain(|finding| {
            let kept = keep(finding);
            if !kept {
                if let Some(count) = counts.get_mut(&(finding.severity, finding.kind)) {
                    *count = count.saturating_sub(1);
                }
                if let Some(file) = &finding.unknown {
                    unknown.0 = unknown.0.saturating_sub(1);
                    unknown.1 = unknown.1.saturating_sub(file.bytes);
                }
            }
            kept
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_kept_is_counted() {
        let mut report = Report::default();
        for n in 0..KEPT + 5 {
            report.error(Kind::Missing, "a", n.to_string());
        }
        report.note(Kind::NotRead, "b", "orc");
        assert_eq!(report.findings.len() as u64, KEPT + 1);
        assert_eq!(report.left_out, 5);
        assert_eq!((report.errors(), report.notes()), (KEPT + 5, 1));
        report.retain(|f| f.kind != Kind::NotRead);
        assert_eq!((report.errors(), report.notes()), (KEPT + 5, 0));
    }
}
