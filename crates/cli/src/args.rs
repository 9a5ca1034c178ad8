//! The command line as clap sees it.

mod reading;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::context::WarehouseArgs;
use crate::logs::LogArgs;
pub(crate) use reading::{ReadArgs, RowArgs, TailArgs, VersionArgs};

const AFTER: &str = "Exit codes: 0 done; 1 failed while running; 2 wrong command line; 3 wrong configuration or failed check; \
4 table, snapshot, job, checkpoint or source not found; 5 commit refused; 6 saved state and table disagree; 8 fenced; 9 outcome undecided; 130/143 stopped by a signal \
after a clean checkpoint.";

/// Streams into lake tables, exactly once.
#[derive(Parser, Debug)]
#[command(name = "tidegate", version, about, after_help = AFTER, max_term_width = 100)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) logs: LogArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(ClapArgs, Debug, Clone)]
pub(crate) struct OutputArgs {
    /// How data is printed.
    #[arg(
        long,
        short = 'f',
        global = true,
        default_value = "table",
        help_heading = "Output"
    )]
    pub(crate) format: Format,
    /// No progress.
    #[arg(long, short = 'q', global = true, help_heading = "Output")]
    pub(crate) quiet: bool,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// One JSON array.
    Json,
    /// One JSON object per line.
    Jsonl,
    /// With a header.
    Csv,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a job file: again after a crash, the same command.
    Run(RunArgs),
    /// Make rows, kill the process five times, show 200 rows and 200 ids.
    Demo(DemoArgs),
    /// Look whether a store or a warehouse can be trusted, and what to do where not.
    #[command(subcommand)]
    Doctor(Doctor),
    /// Tables and what is inside them.
    #[command(subcommand)]
    Table(Box<TableCommand>),
    /// Changes of a table, snapshot by snapshot, with row kinds in a column `_kind`.
    ///
    /// The changelog where the table makes one (changelog-producer), else the new rows of each commit, an
    /// update as +U or +I alone. Snapshots that replaced rows (OVERWRITE) are left out unless the table says
    /// streaming-read-overwrite. It stops with exit code 4 where changes have expired, or the table
    /// was rolled back below what was read. `'DB.TABLE$audit_log'` and `$binlog` as for `table read`.
    Tail(TailArgs),
    /// Jobs that are registered at a table.
    #[command(subcommand)]
    Job(JobCommand),
    /// Checkpoints of a job.
    #[command(subcommand)]
    Checkpoint(CheckpointCommand),
    /// Compact the buckets of a table with a primary key, and nothing else.
    ///
    /// May run beside jobs that write to it. What a compaction does that comes too late is left out for
    /// that bucket alone.
    Compact(CompactArgs),
    /// Check that a table is whole, or where the rows of a source went.
    ///
    /// Looks at everything that snapshots, tags, branches and long-lived changelogs refer to, at what jobs
    /// and their checkpoints say, and lists files that nothing refers to. Exit code 3 where there is an
    /// error; warnings and notes (unknown files) leave it 0. May be run while jobs write.
    Verify(VerifyArgs),
}

#[derive(ClapArgs, Debug)]
pub(crate) struct RunArgs {
    /// The job file.
    pub(crate) file: PathBuf,
    /// Set a key of the job file, for instance --set sink.options.bucket=4 (repeatable).
    #[arg(long, value_name = "PATH=VALUE")]
    pub(crate) set: Vec<String>,
    /// Print the effective configuration with the origin of each value, and what would be done.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Run an unbounded source without checkpoints: nothing will ever be visible.
    #[arg(long)]
    pub(crate) allow_no_checkpoint: bool,
    /// Go on from this checkpoint instead of the newest one.
    #[arg(long, value_name = "ID")]
    pub(crate) from_checkpoint: Option<u64>,
    /// The way out where checkpoint and table disagree; without -y it only says what it would do.
    #[arg(long, value_name = "WAY")]
    pub(crate) on_mismatch: Option<Way>,
    /// With rollback-table: also where snapshots of others or tags would go.
    #[arg(long)]
    pub(crate) including_others: bool,
    /// Go on with the checkpoints of a job that had this name.
    #[arg(long, value_name = "OLDNAME", conflicts_with = "new_job")]
    pub(crate) adopt: Option<String>,
    /// Start anew although checkpoints of another job for the same table and source are there.
    #[arg(long)]
    pub(crate) new_job: bool,
    /// Do it: no question is asked.
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Take the table back to what the checkpoint knew.
    RollbackTable,
    /// Go on from the positions that the table carries.
    ContinueFromTable,
    /// Go on from the checkpoint although rows will be there twice.
    AcceptDuplicates,
}

