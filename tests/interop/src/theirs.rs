//! Every peer writes tables of its own, we read them.

use crate::cases::Case;
use crate::compare;
use crate::harness::{At, Harness, Refusals, folder_of, judge, lists, our_lists, with_all};
use crate::matrix::{Outcome, Place};
use crate::ours::{Binary, Ours};
use crate::written::own;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;
use tidegate_interop::peer::Peer;

const PHASE: &str = "they write";

type Cells = Vec<(Place, Outcome)>;

/// All these tables, by every peer.
pub(crate) fn run(harness: &mut Harness, cases: &[Case]) {
    let wanted: Vec<&Case> = cases
        .iter()
        .filter(|c| harness.wanted(PHASE, &c.name))
        .collect();
    for (i, case) in wanted.iter().enumerate() {
        let begun = Instant::now();
        let at = At::of(PHASE, case);
        let (binary, work) = (harness.binary.clone(), harness.work.clone());
        let found = with_all(&mut harness.peers, |peer| {
            let folder = work.join(folder_of(&format!("{PHASE} {} {}", peer.name, case.name)));
            let outcome = one(peer, &binary, &folder, &at, case);
            (peer.name.clone(), outcome)
        });
        for (peer, outcome) in found {
            match outcome {
                Ok(cells) => cells
                    .into_iter()
                    .for_each(|(place, o)| harness.matrix.add(place, o)),
                Err(why) => {
                    let columns = case.columns.iter().filter(|c| c.name != "id");
                    let places = columns.map(|c| at.column(&c.row, &peer));
                    for place in places.chain([at.cell("(rows)", &peer)]) {
                        harness.matrix.add(place, Outcome::Refused(why.clone()));
                    }
                }
            }
        }
        let took = begun.elapsed().as_secs_f64();
        let count = wanted.len();
        harness.done(&format!(
            "{PHASE} {}/{count}: {} {took:.1} s",
            i + 1,
            case.name
        ));
    }
}

fn one(
    peer: &mut Peer,
    binary: &Binary,
    folder: &Path,
    at: &At,
    case: &Case,
) -> Result<Cells, String> {
    let made = made(peer, binary, folder, case)?;
    let written = without(&made.case, &made.refused);
    let expected = compare::by_id(&written.batch(0, 2 * case.rows))?;
    let mut cells = judge(at, &written, &peer.name, &expected, &own(&made.ours));
    for column in case.columns.iter() {
        if let Some(said) = made.refused.get(&column.name) {
            let place = at.column(&column.row, &peer.name);
            cells.push((place, Outcome::Refused(said.clone())));
        }
    }
    if case.has_null_partition() {
        let outcome = made.no_nulls.map_or(Outcome::Equal, Outcome::Refused);
        cells.push((at.cell("(partition null)", &peer.name), outcome));
    }
    let verified = Outcome::of(made.ours.verify().err());
    cells.push((at.cell("(verify)", &peer.name), verified));
    let said = our_lists(&made.ours)?;
    for (row, outcome) in lists(peer, &made.ours.table, &said) {
        cells.push((at.cell(&row, &peer.name), outcome));
    }
    made.ours.remove();
    Ok(cells)
}

/// A table that a peer filled in two commits.
struct Made {
    ours: Ours,
    /// As it was written: without null partitions where the peer has none.
    case: Case,
    /// The peer's word about null partitions.
    no_nulls: Option<String>,
    /// The columns that it refuses; they are left out.
    refused: Refusals,
}

/// Where nothing at all can be written, tries it without null partitions.
fn made(peer: &mut Peer, binary: &Binary, folder: &Path, case: &Case) -> Result<Made, String> {
    let said = match table_of(peer, binary, folder, case) {
        Ok((ours, refused)) => {
            return Ok(Made {
                ours,
                case: case.clone(),
                no_nulls: None,
                refused,
            });
        }
        Err(said) if case.has_null_partition() => said,
        Err(said) => return Err(said),
    };
    let case = case.without_null_partitions();
    let (ours, refused) = table_of(peer, binary, folder, &case)?;
    Ok(Made {
        ours,
        case,
        no_nulls: Some(said),
        refused,
    })
}

/// The case without some columns.
pub(crate) fn without(case: &Case, refused: &Refusals) -> Case {
    let mut case = case.clone();
    case.columns.retain(|c| !refused.contains_key(&c.name));
    case
}

/// A table made and filled by the peer in two commits, and the columns that it refuses to write: they
/// are found by halves and left out.
fn table_of(
    peer: &mut Peer,
    binary: &Binary,
    folder: &Path,
    case: &Case,
) -> Result<(Ours, Refusals), String> {
    let mut refused = Refusals::new();
    let said = match attempt(peer, binary, folder, case) {
        Ok(ours) => return Ok((ours, refused)),
        Err(said) => said,
    };
    let fixed = |name: &String| name == "id" || name == "k" || case.partition.contains(name);
    let only = |names: &[String]| {
        let mut part = case.clone();
        part.columns
            .retain(|c| fixed(&c.name) || names.contains(&c.name));
        part
    };
    attempt(peer, binary, folder, &only(&[]))?;
    let names = case.columns.iter().map(|c| c.name.clone());
    let mut open = vec![(names.filter(|n| !fixed(n)).collect::<Vec<_>>(), said)];
    while let Some((names, said)) = open.pop() {
        if let [one] = names.as_slice() {
            refused.insert(one.clone(), said);
            continue;
        }
        let (a, b) = names.split_at(names.len() / 2);
        for half in [a, b].into_iter().filter(|h| !h.is_empty()) {
            if let Err(said) = attempt(peer, binary, folder, &only(half)) {
                open.push((half.to_vec(), said));
            }
        }
    }
    let ours = attempt(peer, binary, folder, &without(case, &refused))?;
    Ok((ours, refused))
}

fn attempt(peer: &mut Peer, binary: &Binary, folder: &Path, case: &Case) -> Result<Ours, String> {
    let ours = Ours::new(binary, folder)?;
    create(peer, &ours, case)?;
    for from in [0, case.rows] {
        let rows = case.batch(from, case.rows);
        peer.write(&ours.table, &rows)?;
    }
    Ok(ours)
}

/// Java makes the table itself. pypaimon makes tables of Arrow's types only, so ours is taken there.
pub(crate) fn create(peer: &mut Peer, ours: &Ours, case: &Case) -> Result<(), String> {
    if peer.release().is_none() {
        return ours.create(case);
    }
    let field = |c: &crate::types::Column| json!({"name": c.name, "type": c.sql});
    let fields: Vec<Value> = case.columns.iter().map(field).collect();
    let options = case.options.iter().map(|(k, v)| (k.clone(), json!(v)));
    let options: serde_json::Map<String, Value> = options.collect();
    let schema = json!({"fields": fields, "partitionKeys": case.partition, "options": options});
    peer.on("create", &ours.table, schema).map(|_| ())
}

/// The case as the peer can write it, and the columns that it refuses, by trying.
pub(crate) fn writable(
    harness: &mut Harness,
    peer: usize,
    case: &Case,
) -> Result<(Case, Refusals), String> {
    let Some(peer) = harness.peers.get_mut(peer) else {
        return Ok((case.clone(), Refusals::new()));
    };
    let folder = harness.work.join(format!("tried-{}", peer.name));
    let made = made(peer, &harness.binary, &folder, case)?;
    made.ours.remove();
    Ok((made.case, made.refused))
}
