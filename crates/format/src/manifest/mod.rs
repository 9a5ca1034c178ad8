//! Manifests: `manifest/manifest-<uuid>-<n>`, changes of the set of data files \[F-4.3].
//!
//! [`scan`] lends each entry as it lies in the file, without copying; [`entries`] gives owned entries
//! one by one; both hold one block at a time. [`Encoder`] writes a manifest record by record and sums
//! up what its list needs to know.

mod encoder;
mod view;

pub use encoder::{Encoder, FieldSet, Finished, encode};
pub use view::{EntryView, Texts};

pub(crate) use encoder::{kind, source};
pub(crate) use view::{file_source, read_kind};

use crate::avro::container::Records;
use crate::error::Result;
use tidegate_model::{BinaryRow, ManifestEntry};

/// All entries of a manifest.
///
/// # Errors
/// As [`entries`], for the file and for each of its entries.
pub fn decode(bytes: &[u8]) -> Result<Vec<ManifestEntry>> {
    entries(bytes)?.collect()
}

/// The entries of a manifest, read block by block.
///
/// # Errors
/// Bytes that are no Avro container with the fields of a manifest. Damaged blocks and records appear
/// as the last item of the iterator.
pub fn entries(bytes: &[u8]) -> Result<Entries<'_>> {
    Ok(Entries {
        scan: scan(bytes)?,
        partition: BinaryRow::empty(),
        serialized: vec![0; 12],
    })
}

/// A walk over a manifest that lends each entry.
///
/// # Errors
/// As [`entries`].
pub fn scan(bytes: &[u8]) -> Result<Scan<'_>> {
    Ok(Scan {
        records: Records::open(bytes, &view::ENTRY)?,
    })
}

/// See [`entries`].
#[derive(Debug)]
pub struct Entries<'a> {
    scan: Scan<'a>,
    /// Neighbours mostly share their partition: one allocation for all of them.
    partition: BinaryRow,
    serialized: Vec<u8>,
}

impl Iterator for Entries<'_> {
    type Item = Result<ManifestEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let Self {
            scan,
            partition,
            serialized,
        } = self;
        scan.records.next(|plan, schema, cursor| {
            let view = EntryView::read(plan, schema, cursor)?;
            if view.partition != serialized.as_slice() {
                *partition =
                    crate::stats::row(view.partition).map_err(|e| e.in_field("_PARTITION"))?;
                serialized.clear();
                serialized.extend_from_slice(view.partition);
            }
            view.to_entry_of(partition.clone())
        })
    }
}

/// See [`scan`].
#[derive(Debug)]
pub struct Scan<'a> {
    records: Records<'a>,
}

impl Scan<'_> {
    /// The next entry, which lives until the next call; `None` at the end and after an error.
    #[allow(
        clippy::should_implement_trait,
        reason = "it lends, which an iterator cannot"
    )]
    pub fn next(&mut self) -> Option<Result<EntryView<'_>>> {
        self.records.next(EntryView::read)
    }
}
