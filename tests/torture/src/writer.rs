//! One writer under the rig: its process, what the rig keeps for it as an engine does, and its ledger.
//!
//! A step is two requests: `write` makes files, `commit` publishes them. Between the two the rig saves what
//! the first one answered: that is the checkpoint. After a kill or an error the peer is given what was saved,
//! by the way its interface has for it. A stream of ours saves by itself; it is opened again.

use crate::place::Place;
use crate::subject::{Recovery, Subject};
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};
use tidegate_interop::peer::Peer;

/// How often what was saved is offered before the rig gives a writer up.
const OFFERS: usize = 5;

/// Which request a kill is aimed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// While files are made.
    Write,
    /// While they are published.
    Commit,
}

/// What happens to a step.
#[derive(Debug, Clone)]
pub enum Blow {
    /// Nothing.
    None,
    /// SIGKILL, at a moment of a request drawn as a share of how long it took of late.
    Kill(Phase, f64),
    /// SIGKILL as soon as the step's snapshot is in this folder: its answer is lost.
    KillOnceVisible(PathBuf),
}

/// What happened, by count.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Steps that were begun.
    pub attempts: usize,
    /// That ended in an answer of success, at once or after recovery.
    pub acknowledged: usize,
    /// Requests that ended in an error before that.
    pub refused: usize,
    /// Their words, numbers taken out.
    pub words: BTreeMap<String, usize>,
    /// Kills that hit a `write`, a `commit`, or came when the answer was there.
    pub kills: [usize; 3],
    /// What was saved was offered, after a kill or an error, so often.
    pub offers: usize,
    /// The rig gave up: the last word of the peer.
    pub given_up: Option<String>,
}

impl Counts {
    /// Takes in those of another writer of the cell.
    pub fn add(&mut self, other: &Self) {
        self.attempts += other.attempts;
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.offers += other.offers;
        for (kills, more) in self.kills.iter_mut().zip(other.kills) {
            *kills += more;
        }
        for (words, n) in &other.words {
            *self.words.entry(words.clone()).or_default() += n;
        }
        self.given_up = self.given_up.take().or_else(|| other.given_up.clone());
    }

    fn refuse(&mut self, why: &str) {
        self.refused += 1;
        *self.words.entry(plain(why)).or_default() += 1;
    }
}

/// What an engine restores: the state as of a checkpoint.
#[derive(Debug, Clone)]
pub struct State {
    /// The id of the last row in it.
    position: i64,
    /// The checkpoint's number.
    identifier: i64,
    /// What was prepared for it.
    committable: Value,
}

/// A step whose outcome is open.
#[derive(Debug, Clone)]
struct Pending {
    rows: (i64, i64),
    committable: Value,
}

/// How a request failed.
enum Trouble {
    /// By the peer's word.
    Said(String),
    /// The process is gone.
    Gone,
}

/// See the module.
#[derive(Debug)]
pub struct Writer<'a> {
    subject: &'a Subject,
    recovery: Recovery,
    user: String,
    table: String,
    conf: Value,
    checkpoints: PathBuf,
    process: Option<Peer>,
    position: i64,
    identifier: i64,
    pending: Option<Pending>,
    last: Option<State>,
    /// How long requests took of late: `write` and `commit`, the first of a process and later ones.
    took: [[Duration; 2]; 2],
    /// Requests of either kind that this process has answered.
    answered: [usize; 2],
    /// Ranges of ids that were acknowledged.
    pub ledger: Vec<(i64, i64)>,
    /// What happened.
    pub counts: Counts,
}

