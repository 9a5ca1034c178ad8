//! What the schema of a keyed table asks of its writer, read once: before a table is made, and when a
//! writer is opened.

use std::sync::Arc;

use tidegate_datafile::FilePlan;
use tidegate_lsm::{CompactionOptions, LookupTable};
use tidegate_merge::{KeyBytes, MergeEngine, MergeSpec};
use tidegate_model::deletion_vector::Form;
use tidegate_model::options::{DataFileOptions, TableOptions, unsupported_for_write};
use tidegate_model::schema::BucketMode;
use tidegate_model::{KeyOrder, TableSchema};

use super::intake::Intake;
use super::moves::Moves;
use super::producer::{Producer, producer};
use crate::assign::DynamicBuckets;
use crate::error::{Result, WriterError};
use crate::route::Router;

/// All of it.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) spec: MergeSpec,
    pub(crate) intake: Intake,
    pub(crate) router: Router,
    pub(crate) table: TableOptions,
    pub(crate) plan: FilePlan,
    /// Files of the changelog, where the table wants one.
    pub(crate) changelog: Option<(FilePlan, DataFileOptions)>,
    pub(crate) producer: Producer,
    pub(crate) compacting: CompactionOptions,
    pub(crate) order: KeyOrder,
    /// `full-compaction.delta-commits`, or what stands in for it.
    pub(crate) full_every: Option<u64>,
    /// Barriers wait for compactions: `commit.force-compact`, or `lookup-wait` where old rows are looked up.
    pub(crate) waits: bool,
    pub(crate) looks_up: Option<LooksUp>,
    /// The form of deletion vectors, where the table keeps them.
    pub(crate) vectors: Option<Form>,
}

/// How old rows are looked up \[W-53].
#[derive(Debug)]
pub(crate) struct LooksUp {
    pub(crate) keys: Arc<KeyBytes>,
    pub(crate) table: LookupTable,
    /// Where they lie is enough: only the newest row counts, and nobody is told.
    pub(crate) places_only: bool,
}

impl LooksUp {
    fn of(schema: &TableSchema, spec: &MergeSpec, producer: Producer) -> Result<Option<Self>> {
        let config = |text: String| WriterError::Config(text);
        let set = |key: &str| {
            let value = schema.options.bool(key).map_err(|e| config(e.to_string()));
            Ok::<bool, WriterError>(value?.unwrap_or(false))
        };
        let deletion_vectors = set("deletion-vectors.enabled")?;
        if producer != Producer::Lookup
            && spec.engine() != MergeEngine::FirstRow
            && !deletion_vectors
            && !set("force-lookup")?
        {
            return Ok(None);
        }
        let newest_wins =
            spec.engine() == MergeEngine::Deduplicate && spec.sequence_columns().is_empty();
        let all = tidegate_datafile::key_value_schema(&schema.fields);
        let all = all.map_err(|e| config(e.to_string()))?;
        let key = |at: &usize| {
            let name = &spec.columns().get(*at)?.name;
            let (_, field) = all.fields().find(name)?;
            Some(Arc::clone(field))
        };
        let keys: Vec<_> = spec.key_columns().iter().filter_map(key).collect();
        let keys = KeyBytes::new(&keys).map_err(|e| config(e.to_string()))?;
        Ok(Some(Self {
            keys: Arc::new(keys),
            table: LookupTable {
                deletion_vectors,
                newest_wins,
            },
            places_only: newest_wins && !spec.ignores_deletes() && producer != Producer::Lookup,
        }))
    }
}

impl Declared {
    /// Errors name option or column, value and way out.
    pub(crate) fn read(schema: &TableSchema) -> Result<Self> {
        let model = |e: tidegate_model::Error| WriterError::Config(e.to_string());
        let datafile = |e: tidegate_datafile::Error| WriterError::Config(e.to_string());
        // First what a value may be, then what of it is written.
        let spec = MergeSpec::new(schema).map_err(|e| WriterError::Config(e.to_string()))?;
        if let Some(why) = unsupported_for_write(schema) {
            return Err(WriterError::Config(why));
        }
        if schema.bucket_mode().map_err(model)? == BucketMode::CrossPartition {
            Moves::check(schema, &spec)?;
            DynamicBuckets::of(schema)?;
        }
        let intake = Intake::new(schema, &spec)?;
        let router = Router::new(schema)?;
        let table = TableOptions::of(schema).map_err(model)?;
        let producer = producer(schema);
        let changelog = match producer {
            Producer::None => None,
            _ => {
                let of_log = table.clone().for_changelog(&schema.options);
                let of_log = of_log.map_err(model)?.data_file;
                Some((FilePlan::changelog(schema).map_err(datafile)?, of_log))
            }
        };
        let plan = FilePlan::key_value(schema).map_err(datafile)?;
        let compacting = CompactionOptions::of(schema);
        let every = schema.options.positive("full-compaction.delta-commits");
        let forced = schema.options.bool("commit.force-compact");
        // Their changelog comes with full compactions [F-13].
        let at_each = producer == Producer::FullCompaction;
        let looks_up = LooksUp::of(schema, &spec, producer)?;
        let waited_for = schema.options.bool("lookup-wait").map_err(model)?;
        let waits = looks_up.is_some() && waited_for.unwrap_or(true);
        let set = |key: &str| -> Result<bool> {
            Ok(schema.options.bool(key).map_err(model)?.unwrap_or(false))
        };
        let vectors = match (
            set("deletion-vectors.enabled")?,
            set("deletion-vectors.bitmap64")?,
        ) {
            (false, _) => None,
            (true, false) => Some(Form::Bits32),
            (true, true) => Some(Form::Bits64),
        };
        Ok(Self {
            intake,
            router,
            table,
            plan,
            changelog,
            producer,
            compacting: compacting.map_err(|e| WriterError::Config(e.to_string()))?,
            order: KeyOrder::of(schema).map_err(model)?,
            full_every: every.map_err(model)?.or(at_each.then_some(1)),
            waits: forced.map_err(model)?.unwrap_or(false) || waits,
            looks_up,
            vectors,
            spec,
        })
    }
}
