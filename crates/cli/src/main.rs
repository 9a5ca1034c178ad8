//! The `tidegate` command line: noun then verb, data on stdout, logs on stderr, documented exit codes.

mod args;
mod commands;
mod config;
mod context;
mod exit;
#[cfg(test)]
mod fuzzing;
mod logs;
mod output;
mod probes;
mod progress;

use clap::Parser;
use std::process::ExitCode;

/// Encoding Parquet allocates and frees large pages; mimalloc keeps them (docs/decisions).
#[global_allocator]
static ALLOCATOR: tidegate_allocator::Allocator = tidegate_allocator::Allocator;

fn main() -> ExitCode {
    tidegate_allocator::keep_freed_memory();
    let args = args::Args::parse();
    let default = match args.command {
        // Its faults are its own: the report tells them.
        args::Command::Doctor(_) => "error",
        _ => "warn",
    };
    logs::start(&args.logs, default);
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(e) => return exit::report(&exit::Failure::runtime(format!("cannot start: {e}"))),
    };
    let result = runtime.block_on(commands::run(args));
    // Blocking reads of a stopped job may still be under way; nobody waits for them.
    runtime.shutdown_background();
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => exit::report(&failure),
    }
}
