//! Which keys of table options are Paimon's own: data for telling a misspelt key from an unknown one.
//!
//! Unknown keys are kept as they are, since engines and later releases bring their own. A key that is
//! one or two letters away from a known one is most likely that one, and silently kept it would do
//! nothing: `bukcet=4` makes a table without buckets.
//!
//! ```
//! use tidegate_model::options::{KeyKind, key_kind};
//!
//! assert_eq!(key_kind("bucket"), KeyKind::Known);
//! assert_eq!(key_kind("fields.amount.stats-mode"), KeyKind::Known);
//! assert_eq!(key_kind("bukcet"), KeyKind::Misspelt("bucket"));
//! assert_eq!(key_kind("my-company.owner"), KeyKind::Unknown);
//! ```

/// Keys of `CoreOptions`, `IcebergOptions` and `BTreeIndexOptions`, fallback keys included, read by
/// reflection from the released bundles paimon-bundle 1.3.1 and 1.4.2 (their union: 1.3.1 has a few that
/// 1.4.2 dropped); and the keys of Flink's connector, which people paste into table options, from Paimon's
/// generated page `flink_connector_configuration`. `write.sequence-number-init-mode` is of 1.4's
/// development line. Sorted.
const KEYS: &[&str] = &[
    "add-column-before-partition",
    "aggregation.remove-record-on-delete",
    "alter-column-null-to-not-null.disabled",
    "async-file-write",
    "auto-create",
    "batch-scan-mode",
    "blob-as-descriptor",
    "blob-descriptor-field",
    "blob-external-storage-field",
    "blob-external-storage-path",
    "blob-field",
    "blob.split-by-file-size",
    "blob.stored-descriptor-fields",
    "blob.target-file-size",
    "branch",
    "btree-index.block-size",
    "btree-index.build.max-parallelism",
    "btree-index.cache-size",
    "btree-index.compression",
    "btree-index.compression-level",
    "btree-index.high-priority-pool-ratio",
    "btree-index.records-per-range",
    "bucket",
    "bucket-append-ordered",
    "bucket-function.type",
    "bucket-key",
    "cache-page-size",
    "chain-table.chain-partition-keys",
    "chain-table.enabled",
    "changelog-file.compression",
    "changelog-file.format",
    "changelog-file.prefix",
    "changelog-file.stats-mode",
    "changelog-producer",
    "changelog-producer.lookup-wait",
    "changelog-producer.row-deduplicate",
    "changelog-producer.row-deduplicate-ignore-fields",
    "changelog.num-retained.max",
    "changelog.num-retained.min",
    "changelog.time-retained",
    "clustering.columns",
    "clustering.history-partition.idle-to-full-sort",
    "clustering.history-partition.limit",
    "clustering.incremental",
    "clustering.incremental.mode",
    "clustering.incremental.optimize-write",
    "clustering.strategy",
    "commit.callback.#.param",
    "commit.callbacks",
    "commit.discard-duplicate-files",
    "commit.force-compact",
    "commit.force-create-snapshot",
    "commit.max-retries",
    "commit.max-retry-wait",
    "commit.min-retry-wait",
    "commit.strict-mode.last-safe-snapshot",
    "commit.timeout",
    "commit.user-prefix",
    "compaction.delete-ratio-threshold",
    "compaction.file-num-limit",
    "compaction.force-rewrite-all-files",
    "compaction.force-up-level-0",
    "compaction.incremental-size-threshold",
    "compaction.max-size-amplification-percent",
    "compaction.min.file-num",
    "compaction.offpeak-ratio",
    "compaction.offpeak.end.hour",
    "compaction.offpeak.start.hour",
    "compaction.optimization-interval",
    "compaction.size-ratio",
    "compaction.total-size-threshold",
    "consumer-id",
    "consumer.changelog-only",
    "consumer.expiration-time",
    "consumer.ignore-progress",
    "consumer.mode",
    "continuous.discovery-interval",
    "cross-partition-upsert.bootstrap-parallelism",
    "cross-partition-upsert.index-ttl",
    "data-evolution.enabled",
    "data-file.external-paths",
    "data-file.external-paths.specific-fs",
    "data-file.external-paths.strategy",
    "data-file.external-paths.weights",
    "data-file.path-directory",
    "data-file.prefix",
    "data-file.thin-mode",
    "deduplicate.ignore-delete",
    "delete-file.thread-num",
    "delete.force-produce-changelog",
    "deletion-vector.index-file.target-size",
    "deletion-vectors.bitmap64",
    "deletion-vectors.enabled",
    "deletion-vectors.modifiable",
    "disable-explicit-type-casting",
    "dynamic-bucket.assigner-parallelism",
    "dynamic-bucket.initial-buckets",
    "dynamic-bucket.max-buckets",
    "dynamic-bucket.target-row-num",
    "dynamic-partition-overwrite",
    "end-input.check-partition-expire",
    "end-input.watermark",
    "fields.default-aggregate-function",
    "file-index.in-manifest-threshold",
    "file-index.read.enabled",
    "file-operation.thread-num",
    "file-reader-async-threshold",
    "file.block-size",
    "file.compression",
    "file.compression.per.level",
    "file.compression.zstd-level",
    "file.format",
    "file.format.per.level",
    "file.suffix.include.compression",
    "first-row.ignore-delete",
    "force-lookup",
    "format-table.commit-hive-sync-url",
    "format-table.file.compression",
    "format-table.implementation",
    "format-table.partition-path-only-value",
    "full-compaction.delta-commits",
    "global-index.build.max-parallelism",
    "global-index.build.max-shard",
    "global-index.column-update-action",
    "global-index.enabled",
    "global-index.external-path",
    "global-index.row-count-per-shard",
    "global-index.thread-num",
    "ignore-delete",
    "ignore-update-before",
    "incremental-between",
    "incremental-between-scan-mode",
    "incremental-between-tag-to-snapshot",
    "incremental-between-timestamp",
    "incremental-to-auto-tag",
    "index-file-in-data-file-dir",
    "key-value.sequence_number.enabled",
    "local-merge-buffer-size",
    "local-sort.max-num-file-handles",
    "log.changelog-mode",
    "log.consistency",
    "log.format",
    "log.ignore-delete",
    "log.key.format",
    "log.scan",
    "log.scan.timestamp-millis",
    "lookup-compact",
    "lookup-compact.max-interval",
    "lookup-wait",
    "lookup.async",
    "lookup.async-thread-number",
    "lookup.bootstrap-parallelism",
    "lookup.cache",
    "lookup.cache-file-retention",
    "lookup.cache-max-disk-size",
    "lookup.cache-max-memory-size",
    "lookup.cache-spill-compression",
    "lookup.cache.bloom.filter.enabled",
    "lookup.cache.bloom.filter.fpp",
    "lookup.cache.high-priority-pool-ratio",
    "lookup.dynamic-partition.refresh-interval",
    "lookup.hash-load-factor",
    "lookup.local-file-type",
    "lookup.merge-buffer-size",
    "lookup.merge-records-threshold",
    "lookup.refresh.async",
    "lookup.refresh.async.pending-snapshot-count",
    "lookup.refresh.time-periods-blacklist",
    "lookup.remote-file.enabled",
    "lookup.remote-file.level-threshold",
    "manifest.compression",
    "manifest.delete-file-drop-stats",
    "manifest.format",
    "manifest.full-compaction-threshold-size",
    "manifest.merge-min-count",
    "manifest.target-file-size",
    "materialized-table.definition-query",
    "materialized-table.interval-freshness",
    "materialized-table.interval-freshness.time-unit",
    "materialized-table.logical-refresh-mode",
    "materialized-table.refresh-handler-bytes",
    "materialized-table.refresh-handler-description",
    "materialized-table.refresh-mode",
    "materialized-table.refresh-status",
    "merge-engine",
    "metadata.iceberg.compaction.max.file-num",
    "metadata.iceberg.compaction.min.file-num",
    "metadata.iceberg.database",
    "metadata.iceberg.delete-after-commit.enabled",
    "metadata.iceberg.format-version",
    "metadata.iceberg.glue.skip-archive",
    "metadata.iceberg.hadoop-conf-dir",
    "metadata.iceberg.hive-client-class",
    "metadata.iceberg.hive-conf-dir",
    "metadata.iceberg.hive-skip-update-stats",
    "metadata.iceberg.manifest-compression",
    "metadata.iceberg.manifest-legacy-version",
    "metadata.iceberg.previous-versions-max",
    "metadata.iceberg.storage",
    "metadata.iceberg.storage-location",
    "metadata.iceberg.table",
    "metadata.iceberg.uri",
    "metadata.stats-dense-store",
    "metadata.stats-keep-first-n-columns",
    "metadata.stats-mode",
    "metadata.stats-mode.per.level",
    "metastore.partitioned-table",
    "metastore.tag-to-partition",
    "metastore.tag-to-partition.preview",
    "num-levels",
    "num-sorted-run.compaction-trigger",
    "num-sorted-run.stop-trigger",
    "orc.write.batch-size",
    "overwrite-upgrade",
    "page-size",
    "parquet.enable.dictionary",
    "parquet.variant.shreddingSchema",
    "partial-update.ignore-delete",
    "partial-update.remove-record-on-delete",
    "partial-update.remove-record-on-sequence-group",
    "partition",
    "partition.default-name",
    "partition.end-input-to-done",
    "partition.expiration-batch-size",
    "partition.expiration-check-interval",
    "partition.expiration-max-num",
    "partition.expiration-strategy",
    "partition.expiration-time",
    "partition.idle-time-to-done",
    "partition.idle-time-to-report-statistic",
    "partition.legacy-name",
    "partition.mark-done-action",
    "partition.mark-done-action.custom.class",
    "partition.mark-done-action.http.params",
    "partition.mark-done-action.http.url",
    "partition.sink-strategy",
    "partition.time-interval",
    "partition.timestamp-format.strict",
    "partition.timestamp-formatter",
    "partition.timestamp-pattern",
    "path",
    "pk-clustering-override",
    "postpone.batch-write-fixed-bucket",
    "postpone.batch-write-fixed-bucket.max-parallelism",
    "postpone.default-bucket-num",
    "precommit-compact",
    "primary-key",
    "query-auth.enabled",
    "read.batch-size",
    "record-level.expire-time",
    "record-level.time-field",
    "row-tracking.enabled",
    "rowkind.field",
    "scan.bounded",
    "scan.bounded.watermark",
    "scan.creation-time-millis",
    "scan.fallback-branch",
    "scan.fallback-delta-branch",
    "scan.fallback-snapshot-branch",
    "scan.file-creation-time-millis",
    "scan.ignore-corrupt-files",
    "scan.ignore-lost-files",
    "scan.infer-parallelism",
    "scan.infer-parallelism.max",
    "scan.manifest.parallelism",
    "scan.max-splits-per-task",
    "scan.mode",
    "scan.parallelism",
    "scan.partitions",
    "scan.plan-sort-partition",
    "scan.primary-branch",
    "scan.remove-normalize",
    "scan.snapshot-id",
    "scan.split-enumerator.batch-size",
    "scan.split-enumerator.mode",
    "scan.tag-name",
    "scan.timestamp",
    "scan.timestamp-millis",
    "scan.version",
    "scan.watermark",
    "scan.watermark.alignment.group",
    "scan.watermark.alignment.max-drift",
    "scan.watermark.alignment.update-interval",
    "scan.watermark.emit.strategy",
    "scan.watermark.idle-timeout",
    "sequence.field",
    "sequence.field.sort-order",
    "sink.clustering.by-columns",
    "sink.clustering.sample-factor",
    "sink.clustering.sort-in-cluster",
    "sink.clustering.strategy",
    "sink.committer-cpu",
    "sink.committer-memory",
    "sink.committer-operator-chaining",
    "sink.cross-partition.managed-memory",
    "sink.managed.writer-buffer-memory",
    "sink.operator-uid.suffix",
    "sink.parallelism",
    "sink.process-time-zone",
    "sink.savepoint.auto-tag",
    "sink.use-managed-memory-allocator",
    "sink.watermark-time-zone",
    "snapshot.clean-empty-directories",
    "snapshot.expire.clean-empty-directories",
    "snapshot.expire.execution-mode",
    "snapshot.expire.limit",
    "snapshot.ignore-empty-commit",
    "snapshot.num-retained.max",
    "snapshot.num-retained.min",
    "snapshot.time-retained",
    "snapshot.watermark-idle-timeout",
    "sort-compaction.local-sample.magnification",
    "sort-compaction.range-strategy",
    "sort-engine",
    "sort-spill-buffer-size",
    "sort-spill-threshold",
    "source.checkpoint-align.enabled",
    "source.checkpoint-align.timeout",
    "source.operator-uid.suffix",
    "source.split.open-file-cost",
    "source.split.target-size",
    "spill-compression",
    "spill-compression.zstd-level",
    "stream-scan-mode",
    "streaming-read-append-overwrite",
    "streaming-read-mode",
    "streaming-read-overwrite",
    "streaming-read.shuffle-bucket-with-partition",
    "streaming.read.snapshot.delay",
    "table-read.sequence-number.enabled",
    "tag.automatic-completion",
    "tag.automatic-creation",
    "tag.batch.customized-name",
    "tag.callback.#.param",
    "tag.callbacks",
    "tag.create-success-file",
    "tag.creation-delay",
    "tag.creation-period",
    "tag.creation-period-duration",
    "tag.default-time-retained",
    "tag.num-retained-max",
    "tag.period-formatter",
    "tag.time-expire-enabled",
    "target-file-size",
    "type",
    "unaware-bucket.compaction.parallelism",
    "upsert-key",
    "variant.inferShreddingSchema",
    "variant.shredding.maxInferBufferRow",
    "variant.shredding.maxSchemaDepth",
    "variant.shredding.maxSchemaWidth",
    "variant.shredding.minFieldCardinalityRatio",
    "variant.shreddingSchema",
    "vector-field",
    "vector.file.format",
    "vector.target-file-size",
    "visibility-callback.check-interval",
    "visibility-callback.enabled",
    "visibility-callback.timeout",
    "write-buffer-for-append",
    "write-buffer-size",
    "write-buffer-spill.max-disk-size",
    "write-buffer-spillable",
    "write-max-writers-to-spill",
    "write-only",
    "write.batch-memory",
    "write.batch-size",
    "write.compaction-skip",
    "write.sequence-number-init-mode",
    "zorder.var-length-contribution",
];

