//! Everybody else at the table: foreign committers, readers, and somebody who expires snapshots.
//!
//! Owns what they do. They share no code with our committer but the decoders, except readers, which read
//! as our own do.

use tidegate_commit::LiveView;
use tidegate_format::manifest::{Encoder, FieldSet};
use tidegate_format::{Codec, hint, manifest_list, snapshot};
use tidegate_model::manifest::ManifestSummary;
use tidegate_model::snapshot::ListRef;
use tidegate_model::{
    BinaryRow, BucketId, CommitKind, EntryKind, ManifestEntry, ManifestFile, SchemaId, Snapshot,
    SnapshotId, layout,
};
use tidegate_sink::{CommitIdentifier, CommitUser};
use tidegate_storage::{Create, Store};

use crate::env::SimEnv;
use crate::rows;
use crate::target::{BUCKETS, Layout, data_file, data_path};
use tidegate_commit::Env;

type Done<T = ()> = Result<T, String>;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

async fn ids(table: &Store) -> Done<Vec<i64>> {
    let names = table.list_names(layout::SNAPSHOT_DIR).await.map_err(text)?;
    let mut ids: Vec<i64> = names
        .iter()
        .filter_map(|entry| layout::snapshot_id(&entry.name))
        .map(|id| id.0)
        .collect();
    ids.sort_unstable();
    Ok(ids)
}

async fn manifests_of(table: &Store, list: &ListRef) -> Done<Vec<ManifestFile>> {
    let bytes = table
        .get(&layout::manifest_path(&list.name))
        .await
        .map_err(text)?;
    manifest_list::decode(&bytes).map_err(text)
}

/// A committer that is none of ours: no properties, and a uuid only sometimes.
pub(crate) struct Foreign {
    pub(crate) table: Store,
    pub(crate) env: SimEnv,
    pub(crate) layout: Layout,
    /// Which one; part of its names.
    pub(crate) number: usize,
    /// Puts over whatever is there, as Paimon does where its file system cannot do better.
    pub(crate) racing: bool,
    pub(crate) commits: u32,
}

impl Foreign {
    pub(crate) async fn run(self) -> Done {
        for nth in 0..self.commits {
            for _ in 0..5 {
                if self.commit(nth).await? {
                    break;
                }
            }
            self.env.sleep(std::time::Duration::from_millis(5)).await;
        }
        Ok(())
    }

    fn name(&self, kind: &str) -> String {
        format!("{kind}foreign-{}-{:016x}", self.number, self.env.random())
    }

    async fn list(&self, manifests: &[ManifestFile]) -> Done<ListRef> {
        let name = self.name(layout::MANIFEST_LIST_PREFIX);
        let bytes = manifest_list::encode(manifests, Codec::Null, [7; 16]).map_err(text)?;
        let size = Some(bytes.len() as i64);
        let path = layout::manifest_path(&name);
        self.table
            .write_once(&path, bytes.into())
            .await
            .map_err(text)?;
        Ok(ListRef { name, size })
    }

    /// True once it is in.
    async fn commit(&self, nth: u32) -> Done<bool> {
        let newest = ids(&self.table).await?.pop().unwrap_or(0);
        let mut base = Vec::new();
        let (mut total, mut time) = (0, 0);
        if newest > 0 {
            let path = layout::snapshot_path(SnapshotId(newest));
            let Some(bytes) = self.table.get_opt(&path).await.map_err(text)? else {
                return Ok(false);
            };
            let parent = snapshot::decode(&bytes).map_err(text)?;
            base = manifests_of(&self.table, &parent.base_manifest_list).await?;
            base.extend(manifests_of(&self.table, &parent.delta_manifest_list).await?);
            total = parent.total_record_count.unwrap_or(0);
            time = parent.time_millis;
        }
        let bucket = match self.layout {
            Layout::Unaware => BucketId(-1),
            Layout::Fixed => BucketId(0),
        };
        let file = format!("{}.parquet", self.name("data-"));
        let row = rows::FOREIGN - self.number as i64 * 100 - i64::from(nth);
        let path = data_path(bucket, &file);
        let content = rows::encode(&[row]);
        self.table
            .write_once(&path, content.into())
            .await
            .map_err(text)?;
        let entry = ManifestEntry {
            kind: EntryKind::Add,
            partition: BinaryRow::empty(),
            bucket,
            total_buckets: match self.layout {
                Layout::Unaware => -1,
                Layout::Fixed => BUCKETS as i32,
            },
            file: data_file(file, &[row], 0),
        };
        let mut encoder = Encoder::new(FieldSet::for_entries([&entry]), Codec::Null, [7; 16]);
        encoder.push(&entry).map_err(text)?;
        let mut summary = ManifestSummary::new(Vec::new());
        summary.add(&entry).map_err(text)?;
        let bytes = encoder.finish().map_err(text)?.bytes;
        let name = self.name(layout::MANIFEST_PREFIX);
        let path = layout::manifest_path(&name);
        let added = summary.finish(name, bytes.len() as i64).map_err(text)?;
        self.table
            .write_once(&path, bytes.into())
            .await
            .map_err(text)?;
        let base = self.list(&base).await?;
        let delta = self.list(&[added]).await?;
        let id = SnapshotId(newest + 1);
        let drawn = self.env.random();
        let snapshot = Snapshot {
            version: 3,
            uuid: drawn
                .is_multiple_of(2)
                .then(|| format!("foreign-{drawn:016x}")),
            id,
            schema_id: SchemaId(0),
            base_manifest_list: base,
            delta_manifest_list: delta,
            changelog_manifest_list: None,
            index_manifest: None,
            commit_user: CommitUser::new(format!("foreign-{}", self.number)).map_err(text)?,
            commit_identifier: CommitIdentifier(i64::from(nth) + 1),
            commit_kind: CommitKind::Append,
            time_millis: self.env.now_millis().max(time),
            total_record_count: Some(total + 1),
            delta_record_count: Some(1),
            changelog_record_count: None,
            watermark: None,
            statistics: None,
            properties: Vec::new(),
            next_row_id: Some(0),
            operation: None,
            writer_version: None,
            log_offsets: None,
            unknown: Vec::new(),
        };
        let bytes: bytes::Bytes = snapshot::encode(&snapshot).into();
        let path = layout::snapshot_path(id);
        if self.racing {
            self.table.put(&path, bytes).await.map_err(text)?;
        } else {
            match self.table.create_if_absent(&path, bytes.clone()).await {
                Create::Created => {}
                Create::Exists(there) if there == bytes => {}
                Create::Exists(_) => return Ok(false),
                Create::Unknown(error) | Create::Failed(error) => return Err(error.to_string()),
            }
        }
        let latest = hint::encode(id).into();
        self.table
            .put(layout::LATEST_PATH, latest)
            .await
            .map_err(text)?;
        Ok(true)
    }
}

