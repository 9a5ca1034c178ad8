//! The one place where a snapshot becomes visible (invariant 1).

use bytes::Bytes;
use tidegate_format::{hint, snapshot};
use tidegate_model::snapshot::ListRef;
use tidegate_model::{Snapshot, SnapshotId, layout};
use tidegate_protocol::{Draft, Fact};
use tidegate_sink::{CheckpointId, mutant, probe};
use tidegate_storage::{Create, Store};

use crate::committable::Extras;
use crate::error::{CommitError, Result};
use crate::meta::Visible;
use crate::properties::{Marks, PositionMarks};
use crate::registry::Objects;

/// Creates `snapshot-<id>` if it is absent and says what the store answered \[R-6]. An error is a put
/// that provably had no effect, such as a full disk.
pub(crate) async fn publish(store: &Store, id: SnapshotId, bytes: &Bytes) -> Result<Fact> {
    let path = layout::snapshot_path(id);
    probe::hit(probe::BEFORE_PUBLISH);
    let answer = match mutant::on("publish-by-put") {
        true => match store.put(&path, bytes.clone()).await {
            Ok(()) => Create::Created,
            Err(error) => Create::Unknown(error),
        },
        false => store.create_if_absent(&path, bytes.clone()).await,
    };
    probe::hit(probe::PUBLISHED);
    Ok(match answer {
        Create::Created => Fact::Created,
        Create::Exists(theirs) if theirs == *bytes || mutant::on("exists-is-ours") => {
            Fact::ExistsOurs
        }
        Create::Exists(theirs) => {
            let fact = snapshot::decode(&theirs)
                .map_err(|e| CommitError::corrupt(path.as_str(), e))
                .and_then(|snapshot| Visible::new(snapshot, theirs).fact());
            match fact {
                Ok(fact) => Fact::ExistsTheirs(fact),
                // Taken, but by whom cannot be said (B02): settled by a later, whole reading.
                Err(error) => {
                    tracing::warn!(%error, "the snapshot that took our number cannot be read");
                    Fact::Unknown
                }
            }
        }
        Create::Unknown(error) if mutant::on("unknown-is-failed") => {
            return Err(CommitError::store(format!("creating {path}"), error));
        }
        Create::Unknown(error) => {
            tracing::warn!(snapshot = %id, %error, "no answer to the publish; it will be put again");
            Fact::Unknown
        }
        // Refused now, perhaps not later: the same bytes at the same id cost nothing.
        Create::Failed(error) if error.is_transient() => {
            tracing::warn!(snapshot = %id, %error, "the publish was turned away; it will be put again");
            Fact::Unknown
        }
        Create::Failed(error) => return Err(CommitError::store(format!("creating {path}"), error)),
    })
}

/// Points LATEST at a visible snapshot. Best effort: it only saves readers a listing.
pub(crate) async fn hint_latest(store: &Store, id: SnapshotId) {
    let store = store.clone().with_attempts(2);
    if let Err(error) = store
        .put(layout::LATEST_PATH, hint::encode(id).into())
        .await
    {
        tracing::warn!(snapshot = %id, %error, "the LATEST hint could not be written; readers will list");
    }
}

/// What a draft does not know: the parts of the committable that go into its properties.
#[derive(Debug)]
pub(crate) struct Carried<'a> {
    /// Properties that came with the committable.
    pub(crate) properties: &'a [(String, String)],
    /// Our extras.
    pub(crate) extras: Option<&'a Extras>,
    /// Where its positions are.
    pub(crate) positions: Option<&'a PositionMarks>,
}

/// The snapshot that a draft describes: equal drafts make equal bytes.
pub(crate) fn draft_snapshot(
    draft: &Draft,
    objects: &Objects,
    carried: &Carried<'_>,
) -> Result<Visible> {
    let list = |id| {
        objects.list(id).map(|(name, size)| ListRef {
            name: name.to_owned(),
            size: Some(i64::try_from(size).unwrap_or(i64::MAX)),
        })
    };
    let name = |id| objects.name(id).map(str::to_owned);
    let mut properties = carried.properties.to_vec();
    if let (Some(extras), Some(job)) = (carried.extras, &draft.job) {
        let marks = Marks {
            job: job.clone(),
            epoch: draft.epoch.unwrap_or(extras.epoch),
            checkpoint: CheckpointId(extras.checkpoint.0),
            digest: draft.digest,
            based_on: draft
                .based_on
                .as_ref()
                .map(|token| token.as_str().to_owned()),
            positions: carried.positions.cloned(),
            empty: draft.empty,
        };
        properties.extend(marks.to_properties());
    }
    let snapshot = Snapshot {
        version: 3,
        uuid: Some(draft.token.as_str().to_owned()),
        id: draft.id,
        schema_id: draft.schema,
        base_manifest_list: list(draft.base_list)?,
        delta_manifest_list: list(draft.delta_list)?,
        changelog_manifest_list: draft.changelog_list.map(list).transpose()?,
        index_manifest: draft.index.map(name).transpose()?,
        commit_user: draft.user.clone(),
        commit_identifier: draft.identifier,
        commit_kind: draft.kind,
        time_millis: draft.time_millis,
        total_record_count: Some(draft.total_records),
        delta_record_count: Some(draft.delta_records),
        changelog_record_count: draft.changelog_records,
        watermark: draft.watermark,
        statistics: draft.statistics.map(name).transpose()?,
        properties,
        // Java writes 0 for tables without row tracking [F-12.33].
        next_row_id: Some(draft.next_row_id.unwrap_or(0)),
        operation: None,
        writer_version: None,
        log_offsets: None,
        unknown: Vec::new(),
    };
    let bytes = Bytes::from(snapshot::encode(&snapshot));
    Ok(Visible::new(snapshot, bytes))
}
