//! `cargo xtask chaos`: the long run of the chaos lab, and the labs at full time scale.

use crate::process::{Failure, binary, say};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tidegate_test_services::S3Server;
use tidegate_tests::Lab;
use tidegate_tests::chaos::{Outcome, Plan};
use tidegate_tests::labs::{self, Scale};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The five labs of the founding issue at full time scale instead, judged by pypaimon as well;
    /// about five minutes.
    #[arg(long, conflicts_with_all = ["kills", "s3", "minutes", "seed", "bucket", "judge"])]
    labs: bool,
    /// Kills per job.
    #[arg(long, default_value_t = 100)]
    kills: usize,
    /// On a real S3 server (MiniStack, installed and started by this command).
    #[arg(long)]
    s3: bool,
    /// Stop killing after so many minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// Of the random moments.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Buckets; -1 is unaware. Both kinds where absent.
    #[arg(long, allow_hyphen_values = true)]
    bucket: Option<i32>,
    /// Have pypaimon (installed by this command) read the finished table too: a reader that is not
    /// ours.
    #[arg(long)]
    judge: bool,
    /// With the release binary.
    #[arg(long)]
    release: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let built = binary(arguments.release)?;
    // Read by the rig, which else builds a binary of its own.
    tidegate_tests::binary::set(built);
    if arguments.labs {
        say("the five labs at full time scale, each table judged by pypaimon as well");
        return caught(|| labs::all(&Scale::FULL, &mut say));
    }
    let plans = match arguments.bucket {
        Some(bucket) => vec![bucket],
        None => vec![-1, 2],
    };
    for bucket in plans {
        let plan = Plan {
            kills: arguments.kills,
            seed: arguments.seed,
            bucket,
            limit: arguments.minutes.map(|m| Duration::from_secs(60 * m)),
            judge: arguments.judge,
        };
        let kind = if bucket < 0 {
            "unaware buckets".to_owned()
        } else {
            format!("{bucket} fixed buckets")
        };
        let place = if arguments.s3 { "S3" } else { "local disk" };
        say(&format!(
            "chaos: {} kills on {place}, {kind}, seed {}",
            plan.kills, plan.seed
        ));
        let outcome = one(arguments.s3, &plan)?;
        say(&outcome.picture());
        if outcome.kills >= 20 && outcome.critical() < 0.3 {
            return Err(
                "fewer than 30 % of the kills fell between record complete and notified".into(),
            );
        }
        say("nothing lost, nothing doubled, nothing left over");
    }
    Ok(())
}

fn one(s3: bool, plan: &Plan) -> Result<Outcome, Failure> {
    let server = if s3 {
        Some(S3Server::shared().map_err(|e| format!("no S3 server: {e}"))?)
    } else {
        None
    };
    caught(|| {
        let mut lab = server.map_or_else(Lab::new, Lab::on_s3);
        tidegate_tests::chaos::run(&mut lab, plan, say)
    })
}

/// A rig fails by panicking.
fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|_| "the lab failed; the reason is above".to_owned())
}
