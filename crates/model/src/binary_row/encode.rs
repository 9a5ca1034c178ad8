//! How one value lies in its slot and in the variable part; rows and arrays share it \[F-4.5].

use crate::data_type::LogicalType;

/// Writes `data` at `at`.
///
/// # Panics
/// Where `at` is not inside the fixed part: a field index out of range, a mistake of the caller and
/// never of the data.
#[allow(
    clippy::indexing_slicing,
    reason = "positions come from our own layout, not from data"
)]
pub(super) fn put(buf: &mut [u8], at: usize, data: &[u8]) {
    buf[at..at + data.len()].copy_from_slice(data);
}

/// `(offset << 32) + low`, little endian.
fn pointer(offset: usize, low: u32) -> [u8; 8] {
    (((offset as u64) << 32) | u64::from(low)).to_le_bytes()
}

fn pad(buf: &mut Vec<u8>) {
    buf.resize(buf.len().next_multiple_of(8), 0);
}

/// A piece of its own in the variable part.
pub(super) fn put_piece(buf: &mut Vec<u8>, at: usize, data: &[u8]) {
    let offset = buf.len();
    buf.extend_from_slice(data);
    pad(buf);
    put(buf, at, &pointer(offset, data.len() as u32));
}

/// Up to seven bytes in the slot, longer ones as a piece.
pub(super) fn put_bytes(buf: &mut Vec<u8>, at: usize, data: &[u8]) {
    if data.len() <= 7 {
        let mut slot = [0u8; 8];
        put(&mut slot, 0, data);
        slot[7] = 0x80 | data.len() as u8;
        put(buf, at, &slot);
    } else {
        put_piece(buf, at, data);
    }
}

/// Room for a null whose type keeps its piece: `(offset << 32) + 0`.
pub(super) fn put_reserved(buf: &mut Vec<u8>, at: usize, size: usize) {
    let offset = buf.len();
    buf.resize(offset + size, 0);
    put(buf, at, &pointer(offset, 0));
}

/// Shortest two's complement form, big endian, as `BigInteger.toByteArray`.
pub(crate) fn minimal_twos_complement(value: &[u8; 16]) -> &[u8] {
    let negative = value.first().is_some_and(|b| b & 0x80 != 0);
    let filler = if negative { 0xff } else { 0 };
    let mut rest = value.as_slice();
    while let [first, tail @ ..] = rest {
        match tail.first() {
            // The next byte must go on saying the sign.
            Some(next) if *first == filler && (next & 0x80 != 0) == negative => rest = tail,
            _ => break,
        }
    }
    rest
}

/// Up to 18 digits in the slot, more as 16 big-endian bytes, left-aligned.
pub(super) fn put_decimal(buf: &mut Vec<u8>, at: usize, unscaled: i128, precision: u8) {
    if precision <= 18 {
        put(buf, at, &(unscaled as i64).to_le_bytes());
        return;
    }
    let all = unscaled.to_be_bytes();
    let digits = minimal_twos_complement(&all);
    let offset = buf.len();
    buf.extend_from_slice(digits);
    buf.resize(offset + 16, 0);
    put(buf, at, &pointer(offset, digits.len() as u32));
}

/// Millis in the slot up to precision 3, else nanos in the slot and millis as a piece.
pub(super) fn put_timestamp(
    buf: &mut Vec<u8>,
    at: usize,
    millis: i64,
    nanos_of_milli: i32,
    precision: u8,
) {
    if precision <= 3 {
        put(buf, at, &millis.to_le_bytes());
        return;
    }
    let offset = buf.len();
    buf.extend_from_slice(&millis.to_le_bytes());
    put(buf, at, &pointer(offset, nanos_of_milli as u32));
}

/// Bytes that a null field of a row keeps in the variable part.
pub(super) fn reserved_by_null(data_type: &LogicalType) -> usize {
    match data_type {
        LogicalType::Decimal { precision, .. } if *precision > 18 => 16,
        LogicalType::Timestamp(p) | LogicalType::TimestampLtz(p) if *p > 3 => 8,
        _ => 0,
    }
}

/// Bytes of one element in an array \[F-4.6].
pub(super) fn element_width(data_type: &LogicalType) -> usize {
    match data_type {
        LogicalType::Boolean | LogicalType::TinyInt => 1,
        LogicalType::SmallInt => 2,
        LogicalType::Int | LogicalType::Date | LogicalType::Time(_) | LogicalType::Float => 4,
        _ => 8,
    }
}
