//! `tidegate run`: a job file, a table, an engine.
//!
//! Owns the assembly: which parts a job file means, and what its end means for the exit code.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{Field, Fields, Schema, SchemaRef};
use tidegate::model::{DataField, LogicalType, Options, TableSchema};
use tidegate::recovery::CheckpointStore;
use tidegate::sink::{CheckpointId, JobName, Mismatch, Resolution};
use tidegate::storage::{Faults, Store};
use tidegate::writer::MemoryBudget;
use tidegate::{Table, TargetOptions, Warehouse};
use tidegate_runtime::source::convert;
use tidegate_runtime::source::files::{CsvFormat, FileFormat, FileSource, FilesConfig};
use tidegate_runtime::source::generator::{GeneratorConfig, GeneratorSource, Rule};
use tidegate_runtime::{
    CheckpointSettings, CommitSettings, Job, JobEnd, MismatchReport, RestartStrategy, Settings,
    Stop, Summary, Why, way_name,
};
use tokio::signal::unix::{SignalKind, signal};

use super::summary;
use crate::args::{OutputArgs, RunArgs, Way};
use crate::config::job::{self, JobConfig, RestartConfig, SourceConfig};
use crate::exit::{self, Failure, Result};
use crate::{output, probes, progress};

pub(crate) async fn run(args: RunArgs, output: &OutputArgs) -> Result<u8> {
    let config = job::load(&args.file, &args.set, &|name| std::env::var(name).ok())?;
    for warning in &config.warnings {
        output::note(&format!("warning: {warning}"));
    }
    if args.dry_run {
        return dry_run(&config, output).await;
    }
    probes::start()?;
    let job = assemble(&config, &args).await?;
    if !output.quiet {
        output::note(&format!(
            "{}: {} → {}.{} in {}; checkpoints in {}",
            config.name,
            source_text(&config),
            config.sink.database,
            config.sink.table,
            config.sink.warehouse,
            config.checkpoint.directory
        ));
    }
    let (stop, signal) = Stop::new();
    let code = listen(stop)?;
    let shown = progress::show(&config.name, job.progress(), output.quiet);
    let end = job.run(signal).await;
    drop(shown);
    conclude(&config, end?, &args, output, &code)
}

/// SIGINT and SIGTERM ask once for a clean end, a second time for the end at once.
fn listen(stop: Stop) -> Result<Arc<std::sync::atomic::AtomicU8>> {
    use std::sync::atomic::{AtomicU8, Ordering};
    let code = Arc::new(AtomicU8::new(0));
    for (kind, exit) in [
        (SignalKind::interrupt(), exit::INTERRUPTED),
        (SignalKind::terminate(), exit::TERMINATED),
    ] {
        let mut signals =
            signal(kind).map_err(|e| Failure::runtime(format!("cannot listen to signals: {e}")))?;
        let (stop, code) = (stop.clone(), code.clone());
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                code.store(exit, Ordering::SeqCst);
                stop.request();
            }
        });
    }
    Ok(code)
}

fn conclude(
    config: &JobConfig,
    end: JobEnd,
    args: &RunArgs,
    output: &OutputArgs,
    signal: &std::sync::atomic::AtomicU8,
) -> Result<u8> {
    let say = |what: &str, s: &Summary| {
        if !output.quiet {
            let checkpoint = s
                .checkpoint
                .map_or_else(|| "none".to_owned(), |c| c.to_string());
            output::note(&format!(
                "{}: {what}; {} rows taken, {} published, last checkpoint {checkpoint}, {} restarts",
                config.name, s.rows, s.rows_published, s.restarts
            ));
        }
    };
    match end {
        JobEnd::Finished(summary) => {
            say("finished", &summary);
            Ok(0)
        }
        JobEnd::Stopped(summary) => {
            say("stopped after a clean checkpoint", &summary);
            Ok(signal.load(std::sync::atomic::Ordering::SeqCst))
        }
        JobEnd::Aborted(summary) => {
            say(
                "stopped at once; the next start settles what is not published",
                &summary,
            );
            Ok(1)
        }
        JobEnd::NothingNew => {
            if !output.quiet {
                output::note(&format!("{}: nothing new", config.name));
            }
            Ok(0)
        }
        JobEnd::Mismatch(report) => Err(Failure {
            code: match report.why {
                // An identifier of ours with other content: somebody went on with this job.
                Why::Standing(Mismatch::Diverged { .. }) => exit::FENCED,
                _ => exit::MISMATCH,
            },
            message: explain(&report, args),
        }),
    }
}

const ANEW: &str = "  --new-job\n    would: start anew: every row of the source is taken into the table as \
    it is now; the old checkpoints stay where they are\n";

