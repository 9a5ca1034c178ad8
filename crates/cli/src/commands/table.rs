//! `tidegate table …`: tables and what is inside them.

use std::path::Path;

use serde_json::json;
use tidegate::model::{DataField, Options, SnapshotId, TableSchema};
use tidegate::system::{self, Sheet};
use tidegate::{Table, Warehouse};

use super::confirm;
use crate::args::{AtSnapshot, OutputArgs, TableCommand, TableName};
use crate::config::job::{check_option, column_type, split_table};
use crate::context::{WarehouseArgs, pairs};
use crate::exit::{Failure, Result};
use crate::output;

pub(crate) async fn run(command: TableCommand, output: &OutputArgs) -> Result<u8> {
    let format = output.format;
    match command {
        TableCommand::Create {
            table,
            columns,
            partition_by,
            options,
            allow_unknown_options,
            comment,
            if_not_exists,
        } => {
            let options = options_of(&options, allow_unknown_options)?;
            create(
                &table,
                &columns,
                partition_by,
                options,
                comment,
                if_not_exists,
            )
            .await?;
        }
        TableCommand::List {
            database,
            warehouse,
        } => list(&warehouse, database, output).await?,
        TableCommand::Describe(table) => {
            output::sheet(format, &system::describe(&open(&table).await?))?
        }
        TableCommand::Drop {
            table,
            even_if_registered,
            dry_run,
            yes,
        } => {
            drop_table(&table, even_if_registered, dry_run, yes, output).await?;
        }
        TableCommand::Snapshots(table) => {
            output::sheet(format, &system::snapshots(&open(&table).await?).await?)?
        }
        TableCommand::Schemas(table) => {
            output::sheet(format, &system::schemas(&open(&table).await?).await?)?
        }
        TableCommand::Options(table) => {
            output::sheet(format, &system::options(&open(&table).await?))?
        }
        TableCommand::Manifests(at) => {
            output::sheet(
                format,
                &system::manifests(&open(&at.table).await?, snapshot(&at)).await?,
            )?;
        }
        TableCommand::Files(at) => {
            output::sheet(
                format,
                &system::files(&open(&at.table).await?, snapshot(&at)).await?,
            )?;
        }
        TableCommand::Partitions(at) => {
            output::sheet(
                format,
                &system::partitions(&open(&at.table).await?, snapshot(&at)).await?,
            )?;
        }
        TableCommand::Buckets(at) => {
            output::sheet(
                format,
                &system::buckets(&open(&at.table).await?, snapshot(&at)).await?,
            )?;
        }
        TableCommand::Read(args) => return super::reading::run(&args, output).await,
        TableCommand::Lsm { table, svg } => lsm(&table, svg.as_deref(), output).await?,
    }
    Ok(0)
}

async fn open(table: &TableName) -> Result<Table> {
    table.warehouse.table(&table.name).await
}

fn snapshot(at: &AtSnapshot) -> Option<SnapshotId> {
    at.snapshot.map(SnapshotId)
}

fn options_of(given: &[String], unknown_allowed: bool) -> Result<Options> {
    let options = pairs("--option", given)?;
    for key in options.keys() {
        match check_option(key, unknown_allowed, "pass --allow-unknown-options") {
            Ok(None) => {}
            Ok(Some(odd)) => output::note(&format!("warning: {odd}")),
            Err(wrong) => return Err(Failure::config(format!("--option {key}: {wrong}"))),
        }
    }
    Ok(options.into_iter().collect())
}

async fn lsm(table: &TableName, svg: Option<&Path>, output: &OutputArgs) -> Result<()> {
    let open = open(table).await?;
    let buckets = tidegate::lsm::buckets(&open).await?;
    if let Some(file) = svg {
        let picture = tidegate::lsm::svg(&table.name, &buckets);
        std::fs::write(file, picture).map_err(|e| {
            Failure::config(format!("--svg {}: cannot be written: {e}", file.display()))
        })?;
    }
    output::sheet(output.format, &tidegate::lsm::sheet(&buckets))
}

