//! What the schema of a keyed table asks of its writer, read once: before a table is made, and when a
//! writer is opened.

use tidegate_datafile::FilePlan;
use tidegate_lsm::CompactionOptions;
use tidegate_merge::{MergeEngine, MergeSpec};
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
    /// `commit.force-compact`
    pub(crate) waits: bool,
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
        // Their changelog, their visible rows come with full compactions [F-13].
        let at_each =
            producer == Producer::FullCompaction || spec.engine() == MergeEngine::FirstRow;
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
            waits: forced.map_err(model)?.unwrap_or(false),
            spec,
        })
    }
}