/// In which order somebody expires snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiring {
    /// The EARLIEST hint, the snapshots, then the lists and manifests that only they had.
    HintFirst,
    /// As Java does it: lists and manifests, the snapshots, and the hint last \[M-3]. In between snapshots
    /// are visible that nobody can read.
    HintLast,
}

/// Removes all snapshots but the newest `keep`.
pub(crate) async fn expire(table: Store, keep: usize, order: Expiring) -> Done {
    let ids = ids(&table).await?;
    let Some(count) = ids.len().checked_sub(keep).filter(|count| *count > 0) else {
        return Ok(());
    };
    let (old, kept) = ids.split_at(count);
    let mut needed = std::collections::HashSet::new();
    let mut unneeded = Vec::new();
    for (ids, of_kept) in [(kept, true), (old, false)] {
        for id in ids {
            let path = layout::snapshot_path(SnapshotId(*id));
            let Some(bytes) = table.get_opt(&path).await.map_err(text)? else {
                return Ok(());
            };
            let snapshot = snapshot::decode(&bytes).map_err(text)?;
            for list in [&snapshot.base_manifest_list, &snapshot.delta_manifest_list] {
                let files = match manifests_of(&table, list).await {
                    // Taken already by one that was interrupted.
                    Err(_) if !of_kept => Vec::new(),
                    files => files?,
                };
                let names = files.into_iter().map(|file| file.file_name);
                for name in names.chain([list.name.clone()]) {
                    match of_kept {
                        true => {
                            needed.insert(name);
                        }
                        false => unneeded.push(name),
                    }
                }
            }
        }
    }
    let hint = async || match kept.first() {
        Some(first) => {
            let earliest = hint::encode(SnapshotId(*first)).into();
            table.put(layout::EARLIEST_PATH, earliest).await
        }
        None => Ok(()),
    };
    let mut snapshots: Vec<String> = Vec::new();
    for id in old {
        snapshots.push(layout::snapshot_path(SnapshotId(*id)));
    }
    let unneeded = unneeded.iter().filter(|name| !needed.contains(*name));
    let metadata: Vec<String> = unneeded.map(|name| layout::manifest_path(name)).collect();
    let (first, second) = match order {
        Expiring::HintFirst => (snapshots, metadata),
        Expiring::HintLast => (metadata, snapshots),
    };
    if order == Expiring::HintFirst {
        hint().await.map_err(text)?;
    }
    for path in first.iter().chain(&second) {
        table.delete(path).await.map_err(text)?;
    }
    if order == Expiring::HintLast {
        hint().await.map_err(text)?;
    }
    Ok(())
}

/// What a reader saw: the snapshot, and its rows, ascending.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) snapshot: Option<i64>,
    pub(crate) rows: Vec<i64>,
}

/// Reads the newest snapshot as a reader of ours does, request by request.
pub(crate) async fn read(table: Store, layout: Layout) -> Done<Reading> {
    let view = LiveView::open(&table, None).await.map_err(text)?;
    let buckets = match layout {
        Layout::Unaware => vec![BucketId(-1)],
        Layout::Fixed => (0..BUCKETS as i32).map(BucketId).collect(),
    };
    let mut all = Vec::new();
    for bucket in buckets {
        let found = view
            .bucket(&BinaryRow::empty(), bucket)
            .await
            .map_err(text)?;
        for file in found.files {
            let bytes = table.get(&data_path(bucket, &file.file_name)).await;
            all.extend(rows::decode(&bytes.map_err(text)?));
        }
    }
    all.sort_unstable();
    Ok(Reading {
        snapshot: view.base().map(|id| id.0),
        rows: all,
    })
}
