//! Files as a source: CSV, JSON lines and Parquet, one file, a pattern, or a folder that grows.
//!
//! A split is a file, named by its path below the source's root, so that a folder may move as a
//! whole. A position is a place *between records*, together with what is needed to notice that the
//! file behind it was replaced or truncated. Owns discovery and the order of files; how a file
//! becomes rows stands in the modules of its format.
//!
//! Rules a user can count on:
//!
//! * Files are taken in path order, byte by byte of the path. Names that begin with `.` or `_` are
//!   left out when a folder or pattern is looked through.
//! * `watch = false`: the files that are there now, each to its end; a last record without a line
//!   end counts. `watch = true`: new files and appended records are picked up; a record counts once
//!   its line end is there.
//! * A file that was read and is shorter now, or whose beginning or whose last bytes before the
//!   position differ, is an error: it was replaced. A file that is gone after it was read to its end
//!   is none.
//! * `.gz` and `.zst` files are decompressed; positions count decompressed bytes.

mod csv;
mod decoder;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod input;
mod json;
mod parquet_reader;
mod position;
mod record_reader;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use globset::{GlobBuilder, GlobMatcher};
use tidegate_sink::{BoxFuture, ErrorKind};
use tidegate_storage::{ObjectMeta, Store};

use super::{
    Boundedness, Discovery, Source, SourceError, SourceState, Split, SplitEnumerator, SplitId,
    SplitReader,
};
pub use csv::CsvFormat;
use input::Compression;
use position::FilePosition;

/// Offset and line of a saved position, where a file source wrote it.
pub(super) fn position_of(id: &SplitId, position: &super::Position) -> Option<(u64, u64)> {
    FilePosition::decode(id, position)
        .ok()
        .map(|p| (p.offset, p.line))
}

/// How bytes become records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// Delimited text.
    Csv(CsvFormat),
    /// One JSON object per line.
    Json,
    /// Parquet; columns by name.
    Parquet,
}

/// What a file source reads.
#[derive(Clone, Debug)]
pub struct FilesConfig {
    /// A file, a folder or a pattern (`*`, `?`, `[..]`, `{a,b}`, `**`), relative to the store.
    pub path: String,
    /// `None` = by the file's extension; CSV then has the settings of `csv`.
    pub format: Option<FileFormat>,
    /// Settings of CSV files found by their extension.
    pub csv: CsvFormat,
    /// Whether new files and records are waited for.
    pub watch: bool,
    /// How often they are looked for.
    pub poll: Duration,
}

/// A source of files.
#[derive(Debug)]
pub struct FileSource {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    store: Store,
    schema: SchemaRef,
    config: FilesConfig,
    /// Folder that all split names are relative to; "" = the store's root.
    root: String,
    matcher: Option<GlobMatcher>,
}

impl FileSource {
    /// A source over a store. Whether anything matches is seen when it is opened.
    ///
    /// # Errors
    /// A pattern that is none.
    pub fn new(store: Store, schema: SchemaRef, config: FilesConfig) -> Result<Self, SourceError> {
        let path = config.path.trim_matches('/');
        let special = |part: &str| part.contains(['*', '?', '[', '{']);
        let (root, matcher) = if special(path) {
            let fixed: Vec<&str> = path.split('/').take_while(|p| !special(p)).collect();
            let glob = GlobBuilder::new(path)
                .literal_separator(true)
                .build()
                .map_err(|e| SourceError::Config(format!("path `{}`: {e}", config.path)))?;
            (fixed.join("/"), Some(glob.compile_matcher()))
        } else {
            (path.to_owned(), None)
        };
        Ok(Self {
            shared: Arc::new(Shared {
                store,
                schema,
                config,
                root,
                matcher,
            }),
        })
    }
}

