//! The job file of the founding issue, as it is written there, in both YAML styles.

use tidegate_tests::lab::{Lab, TABLE};

const FLOW: &str = r#"name: orders                  # unique per table, recorded in every snapshot; another name is another job
source:
  type: files                 # files | generator
  path: in/*.csv              # relative to this file's folder, or s3://…; taken in path order
  format: csv                 # csv | json | parquet; from the extension when absent
  csv: { header: true, delimiter: ",", null: "" }   # columns by name; an unknown header is an error
  watch: false                # true: unbounded, new files and appended records are picked up
sink:
  warehouse: warehouse        # or a URL
  store: { s3.endpoint: "${S3_ENDPOINT}" }           # ${ENV}
  table: shop.orders          # created when absent, else compared column by column
  columns:
    id: BIGINT NOT NULL
    name: STRING
    amount: DECIMAL(10,2)
    dt: STRING
  partition-by: [dt]
  options: { bucket: -1 }     # Paimon's keys, values taken as text
checkpoint:
  interval: 10 s              # required when unbounded; bounded without it: one commit at the end
  directory: checkpoints      # relative to this file's folder; printed absolute at start
  retain: 3
restart: { strategy: exponential }   # none | fixed-delay (attempts, delay) | exponential (default)
parallelism: 1
"#;

const BLOCK: &str = r#"name: orders
source:
  type: files
  path: in/*.csv
  format: csv
  csv:
    header: true
    delimiter: ","
    null: ""
  watch: false
sink:
  warehouse: warehouse
  store:
    s3.endpoint: "${S3_ENDPOINT}"
  table: shop.orders
  columns:
    id: BIGINT NOT NULL
    name: STRING
    amount: DECIMAL(10,2)
    dt: STRING
  partition-by:
    - dt
  options:
    bucket: -1
checkpoint:
  interval: 10 s
  directory: checkpoints
  retain: 3
restart:
  strategy: exponential
parallelism: 1
"#;

fn with_input(text: &str) -> Lab {
    let mut lab = Lab::new();
    lab.env("S3_ENDPOINT", "http://127.0.0.1:1");
    lab.write("job.yaml", text);
    lab.write(
        "in/a.csv",
        "id,name,amount,dt\n1,one,1.50,2024-01-01\n2,,2.00,2024-01-02\n",
    );
    lab.write(
        "in/b.csv",
        "dt,amount,name,id\n2024-01-02,3.25,\"th,ree\",3\n",
    );
    lab
}

#[test]
fn the_job_file_of_the_issue_works_as_written_in_both_styles() {
    for text in [FLOW, BLOCK] {
        let lab = with_input(text);
        lab.run(&[]).expect(0).says(&["checkpoints in /"]);
        let mut rows = lab.rows();
        rows.sort_by_key(|r| r["id"].as_i64());
        let shown: Vec<String> = rows.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                r#"{"id":1,"name":"one","amount":"1.50","dt":"2024-01-01"}"#,
                r#"{"id":2,"name":null,"amount":"2.00","dt":"2024-01-02"}"#,
                r#"{"id":3,"name":"th,ree","amount":"3.25","dt":"2024-01-02"}"#,
            ]
        );
        lab.query(&["verify", TABLE]);
    }
}

#[test]
fn an_environment_variable_that_is_not_set_is_an_error_with_its_line() {
    let lab = with_input(FLOW);
    let text = FLOW.replace("S3_ENDPOINT", "TIDEGATE_NO_SUCH_VARIABLE");
    lab.write("job.yaml", text);
    lab.run(&[])
        .expect(3)
        .says(&["job.yaml:10", "TIDEGATE_NO_SUCH_VARIABLE"]);
}

#[test]
fn every_key_can_be_set_and_a_dry_run_shows_where_a_value_comes_from() {
    let lab = with_input(FLOW);
    let done = lab
        .run(&[
            "--dry-run",
            "--set",
            "checkpoint.retain=7",
            "--set",
            "sink.options.target-file-size=1 mb",
            "--set",
            "sink.store.s3.secret-key=hush",
            "--format",
            "jsonl",
        ])
        .expect(0);
    assert!(
        done.stdout.contains("checkpoint.retain") && done.stdout.contains("\"7\""),
        "{}",
        done.stdout
    );
    assert!(
        done.stdout.contains("--set") && done.stdout.contains("job.yaml:"),
        "{}",
        done.stdout
    );
    assert!(
        !done.stdout.contains("hush"),
        "secrets are hidden: {}",
        done.stdout
    );
    assert!(
        !lab.path("warehouse").join("shop.db").exists(),
        "nothing was made"
    );
}

#[test]
fn a_table_that_is_not_as_declared_is_refused_column_by_column() {
    let lab = with_input(FLOW);
    lab.run(&[]).expect(0);
    lab.write(
        "job.yaml",
        FLOW.replace("amount: DECIMAL(10,2)", "amount: DECIMAL(12,2)"),
    );
    lab.run(&[]).expect(3).says(&["amount"]);
}
