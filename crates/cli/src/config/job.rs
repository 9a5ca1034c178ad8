//! The job file: what a user writes, checked and completed.

use super::document::{self, Content, Environment, Node, Origin};
use super::reader::{Effective, Section, boolean, duration, whole};
use super::{ConfigError, nearest};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate::TABLE_PATH;
use tidegate::model::DataType;
use tidegate::model::options::{KeyKind, key_kind};

/// A complete job.
#[derive(Debug)]
pub(crate) struct JobConfig {
    pub(crate) name: String,
    pub(crate) source: SourceConfig,
    pub(crate) sink: SinkConfig,
    pub(crate) checkpoint: CheckpointConfig,
    pub(crate) restart: RestartConfig,
    pub(crate) parallelism: usize,
    /// Memory that writers share, bytes.
    pub(crate) memory: u64,
    /// Folder for spill runs.
    pub(crate) spill: Option<PathBuf>,
    pub(crate) effective: Vec<Effective>,
    /// What is odd and not wrong.
    pub(crate) warnings: Vec<String>,
}

#[derive(Debug)]
pub(crate) enum SourceConfig {
    Files(FilesConfig),
    Generator(GeneratorConfig),
}

#[derive(Debug)]
pub(crate) struct FilesConfig {
    /// A path or glob relative to the job file's folder, absolute, or a URL.
    pub(crate) path: String,
    pub(crate) format: Option<FileFormat>,
    pub(crate) csv: CsvConfig,
    pub(crate) watch: bool,
    /// How often a watched path is looked at.
    pub(crate) poll: Duration,
    pub(crate) store: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileFormat {
    Csv,
    Json,
    Parquet,
}

#[derive(Debug, Clone)]
pub(crate) struct CsvConfig {
    pub(crate) header: bool,
    pub(crate) delimiter: u8,
    pub(crate) quote: u8,
    pub(crate) null: String,
}

#[derive(Debug)]
pub(crate) struct GeneratorConfig {
    pub(crate) rows: Option<u64>,
    /// Rows per second.
    pub(crate) rate: Option<u64>,
    pub(crate) seed: u64,
    pub(crate) columns: Vec<(String, Rule, Origin)>,
}

/// How a column's values are made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Rule {
    Sequence { start: i64, step: i64 },
    Template(String),
    Choice(Vec<String>),
    Random { min: String, max: String },
    Constant(String),
}

