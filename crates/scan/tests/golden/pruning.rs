//! Conditions, columns, limits and times: each gives what is left of all rows, whatever it spares reading.

use super::keyed::refused;
use super::{expected, names, parsed, read, reader, sorted};
use arrow::array::RecordBatch;
use arrow::compute::filter_record_batch;
use futures::TryStreamExt;
use serde_json::Value;
use tidegate_model::{DataField, LogicalType, SnapshotId};
use tidegate_scan::canonical::{Times, rows};
use tidegate_scan::{At, Error, Predicate, ScanPlan};

/// Tables with and without a key that are read here, small ones with many columns left out.
fn tables() -> Vec<String> {
    let all = names(true).into_iter().chain(names(false));
    all.filter(|n| refused(n).is_none() && !n.starts_with("append_"))
        .collect()
}

/// A value as a literal; `None` for what is not compared.
fn literal(value: &Value, field: &DataField) -> Option<String> {
    use LogicalType as L;
    match (&field.data_type.logical, value) {
        (L::Binary(_) | L::VarBinary(_), _)
        | (_, Value::Null | Value::Array(_) | Value::Object(_)) => None,
        (_, Value::String(text)) => Some(format!("'{}'", text.replace('\'', "''"))),
        (_, other) => Some(other.to_string()),
    }
}

/// Conditions over values that are there, and some that are not.
fn conditions(plan: &ScanPlan, rows: &[Value]) -> Vec<String> {
    let mut conditions = Vec::new();
    for field in plan.columns() {
        let name = format!("`{}`", field.name);
        conditions.push(format!("{name} IS NULL"));
        conditions.push(format!("{name} IS NOT NULL"));
        let values = rows
            .iter()
            .filter_map(|row| literal(&row[&field.name], field));
        let mut values: Vec<String> = values.collect();
        values.sort();
        values.dedup();
        let picked = [0, values.len() / 2, values.len().saturating_sub(1)];
        for value in picked.iter().filter_map(|at| values.get(*at)) {
            for op in ["=", "<>", "<", "<=", ">", ">="] {
                conditions.push(format!("{name} {op} {value}"));
            }
        }
    }
    let both: Vec<String> = conditions
        .iter()
        .zip(conditions.iter().rev())
        .step_by(5)
        .map(|(a, b)| format!("{a} AND {b}"))
        .collect();
    conditions.extend(both);
    conditions
}

/// The rows that fulfil a condition, without any help of statistics.
fn by_looking(plan: &ScanPlan, batches: &[RecordBatch], condition: &Predicate) -> Vec<String> {
    let mut lines = Vec::new();
    for batch in batches {
        let held = condition.matches(batch).unwrap();
        let kept = filter_record_batch(batch, &held).unwrap();
        lines.extend(rows(plan.columns(), &kept, Times::Full).unwrap());
    }
    lines.sort();
    lines
}