/// What is wrong, where was looked, and the ways out with what each would do.
fn explain(report: &MismatchReport, args: &RunArgs) -> String {
    let mut text = format!(
        "job `{}` cannot go on by itself: {}\n",
        report.job, report.why
    );
    text.push_str(&format!(
        "  looked for checkpoints in: {}\n",
        report.looked_in
    ));
    if let Some(registered) = &report.registered {
        text.push_str(&format!("  the last run kept them in:  {registered}\n"));
    }
    if let Some(checkpoint) = report.checkpoint {
        text.push_str(&format!("  checkpoint looked at:       {checkpoint}\n"));
    }
    if let Why::OtherJob(jobs) = &report.why {
        text.push_str("Ways out:\n");
        for job in jobs {
            text.push_str(&format!(
                "  --adopt {job}\n    would: go on where job `{job}` stands, under the new name\n"
            ));
        }
        text.push_str(
            "  --new-job\n    would: start anew; rows that the other job took come again\n",
        );
        return text.trim_end().to_owned();
    }
    if matches!(report.why, Why::Replaced { .. }) {
        text.push_str("Way out:\n");
        text.push_str(ANEW);
        return text.trim_end().to_owned();
    }
    text.push_str("Ways out; take one with --on-mismatch WAY -y:\n");
    for (way, plan) in &report.ways {
        text.push_str(&format!("  {}\n", way_name(*way)));
        match plan {
            Ok(plan) => summary::steps(&plan.steps)
                .iter()
                .for_each(|step| text.push_str(&format!("    would: {step}\n"))),
            Err(why) => text.push_str(&format!("    not possible: {why}\n")),
        }
    }
    // No run is registered: the table is another one than the checkpoints are of.
    if report.registered.is_none() && report.checkpoint.is_some() {
        text.push_str(&format!("  or, without --on-mismatch:\n{ANEW}"));
    }
    if args.on_mismatch.is_some() && !args.yes {
        text.push_str("Nothing was done: --on-mismatch acts only together with -y.\n");
    }
    text.trim_end().to_owned()
}

async fn dry_run(config: &JobConfig, output: &OutputArgs) -> Result<u8> {
    let mut sheet = tidegate::system::Sheet::new(["key", "value", "origin"]);
    for e in &config.effective {
        sheet.push(vec![
            e.path.as_str().into(),
            e.value.as_str().into(),
            e.origin.as_str().into(),
        ]);
    }
    output::sheet(output.format, &sheet)?;
    // Everything that can be wrong without touching the table is looked at here.
    let declared = declared_schema(config)?;
    match (open_table(config).await?, declared) {
        (Some(table), Some(declared)) => {
            if let Err(differences) = table.schema().compatible_with(&declared) {
                return Err(Failure::config(format!(
                    "table `{}` is not what is declared: {}",
                    table.name(),
                    differences.join("; ")
                )));
            }
            output::note(&format!(
                "table {} is there and fits; nothing was done",
                table.name()
            ));
        }
        (Some(table), None) => output::note(&format!(
            "table {} is there; nothing was done",
            table.name()
        )),
        (None, Some(_)) => output::note("the table would be created; nothing was done"),
        (None, None) => return Err(no_columns(config)),
    }
    Ok(0)
}

fn no_columns(config: &JobConfig) -> Failure {
    Failure::not_found(format!(
        "table `{}.{}` not found in {}, and the job file declares no columns to create it with; add sink.columns",
        config.sink.database, config.sink.table, config.sink.warehouse
    ))
}

/// The store of a place, with the latency that a chaos lab asks for.
fn open_store(url: &str, options: &BTreeMap<String, String>) -> Result<Store> {
    let store = Store::open(url, options)?;
    match std::env::var("TIDEGATE_STORE_LATENCY") {
        Ok(text) => {
            let latency = crate::config::reader::duration(&text)
                .map_err(|e| Failure::config(format!("TIDEGATE_STORE_LATENCY: {e}")))?;
            let faults = Faults::new();
            faults.latency(latency);
            Ok(store.with_faults(faults))
        }
        Err(_) => Ok(store),
    }
}

fn is_url(text: &str) -> bool {
    text.contains("://")
}

/// A checkpoint directory on the warehouse's store has its options.
fn options_of(config: &JobConfig, url: &str) -> BTreeMap<String, String> {
    let same = url.split_once("://").map(|(scheme, _)| scheme)
        == config
            .sink
            .warehouse
            .split_once("://")
            .map(|(scheme, _)| scheme);
    if is_url(url) && same {
        config.sink.store.clone()
    } else {
        BTreeMap::new()
    }
}