async fn create(
    table: &TableName,
    columns: &[String],
    partition_by: Vec<String>,
    options: Options,
    comment: Option<String>,
    if_not_exists: bool,
) -> Result<()> {
    let (database, name) = split_table(&table.name).map_err(Failure::config)?;
    let mut fields = Vec::new();
    for column in columns {
        let (column_name, type_text) =
            column
                .trim()
                .split_once(char::is_whitespace)
                .ok_or_else(|| {
                    Failure::config(format!(
                        "--column '{column}': expected NAME TYPE, for instance 'id BIGINT NOT NULL'"
                    ))
                })?;
        let data_type = column_type(column_name, type_text.trim())
            .map_err(|e| Failure::config(format!("--column '{column}': {e}")))?;
        fields.push(DataField::new(column_name, data_type));
    }
    let now = jiff::Timestamp::now().as_millisecond();
    let schema = TableSchema::create(fields, partition_by, Vec::new(), options, comment, now)
        .map_err(|e| Failure::config(e.to_string()))?;
    let warehouse = table.warehouse.open()?;
    let made = if if_not_exists {
        warehouse
            .create_or_open_table(database, name, &schema)
            .await?
    } else {
        warehouse.create_table(database, name, &schema).await?
    };
    output::note(&format!(
        "{}: schema {} at {}",
        made.name(),
        made.schema().id,
        made.store().url()
    ));
    Ok(())
}

async fn list(
    warehouse: &WarehouseArgs,
    database: Option<String>,
    output: &OutputArgs,
) -> Result<()> {
    let warehouse: Warehouse = warehouse.open()?;
    warehouse.require().await?;
    let databases = match database {
        Some(database) => vec![database],
        None => warehouse.databases().await?,
    };
    let mut sheet = Sheet::new(["database", "table"]);
    for database in databases {
        for table in warehouse.tables(&database).await? {
            sheet.push(vec![database.as_str().into(), table.into()]);
        }
    }
    output::sheet(output.format, &sheet)
}

async fn drop_table(
    table: &TableName,
    even_if_registered: bool,
    dry_run: bool,
    yes: bool,
    output: &OutputArgs,
) -> Result<()> {
    let (database, name) = split_table(&table.name).map_err(Failure::config)?;
    let warehouse = table.warehouse.open()?;
    let open = warehouse.table(database, name).await?;
    let latest = open.latest_snapshot().await?;
    let last = latest.as_ref().map_or_else(
        || "no snapshot".to_owned(),
        |s| format!("snapshot {}", s.id),
    );
    for job in open.jobs().jobs().await? {
        if let Some(run) = job.newest()
            && run.ended.is_none()
            && !even_if_registered
        {
            return Err(Failure::config(format!(
                "table `{}` ({last}) may still be written to: epoch {} of job `{}` on host {} has no end mark; \
                 stop that job, or `tidegate job retire {} {}`, or pass --even-if-registered",
                table.name,
                run.registration.epoch(),
                job.job,
                run.registration.host,
                table.name,
                job.job
            )));
        }
    }
    let objects = open.store().list("").await?;
    let bytes: u64 = objects.iter().map(|o| o.size).sum();
    let what = format!(
        "drop `{}` ({}): {} files, {bytes} bytes, {last}",
        table.name,
        open.store().url(),
        objects.len()
    );
    let done = |dropped: bool, files: u64| {
        json!({
            "table": table.name, "url": open.store().url(), "dropped": dropped, "files": files,
            "bytes": bytes, "snapshot": latest.as_ref().map(|s| s.id.0),
        })
    };
    if dry_run {
        return output::outcome(
            output,
            &format!("would {what}"),
            &done(false, objects.len() as u64),
        );
    }
    confirm(&what, yes)?;
    let removed = warehouse.drop_table(database, name).await?;
    let text = format!("dropped `{}`: {removed} files", table.name);
    output::outcome(output, &text, &done(true, removed))
}
