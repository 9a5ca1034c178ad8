//! Creation on a local disk between processes (case B20, steps 1 and 3).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use bytes::Bytes;
use tidegate_storage::{Create, Store};

const DIRECTORY: &str = "TIDEGATE_TEST_RACE_DIRECTORY";
const NAME: &str = "TIDEGATE_TEST_RACE_NAME";
const PROCESSES: usize = 16;
const ROUNDS: usize = 200;
/// What a process says at the starting line, and after each round.
const READY: &str = "ready for the next round";

/// Does nothing unless it was started by the test below.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_the_racing_processes() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    let name = std::env::var(NAME).unwrap();
    let store = Store::open(&directory, &BTreeMap::new()).unwrap();
    let mut won = String::new();
    for round in 0..ROUNDS {
        println!("\n{READY}");
        let mut go = String::new();
        std::io::stdin().read_line(&mut go).unwrap();
        let mine = Bytes::from(format!("{name} ").repeat(round + 1));
        match store
            .create_if_absent(&format!("deep/er/race-{round}"), mine)
            .await
        {
            Create::Created => won += &format!("{round} "),
            Create::Exists(theirs) => {
                let text = String::from_utf8(theirs.to_vec()).unwrap();
                let words: Vec<_> = text.split_whitespace().collect();
                assert_eq!(words.len(), round + 1, "a torn object: {text:?}");
                assert!(
                    words.iter().all(|word| *word == words[0]),
                    "a mixed object: {text:?}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    store
        .write_once(&format!("won/{name}"), won.into())
        .await
        .unwrap();
}

/// A racing process and the lines to it.
struct Runner {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Runner {
    fn new(mut child: Child) -> Self {
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        Self { child, to, from }
    }

    fn wait_until_ready(&mut self) {
        let mut line = String::new();
        while line.trim_end() != READY {
            line.clear();
            assert!(
                self.from.read_line(&mut line).unwrap() > 0,
                "a process ended early"
            );
        }
    }

    fn go(&mut self) {
        self.to.write_all(b"go\n").unwrap();
    }

    fn end(mut self) {
        drop(self.to);
        std::io::copy(&mut self.from, &mut std::io::sink()).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn b20_of_sixteen_processes_one_wins_each_round() {
    let dir = tempfile::tempdir().unwrap();
    let test = std::env::current_exe().unwrap();
    let mut runners: Vec<Runner> = (0..PROCESSES)
        .map(|i| {
            let child = Command::new(&test)
                .args([
                    "--exact",
                    "processes::one_of_the_racing_processes",
                    "--nocapture",
                ])
                .env(DIRECTORY, dir.path())
                .env(NAME, format!("process-{i}"))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn();
            Runner::new(child.unwrap())
        })
        .collect();
    // All stand at the line before any is sent off; who is told first changes with the round.
    for round in 0..ROUNDS {
        runners.iter_mut().for_each(Runner::wait_until_ready);
        for i in 0..PROCESSES {
            runners[(i + round) % PROCESSES].go();
        }
    }
    for runner in runners {
        runner.end();
    }
    let mut winners: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for i in 0..PROCESSES {
        let name = format!("process-{i}");
        let won = std::fs::read_to_string(dir.path().join("won").join(&name)).unwrap();
        for round in won.split_whitespace() {
            winners
                .entry(round.parse().unwrap())
                .or_default()
                .push(name.clone());
        }
    }
    let mut distinct = std::collections::BTreeSet::new();
    for round in 0..ROUNDS {
        let names = winners.get(&round).cloned().unwrap_or_default();
        assert_eq!(names.len(), 1, "round {round} was won by {names:?}");
        let held =
            std::fs::read_to_string(dir.path().join(format!("deep/er/race-{round}"))).unwrap();
        assert_eq!(held, format!("{} ", names[0]).repeat(round + 1));
        distinct.extend(names);
    }
    // Else the processes ran one after the other and nothing was raced for.
    assert!(distinct.len() > 1, "only {distinct:?} ever won");
    let left = std::fs::read_dir(dir.path().join("deep/er"))
        .unwrap()
        .count();
    assert_eq!(left, ROUNDS, "temporary files stay behind");
}
