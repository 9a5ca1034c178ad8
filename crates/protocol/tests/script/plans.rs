//! Lines about manifest merging, cleaning and retention.

use super::text::{self, Res, Words};
use std::collections::BTreeSet;
use tidegate_model::ids::{CheckpointId, Epoch};
use tidegate_protocol::cleanup::{self, CleanPlan, Found, OwnRun};
use tidegate_protocol::merge::{self, ManifestSummary};
use tidegate_protocol::retain::{self, Record};
use tidegate_protocol::{Garbage, Settings};

/// What the lines before have said.
#[derive(Default)]
pub(crate) struct Scene {
    manifests: Vec<ManifestSummary>,
    found: Vec<Found>,
    referenced: BTreeSet<Garbage>,
    records: Vec<Record>,
}

impl Scene {
    /// `Ok(None)` where the command is none of its own.
    pub(crate) fn line(
        &mut self,
        command: &str,
        w: &mut Words<'_>,
        s: &Settings,
    ) -> Res<Option<String>> {
        match command {
            "manifests" => {
                for word in w.rest() {
                    self.manifests.push(text::manifest(word)?);
                }
            }
            "merge" => {
                let plan = merge::plan(&self.manifests, &s.merge, &[], s.rules);
                return Ok(Some(text::plan(&plan)));
            }
            "merge-full" => {
                let touched: BTreeSet<_> = text::list(w.key("touched"), text::object)?
                    .into_iter()
                    .collect();
                let touched: Vec<bool> = self
                    .manifests
                    .iter()
                    .map(|m| touched.contains(&m.id))
                    .collect();
                let plan = merge::plan_full(&self.manifests, &touched, &s.merge, s.rules);
                return Ok(Some(
                    plan.map_or_else(|| "not-worth-it".to_owned(), |p| text::plan(&p)),
                ));
            }
            // found f1/2 o3/2: file and epoch of its prefix
            "found" => {
                for word in w.rest() {
                    let (file, epoch) = word.split_once('/').ok_or("f1/2 wanted")?;
                    let epoch = Epoch(text::number(epoch)?);
                    self.found.push(Found {
                        file: text::garbage(file)?,
                        epoch,
                    });
                }
            }
            "referenced" => {
                for word in w.rest() {
                    self.referenced.insert(text::garbage(word)?);
                }
            }
            // clean 3 record snapshot
            "clean" => {
                let own = OwnRun {
                    has_record: w.flag("record"),
                    has_snapshot: w.flag("snapshot"),
                    epoch: Epoch(text::number(w.take()?)?),
                };
                let plan = cleanup::plan(&own, &self.found, &self.referenced, s.rules);
                return Ok(Some(match plan {
                    CleanPlan::NotYet => "not-yet".to_owned(),
                    CleanPlan::Delete { files, clean_runs } => format!(
                        "clean {} runs={}",
                        text::join(files.iter().map(text::of_garbage)),
                        text::join(&clean_runs)
                    ),
                }));
            }
            // record 4 incomplete unpublished savepoint
            "record" => {
                let complete = !w.flag("incomplete");
                let published = !w.flag("unpublished");
                let savepoint = w.flag("savepoint");
                let id = CheckpointId(text::number(w.take()?)?);
                self.records.push(Record {
                    id,
                    complete,
                    published,
                    savepoint,
                });
            }
            "retain" => {
                let n = text::number(w.take()?)?;
                let gone = retain::removable(&self.records, n, s.rules);
                return Ok(Some(format!("gone {}", text::join(&gone))));
            }
            _ => return Ok(None),
        }
        Ok(Some(String::new()))
    }
}
