//! Who is tortured: how its process is started, and what it offers after a restart.

use std::path::Path;
use std::process::Command;
use tidegate_interop::install::{self, Trouble};
use tidegate_interop::peer::{Kind, Peer};

/// The release of Java Paimon of the campaign.
pub const JAVA: &str = "1.4.2";

/// How what was prepared is published again after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// The stream keeps its checkpoints itself and settles them when it is opened.
    Own,
    /// The peer is given what was saved and filters what is published (`filterAndCommit`).
    Filter,
    /// The peer has no filter: what was saved is committed once more.
    Again,
    /// The peer has no filter: the caller looks through the list of snapshots first.
    Look,
}

impl Recovery {
    /// Its name in the line protocol.
    pub fn mode(self) -> &'static str {
        match self {
            Self::Own | Self::Filter => "filter",
            Self::Again => "plain",
            Self::Look => "look",
        }
    }
}

/// A writer of Paimon tables.
#[derive(Debug)]
pub struct Subject {
    /// As `--peer` names it.
    pub name: &'static str,
    kind: Kind,
    command: Command,
    /// What it offers, best first.
    pub recoveries: &'static [Recovery],
}

/// All names, in the order of tables.
pub const NAMES: [&str; 4] = ["ours", "paimon-crate", "pypaimon", "paimon-java"];

impl Subject {
    /// Installs it, where it is not here yet. `driver` is the program that drives ours.
    ///
    /// # Errors
    /// A name that is none; what cannot be installed.
    pub fn install(name: &str, driver: &Path, s3: bool) -> Result<Self, String> {
        let known = NAMES.into_iter().find(|known| *known == name);
        let name =
            known.ok_or_else(|| format!("no peer `{name}`; there are {}", NAMES.join(", ")))?;
        let (kind, command, recoveries): (Kind, Result<Command, Trouble>, &[Recovery]) = match name
        {
            "ours" => (Kind::Tidegate, Ok(Command::new(driver)), &[Recovery::Own]),
            "paimon-crate" => (
                Kind::PaimonCrate,
                install::paimon_crate(),
                &[Recovery::Filter],
            ),
            "pypaimon" => (
                Kind::Pypaimon,
                install::pypaimon(),
                &[Recovery::Again, Recovery::Look],
            ),
            _ => (
                Kind::Java(JAVA.to_owned()),
                if s3 {
                    install::java_on_s3(JAVA)
                } else {
                    install::java(JAVA)
                },
                &[Recovery::Filter],
            ),
        };
        let command = command.map_err(|trouble| match trouble {
            Trouble::Registry(why) | Trouble::Other(why) => why,
        })?;
        Ok(Self {
            name,
            kind,
            command,
            recoveries,
        })
    }

    /// A process of it.
    ///
    /// # Errors
    /// Where it does not start.
    pub fn start(&self) -> Result<Peer, String> {
        let mut again = Command::new(self.command.get_program());
        again.args(self.command.get_args());
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => again.env(name, value),
                None => again.env_remove(name),
            };
        }
        Peer::start(self.kind.clone(), again)
    }
}
