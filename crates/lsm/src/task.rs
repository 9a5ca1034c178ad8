//! How a pick is carried out: which files are rewritten together, which are only lifted \[W-46].

use crate::compaction::Pick;
use crate::error::Result;
use crate::options::CompactionOptions;
use crate::run::SortedRun;
use crate::sections::{Section, sections};
use tidegate_model::{DataFileMeta, KeyOrder, Level};

/// One part of a compaction, to be done in the order given: their keys ascend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// These sections are merged, one after the other, into new files of the output level, cut by the
    /// target size.
    Rewrite(Vec<Section>),
    /// The file stays as it is and gets the output level in its entry; a changelog producer may have to
    /// read it all the same \[W-52], \[W-55].
    Lift(Box<DataFileMeta>),
}

/// Splits a pick into actions. Files that are where they belong and need no rewrite are in none.
///
/// `top` is the highest level of the bucket; `expired` tells of a file whether it holds rows that
/// record-level expiry takes \[W-47].
///
/// # Errors
/// Where a key does not decode.
pub fn plan(
    pick: &Pick,
    options: &CompactionOptions,
    order: &KeyOrder,
    top: Level,
    expired: impl Fn(&DataFileMeta) -> bool,
) -> Result<Vec<Action>> {
    let alone = |file: &DataFileMeta| Section {
        runs: vec![SortedRun {
            files: vec![file.clone()],
        }],
    };
    if pick.file_by_file {
        return Ok(pick
            .files
            .iter()
            .map(|f| Action::Rewrite(vec![alone(f)]))
            .collect());
    }
    // Where the file lies alone: rewritten only if something in it must go.
    let single = |file: &DataFileMeta| {
        let deletes = pick.output == top && file.delete_row_count != Some(0);
        if deletes || options.rewrite_all_files || expired(file) {
            Some(Action::Rewrite(vec![alone(file)]))
        } else {
            (file.level != pick.output).then(|| Action::Lift(Box::new(file.clone())))
        }
    };
    let mut actions = Vec::new();
    let mut together: Vec<Section> = Vec::new();
    let rewrite = |together: &mut Vec<Section>, actions: &mut Vec<Action>| {
        match together.as_slice() {
            [] => {}
            [section] if section.runs.len() == 1 => {
                actions.extend(section.files().filter_map(single))
            }
            _ => actions.push(Action::Rewrite(together.clone())),
        }
        together.clear();
    };
    for section in sections(pick.files.iter().cloned(), order)? {
        if section.runs.len() > 1 {
            together.push(section);
            continue;
        }
        for file in section.files() {
            if u64::try_from(file.file_size).unwrap_or(0) < options.small_file_size {
                together.push(alone(file));
            } else {
                rewrite(&mut together, &mut actions);
                actions.extend(single(file));
            }
        }
    }
    rewrite(&mut together, &mut actions);
    Ok(actions)
}

/// What lifting a file takes where compaction looks up old rows \[W-55].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupLift {
    /// Its entry changes and nothing else: it was above level 0, its changes are told.
    Entry,
    /// Its rows are read for the changelog, the file stays.
    Told,
    /// Its rows are read for the changelog and merged into a new file.
    Rewritten,
}

/// How a table's compaction looks up old rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupTable {
    /// The table keeps deletion vectors.
    pub deletion_vectors: bool,
    /// `deduplicate` without sequence field: old versions change nothing about the newest one.
    pub newest_wins: bool,
}

