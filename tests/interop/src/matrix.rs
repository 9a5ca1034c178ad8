//! The matrix: one letter per cell, whether it is as expected, and how it prints.

use crate::expect::Rules;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The letters.
pub(crate) const LEGEND: &str = "\
= equal            r the peer refuses by its own message, as listed below
x differs          k the peer answers something else by its own doing, as listed below
R refuses, though not listed      E listed as r or k, yet equal
- does not exist in that release, or the peer has no such thing (said below)
anything but = r k - is a deviation and makes the command fail";

/// The parts of the harness.
const PHASES: &[&str] = &[
    "we write",
    "they write",
    "in turn",
    "keyed",
    "options",
    "refused",
    "committables",
];

/// Stands between the parts of a note that has several; an expectation must fit each of them.
pub(crate) const PARTS: &str = " ¶ ";

/// What was found for a cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// Equal.
    Equal,
    /// Something else, in words.
    Differs(String),
    /// The peer's message.
    Refused(String),
    /// There is nothing to compare, and why.
    Absent(String),
}

impl Outcome {
    /// Of a comparison: `None` = no difference.
    pub(crate) fn of(difference: Option<String>) -> Self {
        difference.map_or(Self::Equal, Self::Differs)
    }
}

/// Where a cell stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Part of the harness.
    pub(crate) phase: &'static str,
    /// Block.
    pub(crate) group: String,
    /// Column.
    pub(crate) case: String,
    /// Row.
    pub(crate) row: String,
    /// Letter within the column.
    pub(crate) peer: String,
}

/// A cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// Where.
    pub(crate) place: Place,
    /// What is printed.
    pub(crate) letter: char,
    /// Message or difference.
    pub(crate) note: String,
    rule: Option<usize>,
}

/// All cells, in the order in which they came.
pub(crate) struct Matrix {
    rules: Rules,
    cells: Vec<Cell>,
    known: BTreeMap<Place, usize>,
}

