//! The decimal digits that Java 8 to 17 choose for a binary floating-point number.
//!
//! Digits are developed one by one (Steele and White, with an estimated exponent) until they tell the
//! number from its neighbours. Java's peculiarities decide how many digits there are, and so directory
//! names, and are kept: whole numbers below 2^63 are rounded in decimal instead; with an exponent there
//! are at least two digits before the first test; a tie with the upper neighbour counts only for numbers
//! that do not fit 64 bits; those that do may overflow.

use std::cmp::Ordering;

/// Significant digits and where the decimal point stands among them: 0.`text` × 10^`point`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Digits {
    pub(super) text: String,
    pub(super) point: i32,
}

/// Bits of 5^n; 0 for n = 0.
fn bits_of_power_of_5(n: i32) -> i32 {
    match n {
        0 => 0,
        // Exact as far as Java's table goes, then its estimate.
        1..=26 => 64 - 5u64.pow(n as u32).leading_zeros() as i32,
        _ => n * 3,
    }
}

impl Digits {
    /// Of mantissa × 2^(exponent - 52), where the mantissa has its highest bit at 52 and carries
    /// `significant` bits of precision.
    pub(super) fn of(exponent: i32, mantissa: u64, significant: i32) -> Self {
        let tail = mantissa.trailing_zeros() as i32;
        let mantissa_bits = 53 - tail;
        // Bits behind the binary point.
        let tiny = (mantissa_bits - exponent - 1).max(0);
        if (-21..=62).contains(&exponent) && tiny == 0 && mantissa_bits < 64 {
            return Self::of_whole(exponent, mantissa, significant);
        }

        let mut point = estimate(mantissa, exponent);
        let five_in_value = (-point).max(0);
        let five_in_scale = point.max(0);
        let mut two_in_value = five_in_value + tiny + exponent;
        let mut two_in_scale = five_in_scale + tiny;
        let mut two_in_margin = two_in_value - significant;
        two_in_value -= mantissa_bits - 1;
        let common = two_in_value.min(two_in_scale);
        two_in_value -= common;
        two_in_scale -= common;
        two_in_margin -= common;
        if mantissa_bits == 1 {
            // Below a power of two the neighbour is only half as far away.
            two_in_margin -= 1;
        }
        if two_in_margin < 0 {
            two_in_value -= two_in_margin;
            two_in_scale -= two_in_margin;
            two_in_margin = 0;
        }
        let value_bits = mantissa_bits + two_in_value + bits_of_power_of_5(five_in_value);
        let scale_bits = two_in_scale + 1 + bits_of_power_of_5(five_in_scale + 1);
        let width = Width::of(value_bits.max(scale_bits));

        let mut value = Natural::product(mantissa >> tail, five_in_value, two_in_value);
        let scale = Natural::product(1, five_in_scale, two_in_scale);
        let mut margin = Natural::product(1, five_in_value, two_in_margin);
        let mut ten_scales = scale.clone();
        ten_scales.times(10);

        let mut text = Vec::with_capacity(20);
        let (mut low, mut high);
        let mut first_round = true;
        loop {
            let digit = value.divide(&scale);
            value.times(10);
            margin.times(10);
            (low, high) = width.near(&value, &margin, &ten_scales);
            let first = std::mem::take(&mut first_round);
            if first && digit == 0 && !high {
                // The estimate was one too high: no leading zero.
                point -= 1;
            } else {
                text.push(digit);
            }
            // Printed with an exponent there are to be two digits, so the first round is never the last.
            if first && !(-3..8).contains(&point) {
                continue;
            }
            if low || high {
                break;
            }
        }
        value.times(2);
        let up = match (high, low) {
            (false, _) => false,
            (true, false) => true,
            (true, true) => match value.compare(&ten_scales) {
                Ordering::Greater => true,
                Ordering::Equal => text.last().is_some_and(|d| d % 2 == 1),
                Ordering::Less => false,
            },
        };
        if up && round_up(&mut text) {
            point += 1;
        }
        let text = text.into_iter().map(|d| char::from(b'0' + d)).collect();
        Self {
            text,
            point: point + 1,
        }
    }

    /// Of a whole number below 2^63: digits that the precision does not reach are rounded off.
    fn of_whole(exponent: i32, mantissa: u64, significant: i32) -> Self {
        let mut value = if exponent >= 52 {
            mantissa << (exponent - 52)
        } else {
            mantissa >> (52 - exponent)
        };
        // Digits of 2^beyond, less one: floor(beyond × log10 2), exact in this range.
        let beyond = (exponent - significant - 1).max(0);
        let dropped = (beyond * 1_233) >> 12;
        if dropped > 0 {
            let power = 10u64.pow(dropped as u32);
            let residue = value % power;
            value = value / power + u64::from(residue >= power / 2);
        }
        let text = value.to_string();
        let point = text.len() as i32 + dropped;
        Self {
            text: text.trim_end_matches('0').to_owned(),
            point,
        }
    }
}

