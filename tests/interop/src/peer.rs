//! A peer: another implementation of Paimon in a process of its own, behind one JSON line each way.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// What a peer can be.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// The release of Java Paimon.
    Java(String),
    /// pypaimon on pyarrow.
    Pypaimon,
    /// The `paimon` crate.
    PaimonCrate,
    /// What drives us in campaigns; interop asks the binary itself.
    Tidegate,
}

/// Ends a peer's process from another thread.
#[derive(Clone, Debug)]
pub struct Killer(Arc<Mutex<Child>>);

impl Killer {
    /// SIGKILL.
    pub fn kill(&self) {
        let mut child = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ended_before = child.kill();
    }
}

/// A running peer.
#[derive(Debug)]
pub struct Peer {
    /// What it is called in the matrix.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The version that it says it is.
    pub version: String,
    child: Arc<Mutex<Child>>,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts it and asks for its version.
    ///
    /// # Errors
    /// Where it does not start or does not answer.
    pub fn start(kind: Kind, mut command: Command) -> Result<Self, String> {
        let shown = format!("{command:?}");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("cannot start {shown}: {e}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{shown}: no pipes"));
        };
        let name = match &kind {
            Kind::Java(release) => release.clone(),
            Kind::Pypaimon => "pypaimon".to_owned(),
            Kind::PaimonCrate => "paimon-crate".to_owned(),
            Kind::Tidegate => "tidegate".to_owned(),
        };
        let output = BufReader::new(output);
        let mut peer = Self {
            name,
            kind,
            version: String::new(),
            child: Arc::new(Mutex::new(child)),
            input,
            output,
        };
        let said = peer.ask(&json!({"command": "version"}))?;
        peer.version = said.to_string().replace(['{', '}', '"'], "");
        Ok(peer)
    }

    /// To end it with, while it is asked or not.
    pub fn killer(&self) -> Killer {
        Killer(Arc::clone(&self.child))
    }

    /// One request. The error is the peer's own message.
    ///
    /// # Errors
    /// What the peer says, or that its process is gone.
    pub fn ask(&mut self, request: &Value) -> Result<Value, String> {
        let gone = |e: std::io::Error| format!("the peer's process: {e}");
        writeln!(self.input, "{request}").map_err(gone)?;
        self.input.flush().map_err(gone)?;
        let mut line = String::new();
        if self.output.read_line(&mut line).map_err(gone)? == 0 {
            return Err("the peer's process ended".to_owned());
        }
        let answer: Value = serde_json::from_str(&line)
            .map_err(|e| format!("the peer's answer is no JSON: {e}"))?;
        if let Some(error) = answer.get("error") {
            let part = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
            let short = |class: &str| class.rsplit('.').next().unwrap_or(class).to_owned();
            let mut text = format!("{}: {}", short(part("class")), part("message"));
            if !part("rootClass").is_empty() {
                text.push_str(&format!(
                    " ← {}: {}",
                    short(part("rootClass")),
                    part("rootMessage")
                ));
            }
            if !part("rootAt").is_empty() {
                text.push_str(&format!(" at {}", part("rootAt")));
            }
            return Err(text.replace('\n', " "));
        }
        Ok(answer.get("result").cloned().unwrap_or(Value::Null))
    }

    /// A command on a table; `extra` joins the request.
    ///
    /// # Errors
    /// As [`Peer::ask`].
    pub fn on(&mut self, command: &str, table: &str, extra: Value) -> Result<Value, String> {
        let mut request = json!({"command": command, "path": format!("file:{table}")});
        if let (Some(request), Value::Object(extra)) = (request.as_object_mut(), extra) {
            request.extend(extra);
        }
        self.ask(&request)
    }

    /// Appends rows in one commit.
    ///
    /// # Errors
    /// As [`Peer::ask`].
    pub fn write(&mut self, table: &str, rows: &[Value]) -> Result<Value, String> {
        self.write_with(table, rows, json!({}))
    }

    /// Appends rows; `extra` joins the request.
    ///
    /// # Errors
    /// As [`Peer::ask`].
    pub fn write_with(
        &mut self,
        table: &str,
        rows: &[Value],
        extra: Value,
    ) -> Result<Value, String> {
        let mut request = json!({"rows": rows});
        // Beyond so many partitions and buckets Java spills rows first, and 1.0.1 cannot spill all types:
        // "Error happens while force buffer spill".
        if self.release().is_some() {
            request = json!({"rows": rows, "options": {"write-max-writers-to-spill": "1000"}});
        }
        if let (Some(request), Value::Object(extra)) = (request.as_object_mut(), extra) {
            request.extend(extra);
        }
        self.on("write", table, request)
    }

    /// A list from a command.
    ///
    /// # Errors
    /// As [`Peer::ask`].
    pub fn list(&mut self, command: &str, table: &str, extra: Value) -> Result<Vec<Value>, String> {
        match self.on(command, table, extra)? {
            Value::Array(items) => Ok(items),
            other => Err(format!("expected a list, got {other}")),
        }
    }

    /// True for the oldest Java that is judged: it does not read all that it writes.
    pub fn is_before_1_3(&self) -> bool {
        self.release().is_some_and(|r| r.starts_with("1.0"))
    }

    /// True for pypaimon.
    pub fn is_pypaimon(&self) -> bool {
        self.kind == Kind::Pypaimon
    }

    /// The release of a Java peer.
    pub fn release(&self) -> Option<&str> {
        match &self.kind {
            Kind::Java(release) => Some(release),
            _ => None,
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let _ended = child.kill();
        let _reaped = child.wait();
    }
}