/// Beginnings behind which any key may stand: it names a column, or belongs to a library.
const FAMILIES: &[&str] = &[
    "avro.",
    "blob-descriptor.",
    "csv.",
    "fields.",
    "file-index.",
    "json.",
    "metadata.iceberg.rest.",
    "orc.",
    "parquet.",
    "text.",
];

/// What a key of a table option is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Paimon's own, or of a family of keys.
    Known,
    /// Nobody's, and one or two letters away from this one of Paimon's.
    Misspelt(&'static str),
    /// Nobody's that is known here.
    Unknown,
}

/// Tells a known key from a misspelt and from an unknown one.
pub fn key_kind(key: &str) -> KeyKind {
    let family = |prefix: &&str| key.len() > prefix.len() && key.starts_with(*prefix);
    if KEYS.binary_search(&key).is_ok() || FAMILIES.iter().any(family) {
        return KeyKind::Known;
    }
    let plain = |text: &str| text.to_lowercase().replace('_', "-");
    let written = plain(key);
    // Short keys are near to each other by themselves.
    let limit = if written.chars().count() <= 8 { 1 } else { 2 };
    let near = KEYS
        .iter()
        .map(|known| (distance(&written, &plain(known), limit), *known));
    match near.filter(|(d, _)| *d <= limit).min_by_key(|(d, _)| *d) {
        Some((_, known)) => KeyKind::Misspelt(known),
        None => KeyKind::Unknown,
    }
}

