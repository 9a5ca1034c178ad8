//! Logs go to stderr: plain lines, or JSON for collectors.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// How much is logged and how.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct LogArgs {
    /// What is logged, for instance `info` or `warn,tidegate_commit=debug`; `warn` by default (for
    /// `doctor`, which provokes what others warn of, `error`).
    #[arg(
        long,
        global = true,
        env = "TIDEGATE_LOG",
        value_name = "FILTER",
        help_heading = "Output"
    )]
    pub(crate) log: Option<String>,
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

pub(crate) fn start(args: &LogArgs, default: &str) {
    let asked = args.log.as_deref().unwrap_or(default);
    let filter = EnvFilter::try_new(asked).unwrap_or_else(|_| EnvFilter::new(default));
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
