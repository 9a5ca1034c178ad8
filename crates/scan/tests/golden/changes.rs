//! Changelogs and deltas of tables, snapshot by snapshot.

use super::keyed::refused;
use super::{differ, expected, kinded, names, parsed, reader, sorted};
use futures::TryStreamExt;
use serde_json::Value;
use tidegate_scan::{Changes, Error, From};

/// Rows with kinds of each snapshot that has any.
async fn all(changes: &mut Changes) -> Result<Vec<(i64, Vec<String>)>, Error> {
    let mut all = Vec::new();
    while let Some(step) = changes.next().await? {
        let batches: Vec<_> = step.read()?.try_collect().await?;
        let mut lines = Vec::new();
        for batch in &batches {
            lines.extend(kinded(step.columns(), batch, "_kind")?);
        }
        if !lines.is_empty() {
            all.push((step.snapshot.id.0, lines));
        }
    }
    Ok(all)
}

#[tokio::test]
async fn the_changes_of_every_keyed_table_are_those_that_java_streams() {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for name in names(true).iter().filter(|n| refused(n).is_none()) {
        let expected = expected(name);
        let theirs = expected["changelog"].as_array().unwrap().iter();
        let theirs: Vec<(i64, &Vec<Value>)> = theirs
            .map(|s| {
                let id = s["snapshot"].to_string().parse().unwrap();
                (id, s["rows"].as_array().unwrap())
            })
            .filter(|(_, rows)| !rows.is_empty())
            .collect();
        let read = async {
            let mut changes = reader(name).changes(From::Earliest).await?;
            all(&mut changes).await
        };
        let ours = match read.await {
            Ok(ours) => ours,
            Err(e) => {
                wrong.push(format!("{name}: {e}"));
                continue;
            }
        };
        compared += ours.len();
        let ids = |ids: &mut dyn Iterator<Item = i64>| ids.collect::<Vec<_>>();
        let (mine, java) = (
            ids(&mut ours.iter().map(|s| s.0)),
            ids(&mut theirs.iter().map(|s| s.0)),
        );
        if mine != java {
            wrong.push(format!("{name}: changes in {mine:?}, Java's in {java:?}"));
            continue;
        }
        for ((id, ours), (_, theirs)) in ours.iter().zip(&theirs) {
            let what = format!("{name}, snapshot {id}");
            let theirs = sorted(theirs.iter().cloned(), &[]);
            wrong.extend(differ(&what, &sorted(parsed(ours), &[]), &theirs).err());
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(compared > 150, "{compared} snapshots compared");
}