/// Decides how to carry out an [`Action::Lift`] of a table whose compaction looks up old rows.
/// `same_format`: files of both levels are of one format.
pub fn lookup_lift(
    file: &DataFileMeta,
    output: Level,
    top: Level,
    table: LookupTable,
    same_format: bool,
) -> LookupLift {
    let holds_deletes = file.delete_row_count != Some(0);
    if file.level > Level(0) {
        LookupLift::Entry
    } else if !same_format || (table.deletion_vectors && holds_deletes) {
        LookupLift::Rewritten
    } else if output == top || table.newest_wins {
        LookupLift::Told
    } else {
        LookupLift::Rewritten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, file, names, order};
    use tidegate_model::DataField;
    use tidegate_model::TableSchema;

    fn options() -> CompactionOptions {
        let columns = vec![DataField::new("id", "INT".parse().unwrap())];
        let options = [
            ("bucket", "1"),
            ("target-file-size", "1000 b"),
            ("compaction.small-file-ratio", "0.5"),
        ];
        let schema = TableSchema::create(
            columns,
            vec![],
            vec!["id".into()],
            options.into_iter().collect(),
            None,
            0,
        );
        CompactionOptions::of(&schema.unwrap()).unwrap()
    }

    fn large(file: DataFileMeta) -> DataFileMeta {
        DataFileMeta {
            file_size: 600,
            ..file
        }
    }

    fn planned(files: Vec<DataFileMeta>, output: i32, options: &CompactionOptions) -> Vec<Action> {
        let pick = Pick {
            files,
            output: Level(output),
            file_by_file: false,
            drop_deletes: true,
        };
        plan(&pick, options, &order(), Level(5), |f| {
            f.file_name.contains("expired")
        })
        .unwrap()
    }

    fn shown(actions: &[Action]) -> Vec<String> {
        actions
            .iter()
            .map(|action| match action {
                Action::Lift(file) => format!("lift {}", file.file_name),
                Action::Rewrite(sections) => {
                    let parts: Vec<_> = sections
                        .iter()
                        .map(|s| names(s.files()).join("+"))
                        .collect();
                    format!("rewrite {}", parts.join(" | "))
                }
            })
            .collect()
    }

    #[test]
    fn small_and_overlapping_files_are_rewritten_with_their_neighbours_and_large_ones_lifted() {
        let files = vec![
            file("a", 1, 2),
            large(file("b", 3, 9)),
            at(1, "c", 5, 6),
            large(file("d", 20, 29)),
            file("e", 30, 31),
            file("f", 32, 33),
        ];
        let actions = planned(files, 5, &options());
        assert_eq!(
            shown(&actions),
            ["rewrite a | c+b", "lift d", "rewrite e | f"]
        );
    }

    #[test]
    fn a_single_small_file_is_lifted_too_and_one_in_place_is_left() {
        assert_eq!(
            shown(&planned(vec![file("a", 1, 2)], 4, &options())),
            ["lift a"]
        );
        let files = vec![
            large(at(5, "there", 1, 2)),
            large(file("new", 3, 4)),
            at(5, "small", 5, 6),
        ];
        assert_eq!(shown(&planned(files, 5, &options())), ["lift new"]);
    }

    /// [F-6.8]: a file that may hold deletes must not reach the top as it is.
    #[test]
    fn files_with_deletes_are_rewritten_on_the_way_to_the_top_only() {
        let with = DataFileMeta {
            delete_row_count: Some(1),
            ..large(file("with", 1, 2))
        };
        let unknown = DataFileMeta {
            delete_row_count: None,
            ..large(file("unknown", 3, 4))
        };
        let files = vec![with, unknown];
        assert_eq!(
            shown(&planned(files.clone(), 5, &options())),
            ["rewrite with", "rewrite unknown"]
        );
        assert_eq!(
            shown(&planned(files, 4, &options())),
            ["lift with", "lift unknown"]
        );
    }

    #[test]
    fn expired_rows_and_the_option_force_a_rewrite() {
        let files = vec![large(at(5, "expired", 1, 2)), large(file("fresh", 3, 4))];
        assert_eq!(
            shown(&planned(files.clone(), 5, &options())),
            ["rewrite expired", "lift fresh"]
        );
        let forced = CompactionOptions {
            rewrite_all_files: true,
            ..options()
        };
        assert_eq!(
            shown(&planned(files, 5, &forced)),
            ["rewrite expired", "rewrite fresh"]
        );
    }

    #[test]
    fn file_by_file_rewrites_each_alone() {
        let files = vec![at(5, "a", 1, 2), at(5, "b", 3, 4)];
        let pick = Pick {
            files,
            output: Level(5),
            file_by_file: true,
            drop_deletes: true,
        };
        let actions = plan(&pick, &options(), &order(), Level(5), |_| false).unwrap();
        assert_eq!(shown(&actions), ["rewrite a", "rewrite b"]);
    }

    /// [W-55]
    #[test]
    fn a_look_up_lift_reads_or_rewrites_what_comes_from_level_0() {
        let plain = LookupTable {
            deletion_vectors: false,
            newest_wins: false,
        };
        let vectors = LookupTable {
            deletion_vectors: true,
            ..plain
        };
        let newest = LookupTable {
            newest_wins: true,
            ..plain
        };
        let with = DataFileMeta {
            delete_row_count: Some(1),
            ..file("d", 1, 2)
        };
        let lift = |f: &DataFileMeta, output, table, format| {
            lookup_lift(f, Level(output), Level(5), table, format)
        };
        let zero = file("a", 1, 2);
        assert_eq!(lift(&at(2, "b", 1, 2), 4, plain, true), LookupLift::Entry);
        assert_eq!(lift(&zero, 5, plain, true), LookupLift::Told);
        assert_eq!(lift(&zero, 4, plain, true), LookupLift::Rewritten);
        assert_eq!(lift(&zero, 4, newest, true), LookupLift::Told);
        assert_eq!(lift(&zero, 5, plain, false), LookupLift::Rewritten);
        assert_eq!(lift(&with, 5, vectors, true), LookupLift::Rewritten);
        assert_eq!(lift(&zero, 5, vectors, true), LookupLift::Told);
    }
}
