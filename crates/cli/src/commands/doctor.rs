//! `tidegate doctor store`: can this store be trusted with a table?

use serde_json::json;
use tidegate::storage::conformance::{self, Options, Usable};
use tidegate::system::{Cell, Sheet};

use crate::args::{Doctor, Format, OutputArgs};
use crate::exit::{CHECK_FAILED, Result};
use crate::{context, output};

pub(crate) async fn run(doctor: Doctor, output: &OutputArgs) -> Result<u8> {
    let Doctor::Store { url, store, rounds } = doctor;
    let store = context::open_store(&url, &store)?;
    let options = Options {
        rounds,
        ..Options::default()
    };
    let report = conformance::run(&store, &options).await;
    let verdict = report.verdict();
    if output.format == Format::Table {
        let mut sheet = Sheet::new(["check", "outcome", "ms", "detail"]);
        for check in &report.checks {
            sheet.push(vec![
                check.name.into(),
                format!("{:?}", check.outcome).to_lowercase().into(),
                Cell::Int(i64::try_from(check.duration.as_millis()).unwrap_or(i64::MAX)),
                check.detail.as_str().into(),
            ]);
        }
        output::sheet(output.format, &sheet)?;
        output::line(&format!("{}: {}", report.url, usable_text(verdict.usable)))?;
        for reason in &verdict.reasons {
            output::line(&format!("  {reason}"))?;
        }
    } else {
        let checks: Vec<_> = report
            .checks
            .iter()
            .map(|c| json!({"check": c.name, "outcome": format!("{:?}", c.outcome).to_lowercase(), "ms": c.duration.as_millis() as u64, "detail": c.detail}))
            .collect();
        let value = json!({"url": report.url, "usable": format!("{:?}", verdict.usable), "reasons": verdict.reasons, "checks": checks});
        output::object(output.format, &value)?;
    }
    Ok(if verdict.usable == Usable::ReadWrite {
        0
    } else {
        CHECK_FAILED
    })
}

fn usable_text(usable: Usable) -> &'static str {
    match usable {
        Usable::ReadWrite => "good for reading and writing tables",
        Usable::ReadOnly => "good for reading only: writing here could lose commits",
        _ => "not good for tables",
    }
}
