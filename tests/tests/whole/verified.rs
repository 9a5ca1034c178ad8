//! `tidegate verify` of the real binary: files that nothing refers to, damage, formats and exit codes.

use std::fs;

use serde_json::Value;
use tidegate_tests::lab::{Done, Generator, Lab, TABLE};

fn verify(lab: &Lab, format: &str) -> Done {
    lab.tidegate(&["verify", TABLE, "-w", &lab.warehouse(), "--format", format])
}

fn report(done: &Done) -> Value {
    serde_json::from_str(&done.stdout).unwrap()
}

/// A job of 600 rows, killed at a place.
fn killed_at(place: &str) -> Lab {
    let lab = Lab::new();
    lab.generator(&Generator {
        rows: Some(600),
        rate: Some(1500),
        interval: Some("100 ms"),
        bucket: 2,
        ..Generator::default()
    });
    lab.run_slowly_to(place, 200).killed();
    lab
}

#[test]
fn what_a_kill_left_is_told_with_job_run_and_age_and_fails_nothing() {
    // Recorded, its manifests written, not published: a start will do that.
    let lab = killed_at("before-publish:2");
    let found = report(&verify(&lab, "json").expect(0));
    assert_eq!(
        (found["errors"].as_u64(), found["warnings"].as_u64()),
        (Some(0), Some(0)),
        "{found}"
    );
    let findings = found["findings"].as_array().unwrap();
    assert_eq!(found["unknown_files"].as_u64(), Some(findings.len() as u64));
    let mut waiting = 0;
    for finding in findings {
        let text = |key: &str| finding[key].as_str().unwrap();
        assert_eq!(
            (text("severity"), text("kind"), text("origin")),
            ("note", "unknown-file", "run")
        );
        assert_eq!(
            (text("job"), finding["epoch"].as_u64()),
            ("lab", Some(1)),
            "{finding}"
        );
        assert!(finding["bytes"].as_u64().unwrap() > 0 && finding["age_s"].as_u64().unwrap() < 600);
        let data = text("place").contains("bucket-");
        let waits = text("finding").contains("the next start publishes it: keep it");
        assert_eq!(data, waits, "{finding}");
        assert!(
            waits || text("finding").contains("it may be alive"),
            "{finding}"
        );
        waiting += usize::from(waits);
    }
    assert!(waiting > 0 && findings.len() > waiting, "{findings:?}");

    let csv = verify(&lab, "csv").expect(0);
    let mut lines = csv.stdout.lines();
    assert_eq!(
        lines.next(),
        Some("severity,kind,place,finding,bytes,age_s,origin")
    );
    assert_eq!(lines.count(), findings.len());
    let lines = report(&verify(&lab, "jsonl").expect(0));
    assert_eq!(lines["findings"].as_array().unwrap().len(), findings.len());
    let table = verify(&lab, "table").expect(0).stdout;
    assert!(
        table.contains("0 errors, 0 warnings") && table.contains("unknown files"),
        "{table}"
    );

    lab.run(&[]).expect(0);
    let found = report(&verify(&lab, "json").expect(0));
    assert_eq!(found["findings"].as_array().unwrap().len(), 0, "{found}");
    assert!(found["checkpoints"].as_u64().unwrap() > 0);
}

#[test]
fn damage_is_exit_code_3_and_names_kind_and_file() {
    let lab = killed_at("notified:2");
    lab.run(&[]).expect(0);
    let bucket = fs::read_dir(lab.table_dir().join("bucket-1")).unwrap();
    let victim = bucket.map(|e| e.unwrap().path()).min().unwrap();
    let name = victim.file_name().unwrap().to_string_lossy().into_owned();
    fs::remove_file(&victim).unwrap();
    let found = report(&verify(&lab, "json").expect(3));
    let findings = found["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{found}");
    assert_eq!(findings[0]["kind"], "missing");
    assert_eq!(findings[0]["place"], format!("bucket-1/{name}"));
    verify(&lab, "table").expect(3);
    verify(&lab, "csv").expect(3);
}
