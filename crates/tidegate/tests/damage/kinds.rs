//! Every kind of damage, as a hand that does it.

use std::fs;
use std::path::PathBuf;

use tidegate::model::{
    BinaryRow, BucketId, Datum, EntryKind, Level, LogicalType, ManifestEntry, Snapshot,
};
use tidegate::sink::CommitIdentifier;
use tidegate::verify::Kind;

use crate::{Hand, cut, flip};

/// What a hand does to a table, and what is found then: the kinds, and the place that is named.
pub(crate) struct Damage {
    pub(crate) what: &'static str,
    pub(crate) hand: fn(&Hand) -> PathBuf,
    pub(crate) kinds: &'static [Kind],
}

use Kind::{
    Bucket, Count, Doubled, Hint, Hole, Lost, Missing, Order, Partition, Replaced, Size,
    Statistics, Stray, Unreadable,
};

fn row(value: i64) -> BinaryRow {
    let values = [Some(Datum::String("zz".into())), Some(Datum::BigInt(value))];
    BinaryRow::from_datums(
        &values,
        &[LogicalType::VarChar(i32::MAX as u32), LogicalType::BigInt],
    )
    .unwrap()
}

pub(crate) const DAMAGES: &[Damage] = &[
    Damage {
        what: "a snapshot torn",
        hand: |h| {
            let path = h.at("snapshot/snapshot-2");
            cut(&path);
            path
        },
        kinds: &[Unreadable],
    },
    Damage {
        what: "a snapshot that is another one's copy",
        hand: |h| {
            fs::copy(h.at("snapshot/snapshot-1"), h.at("snapshot/snapshot-2")).unwrap();
            h.at("snapshot/snapshot-2")
        },
        kinds: &[Unreadable],
    },
    Damage {
        what: "a snapshot gone from the middle",
        hand: |h| {
            fs::remove_file(h.at("snapshot/snapshot-2")).unwrap();
            h.at("snapshot/snapshot-3")
        },
        kinds: &[Hole],
    },
    Damage {
        what: "a snapshot replaced by another committer's",
        hand: |h| {
            h.edit(2, |s| {
                s.uuid = Some("00000000-0000-0000-0000-000000000000".into())
            });
            h.at("snapshot/snapshot-3")
        },
        kinds: &[Replaced],
    },
    Damage {
        what: "an identifier that goes back",
        hand: |h| {
            h.edit(3, |s| s.commit_identifier = CommitIdentifier(1));
            h.edit(2, |s| s.commit_identifier = CommitIdentifier(2));
            h.edit(1, |s| s.commit_identifier = CommitIdentifier(9));
            h.at("snapshot/snapshot-2")
        },
        kinds: &[Order],
    },
    Damage {
        what: "an epoch that goes back",
        hand: |h| {
            h.edit(1, |s| property(s, "tidegate.epoch", "5"));
            h.at("snapshot/snapshot-2")
        },
        kinds: &[Order],
    },
    Damage {
        what: "a commit published twice",
        hand: |h| {
            let first = h.snapshot(2).commit_identifier;
            h.edit(3, |s| s.commit_identifier = first);
            h.at("snapshot/snapshot-3")
        },
        kinds: &[Doubled],
    },
    Damage {
        what: "marks of a job that make no sense",
        hand: |h| {
            h.edit(3, |s| property(s, "tidegate.epoch", "many"));
            h.at("snapshot/snapshot-3")
        },
        kinds: &[Unreadable],
    },
    Damage {
        what: "source positions other than their hash",
        hand: |h| {
            h.edit(1, |s| property(s, "tidegate.positions", "AAAAAAAAAAk="));
            h.at("snapshot/snapshot-1")
        },
        kinds: &[Kind::Positions],
    },
    Damage {
        what: "source positions in an object that is gone",
        hand: |h| {
            let at = "tidegate/jobs/orders/positions-e1-00";
            h.edit(1, |s| {
                s.properties.retain(|(key, _)| key != "tidegate.positions");
                s.properties
                    .push(("tidegate.positions-at".into(), at.into()));
            });
            h.at(at)
        },
        kinds: &[Missing],
    },
    Damage {
        what: "a list gone",
        hand: |h| {
            let path = h.at(&format!(
                "manifest/{}",
                h.snapshot(3).base_manifest_list.name
            ));
            fs::remove_file(&path).unwrap();
            path
        },
        kinds: &[Missing],
    },
    Damage {
        what: "a list of another size",
        hand: |h| {
            let path = h.at(&format!(
                "manifest/{}",
                h.snapshot(3).base_manifest_list.name
            ));
            cut(&path);
            path
        },
        kinds: &[Size],
    },
    Damage {
        what: "a list that is none",
        hand: |h| {
            let path = h.at(&format!(
                "manifest/{}",
                h.snapshot(3).base_manifest_list.name
            ));
            flip(&path, 0);
            path
        },
        kinds: &[Unreadable],
    },
    Damage {
        what: "a manifest gone",
        hand: |h| {
            let path = h.at(&format!("manifest/{}", h.delta(2).file_name));
            fs::remove_file(&path).unwrap();
            path
        },
        kinds: &[Missing],
    },
    Damage {
        what: "a manifest of another size",
        hand: |h| {
            let path = h.at(&format!("manifest/{}", h.delta(2).file_name));
            cut(&path);
            path
        },
        kinds: &[Size],
    },
    Damage {
        what: "a manifest that is none",
        hand: |h| {
            let path = h.at(&format!("manifest/{}", h.delta(2).file_name));
            flip(&path, 0);
            path
        },
        kinds: &[Unreadable],
    },
    Damage {
        what: "a manifest with other numbers than its list has",
        hand: |h| {
            h.edit_list(3, false, |files| files[0].num_added_files += 1);
            h.at(&format!("manifest/{}", h.delta(3).file_name))
        },
        kinds: &[Count],
    },
    Damage {
        what: "a list that leaves out a bucket",
        hand: |h| {
            h.edit_list(3, false, |files| {
                files[0].min_bucket = Some(BucketId(7));
                files[0].max_bucket = Some(BucketId(7));
            });
            h.at(&format!("manifest/{}", h.delta(3).file_name))
        },
        kinds: &[Statistics],
    },
    Damage {
        what: "a list that leaves out a partition",
        hand: |h| {
            h.edit_list(3, false, |files| {
                let stats = &mut files[0].partition_stats;
                stats.min_values = stats.max_values.clone();
            });
            h.at(&format!("manifest/{}", h.delta(3).file_name))
        },
        kinds: &[Statistics],
    },
    Damage {
        what: "changed rows that do not add up",
        hand: |h| {
            h.edit(2, |s| s.delta_record_count = Some(5));
            h.at("snapshot/snapshot-2")
        },
        kinds: &[Count],
    },
    Damage {
        what: "rows in all that do not add up",
        hand: |h| {
            h.edit(3, |s| s.total_record_count = Some(13));
            h.at("snapshot/snapshot-3")
        },
        kinds: &[Count],
    },
    Damage {
        what: "a base list that lost a manifest",
        hand: |h| {
            h.edit_list(3, true, |files| drop(files.remove(0)));
            h.at("snapshot/snapshot-3")
        },
        kinds: &[Count, Lost],
    },
    Damage {
        what: "a base list with a manifest too many",
        hand: |h| {
            let later = h.delta(3);
            h.edit_list(2, true, |files| files.push(later));
            h.at("snapshot/snapshot-2")
        },
        // The next one lost it again.
        kinds: &[Count, Lost, Stray],
    },
    Damage {
        what: "a base list that names a manifest twice",
        hand: |h| {
            h.edit_list(3, true, |files| files.push(files[0].clone()));
            h.at("snapshot/snapshot-3")
        },
        kinds: &[Count, Doubled],
    },
    Damage {
        what: "a file added twice",
        hand: |h| {
            let first = h.entries(&h.delta(1).file_name);
            h.edit_delta(3, |entries| {
                let rows: i64 = first[0].file.row_count;
                entries[0] = first[0].clone();
                entries[0].file.row_count = rows;
            });
            recount(h);
            h.at("snapshot/snapshot-3")
        },
        kinds: &[Doubled],
    },
    Damage {
        what: "a file added at another level too",
        hand: |h| {
            let first = h.entries(&h.delta(1).file_name);
            h.edit_delta(3, |entries| {
                entries.push(first[0].clone());
                entries.last_mut().unwrap().file.level = Level(1);
            });
            recount(h);
            h.at("snapshot/snapshot-3")
        },
        kinds: &[Doubled],
    },
    Damage {
        what: "a file deleted and added again",
        hand: |h| {
            let mut first = h.entries(&h.delta(1).file_name);
            let again = first[0].clone();
            first[0].kind = EntryKind::Delete;
            h.edit_delta(2, |entries| entries.push(first.remove(0)));
            h.edit_delta(3, |entries| entries.push(again));
            recount(h);
            h.at("snapshot/snapshot-3")
        },
        kinds: &[Doubled],
    },
    Damage {
        what: "a file deleted that is not live",
        hand: |h| {
            h.edit_delta(2, |entries| {
                let mut ghost = entries[0].clone();
                ghost.kind = EntryKind::Delete;
                ghost.file.file_name = "data-ghost.parquet".into();
                entries.push(ghost);
            });
            recount(h);
            h.at("snapshot/snapshot-2")
        },
        kinds: &[Stray],
    },
    Damage {
        what: "a data file gone",
        hand: |h| {
            let path = h.one(&["dt=a", ".parquet"]);
            fs::remove_file(&path).unwrap();
            path
        },
        kinds: &[Missing],
    },
    Damage {
        what: "a data file of another size",
        hand: |h| {
            let path = h.one(&["dt=a", ".parquet"]);
            cut(&path);
            path
        },
        kinds: &[Size],
    },
    Damage {
        what: "a data file that is none",
        hand: |h| {
            let path = h.one(&["dt=a", ".parquet"]);
            let size = fs::metadata(&path).unwrap().len() as usize;
            flip(&path, size - 1);
            path
        },
        kinds: &[Unreadable],
    },
    Damage {
        what: "a data file of the same size with other rows",
        hand: |h| {
            h.edit_delta(3, |entries| entries[0].file.row_count += 1);
            recount(h);
            let entry = &h.entries(&h.delta(3).file_name)[0];
            h.one(&[&entry.file.file_name])
        },
        kinds: &[Count],
    },
    Damage {
        what: "bounds that leave out a value",
        hand: |h| {
            h.edit_delta(3, |entries| {
                entries[0].file.value_stats.min_values = row(100)
            });
            let entry = &h.entries(&h.delta(3).file_name)[0];
            h.one(&[&entry.file.file_name])
        },
        kinds: &[Statistics],
    },
    Damage {
        what: "nulls that were not counted",
        hand: |h| {
            h.edit_delta(3, |entries| {
                entries[0].file.value_stats.null_counts = Some(vec![Some(9), Some(0)]);
            });
            let entry = &h.entries(&h.delta(3).file_name)[0];
            h.one(&[&entry.file.file_name])
        },
        kinds: &[Statistics],
    },
    Damage {
        what: "a file in another bucket",
        hand: |h| {
            let mut moved = None;
            h.edit_delta(3, |entries| {
                let entry = &mut entries[0];
                let from = h.one(&[&entry.file.file_name]);
                entry.bucket = BucketId(1 - entry.bucket.0);
                let to = from
                    .parent()
                    .unwrap()
                    .with_file_name(format!("bucket-{}", entry.bucket));
                fs::create_dir_all(&to).unwrap();
                let to = to.join(&entry.file.file_name);
                fs::rename(from, &to).unwrap();
                moved = Some(to);
            });
            moved.unwrap()
        },
        kinds: &[Bucket],
    },
    Damage {
        what: "a file in another partition",
        hand: |h| {
            let entries = h.entries(&h.delta(3).file_name);
            let name = |e: &ManifestEntry| h.one(&[&e.file.file_name]);
            let day = |e: &ManifestEntry| name(e).to_string_lossy().contains("dt=a");
            let from = entries.iter().position(day).unwrap();
            let to = entries
                .iter()
                .position(|e| name(e).to_string_lossy().contains("dt=b"))
                .unwrap();
            let (file, place) = (name(&entries[from]), name(&entries[to]));
            let bucket = format!("bucket-{}", entries[from].bucket);
            let moved = place.parent().unwrap().with_file_name(bucket);
            fs::create_dir_all(&moved).unwrap();
            let moved = moved.join(file.file_name().unwrap());
            fs::rename(file, &moved).unwrap();
            h.edit_delta(3, |all| all[from].partition = entries[to].partition.clone());
            moved
        },
        kinds: &[Partition],
    },
    Damage {
        what: "a schema gone",
        hand: |h| {
            fs::copy(h.at("schema/schema-0"), h.at("schema/schema-1")).unwrap();
            let text = fs::read_to_string(h.at("schema/schema-1")).unwrap();
            let text = text.replacen("\"id\" : 0", "\"id\" : 1", 1);
            let text = text.replacen("\"id\":0", "\"id\":1", 1);
            fs::write(h.at("schema/schema-1"), text).unwrap();
            fs::remove_file(h.at("schema/schema-0")).unwrap();
            h.at("schema/schema-0")
        },
        kinds: &[Missing],
    },
    Damage {
        what: "a hint beyond the end",
        hand: |h| {
            fs::write(h.at("snapshot/LATEST"), "9").unwrap();
            h.at("snapshot/LATEST")
        },
        kinds: &[Hint],
    },
    Damage {
        what: "a note that is none",
        hand: |h| {
            fs::write(h.at("tidegate/jobs/orders/published"), "{").unwrap();
            h.at("tidegate/jobs/orders/published")
        },
        kinds: &[Unreadable],
    },
    Damage {
        what: "a registration that is none",
        hand: |h| {
            fs::write(h.at("tidegate/jobs/orders/epoch-1"), "{").unwrap();
            h.at("tidegate/jobs/orders")
        },
        kinds: &[Unreadable],
    },
];

fn property(snapshot: &mut Snapshot, key: &str, value: &str) {
    for (_, old) in snapshot.properties.iter_mut().filter(|(k, _)| k == key) {
        *old = value.to_owned();
    }
}

/// Makes the record counts of all snapshots right.
fn recount(hand: &Hand) {
    let mut total = 0;
    for id in hand.ids() {
        let rows: i64 = hand
            .entries(&hand.delta(id).file_name)
            .iter()
            .map(|e| match e.kind {
                EntryKind::Add => e.file.row_count,
                EntryKind::Delete => -e.file.row_count,
            })
            .sum();
        total += rows;
        hand.edit(id, |s| {
            s.delta_record_count = Some(rows);
            s.total_record_count = Some(total);
        });
    }
}
