//! The real `tidegate` binary: jobs that write, verbs that read.

use crate::cases::Case;
use crate::matrix::PARTS;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The binary under test, and whether the tables that were made with it stay.
#[derive(Clone)]
pub(crate) struct Binary {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Removes no table.
    pub(crate) keep: bool,
}

/// A table of ours in a folder of its own, with the job that writes it.
pub(crate) struct Ours {
    binary: Binary,
    folder: PathBuf,
    /// The table's folder.
    pub(crate) table: String,
}

fn wrong(at: &Path) -> impl Fn(std::io::Error) -> String {
    let at = at.display().to_string();
    move |e| format!("{at}: {e}")
}

impl Ours {
    /// An empty folder; nothing is written yet.
    pub(crate) fn new(binary: &Binary, folder: &Path) -> Result<Self, String> {
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(wrong(folder))?;
        }
        fs::create_dir_all(folder.join("in")).map_err(wrong(folder))?;
        Ok(Self {
            binary: binary.clone(),
            folder: folder.to_owned(),
            table: folder.join("warehouse/db.db/t").display().to_string(),
        })
    }

    /// Writes the job file for the table of a case.
    pub(crate) fn job(&self, case: &Case, extra: &Value) -> Result<(), String> {
        let columns: serde_json::Map<String, Value> = case
            .columns
            .iter()
            .map(|c| (c.name.clone(), json!(c.sql)))
            .collect();
        let options: serde_json::Map<String, Value> = case
            .options
            .iter()
            .map(|(k, v)| (k.clone(), json!(v)))
            .collect();
        let mut job = json!({
            "name": "interop",
            "source": {"type": "files", "path": "in/*.json", "format": "json"},
            "sink": {
                "warehouse": "warehouse", "table": "db.t", "columns": columns,
                "partition-by": case.partition, "options": options,
            },
            "checkpoint": {"directory": "checkpoints"},
        });
        if !case.key.is_empty()
            && let Some(sink) = job.get_mut("sink").and_then(Value::as_object_mut)
        {
            sink.insert("primary-key".to_owned(), json!(case.key));
        }
        if let (Some(job), Some(extra)) = (job.as_object_mut(), extra.as_object()) {
            job.extend(extra.clone());
        }
        let path = self.folder.join("job.yaml");
        fs::write(&path, format!("{job:#}\n")).map_err(wrong(&path))
    }

    /// Appends rows to an input file.
    pub(crate) fn input(&self, file: &str, rows: &[Value]) -> Result<(), String> {
        let path = self.folder.join("in").join(file);
        let mut text = String::new();
        for row in rows {
            text.push_str(&format!("{row}\n"));
        }
        let mut open = fs::OpenOptions::new();
        let mut to = open
            .create(true)
            .append(true)
            .open(&path)
            .map_err(wrong(&path))?;
        to.write_all(text.as_bytes()).map_err(wrong(&path))
    }

    /// Runs the job until it ends.
    pub(crate) fn run(&self) -> Result<(), String> {
        self.tidegate(&["run", "job.yaml", "-q"]).map(|_| ())
    }

    fn tidegate(&self, arguments: &[&str]) -> Result<String, String> {
        let output = Command::new(&self.binary.path)
            .args(arguments)
            .current_dir(&self.folder)
            .output()
            .map_err(|e| format!("cannot start {}: {e}", self.binary.path.display()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said
            .lines()
            .rev()
            .find(|l| !l.trim().is_empty())
            .unwrap_or_default();
        let out = String::from_utf8_lossy(&output.stdout);
        Err(format!("{} ({}) {}", last, output.status, out.trim()))
    }

    fn lines(&self, arguments: &[&str]) -> Result<Vec<Value>, String> {
        let mut all = arguments.to_vec();
        all.extend(["db.t", "-w", "warehouse", "--format", "jsonl"]);
        self.tidegate(&all)?
            .lines()
            .map(|l| serde_json::from_str(l).map_err(|e| format!("tidegate printed no JSON: {e}")))
            .collect()
    }

    /// Rows, or another of the `table` verbs.
    pub(crate) fn list(&self, verb: &str) -> Result<Vec<Value>, String> {
        self.lines(&["table", verb])
    }

    /// What readers of changes see.
    pub(crate) fn changes(&self) -> Result<Vec<Value>, String> {
        self.lines(&["tail"])
    }

    /// Compacts a keyed table fully.
    pub(crate) fn compact(&self) -> Result<(), String> {
        self.tidegate(&["compact", "db.t", "-w", "warehouse", "--full"])
            .map(|_| ())
    }

    /// A second table of the same schema in a folder of its own, with nothing in it.
    pub(crate) fn twin(&self) -> Result<String, String> {
        let twin = self.folder.join("warehouse/db.db/twin/schema");
        fs::create_dir_all(&twin).map_err(wrong(&twin))?;
        let from = Path::new(&self.table).join("schema/schema-0");
        fs::copy(&from, twin.join("schema-0")).map_err(wrong(&from))?;
        Ok(self
            .folder
            .join("warehouse/db.db/twin")
            .display()
            .to_string())
    }

    /// `verify`: an error where it finds one.
    pub(crate) fn verify(&self) -> Result<(), String> {
        match self.lines(&["verify"]) {
            Ok(_) => Ok(()),
            Err(said) => Err(findings(&said).unwrap_or(said)),
        }
    }

    /// Creates the table without writing to it.
    pub(crate) fn create(&self, case: &Case) -> Result<(), String> {
        let columns: Vec<String> = case
            .columns
            .iter()
            .map(|c| format!("{} {}", c.name, c.sql))
            .collect();
        let options: Vec<String> = case
            .options
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        let partition = case.partition.join(",");
        let mut arguments = vec!["table", "create", "db.t", "-w", "warehouse"];
        for column in &columns {
            arguments.extend(["--column", column]);
        }
        for option in &options {
            arguments.extend(["--option", option]);
        }
        if !partition.is_empty() {
            arguments.extend(["--partition-by", &partition]);
        }
        let warehouse = self.folder.join("warehouse");
        fs::create_dir_all(&warehouse).map_err(wrong(&warehouse))?;
        self.tidegate(&arguments).map(|_| ())
    }

    /// Removes everything, unless tables are to stay.
    pub(crate) fn remove(self) {
        if self.binary.keep {
            return;
        }
        // What stays behind is in the work folder and is removed by the next run.
        let _gone = fs::remove_dir_all(&self.folder);
    }
}

/// The errors in a report of `verify`, one part each; none where the text has no such report.
fn findings(said: &str) -> Option<String> {
    let report: Value = serde_json::from_str(said.get(said.find('{')?..)?).ok()?;
    let text = |f: &Value, key: &str| f.get(key).and_then(Value::as_str).map(str::to_owned);
    let errors: Vec<String> = report
        .get("findings")?
        .as_array()?
        .iter()
        .filter(|f| text(f, "severity").is_none_or(|s| s == "error"))
        .filter_map(|f| Some(format!("{}: {}", text(f, "place")?, text(f, "finding")?)))
        .collect();
    (!errors.is_empty()).then(|| errors.join(PARTS))
}

#[cfg(test)]
mod tests {
    use super::findings;

    #[test]
    fn each_error_of_a_report_is_a_part_and_warnings_and_notes_are_none() {
        let said = r#" (exit status: 3) {"errors":2,"findings":[
            {"severity":"error","place":"a","finding":"it is not there"},
            {"severity":"warning","place":"b","finding":"loose"},
            {"severity":"note","place":"d","finding":"nobody's"},
            {"severity":"error","place":"c","finding":"3 rows"}]}"#;
        let told = Some("a: it is not there ¶ c: 3 rows".to_owned());
        assert_eq!(findings(said), told);
        assert_eq!(findings("no such table (exit status: 1)"), None);
    }
}
