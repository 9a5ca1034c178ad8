//! The `paimon` crate as a peer.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use futures::TryStreamExt;
use paimon::catalog::Identifier;
use paimon::spec::{BigIntType, DataType, DoubleType, Schema, VarCharType};
use paimon::table::Table;
use paimon::{CatalogFactory, CatalogOptions, Options};
use tidegate_benches::{Failure, parts};

/// A table `db.t` below a folder, in the hands of the crate.
pub struct CrateTable {
    table: Table,
    folder: PathBuf,
}

impl CrateTable {
    /// Makes it: the columns of our rows, and whatever key and options.
    ///
    /// # Errors
    /// Those of the crate.
    pub async fn create(
        folder: &Path,
        partition: &[&str],
        key: &[&str],
        options: &[(&str, &str)],
    ) -> Result<Self, Failure> {
        let text = || DataType::VarChar(VarCharType::string_type());
        let id = match key.contains(&"id") {
            true => BigIntType::with_nullable(false),
            false => BigIntType::new(),
        };
        let mut schema = Schema::builder()
            .column("id", DataType::BigInt(id))
            .column("name", text())
            .column("amount", DataType::Double(DoubleType::new()))
            .column("dt", text())
            .partition_keys(partition.iter().map(|p| (*p).to_owned()));
        if !key.is_empty() {
            schema = schema.primary_key(key.iter().map(|k| (*k).to_owned()));
        } else {
            schema = schema.option("bucket", "-1");
        }
        for (name, value) in options {
            schema = schema.option(*name, *value);
        }
        let catalog = CatalogFactory::create(at(folder)).await?;
        catalog.create_database("db", true, HashMap::new()).await?;
        let name = Identifier::new("db", "t");
        catalog.create_table(&name, schema.build()?, false).await?;
        Self::open(folder).await
    }

    /// Opens the table `db.t` that stands there.
    ///
    /// # Errors
    /// Those of the crate.
    pub async fn open(folder: &Path) -> Result<Self, Failure> {
        let catalog = CatalogFactory::create(at(folder)).await?;
        Ok(Self {
            table: catalog.get_table(&Identifier::new("db", "t")).await?,
            folder: folder.to_owned(),
        })
    }

    /// Writes all rows in so many commits, then syncs every file: the crate leaves that to others.
    ///
    /// # Errors
    /// Those of the crate and of the file system.
    pub async fn write(&self, batches: &[RecordBatch], commits: usize) -> Result<(), Failure> {
        let builder = self.table.new_write_builder();
        let mut writer = builder.new_write()?;
        for part in parts(batches, commits) {
            for batch in part {
                writer.write_arrow_batch(batch).await?;
            }
            let messages = writer.prepare_commit().await?;
            builder.try_new_commit()?.commit(messages).await?;
        }
        sync(&self.folder)
    }

    /// Reads all rows, all columns, and counts them.
    ///
    /// # Errors
    /// Those of the crate.
    pub async fn count(&self) -> Result<usize, Failure> {
        let builder = self.table.new_read_builder();
        let plan = builder.new_scan().plan().await?;
        let mut batches = builder.new_read()?.to_arrow(plan.splits())?;
        let mut rows = 0;
        while let Some(batch) = batches.try_next().await? {
            rows += batch.num_rows();
        }
        Ok(rows)
    }
}

fn at(folder: &Path) -> Options {
    let mut options = Options::new();
    let warehouse = folder.to_string_lossy().into_owned();
    options.set(CatalogOptions::WAREHOUSE, warehouse);
    options
}

fn sync(folder: &Path) -> Result<(), Failure> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    Ok(())
}
