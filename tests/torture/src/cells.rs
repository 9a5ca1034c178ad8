//! What is done: one cell after the other, each on a table of its own.

use crate::place::Place;
use crate::subject::{Recovery, Subject};
use crate::verdict::Verdict;
use crate::writer::{Blow, Counts, Writer};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tidegate_interop::peer::Peer;
use tidegate_tests::proxy::{Fault, Kind, Rule};

/// Rows of a step.
const ROWS: i64 = 10;
/// Writers of a race.
const RACERS: i64 = 3;
/// Ours beside a peer leaves it time between two commits: the peers' retries end where a quicker writer never
/// pauses, and then nothing races.
const PACE: Duration = Duration::from_millis(300);
/// Ids of one writer of a race are so far from those of the next.
const APART: i64 = 1_000_000;

/// A cell of the table in docs/torture.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// Three processes append to one table at once.
    Race,
    /// The same on S3.
    RaceOnS3,
    /// The process is killed at random moments and started again.
    Kill,
    /// The same on S3.
    KillOnS3,
    /// The process is killed once its snapshot is in the folder: what stands for a lost answer on a disk.
    Answer,
    /// Requests go through and their answers are dropped.
    AnswerOnS3,
    /// An older state is restored, and the writer goes on from it.
    Restore,
    /// Ours and two processes of the peer append to one table at once.
    Beside,
    /// The same on S3.
    BesideOnS3,
}

impl Cell {
    /// In the order of the table.
    pub const ALL: [Self; 9] = [
        Self::Race,
        Self::RaceOnS3,
        Self::Kill,
        Self::KillOnS3,
        Self::Answer,
        Self::AnswerOnS3,
        Self::Restore,
        Self::Beside,
        Self::BesideOnS3,
    ];

    /// As `--only` names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Race => "race",
            Self::RaceOnS3 => "race-s3",
            Self::Kill => "kill",
            Self::KillOnS3 => "kill-s3",
            Self::Answer => "answer",
            Self::AnswerOnS3 => "answer-s3",
            Self::Restore => "restore",
            Self::Beside => "beside",
            Self::BesideOnS3 => "beside-s3",
        }
    }

    /// Whether it needs an S3 server.
    pub fn on_s3(self) -> bool {
        matches!(
            self,
            Self::RaceOnS3 | Self::KillOnS3 | Self::AnswerOnS3 | Self::BesideOnS3
        )
    }

    fn place(self, keep: bool) -> Result<Place, String> {
        match self.on_s3() {
            true => Place::s3(keep),
            false => Ok(Place::local(keep)),
        }
    }
}

/// How long a cell goes on: until both are reached, whichever is not zero.
#[derive(Debug, Clone, Copy)]
pub struct Length {
    /// At least so long.
    pub time: Duration,
    /// At least so many steps (of each writer; rounds of a restored state).
    pub steps: usize,
    /// The folders stay, for a look at them.
    pub keep: bool,
}

impl Length {
    fn reached(&self, begun: Instant, steps: usize) -> bool {
        begun.elapsed() >= self.time && steps >= self.steps
    }
}

/// What came of a cell.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// What happened.
    pub counts: Counts,
    /// What is there.
    pub verdict: Verdict,
    /// Answers that the proxy dropped.
    pub dropped: usize,
    /// Tables: one, or one a round.
    pub tables: usize,
    /// How long it was, judging left out.
    pub took: Duration,
}

