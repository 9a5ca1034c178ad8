//! The statistics record inside manifests and manifest lists \[F-4.4].

use crate::avro::cursor::Cursor;
use crate::avro::encode;
use crate::avro::plan::{Field, List, RecordPlan, Slot, Want, optional, required};
use crate::avro::schema::Schema;
use crate::error::{Error, Problem, Result};
use tidegate_model::{BinaryRow, SimpleStats};

pub(crate) static STATS: [Field; 3] = [
    required("_MIN_VALUES", Want::Bytes),
    required("_MAX_VALUES", Want::Bytes),
    optional("_NULL_COUNTS", Want::Array(&Want::Long)),
];

/// Statistics as they lie in the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatsView<'b> {
    /// Minimum row, arity prefix included.
    pub min_values: &'b [u8],
    /// Maximum row.
    pub max_values: &'b [u8],
    counts: Option<List<'b>>,
}

impl<'b> StatsView<'b> {
    /// Reads one; the branch of the slot was read.
    pub(crate) fn read(
        plan: &'b RecordPlan,
        schema: &'b Schema,
        cursor: &mut Cursor<'b>,
    ) -> Result<Self> {
        let mut view = Self::default();
        plan.read(schema, cursor, |field, slot, cursor| {
            match field {
                0 => view.min_values = slot.bytes(cursor)?,
                1 => view.max_values = slot.bytes(cursor)?,
                _ => {
                    view.counts = slot.nullable(cursor, |slot, cursor| {
                        List::read(slot, cursor, |item, cursor| {
                            item.nullable(cursor, Slot::long_value).map(drop)
                        })
                    })?;
                }
            }
            Ok(())
        })?;
        Ok(view)
    }

    /// One null count per covered column; `None` outside = none at all, inside = unknown.
    pub fn null_counts(&self) -> Option<Vec<Option<i64>>> {
        self.counts
            .map(|list| list.collect(|item, cursor| item.nullable(cursor, Slot::long_value)))
    }

    /// An owned copy.
    ///
    /// # Errors
    /// Where minimum or maximum is no row.
    pub fn to_stats(&self) -> Result<SimpleStats> {
        Ok(SimpleStats {
            min_values: row(self.min_values).map_err(|e| e.in_field("_MIN_VALUES"))?,
            max_values: row(self.max_values).map_err(|e| e.in_field("_MAX_VALUES"))?,
            null_counts: self.null_counts(),
        })
    }
}

/// A row with its arity prefix.
pub(crate) fn row(serialized: &[u8]) -> Result<BinaryRow> {
    // The empty row of append tables and unpartitioned ones is shared.
    if serialized == [0; 12] {
        return Ok(BinaryRow::empty());
    }
    BinaryRow::from_serialized(serialized).map_err(|e| {
        Error::new(Problem::Unexpected {
            expected: "a binary row",
            found: e.to_string(),
        })
    })
}

/// Writes a row after the length of its serialised form, without making that form first.
pub(crate) fn put_row(out: &mut Vec<u8>, row: &BinaryRow) {
    encode::long(out, row.bytes().len() as i64 + 4);
    out.extend_from_slice(&row.arity().to_be_bytes());
    out.extend_from_slice(row.bytes());
}

/// Writes a statistics record.
pub(crate) fn put_stats(out: &mut Vec<u8>, stats: &SimpleStats) {
    put_row(out, &stats.min_values);
    put_row(out, &stats.max_values);
    encode::nullable(out, stats.null_counts.as_deref(), |out, counts| {
        encode::array(out, counts, |out, count| {
            encode::nullable(out, *count, encode::long)
        });
    });
}
