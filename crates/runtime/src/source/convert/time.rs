//! Dates, times and timestamps out of text: strict, exact, without the process's zone.

use super::column::Mismatch;
use jiff::civil::Date;

const DAY_MILLIS: i64 = 86_400_000;

/// Days since 1970-01-01 of `YYYY-MM-DD`; years 0001 to 9999.
pub(super) fn date(text: &str) -> Result<i32, Mismatch> {
    let wrong = || Mismatch::new(text, "no date; write it as 2024-01-31");
    let bytes = text.as_bytes();
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *bytes else {
        return Err(wrong());
    };
    let year = number(&[y1, y2, y3, y4]).ok_or_else(wrong)?;
    let month = number(&[m1, m2]).ok_or_else(wrong)?;
    let day = number(&[d1, d2]).ok_or_else(wrong)?;
    let date = Date::new(year as i16, month as i8, day as i8)
        .map_err(|_| Mismatch::new(text, "there is no such day"))?;
    if year == 0 {
        return Err(Mismatch::new(text, "years go from 0001 to 9999"));
    }
    Ok(days(date))
}

fn days(date: Date) -> i32 {
    let (y, m, d) = (
        i64::from(date.year()),
        i64::from(date.month()),
        i64::from(date.day()),
    );
    // Days from civil: years begin in March, 400-year eras; the standard proleptic Gregorian count.
    let y = if m <= 2 { y - 1 } else { y };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let day_of_year = (153 * ((m + 9) % 12) + 2) / 5 + d - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era - 719_468) as i32
}

/// Milliseconds of the day of `HH:MM[:SS[.f…]]`.
pub(super) fn time(text: &str, digits: u8) -> Result<i32, Mismatch> {
    let (seconds, nanos) = clock(text, text, digits)?;
    Ok((seconds * 1000 + nanos / 1_000_000) as i32)
}

/// Nanoseconds since the epoch of a wall clock or an instant, exact.
pub(super) fn timestamp(text: &str, digits: u8, instant: bool) -> Result<i128, Mismatch> {
    let example = if instant {
        "2024-01-31T12:34:56Z"
    } else {
        "2024-01-31T12:34:56"
    };
    let wrong = || Mismatch::new(text, format!("no timestamp; write it as {example}"));
    let (day, rest) = text.split_at_checked(10).ok_or_else(wrong)?;
    let day = date(day).map_err(|m| Mismatch::new(text, m.why))?;
    let clock_text = rest.strip_prefix(['T', ' ']).ok_or_else(wrong)?;
    let (clock_text, offset_seconds) = match zone(clock_text) {
        Zone::None => (clock_text, None),
        Zone::At(at, seconds) => (clock_text.get(..at).unwrap_or_default(), Some(seconds)),
        Zone::Wrong => {
            return Err(Mismatch::new(
                text,
                "no such zone; write Z or an offset such as +05:30",
            ));
        }
    };
    let offset = match (offset_seconds, instant) {
        (Some(_), false) => {
            return Err(Mismatch::new(
                text,
                "a zone in a column without one; TIMESTAMP is a wall clock, take TIMESTAMP WITH LOCAL TIME ZONE for instants",
            ));
        }
        (None, true) => {
            return Err(Mismatch::new(
                text,
                "an instant needs a zone; append Z or an offset such as +05:30",
            ));
        }
        (Some(seconds), true) => seconds,
        (None, false) => 0,
    };
    let (seconds, nanos) = clock(clock_text, text, digits)?;
    let millis = i128::from(i64::from(day) * DAY_MILLIS + (seconds - offset) * 1000);
    Ok(millis * 1_000_000 + i128::from(nanos))
}

enum Zone {
    None,
    At(usize, i64),
    Wrong,
}

