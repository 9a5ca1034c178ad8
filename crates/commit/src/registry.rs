//! The table from the protocol's opaque ids to names, values and paths.
//!
//! Partitions keep their number as long as the committer lives, because the ledger remembers bucket
//! counts by it; objects and files are numbered anew for each commit, so that memory stays in
//! proportion to one commit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tidegate_model::{
    BinaryRow, BucketId, CommitMessage, CompactIncrement, DataFileMeta, FileIdentity,
    IndexFileMeta, ManifestFile,
};
use tidegate_protocol::merge::ManifestSummary;
use tidegate_protocol::{
    Changes, Committable, FileChange, FileId, IndexChange, ObjectId, PartitionId, Place as InBucket,
};
use tidegate_sink::{Committable as Framed, Epoch};

use crate::committable::Decoded;
use crate::error::{CommitError, Result};
use crate::properties::positions_hash;

/// Type of index files that hold deletion vectors \[F-5.1].
pub(crate) const DELETION_VECTORS: &str = "DELETION_VECTORS";

/// Partition values by number.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    ids: HashMap<BinaryRow, PartitionId>,
    rows: Vec<BinaryRow>,
}

impl Partitions {
    pub(crate) fn id(&mut self, row: &BinaryRow) -> PartitionId {
        if let Some(id) = self.ids.get(row) {
            return *id;
        }
        let id = PartitionId(self.rows.len() as u64);
        self.rows.push(row.clone());
        self.ids.insert(row.clone(), id);
        id
    }

    pub(crate) fn row(&self, id: PartitionId) -> Result<&BinaryRow> {
        usize::try_from(id.0)
            .ok()
            .and_then(|at| self.rows.get(at))
            .ok_or_else(|| unknown(&id))
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}

/// A metadata object.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    /// With everything that its list says of it.
    Manifest(Box<ManifestFile>),
    /// Name and exact size.
    List(String, u64),
    /// Index manifest, or statistics file.
    Other(String),
}

/// Metadata objects by number.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    list: Vec<Object>,
}

impl Objects {
    pub(crate) fn add(&mut self, object: Object) -> ObjectId {
        self.list.push(object);
        ObjectId(self.list.len() as u64 - 1)
    }

    pub(crate) fn get(&self, id: ObjectId) -> Result<&Object> {
        usize::try_from(id.0)
            .ok()
            .and_then(|at| self.list.get(at))
            .ok_or_else(|| unknown(&id))
    }

    pub(crate) fn manifest(&self, id: ObjectId) -> Result<&ManifestFile> {
        match self.get(id)? {
            Object::Manifest(manifest) => Ok(manifest),
            _ => Err(unknown(&id)),
        }
    }

    pub(crate) fn list(&self, id: ObjectId) -> Result<(&str, u64)> {
        match self.get(id)? {
            Object::List(name, size) => Ok((name, *size)),
            _ => Err(unknown(&id)),
        }
    }

    pub(crate) fn name(&self, id: ObjectId) -> Result<&str> {
        Ok(match self.get(id)? {
            Object::Manifest(manifest) => &manifest.file_name,
            Object::List(name, _) | Object::Other(name) => name,
        })
    }

    /// Numbers a manifest and says of it what the merge plan needs.
    pub(crate) fn summary(&mut self, manifest: ManifestFile) -> ManifestSummary {
        let count = |n: i64| u64::try_from(n).unwrap_or(0);
        let (size, added, deleted) = (
            count(manifest.file_size),
            count(manifest.num_added_files),
            count(manifest.num_deleted_files),
        );
        ManifestSummary {
            id: self.add(Object::Manifest(Box::new(manifest))),
            size,
            added,
            deleted,
        }
    }
}

/// A data, changelog or index file.
#[derive(Clone, Debug)]
pub(crate) enum File {
    /// A data or changelog file of a partition and bucket.
    Data(BinaryRow, BucketId, Box<DataFileMeta>),
    /// An index file of a partition and bucket.
    Index(BinaryRow, BucketId, IndexFileMeta),
}

impl File {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Data(_, _, meta) => &meta.file_name,
            Self::Index(_, _, meta) => &meta.file_name,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum FileKey {
    Data(FileIdentity),
    Index(BinaryRow, BucketId, String, String, Option<String>),
}

/// Files by number.
#[derive(Debug, Default)]
pub(crate) struct Files {
    ids: HashMap<FileKey, FileId>,
    list: Vec<File>,
}

impl Files {
    pub(crate) fn data(
        &mut self,
        partition: &BinaryRow,
        bucket: BucketId,
        meta: &DataFileMeta,
    ) -> FileId {
        let key = FileKey::Data(identity(partition, bucket, meta));
        self.intern(key, || {
            File::Data(partition.clone(), bucket, Box::new(meta.clone()))
        })
    }

    pub(crate) fn index(
        &mut self,
        partition: &BinaryRow,
        bucket: BucketId,
        meta: &IndexFileMeta,
    ) -> FileId {
        let key = FileKey::Index(
            partition.clone(),
            bucket,
            meta.index_type.clone(),
            meta.file_name.clone(),
            meta.external_path.clone(),
        );
        self.intern(key, || File::Index(partition.clone(), bucket, meta.clone()))
    }

