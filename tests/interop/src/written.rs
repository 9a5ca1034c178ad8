//! We write with the real binary, every peer reads.

use crate::cases::Case;
use crate::compare::{self, Rows};
use crate::harness::{At, Harness, Reading, judge, lists, our_lists, read, with_all};
use crate::matrix::{Outcome, Place};
use crate::ours::Ours;
use serde_json::{Value, json};
use std::time::Instant;

/// The name of our own reader in the matrix.
pub(crate) const US: &str = "tidegate";

const PHASE: &str = "we write";

/// All these tables.
pub(crate) fn run(harness: &mut Harness, cases: &[Case]) {
    let wanted: Vec<&Case> = cases
        .iter()
        .filter(|c| harness.wanted(PHASE, &c.name))
        .collect();
    for (i, case) in wanted.iter().enumerate() {
        let begun = Instant::now();
        let at = At::of(PHASE, case);
        if let Err(why) = one(harness, &at, case) {
            harness.matrix.add(
                at.cell("(rows)", US),
                Outcome::Differs(format!("we failed: {why}")),
            );
        }
        let took = begun.elapsed().as_secs_f64();
        harness.done(&format!(
            "{PHASE} {}/{}: {} {took:.1} s",
            i + 1,
            wanted.len(),
            case.name
        ));
    }
}

fn one(harness: &mut Harness, at: &At, case: &Case) -> Result<(), String> {
    let ours = harness.ours(at.phase, &case.name)?;
    let all = write(&ours, case)?;
    let first = compare::by_id(&case.batch(0, case.rows))?;
    cells(harness, at, case, &ours, &all)?;
    // Time travel: the first commit alone.
    let one_snapshot = json!({"scan.snapshot-id": "1"});
    let ids = Case {
        columns: case.columns.get(..1).unwrap_or_default().to_vec(),
        ..case.clone()
    };
    let found = with_all(&mut harness.peers, |peer| {
        let reading = read(peer, &ours.table, &ids, &one_snapshot);
        (peer.name.clone(), reading)
    });
    for (peer, reading) in found {
        let outcome = match reading.whole {
            Some(said) => Outcome::Refused(said),
            None => Outcome::of(compare::ids(&first, &reading.rows)),
        };
        harness.matrix.add(at.cell("(snapshot 1)", &peer), outcome);
    }
    ours.remove();
    Ok(())
}

/// Two commits: the second part of the input comes in a second run of the job.
pub(crate) fn write(ours: &Ours, case: &Case) -> Result<Rows, String> {
    ours.job(case, &json!({}))?;
    ours.input("a.json", &case.batch(0, case.rows))?;
    ours.run()?;
    ours.input("b.json", &case.batch(case.rows, case.rows))?;
    ours.run()?;
    compare::by_id(&case.batch(0, 2 * case.rows))
}

/// Reads with us and with all peers, and compares rows, lists, checks.
pub(crate) fn cells(
    harness: &mut Harness,
    at: &At,
    case: &Case,
    ours: &Ours,
    expected: &Rows,
) -> Result<(), String> {
    let said = our_lists(ours)?;
    // We read while they read.
    let (cells, found) = std::thread::scope(|scope| {
        let own = scope.spawn(|| {
            let mut cells: Vec<(Place, Outcome)> = judge(at, case, US, expected, &own(ours));
            cells.push((at.cell("(check)", US), Outcome::of(ours.verify().err())));
            cells
        });
        let found = with_all(&mut harness.peers, |peer| {
            let reading = read(peer, &ours.table, case, &json!({}));
            let mut cells = judge(at, case, &peer.name, expected, &reading);
            for (row, outcome) in lists(peer, &ours.table, &said) {
                cells.push((at.cell(&row, &peer.name), outcome));
            }
            cells
        });
        match own.join() {
            Ok(cells) => (cells, found),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    });
    for (place, outcome) in cells.into_iter().chain(found.into_iter().flatten()) {
        harness.matrix.add(place, outcome);
    }
    Ok(())
}

/// What we read ourselves.
pub(crate) fn own(ours: &Ours) -> Reading {
    let mut reading = Reading::default();
    match ours
        .list("read")
        .and_then(|rows: Vec<Value>| compare::by_id(&rows))
    {
        Ok(rows) => reading.rows = rows,
        Err(why) => reading.whole = Some(why),
    }
    reading
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use crate::cases;
    use crate::compare;
    use crate::expect::Rules;
    use crate::harness::{At, Reading, judge};
    use crate::matrix::Matrix;
    use serde_json::json;

    /// One altered value of a real table makes exactly its cell an `x`, a lost row one of `(rows)`.
    #[test]
    fn an_altered_value_or_a_lost_row_shows_as_x() {
        let all = cases::crossed().into_iter().chain(cases::places());
        for case in
            all.filter(|c| ["hive/date", "unaware/none multiset"].contains(&c.name.as_str()))
        {
            let at = At::of("we write", &case);
            let expected = compare::by_id(&case.batch(0, case.rows)).unwrap();
            let deviating = |reading: &Reading| {
                let mut matrix = Matrix::new(Rules::default());
                for (place, outcome) in judge(&at, &case, "peer", &expected, reading) {
                    matrix.add(place, outcome);
                }
                let cells = matrix.deviations().map(|c| (c.letter, c.place.clone()));
                cells.collect::<Vec<_>>()
            };
            let mut reading = Reading {
                rows: expected.clone(),
                ..Reading::default()
            };
            assert!(deviating(&reading).is_empty(), "{}", case.name);
            for column in case.columns.iter().skip(1) {
                let kept = reading.rows[&3][&column.name].clone();
                reading.rows.get_mut(&3).unwrap()[&column.name] = json!("altered");
                let place = at.column(&column.row, "peer");
                assert_eq!(deviating(&reading), [('x', place)], "{}", case.name);
                reading.rows.get_mut(&3).unwrap()[&column.name] = kept;
            }
            reading.rows.remove(&3);
            assert_eq!(deviating(&reading), [('x', at.cell("(rows)", "peer"))]);
        }
    }
}