impl Matrix {
    /// An empty one that knows what to expect.
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            cells: Vec::new(),
            known: BTreeMap::new(),
        }
    }

    /// Judges an outcome and keeps it, in place of an earlier one for the same cell.
    pub(crate) fn add(&mut self, place: Place, outcome: Outcome) {
        let line = self.rules.find(&place);
        let rule = line.filter(|r| r.letter != '=');
        let (letter, note) = match outcome {
            Outcome::Equal if rule.is_some() => ('E', "listed, yet equal".to_owned()),
            Outcome::Equal => ('=', String::new()),
            Outcome::Absent(why) => ('-', why),
            Outcome::Refused(said) => {
                let known = rule.is_some_and(|r| r.letter == 'r' && r.explains(&said));
                (if known { 'r' } else { 'R' }, said)
            }
            Outcome::Differs(how) => {
                let known = rule.is_some_and(|r| r.letter == 'k' && r.explains(&how));
                (if known { 'k' } else { 'x' }, how)
            }
        };
        let rule = line.map(crate::expect::Rule::line);
        let cell = Cell {
            place: place.clone(),
            letter,
            note,
            rule,
        };
        match self
            .known
            .get(&place)
            .and_then(|at| self.cells.get_mut(*at))
        {
            Some(old) => *old = cell,
            None => {
                self.known.insert(place, self.cells.len());
                self.cells.push(cell);
            }
        }
    }

    /// Cells that are not as they should be.
    pub(crate) fn deviations(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|c| !"=rk-".contains(c.letter))
    }

    /// How many cells there are of each letter.
    pub(crate) fn counts(&self) -> BTreeMap<char, usize> {
        let mut counts = BTreeMap::new();
        self.cells
            .iter()
            .for_each(|c| *counts.entry(c.letter).or_default() += 1);
        counts
    }

    /// What of the list of expectations no cell met.
    pub(crate) fn unmet(&self) -> Vec<String> {
        let met: Vec<_> = self
            .cells
            .iter()
            .filter_map(|c| Some((c.rule?, &c.place, c.note.as_str())))
            .collect();
        self.rules.unmet(&met)
    }

    /// The whole as JSON.
    pub(crate) fn json(&self) -> Value {
        let cell = |c: &Cell| {
            json!({
                "phase": c.place.phase, "group": c.place.group, "table": c.place.case,
                "row": c.place.row, "peer": c.place.peer, "letter": c.letter.to_string(), "note": c.note,
            })
        };
        Value::Array(self.cells.iter().map(cell).collect())
    }

    /// Cells that an earlier run wrote as JSON, judged by the list as it is now.
    pub(crate) fn add_json(&mut self, cells: &Value) -> Result<(), String> {
        for cell in cells.as_array().ok_or("no list of cells")? {
            let text = |key: &str| {
                let text = cell.get(key).and_then(Value::as_str);
                text.map(str::to_owned)
                    .ok_or_else(|| format!("a cell without {key}"))
            };
            let phase = text("phase")?;
            let place = Place {
                phase: PHASES.iter().find(|p| **p == phase).copied().unwrap_or("?"),
                group: text("group")?,
                case: text("table")?,
                row: text("row")?,
                peer: text("peer")?,
            };
            let note = text("note")?;
            let outcome = match text("letter")?.as_str() {
                "=" | "E" => Outcome::Equal,
                "-" => Outcome::Absent(note),
                "r" | "R" => Outcome::Refused(note),
                _ => Outcome::Differs(note),
            };
            self.add(place, outcome);
        }
        Ok(())
    }

    /// The whole as text.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let mut blocks: Vec<(&str, &str)> = Vec::new();
        for cell in &self.cells {
            let block = (cell.place.phase, cell.place.group.as_str());
            if !blocks.contains(&block) {
                blocks.push(block);
            }
        }
        for (phase, group) in blocks {
            let cells: Vec<&Cell> = self
                .cells
                .iter()
                .filter(|c| c.place.phase == phase && c.place.group == group)
                .collect();
            block(&mut out, &format!("{phase}: {group}"), &cells);
        }
        let _written = writeln!(out, "{LEGEND}\n");
        self.notes(&mut out);
        out
    }

    /// Messages of the peers and deviations, each once.
    fn notes(&self, out: &mut String) {
        let mut said: BTreeMap<(char, &str, String), Vec<&Cell>> = BTreeMap::new();
        for cell in self.cells.iter().filter(|c| c.letter != '=') {
            let note = match cell.letter {
                'k' | 'x' => cell.note.clone(),
                _ => general(&cell.note),
            };
            let reason = cell.rule.and_then(|line| self.rules.at(line));
            let key = match (cell.letter, reason) {
                ('k' | 'r', Some(rule)) => format!("{} — {}", rule.says, rule.reason),
                _ => note,
            };
            said.entry((cell.letter, &cell.place.peer, key))
                .or_default()
                .push(cell);
        }
        for ((letter, peer, note), cells) in said {
            let Some(first) = cells.first() else { continue };
            let at = &first.place;
            let _written = writeln!(
                out,
                "{letter} {peer}: {} ({} cells, first: {}: {} {} {})",
                crate::compare::short(&note),
                cells.len(),
                at.phase,
                at.group,
                at.case,
                at.row
            );
            if "rkxR".contains(letter) {
                let _written = writeln!(out, "    “{}”", crate::compare::short(&first.note));
            }
        }
    }
}

/// A message without the digits and names that differ from table to table.
fn general(note: &str) -> String {
    let digits: String = note
        .chars()
        .map(|c| if c.is_ascii_digit() { '#' } else { c })
        .collect();
    digits.chars().take(70).collect()
}