#[derive(Debug)]
pub(crate) struct SinkConfig {
    /// A folder (absolute by now) or a URL.
    pub(crate) warehouse: String,
    pub(crate) store: BTreeMap<String, String>,
    pub(crate) database: String,
    pub(crate) table: String,
    /// Name and type text, in order, with the place of each.
    pub(crate) columns: Vec<(String, String, Origin)>,
    pub(crate) partition_by: Vec<String>,
    pub(crate) primary_key: Vec<String>,
    pub(crate) options: Vec<(String, String)>,
    warnings: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct CheckpointConfig {
    pub(crate) interval: Option<Duration>,
    /// A folder (absolute by now) or a URL.
    pub(crate) directory: String,
    pub(crate) retain: usize,
    pub(crate) timeout: Duration,
    pub(crate) min_pause: Duration,
    pub(crate) tolerable_failures: u32,
    pub(crate) pending_commits: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RestartConfig {
    None,
    FixedDelay { attempts: u32, delay: Duration },
    Exponential { initial: Duration, max: Duration },
}

/// Reads a job file, applies `--set` in order and completes it.
pub(crate) fn load(
    file: &Path,
    sets: &[String],
    env: Environment<'_>,
) -> Result<JobConfig, ConfigError> {
    let shown = file.display().to_string();
    let text = std::fs::read_to_string(file)
        .map_err(|e| ConfigError::new(format!("cannot read job file `{shown}`: {e}")))?;
    let folder = std::path::absolute(file)
        .map_err(|e| ConfigError::new(format!("cannot resolve `{shown}`: {e}")))?;
    let folder = folder.parent().unwrap_or(Path::new("/")).to_path_buf();
    from_text(&shown, &text, &folder, sets, env)
}

pub(crate) fn from_text(
    file: &str,
    text: &str,
    folder: &Path,
    sets: &[String],
    env: Environment<'_>,
) -> Result<JobConfig, ConfigError> {
    let mut tree = document::parse(file, text, env)?;
    for set in sets {
        document::apply_set(&mut tree, set, env)?;
    }
    read(&tree, folder)
}

fn read(tree: &Node, folder: &Path) -> Result<JobConfig, ConfigError> {
    let root = Section::root(tree)?;
    let name = root.required("name", "orders")?.0.to_owned();
    let mut sink = read_sink(&root.section("sink")?, folder)?;
    let warnings = std::mem::take(&mut sink.warnings);
    let source = read_source(&root.section("source")?, folder, &sink)?;
    let checkpoint = read_checkpoint(&root.section("checkpoint")?, folder)?;
    let restart = read_restart(&root.section("restart")?)?;
    let parallelism = root.with_default("parallelism", "1", |t| {
        whole(1)(t).and_then(|n| {
            if n <= 1024 {
                Ok(n as usize)
            } else {
                Err(format!("{n} is too many; at most 1024"))
            }
        })
    })?;
    let memory = root.with_default("memory", "256 mb", size)?;
    let spill = root.parsed("spill-directory", None, |t| Ok(folder.join(t)))?;
    root.finish()?;
    Ok(JobConfig {
        name,
        source,
        sink,
        checkpoint,
        restart,
        parallelism,
        memory,
        spill,
        effective: root.effective(),
        warnings,
    })
}

fn read_source(
    section: &Section<'_>,
    folder: &Path,
    sink: &SinkConfig,
) -> Result<SourceConfig, ConfigError> {
    let (kind, origin) = section.required("type", "files")?;
    match kind {
        "files" => read_files(section, folder, sink).map(SourceConfig::Files),
        "generator" => read_generator(section).map(SourceConfig::Generator),
        other => {
            let hint = nearest(other, ["files", "generator"])
                .map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
            Err(ConfigError::at(
                origin,
                format!("`source.type` is `{other}`; known are files and generator{hint}"),
            ))
        }
    }
}

fn read_files(
    section: &Section<'_>,
    folder: &Path,
    sink: &SinkConfig,
) -> Result<FilesConfig, ConfigError> {
    let path = resolve(folder, section.required("path", "in/*.csv")?.0);
    let format = section.parsed("format", None, |t| match t {
        "csv" => Ok(FileFormat::Csv),
        "json" => Ok(FileFormat::Json),
        "parquet" => Ok(FileFormat::Parquet),
        other => Err(format!(
            "`{other}` is no format; known are csv, json and parquet"
        )),
    })?;
    let csv = section.section("csv")?;
    let one_byte = |t: &str| match t.as_bytes() {
        [b] if *b < 0x80 && !matches!(b, b'\n' | b'\r') => Ok(*b),
        _ if t == "\\t" => Ok(b'\t'),
        _ => Err(format!("`{t}` must be one ASCII character (or \\t)")),
    };
    let csv_config = CsvConfig {
        header: csv.with_default("header", "true", boolean)?,
        delimiter: csv.with_default("delimiter", ",", one_byte)?,
        quote: csv.with_default("quote", "\"", one_byte)?,
        null: csv.with_default("null", "", |t| Ok(t.to_owned()))?,
    };
    csv.finish()?;
    let watch = section.with_default("watch", "false", boolean)?;
    let poll = section.with_default("poll", "1 s", duration)?;
    let mut store = texts(section.open_map("store")?);
    if store.is_empty() {
        // A source on the same store as the table needs no second set of keys.
        store.clone_from(&sink.store);
    }
    section.finish()?;
    Ok(FilesConfig {
        path,
        format,
        csv: csv_config,
        watch,
        poll,
        store,
    })
}

fn read_generator(section: &Section<'_>) -> Result<GeneratorConfig, ConfigError> {
    let rows = section.parsed("rows", None, whole(0))?;
    let rate = section.parsed("rate", None, whole(1))?;
    let seed = section.with_default("seed", "0", whole(0))?;
    let mut columns = Vec::new();
    if let Some(node) = section.node("columns")? {
        let Content::Map(entries) = &node.content else {
            return Err(ConfigError::at(
                &node.origin,
                "`source.columns` must be a map of column to rule",
            ));
        };
        for entry in entries {
            columns.push((
                entry.key.clone(),
                read_rule(&entry.key, &entry.value)?,
                entry.key_origin.clone(),
            ));
        }
    }
    if columns.is_empty() {
        return Err(ConfigError::at(
            &section.origin(),
            "`source.columns` is missing; for instance `columns: { id: { sequence: { start: 1 } } }`",
        ));
    }
    section.finish()?;
    Ok(GeneratorConfig {
        rows,
        rate,
        seed,
        columns,
    })
}

fn read_rule(column: &str, node: &Node) -> Result<Rule, ConfigError> {
    const KNOWN: &str = "sequence, template, choice, random, constant";
    let wrong = |origin: &Origin, why: String| {
        ConfigError::at(origin, format!("`source.columns.{column}`: {why}"))
    };
    let Content::Map(entries) = &node.content else {
        return Err(wrong(
            &node.origin,
            format!("a rule is a map with one of {KNOWN}"),
        ));
    };
    let [rule] = entries.as_slice() else {
        return Err(wrong(
            &node.origin,
            format!("exactly one rule is wanted, one of {KNOWN}"),
        ));
    };
    let number =
        |key: &str, entries: &[document::Entry], default: i64| -> Result<i64, ConfigError> {
            match entries.iter().find(|e| e.key == key) {
                None => Ok(default),
                Some(e) => match &e.value.content {
                    Content::Scalar { text, .. } => text.parse().map_err(|_| {
                        wrong(&e.value.origin, format!("`{text}` is no whole number"))
                    }),
                    _ => Err(wrong(&e.value.origin, "must be a number".into())),
                },
            }
        };
    let only = |entries: &[document::Entry], known: &[&str]| match entries
        .iter()
        .find(|e| !known.contains(&e.key.as_str()))
    {
        Some(e) => Err(wrong(
            &e.key_origin,
            format!("unknown key `{}`; known here: {}", e.key, known.join(", ")),
        )),
        None => Ok(()),
    };
    match (rule.key.as_str(), &rule.value.content) {
        ("sequence", Content::Map(entries)) => {
            only(entries, &["start", "step"])?;
            Ok(Rule::Sequence {
                start: number("start", entries, 1)?,
                step: number("step", entries, 1)?,
            })
        }
        ("sequence", Content::Scalar { .. }) if rule.value.is_null() => {
            Ok(Rule::Sequence { start: 1, step: 1 })
        }
        ("template", Content::Scalar { text, .. }) => Ok(Rule::Template(text.clone())),
        ("constant", Content::Scalar { text, .. }) => Ok(Rule::Constant(text.clone())),
        ("choice", Content::List(items)) if !items.is_empty() => items
            .iter()
            .map(|i| match &i.content {
                Content::Scalar { text, .. } => Ok(text.clone()),
                _ => Err(wrong(&i.origin, "a choice must be a single value".into())),
            })
            .collect::<Result<_, _>>()
            .map(Rule::Choice),
        ("random", Content::Map(entries)) => {
            only(entries, &["min", "max"])?;
            let text = |key: &str| match entries
                .iter()
                .find(|e| e.key == key)
                .map(|e| &e.value.content)
            {
                Some(Content::Scalar { text, .. }) => Ok(text.clone()),
                _ => Err(wrong(&rule.value.origin, format!("`random` needs `{key}`"))),
            };
            Ok(Rule::Random {
                min: text("min")?,
                max: text("max")?,
            })
        }
        (key @ ("sequence" | "template" | "constant" | "choice" | "random"), _) => Err(wrong(
            &rule.value.origin,
            format!("`{key}` cannot be {}", rule.value.kind()),
        )),
        (other, _) => {
            let hint = nearest(
                other,
                ["sequence", "template", "choice", "random", "constant"],
            )
            .map_or_else(
                || format!("known are {KNOWN}"),
                |n| format!("did you mean `{n}`?"),
            );
            Err(wrong(
                &rule.key_origin,
                format!("`{other}` is no rule; {hint}"),
            ))
        }
    }
}

fn read_sink(section: &Section<'_>, folder: &Path) -> Result<SinkConfig, ConfigError> {
    let warehouse = resolve(folder, section.required("warehouse", "warehouse")?.0);
    let store = texts(section.open_map("store")?);
    let (table, origin) = section.required("table", "shop.orders")?;
    let (database, name) = split_table(table).map_err(|why| ConfigError::at(origin, why))?;
    let columns = section.open_map("columns")?;
    let partition_by = section.list("partition-by")?;
    let primary_key = section.list("primary-key")?;
    for (key, origin) in partition_by.iter().chain(&primary_key) {
        if !columns.is_empty() && !columns.iter().any(|(c, ..)| c == key) {
            let hint = nearest(key, columns.iter().map(|(c, ..)| c.as_str()))
                .map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
            return Err(ConfigError::at(
                origin,
                format!("`{key}` is a key but no column of `sink.columns`{hint}"),
            ));
        }
    }
    let unknown_allowed = section.with_default("allow-unknown-options", "false", boolean)?;
    let mut options = Vec::new();
    let mut warnings = Vec::new();
    for (key, value, origin) in section.open_map("options")? {
        let way_out = "set `sink.allow-unknown-options: true`";
        match check_option(&key, unknown_allowed, way_out) {
            Ok(None) => {}
            Ok(Some(odd)) => warnings.push(format!("{origin}: {odd}")),
            Err(wrong) => return Err(ConfigError::at(&origin, wrong)),
        }
        options.push((key, value));
    }
    section.finish()?;
    let keys = |keys: Vec<(String, Origin)>| keys.into_iter().map(|(key, _)| key).collect();
    Ok(SinkConfig {
        warehouse,
        store,
        database: database.to_owned(),
        table: name.to_owned(),
        columns,
        partition_by: keys(partition_by),
        primary_key: keys(primary_key),
        options,
        warnings,
    })
}

/// The type of a column. One that cannot be written is named as such, not as a slip of grammar.
pub(crate) fn column_type(column: &str, text: &str) -> Result<DataType, String> {
    text.parse().map_err(|e| match e {
        tidegate::model::Error::TypeNotWritable { word } => format!(
            "type {word} of column `{column}` cannot be written yet; leave the column out, or store \
             it as BYTES or STRING"
        ),
        other => format!("column `{column}`: {other}"),
    })
}

/// Looks at the key of a table option: `Err` is a refusal, `Ok(Some(_))` a warning. Unknown keys are
/// kept, since other engines and later releases have their own; one that is all but a known key would
/// silently do nothing.
pub(crate) fn check_option(
    key: &str,
    unknown_allowed: bool,
    way_out: &str,
) -> Result<Option<String>, String> {
    match key_kind(key) {
        _ if key == "path" => Err(TABLE_PATH.to_owned()),
        KeyKind::Misspelt(known) if !unknown_allowed => Err(format!(
            "table option `{key}` is not known; did you mean `{known}`? To keep it as it is, {way_out}"
        )),
        KeyKind::Unknown if !unknown_allowed => Ok(Some(format!(
            "table option `{key}` is not known to Paimon 1.4 or to this build; it is kept and has no \
             effect here (to keep it without this warning, {way_out})"
        ))),
        _ => Ok(None),
    }
}

fn read_checkpoint(section: &Section<'_>, folder: &Path) -> Result<CheckpointConfig, ConfigError> {
    let directory = section.with_default("directory", "checkpoints", |t| Ok(resolve(folder, t)))?;
    let positive = |t: &str| match duration(t)? {
        Duration::ZERO => Err("must be longer than nothing".to_owned()),
        d => Ok(d),
    };
    let config = CheckpointConfig {
        interval: section.parsed("interval", None, positive)?,
        directory,
        retain: section.with_default("retain", "3", whole(1))? as usize,
        timeout: section.with_default("timeout", "10 min", positive)?,
        min_pause: section.with_default("min-pause", "0 ms", duration)?,
        tolerable_failures: section
            .with_default("tolerable-failures", "0", whole(0))?
            .min(u64::from(u32::MAX)) as u32,
        pending_commits: section.with_default("max-pending-commits", "8", whole(1))? as usize,
    };
    section.finish()?;
    Ok(config)
}

fn read_restart(section: &Section<'_>) -> Result<RestartConfig, ConfigError> {
    let strategy = section.with_default("strategy", "exponential", |t| Ok(t.to_owned()))?;
    let config = match strategy.as_str() {
        "none" => RestartConfig::None,
        "fixed-delay" => RestartConfig::FixedDelay {
            attempts: section
                .with_default("attempts", "10", whole(1))?
                .min(u64::from(u32::MAX)) as u32,
            delay: section.with_default("delay", "1 s", duration)?,
        },
        "exponential" => RestartConfig::Exponential {
            initial: section.with_default("initial-delay", "200 ms", duration)?,
            max: section.with_default("max-delay", "1 min", duration)?,
        },
        other => {
            let known = ["none", "fixed-delay", "exponential"];
            let hint = nearest(other, known)
                .map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
            return Err(ConfigError::at(
                &section.origin(),
                format!(
                    "`restart.strategy` is `{other}`; known are {}{hint}",
                    known.join(", ")
                ),
            ));
        }
    };
    section.finish()?;
    Ok(config)
}

fn texts(map: Vec<(String, String, Origin)>) -> BTreeMap<String, String> {
    map.into_iter().map(|(k, v, _)| (k, v)).collect()
}

/// `db.table`; the last dot divides, so that databases may not hold one but tables neither.
pub(crate) fn split_table(name: &str) -> Result<(&str, &str), String> {
    match name.split_once('.') {
        Some((db, table)) if !db.is_empty() && !table.is_empty() && !table.contains('.') => {
            Ok((db, table))
        }
        _ => Err(format!(
            "`{name}` is no table name; write database.table, for instance shop.orders"
        )),
    }
}

/// Paths are relative to the job file's folder; URLs stay.
pub(crate) fn resolve(folder: &Path, text: &str) -> String {
    if text.contains("://") {
        return text.to_owned();
    }
    folder.join(text).to_string_lossy().into_owned()
}

/// `256 mb`, `1 GiB`: powers of 1024; a bare number is bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let wrong = || format!("`{text}` is no size; write for instance `256 mb`");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" | "bytes" => 0,
        "k" | "kb" | "kib" | "kibibytes" => 10,
        "m" | "mb" | "mib" | "mebibytes" => 20,
        "g" | "gb" | "gib" | "gibibytes" => 30,
        "t" | "tb" | "tib" | "tebibytes" => 40,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("`{text}` is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUE: &str = r#"
name: orders                  # unique per table, recorded in every snapshot; another name is another job
source:
  type: files                 # files | generator
  path: in/*.csv              # relative to this file's folder, or s3://…; taken in path order
  format: csv                 # csv | json | parquet; from the extension when absent
  csv: { header: true, delimiter: ",", null: "" }   # columns by name; an unknown header is an error
  watch: false                # true: unbounded, new files and appended records are picked up
sink:
  warehouse: warehouse        # or a URL
  store: { s3.endpoint: "${S3_ENDPOINT}" }           # ${ENV}
  table: shop.orders          # created when absent, else compared column by column
  columns:
    id: BIGINT NOT NULL
    name: STRING
    amount: DECIMAL(10,2)
    dt: STRING
  partition-by: [dt]
  options: { bucket: -1 }     # Paimon's keys, values taken as text
checkpoint:
  interval: 10 s              # required when unbounded; bounded without it: one commit at the end
  directory: checkpoints      # relative to this file's folder; printed absolute at start
  retain: 3
restart: { strategy: exponential }   # none | fixed-delay (attempts, delay) | exponential (default)
parallelism: 1
"#;

    fn env(name: &str) -> Option<String> {
        (name == "S3_ENDPOINT").then(|| "http://127.0.0.1:9000".to_owned())
    }

    fn load_text(text: &str, sets: &[&str]) -> Result<JobConfig, ConfigError> {
        let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
        from_text("orders.yaml", text, Path::new("/jobs"), &sets, &env)
    }

    #[test]
    fn the_documented_job_file_works_as_written() {
        let job = load_text(ISSUE, &[]).unwrap();
        assert_eq!(job.name, "orders");
        let SourceConfig::Files(files) = &job.source else {
            panic!()
        };
        assert_eq!(files.path, "/jobs/in/*.csv");
        assert_eq!(files.format, Some(FileFormat::Csv));
        assert_eq!(files.csv.null, "");
        assert_eq!(job.sink.store["s3.endpoint"], "http://127.0.0.1:9000");
        assert_eq!(
            (job.sink.database.as_str(), job.sink.table.as_str()),
            ("shop", "orders")
        );
        let columns: Vec<(&str, &str)> = job
            .sink
            .columns
            .iter()
            .map(|(n, t, _)| (n.as_str(), t.as_str()))
            .collect();
        assert_eq!(
            columns,
            [
                ("id", "BIGINT NOT NULL"),
                ("name", "STRING"),
                ("amount", "DECIMAL(10,2)"),
                ("dt", "STRING")
            ]
        );
        assert_eq!(job.sink.options, [("bucket".to_owned(), "-1".to_owned())]);
        assert_eq!(job.checkpoint.interval, Some(Duration::from_secs(10)));
        assert_eq!(job.checkpoint.directory, "/jobs/checkpoints");
        assert_eq!(
            job.restart,
            RestartConfig::Exponential {
                initial: Duration::from_millis(200),
                max: Duration::from_secs(60)
            }
        );
    }

    #[test]
    fn every_value_tells_where_it_comes_from() {
        let job = load_text(ISSUE, &["checkpoint.interval=2 s"]).unwrap();
        let of = |path: &str| job.effective.iter().find(|e| e.path == path).unwrap();
        // Without the value: it may be a secret.
        assert_eq!(
            of("checkpoint.interval").origin,
            "--set checkpoint.interval"
        );
        assert_eq!(of("checkpoint.timeout").origin, "default");
        assert_eq!(of("name").origin, "orders.yaml:2:7");
        assert!(
            of("sink.store.s3.endpoint")
                .origin
                .ends_with("(${S3_ENDPOINT})")
        );
    }

    #[test]
    fn the_documented_generator_works_as_written() {
        let text = r#"
name: g
source: { type: generator, rows: 200, rate: 20, columns: { id: { sequence: { start: 1 } }, name: { template: "name-{id}" }, dt: { choice: ["2024-01-01", "2024-01-02"] } } }
sink: { warehouse: w, table: d.t, columns: { id: BIGINT, name: STRING, dt: STRING } }
"#;
        let job = load_text(text, &["source.rows=7"]).unwrap();
        let SourceConfig::Generator(g) = &job.source else {
            panic!()
        };
        assert_eq!((g.rows, g.rate), (Some(7), Some(20)));
        assert_eq!(g.columns[1].1, Rule::Template("name-{id}".into()));
        assert_eq!(
            g.columns[2].1,
            Rule::Choice(vec!["2024-01-01".into(), "2024-01-02".into()])
        );
    }

    #[test]
    fn mistakes_are_named_with_their_place_and_the_way_out() {
        let cases: [(&str, &str); 9] = [
            ("checkpoint.intervall=1 s", "did you mean `interval`?"),
            ("source.type=filez", "did you mean `files`?"),
            ("sink.table=orders", "write database.table"),
            ("sink.partition-by=[day]", "no column of `sink.columns`"),
            ("sink.options.bukcet=4", "did you mean `bucket`?"),
            ("sink.options.path=/x", "sink.warehouse"),
            (
                "restart.strategy=fixed_delay",
                "did you mean `fixed-delay`?",
            ),
            ("parallelism=0", "at least 1"),
            ("source.csv.delimiter=ab", "one ASCII character"),
        ];
        for (set, expected) in cases {
            let error = load_text(ISSUE, &[set]).unwrap_err().to_string();
            assert!(error.contains(expected), "{set}: {error}");
        }
    }

    #[test]
    fn unknown_options_are_kept_and_told_unless_they_are_wanted() {
        let job = load_text(ISSUE, &["sink.options.my-company.owner=me"]).unwrap();
        assert!(
            job.sink
                .options
                .iter()
                .any(|(k, _)| k == "my-company.owner")
        );
        let [warning] = job.warnings.as_slice() else {
            panic!("{:?}", job.warnings)
        };
        assert!(warning.contains("`my-company.owner`"), "{warning}");
        let sets = [
            "sink.options.bukcet=4",
            "sink.options.x.y=1",
            "sink.allow-unknown-options=true",
        ];
        let job = load_text(ISSUE, &sets).unwrap();
        assert!(job.warnings.is_empty());
        assert!(job.sink.options.iter().any(|(k, _)| k == "bukcet"));
    }

    #[test]
    fn a_partition_column_that_is_none_is_named_where_it_stands() {
        let text = ISSUE.replace("[dt]", "[dtt]");
        let error = load_text(&text, &[]).unwrap_err().to_string();
        let line = text
            .lines()
            .position(|l| l.contains("partition-by"))
            .unwrap()
            + 1;
        assert!(
            error.starts_with(&format!("orders.yaml:{line}:18: `dtt`")),
            "{error}"
        );
    }
}
