//! Shortened bounds that stay bounds: the lower one is cut, the upper one cut and raised \[F-4.4].

use tidegate_model::Datum;

/// Cuts text to `n` characters and byte strings to `n` bytes; `None` where no upper bound of that
/// length exists. Other values are kept.
pub(crate) fn truncate(low: Datum, high: Datum, n: usize) -> Option<(Datum, Datum)> {
    match (low, high) {
        (Datum::String(low), Datum::String(high)) => Some((
            Datum::String(lower_text(&low, n).to_owned()),
            Datum::String(upper_text(high, n)?),
        )),
        (Datum::Bytes(mut low), Datum::Bytes(high)) => {
            low.truncate(n);
            Some((Datum::Bytes(low), Datum::Bytes(upper(&high, n)?)))
        }
        other => Some(other),
    }
}

fn lower_text(text: &str, n: usize) -> &str {
    match text.char_indices().nth(n) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

/// The text if it has at most `n` characters, else the smallest one of at most `n` characters above all
/// that begin with its first `n`.
fn upper_text(text: String, n: usize) -> Option<String> {
    if text.char_indices().nth(n).is_none() {
        return Some(text);
    }
    let mut kept: Vec<char> = text.chars().take(n).collect();
    while let Some(last) = kept.pop() {
        if let Some(next) = successor(last) {
            kept.push(next);
            return Some(kept.into_iter().collect());
        }
    }
    None
}

/// The next character, over the gap of the surrogates.
fn successor(c: char) -> Option<char> {
    match c {
        '\u{D7FF}' => Some('\u{E000}'),
        _ => char::from_u32(u32::from(c) + 1),
    }
}

/// As [`upper_text`] for bytes.
fn upper(bytes: &[u8], n: usize) -> Option<Vec<u8>> {
    if bytes.len() <= n {
        return Some(bytes.to_vec());
    }
    let mut kept: Vec<u8> = bytes.iter().take(n).copied().collect();
    while let Some(last) = kept.pop() {
        if let Some(next) = last.checked_add(1) {
            kept.push(next);
            return Some(kept);
        }
    }
    None
}

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
            upper_text(text.to_owned(), characters).map(String::into_bytes)
        }
        Err(_) => upper(bytes, n),
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

    fn cut(low: &str, high: &str) -> Option<(Datum, Datum)> {
        truncate(Datum::String(low.into()), Datum::String(high.into()), 16)
    }

    fn texts(low: &str, high: &str) -> Option<(Datum, Datum)> {
        Some((Datum::String(low.into()), Datum::String(high.into())))
    }

    /// B55: cut at characters, next valid scalar value, shorter where the last cannot be raised.
    #[test]
    fn b55_upper_bounds_are_raised_at_the_last_character_that_can_be() {
        let text = "a very long string value and more";
        assert_eq!(
            cut(text, text),
            texts("a very long stri", "a very long strj")
        );
        assert_eq!(cut("", "sixteen letters!"), texts("", "sixteen letters!"));
        let dot = "fifteen letters\u{2022} and text";
        assert_eq!(
            cut(dot, dot),
            texts("fifteen letters\u{2022}", "fifteen letters\u{2023}")
        );
        let below_surrogates = "\u{D7FF}".repeat(20);
        let raised = format!("{}\u{E000}", "\u{D7FF}".repeat(15));
        assert_eq!(
            cut(&below_surrogates, &below_surrogates),
            texts(&"\u{D7FF}".repeat(16), &raised)
        );
        let last = format!("ab{}", "\u{10FFFF}".repeat(20));
        assert_eq!(cut("a", &last), texts("a", "ac"));
        assert_eq!(cut("a", &"\u{10FFFF}".repeat(20)), None);
    }

    #[test]
    fn b55_byte_strings_are_raised_and_all_ff_has_no_upper_bound() {
        let bytes = |v: &[u8]| Datum::Bytes(v.to_vec());
        assert_eq!(truncate(bytes(&[0xff; 20]), bytes(&[0xff; 20]), 16), None);
        assert_eq!(
            truncate(bytes(&[1, 2, 3]), bytes(&[1, 0xff, 3]), 2),
            Some((bytes(&[1, 2]), bytes(&[2])))
        );
    }

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
