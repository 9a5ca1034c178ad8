//! A schedule as text: one decision a line, the number first, then what it decides.
//!
//! Owns reading, writing and minimising. A script needs no seed: what it leaves open is 0.

use std::fmt::Write as _;

use crate::schedule::{Report, of_script};

/// The numbers of a script; lines that begin with `#` and whatever follows a number are for people.
///
/// # Errors
/// A line that begins with no number, naming it.
pub fn read(text: &str) -> Result<Vec<u32>, String> {
    let mut numbers = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let first = line.split_whitespace().next().unwrap_or_default();
        let number = first.parse();
        numbers.push(number.map_err(|_| format!("line {}: `{first}` is no number", at + 1))?);
    }
    Ok(numbers)
}

/// A report's decisions as a script; trailing zeros are left out.
pub fn write(report: &Report) -> String {
    let mut out = String::from("# A schedule of tests/simulation: one decision a line.\n");
    if let Err(why) = &report.verdict {
        let _ = writeln!(out, "# It broke: {why}");
    }
    let used = report.choices.iter().rposition(|choice| choice.value != 0);
    for choice in report.choices.iter().take(used.map_or(0, |at| at + 1)) {
        let _ = writeln!(out, "{} {}", choice.value, choice.what);
    }
    out
}

/// What broke, without the particulars.
pub fn invariant(why: &str) -> &str {
    why.split(':').next().unwrap_or(why)
}

struct Shrinking<'a> {
    invariant: &'a str,
    best: Vec<u32>,
    runs_left: u32,
}

impl Shrinking<'_> {
    fn still_breaks(&mut self, numbers: &[u32]) -> bool {
        if self.runs_left == 0 {
            return false;
        }
        self.runs_left -= 1;
        let report = of_script(numbers, false);
        matches!(&report.verdict, Err(why) if invariant(why) == self.invariant)
    }

    fn try_this(&mut self, numbers: Vec<u32>) -> bool {
        let better = self.still_breaks(&numbers);
        if better {
            self.best = numbers;
        }
        better
    }

    fn without_tail(&mut self) {
        let (mut low, mut high) = (0, self.best.len());
        while low < high {
            let middle = (low + high) / 2;
            let shorter = self.best[..middle].to_vec();
            match self.still_breaks(&shorter) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        self.try_this(self.best[..high.min(self.best.len())].to_vec());
    }

    /// Takes stretches out, and sets stretches to 0.
    fn stretches(&mut self, length: usize) -> bool {
        let mut better = false;
        let mut at = 0;
        while at < self.best.len() && self.runs_left > 0 {
            let end = (at + length).min(self.best.len());
            let mut shorter = self.best.clone();
            shorter.drain(at..end);
            if self.try_this(shorter) {
                better = true;
                continue;
            }
            if self.best[at..end].iter().any(|n| *n != 0) {
                let mut tamer = self.best.clone();
                tamer[at..end].fill(0);
                better |= self.try_this(tamer);
            }
            at = end;
        }
        better
    }

    fn lower(&mut self) -> bool {
        let mut better = false;
        for at in 0..self.best.len() {
            while let Some(value) = self.best.get(at).copied().filter(|value| *value > 0) {
                let mut lower = self.best.clone();
                lower[at] = value / 2;
                if self.try_this(lower) {
                    better = true;
                    continue;
                }
                let mut lower = self.best.clone();
                lower[at] = value - 1;
                if value < 2 || !self.try_this(lower) {
                    break;
                }
                better = true;
            }
        }
        better
    }
}

/// The shortest and tamest script found within so many runs that breaks the same invariant; the report's
/// own decisions where nothing broke.
pub fn minimise(report: &Report, runs: u32) -> Vec<u32> {
    let numbers = report.numbers();
    let Err(why) = &report.verdict else {
        return numbers;
    };
    let mut shrinking = Shrinking {
        invariant: invariant(why),
        best: numbers,
        runs_left: runs,
    };
    loop {
        shrinking.without_tail();
        let mut better = false;
        let mut length = (shrinking.best.len() / 2).max(1);
        while length > 0 {
            better |= shrinking.stretches(length);
            length /= 2;
        }
        better |= shrinking.lower();
        if !better || shrinking.runs_left == 0 {
            return shrinking.best;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_numbers_and_the_rest_is_for_people() {
        assert_eq!(read("# a\n3 jobs\n\n 0 fate: late\n"), Ok(vec![3, 0]));
        assert_eq!(read("x"), Err("line 1: `x` is no number".to_owned()));
    }
}