/// Ours and the peer in one table: what came of ours, and what of the peer. Ours takes one step more when the
/// others are done, since a snapshot that was put over is noticed by the next commit \[R-14].
///
/// # Errors
/// Where the place cannot be made.
///
/// # Panics
/// Where a writer panics.
pub fn beside(
    cell: Cell,
    ours: &Subject,
    peer: &Subject,
    length: Length,
    reader: &mut Peer,
) -> Result<[Outcome; 2], String> {
    let place = cell.place(length.keep)?;
    let place = &place;
    let begun = Instant::now();
    let others = AtomicI64::new(RACERS - 1);
    let all_up = Barrier::new(RACERS as usize);
    let writers: Vec<Writer<'_>> = thread::scope(|scope| {
        let (others, all_up) = (&others, &all_up);
        let running: Vec<_> = (0..RACERS)
            .map(|n| {
                scope.spawn(move || {
                    let subject = if n == 0 { ours } else { peer };
                    let recovery = subject.recoveries[0];
                    let user = format!("writer-{n}");
                    let mut writer = Writer::new(subject, recovery, place, &user, n * APART);
                    writer.ready();
                    all_up.wait();
                    let begun = Instant::now();
                    let goes_on = |writer: &Writer<'_>| match n {
                        0 => others.load(Ordering::SeqCst) > 0,
                        _ => !length.reached(begun, writer.counts.attempts),
                    };
                    while writer.goes_on() && goes_on(&writer) {
                        writer.step(ROWS, &Blow::None);
                        if n == 0 {
                            thread::sleep(PACE);
                        }
                    }
                    settle(&mut writer);
                    if n > 0 {
                        others.fetch_sub(1, Ordering::SeqCst);
                    } else if writer.goes_on() {
                        writer.step(ROWS, &Blow::None);
                        settle(&mut writer);
                    }
                    writer
                })
            })
            .collect();
        running
            .into_iter()
            .map(|racer| racer.join().unwrap())
            .collect()
    });
    let took = begun.elapsed();
    let mut outcomes = [(); 2].map(|()| Outcome {
        took,
        tables: 1,
        ..Outcome::default()
    });
    let mut ledgers = [Vec::new(), Vec::new()];
    for (n, writer) in writers.iter().enumerate() {
        let whose = n.min(1);
        outcomes[whose].counts.add(&writer.counts);
        ledgers[whose].extend(&writer.ledger);
    }
    drop(writers);
    let verdicts = Verdict::of_two(place, reader, &ledgers, APART);
    for (outcome, verdict) in outcomes.iter_mut().zip(verdicts) {
        outcome.verdict = verdict;
    }
    Ok(outcomes)
}

/// Runs a cell of one subject.
///
/// # Errors
/// Where its place cannot be made.
pub fn run(
    cell: Cell,
    subject: &Subject,
    recovery: Recovery,
    seed: u64,
    length: Length,
    reader: &mut Peer,
) -> Result<Outcome, String> {
    match cell {
        Cell::Race | Cell::RaceOnS3 => {
            race(cell.place(length.keep)?, subject, recovery, length, reader)
        }
        Cell::Restore => restore(subject, recovery, seed, length, reader),
        _ => alone(
            cell,
            cell.place(length.keep)?,
            subject,
            recovery,
            seed,
            length,
            reader,
        ),
    }
}

fn race(
    place: Place,
    subject: &Subject,
    recovery: Recovery,
    length: Length,
    reader: &mut Peer,
) -> Result<Outcome, String> {
    let begun = Instant::now();
    let writers: Vec<Writer<'_>> = thread::scope(|scope| {
        let place = &place;
        let running: Vec<_> = (0..RACERS)
            .map(|n| {
                scope.spawn(move || {
                    let user = format!("writer-{n}");
                    let mut writer = Writer::new(subject, recovery, place, &user, n * APART);
                    // All processes are up before anyone's time counts.
                    writer.ready();
                    let begun = Instant::now();
                    while writer.goes_on() && !length.reached(begun, writer.counts.attempts) {
                        writer.step(ROWS, &Blow::None);
                    }
                    settle(&mut writer);
                    writer
                })
            })
            .collect();
        running
            .into_iter()
            .map(|racer| racer.join().unwrap())
            .collect()
    });
    let mut outcome = Outcome {
        took: begun.elapsed(),
        tables: 1,
        ..Outcome::default()
    };
    let mut ledger = Vec::new();
    for writer in &writers {
        outcome.counts.add(&writer.counts);
        ledger.extend(&writer.ledger);
    }
    drop(writers);
    outcome.verdict = Verdict::of(&place, reader, &ledger);
    Ok(outcome)
}

