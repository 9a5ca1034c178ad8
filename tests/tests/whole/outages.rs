//! The store stands still, or goes and comes back, under a running job; requests that were on their
//! way land late.

use std::fs;
use std::time::{Duration, Instant};

use tidegate_test_services::S3Server;
use tidegate_tests::lab::{Generator, Lab, Running, wait_until};

/// Places of a checkpoint at which the store goes; each leaves another request on its way.
const PLACES: [&str; 6] = [
    "before-checkpoint",
    "prepared",
    "recorded",
    "before-publish",
    "published",
    "answered",
];

/// Longer than the client waits for an answer, see [`lab`].
const LONGER: Duration = Duration::from_millis(2500);

/// A server of one test: others would notice the outage. It ends with this process.
fn server(on_disk: bool) -> &'static S3Server {
    let dir = tempfile::Builder::new()
        .prefix("tidegate-outage-")
        .tempdir()
        .unwrap()
        .keep();
    let started = match on_disk {
        true => S3Server::start_on_disk(&dir),
        false => S3Server::start(&dir),
    };
    Box::leak(Box::new(started.unwrap()))
}

/// A rolling job whose client gives a request up after a second.
fn lab(server: &'static S3Server) -> Lab {
    let mut lab = Lab::on_s3(server);
    lab.generator(&Generator {
        rate: Some(500),
        interval: Some("200 ms"),
        ..Generator::default()
    });
    let text = fs::read_to_string(lab.path("job.yaml")).unwrap();
    let quick = "store: { s3.request-timeout: \"1 s\", s3.connect-timeout: \"1 s\", ";
    assert!(text.contains("store: { "));
    lab.write("job.yaml", text.replace("store: { ", quick));
    // Requests are far enough from each other for the test to come in between.
    lab.env("TIDEGATE_STORE_LATENCY", "20 ms");
    lab
}

struct Watched {
    run: Running,
    probe: std::path::PathBuf,
}

impl Watched {
    fn start(lab: &Lab) -> Self {
        let probe = lab.path("probe");
        let _absent = fs::remove_file(&probe);
        let text = probe.display().to_string();
        let run = lab.spawn(&["run", "job.yaml"], &[("TIDEGATE_PROBE_FILE", &text)]);
        Self { run, probe }
    }

    /// Waits until the job passes a place, having passed another one before.
    #[track_caller]
    fn passes(&mut self, place: &str) {
        let at = |place: &str| fs::read_to_string(&self.probe).is_ok_and(|t| t.trim() == place);
        for wanted in [false, true] {
            wait_until(place, || {
                assert!(!self.run.ended(), "ended by itself:\n{}", self.run.stderr());
                at(place) == wanted
            });
        }
    }
}

/// What is on the way stays there for so long; the condition is time itself.
fn let_pass(time: Duration) {
    let begun = Instant::now();
    wait_until("time", || begun.elapsed() > time);
}

/// The rolling job becomes a bounded one and ends; everything is there once.
#[track_caller]
fn settled(lab: &Lab) {
    let visible = lab.ids().last().copied().unwrap_or(0);
    let rows = visible + 500;
    lab.run(&["--set", &format!("source.rows={rows}")])
        .expect(0);
    lab.whole(rows);
}

#[test]
fn a_store_that_stands_still_longer_than_timeouts_loses_and_doubles_nothing() {
    let server = server(false);
    let lab = lab(server);
    let mut job = Watched::start(&lab);
    for place in PLACES {
        job.passes(place);
        server.signal("STOP").unwrap();
        // Requests time out and are sent again; the first ones are carried out when it goes on.
        let_pass(LONGER);
        server.signal("CONT").unwrap();
    }
    job.passes("notified");
    job.run.signal("TERM");
    job.run.wait().expect(143);
    settled(&lab);
}

#[test]
fn requests_of_a_killed_run_that_land_under_its_successor_lose_and_double_nothing() {
    let server = server(false);
    let lab = lab(server);
    for place in PLACES {
        let mut job = Watched::start(&lab);
        job.passes("notified");
        job.passes(place);
        server.signal("STOP").unwrap();
        // Its next request is on the wire, where it outlives the process.
        let_pass(Duration::from_millis(300));
        job.run.kill().killed();
        let mut next = Watched::start(&lab);
        let_pass(Duration::from_millis(300));
        server.signal("CONT").unwrap();
        next.passes("notified");
        next.run.kill().killed();
    }
    settled(&lab);
}

#[test]
fn a_store_that_is_killed_and_started_again_loses_and_doubles_nothing() {
    let server = server(true);
    let lab = lab(server);
    let mut job = Watched::start(&lab);
    for place in PLACES {
        job.passes(place);
        server.kill().unwrap();
        let_pass(Duration::from_millis(500));
        server.again().unwrap();
    }
    job.passes("notified");
    job.run.signal("TERM");
    job.run.wait().expect(143);
    settled(&lab);
}

#[test]
fn a_store_that_is_killed_with_the_job_loses_and_doubles_nothing() {
    let server = server(true);
    let lab = lab(server);
    for place in PLACES {
        let mut job = Watched::start(&lab);
        job.passes("notified");
        job.passes(place);
        server.kill().unwrap();
        job.run.kill().killed();
        server.again().unwrap();
    }
    settled(&lab);
}