/// Adds one to the last digit; true where that made a new first digit.
fn round_up(text: &mut [u8]) -> bool {
    for digit in text.iter_mut().rev() {
        if *digit < 9 {
            *digit += 1;
            return false;
        }
        *digit = 0;
    }
    if let Some(first) = text.first_mut() {
        *first = 1;
    }
    true
}

/// The decimal exponent by a line through the logarithm, never too low.
#[allow(clippy::approx_constant, reason = "Java's constant, digit for digit")]
fn estimate(mantissa: u64, exponent: i32) -> i32 {
    let one_to_two = f64::from_bits((1_023 << 52) | (mantissa & ((1 << 52) - 1)));
    let estimate = (one_to_two - 1.5) * 0.289_529_654
        + 0.176_091_259
        + f64::from(exponent) * 0.301_029_995_663_981;
    estimate.floor() as i32
}

/// The numbers that Java computes with; the narrow ones wrap around, which shows in a few digits.
#[derive(Clone, Copy)]
enum Width {
    Int,
    Long,
    Any,
}

impl Width {
    fn of(bits: i32) -> Self {
        match bits {
            ..32 => Self::Int,
            32..64 => Self::Long,
            _ => Self::Any,
        }
    }

    /// Whether the digits so far are within the margin of the number from below and from above.
    fn near(self, value: &Natural, margin: &Natural, ten_scales: &Natural) -> (bool, bool) {
        let narrow = |n: &Natural| n.low_bits() as i64;
        let (value_now, margin_now, sum) = match self {
            Self::Any => {
                let reach = value.plus(margin).compare(ten_scales);
                return (value.compare(margin).is_lt(), reach.is_ge());
            }
            Self::Long => {
                let (v, m) = (narrow(value), narrow(margin));
                (v, m, v.wrapping_add(m))
            }
            Self::Int => {
                let (v, m) = (narrow(value) as i32, narrow(margin) as i32);
                (i64::from(v), i64::from(m), i64::from(v.wrapping_add(m)))
            }
        };
        if margin_now <= 0 {
            return (true, true);
        }
        (value_now < margin_now, sum > narrow(ten_scales))
    }
}

/// A whole number of any size, least significant word first.
#[derive(Clone, Debug)]
struct Natural(Vec<u32>);

impl Natural {
    /// `factor` × 5^`fives` × 2^`twos`.
    fn product(factor: u64, fives: i32, twos: i32) -> Self {
        let mut out = Self(vec![factor as u32, (factor >> 32) as u32]);
        (0..fives).for_each(|_| out.times(5));
        (0..twos / 31).for_each(|_| out.times(1 << 31));
        out.times(1 << (twos.max(0) % 31));
        out
    }

    fn times(&mut self, factor: u32) {
        let mut carry = 0u64;
        for word in &mut self.0 {
            let product = u64::from(*word) * u64::from(factor) + carry;
            *word = product as u32;
            carry = product >> 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn plus(&self, other: &Self) -> Self {
        let mut carry = 0u64;
        let mut out = Vec::with_capacity(self.0.len().max(other.0.len()) + 1);
        for i in 0..self.0.len().max(other.0.len()) {
            let sum = u64::from(self.word(i)) + u64::from(other.word(i)) + carry;
            out.push(sum as u32);
            carry = sum >> 32;
        }
        out.push(carry as u32);
        Self(out)
    }

    fn low_bits(&self) -> u64 {
        u64::from(self.word(0)) | (u64::from(self.word(1)) << 32)
    }

    fn word(&self, i: usize) -> u32 {
        self.0.get(i).copied().unwrap_or(0)
    }

    fn compare(&self, other: &Self) -> Ordering {
        (0..self.0.len().max(other.0.len()))
            .rev()
            .map(|i| self.word(i).cmp(&other.word(i)))
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// Leaves the remainder and returns the quotient, which is below ten here.
    fn divide(&mut self, divisor: &Self) -> u8 {
        let mut quotient = 0;
        while self.compare(divisor).is_ge() {
            let mut borrow = 0i64;
            for i in 0..self.0.len() {
                let difference = i64::from(self.word(i)) - i64::from(divisor.word(i)) - borrow;
                borrow = i64::from(difference < 0);
                if let Some(word) = self.0.get_mut(i) {
                    *word = difference as u32;
                }
            }
            quotient += 1;
        }
        quotient
    }
}
