//! A warehouse: databases and tables as folders of one store \[F-11.1].
//!
//! Owns names and their place. A database exists when its folder does; a table when its folder holds
//! a schema.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tidegate_model::{TableSchema, layout};
use tidegate_storage::Store;

use crate::error::{Error, Result};
use crate::table::Table;

/// How often a drop looks again for what came meanwhile.
const DROP_ROUNDS: usize = 50;

/// Databases and tables under one URL.
#[derive(Clone, Debug)]
pub struct Warehouse {
    store: Store,
}

/// Checks a database or table name: it becomes a folder name as it stands.
fn check_name(kind: &str, name: &str) -> Result<()> {
    let bad = name.is_empty()
        || name.len() > 200
        || name.starts_with('.')
        || name.contains(['/', '\\', '$', '.']);
    if bad || name.chars().any(char::is_control) {
        return Err(Error::Config(format!(
            "`{name}` is no {kind} name: it must have 1 to 200 bytes, and no slash, dot, dollar sign or control character"
        )));
    }
    if kind == "database" && name == "sys" {
        return Err(Error::Config(
            "the database `sys` is reserved for system tables".into(),
        ));
    }
    Ok(())
}

impl Warehouse {
    /// Opens a folder or URL; nothing needs to be there yet.
    ///
    /// # Errors
    /// A URL or option that the storage layer does not know.
    pub fn open(url: &str, options: &BTreeMap<String, String>) -> Result<Self> {
        Ok(Self {
            store: Store::open(url, options)?,
        })
    }

    /// A warehouse on a store that is open already.
    pub fn on(store: Store) -> Self {
        Self { store }
    }

