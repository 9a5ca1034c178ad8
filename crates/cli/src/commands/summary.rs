//! Many like steps told as one.
//!
//! A way out may remove hundreds of snapshots and says one step for each. Steps that follow each other
//! and differ in nothing but numbers are told as the first and the last of them, with their count.

/// So many like steps in a row are still told one by one.
const TOLD: usize = 3;

/// The steps, long rows of like ones shortened to one line.
pub(super) fn steps(steps: &[String]) -> Vec<String> {
    let mut told = Vec::new();
    let mut rest = steps;
    while let Some(first) = rest.first() {
        let shape = shape(first);
        let alike = rest
            .iter()
            .take_while(|step| self::shape(step) == shape)
            .count();
        let (row, after) = rest.split_at(alike.max(1));
        rest = after;
        match (row, row.last()) {
            (row, Some(last)) if row.len() > TOLD => told.push(joined(first, last, row.len())),
            _ => told.extend(row.iter().cloned()),
        }
    }
    told
}

/// The text with every number taken out. Numbers inside words (`tg1f`) are part of the word.
fn shape(step: &str) -> Vec<&str> {
    step.split(' ')
        .map(|word| if number(word) { "#" } else { word })
        .collect()
}

fn number(word: &str) -> bool {
    let digits = word.trim_matches(|c: char| c.is_ascii_punctuation());
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// `snapshot 12 (APPEND, commit 7) is removed` and `snapshot 3 (APPEND, commit 2) is removed` become
/// `snapshot 12 … 3 (APPEND, commit 7 … 2) is removed (10 of them)`.
fn joined(first: &str, last: &str, count: usize) -> String {
    let bare = |word: &str| {
        word.trim_matches(|c: char| c.is_ascii_punctuation())
            .to_owned()
    };
    let words: Vec<String> = first
        .split(' ')
        .zip(last.split(' '))
        .map(|(a, b)| match a == b {
            true => a.to_owned(),
            false => a.replacen(&bare(a), &format!("{} … {}", bare(a), bare(b)), 1),
        })
        .collect();
    format!("{} ({count} of them)", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_like_steps_is_one_line_and_others_stay() {
        let removed = |n: u32| format!("snapshot {n} (APPEND, commit {n} of 5f0c-1) is removed");
        let mut all = vec!["the table goes back to snapshot 2".to_owned()];
        all.extend((3..=400).rev().map(removed));
        all.push("new commits are numbered above 400".to_owned());
        assert_eq!(
            steps(&all),
            [
                "the table goes back to snapshot 2",
                "snapshot 400 … 3 (APPEND, commit 400 … 3 of 5f0c-1) is removed (398 of them)",
                "new commits are numbered above 400",
            ]
        );
        let few: Vec<String> = (1..=3).map(removed).collect();
        assert_eq!(steps(&few), few);
        // Another user's snapshots are not folded into ours.
        let mixed: Vec<String> = (1..=8)
            .map(|n| removed(n).replace("5f0c-1", if n > 4 { "other" } else { "5f0c-1" }))
            .collect();
        assert_eq!(steps(&mixed).len(), 2);
        assert!(steps(&[]).is_empty());
    }
}