impl<'a> Writer<'a> {
    /// A writer whose rows have ids above `first`.
    pub fn new(
        subject: &'a Subject,
        recovery: Recovery,
        place: &Place,
        user: &str,
        first: i64,
    ) -> Self {
        Self {
            subject,
            recovery,
            user: user.to_owned(),
            table: place.table(),
            conf: place.conf(),
            checkpoints: place.checkpoints().join(user),
            process: None,
            position: first,
            identifier: 0,
            pending: None,
            last: None,
            took: [[Duration::from_millis(50); 2]; 2],
            answered: [0; 2],
            ledger: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Whether the rig goes on with it.
    pub fn goes_on(&self) -> bool {
        self.counts.given_up.is_none()
    }

    /// The state as of its last acknowledged step.
    pub fn state(&self) -> Option<State> {
        self.last.clone()
    }

    /// A process is there and has gone on from what was saved.
    pub fn ready(&mut self) {
        let mut said = String::new();
        for _ in 0..OFFERS {
            match self.offer() {
                Ok(()) => return,
                Err(Trouble::Said(why)) => {
                    self.counts.refuse(&why);
                    said = why;
                }
                Err(Trouble::Gone) => {
                    said = "its process ended".to_owned();
                    self.process = None;
                }
            }
        }
        self.counts.given_up = Some(plain(&said));
    }

    /// One offer of what was saved, by the way the subject has for it.
    fn offer(&mut self) -> Result<(), Trouble> {
        let opened = self.process.is_some();
        if !opened {
            self.process = Some(self.subject.start().map_err(Trouble::Said)?);
            self.answered = [0; 2];
        }
        if self.recovery == Recovery::Own {
            return self.open();
        }
        let Some(pending) = self.pending.clone() else {
            return Ok(());
        };
        self.counts.offers += 1;
        let mode = self.recovery.mode();
        self.commit(&pending, mode, &Blow::None)?;
        self.acknowledge(&pending);
        Ok(())
    }

    /// A stream of ours is opened (again): it publishes what it had saved and says up to where.
    fn open(&mut self) -> Result<(), Trouble> {
        let checkpoints = self.checkpoints.display().to_string();
        let request = json!({"commitUser": self.user, "checkpoints": checkpoints});
        self.counts.offers += usize::from(self.pending.is_some());
        let answer = self.ask("open", request, &Blow::None)?;
        let position = answer["position"].as_i64().unwrap();
        if let Some(pending) = self.pending.take() {
            if position == pending.rows.1 {
                self.acknowledge(&pending);
            } else if position >= pending.rows.0 {
                panic!(
                    "a stream is at {position}, in the middle of {:?}",
                    pending.rows
                );
            }
        }
        // At its very start a stream knows no position.
        if position > 0 {
            self.position = position;
        }
        Ok(())
    }

    fn acknowledge(&mut self, pending: &Pending) {
        self.pending = None;
        self.ledger.push(pending.rows);
        self.counts.acknowledged += 1;
        self.last = Some(State {
            position: pending.rows.1,
            identifier: self.identifier,
            committable: pending.committable.clone(),
        });
    }

    /// Appends so many rows; afterwards they are acknowledged, or the next step begins with them.
    pub fn step(&mut self, rows: i64, blow: &Blow) {
        if self.process.is_none() || self.pending.is_some() {
            self.ready();
            if !self.goes_on() {
                return;
            }
        }
        self.counts.attempts += 1;
        let range = (self.position + 1, self.position + rows);
        self.identifier += 1;
        let aimed = |phase: Phase| match blow {
            Blow::Kill(at, _) if *at == phase => blow.clone(),
            Blow::KillOnceVisible(_) if phase == Phase::Commit => blow.clone(),
            _ => Blow::None,
        };
        let committable = match self.write(range, &aimed(Phase::Write)) {
            Ok(committable) => committable,
            Err(trouble) => return self.failed(trouble),
        };
        // The checkpoint is complete: from here on these rows are not made again.
        let pending = Pending {
            rows: range,
            committable,
        };
        self.pending = Some(pending.clone());
        if self.recovery != Recovery::Own {
            self.position = range.1;
        }
        if self.process.is_none() {
            return;
        }
        match self.commit(&pending, "plain", &aimed(Phase::Commit)) {
            Ok(()) => {
                self.position = range.1;
                self.acknowledge(&pending);
            }
            Err(trouble) => self.failed(trouble),
        }
    }

    fn failed(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Said(why) => {
                self.counts.refuse(&why);
                // An engine restarts; a stream whose rows are half taken must be opened again.
                if self.pending.is_some() || self.recovery == Recovery::Own {
                    self.ready();
                }
            }
            Trouble::Gone => self.process = None,
        }
    }

    fn write(&mut self, (from, to): (i64, i64), blow: &Blow) -> Result<Value, Trouble> {
        let rows: Vec<Value> = (from..=to)
            .map(|id| json!({"id": id, "name": format!("name-{id}")}))
            .collect();
        let mut request = json!({
            "prepareOnly": true, "commitUser": self.user, "commitIdentifier": self.identifier,
            "rows": rows,
        });
        if self.recovery == Recovery::Own {
            request = json!({"from": from, "to": to});
        }
        self.ask("write", request, blow)
    }

    fn commit(&mut self, pending: &Pending, mode: &str, blow: &Blow) -> Result<(), Trouble> {
        let request = json!({
            "commitUser": self.user, "mode": mode, "committables": [pending.committable],
        });
        self.ask("commit", request, blow).map(|_| ())
    }

    /// One request, under a blow. Where the answer was there before the kill, it counts.
    fn ask(&mut self, command: &str, extra: Value, blow: &Blow) -> Result<Value, Trouble> {
        let phase = usize::from(command == "commit");
        let mut request = json!({"command": command, "path": self.table, "conf": self.conf});
        let object = request.as_object_mut().unwrap();
        object.extend(extra.as_object().unwrap().clone());
        let process = self.process.as_mut().ok_or(Trouble::Gone)?;
        let took = &mut self.took[phase][usize::from(self.answered[phase] > 0)];
        let killer = process.killer();
        let (done, is_done) = channel::<()>();
        let moment = match blow {
            Blow::Kill(_, share) => Some(took.mul_f64(*share)),
            _ => None,
        };
        let begun = Instant::now();
        let (answer, struck) = thread::scope(|scope| {
            let striker = match blow {
                Blow::None => None,
                Blow::Kill(..) => Some(scope.spawn(move || {
                    // The moment is the fault itself, not a wait for something.
                    let early = is_done.recv_timeout(moment.unwrap_or_default());
                    let struck = early == Err(RecvTimeoutError::Timeout);
                    killer.kill();
                    struck
                })),
                Blow::KillOnceVisible(folder) => {
                    let before = snapshots(folder);
                    Some(scope.spawn(move || {
                        while is_done.try_recv().is_err() {
                            if snapshots(folder) > before {
                                killer.kill();
                                return true;
                            }
                            thread::yield_now();
                        }
                        killer.kill();
                        false
                    }))
                }
            };
            let answer = process.ask(&request);
            let _striker_is_gone = done.send(());
            (answer, striker.map(|striker| striker.join().unwrap()))
        });
        if let Some(struck) = struck {
            self.process = None;
            let hit = struck && answer.is_err();
            self.counts.kills[if hit { phase } else { 2 }] += 1;
        }
        match answer {
            Ok(answer) => {
                *took = (*took + begun.elapsed()) / 2;
                self.answered[phase] += 1;
                Ok(answer)
            }
            Err(_) if struck.is_some() => Err(Trouble::Gone),
            Err(why) if why.starts_with("the peer's ") => {
                self.process = None;
                Err(Trouble::Gone)
            }
            Err(why) => Err(Trouble::Said(why)),
        }
    }

    /// Kills the process where it stands, and goes on from an older state, as an engine does that is told
    /// to: what was prepared for it is offered first.
    pub fn restore(&mut self, state: &State) {
        self.process = None;
        self.position = state.position;
        self.identifier = state.identifier;
        self.pending = None;
        let started = self
            .subject
            .start()
            .map(|process| self.process = Some(process));
        let restored = match (started, self.recovery) {
            (Err(why), _) => Err(Trouble::Said(why)),
            (Ok(()), Recovery::Own) => self.open(),
            (Ok(()), _) => {
                self.counts.offers += 1;
                let pending = Pending {
                    rows: (state.position, state.position),
                    committable: state.committable.clone(),
                };
                self.commit(&pending, self.recovery.mode(), &Blow::None)
            }
        };
        if let Err(trouble) = restored {
            let why = match trouble {
                Trouble::Said(why) => why,
                Trouble::Gone => "its process ended".to_owned(),
            };
            self.counts.refuse(&why);
            self.counts.given_up = Some(plain(&why));
        }
    }

    /// Where a stream of ours keeps its checkpoints.
    pub fn checkpoints(&self) -> &PathBuf {
        &self.checkpoints
    }

    /// A blow by the dice: aimed at one of the two requests.
    pub fn kill(random: &mut StdRng) -> Blow {
        let phase = match random.random_bool(0.35) {
            true => Phase::Write,
            false => Phase::Commit,
        };
        Blow::Kill(phase, random.random_range(0.0..1.1))
    }
}

/// How many snapshots are visible in a folder.
fn snapshots(folder: &PathBuf) -> usize {
    let listed = fs::read_dir(folder).into_iter().flatten().flatten();
    let whole = |name: &str| {
        let id = name.strip_prefix("snapshot-");
        id.is_some_and(|id| id.bytes().all(|b| b.is_ascii_digit()))
    };
    listed
        .filter(|entry| whole(&entry.file_name().to_string_lossy()))
        .count()
}

/// The beginning of a message, numbers and names of files taken out, so that the same words count together.
fn plain(message: &str) -> String {
    let mut text = String::new();
    for word in message.split_whitespace() {
        let made_up = word.len() > 24 && word.contains(['-', '/']);
        let word = if made_up { "…" } else { word };
        for c in word.chars() {
            match c.is_ascii_digit() {
                true if text.ends_with('#') => {}
                true => text.push('#'),
                false => text.push(c),
            }
        }
        text.push(' ');
    }
    text.trim_end().chars().take(160).collect()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn the_same_words_about_other_files_count_together() {
        let a =
            plain("Commit failed 12 after 300 millis: s3://b/tidegate-torture-abcdef/t/snapshot-3");
        assert_eq!(a, "Commit failed # after # millis: …");
    }
}
