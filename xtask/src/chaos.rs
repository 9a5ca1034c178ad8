//! `cargo xtask chaos`: a campaign of faults of every kind, kills alone, and the labs at full time scale.

use crate::process::{Failure, binary, say};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tidegate_test_services::S3Server;
use tidegate_tests::Lab;
use tidegate_tests::campaign::{self, Place};
use tidegate_tests::chaos::{Outcome, Plan};
use tidegate_tests::labs::{self, Scale};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The five labs of the founding issue at full time scale instead, judged by pypaimon as well;
    /// about five minutes.
    #[arg(long, conflicts_with_all = ["kills", "s3", "minutes", "seed", "bucket", "judge"])]
    labs: bool,
    /// Kills and nothing else, so many per job; 100 where neither these nor minutes are given.
    #[arg(long)]
    kills: Option<usize>,
    /// With --kills: on a real S3 server (MiniStack, installed and started by this command).
    #[arg(long)]
    s3: bool,
    /// A campaign of faults of every kind, for so long in all, on each of the places and with both
    /// kinds of buckets, judged by pypaimon. With --kills: stop killing after so long.
    #[arg(long)]
    minutes: Option<u64>,
    /// A place of the campaign (repeatable); all where absent. What a server needs is installed:
    /// MiniStack from PyPI, the Versity gateway by `go install`.
    #[arg(long, value_enum, requires = "minutes", conflicts_with_all = ["kills", "s3"])]
    on: Vec<On>,
    /// The campaign with the debug binary.
    #[arg(long, requires = "minutes", conflicts_with_all = ["kills", "release"])]
    debug: bool,
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

#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    Local,
    Ministack,
    Versity,
}

impl On {
    fn place(self) -> Place {
        match self {
            Self::Local => Place::Local,
            Self::Ministack => Place::MiniStack,
            Self::Versity => Place::Versity,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let minutes = arguments.minutes.filter(|_| arguments.kills.is_none());
    let campaign = minutes.is_some() && !arguments.s3;
    let release = arguments.release || (campaign && !arguments.debug);
    let built = match std::env::var_os("TIDEGATE_BIN") {
        Some(path) => path.into(),
        None => binary(release)?,
    };
    // Read by the rig, which else builds a binary of its own.
    tidegate_tests::binary::set(built);
    if arguments.labs {
        say("the five labs at full time scale, each table judged by pypaimon as well");
        return caught(|| labs::all(&Scale::FULL, &mut say));
    }
    if let Some(minutes) = minutes.filter(|_| campaign) {
        return every_kind(arguments, Duration::from_secs(60 * minutes));
    }
    for bucket in buckets(arguments) {
        let plan = Plan {
            kills: arguments.kills.unwrap_or(100),
            seed: arguments.seed,
            bucket,
            limit: arguments.minutes.map(|m| Duration::from_secs(60 * m)),
            judge: arguments.judge,
        };
        let kind = kind(bucket);
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

fn buckets(arguments: &Arguments) -> Vec<i32> {
    match arguments.bucket {
        Some(bucket) => vec![bucket],
        None => vec![-1, 2],
    }
}

fn kind(bucket: i32) -> String {
    if bucket < 0 {
        "unaware buckets".to_owned()
    } else {
        format!("{bucket} fixed buckets")
    }
}

/// The campaign, its time shared among places and kinds of buckets.
fn every_kind(arguments: &Arguments, time: Duration) -> Result<(), Failure> {
    let places = match arguments.on.as_slice() {
        [] => vec![On::Local, On::Ministack, On::Versity],
        chosen => chosen.to_vec(),
    };
    let buckets = buckets(arguments);
    let shares = u32::try_from(places.len() * buckets.len()).unwrap_or(u32::MAX);
    let (mut kills, mut faults, mut acknowledged) = (0, 0, 0);
    for place in places {
        for bucket in &buckets {
            let plan = campaign::Plan {
                place: place.place(),
                bucket: *bucket,
                time: time / shares,
                seed: arguments.seed,
                judge: true,
            };
            say(&format!(
                "campaign: {:.0} s on {}, {}, seed {}",
                plan.time.as_secs_f64(),
                plan.place.name(),
                kind(*bucket),
                plan.seed
            ));
            let outcome = caught(|| campaign::run(&plan, say))?;
            say(&outcome.to_string());
            say("nothing lost, nothing doubled");
            kills += outcome.kills;
            faults += outcome.tally.as_ref().map_or(0, campaign::Tally::faults);
            acknowledged += outcome.acknowledged;
        }
    }
    say(&format!(
        "in all: {kills} kills, {faults} requests with a fault, {acknowledged} rows acknowledged, none lost"
    ));
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
