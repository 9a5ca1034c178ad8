//! Option variants that change bytes: did the option take effect, does every peer read it, does each
//! append with it, and do we read on. And what we refuse, by name.

use crate::cases::Case;
use crate::compare;
use crate::harness::{At, Harness, judge, lists, our_lists, read, with_all};
use crate::matrix::{Outcome, PARTS, Place};
use crate::ours::Ours;
use crate::written::{US, own, write};
use serde_json::{Value, json};
use std::time::Instant;

const PHASE: &str = "options";

/// All variants.
pub(crate) fn run(harness: &mut Harness, cases: &[Case]) {
    for case in cases.iter() {
        if !harness.wanted(PHASE, &case.name) {
            continue;
        }
        let begun = Instant::now();
        if let Err(why) = one(harness, case) {
            harness
                .matrix
                .add(cell(case, "rows", US), Outcome::Differs(why));
        }
        harness.done(&format!(
            "{PHASE}: {} {:.1} s",
            case.name,
            begun.elapsed().as_secs_f64()
        ));
    }
}

/// Bucket mode and aspect across, variant down.
fn cell(case: &Case, aspect: &str, peer: &str) -> Place {
    let (bucket, variant) = case.name.split_once(' ').unwrap_or((&case.name, ""));
    At {
        phase: PHASE,
        group: "variants".to_owned(),
        case: format!("{bucket}: {aspect}"),
    }
    .cell(variant, peer)
}

/// Equal where all are; else all that is wrong, refusals first.
fn worst(outcomes: impl IntoIterator<Item = Outcome>) -> Outcome {
    let (mut refused, mut differs) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            Outcome::Equal | Outcome::Absent(_) => {}
            Outcome::Refused(said) => refused.push(said),
            Outcome::Differs(how) => differs.push(how),
        }
    }
    match (refused.is_empty(), differs.is_empty()) {
        (true, true) => Outcome::Equal,
        (true, false) => Outcome::Differs(differs.join(PARTS)),
        (false, _) => {
            refused.extend(differs);
            Outcome::Refused(refused.join(PARTS))
        }
    }
}

fn one(harness: &mut Harness, case: &Case) -> Result<(), String> {
    let at = At::of(PHASE, case);
    let ours = harness.ours(PHASE, &case.name)?;
    let mut expected = write(&ours, case)?;
    let all = |cells: Vec<(Place, Outcome)>| worst(cells.into_iter().map(|(_, o)| o));
    harness.matrix.add(
        cell(case, "rows", US),
        all(judge(&at, case, US, &expected, &own(&ours))),
    );
    harness.matrix.add(
        cell(case, "lists, check", US),
        Outcome::of(ours.verify().err()),
    );
    let effect = effect(harness, &ours, case)?;
    harness
        .matrix
        .add(cell(case, "took effect", US), Outcome::of(effect));
    let said = our_lists(&ours)?;
    let found = with_all(&mut harness.peers, |peer| {
        let reading = read(peer, &ours.table, case, &json!({}));
        let rows = all(judge(&at, case, &peer.name, &expected, &reading));
        let lists = worst(lists(peer, &ours.table, &said).into_iter().map(|(_, o)| o));
        (peer.name.clone(), rows, lists)
    });
    for (peer, rows, lists) in found {
        harness.matrix.add(cell(case, "rows", &peer), rows);
        harness.matrix.add(cell(case, "lists, check", &peer), lists);
    }
    let mut outcomes = Vec::new();
    for (i, peer) in harness.peers.iter_mut().enumerate() {
        let more = case.batch(100_000 * (i + 1), case.rows);
        let outcome = match peer.write(&ours.table, &more) {
            Err(said) => Outcome::Refused(said),
            Ok(_) => {
                expected.extend(compare::by_id(&more)?);
                let rows = all(judge(&at, case, US, &expected, &own(&ours)));
                worst([rows, Outcome::of(ours.verify().err())])
            }
        };
        outcomes.push((peer.name.clone(), outcome));
    }
    for (peer, outcome) in outcomes {
        harness
            .matrix
            .add(cell(case, "appends, we read", &peer), outcome);
    }
    ours.remove();
    Ok(())
}

