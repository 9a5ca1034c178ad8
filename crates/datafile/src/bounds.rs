//! Bounds of byte strings for the footer, at most so many bytes long; text stays text \[F-4.4].
//!
//! The manifest's bounds are cut by the table's own rule,
//! [`StatsMode::bounds`](tidegate_model::StatsMode::bounds).

use tidegate_model::statistics::{truncate_max, truncate_max_bytes};

/// A lower bound of at most `n` bytes; text stays text.
pub(crate) fn lower_bytes(bytes: &[u8], n: usize) -> Vec<u8> {
    if bytes.len() <= n {
        return bytes.to_vec();
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => prefix(text, n).as_bytes().to_vec(),
        Err(_) => bytes.iter().take(n).copied().collect(),
    }
}

/// An upper bound of at most `n` bytes; text stays text.
pub(crate) fn upper_bytes(bytes: &[u8], n: usize) -> Option<Vec<u8>> {
    if bytes.len() <= n {
        return Some(bytes.to_vec());
    }
    match std::str::from_utf8(bytes) {
        // Raising a character can make it one byte longer.
        Ok(text) => {
            let characters = prefix(text, n.saturating_sub(1)).chars().count();
            truncate_max(text, characters).map(String::into_bytes)
        }
        Err(_) => truncate_max_bytes(bytes, n),
    }
}

/// The longest prefix of whole characters in `n` bytes.
fn prefix(text: &str, n: usize) -> &str {
    let end = (0..=n.min(text.len()))
        .rev()
        .find(|i| text.is_char_boundary(*i))
        .unwrap_or(0);
    text.get(..end).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footer_bounds_stay_text_and_bounds() {
        let text = "é".repeat(100);
        let (low, high) = (
            lower_bytes(text.as_bytes(), 64),
            upper_bytes(text.as_bytes(), 64),
        );
        assert!(std::str::from_utf8(&low).is_ok_and(|l| l < text.as_str()) && low.len() <= 64);
        let high = high.expect("é can be raised");
        assert!(std::str::from_utf8(&high).is_ok_and(|h| h > text.as_str()) && high.len() <= 64);
    }
}
