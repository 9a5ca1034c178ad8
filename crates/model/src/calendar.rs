//! Days, times of day and timestamps as text, without any time zone.
//!
//! The proleptic Gregorian calendar, as `java.time` has it. Owns no clock.

use std::fmt::{self, Write as _};

const MILLIS_PER_DAY: i64 = 86_400_000;

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Civil {
    /// Year; 0 is 1 BC.
    pub year: i64,
    /// 1..=12
    pub month: u8,
    /// 1..=31
    pub day: u8,
}

/// The calendar day of a count of days since 1970-01-01.
pub fn civil_from_days(days: i64) -> Civil {
    // Years that start in March, so that the leap day is the last one; eras of 400 years.
    let z = days.saturating_add(719_468);
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    Civil {
        year,
        month: month as u8,
        day: day as u8,
    }
}

/// Days since 1970-01-01 of a calendar day; `None` where it does not exist.
pub fn days_from_civil(year: i64, month: u8, day: u8) -> Option<i64> {
    if !(1..=12).contains(&month) || day == 0 || !(-999_999_999..=999_999_999).contains(&year) {
        return None;
    }
    let y = year - i64::from(month <= 2);
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let month_from_march = (i64::from(month) + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    (civil_from_days(days) == Civil { year, month, day }).then_some(days)
}

/// `2024-01-31`; years beyond four digits as Java writes them.
pub fn write_date(out: &mut String, days: i64) {
    let Civil { year, month, day } = civil_from_days(days);
    // Writing to a string cannot fail.
    let _ = match year {
        ..=-1 => write!(out, "-{:04}", year.unsigned_abs()),
        0..=9_999 => write!(out, "{year:04}"),
        _ => write!(out, "+{year}"),
    };
    let _ = write!(out, "-{month:02}-{day:02}");
}

/// A point of wall-clock time, split for printing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Split {
    days: i64,
    hour: i64,
    minute: i64,
    second: i64,
    nanos: i64,
}

fn split(millis: i64, nanos_of_milli: i32) -> Split {
    let of_day = millis.rem_euclid(MILLIS_PER_DAY);
    Split {
        days: millis.div_euclid(MILLIS_PER_DAY),
        hour: of_day / 3_600_000,
        minute: of_day / 60_000 % 60,
        second: of_day / 1_000 % 60,
        nanos: of_day % 1_000 * 1_000_000 + i64::from(nanos_of_milli),
    }
}

/// As `LocalDateTime.toString`: `2024-01-01T00:00`, seconds only when there are any, fractions in
/// groups of three digits.
pub fn write_iso(out: &mut String, millis: i64, nanos_of_milli: i32) {
    let t = split(millis, nanos_of_milli);
    write_date(out, t.days);
    let _ = write!(out, "T{:02}:{:02}", t.hour, t.minute);
    if t.second > 0 || t.nanos > 0 {
        let _ = write!(out, ":{:02}", t.second);
    }
    let _ = match t.nanos {
        0 => Ok(()),
        n if n % 1_000_000 == 0 => write!(out, ".{:03}", n / 1_000_000),
        n if n % 1_000 == 0 => write!(out, ".{:06}", n / 1_000),
        n => write!(out, ".{n:09}"),
    };
}

/// As SQL: `2024-01-01 00:00:00.123`, at least `precision` digits behind the point, more where the
/// value has more.
pub fn write_sql(out: &mut String, millis: i64, nanos_of_milli: i32, precision: u8) {
    let t = split(millis, nanos_of_milli);
    write_date(out, t.days);
    let _ = write!(out, " {:02}:{:02}:{:02}", t.hour, t.minute, t.second);
    let fraction = format!("{:09}", t.nanos);
    let needed = fraction
        .trim_end_matches('0')
        .len()
        .max(usize::from(precision.min(9)));
    if needed > 0 {
        out.push('.');
        out.extend(fraction.chars().take(needed));
    }
}

/// A time of day as Java casts it: `01:01:01`, and up to `precision` digits, at least one, without
/// trailing zeros.
pub fn write_time(out: &mut String, millis_of_day: i32, precision: u8) {
    let t = split(i64::from(millis_of_day), 0);
    let _ = write!(out, "{:02}:{:02}:{:02}", t.hour, t.minute, t.second);
    if precision > 0 {
        let fraction = format!("{:03}", t.nanos / 1_000_000);
        let digits: String = fraction.chars().take(usize::from(precision)).collect();
        let digits = digits.trim_end_matches('0');
        out.push('.');
        out.push_str(if digits.is_empty() { "0" } else { digits });
    }
}

/// A day that prints as `2024-01-31`.
impl fmt::Display for Civil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_calendar_are_inverse_over_all_dates() {
        for days in (-800_000..3_000_000).step_by(7) {
            let Civil { year, month, day } = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), Some(days));
        }
        assert_eq!(civil_from_days(0).to_string(), "1970-01-01");
        assert_eq!(civil_from_days(-719_162).to_string(), "0001-01-01");
        assert_eq!(days_from_civil(2023, 2, 29), None);
        assert_eq!(days_from_civil(2024, 2, 29), Some(19_782));
        assert_eq!(days_from_civil(2024, 13, 1), None);
        // No overflow at the ends of the range of a date column and of a timestamp.
        civil_from_days(i64::from(i32::MIN));
        civil_from_days(i64::MAX);
        civil_from_days(i64::MIN);
    }

    #[test]
    fn times_before_1970_are_floored() {
        let mut out = String::new();
        write_iso(&mut out, -1, 999_999);
        assert_eq!(out, "1969-12-31T23:59:59.999999999");
        let mut out = String::new();
        write_sql(&mut out, -1_000, 0, 0);
        assert_eq!(out, "1969-12-31 23:59:59");
    }
}
