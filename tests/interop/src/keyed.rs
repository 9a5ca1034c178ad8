//! Keyed tables: a twin that Java alone writes from the same rows holds the same, and tells the same
//! changes; then Java and we go on in turn, with compactions of both.

use crate::cases::Case;
use crate::compare::{Rows, plain};
use crate::harness::{At, Harness, Reading, judge, read};
use crate::matrix::Outcome;
use crate::ours::Ours;
use crate::written::{US, own};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;
use tidegate_interop::peer::Peer;

const PHASE: &str = "keyed";
const TURNS: usize = 3;

/// All these tables, with every Java that is new enough to look at keyed tables as 1.4 does.
pub(crate) fn run(harness: &mut Harness, cases: &[Case]) {
    let peers: Vec<usize> = harness
        .peers
        .iter()
        .enumerate()
        .filter(|(_, p)| p.release().is_some_and(|r| r.starts_with("1.4")))
        .map(|(i, _)| i)
        .collect();
    for case in cases
        .iter()
        .filter(|c| harness.wanted(PHASE, &c.name))
        .collect::<Vec<_>>()
    {
        for peer in &peers {
            let begun = Instant::now();
            let at = At::of(PHASE, case);
            if let Err(why) = one(harness, &at, case, *peer) {
                let place = at.cell("(rows)", US);
                harness.matrix.add(place, Outcome::Differs(why));
            }
            harness.done(&format!(
                "{PHASE}: {} {:.1} s",
                case.name,
                begun.elapsed().as_secs_f64()
            ));
        }
    }
}

fn one(harness: &mut Harness, at: &At, case: &Case, peer: usize) -> Result<(), String> {
    let ours = harness.ours(at.phase, &case.name)?;
    let Some(peer) = harness.peers.get_mut(peer) else {
        return Err("there is no such peer".to_owned());
    };
    let n = case.rows;
    ours.job(case, &json!({}))?;
    let mut cells = Vec::new();
    let mut twin = String::new();
    for i in 0..3 {
        let rows = case.batch(n * i, n);
        ours.input(&format!("{i}.json"), &rows)?;
        ours.run()?;
        if i == 0 {
            twin = ours.twin()?;
        }
        peer.write(&twin, &rows)?;
    }
    let mut table = Table {
        at,
        case,
        ours: &ours,
        peer,
        twin: &twin,
    };
    table.compare("", &mut cells)?;
    for turn in 1..=TURNS {
        let theirs = case.batch(n * (1 + 2 * turn), n);
        table.peer.write(&ours.table, &theirs)?;
        table.peer.write(&twin, &theirs)?;
        if turn == 2 {
            table
                .peer
                .on("compact", &ours.table, json!({"full": true}))?;
            table.peer.on("compact", &twin, json!({"full": true}))?;
        }
        let more = case.batch(n * (2 + 2 * turn), n);
        ours.input("more.json", &more)?;
        ours.run()
            .map_err(|why| format!("turn {turn}: we do not go on: {why}"))?;
        table.peer.write(&twin, &more)?;
        if turn == 3 {
            ours.compact()?;
            table.peer.on("compact", &twin, json!({"full": true}))?;
        }
        table.compare(&format!(", turn {turn}"), &mut cells)?;
    }
    table.changes(&mut cells)?;
    for (place, outcome) in cells {
        harness.matrix.add(place, outcome);
    }
    ours.remove();
    Ok(())
}

type Cells = Vec<(crate::matrix::Place, Outcome)>;

struct Table<'a> {
    at: &'a At,
    case: &'a Case,
    ours: &'a Ours,
    peer: &'a mut Peer,
    /// The folder of Java's table.
    twin: &'a str,
}

