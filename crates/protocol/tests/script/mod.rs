//! The script language: what a line means. See `tests/scripts/README.md`.

pub(crate) mod guard;
pub(crate) mod plans;
pub(crate) mod text;

use std::sync::Arc;
use text::Words;
use tidegate_model::ids::SnapshotId;
use tidegate_model::{KeyOrder, LogicalType};
use tidegate_protocol::{
    Attempt, Fact, Ledger, Outcome, Rule, Rules, Settings, SnapshotFact, Step,
};

/// One script: the rules it stands for, and its lines.
pub(crate) struct Script {
    pub(crate) name: String,
    pub(crate) rules: Vec<Rule>,
    lines: Vec<(usize, String)>,
}

impl Script {
    pub(crate) fn parse(name: &str, text: &str) -> Self {
        let mut rules = Vec::new();
        let mut lines = Vec::new();
        for (i, line) in text.lines().enumerate() {
            if let Some(names) = line.strip_prefix("# rules:") {
                rules.extend(names.split_whitespace().map(|n| {
                    *Rule::ALL
                        .iter()
                        .find(|r| r.name() == n)
                        .unwrap_or_else(|| panic!("{name}: no rule {n}"))
                }));
            }
            let line = line.split(" #").next().unwrap_or_default().trim();
            if !line.is_empty() && !line.starts_with('#') {
                lines.push((i + 1, line.to_owned()));
            }
        }
        Self {
            name: name.to_owned(),
            rules,
            lines,
        }
    }

    /// Runs it; the error names the line.
    pub(crate) fn run(&self, rules: Rules) -> Result<(), String> {
        let mut world = World::new(rules);
        for (number, line) in &self.lines {
            world
                .line(line)
                .map_err(|e| format!("{}:{number}: {line}\n    {e}", self.name))?;
        }
        match world.unasked {
            true => Err(format!(
                "{}: ends although a step is pending: {}",
                self.name,
                world.shown()
            )),
            false => Ok(()),
        }
    }
}

struct World {
    settings: Settings,
    ledger: Option<Ledger>,
    attempt: Option<Attempt>,
    tokens: u32,
    /// The base that was read last.
    base: Option<SnapshotFact>,
    /// The last fact has not been followed by a look at the next step.
    unasked: bool,
    guard: guard::Scene,
    plans: plans::Scene,
    said: Vec<String>,
}

impl World {
    fn new(rules: Rules) -> Self {
        let settings = Settings {
            rules,
            // Scripts that give levels have one INT key.
            key_order: Some(KeyOrder::new(vec![LogicalType::Int])),
            ..Settings::default()
        };
        Self {
            settings,
            ledger: None,
            attempt: None,
            tokens: 0,
            base: None,
            unasked: false,
            guard: guard::Scene::default(),
            plans: plans::Scene::default(),
            said: Vec::new(),
        }
    }

