//! Which bucket a row belongs to \[F-7.2].
//!
//! Owns the hash of key rows and the three bucket functions. A wrong bucket does not fail, it
//! duplicates keys: every function is checked against Java's own answers.

use crate::binary_row::BinaryRowReader;
use crate::data_type::LogicalType;
use crate::error::{Error, Result};

const SEED: u32 = 42;

fn mix_word(hash: u32, word: u32) -> u32 {
    let k = word
        .wrapping_mul(0xcc9e_2d51)
        .rotate_left(15)
        .wrapping_mul(0x1b87_3593);
    (hash ^ k)
        .rotate_left(13)
        .wrapping_mul(5)
        .wrapping_add(0xe654_6b64)
}

/// Murmur3 x86 32-bit with Java's tail: the bytes beyond the last word are mixed one by one as
/// sign-extended words. For the bytes of a row, whose length is a multiple of eight, it is the
/// standard function.
#[inline]
pub fn hash(bytes: &[u8]) -> i32 {
    let (words, tail) = bytes.as_chunks::<4>();
    let mut h = words
        .iter()
        .fold(SEED, |h, w| mix_word(h, u32::from_le_bytes(*w)));
    h = tail.iter().fold(h, |h, b| mix_word(h, *b as i8 as u32));
    h ^= bytes.len() as u32;
    h ^= h >> 16;
    h = h.wrapping_mul(0x85eb_ca6b);
    h ^= h >> 13;
    h = h.wrapping_mul(0xc2b2_ae35);
    h ^= h >> 16;
    h as i32
}

/// How a bucket key gives a bucket; option `bucket-function.type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BucketFunction {
    /// Hash of the row's bytes.
    #[default]
    Default,
    /// The one INT or BIGINT key modulo the count; null is 0.
    Mod,
    /// As Hive does.
    Hive,
}

impl BucketFunction {
    /// Name in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Mod => "mod",
            Self::Hive => "hive",
        }
    }

    /// Reads the text of the option.
    ///
    /// # Errors
    /// Names the three texts that are known.
    pub fn from_option(text: &str) -> Result<Self> {
        [Self::Default, Self::Mod, Self::Hive]
            .into_iter()
            .find(|f| f.name().eq_ignore_ascii_case(text.trim()))
            .ok_or_else(|| Error::Option {
                key: "bucket-function.type".to_owned(),
                value: text.to_owned(),
                expected: "must be default, mod or hive".to_owned(),
            })
    }

    /// Why it cannot serve keys of these types; `None` = it can. To be asked when a table is made or
    /// opened, so that no row fails later.
    pub fn unfit(self, keys: &[LogicalType]) -> Option<String> {
        match self {
            Self::Default => None,
            Self::Mod => match keys {
                [LogicalType::Int | LogicalType::BigInt] => None,
                _ => Some("anything but exactly one bucket-key of type INT or BIGINT".to_owned()),
            },
            Self::Hive => keys
                .iter()
                .find(|t| !hive_supports(t))
                .map(|t| format!("a bucket-key of type {t}")),
        }
    }

    /// The bucket of a key row: the bucket keys in the order of `bucket-key`, with their types.
    ///
    /// # Errors
    /// Where the function does not know a type, or the row does not fit the types. The default
    /// function never fails for a positive count.
    pub fn bucket(self, key: &[u8], types: &[LogicalType], buckets: i32) -> Result<i32> {
        if buckets <= 0 {
            return Err(Error::Schema(format!(
                "a row has no bucket among {buckets}"
            )));
        }
        let reader = || BinaryRowReader::new(types.len() as u32, key);
        match self {
            Self::Default => Ok(bucket_of_hash(hash(key), buckets)),
            Self::Mod => {
                let row = reader()?;
                let value = match types {
                    [LogicalType::Int] => row.i32(0)?.map(i64::from),
                    [LogicalType::BigInt] => row.i64(0)?,
                    _ => {
                        return Err(Error::BucketFunction {
                            function: self.name(),
                            what: self.unfit(types).unwrap_or_default(),
                        });
                    }
                };
                Ok(value.unwrap_or(0).rem_euclid(i64::from(buckets)) as i32)
            }
            Self::Hive => {
                let row = reader()?;
                let mut h: i32 = 0;
                for (i, data_type) in types.iter().enumerate() {
                    h = h
                        .wrapping_mul(31)
                        .wrapping_add(hive_hash(&row, i, data_type)?);
                }
                Ok((h & 0x7fff_ffff) % buckets)
            }
        }
    }
}

