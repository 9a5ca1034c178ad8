//! Which warehouse a command works on: flags, then environment, then `paimon.yaml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tidegate::storage::Store;
use tidegate::{Table, Warehouse};

use crate::config::document::{self, Content};
use crate::config::job::split_table;
use crate::exit::{Failure, Result};

/// Where tables are.
#[derive(clap::Args, Debug, Clone, Default)]
pub(crate) struct WarehouseArgs {
    /// Folder or URL of the warehouse; else `warehouse` of paimon.yaml.
    #[arg(long, short = 'w', env = "TIDEGATE_WAREHOUSE", value_name = "DIR|URL")]
    pub(crate) warehouse: Option<String>,
    /// A catalog file with `warehouse` and store options, as pypaimon reads it.
    #[arg(long, short = 'c', value_name = "FILE", default_value = "paimon.yaml")]
    pub(crate) catalog: PathBuf,
    /// A store option such as s3.endpoint=http://… (repeatable).
    #[arg(long = "store", value_name = "KEY=VALUE")]
    pub(crate) store: Vec<String>,
}

/// Splits `KEY=VALUE` flags.
pub(crate) fn pairs(flag: &str, given: &[String]) -> Result<BTreeMap<String, String>> {
    given
        .iter()
        .map(|pair| match pair.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(Failure::config(format!(
                "{flag} {pair}: expected KEY=VALUE"
            ))),
        })
        .collect()
}

impl WarehouseArgs {
    /// The warehouse where one is named, and all store options.
    fn resolve(&self) -> Result<(Option<String>, BTreeMap<String, String>)> {
        let mut options = BTreeMap::new();
        let mut warehouse = self.warehouse.clone();
        let named = self.catalog != Path::new("paimon.yaml");
        if self.catalog.exists() || named {
            let (found, store) = read_catalog(&self.catalog)?;
            options = store;
            warehouse = warehouse.or(found);
        }
        options.extend(pairs("--store", &self.store)?);
        Ok((warehouse, options))
    }

    /// Options for stores beside the warehouse: those of jobs' checkpoints.
    pub(crate) fn store_options(&self) -> Result<BTreeMap<String, String>> {
        Ok(self.resolve()?.1)
    }

    pub(crate) fn open(&self) -> Result<Warehouse> {
        let (warehouse, options) = self.resolve()?;
        let Some(warehouse) = warehouse else {
            return Err(Failure::config(
                "which warehouse? pass --warehouse DIR|URL, set TIDEGATE_WAREHOUSE, or write `warehouse:` into paimon.yaml",
            ));
        };
        Ok(Warehouse::open(&warehouse, &options)?)
    }

    pub(crate) async fn table(&self, name: &str) -> Result<Table> {
        let (database, table) = split_table(name).map_err(Failure::config)?;
        Ok(self.open()?.table(database, table).await?)
    }
}

fn read_catalog(file: &Path) -> Result<(Option<String>, BTreeMap<String, String>)> {
    let shown = file.display().to_string();
    let text = std::fs::read_to_string(file)
        .map_err(|e| Failure::config(format!("cannot read catalog file `{shown}`: {e}")))?;
    let tree = document::parse(&shown, &text, &|name| std::env::var(name).ok())?;
    let Content::Map(entries) = tree.content else {
        return Err(Failure::config(format!("`{shown}` must be a map of keys")));
    };
    let mut warehouse = None;
    let mut options = BTreeMap::new();
    for entry in entries {
        let Content::Scalar { text, .. } = entry.value.content else {
            return Err(Failure::config(format!(
                "{}: `{}` must be a single value",
                entry.value.origin, entry.key
            )));
        };
        match entry.key.as_str() {
            "metastore" if text == "filesystem" => {}
            "metastore" => {
                return Err(Failure::config(format!(
                    "{}: metastore `{text}` is not supported; only filesystem is",
                    entry.value.origin
                )));
            }
            "warehouse" => warehouse = Some(text),
            _ => {
                options.insert(entry.key, text);
            }
        }
    }
    Ok((warehouse, options))
}

/// Opens a store for a command that works on a place, not on a table.
pub(crate) fn open_store(url: &str, store: &[String]) -> Result<Store> {
    Ok(Store::open(url, &pairs("--store", store)?)?)
}
