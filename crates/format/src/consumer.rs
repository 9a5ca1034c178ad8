//! Consumer files `consumer/consumer-<id>`: where a streaming reader stands \[F-10.3].

use crate::error::{Position, Result};
use crate::json::{Reader, Writer};
use crate::snapshot::need;
use tidegate_model::SnapshotId;

/// The progress of one consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// The next snapshot it will read; everything below is consumed.
    pub next_snapshot: SnapshotId,
    /// Keys that this build does not know: name and raw JSON text.
    pub unknown: Vec<(String, String)>,
}

/// Reads a consumer file.
///
/// # Errors
/// Text that is no JSON object with a whole number `nextSnapshot`.
pub fn decode(bytes: &[u8]) -> Result<Consumer> {
    let mut reader = Reader::new(bytes)?;
    let (mut next, mut unknown) = (None, Vec::new());
    reader.object(|r, key| {
        match key {
            "nextSnapshot" => next = Some(r.i64()?),
            _ => unknown.push((key.to_owned(), r.raw()?.to_owned())),
        }
        Ok(())
    })?;
    reader.end()?;
    let start = Position::Text { line: 1, column: 1 };
    let next_snapshot = SnapshotId(need(next, "nextSnapshot").map_err(|e| e.at(start))?);
    Ok(Consumer {
        next_snapshot,
        unknown,
    })
}

/// Writes a consumer file.
pub fn encode(consumer: &Consumer) -> Vec<u8> {
    let mut w = Writer::new();
    w.begin_object();
    w.int("nextSnapshot", consumer.next_snapshot.0);
    for (key, json) in &consumer.unknown {
        w.key(key);
        w.raw(json);
    }
    w.end_object();
    w.finish()
}
