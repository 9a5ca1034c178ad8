//! Snapshot files: `snapshot/snapshot-<id>`, long-lived `changelog/changelog-<id>`, and the body of a
//! tag \[F-3.1].
//!
//! Owns names, order and presence of keys as each release writes them. What a snapshot means belongs
//! to `tidegate-model`.

use crate::error::{Error, Problem, Result, shorten};
use crate::json::{Reader, Writer};
use tidegate_model::snapshot::ListRef;
use tidegate_model::{CommitIdentifier, CommitKind, CommitUser, SchemaId, Snapshot, SnapshotId};

/// Reads a snapshot file.
///
/// Keys of other releases are kept in [`Snapshot::unknown`]; a key that is there with `null` counts as
/// absent.
///
/// # Errors
/// Text that is no JSON object, a missing or ill-typed field, a repeated key, an unknown commit kind
/// or a version above 3.
pub fn decode(bytes: &[u8]) -> Result<Snapshot> {
    decode_with(bytes, |_, _| Ok(false))
}

/// Writes a snapshot file: the bytes that Java would write, unknown keys at the end.
///
/// A snapshot that came from release 1.0 to 1.3 (it has `logOffsets`) is written as those releases
/// do, with an explicit `null` for an absent changelog list.
pub fn encode(snapshot: &Snapshot) -> Vec<u8> {
    encode_with(snapshot, |_| {})
}

