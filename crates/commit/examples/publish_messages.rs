//! Publishes commit messages that another engine wrote, Java Paimon for instance:
//!
//! ```text
//! publish_messages TABLE_URL JOB IDENTIFIER VERSION < messages     # one message per line, in hex
//! ```
//!
//! This is the commit part of an engine of one's own: messages in, one visible snapshot out, and the
//! same call again changes nothing.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::collections::BTreeMap;
use std::io::Read;

use tidegate_commit::{PaimonCommitter, run_prefix};
use tidegate_sink::{
    CheckpointId, CommitContext, CommitUser, Committer, Epoch, JobName, Message, Positions, Run,
};
use tidegate_storage::Store;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, url, job, identifier, version] = args.as_slice() else {
        return Err("usage: publish_messages TABLE_URL JOB IDENTIFIER VERSION < messages".into());
    };
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let version: u32 = version.parse()?;
    let messages = text
        .lines()
        .map(|line| {
            Ok(Message {
                version,
                bytes: unhex(line)?,
            })
        })
        .collect::<Result<Vec<_>, Box<dyn std::error::Error>>>()?;

    let user = CommitUser::new(format!("user-of-{job}"))?;
    let epoch = Epoch(1);
    let run = Run {
        job: JobName::new(job.as_str())?,
        prefix: run_prefix(&user, epoch),
        user,
        epoch,
        restored: None,
    };
    let store = Store::open_for_write(url, &BTreeMap::new()).await?;
    let mut committer = PaimonCommitter::open(store, run).await?;
    let checkpoint: u64 = identifier.parse()?;
    let context = CommitContext {
        job: JobName::new(job.as_str())?,
        epoch,
        checkpoint: CheckpointId(checkpoint),
        positions: Some(Positions {
            active: identifier.clone().into_bytes(),
            finished: vec![],
        }),
        replaces: None,
        watermark: None,
    };
    let committable = committer.combine(&context, messages, 1, 1)?;
    println!("{:?}", committer.commit(&committable).await?);
    println!("{:?}", committer.commit(&committable).await?);
    committer.leave_note().await?;
    println!("{:?}", committer.history().await?);
    Ok(())
}

fn unhex(line: &str) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let digits = line.trim().as_bytes();
    let pairs = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair)?;
        Ok(u8::from_str_radix(pair, 16)?)
    });
    pairs.collect()
}