/// What is open at the end is offered until it is decided.
fn settle(writer: &mut Writer<'_>) {
    if writer.goes_on() {
        writer.ready();
    }
}

/// One writer under kills or lost answers.
fn alone(
    cell: Cell,
    place: Place,
    subject: &Subject,
    recovery: Recovery,
    seed: u64,
    length: Length,
    reader: &mut Peer,
) -> Result<Outcome, String> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut writer = Writer::new(subject, recovery, &place, "writer", 0);
    writer.ready();
    let begun = Instant::now();
    while writer.goes_on() && !length.reached(begun, writer.counts.attempts) {
        let struck = random.random_bool(0.6);
        let blow = match (cell, place.snapshots()) {
            _ if !struck => Blow::None,
            (Cell::Answer, Some(folder)) => Blow::KillOnceVisible(folder),
            (Cell::AnswerOnS3, _) => Blow::None,
            _ => Writer::kill(&mut random),
        };
        if let (true, Cell::AnswerOnS3, Some(proxy)) = (struck, cell, place.proxy()) {
            let targets = ["/snapshot/", "/snapshot/", "/manifest/", "/bucket-0/"];
            let target = targets[random.random_range(0..targets.len())];
            let times = [1, 1, 1, 4][random.random_range(0..4)];
            for kind in [Kind::Create, Kind::Put, Kind::UploadComplete] {
                let mut rule = Rule::new(Fault::DropAnswer).on(kind);
                rule.target = target.to_owned();
                // A client that asks again by itself loses the answer to that too, now and then.
                rule.times = times;
                proxy.rule(rule);
            }
        }
        writer.step(ROWS, &blow);
        if let Some(proxy) = place.proxy() {
            proxy.heal();
        }
    }
    // Who cleans up behind a killed run does so when the next one has published something.
    settle(&mut writer);
    for _ in 0..2 {
        if writer.goes_on() {
            writer.step(ROWS, &Blow::None);
        }
    }
    settle(&mut writer);
    let took = begun.elapsed();
    let dropped = place.proxy().map_or(0, |proxy| proxy.tally().faults());
    let (counts, ledger) = (writer.counts.clone(), writer.ledger.clone());
    drop(writer);
    Ok(Outcome {
        counts,
        verdict: Verdict::of(&place, reader, &ledger),
        dropped,
        tables: 1,
        took,
    })
}

/// Steps before the older state comes back, and after it.
const BEFORE: usize = 4;
const AFTER: usize = 3;

fn restore(
    subject: &Subject,
    recovery: Recovery,
    seed: u64,
    length: Length,
    reader: &mut Peer,
) -> Result<Outcome, String> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut outcome = Outcome::default();
    let begun = Instant::now();
    let mut rounds = 0;
    while !length.reached(begun, rounds) {
        rounds += 1;
        let place = Place::local(length.keep);
        let mut writer = Writer::new(subject, recovery, &place, "writer", 0);
        let kept = random.random_range(1..BEFORE);
        let saved = place.checkpoints().with_file_name("saved");
        let mut state = None;
        for step in 1..=BEFORE {
            writer.step(ROWS, &Blow::None);
            if step == kept {
                state = writer.state();
                if recovery == Recovery::Own {
                    copy(writer.checkpoints(), &saved);
                }
            }
        }
        if let Some(state) = state {
            if recovery == Recovery::Own {
                fs::remove_dir_all(writer.checkpoints()).unwrap();
                copy(&saved, writer.checkpoints());
            }
            writer.restore(&state);
            for _ in 0..AFTER {
                if writer.goes_on() {
                    // Batches are cut at other places the second time.
                    writer.step(ROWS - 3, &Blow::None);
                }
            }
        }
        outcome.counts.add(&writer.counts);
        outcome.tables += 1;
        let ledger = writer.ledger.clone();
        drop(writer);
        outcome.took = begun.elapsed();
        outcome.verdict.add(Verdict::of(&place, reader, &ledger));
    }
    Ok(outcome)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}