/// As [`decode`], with a say for `extra` on keys that no snapshot has: true = read.
pub(crate) fn decode_with(
    bytes: &[u8],
    mut extra: impl FnMut(&mut Reader<'_>, &str) -> Result<bool>,
) -> Result<Snapshot> {
    let mut reader = Reader::new(bytes)?;
    let mut raw = Raw::default();
    reader.object(|r, key| {
        if !raw.take(r, key)? && !extra(r, key)? {
            raw.unknown.push((key.to_owned(), r.raw()?.to_owned()));
        }
        Ok(())
    })?;
    let snapshot = raw
        .finish()
        .map_err(|e| e.at(crate::error::Position::Text { line: 1, column: 1 }))?;
    reader.end()?;
    Ok(snapshot)
}

/// As [`encode`], with more members at the end.
pub(crate) fn encode_with(snapshot: &Snapshot, extra: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let s = snapshot;
    let mut w = Writer::new();
    w.begin_object();
    w.int("version", s.version.into());
    w.optional_string("uuid", s.uuid.as_deref());
    w.int("id", s.id.0);
    w.int("schemaId", s.schema_id.0);
    w.string("baseManifestList", &s.base_manifest_list.name);
    w.optional_int("baseManifestListSize", s.base_manifest_list.size);
    w.string("deltaManifestList", &s.delta_manifest_list.name);
    w.optional_int("deltaManifestListSize", s.delta_manifest_list.size);
    match &s.changelog_manifest_list {
        Some(list) => {
            w.string("changelogManifestList", &list.name);
            w.optional_int("changelogManifestListSize", list.size);
        }
        // Releases 1.0 to 1.3, recognised by their log offsets, write the null.
        None if s.log_offsets.is_some() => {
            w.key("changelogManifestList");
            w.raw("null");
        }
        None => {}
    }
    w.optional_string("indexManifest", s.index_manifest.as_deref());
    w.string("commitUser", s.commit_user.as_str());
    w.optional_string("writerVersion", s.writer_version.as_deref());
    w.int("commitIdentifier", s.commit_identifier.0);
    w.string("commitKind", &s.commit_kind.to_string());
    w.int("timeMillis", s.time_millis);
    if let Some(offsets) = &s.log_offsets {
        w.key("logOffsets");
        w.raw(offsets);
    }
    w.optional_int("totalRecordCount", s.total_record_count);
    w.optional_int("deltaRecordCount", s.delta_record_count);
    w.optional_int("changelogRecordCount", s.changelog_record_count);
    w.optional_int("watermark", s.watermark);
    w.optional_string("statistics", s.statistics.as_deref());
    if !s.properties.is_empty() {
        let pairs = s.properties.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        w.string_map("properties", pairs);
    }
    w.optional_int("nextRowId", s.next_row_id);
    w.optional_string("operation", s.operation.as_deref());
    for (key, json) in &s.unknown {
        w.key(key);
        w.raw(json);
    }
    extra(&mut w);
    w.end_object();
    w.finish()
}

/// The fields as they come, in any order.
#[derive(Default)]
struct Raw {
    version: Option<i32>,
    uuid: Option<String>,
    id: Option<i64>,
    schema_id: Option<i64>,
    base: Option<String>,
    base_size: Option<i64>,
    delta: Option<String>,
    delta_size: Option<i64>,
    changelog: Option<String>,
    changelog_size: Option<i64>,
    index_manifest: Option<String>,
    commit_user: Option<CommitUser>,
    writer_version: Option<String>,
    commit_identifier: Option<i64>,
    commit_kind: Option<CommitKind>,
    time_millis: Option<i64>,
    log_offsets: Option<String>,
    total: Option<i64>,
    delta_count: Option<i64>,
    changelog_count: Option<i64>,
    watermark: Option<i64>,
    statistics: Option<String>,
    properties: Vec<(String, String)>,
    next_row_id: Option<i64>,
    operation: Option<String>,
    unknown: Vec<(String, String)>,
}

impl Raw {
    /// Reads the value of a key of ours; false = not ours, nothing read.
    fn take(&mut self, r: &mut Reader<'_>, key: &str) -> Result<bool> {
        let text = |r: &mut Reader<'_>| r.nullable(|r| r.string().map(|s| s.into_owned()));
        match key {
            "version" => self.version = r.nullable(Reader::i32)?,
            "uuid" => self.uuid = text(r)?,
            "id" => self.id = r.nullable(Reader::i64)?,
            "schemaId" => self.schema_id = r.nullable(Reader::i64)?,
            "baseManifestList" => self.base = text(r)?,
            "baseManifestListSize" => self.base_size = r.nullable(Reader::i64)?,
            "deltaManifestList" => self.delta = text(r)?,
            "deltaManifestListSize" => self.delta_size = r.nullable(Reader::i64)?,
            "changelogManifestList" => self.changelog = text(r)?,
            "changelogManifestListSize" => self.changelog_size = r.nullable(Reader::i64)?,
            "indexManifest" => self.index_manifest = text(r)?,
            "commitUser" => {
                let user = text(r)?.unwrap_or_default();
                self.commit_user = Some(CommitUser::new(user).map_err(|_| {
                    r.error(Problem::Unexpected {
                        expected: "a commit user",
                        found: "an empty text".to_owned(),
                    })
                })?);
            }
            "writerVersion" => self.writer_version = text(r)?,
            "commitIdentifier" => self.commit_identifier = r.nullable(Reader::i64)?,
            "commitKind" => {
                let kind = r.string()?;
                self.commit_kind = Some(match &*kind {
                    "APPEND" => CommitKind::Append,
                    "COMPACT" => CommitKind::Compact,
                    "OVERWRITE" => CommitKind::Overwrite,
                    "ANALYZE" => CommitKind::Analyze,
                    other => {
                        return Err(r.error(Problem::Unexpected {
                            expected: "APPEND, COMPACT, OVERWRITE or ANALYZE",
                            found: format!("`{}`", shorten(other)),
                        }));
                    }
                });
            }
            "timeMillis" => self.time_millis = r.nullable(Reader::i64)?,
            "logOffsets" => self.log_offsets = r.nullable(|r| r.raw().map(str::to_owned))?,
            "totalRecordCount" => self.total = r.nullable(Reader::i64)?,
            "deltaRecordCount" => self.delta_count = r.nullable(Reader::i64)?,
            "changelogRecordCount" => self.changelog_count = r.nullable(Reader::i64)?,
            "watermark" => self.watermark = r.nullable(Reader::i64)?,
            "statistics" => self.statistics = text(r)?,
            "properties" => self.properties = r.nullable(Reader::string_map)?.unwrap_or_default(),
            "nextRowId" => self.next_row_id = r.nullable(Reader::i64)?,
            "operation" => self.operation = text(r)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish(self) -> Result<Snapshot> {
        let version = self.version.unwrap_or(1);
        if !(1..=3).contains(&version) {
            let problem = Problem::Version {
                found: version.into(),
                supported: "1 to 3",
            };
            return Err(Error::new(problem).in_field("version"));
        }
        Ok(Snapshot {
            version,
            uuid: self.uuid,
            id: SnapshotId(need(self.id, "id")?),
            schema_id: SchemaId(need(self.schema_id, "schemaId")?),
            base_manifest_list: ListRef {
                name: need(self.base, "baseManifestList")?,
                size: self.base_size,
            },
            delta_manifest_list: ListRef {
                name: need(self.delta, "deltaManifestList")?,
                size: self.delta_size,
            },
            changelog_manifest_list: self.changelog.map(|name| ListRef {
                name,
                size: self.changelog_size,
            }),
            index_manifest: self.index_manifest,
            commit_user: need(self.commit_user, "commitUser")?,
            commit_identifier: CommitIdentifier(need(self.commit_identifier, "commitIdentifier")?),
            commit_kind: need(self.commit_kind, "commitKind")?,
            time_millis: need(self.time_millis, "timeMillis")?,
            total_record_count: self.total,
            delta_record_count: self.delta_count,
            changelog_record_count: self.changelog_count,
            watermark: self.watermark,
            statistics: self.statistics,
            properties: self.properties,
            next_row_id: self.next_row_id,
            operation: self.operation,
            writer_version: self.writer_version,
            log_offsets: self.log_offsets,
            unknown: self.unknown,
        })
    }
}

/// The value of a field that must be there.
pub(crate) fn need<T>(value: Option<T>, field: &str) -> Result<T> {
    value.ok_or_else(|| Error::new(Problem::Missing).in_field(field))
}
