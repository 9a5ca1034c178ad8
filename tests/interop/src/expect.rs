//! What peers are known not to do: a list of cells, each with the peer's own message and our reason.

use crate::matrix::Place;

/// One line of the list.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// Which peer.
    peer: String,
    /// Which part of the harness.
    phase: String,
    /// Which tables.
    case: String,
    /// Which rows of the matrix.
    row: String,
    /// `r` = the peer refuses, `k` = it answers something else, `=` = an exception from later lines.
    pub(crate) letter: char,
    /// A text that each part of the peer's message or of the difference has; ` or ` between alternatives.
    pub(crate) says: String,
    /// Why this is the peer's doing.
    pub(crate) reason: String,
    line: usize,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules(Vec<Rule>);

impl Rules {
    /// Lines of `peer | phase | table | row | letter | says | reason`; `*` stands for anything, a comma
    /// between alternatives; `#` begins a comment.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        for (i, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let parts: Vec<String> = line.split(" | ").map(|p| p.trim().to_owned()).collect();
            let [peer, phase, case, row, letter, says, reason] = parts.as_slice() else {
                return Err(format!(
                    "expectations, line {}: seven parts are wanted",
                    i + 1
                ));
            };
            let letter = letter.chars().next().filter(|l| "rk=".contains(*l));
            rules.push(Rule {
                peer: peer.clone(),
                phase: phase.clone(),
                case: case.clone(),
                row: row.clone(),
                letter: letter.ok_or_else(|| {
                    format!("expectations, line {}: the letter is r, k or =", i + 1)
                })?,
                says: says.clone(),
                reason: reason.clone(),
                line: i + 1,
            });
        }
        Ok(Self(rules))
    }

    /// The first rule for a cell; an exception too.
    pub(crate) fn find(&self, at: &Place) -> Option<&Rule> {
        let fits = |r: &&Rule| {
            r.patterns()
                .iter()
                .zip(fields(at))
                .all(|(p, text)| any(p, text))
        };
        self.0.iter().find(fits)
    }

    /// The rule of a line.
    pub(crate) fn at(&self, line: usize) -> Option<&Rule> {
        self.0.iter().find(|r| r.line == line)
    }

    /// Lines, and alternatives in lines, that no cell met: each is wider than what was found. `met`
    /// has the line that each cell fell under, its place and its note.
    pub(crate) fn unmet(&self, met: &[(usize, &Place, &str)]) -> Vec<String> {
        let mut found = Vec::new();
        for rule in &self.0 {
            let line = rule.line;
            let cells: Vec<_> = met.iter().filter(|(l, ..)| *l == line).collect();
            if cells.is_empty() {
                found.push(format!("line {line}: no cell met it"));
                continue;
            }
            for (i, patterns) in rule.patterns().iter().enumerate() {
                let texts = |p: &&str| {
                    let fits = |at: &Place| fields(at).get(i).is_some_and(|text| glob(p, text));
                    !cells.iter().any(|(_, at, _)| fits(at))
                };
                let idle = patterns.split(", ").filter(texts);
                found.extend(idle.map(|p| format!("line {line}: no cell met `{p}`")));
            }
            let unsaid = |s: &&str| !cells.iter().any(|(.., note)| note.contains(s));
            let idle = rule.says.split(OR).filter(unsaid);
            found.extend(
                idle.filter(|_| rule.letter != '=')
                    .map(|s| format!("line {line}: no cell said `{s}`")),
            );
        }
        found
    }
}

/// Between texts of which one must be in the message.
const OR: &str = " or ";

/// In the order of a line's patterns.
fn fields(at: &Place) -> [&str; 4] {
    [&at.peer, at.phase, &at.case, &at.row]
}

impl Rule {
    fn patterns(&self) -> [&str; 4] {
        [&self.peer, &self.phase, &self.case, &self.row]
    }

    /// Whether what was found is what the line says, in each of its parts.
    pub(crate) fn explains(&self, note: &str) -> bool {
        let known = |part: &str| self.says.split(OR).any(|s| part.contains(s));
        note.split(crate::matrix::PARTS).all(known)
    }

    /// Its line in the list.
    pub(crate) fn line(&self) -> usize {
        self.line
    }
}

fn any(patterns: &str, text: &str) -> bool {
    patterns.split(", ").any(|p| glob(p.trim(), text))
}

/// `*` stands for anything.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| {
            let ends = rest.char_indices().map(|(i, _)| i).chain([rest.len()]);
            ends.into_iter()
                .any(|i| rest.get(i..).is_some_and(|r| glob(tail, r)))
        }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        assert!(glob("*", "") && glob("a*c", "abbc") && glob("*b*", "abc") && glob("ab", "ab"));
        assert!(!glob("a*c", "abcd") && !glob("ab", "abc") && !glob("*x*", "abc"));
    }

    fn place(case: &str, row: &str) -> Place {
        Place {
            phase: "they write",
            group: "types".into(),
            case: case.into(),
            row: row.into(),
            peer: "1.0.1".into(),
        }
    }

    #[test]
    fn the_first_rule_that_fits_is_taken() {
        let text =
            "# c\n1.0.1 | they write | * | timestamp_9*, ltz_9* | r | no nanos | its reader\n";
        let rules = Rules::parse(text).unwrap();
        let rule = rules.find(&place("fixed/none", "ltz_9!")).unwrap();
        assert_eq!(
            (rule.letter, rule.says.as_str(), rule.line()),
            ('r', "no nanos", 2)
        );
        assert!(rules.find(&place("fixed/none", "ltz_6")).is_none());
        assert!(Rules::parse("a | b | c").unwrap_err().contains("line 1"));
    }

    #[test]
    fn a_line_explains_only_what_it_says_in_each_part() {
        let text = "1.0.1 | * | * | * | k | bucket is or no nanos | it";
        let rules = Rules::parse(text).unwrap();
        let rule = rules.find(&place("fixed/none", "(check)")).unwrap();
        assert!(rule.explains("check: a: bucket is 1 ¶ check: b: no nanos"));
        assert!(!rule.explains("check: a: bucket is 1 ¶ check: b: a row is missing"));
    }

    #[test]
    fn a_line_or_an_alternative_that_no_cell_met_is_told() {
        let text = "1.0.1, 1.3.1 | they write | fixed/* | a, b | k | one or two | it\n\
                    1.0.1 | in turn | * | * | = | - | never";
        let rules = Rules::parse(text).unwrap();
        let (at, note) = (place("fixed/none", "a"), "it says one");
        assert_eq!(
            rules.unmet(&[(1, &at, note)]),
            [
                "line 1: no cell met `1.3.1`",
                "line 1: no cell met `b`",
                "line 1: no cell said `two`",
                "line 2: no cell met it",
            ]
        );
    }
}
