//! Commit messages and committables between processes: ours read by Java's serializers, Java's by ours,
//! and each published by the other side.

use crate::cases::Case;
use crate::compare;
use crate::harness::{At, Harness, judge, read};
use crate::matrix::Outcome;
use crate::ours::{Binary, Ours};
use crate::theirs::create;
use crate::written::{own, write};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tidegate_format::{manifest, manifest_committable, manifest_list, snapshot};
use tidegate_interop::peer::Peer;
use tidegate_model::{CommitMessage, ManifestCommittable, ManifestEntry};

const PHASE: &str = "committables";

/// Older commit messages do not say how many buckets a partition has.
const BUCKET_COUNT_SINCE: i32 = 7;

/// The difference, if any; the error is the peer's word.
type Exchange = fn(&mut Peer, &Binary, &Path, &Case) -> Result<Option<String>, String>;

/// Both directions, with every release of Java.
pub(crate) fn run(harness: &mut Harness, cases: &[Case]) {
    for case in cases {
        if !harness.wanted(PHASE, &case.name) {
            continue;
        }
        let at = At::of(PHASE, case);
        let (binary, work) = (harness.binary.clone(), harness.work.clone());
        let mut found = Vec::new();
        for peer in &mut harness.peers {
            let rows: [(&str, Exchange); 2] =
                [("Java's through us", through_us), ("ours by Java", by_java)];
            for (row, work_on) in rows {
                let outcome = match peer.release() {
                    None => Outcome::Absent(
                        "its commit messages are of version 14, which no released Java here reads"
                            .to_owned(),
                    ),
                    Some(_) => match work_on(peer, &binary, &work, case) {
                        Ok(difference) => Outcome::of(difference),
                        Err(said) => Outcome::Refused(said),
                    },
                };
                found.push((at.cell(row, &peer.name), outcome));
            }
        }
        found
            .into_iter()
            .for_each(|(place, outcome)| harness.matrix.add(place, outcome));
        harness.done(&format!("{PHASE}: {}", case.name));
    }
}

fn bytes_of(node: &Value, key: &str) -> Result<Vec<u8>, String> {
    let text = node
        .get(key)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("no {key} in the answer"))?;
    BASE64.decode(text).map_err(|e| format!("{key}: {e}"))
}

fn version_of(node: &Value, key: &str) -> Result<i32, String> {
    let number = node
        .get(key)
        .and_then(Value::as_i64)
        .and_then(|v| i32::try_from(v).ok());
    number.ok_or_else(|| format!("no {key} in the answer"))
}

/// Java prepares; we decode and encode anew; Java reads the same content, commits it, and the rows are
/// there.
fn through_us(
    peer: &mut Peer,
    binary: &Binary,
    work: &Path,
    case: &Case,
) -> Result<Option<String>, String> {
    let ours = Ours::new(binary, &work.join(format!("prepared-{}", peer.name)))?;
    create(peer, &ours, case)?;
    let rows = case.batch(0, case.rows);
    let prepare = json!({"commitUser": "u", "commitIdentifier": 1, "prepareOnly": true});
    let prepared = peer.write_with(&ours.table, &rows, prepare)?;
    let (version, messages) = (
        version_of(&prepared, "version")?,
        version_of(&prepared, "messageVersion")?,
    );
    let given = bytes_of(&prepared, "committable")?;
    let decoded = manifest_committable::decode(&given, version).map_err(|e| e.to_string())?;
    if decoded.message_version != messages {
        return Ok(Some(format!(
            "message version {} read, {messages} written",
            decoded.message_version
        )));
    }
    let again = manifest_committable::encode(&decoded.committable, version, messages)
        .map_err(|e| e.to_string())?;
    let same = again == given;
    let node = json!({"committable": BASE64.encode(&again), "version": version});
    let before = peer.on("decode", &ours.table, json!({"committables": [prepared]}))?;
    let after = peer.on("decode", &ours.table, json!({"committables": [node]}))?;
    if before != after {
        return Ok(Some(format!(
            "Java reads {} instead of {}",
            compare::short(&after.to_string()),
            compare::short(&before.to_string())
        )));
    }
    peer.on(
        "commit",
        &ours.table,
        json!({"commitUser": "u", "committables": [node]}),
    )?;
    let expected = compare::by_id(&rows)?;
    let reading = own(&ours);
    ours.remove();
    let at = At::of(PHASE, case);
    let wrong = judge(&at, case, "", &expected, &reading)
        .into_iter()
        .find(|(_, o)| *o != Outcome::Equal);
    Ok(wrong
        .map(|(place, o)| format!("{}: {o:?}", place.row))
        .or_else(|| (!same).then(|| "the bytes differ although Java reads the same".to_owned())))
}