async fn open_table(config: &JobConfig) -> Result<Option<Table>> {
    let warehouse = Warehouse::on(open_store(&config.sink.warehouse, &config.sink.store)?);
    match warehouse
        .table(&config.sink.database, &config.sink.table)
        .await
    {
        Ok(table) => Ok(Some(table)),
        Err(tidegate::Error::NotFound(_)) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// The schema that the job file declares; `None` without columns.
fn declared_schema(config: &JobConfig) -> Result<Option<TableSchema>> {
    let sink = &config.sink;
    if sink.columns.is_empty() {
        return Ok(None);
    }
    let mut columns = Vec::new();
    for (name, text, origin) in &sink.columns {
        let data_type =
            job::column_type(name, text).map_err(|e| Failure::config(format!("{origin}: {e}")))?;
        columns.push(DataField::new(name.as_str(), data_type));
    }
    let options: Options = sink
        .options
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    let now = jiff::Timestamp::now().as_millisecond();
    TableSchema::create(
        columns,
        sink.partition_by.clone(),
        sink.primary_key.clone(),
        options,
        None,
        now,
    )
    .map(Some)
    .map_err(|e| Failure::config(format!("sink of job `{}`: {e}", config.name)))
}

async fn assemble(config: &JobConfig, args: &RunArgs) -> Result<Job> {
    let name = JobName::new(config.name.as_str())
        .map_err(|e| Failure::config(format!("key `name`: {e}")))?;
    let warehouse = Warehouse::on(open_store(&config.sink.warehouse, &config.sink.store)?);
    let (database, table) = (&config.sink.database, &config.sink.table);
    let table = match declared_schema(config)? {
        Some(declared) => {
            // A wrong source is seen before a table is made for it.
            let arrow = tidegate::datafile::arrow_schema(&declared.fields)
                .map_err(|e| Failure::config(e.to_string()))?;
            source_of(config, annotated(&Arc::new(arrow), &declared))?;
            warehouse
                .create_or_open_table(database, table, &declared)
                .await?
        }
        None => match warehouse.table(database, table).await {
            Err(tidegate::Error::NotFound(_)) => return Err(no_columns(config)),
            other => other?,
        },
    };
    let options = TargetOptions {
        budget: MemoryBudget::new(usize::try_from(config.memory).unwrap_or(usize::MAX)),
        spill_directory: config.spill.clone(),
        spill_limit: None,
    };
    let target = table.target(options)?;
    let source = source_of(config, annotated(target.arrow_schema(), table.schema()))?;
    let checkpoints = open_store(
        &config.checkpoint.directory,
        &options_of(config, &config.checkpoint.directory),
    )?;
    let settings = settings_of(config, args)?;
    Ok(Job::builder(name)
        .shared_source(source)
        .registry(table.jobs())
        .target(Arc::new(target))
        .checkpoints(CheckpointStore::new(checkpoints))
        .settings(settings)
        .build()?)
}

fn settings_of(config: &JobConfig, args: &RunArgs) -> Result<Settings> {
    let way = |way: Way| match way {
        Way::RollbackTable => Resolution::RollbackTable {
            including_others: args.including_others,
        },
        Way::ContinueFromTable => Resolution::ContinueFromTable,
        Way::AcceptDuplicates => Resolution::AcceptDuplicates,
    };
    let adopt = args
        .adopt
        .as_ref()
        .map(|old| JobName::new(old.as_str()))
        .transpose();
    let c = &config.checkpoint;
    Ok(Settings {
        parallelism: config.parallelism,
        checkpoints: CheckpointSettings {
            interval: c.interval,
            timeout: c.timeout,
            tolerable_failures: c.tolerable_failures,
            min_pause: c.min_pause,
            retain: c.retain,
        },
        restart: match &config.restart {
            RestartConfig::None => RestartStrategy::None,
            RestartConfig::FixedDelay { attempts, delay } => RestartStrategy::FixedDelay {
                attempts: *attempts,
                delay: *delay,
            },
            RestartConfig::Exponential { initial, max } => RestartStrategy::Exponential {
                initial: *initial,
                max: *max,
            },
        },
        allow_no_checkpoint: args.allow_no_checkpoint,
        commits: CommitSettings {
            max_pending: c.pending_commits,
            ..CommitSettings::default()
        },
        host: host(),
        // Without -y the way out is only explained.
        on_mismatch: args.on_mismatch.filter(|_| args.yes).map(way),
        from_checkpoint: args.from_checkpoint.map(CheckpointId),
        adopt: adopt.map_err(|e| Failure::config(format!("--adopt: {e}")))?,
        new_job: args.new_job,
        ..Settings::default()
    })
}

fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "unknown".to_owned(), |h| h.trim().to_owned())
}