#[derive(ClapArgs, Debug)]
pub(crate) struct DemoArgs {
    /// Where the demo works; a temporary folder by default, removed afterwards.
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Doctor {
    /// Run the conformance suite against a store and say what it can be used for.
    Store {
        /// Folder or URL; objects are made and removed in a folder of their own below it.
        url: String,
        /// A store option such as s3.endpoint=http://… (repeatable).
        #[arg(long = "store", value_name = "KEY=VALUE")]
        store: Vec<String>,
        /// Rounds of the race of 16 creators.
        #[arg(long, default_value_t = 20)]
        rounds: u32,
    },
    /// The same for a warehouse and checkpoint directories, then every table and job in it: can it be
    /// read, can this build write it, are the checkpoints of its jobs where they should be.
    Warehouse {
        #[command(flatten)]
        warehouse: WarehouseArgs,
        /// Folder or URL of checkpoints; those that jobs of the tables name are looked at anyway
        /// (repeatable).
        #[arg(long, value_name = "DIR|URL")]
        checkpoints: Vec<String>,
        /// Rounds of the race of 16 creators.
        #[arg(long, default_value_t = 20)]
        rounds: u32,
    },
}

#[derive(ClapArgs, Debug, Clone)]
pub(crate) struct TableName {
    /// database.table
    #[arg(value_name = "DB.TABLE")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) warehouse: WarehouseArgs,
}

#[derive(Subcommand, Debug)]
pub(crate) enum TableCommand {
    /// Make a table.
    Create {
        #[command(flatten)]
        table: TableName,
        /// A column, for instance 'id BIGINT NOT NULL' (repeatable, in order).
        #[arg(long = "column", value_name = "NAME TYPE", required = true)]
        columns: Vec<String>,
        /// Partition columns in order.
        #[arg(long, value_delimiter = ',', value_name = "COLUMN,…")]
        partition_by: Vec<String>,
        /// A table option, for instance bucket=4 (repeatable).
        #[arg(long = "option", value_name = "KEY=VALUE")]
        options: Vec<String>,
        /// Keep options whose keys are not known, without a word.
        #[arg(long)]
        allow_unknown_options: bool,
        /// A comment.
        #[arg(long)]
        comment: Option<String>,
        /// Fine if it is there already, provided that it is the same.
        #[arg(long)]
        if_not_exists: bool,
    },
    /// Tables of a warehouse.
    List {
        /// Only of this database.
        database: Option<String>,
        #[command(flatten)]
        warehouse: WarehouseArgs,
    },
    /// Columns, keys and options.
    Describe(TableName),
    /// Remove a table with all its files. Refused while the newest run of a job may still write to it:
    /// while it has no end mark. A run that finished, was stopped, failed or was retired has one.
    Drop {
        #[command(flatten)]
        table: TableName,
        /// Although a job may still write to it.
        #[arg(long)]
        even_if_registered: bool,
        /// Say what would go.
        #[arg(long)]
        dry_run: bool,
        /// Do it: no question is asked.
        #[arg(long, short = 'y')]
        yes: bool,
    },
    /// Its snapshots, as `table$snapshots`.
    Snapshots(TableName),
    /// Its schemas, as `table$schemas`.
    Schemas(TableName),
    /// Manifests of the newest snapshot, as `table$manifests`.
    Manifests(AtSnapshot),
    /// Live data files, as `table$files`.
    Files(AtSnapshot),
    /// Partitions, as `table$partitions`.
    Partitions(AtSnapshot),
    /// Buckets, as `table$buckets`.
    Buckets(AtSnapshot),
    /// Options, as `table$options`.
    Options(TableName),
    /// Levels and sorted runs of each bucket of a table with a primary key, newest first.
    Lsm {
        #[command(flatten)]
        table: TableName,
        /// Also draw them into this SVG file.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// Rows; of a table with a primary key the versions of each key merged.
    ///
    /// `'DB.TABLE$audit_log'` shows the kind of each row's record, and keys that are deleted and not yet
    /// forgotten; `$binlog` the same with each column as an array; `$ro` only what a full compaction has
    /// merged; `$branch_NAME` another branch.
    Read(ReadArgs),
}

#[derive(ClapArgs, Debug, Clone)]
pub(crate) struct AtSnapshot {
    #[command(flatten)]
    pub(crate) table: TableName,
    /// As of this snapshot; the newest by default.
    #[arg(long, value_name = "ID")]
    pub(crate) snapshot: Option<i64>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum JobCommand {
    /// Jobs registered at a table.
    List(TableName),
    /// Runs of a job, its newest commit and position.
    Status {
        #[command(flatten)]
        table: TableName,
        /// The job.
        job: String,
    },
    /// Declare a job dead: its newest run counts as ended.
    Retire {
        #[command(flatten)]
        table: TableName,
        /// The job.
        job: String,
        /// Say what would happen.
        #[arg(long)]
        dry_run: bool,
        /// Do it: no question is asked.
        #[arg(long, short = 'y')]
        yes: bool,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum CheckpointCommand {
    /// Checkpoints in a directory.
    List(CheckpointDir),
    /// One checkpoint: positions, committables, newest commit.
    Inspect {
        #[command(flatten)]
        directory: CheckpointDir,
        /// Its id; the newest by default.
        #[arg(long, value_name = "ID")]
        id: Option<u64>,
    },
}

#[derive(ClapArgs, Debug)]
pub(crate) struct CheckpointDir {
    /// The checkpoint directory: folder or URL.
    pub(crate) directory: String,
    /// Only of this job.
    #[arg(long)]
    pub(crate) job: Option<String>,
    /// A store option such as s3.endpoint=http://… (repeatable).
    #[arg(long = "store", value_name = "KEY=VALUE")]
    pub(crate) store: Vec<String>,
}

#[derive(ClapArgs, Debug)]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub(crate) table: TableName,
    /// Everything to the top level; without it the table's compaction options decide.
    #[arg(long)]
    pub(crate) full: bool,
    /// Only these partitions, for instance dt=2024-01-01, or dt=2024-01-01,hour=7 (repeatable).
    #[arg(long, value_name = "COLUMN=VALUE,…")]
    pub(crate) partition: Vec<String>,
    /// The name under which it registers at the table.
    #[arg(long, default_value = "compact")]
    pub(crate) job: String,
    /// Memory.
    #[arg(long, value_name = "SIZE", default_value = "256 mb")]
    pub(crate) memory: String,
}

#[derive(ClapArgs, Debug)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) table: TableName,
    /// A receipt: in which checkpoint, snapshot and files the source's offset FILE:POS went. FILE as in
    /// the job file, on disk, or below the folder that the source looks through; POS in bytes
    /// (decompressed), in rows for Parquet and the generator.
    #[arg(long, value_name = "FILE:POS")]
    pub(crate) offset: Option<String>,
    /// The job of --offset, where several write to the table.
    #[arg(long)]
    pub(crate) job: Option<String>,
}
