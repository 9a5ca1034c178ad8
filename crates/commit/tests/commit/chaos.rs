//! Random schedules of one job and a rival: faults by chance, answers lost, requests held back,
//! futures dropped, processes killed. Whatever happens, each commit is visible exactly once.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tidegate_commit::{PaimonCommitter, clean};
use tidegate_model::CommitMessage;
use tidegate_sink::{Committable, Committer, Outcome, Run};
use tidegate_storage::{ErrorKind, Fault, Faults, Op};

use crate::common::{self, Table, combine, is_visible, poll_times, run_of};

#[derive(Clone, Debug)]
enum Action {
    /// Prepare the next checkpoint and try to publish what is pending.
    Commit,
    /// The same, but the future is dropped after so many polls.
    Dropped(usize),
    /// Kill the process and start the next run.
    Restart,
    /// The rival commits.
    Rival,
    /// Requests held back so far are carried out.
    Release,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => Just(Action::Commit),
        2 => (1usize..12).prop_map(Action::Dropped),
        1 => Just(Action::Restart),
        3 => Just(Action::Rival),
        1 => Just(Action::Release),
    ]
}

struct Job {
    name: &'static str,
    epoch: u64,
    checkpoint: u64,
    /// The last checkpoint that was not empty.
    before: Option<u64>,
    pending: Vec<Committable>,
    committer: Option<PaimonCommitter>,
}

impl Job {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            epoch: 1,
            checkpoint: 0,
            before: None,
            pending: vec![],
            committer: None,
        }
    }

    fn run(&self) -> Run {
        run_of(self.name, self.name, self.epoch)
    }

    async fn open(&mut self, table: &Table, faults: Option<&Faults>) -> bool {
        if self.committer.is_some() {
            return true;
        }
        let store = match faults {
            Some(faults) => table.store.clone().with_faults(faults.clone()),
            None => table.store.clone(),
        };
        let env = table.env(common::unique());
        self.committer = PaimonCommitter::open_with(store, self.run(), env)
            .await
            .ok();
        self.committer.is_some()
    }

    /// Data files are durable: uploads have their own tests.
    async fn prepare(&mut self, table: &Table) {
        let Some(committer) = &self.committer else {
            return;
        };
        self.checkpoint += 1;
        let message: CommitMessage = table.message(committer.run(), "a", 10).await;
        let c = combine(committer, self.checkpoint, self.before, vec![message]);
        self.before = Some(self.checkpoint);
        self.pending.push(c);
    }

    /// Publishes in order what is pending; stops at the first that does not succeed.
    async fn publish(&mut self) {
        while let (Some(committer), Some(next)) = (&mut self.committer, self.pending.first()) {
            match committer.commit(next).await {
                Ok(outcome) if is_visible(&outcome) => drop(self.pending.remove(0)),
                Ok(Outcome::Undecided(_)) => return,
                Ok(outcome) => panic!("{} {}: {outcome:?}", self.name, next.identifier),
                Err(error) => {
                    assert!(!error.kind().is_final(), "{error}");
                    return;
                }
            }
        }
    }

    fn restart(&mut self) {
        self.committer = None;
        self.epoch += 1;
    }
}

async fn play(actions: Vec<Action>, seed: u64, share: f64) {
    let table = Table::memory(&[("manifest.merge-min-count", "5")]).await;
    let faults = Faults::seeded(seed);
    let (mut job, mut rival) = (Job::new("job"), Job::new("rival"));
    for action in actions {
        faults.chance(&[], Fault::Before(ErrorKind::Transient), share);
        faults.chance(&[], Fault::After, share);
        faults.chance(&[Op::Create], Fault::Late, share);
        match action {
            Action::Commit => {
                if job.open(&table, Some(&faults)).await {
                    job.prepare(&table).await;
                    job.publish().await;
                }
            }
            Action::Dropped(polls) => {
                if job.open(&table, Some(&faults)).await {
                    job.prepare(&table).await;
                    faults.latency(common::TICK);
                    let _ = poll_times(job.publish(), polls).await;
                }
            }
            Action::Restart => job.restart(),
            Action::Rival => {
                if rival.open(&table, Some(&faults)).await {
                    rival.prepare(&table).await;
                    rival.publish().await;
                }
            }
            Action::Release => {
                faults.release().await;
            }
        }
        faults.heal();
    }
    // The world is well again, and what was held back arrives at the worst time.
    for who in [&mut job, &mut rival] {
        let mut earlier: Vec<_> = (1..=who.epoch).collect();
        who.restart();
        assert!(who.open(&table, None).await);
        who.publish().await;
        faults.release().await;
        who.prepare(&table).await;
        who.publish().await;
        assert_eq!(who.pending.len(), 0);
        let earlier: Vec<_> = earlier
            .drain(..)
            .map(|epoch| run_of(who.name, who.name, epoch).prefix)
            .collect();
        clean(&table.store, &who.run(), &earlier, &[], true)
            .await
            .unwrap();
    }
    let seen = table.check().await;
    let mut commits: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for s in &seen.snapshots {
        commits
            .entry(s.commit_user.as_str())
            .or_default()
            .push(s.commit_identifier.0);
    }
    for who in [&job, &rival] {
        let all: Vec<i64> = (1..=who.checkpoint as i64).collect();
        assert_eq!(commits[who.name], all, "commits of {}", who.name);
    }
    assert_eq!(seen.rows(), 10 * (job.checkpoint + rival.checkpoint) as i64);
    assert_eq!(seen.orphans, Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn each_commit_is_visible_exactly_once_whatever_happens(
        actions in proptest::collection::vec(action(), 1..25),
        seed in any::<u64>(),
        share in prop_oneof![Just(0.0), Just(0.05), Just(0.15)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(play(actions, seed, share));
    }
}
