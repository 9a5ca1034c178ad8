//! Literals of conditions as values of a column's type: exact or not at all.

use tidegate_model::{Datum, LogicalType, calendar, options::parse_bool};

const DAY_MILLIS: i64 = 86_400_000;

/// `None` where the text is no value of the type.
pub(super) fn read(text: &str, logical: &LogicalType) -> Option<Datum> {
    use LogicalType as L;
    Some(match logical {
        L::Boolean => Datum::Boolean(parse_bool(text)?),
        L::TinyInt => Datum::TinyInt(text.parse().ok()?),
        L::SmallInt => Datum::SmallInt(text.parse().ok()?),
        L::Int => Datum::Int(text.parse().ok()?),
        L::BigInt => Datum::BigInt(text.parse().ok()?),
        L::Float => Datum::Float(text.parse().ok()?),
        L::Double => Datum::Double(text.parse().ok()?),
        L::Decimal { precision, scale } => Datum::Decimal {
            unscaled: decimal(text, *precision, *scale)?,
            precision: *precision,
            scale: *scale,
        },
        L::Char(_) | L::VarChar(_) => Datum::String(text.to_owned()),
        L::Date => Datum::Date(i32::try_from(date(text)?).ok()?),
        L::Time(_) => {
            let nanos = time(text)?;
            let millis = i32::try_from(nanos / 1_000_000).ok()?;
            (nanos % 1_000_000 == 0).then_some(Datum::TimeMillis(millis))?
        }
        L::Timestamp(precision) | L::TimestampLtz(precision) => timestamp(text, *precision)?,
        _ => return None,
    })
}

fn decimal(text: &str, precision: u8, scale: u8) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let plain = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    let scale = usize::from(scale);
    if whole.len() + fraction.len() == 0
        || fraction.len() > scale
        || !plain(whole)
        || !plain(fraction)
    {
        return None;
    }
    let unscaled: i128 = format!("{whole}{fraction:0<scale$}").parse().ok()?;
    let limit = 10i128.checked_pow(u32::from(precision))?;
    (unscaled < limit).then_some(if negative { -unscaled } else { unscaled })
}

/// `2024-01-31` in days.
fn date(text: &str) -> Option<i64> {
    let mut parts = text.split('-');
    let year = parts.next()?;
    let (month, day) = (parts.next()?, parts.next()?);
    if year.len() != 4 || month.len() != 2 || day.len() != 2 || parts.next().is_some() {
        return None;
    }
    calendar::days_from_civil(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?)
}

/// `12:30:00.5` in nanoseconds; seconds may be left out.
fn time(text: &str) -> Option<i64> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let part = |part: Option<&str>, limit: i64| -> Option<i64> {
        let part = part.filter(|p| p.len() == 2)?;
        part.parse().ok().filter(|n| (0..limit).contains(n))
    };
    let mut parts = clock.split(':');
    let (hour, minute) = (part(parts.next(), 24)?, part(parts.next(), 60)?);
    let second = match parts.next() {
        Some(second) => part(Some(second), 60)?,
        None => 0,
    };
    if parts.next().is_some() {
        return None;
    }
    let nanos: i64 = format!("{fraction:0<9}").parse().ok()?;
    Some(((hour * 60 + minute) * 60 + second) * 1_000_000_000 + nanos)
}

/// `2024-01-31`, `2024-01-31 12:30:00.5` or with `T`; a `Z` may follow. No more digits than the type has.
fn timestamp(text: &str, precision: u8) -> Option<Datum> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (day, of_day) = match text.split_once([' ', 'T']) {
        Some((day, of_day)) => (date(day)?, time(of_day)?),
        None => (date(text)?, 0),
    };
    let unit = 10i64.checked_pow(9 - u32::from(precision.min(9)))?;
    (of_day % unit == 0).then_some(Datum::Timestamp {
        millis: day * DAY_MILLIS + of_day / 1_000_000,
        nanos_of_milli: i32::try_from(of_day % 1_000_000).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, data_type: &str) -> Option<Datum> {
        let data_type: tidegate_model::DataType = data_type.parse().unwrap();
        read(text, &data_type.logical)
    }

    #[test]
    fn literals_are_exact_or_refused() {
        let decimal = |unscaled| {
            Some(Datum::Decimal {
                unscaled,
                precision: 5,
                scale: 2,
            })
        };
        assert_eq!(parsed("-1.5", "DECIMAL(5, 2)"), decimal(-150));
        assert_eq!(parsed("1.500", "DECIMAL(5, 2)"), decimal(150));
        assert_eq!(parsed("999.99", "DECIMAL(5, 2)"), decimal(99999));
        for (text, data_type) in [
            ("1000", "DECIMAL(5, 2)"),
            (".", "DECIMAL(5, 2)"),
            ("1e3", "DECIMAL(5, 2)"),
            ("128", "TINYINT"),
            ("1.0", "INT"),
            ("2024-02-30", "DATE"),
            ("2024-1-3", "DATE"),
            ("24:00:00", "TIME"),
            ("12:00:00.0005", "TIME(3)"),
            ("2024-01-01 00:00:00.0001", "TIMESTAMP(3)"),
            ("yes", "BOOLEAN"),
            ("x", "BYTES"),
        ] {
            assert_eq!(parsed(text, data_type), None, "{text} as {data_type}");
        }
        assert_eq!(parsed("1970-01-02", "DATE"), Some(Datum::Date(1)));
        assert_eq!(
            parsed("1970-01-01T00:00:01.0001Z", "TIMESTAMP(6)"),
            Some(Datum::Timestamp {
                millis: 1000,
                nanos_of_milli: 100_000
            })
        );
    }
}
