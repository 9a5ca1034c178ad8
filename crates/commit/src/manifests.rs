//! Writing manifests and lists: rolling, statistics, exact sizes.

use bytes::Bytes;
use tidegate_format::manifest::{Encoder, FieldSet};
use tidegate_format::{Codec, manifest_list};
use tidegate_model::data_type::LogicalType;
use tidegate_model::manifest::ManifestSummary;
use tidegate_model::{ManifestEntry, ManifestFile, layout};

use crate::error::{CommitError, Result};
use crate::names::MetadataNames;

/// How metadata files are written.
#[derive(Clone, Debug)]
pub(crate) struct ManifestSettings {
    /// `manifest.compression`.
    pub(crate) codec: Codec,
    /// The sync marker of the Avro containers: random, once per committer.
    pub(crate) sync: [u8; 16],
    /// `manifest.target-file-size`, bytes.
    pub(crate) target_size: u64,
    /// `manifest.delete-file-drop-stats`.
    pub(crate) drop_stats_of_deletes: bool,
    /// Types of the partition columns.
    pub(crate) partition_types: Vec<LogicalType>,
}

/// An object ready to be written.
#[derive(Clone, Debug)]
pub(crate) struct Encoded<T> {
    /// What is known of it.
    pub(crate) what: T,
    /// Where it goes, relative to the table.
    pub(crate) path: String,
    /// Its bytes.
    pub(crate) bytes: Bytes,
}

impl<T> Encoded<T> {
    /// Forgets what is known of it.
    pub(crate) fn plain(self) -> Encoded<()> {
        Encoded {
            what: (),
            path: self.path,
            bytes: self.bytes,
        }
    }
}

/// Encodes entries into manifests, a new one whenever the target size is reached.
pub(crate) struct ManifestRoller<'a> {
    settings: &'a ManifestSettings,
    names: &'a MetadataNames,
    open: Option<Open>,
}

struct Open {
    encoder: Encoder,
    fields: FieldSet,
    summary: ManifestSummary,
}

impl<'a> ManifestRoller<'a> {
    pub(crate) fn new(settings: &'a ManifestSettings, names: &'a MetadataNames) -> Self {
        Self {
            settings,
            names,
            open: None,
        }
    }

    /// Adds an entry; gives back a manifest that is full now.
    pub(crate) fn push(&mut self, entry: &ManifestEntry) -> Result<Option<Encoded<ManifestFile>>> {
        let settings = self.settings;
        let fields = FieldSet::for_entries([entry]);
        // A newer writer's entry that is carried over: the manifests with and without its field part.
        let narrow = self
            .open
            .as_ref()
            .is_some_and(|o| o.fields == FieldSet::Release);
        let ended = if narrow && fields == FieldSet::Newest {
            self.finish()?
        } else {
            None
        };
        let open = self.open.get_or_insert_with(|| Open {
            encoder: Encoder::new(fields, settings.codec, settings.sync),
            fields,
            summary: ManifestSummary::new(settings.partition_types.clone()),
        });
        open.encoder
            .push(entry)
            .map_err(|e| CommitError::corrupt("manifest entry", e))?;
        open.summary
            .add(entry)
            .map_err(|e| CommitError::corrupt("manifest entry", e))?;
        if ended.is_none() && open.encoder.is_full(settings.target_size) {
            return self.finish();
        }
        Ok(ended)
    }

    /// The last manifest; `None` where no entry came since the one before.
    pub(crate) fn finish(&mut self) -> Result<Option<Encoded<ManifestFile>>> {
        let Some(open) = self.open.take() else {
            return Ok(None);
        };
        let name = self.names.manifest();
        open.finish(name).map(Some)
    }
}

impl Open {
    fn finish(self, name: String) -> Result<Encoded<ManifestFile>> {
        let finished = self.encoder.finish();
        let bytes = finished
            .map_err(|e| CommitError::corrupt(name.as_str(), e))?
            .bytes;
        let size = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        let path = layout::manifest_path(&name);
        let what = self.summary.finish(name, size);
        let what = what.map_err(|e| CommitError::corrupt(path.as_str(), e))?;
        Ok(Encoded {
            what,
            path,
            bytes: bytes.into(),
        })
    }
}

/// Encodes entries into as many manifests as they need.
pub(crate) fn encode_manifests<'e>(
    settings: &ManifestSettings,
    names: &MetadataNames,
    entries: impl IntoIterator<Item = &'e ManifestEntry>,
) -> Result<Vec<Encoded<ManifestFile>>> {
    let mut roller = ManifestRoller::new(settings, names);
    let mut out = Vec::new();
    for entry in entries {
        out.extend(roller.push(entry)?);
    }
    out.extend(roller.finish()?);
    Ok(out)
}

/// A manifest list: name and exact size \[F-4.1].
pub(crate) fn encode_list(
    settings: &ManifestSettings,
    names: &MetadataNames,
    manifests: &[ManifestFile],
) -> Result<Encoded<(String, u64)>> {
    let name = names.list();
    let bytes = manifest_list::encode(manifests, settings.codec, settings.sync)
        .map_err(|e| CommitError::corrupt(name.as_str(), e))?;
    let path = layout::manifest_path(&name);
    Ok(Encoded {
        what: (name, bytes.len() as u64),
        path,
        bytes: bytes.into(),
    })
}
