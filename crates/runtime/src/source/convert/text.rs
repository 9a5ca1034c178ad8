//! Values out of text.

use super::column::{Column, Mismatch, TimestampValues, Values};
use super::time;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

impl Column {
    /// Adds a value written as text.
    ///
    /// # Errors
    /// Where the text is no value of the column's type; nothing was added then.
    pub fn append_text(&mut self, text: &str) -> Result<(), Mismatch> {
        match &mut self.values {
            Values::Boolean(b) => match text {
                "true" | "TRUE" | "True" => b.append_value(true),
                "false" | "FALSE" | "False" => b.append_value(false),
                _ => return Err(Mismatch::new(text, "must be true or false")),
            },
            Values::Int8(b) => b.append_value(integer(text, "TINYINT")?),
            Values::Int16(b) => b.append_value(integer(text, "SMALLINT")?),
            Values::Int32(b) => b.append_value(integer(text, "INT")?),
            Values::Int64(b) => b.append_value(integer(text, "BIGINT")?),
            Values::Float32(b) => b.append_value(float(text)?),
            Values::Float64(b) => b.append_value(float(text)?),
            Values::Decimal {
                values,
                precision,
                scale,
            } => {
                values.append_value(decimal(text, *precision, *scale)?);
            }
            Values::Text { values, max_chars } => {
                // Counting is only needed where the bytes alone do not prove that it fits.
                if text.len() > *max_chars && text.chars().count() > *max_chars {
                    return Err(Mismatch::new(
                        text,
                        format!("more than {max_chars} characters"),
                    ));
                }
                values.append_value(text);
            }
            Values::Bytes { values, max_bytes } => {
                let bytes = STANDARD
                    .decode(text)
                    .map_err(|e| Mismatch::new(text, format!("no base64: {e}")))?;
                if bytes.len() > *max_bytes {
                    return Err(Mismatch::new(text, format!("more than {max_bytes} bytes")));
                }
                values.append_value(bytes);
            }
            Values::Date(b) => b.append_value(time::date(text)?),
            Values::Time { values, digits } => values.append_value(time::time(text, *digits)?),
            Values::Timestamp {
                values,
                digits,
                instant,
            } => {
                let nanos = time::timestamp(text, *digits, *instant)?;
                let range = || Mismatch::new(text, "outside the range of the column's type");
                match values {
                    TimestampValues::Millis(b) => {
                        b.append_value(
                            i64::try_from(nanos.div_euclid(1_000_000)).map_err(|_| range())?,
                        );
                    }
                    TimestampValues::Micros(b) => {
                        b.append_value(
                            i64::try_from(nanos.div_euclid(1_000)).map_err(|_| range())?,
                        );
                    }
                    TimestampValues::Nanos(b) => {
                        b.append_value(i64::try_from(nanos).map_err(|_| range())?)
                    }
                }
            }
            Values::List { .. } | Values::Map { .. } | Values::Struct { .. } => {
                let value = serde_json::from_str(text)
                    .map_err(|e| Mismatch::new(text, format!("no JSON: {e}")))?;
                return self.append_json(&value);
            }
        }
        Ok(())
    }
}

fn integer<T: std::str::FromStr + TryFrom<i64>>(text: &str, name: &str) -> Result<T, Mismatch> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Mismatch::new(text, "no whole number"));
    }
    text.parse()
        .map_err(|_| Mismatch::new(text, format!("outside the range of {name}")))
}

fn float<T: std::str::FromStr>(text: &str) -> Result<T, Mismatch> {
    let body = text.strip_prefix(['-', '+']).unwrap_or(text);
    let plain = !body.is_empty()
        && body
            .bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'-' | b'+'));
    if (plain || matches!(body, "NaN" | "Infinity"))
        && let Ok(value) = text.parse()
    {
        return Ok(value);
    }
    Err(Mismatch::new(text, "no number"))
}