/// The default function on a hash that is known already: the truncated remainder, then its
/// magnitude.
#[inline]
pub fn bucket_of_hash(hash: i32, buckets: i32) -> i32 {
    hash.checked_rem(buckets).unwrap_or(0).abs()
}

fn hive_supports(data_type: &LogicalType) -> bool {
    matches!(
        data_type,
        LogicalType::Boolean
            | LogicalType::TinyInt
            | LogicalType::SmallInt
            | LogicalType::Int
            | LogicalType::BigInt
            | LogicalType::Float
            | LogicalType::Double
            | LogicalType::Decimal { .. }
            | LogicalType::Char(_)
            | LogicalType::VarChar(_)
            | LogicalType::Binary(_)
            | LogicalType::VarBinary(_)
            | LogicalType::Date
            | LogicalType::Time(_)
    )
}

fn fold_long(value: i64) -> i32 {
    (value ^ ((value as u64) >> 32) as i64) as i32
}

fn hive_bytes(bytes: &[u8]) -> i32 {
    bytes.iter().fold(0i32, |h, b| {
        h.wrapping_mul(31).wrapping_add(i32::from(*b as i8))
    })
}

/// `BigDecimal.hashCode` once trailing zeros behind the point are stripped.
fn hive_decimal(unscaled: i128, scale: u8) -> i32 {
    let (mut digits, mut scale) = (unscaled, i32::from(scale));
    if digits == 0 {
        return 0;
    }
    // Not beyond the point: Java sets a negative scale back to 0.
    while scale > 0 && digits % 10 == 0 {
        digits /= 10;
        scale -= 1;
    }
    // BigInteger.hashCode: 31-polynomial over the 32-bit words of the magnitude, most significant
    // first, times the sign.
    let magnitude = digits.unsigned_abs();
    let words = [96u32, 64, 32, 0].map(|shift| (magnitude >> shift) as u32);
    let hash = words
        .iter()
        .fold(0i32, |h, w| h.wrapping_mul(31).wrapping_add(*w as i32));
    let hash = if digits < 0 {
        hash.wrapping_neg()
    } else {
        hash
    };
    hash.wrapping_mul(31).wrapping_add(scale)
}

fn hive_hash(row: &BinaryRowReader<'_>, i: usize, data_type: &LogicalType) -> Result<i32> {
    // Null is 0 whatever the type, unsupported ones included, as Java asks for null first.
    if row.is_null(i)? {
        return Ok(0);
    }
    Ok(match data_type {
        LogicalType::Boolean => i32::from(row.bool(i)?.unwrap_or_default()),
        LogicalType::TinyInt => i32::from(row.i8(i)?.unwrap_or_default()),
        LogicalType::SmallInt => i32::from(row.i16(i)?.unwrap_or_default()),
        LogicalType::Int | LogicalType::Date | LogicalType::Time(_) => {
            row.i32(i)?.unwrap_or_default()
        }
        LogicalType::BigInt => fold_long(row.i64(i)?.unwrap_or_default()),
        LogicalType::Float => {
            let value = row.f32(i)?.unwrap_or_default();
            // Float.floatToIntBits: one NaN; both zeros are 0.
            if value == 0.0 {
                0
            } else if value.is_nan() {
                0x7fc0_0000
            } else {
                value.to_bits() as i32
            }
        }
        LogicalType::Double => {
            let value = row.f64(i)?.unwrap_or_default();
            if value == 0.0 {
                0
            } else if value.is_nan() {
                fold_long(0x7ff8_0000_0000_0000)
            } else {
                fold_long(value.to_bits() as i64)
            }
        }
        LogicalType::Decimal { precision, scale } => {
            hive_decimal(row.decimal(i, *precision)?.unwrap_or_default(), *scale)
        }
        LogicalType::Char(_)
        | LogicalType::VarChar(_)
        | LogicalType::Binary(_)
        | LogicalType::VarBinary(_) => hive_bytes(row.bytes(i)?.unwrap_or_default()),
        other => {
            return Err(Error::BucketFunction {
                function: "hive",
                what: format!("a bucket-key of type {other}"),
            });
        }
    })
}
