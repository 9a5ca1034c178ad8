//! Logs go to stderr: plain lines, or JSON for collectors.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// How much is logged and how.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct LogArgs {
    /// What is logged, for instance `info` or `warn,tidegate_commit=debug`.
    #[arg(
        long,
        global = true,
        env = "TIDEGATE_LOG",
        default_value = "warn",
        value_name = "FILTER",
        help_heading = "Output"
    )]
    pub(crate) log: String,
    /// How log lines look.
    #[arg(
        long,
        global = true,
        env = "TIDEGATE_LOG_FORMAT",
        default_value = "text",
        help_heading = "Output"
    )]
    pub(crate) log_format: LogFormat,
}

#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

pub(crate) fn start(args: &LogArgs) {
    let filter = EnvFilter::try_new(&args.log).unwrap_or_else(|_| EnvFilter::new("warn"));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // Set twice only by a test; the first one stays.
    let _already_set = match args.log_format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
}
