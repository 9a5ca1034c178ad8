//! The known name that a mistyped one probably means.

/// The candidate with the smallest edit distance, where it is close enough to be a typing error.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).clamp(1, 4);
    candidates
        .into_iter()
        .map(|c| (distance(name, c), c))
        .filter(|(d, _)| *d <= limit)
        .min_by_key(|(d, _)| *d)
        .map(|(_, c)| c)
}

/// Insertions, deletions, replacements and swaps of neighbours, each counted once.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut previous = None;
    for (i, ca) in a.chars().enumerate() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i + 1);
        let mut left_char = None;
        for (j, cb) in b.iter().copied().enumerate() {
            let get = |r: &[usize], k: usize| r.get(k).copied().unwrap_or(usize::MAX / 2);
            let mut best = (get(&last, j) + usize::from(ca != cb))
                .min(get(&last, j + 1) + 1)
                .min(get(&row, j) + 1);
            if j > 0 && previous == Some(cb) && left_char == Some(ca) {
                best = best.min(get(&before_last, j - 1) + 1);
            }
            row.push(best);
            left_char = Some(cb);
        }
        before_last = std::mem::replace(&mut last, row);
        previous = Some(ca);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_find_their_key_and_strangers_do_not() {
        let known = ["interval", "directory", "retain", "timeout"];
        assert_eq!(nearest("intervall", known), Some("interval"));
        assert_eq!(nearest("itnerval", known), Some("interval"));
        assert_eq!(nearest("dir", known), None);
        assert_eq!(nearest("colour", known), None);
    }
}