/// Insertions, deletions, replacements and swaps of neighbours, each counted once; anything above the
/// limit where the lengths alone say so.
fn distance(a: &str, b: &str, limit: usize) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > limit {
        return limit + 1;
    }
    let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX / 2);
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, cb) in b.iter().enumerate() {
            let mut best = (at(&last, j) + usize::from(ca != cb))
                .min(at(&last, j + 1) + 1)
                .min(at(&row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(cb) && b.get(j - 1) == Some(ca);
            if swapped {
                best = best.min(at(&before_last, j - 1) + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    at(&last, b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_are_sorted_and_each_is_known_to_itself() {
        assert!(KEYS.windows(2).all(|w| w[0] < w[1]));
        for key in KEYS {
            assert_eq!(key_kind(key), KeyKind::Known, "{key}");
        }
    }

    #[test]
    fn typing_errors_find_their_key() {
        for (written, meant) in [
            ("bukcet", "bucket"),
            ("buckets", "bucket"),
            ("BUCKET", "bucket"),
            ("bucket_key", "bucket-key"),
            ("target-file-sise", "target-file-size"),
            ("file.formt", "file.format"),
            ("snapshot.num-retained.mn", "snapshot.num-retained.min"),
            ("write-bufer-size", "write-buffer-size"),
            (
                "commit.force-create-snapshots",
                "commit.force-create-snapshot",
            ),
        ] {
            assert_eq!(key_kind(written), KeyKind::Misspelt(meant), "{written}");
        }
    }

    /// What people paste from engines and catalogs, and keys of their own, is kept.
    #[test]
    fn keys_of_others_are_no_typing_errors() {
        for key in [
            "connector",
            "owner",
            "location",
            "my-company.owner",
            "comment",
            "transient_lastDdlTime",
            "lumina.dimension",
            "s3.endpoint",
            "",
            "é",
        ] {
            assert_eq!(key_kind(key), KeyKind::Unknown, "{key}");
        }
        for key in [
            "fields.amount.stats-mode",
            "fields.v.aggregate-function",
            "parquet.block.size",
            "orc.bloom.filter.columns",
            "avro.codec",
            "metadata.stats-mode",
            "file.compression.per.level",
            "file-index.bloom-filter.columns",
            "snapshot.time-retained",
            "tag.num-retained-max",
            "sink.parallelism",
            "metadata.iceberg.storage",
        ] {
            assert_eq!(key_kind(key), KeyKind::Known, "{key}");
        }
        assert_eq!(
            key_kind("fields."),
            KeyKind::Unknown,
            "a family needs a member"
        );
    }
}
