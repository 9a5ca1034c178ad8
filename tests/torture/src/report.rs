//! A cell in a line of a table, and what stands below it.

use crate::cells::{Cell, Outcome};
use crate::subject::Recovery;
use serde_json::{Value, json};

/// The table's head.
pub const HEAD: &str = "\
| peer | cell | tables, seconds | steps | rows acknowledged, read | kills in write, commit, after | answers dropped | offered again | refused | lost | doubled | left over (data files) | missing | snapshots |\n\
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

/// The name of a cell, with how the peer recovers where it has more than one way.
pub fn label(cell: Cell, recovery: Recovery) -> String {
    match recovery {
        Recovery::Own | Recovery::Filter => cell.name().to_owned(),
        Recovery::Again => format!("{}, committed again", cell.name()),
        Recovery::Look => format!("{}, looked up first", cell.name()),
    }
}

/// One line.
pub fn line(peer: &str, cell: &str, outcome: &Outcome) -> String {
    let (counts, verdict) = (&outcome.counts, &outcome.verdict);
    let [write, commit, after] = counts.kills;
    let unread = "unreadable".to_owned();
    let read = |n: usize| match &verdict.unreadable {
        None => n.to_string(),
        Some(_) => unread.clone(),
    };
    format!(
        "| {peer} | {cell} | {}, {} | {} | {}, {} | {write}, {commit}, {after} | {} | {} | {} | {} | {} | {} ({}) | {} | {} |",
        outcome.tables,
        outcome.took.as_secs(),
        counts.attempts,
        verdict.acknowledged,
        read(verdict.read),
        outcome.dropped,
        counts.offers,
        counts.refused,
        read(verdict.lost),
        read(verdict.doubled),
        verdict.left_over,
        verdict.left_over_data,
        verdict.missing,
        verdict.snapshots,
    )
}

/// What the line does not say, for a person.
pub fn details(outcome: &Outcome) -> Vec<String> {
    let mut lines = vec![format!(
        "  {} rows are there that were not acknowledged",
        outcome.verdict.unsaid,
    )];
    if let Some(why) = &outcome.verdict.unreadable {
        lines.push(format!("  unreadable: {why}"));
    }
    if let Some(why) = &outcome.counts.given_up {
        lines.push(format!("  gave up: {why}"));
    }
    for (words, n) in &outcome.counts.words {
        lines.push(format!("  {n} x {words}"));
    }
    lines
}

/// The same as JSON.
pub fn json(peer: &str, cell: &str, seed: u64, outcome: &Outcome) -> Value {
    let (counts, verdict) = (&outcome.counts, &outcome.verdict);
    json!({
        "peer": peer, "cell": cell, "seed": seed, "steps": counts.attempts,
        "acknowledged": verdict.acknowledged, "read": verdict.read, "unsaid": verdict.unsaid,
        "kills": counts.kills, "dropped": outcome.dropped, "tables": outcome.tables, "offers": counts.offers,
        "refused": counts.refused, "words": counts.words, "given_up": counts.given_up,
        "lost": verdict.lost, "doubled": verdict.doubled, "left_over": verdict.left_over,
        "left_over_data": verdict.left_over_data, "missing": verdict.missing,
        "snapshots": verdict.snapshots, "unreadable": verdict.unreadable,
        "seconds": outcome.took.as_secs(),
    })
}