impl Shared {
    fn io(&self, what: &str, error: tidegate_storage::StoreError) -> SourceError {
        let what = self.store.url_of(what);
        if error.is_not_found() {
            return SourceError::NotFound {
                what,
                why: "it was there before; put it back, or start over with another job name".into(),
            };
        }
        let kind = if error.is_transient() {
            ErrorKind::Transient
        } else {
            ErrorKind::Config
        };
        SourceError::Io {
            what,
            kind,
            source: Box::new(error),
        }
    }

    /// The full path of a split.
    fn path_of(&self, id: &SplitId) -> String {
        if self.root.is_empty() {
            id.0.clone()
        } else if id.0.is_empty() {
            self.root.clone()
        } else {
            format!("{}/{}", self.root, id.0)
        }
    }

    /// Files that are there now, by split name, in path order.
    async fn files(&self) -> Result<BTreeMap<SplitId, ObjectMeta>, SourceError> {
        let mut found = BTreeMap::new();
        if self.matcher.is_none()
            && !self.root.is_empty()
            && let Some(meta) = self
                .store
                .head(&self.root)
                .await
                .map_err(|e| self.io(&self.root, e))?
        {
            // One file: its name is the split, so that its folder may move.
            found.insert(SplitId(String::new()), meta);
            return Ok(found);
        }
        let prefix = if self.root.is_empty() {
            String::new()
        } else {
            format!("{}/", self.root)
        };
        for meta in self
            .store
            .list(&self.root)
            .await
            .map_err(|e| self.io(&self.root, e))?
        {
            let Some(name) = meta.path.strip_prefix(&prefix) else {
                continue;
            };
            let wanted = self.matcher.as_ref().is_none_or(|m| m.is_match(&meta.path));
            let hidden = name.split('/').any(|part| part.starts_with(['.', '_']));
            if wanted && !hidden {
                found.insert(SplitId(name.to_owned()), meta);
            }
        }
        Ok(found)
    }

    fn format_of(&self, path: &str) -> Result<(FileFormat, Compression), SourceError> {
        let lower = path.to_ascii_lowercase();
        let (stem, compression) = Compression::of(&lower);
        if let Some(format) = &self.config.format {
            return Ok((format.clone(), compression));
        }
        let format = match stem.rsplit_once('.').map(|(_, extension)| extension) {
            Some("csv" | "tsv" | "txt") => FileFormat::Csv(self.config.csv.clone()),
            Some("json" | "jsonl" | "ndjson") => FileFormat::Json,
            Some("parquet") => FileFormat::Parquet,
            _ => {
                return Err(SourceError::Config(format!(
                    "`{path}`: the format cannot be told from the name; set source.format to csv, json or parquet"
                )));
            }
        };
        Ok((format, compression))
    }
}

impl Source for FileSource {
    fn name(&self) -> String {
        format!(
            "files {}",
            self.shared.store.url_of(&self.shared.config.path)
        )
    }

    fn identity(&self) -> String {
        // The pattern below the root, not the root: a folder may move as a whole.
        let below = self
            .shared
            .config
            .path
            .trim_matches('/')
            .strip_prefix(self.shared.root.as_str());
        format!(
            "files:{}",
            below.unwrap_or_default().trim_start_matches('/')
        )
    }

    fn schema(&self) -> SchemaRef {
        self.shared.schema.clone()
    }

    fn boundedness(&self) -> Boundedness {
        if self.shared.config.watch {
            Boundedness::Unbounded
        } else {
            Boundedness::Bounded
        }
    }

    fn discovery_interval(&self) -> Duration {
        self.shared.config.poll
    }

    fn poll_interval(&self) -> Duration {
        self.shared.config.poll
    }

