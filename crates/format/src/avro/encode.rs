//! Writing Avro's binary encoding.

/// A zigzag varint, for `int` and `long` alike.
pub(crate) fn long(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Bytes after their length.
pub(crate) fn bytes(out: &mut Vec<u8>, value: &[u8]) {
    long(out, value.len() as i64);
    out.extend_from_slice(value);
}

/// A text after its length.
pub(crate) fn text(out: &mut Vec<u8>, value: &str) {
    bytes(out, value.as_bytes());
}

/// A union `["null", T]`: the branch, then the value.
pub(crate) fn nullable<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    match value {
        None => long(out, 0),
        Some(value) => {
            long(out, 1);
            put(out, value);
        }
    }
}

/// An array in one block, as Java writes it.
pub(crate) fn array<T>(out: &mut Vec<u8>, items: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    if !items.is_empty() {
        long(out, items.len() as i64);
        items.iter().for_each(|item| put(out, item));
    }
    long(out, 0);
}