/// The unscaled value; exact or refused.
pub(super) fn decimal(text: &str, precision: u8, scale: i8) -> Result<i128, Mismatch> {
    let wrong = || Mismatch::new(text, "no decimal number");
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            if digits.is_empty() || digits.len() > 4 || !digits.bytes().all(|b| b.is_ascii_digit())
            {
                return Err(wrong());
            }
            (mantissa, exponent.parse::<i64>().map_err(|_| wrong())?)
        }
        None => (text, 0),
    };
    let (negative, body) = match mantissa.strip_prefix('-') {
        Some(body) => (true, body),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = body.split_once('.').unwrap_or((body, ""));
    if whole.is_empty() && fraction.is_empty()
        || !whole
            .bytes()
            .chain(fraction.bytes())
            .all(|b| b.is_ascii_digit())
    {
        return Err(wrong());
    }
    let too_large = || Mismatch::new(text, format!("does not fit DECIMAL({precision}, {scale})"));
    // Trailing zeros of the fraction cost nothing; other digits beyond the scale would be lost.
    let fraction = fraction.trim_end_matches('0');
    let mut shift = i64::from(scale) + exponent - fraction.len() as i64;
    let mut unscaled: i128 = 0;
    let mut digits: Vec<u8> = whole
        .bytes()
        .chain(fraction.bytes())
        .skip_while(|b| *b == b'0')
        .collect();
    while shift < 0 && digits.last() == Some(&b'0') {
        digits.pop();
        shift += 1;
    }
    if digits.is_empty() {
        return Ok(0);
    }
    if shift < 0 {
        return Err(Mismatch::new(
            text,
            format!("more than {scale} digits after the point would be lost"),
        ));
    }
    if digits.len() as i64 + shift > i64::from(precision) {
        return Err(too_large());
    }
    for digit in digits {
        unscaled = unscaled
            .checked_mul(10)
            .and_then(|n| n.checked_add(i128::from(digit - b'0')))
            .ok_or_else(too_large)?;
    }
    for _ in 0..shift {
        unscaled = unscaled.checked_mul(10).ok_or_else(too_large)?;
    }
    Ok(if negative { -unscaled } else { unscaled })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact_or_refused() {
        assert_eq!(
            integer::<i64>("1627668684594000000", "BIGINT"),
            Ok(1_627_668_684_594_000_000)
        );
        assert_eq!(
            integer::<i64>("-9223372036854775808", "BIGINT"),
            Ok(i64::MIN)
        );
        assert_eq!(integer::<i64>("+1", "BIGINT"), Ok(1));
        for bad in [
            "9223372036854775808",
            "1e3",
            " 1 ",
            "0x1",
            "1.0",
            "",
            "-",
            "１",
        ] {
            assert!(integer::<i64>(bad, "BIGINT").is_err(), "{bad}");
        }
    }

    #[test]
    fn decimals_are_exact_or_refused() {
        assert_eq!(decimal("1.5", 10, 2), Ok(150));
        assert_eq!(decimal("1e2", 5, 2), Ok(10000));
        assert_eq!(decimal("-0.01", 5, 2), Ok(-1));
        assert_eq!(decimal("1.0500", 5, 2), Ok(105));
        assert_eq!(decimal("100e-2", 5, 2), Ok(100));
        assert_eq!(
            decimal("99999999999999999999999999999999999999", 38, 0),
            Ok(10_i128.pow(38) - 1)
        );
        assert_eq!(decimal("0e9999", 5, 2), Ok(0));
        for bad in [
            "1.005", "1000", "1e9999", "", ".", "1.2.3", "1,5", "NaN", "1e", "--1", "1e99999",
        ] {
            assert!(decimal(bad, 5, 2).is_err(), "{bad}");
        }
    }

    #[test]
    fn floats_take_no_words_but_the_documented_ones() {
        assert_eq!(float::<f64>("1.5e3"), Ok(1500.0));
        assert!(float::<f64>("NaN").unwrap().is_nan());
        assert_eq!(float::<f64>("-Infinity"), Ok(f64::NEG_INFINITY));
        for bad in ["inf", "nan", "infinity", "", "1_000", "0x1p3", "1e"] {
            assert!(float::<f64>(bad).is_err(), "{bad}");
        }
    }
}