    fn intern(&mut self, key: FileKey, make: impl FnOnce() -> File) -> FileId {
        let next = FileId(self.list.len() as u64);
        let id = *self.ids.entry(key).or_insert(next);
        if id == next {
            self.list.push(make());
        }
        id
    }

    pub(crate) fn get(&self, id: FileId) -> Result<&File> {
        usize::try_from(id.0)
            .ok()
            .and_then(|at| self.list.get(at))
            .ok_or_else(|| unknown(&id))
    }
}

/// What makes two entries speak of one file \[0-1].
pub(crate) fn identity(
    partition: &BinaryRow,
    bucket: BucketId,
    meta: &DataFileMeta,
) -> FileIdentity {
    FileIdentity {
        partition: partition.clone(),
        bucket,
        level: meta.level,
        file_name: meta.file_name.clone(),
        extra_files: meta.extra_files.clone(),
        embedded_index: meta.embedded_index.clone(),
        external_path: meta.external_path.clone(),
    }
}

fn unknown(id: &dyn std::fmt::Display) -> CommitError {
    CommitError::corrupt(
        "protocol",
        format!("asks for {id}, which was never named to it"),
    )
}

/// All ids of one commit.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) objects: Objects,
    pub(crate) files: Files,
}

impl Registry {
    /// The committable as the protocol sees it. `total_buckets` is the table's bucket count, for
    /// messages that name none \[C-10].
    pub(crate) fn committable(
        &mut self,
        partitions: &mut Partitions,
        framed: &Framed,
        decoded: &Decoded,
        epoch: Option<Epoch>,
        restored: bool,
        total_buckets: i32,
    ) -> Committable {
        let extras = decoded.extras.as_ref();
        let (mut append, mut compact) = (Changes::default(), Changes::default());
        for message in &decoded.java.messages {
            let mut place = Place {
                partition: partitions.id(&message.partition),
                total_buckets: message.total_buckets.unwrap_or(total_buckets),
                files: &mut self.files,
                message,
            };
            let (data, rewritten) = (&message.data, &message.compact);
            place.data(&data.new_files, &mut append.added);
            place.data(&data.deleted_files, &mut append.deleted);
            place.data(&data.changelog_files, &mut append.changelog);
            place.index(&data.new_index_files, &mut append.index_added);
            place.index(&data.deleted_index_files, &mut append.index_deleted);
            place.data(&rewritten.compact_after, &mut compact.added);
            place.data(&rewritten.compact_before, &mut compact.deleted);
            mark_lifted(rewritten, &mut compact.added);
            place.data(&rewritten.changelog_files, &mut compact.changelog);
            place.index(&rewritten.new_index_files, &mut compact.index_added);
            place.index(&rewritten.deleted_index_files, &mut compact.index_deleted);
        }
        Committable {
            user: framed.user.clone(),
            identifier: framed.identifier,
            digest: framed.digest,
            job: extras.map(|e| e.job.clone()),
            epoch,
            restored,
            seen: extras.map_or(tidegate_protocol::Seen::Unknown, |e| e.seen.clone()),
            positions: extras
                .and_then(|e| e.positions.as_ref())
                .map(positions_hash),
            replaces: extras.and_then(|e| e.replaces),
            watermark: decoded.java.watermark,
            append,
            compact,
        }
    }
}

/// Where a file of a keyed table stands; files without a key have no place.
pub(crate) fn place_of(meta: &DataFileMeta) -> Option<Arc<InBucket>> {
    (meta.min_key.arity() > 0).then(|| {
        Arc::new(InBucket {
            level: meta.level,
            min_key: meta.min_key.clone(),
            max_key: meta.max_key.clone(),
        })
    })
}

/// The outputs of one message stand last in `added`: those that are inputs with another level.
fn mark_lifted(compact: &CompactIncrement, added: &mut [FileChange]) {
    let inputs: HashSet<&str> = compact
        .compact_before
        .iter()
        .map(|f| f.file_name.as_str())
        .collect();
    let outputs = compact.compact_after.iter().rev();
    for (change, output) in added.iter_mut().rev().zip(outputs) {
        change.lifted = inputs.contains(output.file_name.as_str());
    }
}

struct Place<'a> {
    partition: PartitionId,
    total_buckets: i32,
    files: &'a mut Files,
    message: &'a CommitMessage,
}

impl Place<'_> {
    fn data(&mut self, files: &[DataFileMeta], out: &mut Vec<FileChange>) {
        out.extend(files.iter().map(|meta| {
            FileChange {
                file: self
                    .files
                    .data(&self.message.partition, self.message.bucket, meta),
                partition: self.partition,
                bucket: self.message.bucket,
                total_buckets: self.total_buckets,
                rows: meta.row_count,
                place: place_of(meta),
                lifted: false,
            }
        }));
    }

    fn index(&mut self, files: &[IndexFileMeta], out: &mut Vec<IndexChange>) {
        out.extend(files.iter().map(|meta| {
            IndexChange {
                file: self
                    .files
                    .index(&self.message.partition, self.message.bucket, meta),
                partition: self.partition,
                bucket: self.message.bucket,
                deletion_vectors: meta.index_type == DELETION_VECTORS,
            }
        }));
    }
}
