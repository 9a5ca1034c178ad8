//! Tags: `tag/tag-<name>`, a snapshot and until when it is kept \[F-10.1].

use crate::error::{Error, Problem, Result, shorten};
use crate::json::{Reader, Writer};
use crate::snapshot;
use tidegate_model::Snapshot;

/// A named snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// When it was made; only there where it is kept for a time.
    pub create_time: Option<LocalTime>,
    /// How long it is kept; absent = for good.
    pub time_retained: Option<Retention>,
}

/// A wall-clock time of the machine that made the tag; its zone is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalTime {
    /// Year.
    pub year: i32,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 to 999,999,999.
    pub nanosecond: u32,
}

/// A duration as Java records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Retention {
    /// Whole seconds.
    pub seconds: i64,
    /// Beyond them, 0 to 999,999,999.
    pub nanoseconds: u32,
}

/// Reads a tag file.
///
/// # Errors
/// As [`snapshot::decode`], and where time or duration have another form.
pub fn decode(bytes: &[u8]) -> Result<Tag> {
    let (mut create_time, mut time_retained) = (None, None);
    let snapshot = snapshot::decode_with(bytes, |r, key| {
        match key {
            "tagCreateTime" => create_time = r.nullable(read_time)?,
            "tagTimeRetained" => time_retained = r.nullable(read_retention)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(Tag {
        snapshot,
        create_time,
        time_retained,
    })
}

/// Writes a tag file.
pub fn encode(tag: &Tag) -> Vec<u8> {
    snapshot::encode_with(&tag.snapshot, |w| {
        if let Some(time) = &tag.create_time {
            write_time(w, time);
        }
        if let Some(retained) = tag.time_retained {
            w.key("tagTimeRetained");
            w.raw(&retained.to_json());
        }
    })
}

fn wrong(r: &Reader<'_>, expected: &'static str, found: impl Into<String>) -> Error {
    r.error(Problem::Unexpected {
        expected,
        found: found.into(),
    })
}

/// Java leaves out zeros at the end, minutes excepted.
fn read_time(r: &mut Reader<'_>) -> Result<LocalTime> {
    let mut parts = [0i64; 7];
    let mut count = 0usize;
    r.array(|r| {
        let part = r.i64()?;
        let Some(slot) = parts.get_mut(count) else {
            return Err(wrong(r, "at most 7 numbers", "more"));
        };
        *slot = part;
        count += 1;
        Ok(())
    })?;
    if count < 5 {
        return Err(wrong(
            r,
            "5 to 7 numbers from year to nanosecond",
            count.to_string(),
        ));
    }
    let [year, month, day, hour, minute, second, nano] = parts;
    let in_range = |value: i64, low: i64, high: i64| {
        if (low..=high).contains(&value) {
            Ok(value)
        } else {
            Err(wrong(r, "a date and time", value.to_string()))
        }
    };
    Ok(LocalTime {
        year: in_range(year, -999_999_999, 999_999_999)? as i32,
        month: in_range(month, 1, 12)? as u8,
        day: in_range(day, 1, 31)? as u8,
        hour: in_range(hour, 0, 23)? as u8,
        minute: in_range(minute, 0, 59)? as u8,
        second: in_range(second, 0, 59)? as u8,
        nanosecond: in_range(nano, 0, 999_999_999)? as u32,
    })
}

fn write_time(w: &mut Writer, time: &LocalTime) {
    let parts: [i64; 7] = [
        time.year.into(),
        time.month.into(),
        time.day.into(),
        time.hour.into(),
        time.minute.into(),
        time.second.into(),
        time.nanosecond.into(),
    ];
    let count = match (time.second, time.nanosecond) {
        (0, 0) => 5,
        (_, 0) => 6,
        _ => 7,
    };
    w.key("tagCreateTime");
    w.begin_array();
    for part in parts.iter().take(count) {
        w.item();
        w.raw(&part.to_string());
    }
    w.end_array();
}

/// Decimal seconds, an exponent included: Java writes small ones as `1E-9`.
fn read_retention(r: &mut Reader<'_>) -> Result<Retention> {
    let text = r.number()?;
    parse_retention(text).ok_or_else(|| {
        wrong(
            r,
            "seconds with at most 9 decimals",
            format!("`{}`", shorten(text)),
        )
    })
}

fn parse_retention(text: &str) -> Option<Retention> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    // value = digits * 10^(exponent - fraction digits); in nanoseconds, nine powers more
    let power = exponent
        .checked_sub(i32::try_from(fraction.len()).ok()?)?
        .checked_add(9)?;
    let power = u32::try_from(power).ok()?;
    let nanos = digits.checked_mul(10i128.checked_pow(power)?)?;
    let nanos = if negative { -nanos } else { nanos };
    Some(Retention {
        seconds: i64::try_from(nanos.div_euclid(1_000_000_000)).ok()?,
        nanoseconds: nanos.rem_euclid(1_000_000_000) as u32,
    })
}

impl Retention {
    /// As Java's decimal numbers print: nine decimals, zero as `0.0`, small ones with an exponent.
    fn to_json(self) -> String {
        let nanos = i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanoseconds);
        let (sign, size) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
        match size {
            0 => "0.0".to_owned(),
            1..1000 => {
                let digits = size.to_string();
                let (first, rest) = digits.split_at(1);
                let dot = if rest.is_empty() { "" } else { "." };
                format!("{sign}{first}{dot}{rest}E-{}", 10 - digits.len())
            }
            _ => format!("{sign}{}.{:09}", size / 1_000_000_000, size % 1_000_000_000),
        }
    }
}
