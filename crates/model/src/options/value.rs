//! The grammar of option values \[F-8].

use std::time::Duration;

/// Number and unit, blanks between them allowed.
fn split_unit(text: &str) -> Option<(u64, String)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    Some((number.parse().ok()?, unit.trim().to_lowercase()))
}

/// `64 mb`; powers of 1024, no unit = bytes.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let shift = match unit.as_str() {
        "" | "b" | "bytes" => 0,
        "k" | "kb" | "kibibytes" => 10,
        "m" | "mb" | "mebibytes" => 20,
        "g" | "gb" | "gibibytes" => 30,
        "t" | "tb" | "tebibytes" => 40,
        _ => return None,
    };
    number
        .checked_mul(1 << shift)
        .filter(|n| *n <= i64::MAX as u64)
}

/// `10 s`; no unit = milliseconds.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    let seconds = |factor: u64| number.checked_mul(factor).map(Duration::from_secs);
    match unit.as_str() {
        "d" | "day" | "days" => seconds(86_400),
        "h" | "hour" | "hours" => seconds(3_600),
        "min" | "m" | "minute" | "minutes" => seconds(60),
        "s" | "sec" | "secs" | "second" | "seconds" => seconds(1),
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => {
            Some(Duration::from_millis(number))
        }
        "µs" | "micro" | "micros" | "microsecond" | "microseconds" => {
            Some(Duration::from_micros(number))
        }
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => {
            Some(Duration::from_nanos(number))
        }
        _ => None,
    }
}

/// `true` or `false`, upper or lower case.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// `k1:v1,k2:v2`; empty text is an empty map.
pub fn parse_map(text: &str) -> Option<Vec<(String, String)>> {
    text.split(',')
        .filter(|pair| !text.trim().is_empty() || !pair.trim().is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once(':')?;
            Some((key.trim().to_owned(), value.trim().to_owned()))
        })
        .collect()
}