fn zone(text: &str) -> Zone {
    if let Some(body) = text.strip_suffix(['Z', 'z']) {
        return Zone::At(body.len(), 0);
    }
    let Some(at) = text.rfind(['+', '-']) else {
        return Zone::None;
    };
    let offset = text.get(at..).unwrap_or_default().as_bytes();
    let (sign, digits) = match offset {
        [b'+', rest @ ..] => (1, rest),
        [_, rest @ ..] => (-1, rest),
        [] => return Zone::Wrong,
    };
    let (hours, minutes) = match digits {
        [h1, h2] => (number(&[*h1, *h2]), Some(0)),
        [h1, h2, b':', m1, m2] | [h1, h2, m1, m2] => (number(&[*h1, *h2]), number(&[*m1, *m2])),
        _ => return Zone::Wrong,
    };
    match (hours, minutes) {
        (Some(h @ 0..=18), Some(m @ 0..=59)) => Zone::At(at, sign * (h * 3600 + m * 60)),
        _ => Zone::Wrong,
    }
}

/// Seconds of the day, and nanoseconds.
fn clock(text: &str, whole: &str, digits: u8) -> Result<(i64, i64), Mismatch> {
    let wrong = || Mismatch::new(whole, "no time of day; write it as 12:34:56");
    let (main, fraction) = match text.split_once('.') {
        Some((main, fraction)) => (main, Some(fraction)),
        None => (text, None),
    };
    let (h, m, s) = match *main.as_bytes() {
        [h1, h2, b':', m1, m2] if fraction.is_none() => {
            (number(&[h1, h2]), number(&[m1, m2]), Some(0))
        }
        [h1, h2, b':', m1, m2, b':', s1, s2] => {
            (number(&[h1, h2]), number(&[m1, m2]), number(&[s1, s2]))
        }
        _ => return Err(wrong()),
    };
    let (Some(h @ 0..=23), Some(m @ 0..=59), Some(s @ 0..=59)) = (h, m, s) else {
        return Err(Mismatch::new(whole, "there is no such time of day"));
    };
    let mut nanos = 0;
    if let Some(fraction) = fraction {
        if fraction.is_empty()
            || fraction.len() > 18
            || !fraction.bytes().all(|b| b.is_ascii_digit())
        {
            return Err(wrong());
        }
        let kept = fraction.trim_end_matches('0');
        if kept.len() > usize::from(digits) {
            return Err(Mismatch::new(
                whole,
                format!("more than {digits} digits of a second would be lost"),
            ));
        }
        nanos = kept.bytes().fold(0, |n, b| n * 10 + i64::from(b - b'0'))
            * 10_i64.pow(9 - kept.len() as u32);
    }
    Ok((h * 3600 + m * 60 + s, nanos))
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |n, b| {
        b.is_ascii_digit().then(|| n * 10 + i64::from(b - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_count_from_the_epoch_in_both_directions() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2024-01-01", 19723),
            ("0001-01-01", -719_162),
            ("9999-12-31", 2_932_896),
            ("2000-02-29", 11016),
        ] {
            assert_eq!(date(text), Ok(days), "{text}");
        }
        for bad in [
            "2026-02-30",
            "2026-13-01",
            "2026-1-1",
            "26-01-01",
            "0000-01-01",
            "2026-01-01 ",
            "",
            "２０２６-01-01",
        ] {
            assert!(date(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn wall_clocks_and_instants_are_never_mixed() {
        assert!(timestamp("2026-03-29T02:30:00Z", 6, false).is_err());
        assert!(timestamp("2026-03-29T02:30:00", 6, true).is_err());
        assert_eq!(timestamp("1970-01-01T05:30:00+05:30", 6, true), Ok(0));
        assert_eq!(
            timestamp("1970-01-01 00:00:00.5", 6, false),
            Ok(500_000_000)
        );
        assert_eq!(timestamp("1969-12-31T23:59:59.999999", 6, false), Ok(-1000));
        assert_eq!(
            timestamp("2026-03-29T02:30", 0, false).unwrap() % 60_000_000_000,
            0
        );
    }

    #[test]
    fn digits_that_would_be_lost_are_refused() {
        assert!(timestamp("2026-01-01T00:00:00.0001", 3, false).is_err());
        assert!(timestamp("2026-01-01T00:00:00.1000", 3, false).is_ok());
        assert_eq!(time("01:01:01.001", 3), Ok(3_661_001));
        for bad in [
            "24:00:00",
            "1:00",
            "01:00:60",
            "01:00:00.",
            "01:00.5",
            "0100",
        ] {
            assert!(time(bad, 3).is_err(), "{bad}");
        }
    }
}