fn block(out: &mut String, title: &str, cells: &[&Cell]) {
    let order = |of: &dyn Fn(&Cell) -> &str| {
        let mut list: Vec<String> = Vec::new();
        for cell in cells {
            if !list.iter().any(|k| k == of(cell)) {
                list.push(of(cell).to_owned());
            }
        }
        list
    };
    let cases = order(&|c| &c.place.case);
    let rows = order(&|c| &c.place.row);
    let peers = order(&|c| &c.place.peer);
    let letters: BTreeMap<(&str, &str, &str), char> = cells
        .iter()
        .map(|c| {
            (
                (
                    c.place.row.as_str(),
                    c.place.case.as_str(),
                    c.place.peer.as_str(),
                ),
                c.letter,
            )
        })
        .collect();
    let _written = writeln!(
        out,
        "## {title}\n   letters of a column, in order: {}",
        peers.join(" ")
    );
    let label = rows.iter().map(|r| r.chars().count()).max().unwrap_or(0);
    let width = peers.len().max(2) + 1;
    let fit = (180usize.saturating_sub(label) / width).max(1);
    for (part, chunk) in cases.chunks(fit).enumerate() {
        let numbers: Vec<usize> = (0..chunk.len()).map(|i| part * fit + i + 1).collect();
        for (number, case) in numbers.iter().zip(chunk) {
            let _written = writeln!(out, "   {number:>2} {case}");
        }
        let _written = write!(out, "{:label$}", "");
        for number in &numbers {
            let _written = write!(out, " {number:<w$}", w = width - 1);
        }
        out.push('\n');
        for row in &rows {
            let mut line = format!("{row}{}", " ".repeat(label - row.chars().count()));
            let mut any = false;
            for case in chunk {
                let text: String = peers
                    .iter()
                    .map(|p| {
                        letters
                            .get(&(row.as_str(), case.as_str(), p.as_str()))
                            .copied()
                    })
                    .map(|l| l.unwrap_or(' '))
                    .collect();
                any |= !text.trim().is_empty();
                let _written = write!(line, " {text:<w$}", w = width - 1);
            }
            if any {
                out.push_str(line.trim_end());
                out.push('\n');
            }
        }
        out.push('\n');
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn place(row: &str) -> Place {
        Place {
            phase: "we write",
            group: "types".into(),
            case: "fixed/none".into(),
            row: row.into(),
            peer: "1.0.1".into(),
        }
    }

    #[test]
    fn an_earlier_run_is_judged_anew() {
        let mut matrix = Matrix::new(Rules::default());
        matrix.add(place("a"), Outcome::Refused("I cannot".into()));
        matrix.add(place("b"), Outcome::Equal);
        let rules = "1.0.1 | we write | * | a | r | cannot | it";
        let mut again = Matrix::new(Rules::parse(rules).unwrap());
        again.add_json(&matrix.json()).unwrap();
        assert_eq!(again.counts(), BTreeMap::from([('=', 1), ('r', 1)]));
        assert!(again.add_json(&json!([{"phase": "we write"}])).is_err());
    }

    #[test]
    fn whatever_is_not_listed_is_a_deviation() {
        let rules = "1.0.1 | we write | * | a, b, c | r | cannot | it\n1.0.1 | we write | * | d | k | read 1 | it\n\
                     1.0.1 | we write | * | never | r | cannot | it";
        let mut matrix = Matrix::new(Rules::parse(rules).unwrap());
        matrix.add(place("a"), Outcome::Refused("I cannot".into()));
        matrix.add(place("b"), Outcome::Refused("I will not".into()));
        matrix.add(place("c"), Outcome::Equal);
        matrix.add(place("d"), Outcome::Differs("expected 2, read 1".into()));
        matrix.add(place("e"), Outcome::Differs("expected 2, read 1".into()));
        matrix.add(place("f"), Outcome::Refused("I cannot".into()));
        matrix.add(place("g"), Outcome::Equal);
        matrix.add(place("h"), Outcome::Absent("not there".into()));
        let letters: String = matrix.cells.iter().map(|c| c.letter).collect();
        assert_eq!(letters, "rREkxR=-");
        assert_eq!(matrix.deviations().count(), 4);
        assert_eq!(matrix.unmet(), ["line 3: no cell met it"]);
        assert!(
            matrix.text().contains("we write: types"),
            "{}",
            matrix.text()
        );
    }
}
