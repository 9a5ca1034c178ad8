//! Numbers as Java prints them: parts of partition paths depend on it \[F-1.4].

mod digits;

use digits::Digits;

/// As `Double.toString` of Java 8 to 17, on which Paimon runs.
///
/// Not always the shortest digits: those releases print `2.0E23` as `1.9999999999999998E23`. Java 19 changed it, so that partitions by such numbers depend on the
/// reader's Java; we follow the releases that Paimon supports.
pub fn double(value: f64) -> String {
    let bits = value.to_bits();
    let (sign, fraction) = (value.is_sign_negative(), bits & ((1 << 52) - 1));
    match ((bits >> 52) & 0x7ff) as i32 {
        0x7ff => word(fraction != 0, sign).to_owned(),
        0 if fraction == 0 => zero(sign).to_owned(),
        0 => {
            let leading = fraction.leading_zeros() as i32;
            let shift = leading - 11;
            print(
                sign,
                &Digits::of(1 - shift - 1_023, fraction << shift, 64 - leading),
            )
        }
        exponent => print(
            sign,
            &Digits::of(exponent - 1_023, fraction | (1 << 52), 53),
        ),
    }
}

/// As `Float.toString`; see [`double`].
pub fn float(value: f32) -> String {
    let bits = value.to_bits();
    let (sign, fraction) = (value.is_sign_negative(), bits & ((1 << 23) - 1));
    match ((bits >> 23) & 0xff) as i32 {
        0xff => word(fraction != 0, sign).to_owned(),
        0 if fraction == 0 => zero(sign).to_owned(),
        0 => {
            let leading = fraction.leading_zeros() as i32;
            let shift = leading - 8;
            let mantissa = u64::from(fraction << shift) << 29;
            print(sign, &Digits::of(1 - shift - 127, mantissa, 32 - leading))
        }
        exponent => print(
            sign,
            &Digits::of(exponent - 127, u64::from(fraction | (1 << 23)) << 29, 24),
        ),
    }
}

fn word(nan: bool, negative: bool) -> &'static str {
    match (nan, negative) {
        (true, _) => "NaN",
        (false, false) => "Infinity",
        (false, true) => "-Infinity",
    }
}

fn zero(negative: bool) -> &'static str {
    if negative { "-0.0" } else { "0.0" }
}

/// Plain from 10^-3 to 10^7, else with `E`; at least one digit on either side of the point.
fn print(negative: bool, Digits { text, point }: &Digits) -> String {
    let sign = if negative { "-" } else { "" };
    let or_zero = |text: &str| {
        if text.is_empty() {
            "0".to_owned()
        } else {
            text.to_owned()
        }
    };
    match usize::try_from(*point) {
        Ok(whole @ 1..=7) => {
            let padded = format!("{text:0<whole$}");
            let (before, after) = padded.split_at(whole);
            format!("{sign}{before}.{}", or_zero(after))
        }
        _ if (-2..=0).contains(point) => {
            format!(
                "{sign}0.{}{text}",
                "0".repeat(point.unsigned_abs() as usize)
            )
        }
        _ => {
            let (first, rest) = text.split_at(1);
            format!("{sign}{first}.{}E{}", or_zero(rest), point - 1)
        }
    }
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
            (2e23, "1.9999999999999998E23"),
            (1.254e22, "1.2540000000000001E22"),
            (2e-3, "0.002"),
            (1e23, "9.999999999999999E22"),
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
            (5e15, "5.0000001E15"),
            (2.199_899_8e8, "2.19989984E8"),
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
