//! Jobs that are recorded: both kinds of buckets, partitions, a source with files.

use tidegate_tests::Lab;
use tidegate_tests::lab::{Generator, wait_until};

use crate::judge::ids;
use crate::recorder::Recorder;

/// The job's name.
pub const JOB: &str = "lab";
/// The table's folder in the lab's.
pub const TABLE: &str = "warehouse/shop.db/orders";
/// The folder of checkpoint records.
pub const CHECKPOINTS: &str = "checkpoints";
/// What a job writes in the lab's folder.
pub const WATCHED: [&str; 2] = ["warehouse", "checkpoints"];

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Generator into one bucket without a number, no partitions.
    Unaware,
    /// Generator into two buckets of two partitions, two writers.
    Fixed,
    /// 120 CSV files that are watched: positions and finished files in objects of their own.
    Files,
}

/// Every so many rows a checkpoint's worth.
const RATE: &str = "1000";
/// Rows of a generator.
const ROWS: u64 = 300;
/// CSV files at first, of three rows each.
const FILES: u64 = 120;

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Unaware, Self::Fixed, Self::Files];

    /// For reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unaware => "unaware bucket",
            Self::Fixed => "2 buckets, 2 partitions, 2 writers",
            Self::Files => "120 files, side objects",
        }
    }

    /// Writes the job file and what the job reads.
    pub fn prepare(self, lab: &Lab) {
        let generator = |bucket, partition_by, more| Generator {
            rows: Some(ROWS),
            interval: Some("50 ms"),
            retain: Some(2),
            bucket,
            partition_by,
            more,
            ..Generator::default()
        };
        match self {
            Self::Unaware => {
                lab.generator(&generator(-1, "", ""));
            }
            Self::Fixed => {
                lab.generator(&generator(2, "dt", "parallelism: 2\n"));
            }
            Self::Files => {
                for file in 0..FILES {
                    csv(lab, file);
                }
                lab.files(
                    "in/*.csv",
                    ", watch: true",
                    "id: BIGINT NOT NULL, name: STRING, dt: STRING",
                    "",
                    Some("1 s, retain: 2"),
                );
            }
        }
    }

    /// Rows of the recorded run.
    pub fn rows(self) -> u64 {
        match self {
            Self::Unaware | Self::Fixed => ROWS,
            Self::Files => (FILES + 1) * 3,
        }
    }

    /// Arguments of the recorded run.
    fn slowly(self) -> Vec<String> {
        match self {
            Self::Unaware | Self::Fixed => arguments(&[&format!("source.rate={RATE}")]),
            Self::Files => arguments(&[]),
        }
    }

    /// Records the run; with `kill_at` it is killed after its so manieth call and a second one
    /// finishes. Whether it was killed; not where it has fewer calls.
    pub fn record(self, lab: &Lab, recorder: &mut Recorder, kill_at: Option<usize>) -> bool {
        let args = self.slowly();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        match (self, kill_at) {
            (Self::Files, None) => {
                let recorded = recorder.start(lab, &args, None);
                let running = &recorded.running;
                wait_until("a first snapshot", || {
                    assert!(!running.stderr().contains("error"), "{}", running.stderr());
                    lab.visible() > 0
                });
                csv(lab, FILES);
                let rows = usize::try_from(self.rows()).unwrap();
                wait_until("all rows", || {
                    ids(&lab.path(".")).is_ok_and(|ids| ids.len() == rows)
                });
                recorded.running.signal("TERM");
                recorder.end(recorded);
                false
            }
            (_, None) => recorder.run(lab, &args, None),
            (_, Some(_)) => {
                let killed = recorder.run(lab, &args, kill_at);
                if killed {
                    let args = self.finishing();
                    let args: Vec<&str> = args.iter().map(String::as_str).collect();
                    recorder.run(lab, &args, None);
                }
                killed
            }
        }
    }

    /// Arguments of the same job that goes on to the end of what there is.
    pub fn finishing(self) -> Vec<String> {
        match self {
            Self::Unaware | Self::Fixed => arguments(&["source.rate=1000000"]),
            Self::Files => arguments(&["source.watch=false"]),
        }
    }

    /// Gives the job more to do than it had; arguments to do it, and the rows there are then.
    pub fn more(self, lab: &Lab) -> (Vec<String>, u64) {
        match self {
            Self::Unaware | Self::Fixed => {
                let rows = ROWS + 50;
                let set = format!("source.rows={rows}");
                (arguments(&["source.rate=1000000", &set]), rows)
            }
            Self::Files => {
                csv(lab, FILES + 1);
                (self.finishing(), (FILES + 2) * 3)
            }
        }
    }

    /// What the job reads, complete, in another lab: for a restart.
    pub fn prepare_whole(self, lab: &Lab) {
        self.prepare(lab);
        if self == Self::Files {
            csv(lab, FILES);
        }
    }
}

fn arguments(set: &[&str]) -> Vec<String> {
    let mut all = ["run", "job.yaml", "--quiet"].map(str::to_owned).to_vec();
    for one in set {
        all.push("--set".to_owned());
        all.push((*one).to_owned());
    }
    all
}

/// A file of three rows; ids count on from file to file.
fn csv(lab: &Lab, file: u64) {
    let mut text = "id,name,dt\n".to_owned();
    for id in file * 3 + 1..=file * 3 + 3 {
        text.push_str(&format!("{id},name-{id},2024-01-01\n"));
    }
    // Whole at once: a watching job must not read half of it.
    let hidden = lab.write(&format!("new/{file:04}"), text);
    let target = lab.path(&format!("in/{file:04}.csv"));
    std::fs::create_dir_all(lab.path("in")).unwrap();
    std::fs::rename(hidden, target).unwrap();
}
