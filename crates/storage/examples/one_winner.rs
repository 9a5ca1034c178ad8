//! Sixteen writers want the same name; one gets it, the others learn whose it is.
//!
//! ```console
//! $ cargo run -p tidegate-storage --example one_winner
//! $ cargo run -p tidegate-storage --example one_winner -- s3://bucket/try s3.endpoint=http://127.0.0.1:5502
//! ```

use std::collections::BTreeMap;
use std::error::Error;

use tidegate_storage::{Create, Store};

pub(crate) async fn race(
    url: &str,
    options: &BTreeMap<String, String>,
) -> Result<String, Box<dyn Error>> {
    let store = Store::open_for_write(url, options).await?; // refuses a store that is not atomic
    let path = "races/the-only-one";
    store.delete(path).await?;

    let mut writers = tokio::task::JoinSet::new();
    for i in 0..16 {
        let store = store.clone();
        writers.spawn(async move {
            let mine = format!("writer {i}");
            match store.create_if_absent(path, mine.clone().into()).await {
                Create::Created => Ok(Some(mine)),
                Create::Exists(_theirs) => Ok(None), // what is there, to compare with
                Create::Unknown(cause) => Err(cause), // the answer was lost: read before you act
                Create::Failed(cause) => Err(cause), // provably without effect
            }
        });
    }
    let mut winners = Vec::new();
    for outcome in writers.join_all().await {
        winners.extend(outcome?);
    }
    let [winner] = &winners[..] else {
        return Err(format!("{} writers won: {winners:?}", winners.len()).into());
    };
    assert_eq!(store.get(path).await?, winner.as_bytes());
    store.delete(path).await?;
    Ok(format!("{winner} won on {url}\n{}", store.metrics()))
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
    let report = race(&url, &options).await?;
    #[allow(clippy::print_stdout, reason = "an example")]
    {
        println!("{report}");
    }
    Ok(())
}
