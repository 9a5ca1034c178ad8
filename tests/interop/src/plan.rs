//! Which tables stand in which part: all of them, or the few of `--quick`.

use crate::cases::{self, Case};

/// The parts of a run.
pub(crate) struct Plan {
    /// Types × bucket modes × partitions: we write, they write.
    pub(crate) crossed: Vec<Case>,
    /// Types in places: we write, they write.
    pub(crate) places: Vec<Case>,
    /// Bucket keys: we write, they write.
    pub(crate) keys: Vec<Case>,
    /// In turn.
    pub(crate) turned: Vec<Case>,
    /// The only peer that takes turns, if not all.
    pub(crate) turns_with: Option<&'static str>,
    /// Keyed tables: twins, changes, turns.
    pub(crate) keyed: Vec<Case>,
    /// Option variants.
    pub(crate) options: Vec<Case>,
    /// Tables that we refuse.
    pub(crate) refused: Vec<(Case, &'static str)>,
    /// Commit messages.
    pub(crate) prepared: Vec<Case>,
}

/// These tables of a list, by name.
fn few(list: &[Case], names: &[&str]) -> Vec<Case> {
    let wanted = |c: &&Case| names.contains(&c.name.as_str());
    list.iter().filter(wanted).cloned().collect()
}

impl Plan {
    /// Everything.
    pub(crate) fn whole() -> Self {
        let (crossed, places) = (cases::crossed(), cases::places());
        let mut turned = few(
            &crossed,
            &[
                "unaware/none",
                "unaware/string",
                "unaware/date",
                "fixed/none",
                "fixed/string,int",
                "fixed/timestamp_6",
                "mod/none",
                "hive/none",
            ],
        );
        turned.extend(few(
            &places,
            &[
                "unaware/none nested",
                "fixed/none nested",
                "fixed/string,int nested",
            ],
        ));
        turned.extend(cases::narrow());
        Self {
            turned,
            turns_with: None,
            keys: cases::bucket_keys(),
            keyed: cases::keyed(),
            options: cases::options(),
            refused: cases::refused(),
            prepared: few(&crossed, &["unaware/none", "fixed/string,int"]),
            crossed,
            places,
        }
    }

    /// Every type in both bucket modes, both ways, and in turn with one peer.
    pub(crate) fn quick() -> Self {
        let all = Self::whole();
        Self {
            crossed: few(&all.crossed, &["unaware/none", "fixed/date"]),
            places: few(
                &all.places,
                &[
                    "unaware/none nested",
                    "fixed/none nested",
                    "unaware/none multiset",
                    "fixed/none multiset",
                ],
            ),
            keys: few(&all.keys, &["hive(string)", "mod(bigint)"]),
            turned: few(
                &all.turned,
                &["unaware/none", "fixed/none", "fixed/date narrow"],
            ),
            turns_with: Some("1.4.2"),
            keyed: few(
                &all.keyed,
                &[
                    "deduplicate/input/fixed",
                    "ordered/full-compaction/dynamic",
                    "aggregation/none/fixed",
                ],
            ),
            options: few(&all.options, &["unaware snappy", "fixed rolling by rows"]),
            prepared: few(&all.prepared, &["unaware/none"]),
            refused: all.refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Plan;
    use crate::cases::Case;

    /// What the quick run promises: no type is left out of it.
    #[test]
    fn the_quick_run_has_every_type_at_every_place_in_both_bucket_modes() {
        let (whole, quick) = (Plan::whole(), Plan::quick());
        for bucket in ["unaware/", "fixed/"] {
            let columns = |cases: [&[Case]; 2]| {
                let mut names: Vec<String> = cases
                    .concat()
                    .iter()
                    .filter(|c| c.name.starts_with(bucket))
                    .flat_map(|c| c.columns.iter())
                    .filter(|c| !["p", "dt", "hr"].contains(&c.name.as_str()))
                    .map(|c| format!("{} {}", c.name, c.sql))
                    .collect();
                names.sort();
                names.dedup();
                names
            };
            let all = columns([&whole.crossed, &whole.places]);
            assert!(all.len() > 200, "{}", all.len());
            assert_eq!(columns([&quick.crossed, &quick.places]), all);
            let turned = quick.turned.iter().map(|c| c.name.as_str());
            assert!(turned.clone().any(|name| name.starts_with(bucket)));
        }
    }
}