/// Files of a table of ours in commit messages of ours: Java reads what we say about them, and publishes
/// them in a table that has the files and no snapshot.
fn by_java(
    peer: &mut Peer,
    binary: &Binary,
    work: &Path,
    case: &Case,
) -> Result<Option<String>, String> {
    let ours = Ours::new(binary, &work.join(format!("messages-{}", peer.name)))?;
    let expected = write(&ours, case)?;
    let mut messages: BTreeMap<(Vec<u8>, i32), CommitMessage> = BTreeMap::new();
    for entry in entries(Path::new(&ours.table))? {
        let key = (entry.partition.bytes().to_vec(), entry.bucket.0);
        let message = messages.entry(key).or_insert_with(|| CommitMessage {
            partition: entry.partition.clone(),
            bucket: entry.bucket,
            total_buckets: Some(entry.total_buckets),
            data: Default::default(),
            compact: Default::default(),
        });
        message.data.new_files.push(entry.file);
    }
    let mut committable = ManifestCommittable {
        identifier: 7,
        watermark: None,
        properties: Vec::new(),
        messages: messages.into_values().collect(),
    };
    // In the versions that this release writes itself: it need not know later ones.
    let probe = json!({"commitUser": "u", "commitIdentifier": 1, "prepareOnly": true});
    let clone = Ours::new(binary, &work.join(format!("published-{}", peer.name)))?;
    create(peer, &clone, case)?;
    let prepared = peer.write_with(&clone.table, &case.batch(0, 1), probe)?;
    let (version, message_version) = (
        version_of(&prepared, "version")?,
        version_of(&prepared, "messageVersion")?,
    );
    fs::remove_dir_all(&clone.table).map_err(|e| format!("{}: {e}", clone.table))?;
    copy(Path::new(&ours.table), Path::new(&clone.table))?;
    if message_version < BUCKET_COUNT_SINCE {
        let messages = committable.messages.iter_mut();
        messages.for_each(|m| m.total_buckets = None);
    }
    let bytes = manifest_committable::encode(&committable, version, message_version)
        .map_err(|e| e.to_string())?;
    let node = json!({"committable": BASE64.encode(&bytes), "version": version});
    let read_by_java = peer.on("decode", &clone.table, json!({"committables": [node]}))?;
    if let Some(how) = described(&committable, &read_by_java) {
        return Ok(Some(how));
    }
    peer.on(
        "commit",
        &clone.table,
        json!({"commitUser": "u", "committables": [node]}),
    )?;
    let at = At::of(PHASE, case);
    let reading = read(peer, &clone.table, case, &json!({}));
    let mut outcomes = judge(&at, case, &peer.name, &expected, &reading);
    outcomes.extend(judge(&at, case, "us", &expected, &own(&clone)));
    let found = peer.on("check", &clone.table, json!({}))?;
    if found.get("errors").and_then(Value::as_i64) != Some(0) {
        return Ok(Some(format!("check: {found}")));
    }
    clone.verify()?;
    ours.remove();
    clone.remove();
    let wrong = outcomes.into_iter().find(|(_, o)| *o != Outcome::Equal);
    Ok(wrong.map(|(place, o)| format!("{}: {o:?}", place.row)))
}

/// Whether Java's description names the same messages and files.
fn described(ours: &ManifestCommittable, theirs: &Value) -> Option<String> {
    let empty = Vec::new();
    let messages = theirs
        .pointer("/0/messages")
        .and_then(Value::as_array)
        .unwrap_or(&empty);
    if messages.len() != ours.messages.len() {
        return Some(format!(
            "{} messages written, Java reads {}",
            ours.messages.len(),
            messages.len()
        ));
    }
    for (message, node) in ours.messages.iter().zip(messages) {
        let files = node
            .get("newFiles")
            .and_then(Value::as_array)
            .unwrap_or(&empty);
        let wanted: Vec<Value> = message
            .data
            .new_files
            .iter()
            .map(|f| {
                json!({
                    "fileName": f.file_name, "fileSize": f.file_size, "rowCount": f.row_count,
                    "minSequenceNumber": f.min_sequence_number, "maxSequenceNumber": f.max_sequence_number,
                    "schemaId": f.schema_id.0, "level": f.level.0, "extraFiles": f.extra_files,
                    "valueStatsCols": f.value_stats_cols, "bucket": message.bucket.0,
                })
            })
            .collect();
        let found: Vec<Value> = files
            .iter()
            .map(|file| {
                let mut kept = json!({"bucket": node.get("bucket")});
                for key in [
                    "fileName",
                    "fileSize",
                    "rowCount",
                    "minSequenceNumber",
                    "maxSequenceNumber",
                    "schemaId",
                    "level",
                    "extraFiles",
                    "valueStatsCols",
                ] {
                    if let Some(kept) = kept.as_object_mut() {
                        kept.insert(
                            key.to_owned(),
                            file.get(key).cloned().unwrap_or(Value::Null),
                        );
                    }
                }
                kept
            })
            .collect();
        if let Some(how) = compare::listing(&wanted, &found, &[]) {
            return Some(how);
        }
    }
    None
}

/// The live entries of a table of ours; it only has appends.
fn entries(table: &Path) -> Result<Vec<ManifestEntry>, String> {
    let read = |name: &str| {
        let path = table.join(name);
        fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))
    };
    let newest = snapshot::decode(&read("snapshot/snapshot-2")?).map_err(|e| e.to_string())?;
    let mut found = Vec::new();
    for list in [&newest.base_manifest_list, &newest.delta_manifest_list] {
        let metas = manifest_list::decode(&read(&format!("manifest/{}", list.name))?)
            .map_err(|e| e.to_string())?;
        for meta in metas {
            let bytes = read(&format!("manifest/{}", meta.file_name))?;
            found.extend(manifest::decode(&bytes).map_err(|e| e.to_string())?);
        }
    }
    Ok(found)
}

/// Schema and data files, nothing else.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let wrong = |e: std::io::Error| format!("{}: {e}", from.display());
    fs::create_dir_all(to).map_err(wrong)?;
    for entry in fs::read_dir(from).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        let name = path.file_name().unwrap_or_default();
        let left_out = ["snapshot", "manifest", "tidegate"]
            .iter()
            .any(|n| *n == name);
        if path.is_dir() && !left_out {
            copy(&path, &to.join(name))?;
        } else if path.is_file() {
            fs::copy(&path, to.join(name)).map_err(wrong)?;
        }
    }
    Ok(())
}