impl Table<'_> {
    /// Our table as Java and as we read it, beside the twin.
    fn compare(&mut self, when: &str, cells: &mut Cells) -> Result<(), String> {
        let twin = read(self.peer, self.twin, self.case, &json!({}));
        let expected = whole(twin)?;
        let theirs = read(self.peer, &self.ours.table, self.case, &json!({}));
        let name = self.peer.name.clone();
        for (who, reading) in [(US, own(self.ours)), (&name, theirs)] {
            let wrong = judge(self.at, self.case, who, &expected, &reading)
                .into_iter()
                .find(|(_, outcome)| *outcome != Outcome::Equal);
            let outcome = wrong.map_or(Outcome::Equal, |(place, o)| {
                Outcome::Differs(format!("{}: {o:?}", place.row))
            });
            cells.push((self.at.cell(&format!("(rows{when})"), who), outcome));
        }
        let verified = self.ours.verify().err();
        cells.push((
            self.at.cell(&format!("(check{when})"), US),
            Outcome::of(verified),
        ));
        let checked = match self.peer.on("check", &self.ours.table, json!({})) {
            Err(said) => Outcome::Refused(said),
            Ok(found) if found.get("errors").and_then(Value::as_i64) == Some(0) => Outcome::Equal,
            Ok(found) => Outcome::Differs(found.to_string()),
        };
        cells.push((self.at.cell(&format!("(check{when})"), &name), checked));
        Ok(())
    }

    /// The changes of our table as Java and as we read them: they fold to its rows; those of an input
    /// changelog are the twin's, one by one.
    fn changes(&mut self, cells: &mut Cells) -> Result<(), String> {
        let option = |name: &str| {
            let found = self.case.options.iter().find(|(k, _)| k == name);
            found.map_or("", |(_, v)| v.as_str()).to_owned()
        };
        let producer = option("changelog-producer");
        let plainly = option("merge-engine").is_empty() && option("sequence.field").is_empty();
        let told = |peer: &mut Peer, table: &str| -> Result<Vec<Value>, String> {
            let steps = peer.list("changelog", table, json!({"from": "1", "order": "file"}))?;
            let rows = steps
                .into_iter()
                .filter_map(|mut s| Some(s.get_mut("rows")?.take()));
            Ok(rows
                .filter_map(|r| r.as_array().cloned())
                .flatten()
                .collect())
        };
        let theirs = told(self.peer, &self.ours.table)?;
        let twins = told(self.peer, self.twin)?;
        let name = self.peer.name.clone();
        let expected = whole(own(self.ours))?;
        for (who, rows) in [(US, self.ours.changes()?), (&name, theirs)] {
            let outcome = match producer.as_str() {
                "input" => self.same(&twins, &rows),
                "full-compaction" => self.folds(&rows, &expected, true),
                // Records of other engines do not replace what stood there.
                _ if plainly => self.folds(&rows, &expected, false),
                _ => Outcome::Absent(
                    "without a changelog such an engine tells parts of rows".to_owned(),
                ),
            };
            cells.push((self.at.cell("(changes)", who), outcome));
        }
        Ok(())
    }

    fn text(&self, row: &Value, names: &mut dyn Iterator<Item = &str>) -> String {
        let cell = |name: &str| {
            let column = self.case.columns.iter().find(|c| c.name == name)?;
            Some(plain(&column.shape, row.get(name).unwrap_or(&Value::Null)))
        };
        names.filter_map(cell).collect::<Vec<_>>().join("|")
    }

    fn line(&self, row: &Value) -> String {
        let kind = row.get("_kind").and_then(Value::as_str).unwrap_or("?");
        let names = self.case.columns.iter().map(|c| c.name.as_str());
        format!("{kind} {}", self.text(row, &mut { names }))
    }

    fn same(&self, expected: &[Value], found: &[Value]) -> Outcome {
        let lines = |rows: &[Value]| {
            let mut lines: Vec<String> = rows.iter().map(|row| self.line(row)).collect();
            lines.sort();
            lines
        };
        let (expected, found) = (lines(expected), lines(found));
        let pair = expected.iter().zip(&found).find(|(a, b)| a != b);
        Outcome::of(match pair {
            Some((a, b)) => Some(format!("the twin tells {a}, ours {b}")),
            None if expected.len() != found.len() => Some(format!(
                "{} changes, the twin tells {}",
                found.len(),
                expected.len()
            )),
            None => None,
        })
    }

    fn folds(&self, rows: &[Value], expected: &Rows, strictly: bool) -> Outcome {
        let mut content: BTreeMap<String, i64> = BTreeMap::new();
        for row in rows {
            let key = self.text(row, &mut self.case.key.iter().map(String::as_str));
            let id = row.get("id").and_then(Value::as_i64).unwrap_or(-1);
            let adds = matches!(row.get("_kind").and_then(Value::as_str), Some("+I" | "+U"));
            let stood = match adds {
                true => content.insert(key, id),
                false => content.remove(&key),
            };
            let right = match adds {
                true => stood.is_none(),
                false => stood == Some(id),
            };
            if strictly && !right {
                return Outcome::Differs(format!("{} where {stood:?} stood", self.line(row)));
            }
        }
        let mut ids: Vec<i64> = content.into_values().collect();
        ids.sort_unstable();
        let wanted: Vec<i64> = expected.keys().copied().collect();
        let same = ids == wanted;
        Outcome::of(
            (!same).then(|| format!("the changes fold to {ids:?}, the table has {wanted:?}")),
        )
    }
}

/// The rows of a reading that lacks nothing.
fn whole(reading: Reading) -> Result<Rows, String> {
    let said = reading.whole.or(reading.broken);
    match said.or_else(|| reading.refused.into_values().next()) {
        Some(said) => Err(said),
        None => Ok(reading.rows),
    }
}
