//! `rbm32`, `hll_sketch` and `theta_sketch`: sets and sketches of sets in the bytes of their libraries;
//! the union of each.

use super::Column;
use crate::engine::{Op, RowRef};
use crate::error::Result;
use arrow::array::{ArrayRef, BinaryArray, BinaryBuilder};
use datasketches::hll::{HllSketch, HllType, HllUnion};
use datasketches::theta::{CompactThetaSketch, ThetaUnionBuilder};
use roaring::RoaringBitmap;
use std::sync::Arc;

/// A value as it came, or decoded.
enum Value<T> {
    Nothing,
    AsItCame(RowRef),
    Decoded(T),
}

/// The union of each group: `decode` reads bytes, `join` takes the value so far and a new one.
fn union<T>(
    column: Column<'_>,
    decode: impl Fn(&[u8]) -> Result<T, String>,
    join: impl Fn(T, T) -> Result<T, String>,
    encode: impl Fn(T) -> Result<Vec<u8>, String>,
) -> Result<ArrayRef> {
    let arrays = column.typed::<BinaryArray>()?;
    let raw = |row: RowRef| {
        arrays
            .get(row.batch as usize)
            .map_or(&[][..], |a| a.value(row.row()))
    };
    let read = |row: RowRef| decode(raw(row)).map_err(|what| column.refuse(row, what));
    let mut out = BinaryBuilder::with_capacity(column.steps.len(), 0);
    for group in column.groups() {
        let mut value = Value::Nothing;
        let mut last = None;
        for (op, row) in group {
            last = Some(row);
            let given = !column.is_null(row);
            value = match (op, value) {
                (Op::Set, _) if given => Value::AsItCame(row),
                (Op::Set, _) => Value::Nothing,
                (Op::Retract | Op::RetractOlder, _) => return Err(column.takes_no_retracts(row)),
                (_, value) if !given => value,
                (_, Value::Nothing) => Value::AsItCame(row),
                (_, Value::AsItCame(old)) => {
                    let joined = join(read(old)?, read(row)?);
                    Value::Decoded(joined.map_err(|what| column.refuse(row, what))?)
                }
                (_, Value::Decoded(old)) => {
                    let joined = join(old, read(row)?);
                    Value::Decoded(joined.map_err(|what| column.refuse(row, what))?)
                }
            };
        }
        match (value, last) {
            (Value::AsItCame(row), _) => out.append_value(raw(row)),
            (Value::Decoded(value), Some(row)) => {
                out.append_value(encode(value).map_err(|what| column.refuse(row, what))?);
            }
            _ => out.append_null(),
        }
    }
    Ok(Arc::new(out.finish()))
}

pub(super) fn bitmaps(column: Column<'_>) -> Result<ArrayRef> {
    union(
        column,
        |bytes| {
            RoaringBitmap::deserialize_from(bytes)
                .map_err(|e| format!("{} bytes are no 32-bit roaring bitmap: {e}", bytes.len()))
        },
        |a, b| Ok(a | b),
        |mut bitmap| {
            bitmap.optimize();
            let mut bytes = Vec::with_capacity(bitmap.serialized_size());
            match bitmap.serialize_into(&mut bytes) {
                Ok(()) => Ok(bytes),
                Err(e) => Err(format!("the union cannot be written: {e}")),
            }
        },
    )
}

/// As Java does it: the union has the size of the sketch that comes in, the result four bits per
/// register.
pub(super) fn hll_sketches(column: Column<'_>) -> Result<ArrayRef> {
    union(
        column,
        |bytes| {
            HllSketch::deserialize(bytes)
                .map_err(|e| format!("{} bytes are no HLL sketch: {e}", bytes.len()))
        },
        |old, new| {
            let mut union = HllUnion::new(new.lg_config_k()).map_err(|e| e.to_string())?;
            union.update(&new);
            union.update(&old);
            Ok(union.to_sketch(HllType::Hll4))
        },
        |sketch| Ok(sketch.serialize()),
    )
}

/// Java's union has 4096 nominal entries, whatever the sketches have; its result is ordered.
const THETA_LG_K: u8 = 12;

pub(super) fn theta_sketches(column: Column<'_>) -> Result<ArrayRef> {
    union(
        column,
        |bytes| {
            CompactThetaSketch::deserialize(bytes)
                .map_err(|e| format!("{} bytes are no compact theta sketch: {e}", bytes.len()))
        },
        |old, new| {
            let joined = || {
                let mut union = ThetaUnionBuilder::default().lg_k(THETA_LG_K).build()?;
                union.update(&old)?;
                union.update(&new)?;
                Ok(union.to_sketch(true))
            };
            joined().map_err(|e: datasketches::error::Error| e.to_string())
        },
        |sketch| Ok(sketch.serialize()),
    )
}
