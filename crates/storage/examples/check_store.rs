//! Tries a store out and says what it can be used for.
//!
//! ```console
//! $ cargo run -p tidegate-storage --example check_store -- /mnt/share
//! $ cargo run -p tidegate-storage --example check_store -- s3://bucket/x s3.endpoint=http://127.0.0.1:5502
//! ```

use std::collections::BTreeMap;
use std::error::Error;

use tidegate_storage::{Store, conformance};

pub(crate) async fn check(
    url: &str,
    options: &BTreeMap<String, String>,
) -> Result<conformance::Report, Box<dyn Error>> {
    let store = Store::open(url, options)?;
    Ok(conformance::run(&store, &conformance::Options::default()).await)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "memory://example".to_owned());
    let options = args
        .filter_map(|arg| {
            let (key, value) = arg.split_once('=')?;
            Some((key.to_owned(), value.to_owned()))
        })
        .collect();
    let report = check(&url, &options).await?;
    #[allow(clippy::print_stdout, reason = "an example")]
    {
        print!("{report}");
    }
    match report.verdict().usable {
        conformance::Usable::ReadWrite => Ok(()),
        _ => Err("this store must not be written to".into()),
    }
}
