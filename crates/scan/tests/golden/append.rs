//! Append tables.

use super::{compare, expected, names, read, reader, versions};
use futures::TryStreamExt;
use tidegate_model::SnapshotId;
use tidegate_scan::canonical::{Times, rows};
use tidegate_scan::{At, Error};

/// Tables that are refused, and a part of the reason given.
fn refused(name: &str) -> Option<&'static str> {
    match name {
        "append_blob" | "append_data_evolution" => Some("data-evolution"),
        "append_variant" => Some("VARIANT"),
        name if name.contains("_orc") => Some("format `orc`"),
        _ => None,
    }
}

#[tokio::test]
async fn every_snapshot_of_every_append_table_reads_to_javas_rows() {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for name in names(false).iter().filter(|n| refused(n).is_none()) {
        let (table, expected) = (reader(name), expected(name));
        for (at, table, rows) in versions(&table, &expected) {
            compared += 1;
            if let Err(e) = compare(name, &at, &table, &rows).await {
                wrong.push(e);
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(compared > 200, "{compared} versions compared");
}

#[tokio::test]
async fn what_cannot_be_read_rightly_is_refused_by_name() {
    for name in names(false) {
        let Some(reason) = refused(&name) else {
            continue;
        };
        let result = match reader(&name).scan(&At::Latest).await {
            Ok(plan) => read(&plan).await.map(|_| ()),
            Err(e) => Err(e),
        };
        let error = result.expect_err(&name).to_string();
        assert!(error.contains(reason), "{name}: {error}");
    }
}

#[tokio::test]
async fn columns_and_limits_are_honoured() {
    let plan = reader("append_types_nullable_parquet")
        .scan(&At::Latest)
        .await
        .unwrap();
    let plan = plan.with_columns(&["c_ltz6", "id"]).unwrap().with_limit(3);
    let lines = read(&plan).await.unwrap();
    assert_eq!(lines.len(), 3);
    assert_eq!(
        lines[0],
        r#"{"c_ltz6":"1970-01-01T00:00:00.000000000Z","id":0}"#
    );
    let none = reader("append_1_3_1")
        .scan(&At::Latest)
        .await
        .unwrap()
        .with_limit(0);
    assert!(read(&none).await.unwrap().is_empty());
    let error = reader("append_1_3_1")
        .scan(&At::Latest)
        .await
        .unwrap()
        .with_columns(&["ID"])
        .unwrap_err();
    assert!(error.to_string().contains("no column `ID`"), "{error}");
}

#[tokio::test]
async fn times_print_the_digits_of_their_precision() {
    let plan = reader("append_types_nullable_parquet")
        .scan(&At::Latest)
        .await
        .unwrap();
    let plan = plan
        .with_columns(&["c_time", "c_time3", "c_ts0", "c_ts3", "c_ts6", "c_ltz9"])
        .unwrap();
    let batches: Vec<_> = plan.read().unwrap().try_collect().await.unwrap();
    let lines = rows(plan.columns(), &batches[0], Times::Precision).unwrap();
    assert!(
        lines.iter().any(|l| l.contains(r#""c_time3":"23:59:59.999","c_ts0":"1969-12-31T23:59:59","c_ts3":"1969-12-31T23:59:59.999","c_ts6":"1969-12-31T23:59:59.999999","c_ltz9":"1969-12-31T23:59:59.999999999Z""#)),
        "{lines:#?}"
    );
    assert!(
        lines
            .iter()
            .any(|l| l.starts_with(r#"{"c_time":"00:00:00","#)),
        "{lines:#?}"
    );
}

#[tokio::test]
async fn missing_things_are_named() {
    let table = reader("append_expired");
    let error = table
        .scan(&At::Snapshot(SnapshotId(3)))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("snapshot 3") && error.contains("there are 8 to 8"),
        "{error}"
    );
    let error = table
        .scan(&At::Tag("nope".into()))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("tag `nope`"), "{error}");
    let error = reader("not_there").scan(&At::Latest).await.unwrap_err();
    assert!(matches!(error, Error::NoTable(_)), "{error}");
}
