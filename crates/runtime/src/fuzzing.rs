//! What the fuzz targets run, and `cargo test` on their seeds. No part of the engine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "checks report by a panic"
)]

pub use crate::source::files::fuzzing::{
    csv_cuts, file_position, json_cuts, parquet_source, text_values, unpack,
};

use crate::source::files::fuzzing::SCHEMA;
use crate::source::generator::{GeneratorConfig, GeneratorSource, Rule};
use crate::source::{Read, Source, SourceState, Split, SplitId};
use std::sync::Arc;
use tidegate_sink::Positions;
use tidegate_sink::blocking::{CancelFlag, wait};

/// Saved positions: an error or a state, never a panic; and what is read is written back to equal
/// bytes, since commits compare them.
pub fn source_state(data: &[u8]) {
    let half = data.first().map_or(0, |n| usize::from(*n)).min(data.len());
    let (active, finished) = data.split_at(half);
    for positions in [
        Positions {
            active: active.to_vec(),
            finished: finished.to_vec(),
        },
        Positions {
            active: data.to_vec(),
            finished: Vec::new(),
        },
        Positions {
            active: Vec::new(),
            finished: data.to_vec(),
        },
    ] {
        if let Ok(state) = SourceState::from_positions(&positions) {
            let again = state.to_positions();
            let read = SourceState::from_positions(&again).expect("what was written can be read");
            assert_eq!(read, state);
            assert!(positions.finished.len() >= again.finished.len());
        }
    }
}

/// A row number, then lines `column=rule`: a generator of rows from there, the same rows again, or an
/// error that names the column.
pub fn generator(data: &[u8]) {
    let Some((row, text)) = data.split_first_chunk::<8>() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let rule = |text: &str| {
        let (kind, rest) = text.split_at_checked(1)?;
        let (a, b) = rest.split_once('|').unwrap_or((rest, ""));
        Some(match kind {
            "s" => Rule::Sequence {
                start: a.parse().ok()?,
                step: b.parse().ok()?,
            },
            "t" => Rule::Template(rest.into()),
            "c" => Rule::Choice(rest.split('|').map(str::to_owned).collect()),
            "r" => Rule::Random {
                min: a.into(),
                max: b.into(),
            },
            _ => Rule::Constant(rest.into()),
        })
    };
    let columns: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter_map(|(name, text)| Some((name.to_owned(), rule(text)?)))
        .collect();
    // Templates of columns multiply what stands in the text.
    if text.len() > 512 {
        return;
    }
    let config = GeneratorConfig {
        // Few, or without end where no more than few row numbers are left.
        rows: u64::from_be_bytes(*row).checked_add(16),
        rate: None,
        seed: u64::from_le_bytes(*row),
        columns,
    };
    let schema = Arc::new(arrow::datatypes::Schema::new(
        SCHEMA.fields().iter().take(15).cloned().collect::<Vec<_>>(),
    ));
    let Ok(source) = GeneratorSource::new(schema, config) else {
        return;
    };
    let split = Split {
        id: SplitId("generator".into()),
        position: crate::source::Position {
            version: 1,
            bytes: row.to_vec(),
        },
    };
    let first = || {
        let opened = wait(source.reader(&split), &CancelFlag::new()).expect("nobody cancels");
        let mut reader = opened.expect("any row number can be gone on from");
        let next = wait(reader.next(), &CancelFlag::new()).expect("nobody cancels");
        match next {
            Ok(Read::Rows(batch)) => Ok((Some(batch.batch), batch.position)),
            Ok(Read::End(position)) => Ok((None, position)),
            Ok(Read::Idle) => panic!("a generator does not wait"),
            Err(e) => Err(e.to_string()),
        }
    };
    assert_eq!(first(), first());
}

#[cfg(test)]
tidegate_fuzz_support::seeds!(
    source_state: plain,
    file_position: packed,
    csv_cuts: packed,
    json_cuts: packed,
    text_values: plain,
    unpack: packed,
    parquet_source: packed,
    generator: program,
);