/// What the bytes say about the option: `Some` = they do not show it.
fn effect(harness: &mut Harness, ours: &Ours, case: &Case) -> Result<Option<String>, String> {
    let variant = case.name.split_once(' ').map_or("", |(_, v)| v);
    let files = ours.list("files")?;
    let texts = |key: &str| -> Vec<String> {
        let text = |f: &Value| {
            f.get(key)
                .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
        };
        files.iter().filter_map(text).collect()
    };
    let paths = texts("file_path");
    let every = |texts: &[String], what: &str| {
        let odd = texts.iter().find(|t| !t.contains(what)).cloned();
        odd.map(|t| format!("`{what}` is not in {t}"))
    };
    Ok(match variant {
        "zstd" | "plain" | "zstd level 9" | "snappy" | "suffix" | "lz4" | "gzip" | "none"
        | "no dictionary" | "small row groups" => {
            let Some(python) = harness.peers.iter_mut().find(|p| p.is_pypaimon()) else {
                return Ok(None);
            };
            let path = paths
                .first()
                .map(|p| p.replacen("file://", "", 1))
                .unwrap_or_default();
            let footer = python.on("footer", &path, json!({}))?;
            let codec = match variant {
                "snappy" | "suffix" => "SNAPPY",
                "lz4" => "LZ4",
                "gzip" => "GZIP",
                "none" => "UNCOMPRESSED",
                _ => "ZSTD",
            };
            let number = |key: &str| footer.get(key).and_then(Value::as_i64).unwrap_or(-1);
            let shown = footer
                .get("codecs")
                .map(Value::to_string)
                .unwrap_or_default();
            let good = match variant {
                "no dictionary" => number("dictionaries") == 0,
                "small row groups" => number("row_groups") > 1,
                "plain" => number("dictionaries") > 0 && number("row_groups") == 1,
                "suffix" => paths.iter().all(|p| p.ends_with(".snappy.parquet")),
                _ => true,
            };
            let good = good
                && (shown == format!("[\"{codec}\"]") || codec == "LZ4" && shown.contains("LZ4"));
            (!good).then(|| format!("footer: {footer}, files {paths:?}"))
        }
        "stats none" | "stats not dense" => every(&texts("max_value_stats"), "id=null")
            .or_else(|| every(&texts("null_value_counts"), "id=null")),
        "stats counts" => every(&texts("max_value_stats"), "id=null")
            .or_else(|| every(&texts("null_value_counts"), "id=0")),
        // The largest word is z, twenty times.
        "stats full" => every(&texts("max_value_stats"), "word=zzzzzzzzzzzzzzzzzzzz}"),
        "stats truncate(4)" => every(&texts("max_value_stats"), "word=zzz{}"),
        "rolling by size" | "rolling by rows" => {
            let usual = if case.name.starts_with("fixed") { 6 } else { 2 };
            (files.len() <= usual).then(|| format!("{} files, as without rolling", files.len()))
        }
        "manifest zstd" | "manifest snappy" | "manifest deflate" | "manifest null" => {
            let codec = variant
                .trim_start_matches("manifest ")
                .replace("zstd", "zstandard");
            manifest_codecs(ours, &codec)?
        }
        "manifest small" | "manifest full merge" => None,
        "legacy names off" => every(&paths, "/p=").or_else(|| {
            let dated = paths.iter().any(|p| p.contains("p=2024-02-29"));
            (!dated).then(|| format!("no directory of a date: {paths:?}"))
        }),
        "default name" => {
            let named = paths.iter().any(|p| p.contains("p=__NONE__"));
            (!named).then(|| format!("no directory p=__NONE__: {paths:?}"))
        }
        "path directory" => every(&paths, "/data/deep/"),
        "prefix" => every(&paths, "/part-"),
        _ => None,
    })
}

/// The codec in the head of each Avro file, as written there.
fn manifest_codecs(ours: &Ours, codec: &str) -> Result<Option<String>, String> {
    for manifest in ours.list("manifests")? {
        let name = manifest
            .get("file_name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let path = format!("{}/manifest/{name}", ours.table);
        let bytes = std::fs::read(&path).map_err(|e| format!("{path}: {e}"))?;
        let head =
            String::from_utf8_lossy(bytes.get(..bytes.len().min(20_000)).unwrap_or_default())
                .into_owned();
        let said = head.split_once("avro.codec").map_or("", |(_, rest)| rest);
        let said: String = said.chars().take(codec.len() + 1).collect();
        let unsaid = codec == "null" && said.is_empty();
        if !unsaid && !said.ends_with(codec) {
            return Ok(Some(format!("{name}: codec {said:?}, expected {codec}")));
        }
    }
    Ok(None)
}

/// Tables that we must not make: the refusal names the option or the type.
pub(crate) fn refused(harness: &mut Harness, cases: &[(Case, &'static str)]) {
    for (case, word) in cases {
        if !harness.wanted("refused", &case.name) {
            continue;
        }
        let at = At {
            phase: "refused",
            group: "by us, by name".to_owned(),
            case: "create".to_owned(),
        };
        let said = harness.ours("refused", &case.name).map(|ours| {
            let said = ours.create(case);
            ours.remove();
            said
        });
        let outcome = match said {
            Err(why) => Outcome::Differs(why),
            Ok(Ok(())) => Outcome::Differs("the table was created".to_owned()),
            Ok(Err(said)) if said.contains(word) => Outcome::Equal,
            Ok(Err(said)) => Outcome::Differs(format!("`{word}` is not in: {said}")),
        };
        harness.matrix.add(at.cell(&case.name, US), outcome);
    }
}