    /// The store, rooted at the warehouse.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        self.store.url()
    }

    /// Whether anything is there: the folder on a disk, any object on an object store, which has no
    /// empty folders.
    ///
    /// # Errors
    /// Faults of the store.
    pub async fn exists(&self) -> Result<bool> {
        if let Some(path) = self.url().strip_prefix("file://")
            && std::path::Path::new(path).is_dir()
        {
            return Ok(true);
        }
        Ok(!self.store.list_names("").await?.is_empty())
    }

    /// [`Error::NotFound`] where there is no warehouse at all: a mistyped place is no missing table.
    ///
    /// # Errors
    /// That, and faults of the store.
    pub async fn require(&self) -> Result<()> {
        if self.exists().await? {
            return Ok(());
        }
        Err(Error::NotFound(format!(
            "the warehouse {} does not exist; check its path (sink.warehouse, --warehouse)",
            self.url()
        )))
    }

    /// Names of the databases, sorted.
    ///
    /// # Errors
    /// Faults of the store.
    pub async fn databases(&self) -> Result<Vec<String>> {
        let entries = self.store.list_names("").await?;
        Ok(entries
            .iter()
            .filter(|e| e.is_dir)
            .filter_map(|e| layout::database_name(&e.name).map(str::to_owned))
            .collect())
    }

    /// Names of the tables of a database, sorted.
    ///
    /// # Errors
    /// Faults of the store; [`Error::NotFound`] where the database is not there.
    pub async fn tables(&self, database: &str) -> Result<Vec<String>> {
        check_name("database", database)?;
        let dir = layout::database_dir(database);
        let entries = self.store.list_names(&dir).await?;
        if entries.is_empty() && !self.databases().await?.iter().any(|d| d == database) {
            return Err(Error::NotFound(format!(
                "database `{database}` not found in {}",
                self.url()
            )));
        }
        let mut tables = Vec::new();
        for entry in entries.into_iter().filter(|e| e.is_dir) {
            let schemas = self
                .store
                .list_names(&format!("{dir}/{}/schema", entry.name))
                .await?;
            if schemas.iter().any(|s| layout::schema_id(&s.name).is_some()) {
                tables.push(entry.name);
            }
        }
        Ok(tables)
    }

    fn table_store(&self, database: &str, table: &str) -> Result<Store> {
        check_name("database", database)?;
        check_name("table", table)?;
        Ok(self.store.child(&layout::table_dir(database, table)))
    }

    /// Opens a table.
    ///
    /// # Errors
    /// [`Error::NotFound`] names the warehouse and a table of a similar name; faults of the store.
    pub async fn table(&self, database: &str, table: &str) -> Result<Table> {
        let store = self.table_store(database, table)?;
        match Table::on(store, format!("{database}.{table}")).await {
            Err(Error::Commit(tidegate_commit::CommitError::NoTable { .. })) => {
                self.require().await?;
                let others = self.tables(database).await.unwrap_or_default();
                let known = match others.as_slice() {
                    [] => String::new(),
                    some => format!("; `{database}` has {}", some.join(", ")),
                };
                Err(Error::NotFound(format!(
                    "table `{database}.{table}` not found in {}{known}",
                    self.url()
                )))
            }
            other => other,
        }
    }

    /// Makes a table.
    ///
    /// # Errors
    /// [`Error::Exists`] where there is one; a store that cannot create atomically; faults.
    pub async fn create_table(
        &self,
        database: &str,
        table: &str,
        schema: &TableSchema,
    ) -> Result<Table> {
        let store = self.table_store(database, table)?;
        crate::table::create(&store, schema, &format!("{database}.{table}")).await?;
        self.table(database, table).await
    }

    /// Opens a table and compares it with what is declared, or makes it.
    ///
    /// # Errors
    /// [`Error::Config`] lists every difference; faults of the store.
    pub async fn create_or_open_table(
        &self,
        database: &str,
        table: &str,
        schema: &TableSchema,
    ) -> Result<Table> {
        let store = self.table_store(database, table)?;
        crate::table::create_or_open(store, schema, format!("{database}.{table}")).await
    }

    /// Removes a table with all its files. Whether a job may still write to it is the caller's
    /// question; one that does finds its snapshot gone and stops.
    ///
    /// # Errors
    /// [`Error::Exists`] where files come as fast as they go; faults of the store. What is left can be
    /// removed by calling it again.
    pub async fn drop_table(&self, database: &str, table: &str) -> Result<u64> {
        let store = self.table_store(database, table)?;
        let mut removed = 0;
        for _ in 0..DROP_ROUNDS {
            let mut objects = store.list("").await?;
            if objects.is_empty() {
                store.remove_dirs("").await?;
                return Ok(removed);
            }
            // Snapshots go first, newest first: a run that still writes misses the one that it built
            // on and stops. The schema goes last: until then the table is there and the call can be
            // made again. What came meanwhile goes in another round.
            let rank = |path: &str| match path.split('/').next() {
                Some(layout::SNAPSHOT_DIR) => 0,
                Some(layout::SCHEMA_DIR) => 2,
                _ => 1,
            };
            let id = |path: &str| path.rsplit('/').next().and_then(layout::snapshot_id);
            objects.sort_by_key(|o| (rank(&o.path), Reverse(id(&o.path))));
            for part in objects.chunk_by(|a, b| rank(&a.path) == rank(&b.path)) {
                let paths: Vec<&str> = part.iter().map(|o| o.path.as_str()).collect();
                for result in store.delete_many(&paths).await {
                    result?;
                }
                removed += part.len() as u64;
            }
        }
        Err(Error::Exists(format!(
            "{}: somebody writes to the table while it is being dropped; stop the jobs that do, then \
             drop it again",
            store.url()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_leave_the_warehouse_are_refused() {
        for bad in ["", "..", "a/b", "a\\b", "t$snapshots", "a.b", "a\nb"] {
            assert!(check_name("table", bad).is_err(), "{bad:?}");
        }
        assert!(check_name("database", "sys").is_err());
        assert!(check_name("table", "aufträge-2").is_ok());
    }
}