#[tokio::test]
async fn a_condition_gives_the_rows_that_fulfil_it_whatever_files_it_spares() {
    let (mut wrong, mut asked, mut spared) = (Vec::new(), 0, 0);
    for (nth, name) in tables().iter().enumerate() {
        let _external = expected(name);
        let plan = reader(name).scan(&At::Latest).await.unwrap();
        let batches: Vec<_> = plan.read().unwrap().try_collect().await.unwrap();
        let all: Vec<Value> = parsed(&read(&plan).await.unwrap()).collect();
        // Each table with other ones of its conditions.
        for text in conditions(&plan, &all).iter().skip(nth % 9).step_by(9) {
            let condition = Predicate::parse(text, plan.schema()).unwrap();
            let theirs = by_looking(&plan, &batches, &condition);
            let filtered = plan.clone().with_filter(condition).unwrap();
            spared += plan.splits().len() - filtered.splits().len();
            let mut ours = read(&filtered).await.unwrap();
            ours.sort();
            asked += 1;
            if ours != theirs {
                wrong.push(format!("{name}: {text}: {ours:?}, not {theirs:?}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {asked}: {}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        asked > 400 && spared > 80,
        "{asked} asked, {spared} files spared"
    );
}

/// An old version of a key fulfils the condition, the newest one does not: the file of the newest must be
/// merged although its statistics rule it out.
#[tokio::test]
async fn statistics_never_bring_an_old_version_back() {
    let (mut asked, mut old) = (0, 0);
    for name in [
        "pk_deduplicate",
        "pk_levels_only_zero",
        "pk_levels_partial",
        "primary_key_bigint",
    ] {
        let table = reader(name);
        let latest = table.scan(&At::Latest).await.unwrap();
        let newest: Vec<Value> = parsed(&read(&latest).await.unwrap()).collect();
        let first = At::Snapshot(SnapshotId(1));
        let first = table.scan(&first).await.unwrap();
        let oldest: Vec<Value> = parsed(&read(&first).await.unwrap()).collect();
        for row in oldest.iter().filter(|row| !newest.contains(row)) {
            for field in latest.columns() {
                let Some(value) = literal(&row[&field.name], field) else {
                    continue;
                };
                let text = format!("`{}` = {value}", field.name);
                let condition = Predicate::parse(&text, latest.schema()).unwrap();
                let found = latest.clone().with_filter(condition).unwrap();
                let found: Vec<Value> = parsed(&read(&found).await.unwrap()).collect();
                asked += 1;
                old += usize::from(found.contains(row));
            }
        }
    }
    assert!(asked > 50, "{asked}");
    assert_eq!(old, 0, "old rows found by {asked} conditions");
}

#[tokio::test]
async fn each_column_alone_reads_as_among_all_and_batches_may_be_of_any_size() {
    for name in tables() {
        let _external = expected(&name);
        let plan = reader(&name).scan(&At::Latest).await.unwrap();
        let whole = read(&plan).await.unwrap();
        let all: Vec<Value> = parsed(&whole).collect();
        // Every other one of many.
        for field in plan
            .columns()
            .iter()
            .step_by(plan.columns().len().div_ceil(4))
        {
            let one = plan.clone().with_columns(&[&field.name]).unwrap();
            let ours = sorted(parsed(&read(&one).await.unwrap()), &[]);
            let theirs = all.iter().map(|row| {
                let mut one = serde_json::Map::new();
                one.insert(field.name.clone(), row[&field.name].clone());
                Value::Object(one)
            });
            assert_eq!(ours, sorted(theirs, &[]), "{name}: {}", field.name);
        }
        for rows in [1, 2, 3] {
            let small = plan.clone().with_batch_rows(rows);
            assert_eq!(
                read(&small).await.unwrap(),
                whole,
                "{name}: batches of {rows}"
            );
        }
        for limit in [0, 1, whole.len() / 2, whole.len() + 1] {
            let some = read(&plan.clone().with_limit(limit as u64)).await.unwrap();
            assert_eq!(
                some,
                whole[..limit.min(whole.len())],
                "{name}: limit {limit}"
            );
        }
    }
}

#[tokio::test]
async fn a_time_means_the_newest_snapshot_of_then_or_before() {
    for name in [
        "pk_deduplicate",
        "append_rollback",
        "pk_decoupled_changelog_lookup",
    ] {
        let table = reader(name);
        let mut times = Vec::new();
        for id in table.snapshot_ids().await.unwrap() {
            times.push((id, table.snapshot(id).await.unwrap().time_millis));
        }
        let first = times[0].1;
        for millis in times.iter().flat_map(|(_, t)| [*t, t + 1, t - 1]) {
            let then = times
                .iter()
                .rev()
                .find(|(_, t)| *t <= millis)
                .map(|(id, _)| *id);
            match table.scan(&At::Timestamp(millis)).await {
                Ok(plan) => assert_eq!(plan.snapshot().map(|s| s.id), then, "{name} at {millis}"),
                Err(e) => {
                    assert!(matches!(e, Error::NothingThen { .. }), "{e}");
                    assert!(millis < first && then.is_none(), "{name} at {millis}: {e}");
                }
            }
        }
    }
    let error = reader("pk_deduplicate")
        .scan(&At::Timestamp(0))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("no snapshot of 1970-01-01T00:00:00.000Z or before; the oldest snapshot left is 1, of 20"),
        "{error}"
    );
}
