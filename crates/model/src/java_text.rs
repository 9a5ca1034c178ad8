//! Numbers as Java prints them: parts of partition paths depend on it \[F-1.4].

/// As `Double.toString`.
///
/// The shortest digits that read back as the same number, at least two; as Java does since release
/// 19. Older releases print a needless digit for a few numbers (2.0E-3 comes out right, 2.2E-322 and
/// the like do not): such a partition directory would differ between Java releases too.
pub fn double(value: f64) -> String {
    if let Some(word) = word(
        value.is_nan(),
        value.is_infinite(),
        value.is_sign_negative(),
    ) {
        return word.to_owned();
    }
    let shortest = format!("{value:e}");
    layout(if two_digits(&shortest) {
        shortest
    } else {
        format!("{value:.1e}")
    })
}

/// As `Float.toString`; see [`double`].
pub fn float(value: f32) -> String {
    if let Some(word) = word(
        value.is_nan(),
        value.is_infinite(),
        value.is_sign_negative(),
    ) {
        return word.to_owned();
    }
    let shortest = format!("{value:e}");
    layout(if two_digits(&shortest) {
        shortest
    } else {
        format!("{value:.1e}")
    })
}

fn word(nan: bool, infinite: bool, negative: bool) -> Option<&'static str> {
    match (nan, infinite, negative) {
        (true, ..) => Some("NaN"),
        (_, true, false) => Some("Infinity"),
        (_, true, true) => Some("-Infinity"),
        _ => None,
    }
}

fn two_digits(text: &str) -> bool {
    text.contains('.')
}

/// From Rust's `d.ddde±x` to Java's form: plain from 10^-3 to 10^7, else with `E`.
fn layout(text: String) -> String {
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    if digits.chars().all(|c| c == '0') {
        return format!("{sign}0.0");
    }
    if !(-3..7).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        return format!("{sign}{first}.{rest}E{exponent}");
    }
    let significant = digits.trim_end_matches('0');
    if exponent < 0 {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        return format!("{sign}0.{zeros}{significant}");
    }
    let whole = exponent as usize + 1;
    let padded = format!("{significant:0<whole$}");
    let (before, after) = padded.split_at(whole);
    format!(
        "{sign}{before}.{}",
        if after.is_empty() { "0" } else { after }
    )
}

/// An unscaled value as `BigDecimal.toPlainString` with its scale.
pub fn decimal(unscaled: i128, scale: u8) -> String {
    let scale = usize::from(scale);
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if unscaled < 0 { "-" } else { "" };
    if scale == 0 {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{fraction}")
    }
}

/// What `Character.isWhitespace` says.
pub fn is_whitespace(c: char) -> bool {
    matches!(c,
        '\t'..='\r'
        | '\u{1c}'..=' '
        | '\u{1680}'
        | '\u{2000}'..='\u{2006}'
        | '\u{2008}'..='\u{200a}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{205f}'
        | '\u{3000}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_and_floats_are_spelled_as_java_does() {
        for (value, wanted) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-1.5, "-1.5"),
            (100.0, "100.0"),
            (1e-3, "0.001"),
            (1.25e-3, "0.00125"),
            (1e-4, "1.0E-4"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (1.234_567_8e7, "1.2345678E7"),
            (1e10, "1.0E10"),
            (2e23, "2.0E23"),
            (1e23, "1.0E23"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (5e-324, "4.9E-324"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
            (123_456.789, "123456.789"),
        ] {
            assert_eq!(double(value), wanted);
        }
        for (value, wanted) in [
            (1.0f32, "1.0"),
            (1e10, "1.0E10"),
            (1e-45, "1.4E-45"),
            (f32::MAX, "3.4028235E38"),
            (0.1, "0.1"),
            (16_777_216.0, "1.6777216E7"),
            (457_785.06, "457785.06"),
        ] {
            assert_eq!(float(value), wanted);
        }
    }

    #[test]
    fn decimals_keep_their_scale() {
        assert_eq!(decimal(150, 2), "1.50");
        assert_eq!(decimal(-1, 2), "-0.01");
        assert_eq!(decimal(0, 6), "0.000000");
        assert_eq!(
            decimal(i128::MIN, 0),
            "-170141183460469231731687303715884105728"
        );
    }
}
