//! In turn, three times: a peer appends, we go on with the same job. Between our commits Java compacts
//! once, and once expires every snapshot but the newest, so that ours is gone.

use crate::cases::Case;
use crate::compare;
use crate::harness::{At, Harness, Refusals, judge};
use crate::matrix::Outcome;
use crate::theirs::{without, writable};
use crate::written::{US, cells, own};
use serde_json::json;
use std::time::Instant;
use tidegate_interop::peer::Peer;

const PHASE: &str = "in turn";
const TURNS: usize = 3;

/// All these tables, with every peer, and one with all peers in rotation.
pub(crate) fn run(harness: &mut Harness, cases: &[Case], with: Option<&str>) {
    let mut rounds: Vec<(String, Vec<usize>)> = harness
        .peers
        .iter()
        .enumerate()
        .filter(|(_, p)| with.is_none_or(|name| name == p.name))
        .map(|(i, p)| (p.name.clone(), vec![i]))
        .collect();
    // 1.0.1 compacts while it appends, and cannot read decimals of pypaimon; the crate takes its turns alone.
    let mixable = |p: &Peer| p.is_pypaimon() || p.release().is_some() && !p.is_before_1_3();
    let everyone = harness.peers.iter().enumerate();
    let everyone: Vec<usize> = everyone
        .filter_map(|(i, p)| mixable(p).then_some(i))
        .collect();
    if everyone.len() > 1 && with.is_none() {
        rounds.push(("everyone".to_owned(), everyone));
    }
    for (i, case) in cases.iter().enumerate() {
        for (j, (label, writers)) in rounds.iter().enumerate() {
            let mut at = At::of(PHASE, case);
            at.case = format!("{} ⇄ {label}", case.name);
            // Each kind of partition meets each peer in one of the bucket modes.
            let narrow = case.group == "partitions";
            let left_out = narrow && (writers.len() > 1 || (i + j) % 2 == 1);
            if left_out || !harness.wanted(PHASE, &at.case) {
                continue;
            }
            let begun = Instant::now();
            let stopped = match one(harness, &at, case, writers) {
                Ok(()) => None,
                Err(Stop::Ours(why)) => Some((US.to_owned(), Outcome::Differs(why))),
                Err(Stop::Peer(peer, said)) => Some((peer, Outcome::Refused(said))),
            };
            if let Some((peer, outcome)) = stopped {
                harness.matrix.add(at.cell("(rows)", &peer), outcome);
            }
            harness.done(&format!(
                "{PHASE}: {} {:.1} s",
                at.case,
                begun.elapsed().as_secs_f64()
            ));
        }
    }
}

/// Why a table's turns ended early.
enum Stop {
    /// We failed.
    Ours(String),
    /// A peer refused: who, and its word.
    Peer(String, String),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Ours(why)
    }
}

fn one(harness: &mut Harness, at: &At, case: &Case, writers: &[usize]) -> Result<(), Stop> {
    let mut refused = Refusals::new();
    let mut possible = case.clone();
    for writer in writers {
        let name = harness.peers.get(*writer).map(|p| p.name.clone());
        let (writable, columns) = writable(harness, *writer, &possible)
            .map_err(|said| Stop::Peer(name.unwrap_or_default(), said))?;
        possible = writable;
        refused.extend(columns);
    }
    let old = |w: &usize| harness.peers.get(*w).is_some_and(Peer::is_before_1_3);
    if writers.len() > 1 || writers.iter().any(old) {
        // pypaimon writes nanoseconds as INT64 where Java writes INT96 and reads nothing else; 1.0.1 does
        // not compact its own.
        let nanos = |sql: &str| sql.contains("TIMESTAMP(9)");
        let columns = case.columns.iter().filter(|c| nanos(&c.sql));
        let columns = columns.filter(|c| !case.partition.contains(&c.name));
        refused.extend(columns.map(|c| (c.name.clone(), String::new())));
    }
    let part = without(&possible, &refused);
    let n = case.rows;
    let ours = harness.ours(at.phase, &at.case)?;
    let mut all = part.batch(0, n);
    ours.job(&part, &json!({}))?;
    ours.input("a.json", &all)?;
    ours.run()?;
    for turn in 1..=TURNS {
        for writer in writers {
            let Some(peer) = harness.peers.get_mut(*writer) else {
                continue;
            };
            let rows = part.batch(10_000 * turn + 1_000 * writer, n);
            peer.write(&ours.table, &rows)
                .map_err(|said| Stop::Peer(peer.name.clone(), said))?;
            all.extend(rows);
            let between = match turn {
                2 => peer.release().map(|_| ("compact", json!({}))),
                3 => peer
                    .release()
                    .map(|_| ("expire", json!({"retainMax": 1, "retainMin": 1}))),
                _ => None,
            };
            if let Some((command, extra)) = between {
                peer.on(command, &ours.table, extra)
                    .map_err(|said| Stop::Peer(peer.name.clone(), said))?;
            }
        }
        // The input grows: in its file, then by another one.
        let more = part.batch(n * turn, n);
        ours.input(if turn == 2 { "b.json" } else { "a.json" }, &more)?;
        ours.run()
            .map_err(|why| format!("turn {turn}: we do not go on: {why}"))?;
        all.extend(more);
        let expected = compare::by_id(&all)?;
        let wrong = judge(at, &part, US, &expected, &own(&ours))
            .into_iter()
            .find(|(_, outcome)| *outcome != Outcome::Equal);
        let row = format!("(we go on, turn {turn})");
        let outcome = wrong.map_or(Outcome::Equal, |(place, o)| {
            Outcome::Differs(format!("{}: {o:?}", place.row))
        });
        harness.matrix.add(at.cell(&row, US), outcome);
    }
    let expected = compare::by_id(&all)?;
    cells(harness, at, &part, &ours, &expected)?;
    for column in case
        .columns
        .iter()
        .filter(|c| refused.contains_key(&c.name))
    {
        let why = "a peer that appends refuses to write the column, or writes what the others cannot read".to_owned();
        harness
            .matrix
            .add(at.column(&column.row, US), Outcome::Absent(why.clone()));
        for peer in &harness.peers {
            harness.matrix.add(
                at.column(&column.row, &peer.name),
                Outcome::Absent(why.clone()),
            );
        }
    }
    ours.remove();
    Ok(())
}
