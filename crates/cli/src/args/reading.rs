//! Arguments of what reads rows: `table read`, `tail`.

use clap::Args as ClapArgs;

use super::TableName;

/// `table read`
#[derive(ClapArgs, Debug)]
pub(crate) struct ReadArgs {
    #[command(flatten)]
    pub(crate) table: TableName,
    #[command(flatten)]
    pub(crate) version: VersionArgs,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
    /// So many rows at most.
    #[arg(long)]
    pub(crate) limit: Option<usize>,
    /// With the kind of the record that each row comes from, in a column `_kind`: +I or +U.
    #[arg(long)]
    pub(crate) kinds: bool,
}

/// Which version; the newest by default.
#[derive(ClapArgs, Debug, Clone)]
#[group(multiple = false)]
pub(crate) struct VersionArgs {
    /// As of this snapshot; the newest by default.
    #[arg(long, value_name = "ID")]
    pub(crate) snapshot: Option<i64>,
    /// As of this tag.
    #[arg(long, value_name = "NAME")]
    pub(crate) tag: Option<String>,
    /// As of this time: epoch milliseconds, or 2026-01-31T12:00:00, in UTC unless an offset follows.
    #[arg(long, value_name = "TIME")]
    pub(crate) as_of: Option<String>,
}

/// Which columns and rows.
#[derive(ClapArgs, Debug, Clone)]
pub(crate) struct RowArgs {
    /// Only these columns, in this order.
    #[arg(long, value_delimiter = ',', value_name = "COLUMN,…")]
    pub(crate) columns: Vec<String>,
    /// Only rows that fulfil this, for instance "a = 1 AND b > 'x'": =, <>, <, <=, >, >=, IS NULL,
    /// IS NOT NULL, joined by AND.
    #[arg(long = "where", value_name = "CONDITION")]
    pub(crate) condition: Option<String>,
}

/// `tail`
#[derive(ClapArgs, Debug)]
pub(crate) struct TailArgs {
    #[command(flatten)]
    pub(crate) table: TableName,
    /// Where to begin: earliest, latest (what comes from now on), or snapshot:ID, that one included.
    #[arg(long, value_name = "PLACE", default_value = "earliest")]
    pub(crate) from: String,
    /// Where to end: latest (what is there now), or snapshot:ID, that one included.
    #[arg(long, value_name = "PLACE")]
    pub(crate) to: Option<String>,
    /// Wait for more.
    #[arg(long)]
    pub(crate) follow: bool,
    /// Only these columns, in this order.
    #[arg(long, value_delimiter = ',', value_name = "COLUMN,…")]
    pub(crate) columns: Vec<String>,
}
