//! What peers are known not to do: a list of cells, each with the peer's own message and our reason.

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
    /// A part of the peer's message, or of the difference.
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

    /// The first rule for a cell; none where that is an exception.
    pub(crate) fn find(&self, peer: &str, phase: &str, case: &str, row: &str) -> Option<&Rule> {
        let fits = |r: &&Rule| {
            any(&r.peer, peer) && any(&r.phase, phase) && any(&r.case, case) && any(&r.row, row)
        };
        self.0.iter().find(fits).filter(|r| r.letter != '=')
    }

    /// All rules but exceptions.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter().filter(|r| r.letter != '=')
    }
}

impl Rule {
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

    #[test]
    fn the_first_rule_that_fits_is_taken() {
        let text = "# c\n1.0.1 | write | * | timestamp_9*, ltz_9* | r | no nanos | its reader\n";
        let rules = Rules::parse(text).unwrap();
        let rule = rules
            .find("1.0.1", "write", "fixed/none", "ltz_9!")
            .unwrap();
        assert_eq!(
            (rule.letter, rule.says.as_str(), rule.line()),
            ('r', "no nanos", 2)
        );
        assert!(
            rules
                .find("1.0.1", "write", "fixed/none", "ltz_6")
                .is_none()
        );
        assert!(Rules::parse("a | b | c").unwrap_err().contains("line 1"));
    }
}