fn source_text(config: &JobConfig) -> String {
    match &config.source {
        SourceConfig::Files(files) => files.path.clone(),
        SourceConfig::Generator(_) => "generator".to_owned(),
    }
}

/// The table's Arrow schema with the limits that Arrow's types do not carry.
fn annotated(arrow: &SchemaRef, schema: &TableSchema) -> SchemaRef {
    let fields: Fields = arrow
        .fields()
        .iter()
        .zip(&schema.fields)
        .map(|(field, column)| {
            let mut metadata = field.metadata().clone();
            match column.data_type.logical {
                LogicalType::Char(n) | LogicalType::VarChar(n) => {
                    metadata.insert(convert::MAX_CHARS.to_owned(), n.to_string());
                }
                LogicalType::Binary(n) | LogicalType::VarBinary(n) => {
                    metadata.insert(convert::MAX_BYTES.to_owned(), n.to_string());
                }
                LogicalType::Time(p) | LogicalType::Timestamp(p) | LogicalType::TimestampLtz(p) => {
                    metadata.insert(convert::PRECISION.to_owned(), p.to_string());
                }
                _ => {}
            }
            Field::clone(field).with_metadata(metadata)
        })
        .collect();
    Arc::new(Schema::new(fields))
}

fn source_of(
    config: &JobConfig,
    schema: SchemaRef,
) -> Result<Arc<dyn tidegate_runtime::source::Source>> {
    match &config.source {
        SourceConfig::Generator(g) => {
            let columns = g.columns.iter().map(|(name, rule, _)| {
                let rule = match rule.clone() {
                    job::Rule::Sequence { start, step } => Rule::Sequence { start, step },
                    job::Rule::Template(text) => Rule::Template(text),
                    job::Rule::Choice(values) => Rule::Choice(values),
                    job::Rule::Random { min, max } => Rule::Random { min, max },
                    job::Rule::Constant(text) => Rule::Constant(text),
                };
                (name.clone(), rule)
            });
            let generator = GeneratorConfig {
                rows: g.rows,
                rate: g.rate,
                seed: g.seed,
                columns: columns.collect(),
            };
            Ok(Arc::new(GeneratorSource::new(schema, generator)?))
        }
        SourceConfig::Files(files) => {
            let csv = CsvFormat {
                header: files.csv.header,
                delimiter: files.csv.delimiter,
                quote: files.csv.quote,
                null: files.csv.null.clone(),
            };
            let format = files.format.map(|f| match f {
                job::FileFormat::Csv => FileFormat::Csv(csv.clone()),
                job::FileFormat::Json => FileFormat::Json,
                job::FileFormat::Parquet => FileFormat::Parquet,
            });
            let (root, path) = split_source(&files.path);
            let store = open_store(&root, &files.store)?;
            let config = FilesConfig {
                path,
                format,
                csv,
                watch: files.watch,
                poll: files.poll.max(Duration::from_millis(10)),
            };
            Ok(Arc::new(FileSource::new(store, schema, config)?))
        }
    }
}

/// A store and the path below it: the folder before the first pattern for local paths, the bucket
/// for URLs.
fn split_source(path: &str) -> (String, String) {
    if let Some((scheme, rest)) = path.split_once("://")
        && scheme != "file"
    {
        let (bucket, below) = rest.split_once('/').unwrap_or((rest, ""));
        return (format!("{scheme}://{bucket}"), below.to_owned());
    }
    let path = path.strip_prefix("file://").unwrap_or(path);
    let fixed: Vec<&str> = path
        .split('/')
        .take_while(|p| !p.contains(['*', '?', '[', '{']))
        .collect();
    let fixed_len = fixed.join("/").len();
    let (root, below) = if fixed_len == path.len() {
        // No pattern: the last part is the file or folder itself.
        path.rsplit_once('/').unwrap_or((".", path))
    } else {
        let (root, below) = path.split_at(fixed_len);
        (root, below.trim_start_matches('/'))
    };
    let root = if root.is_empty() { "/" } else { root };
    (root.to_owned(), below.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_path_becomes_a_store_and_a_path_below_it() {
        let cases = [
            ("/data/in/*.csv", "/data/in", "*.csv"),
            ("/data/in/a.csv", "/data/in", "a.csv"),
            ("/data/in", "/data", "in"),
            ("/data/**/x.csv", "/data", "**/x.csv"),
            ("/*.csv", "/", "*.csv"),
            ("s3://lake/in/*.csv", "s3://lake", "in/*.csv"),
            ("file:///data/*.csv", "/data", "*.csv"),
        ];
        for (path, root, below) in cases {
            assert_eq!(
                split_source(path),
                (root.to_owned(), below.to_owned()),
                "{path}"
            );
        }
    }
}