    fn enumerator<'a>(
        &'a self,
        state: &'a SourceState,
    ) -> BoxFuture<'a, Result<Box<dyn SplitEnumerator>, SourceError>> {
        Box::pin(async move {
            let mut known = BTreeMap::new();
            for (id, position) in &state.finished {
                known.insert(
                    id.clone(),
                    Known::Finished(FilePosition::decode(id, position)?),
                );
            }
            for id in state.active.keys() {
                known.insert(id.clone(), Known::Begun);
            }
            let enumerator = Enumerator {
                shared: self.shared.clone(),
                known,
                looked: false,
            };
            enumerator.require_something().await?;
            Ok(Box::new(enumerator) as Box<dyn SplitEnumerator>)
        })
    }

    fn reader<'a>(
        &'a self,
        split: &'a Split,
    ) -> BoxFuture<'a, Result<Box<dyn SplitReader>, SourceError>> {
        Box::pin(async move {
            let shared = &self.shared;
            let path = shared.path_of(&split.id);
            let position = FilePosition::decode(&split.id, &split.position)?;
            let (format, compression) = shared.format_of(&path)?;
            let meta = shared
                .store
                .head(&path)
                .await
                .map_err(|e| shared.io(&path, e))?;
            let meta = meta.ok_or_else(|| SourceError::NotFound {
                what: shared.store.url_of(&path),
                why: "it was being read; put it back to go on".into(),
            })?;
            let file = record_reader::File {
                store: shared.store.clone(),
                shown: shared.store.url_of(&path),
                path,
                size: meta.size,
                modified: position::millis(meta.modified),
                compression,
            };
            let schema = shared.schema.clone();
            let to_the_end = !shared.config.watch;
            Ok(match format {
                FileFormat::Csv(csv) => {
                    let decoder = csv::CsvDecoder::new(schema, csv)?;
                    Box::new(
                        record_reader::RecordReader::open(file, position, decoder, to_the_end)
                            .await?,
                    ) as Box<dyn SplitReader>
                }
                FileFormat::Json => {
                    let decoder = json::JsonDecoder::new(schema)?;
                    Box::new(
                        record_reader::RecordReader::open(file, position, decoder, to_the_end)
                            .await?,
                    )
                }
                FileFormat::Parquet => {
                    Box::new(parquet_reader::ParquetReader::open(file, position, schema).await?)
                }
            })
        })
    }
}

#[derive(Debug)]
enum Known {
    Begun,
    Finished(FilePosition),
}

struct Enumerator {
    shared: Arc<Shared>,
    known: BTreeMap<SplitId, Known>,
    looked: bool,
}

impl Enumerator {
    /// A path that matches nothing and never has is most likely mistyped; only a watched one may
    /// wait for its first file.
    async fn require_something(&self) -> Result<(), SourceError> {
        if self.shared.config.watch
            || !self.known.is_empty()
            || !self.shared.files().await?.is_empty()
        {
            return Ok(());
        }
        Err(SourceError::NotFound {
            what: self.shared.store.url_of(&self.shared.config.path),
            why: "no file matches; check source.path (relative to the job file), or set source.watch to wait for files".into(),
        })
    }
}

impl SplitEnumerator for Enumerator {
    fn discover<'a>(&'a mut self) -> BoxFuture<'a, Result<Discovery, SourceError>> {
        Box::pin(async move {
            let complete = !self.shared.config.watch;
            if complete && self.looked {
                return Ok(Discovery {
                    splits: Vec::new(),
                    complete,
                });
            }
            let mut splits = Vec::new();
            for (id, meta) in self.shared.files().await? {
                match self.known.get(&id) {
                    None => {
                        splits.push(Split {
                            id,
                            position: FilePosition::start().encode(),
                        });
                    }
                    Some(Known::Begun) => {}
                    Some(Known::Finished(position)) => {
                        // The reader checks what was read before it goes on.
                        if position.is_worth_a_look(meta.size, position::millis(meta.modified)) {
                            splits.push(Split {
                                position: position.encode(),
                                id,
                            });
                        }
                    }
                }
            }
            // Only now, with nothing left to await, is it remembered what was handed out.
            for split in &splits {
                self.known.insert(split.id.clone(), Known::Begun);
            }
            self.looked = true;
            Ok(Discovery { splits, complete })
        })
    }

    fn finished(&mut self, split: &Split) {
        if let Ok(position) = FilePosition::decode(&split.id, &split.position) {
            self.known
                .insert(split.id.clone(), Known::Finished(position));
        }
    }
}