    fn shown(&self) -> String {
        self.attempt
            .as_ref()
            .map_or_else(String::new, |a| text::step(&a.next()))
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let mut words = Words::new(line);
        let command = words.take()?;
        match command {
            ">" => self.expect(&line[1..]),
            "<" if line[1..].trim() == "confirmed" => self.confirmed(),
            "<" => {
                let fact = match line[1..].trim().strip_prefix("history") {
                    Some(list) => Fact::History(text::snapshots(&mut words, list)?),
                    None => self.fact(&mut words)?,
                };
                words.end()?;
                self.observe(fact)
            }
            "commit" => {
                let committable = text::committable(&mut words)?;
                words.end()?;
                let (user, job) = (committable.user.clone(), committable.job.clone());
                let ledger = self.ledger().unwrap_or_else(|| Ledger::new(user, job));
                let attempt = Attempt::new(Arc::new(committable), ledger, self.settings.clone());
                self.attempt = Some(attempt);
                self.unasked = true;
                Ok(())
            }
            "settings" => text::settings(&mut self.settings, &mut words),
            "restart" => {
                self.ledger = None;
                self.attempt = None;
                Ok(())
            }
            "new-user" => {
                let user = text::user(words.key("user").unwrap_or("u1"))?;
                let seen = text::maybe(words.take()?, text::id_token)?;
                self.ledger = Some(Ledger::of_new_user(user, None, seen));
                words.end()
            }
            "note" => {
                let entry = text::entry(&mut words)?;
                let user = text::user(words.key("user").unwrap_or("u1"))?;
                let mut ledger = self.ledger().unwrap_or_else(|| Ledger::new(user, None));
                ledger.remember_note(entry);
                self.ledger = Some(ledger);
                words.end()
            }
            "accept-replacement" => {
                let step = self.attempt.as_ref().ok_or("no commit yet")?.next();
                let Step::Done(Outcome::Replaced(replacement)) = step else {
                    return Err("nothing was replaced".to_owned());
                };
                let mut ledger = self.ledger().ok_or("no ledger")?;
                ledger.accept_replacement(&replacement);
                self.ledger = Some(ledger);
                Ok(())
            }
            "dropped" => {
                self.attempt.as_mut().ok_or("no commit yet")?.interrupted();
                Ok(())
            }
            "go-on" => {
                let went = self.attempt.as_mut().ok_or("no commit yet")?.go_on();
                self.unasked = true;
                if went {
                    Ok(())
                } else {
                    Err("it is not undecided".to_owned())
                }
            }
            "back-off" => {
                let n: u32 = text::number(words.take()?)?;
                let jitter = words.key("jitter").map_or(Ok(0), text::number)?;
                self.said
                    .push(format!("wait {}", self.settings.back_off_millis(n, jitter)));
                words.end()
            }
            _ => {
                let rules = self.settings.rules;
                let said = match self.guard.line(command, &mut words, rules)? {
                    Some(said) => Some(said),
                    None => self.plans.line(command, &mut words, &self.settings)?,
                };
                let said = said.ok_or_else(|| format!("no command {command}"))?;
                words.end()?;
                if !said.is_empty() {
                    self.said.push(said);
                }
                Ok(())
            }
        }
    }

    fn observe(&mut self, fact: Fact) -> Result<(), String> {
        if let Fact::Latest(latest) = &fact {
            self.base = latest.base.as_ref().map(|b| b.snapshot.clone());
        }
        let attempt = self.attempt.as_mut().ok_or("no commit yet")?;
        attempt.observe(fact).map_err(|e| format!("{e}"))?;
        self.unasked = true;
        Ok(())
    }

    /// The usual answers after a create: the base stands, or there is none and the new snapshot is
    /// alone; readers are told.
    fn confirmed(&mut self) -> Result<(), String> {
        let first = SnapshotId::FIRST;
        match (self.shown().as_str(), self.base.clone()) {
            ("find-retained", None) => self.observe(Fact::Retained(Some((first, first))))?,
            (asked, Some(base)) if asked == format!("read-again {}", base.id) => {
                self.observe(Fact::Again(Some(base)))?;
            }
            (asked, _) => return Err(format!("the base is not asked for, but: {asked}")),
        }
        self.observe(Fact::Announced)
    }

    /// The ledger as the last attempt left it.
    fn ledger(&mut self) -> Option<Ledger> {
        self.attempt
            .take()
            .map(Attempt::into_ledger)
            .or(self.ledger.take())
    }

    fn expect(&mut self, wanted: &str) -> Result<(), String> {
        let shown = match self.said.is_empty() {
            true => {
                self.unasked = false;
                self.shown()
            }
            false => self.said.remove(0),
        };
        let there: Vec<&str> = shown.split_whitespace().collect();
        let first = wanted.split_whitespace().next();
        if first == there.first().copied() && wanted.split_whitespace().all(|w| there.contains(&w))
        {
            return Ok(());
        }
        Err(format!("but it is: {shown}"))
    }

    fn fact(&mut self, words: &mut Words<'_>) -> Result<Fact, String> {
        self.tokens += 1;
        text::fact(words, self.tokens)
    }
}
