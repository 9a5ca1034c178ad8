//! Cases of public reports about columns: changed while a job runs, names that differ in case only, a
//! thousand of them. Each test bears the number of its case.

use std::fs::{self, OpenOptions};
use std::io::Write;

use serde_json::{Value, json};
use tidegate_tests::lab::{Lab, TABLE, wait_until};

const BOUNDED: [&str; 2] = ["--set", "source.watch=false"];

#[test]
fn b48_2_a_job_goes_on_while_its_table_gets_a_column_and_a_wider_type() {
    let lab = Lab::new();
    let rows = |ids: std::ops::RangeInclusive<i64>| -> String {
        ids.map(|id| format!("{id},v{id}\n")).collect()
    };
    let input = lab.write("in/a.csv", format!("id,v\n{}", rows(1..=10)));
    let source = ", watch: true, poll: 20 ms";
    let columns = "id: INT NOT NULL, v: STRING";
    lab.files("in/*.csv", source, columns, "", Some("50 ms"));
    let run = lab.start_job(&[]);
    wait_until("ten rows", || lab.visible() == 1);
    // Somebody else alters the table, as Java's schema manager does: the next schema file.
    let schemas = lab.table_dir().join("schema");
    let schema = fs::read_to_string(schemas.join("schema-0")).unwrap();
    let mut schema: Value = serde_json::from_str(&schema).unwrap();
    schema["id"] = json!(1);
    schema["fields"][0]["type"] = json!("BIGINT NOT NULL");
    let added = json!({"id": 2, "name": "x", "type": "STRING"});
    schema["fields"].as_array_mut().unwrap().push(added);
    schema["highestFieldId"] = json!(2);
    fs::write(schemas.join("schema-1"), schema.to_string()).unwrap();
    // Rows of the old shape go on.
    let mut file = OpenOptions::new().append(true).open(&input).unwrap();
    file.write_all(rows(11..=20).as_bytes()).unwrap();
    wait_until("ten more", || lab.visible() == 2);
    run.signal("TERM");
    let ended = run.wait().expect(143);
    assert!(!ended.stderr.contains("restarting"), "{}", ended.stderr);
    for file in lab.data_files() {
        assert_eq!(file["schema_id"], 0, "written as the job began: {file}");
    }
    // Started again it says what has changed; then rows of the new shape follow.
    lab.write(
        "in/b.csv",
        format!("id,v,x\n{}", rows(21..=30).replace('\n', ",new\n")),
    );
    lab.run(&BOUNDED).expect(3).says(&["id", "BIGINT", "x"]);
    let job = fs::read_to_string(lab.path("job.yaml")).unwrap();
    lab.write(
        "job.yaml",
        job.replace(columns, "id: BIGINT NOT NULL, v: STRING, x: STRING"),
    );
    lab.run(&BOUNDED).expect(0);
    lab.whole(30);
    let last = lab.snapshots().pop().unwrap();
    assert_eq!(last["schema_id"], 1, "the newest one [C-39]: {last}");
    for row in lab.rows() {
        let id = row["id"].as_i64().unwrap();
        assert_eq!(row["v"], format!("v{id}"));
        let x = if id <= 20 { Value::Null } else { json!("new") };
        assert_eq!(row["x"], x, "{row}");
    }
}

#[test]
fn b51_4_partition_columns_may_have_a_percent_sign_or_a_dot_in_their_name() {
    for column in ["x%20x", "a.b"] {
        let lab = Lab::new();
        lab.write("in/a.csv", format!("id,{column}\n1,one\n2,two/2\n3,\n"));
        let columns = format!("id: BIGINT NOT NULL, \"{column}\": STRING");
        let partition = format!("\"{column}\"");
        lab.files("in/*.csv", "", &columns, &partition, None);
        lab.run(&[]).expect(0);
        lab.whole(3);
        for row in lab.rows() {
            let expected = [json!("one"), json!("two/2"), Value::Null];
            let id = row["id"].as_u64().unwrap() as usize;
            assert_eq!(row[column], expected[id - 1], "{row}");
        }
        let partitions = lab.query(&["table", "partitions", TABLE]);
        let mut names: Vec<&str> = partitions
            .iter()
            .map(|p| p["partition"].as_str().unwrap())
            .collect();
        names.sort_unstable();
        let default = format!("{column}=__DEFAULT_PARTITION__");
        let (one, two) = (format!("{column}=one"), format!("{column}=two/2"));
        assert_eq!(names, [default.as_str(), &one, &two]);
    }
}

#[test]
fn b54_names_are_compared_as_they_are_and_what_does_not_match_is_told() {
    // 1 and 2: a key of another case is no column, and never another one's value.
    for (line, says) in [
        ("{\"ID\":1,\"Name\":\"x\"}", "ID"),
        ("{\"id\":1,\"Id\":2,\"name\":\"x\"}", "Id"),
    ] {
        let lab = Lab::new();
        lab.write("in/a.json", format!("{line}\n"));
        let columns = "id: BIGINT NOT NULL, name: STRING";
        lab.files("in/*.json", "", columns, "", None);
        lab.run(&[]).expect(1).says(&["a.json", says]);
        assert_eq!(lab.visible(), 0, "{line}");
    }
    // 4: two columns that differ in case only, from CSV and from Parquet.
    let lab = Lab::new();
    lab.write("in/a.csv", "a,A,id\nlow,up,1\n");
    let columns = "A: STRING, a: STRING, id: BIGINT NOT NULL";
    lab.files("in/*.csv", "", columns, "", None);
    lab.run(&[]).expect(0);
    let path = lab.data_files()[0]["file_path"]
        .as_str()
        .unwrap()
        .to_owned();
    let parquet = fs::read(path.strip_prefix("file://").unwrap_or(&path)).unwrap();
    let other = Lab::new();
    other.write("in/a.parquet", parquet);
    other.files("in/*.parquet", "", columns, "", None);
    other.run(&[]).expect(0);
    for lab in [lab, other] {
        let rows = lab.rows();
        assert_eq!(rows, [json!({"A": "up", "a": "low", "id": 1})]);
        lab.whole(1);
    }
}

#[test]
fn b67_3_statistics_of_a_thousand_columns_can_be_switched_off() {
    let columns: Vec<String> = (0..1000)
        .map(|n| format!("c{n:03}_with_a_long_name"))
        .collect();
    let mut sizes = Vec::new();
    for mode in ["truncate(16)", "none"] {
        let lab = Lab::new();
        let declared: Vec<String> = columns.iter().map(|c| format!("{c}: STRING")).collect();
        let declared = format!("id: BIGINT NOT NULL, {}", declared.join(", "));
        let row = |id: i64| format!("{id},{}\n", vec![format!("value {id}"); 1000].join(","));
        lab.write("in/a.csv", format!("id,{}\n{}", columns.join(","), row(1)));
        lab.files("in/*.csv", "", &declared, "", None);
        let option = format!("sink.options.metadata.stats-mode={mode}");
        for id in 2..=6 {
            lab.run(&["--set", &option]).expect(0);
            lab.write(
                &format!("in/b{id:02}.csv"),
                format!("id,{}\n{}", columns.join(","), row(id)),
            );
        }
        lab.run(&["--set", &option]).expect(0);
        lab.whole(6);
        let manifests = lab.query(&["table", "manifests", TABLE]);
        let bytes: i64 = manifests
            .iter()
            .map(|m| m["file_size"].as_i64().unwrap())
            .sum();
        println!("{mode}: {} manifests, {bytes} bytes", manifests.len());
        sizes.push(bytes);
    }
    assert!(sizes[1] * 5 < sizes[0], "{sizes:?}");
}
