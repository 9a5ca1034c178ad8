//! The checks of the conformance suite.
//!
//! Each is a function from a trial (a store of its own directory, the options) to what was seen.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;

use super::{Needed, Options};
use crate::backend::Scheme;
use crate::error::{ErrorKind, StoreError};
use crate::faults::{Fault, Faults, Rule};
use crate::metrics::Op;
use crate::retry::{RetryPolicy, mix};
use crate::store::{Create, Store};
use crate::upload::UploadOptions;

#[derive(Debug, Clone)]
pub(super) struct Trial {
    pub(super) store: Store,
    pub(super) options: Options,
}

pub(super) enum Seen {
    Passed(String),
    Skipped(String),
}

pub(super) type Answer = Result<Seen, String>;
type Run = fn(Trial) -> Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A check as a plain function, for the table below.
macro_rules! check {
    ($function:ident) => {
        |trial| Box::pin(async move { trial.$function().await })
    };
}

/// Whether the store answers at all.
pub(super) const REACH: &str = "reach";
/// Whether it lets anything be written.
pub(super) const WRITE: &str = "write";

pub(super) const ALL: &[(&str, Needed, Run)] = &[
    (REACH, Needed::ForReading, check!(reach)),
    (WRITE, Needed::ForWriting, check!(write)),
    (
        "write, then read",
        Needed::ForWriting,
        check!(write_then_read),
    ),
    ("empty object", Needed::ForWriting, check!(empty_object)),
    ("replace", Needed::ForWriting, check!(replace)),
    ("ranged read", Needed::ForWriting, check!(ranged_read)),
    ("absent object", Needed::ForWriting, check!(absent_object)),
    (
        "overwrite refused",
        Needed::ForWriting,
        check!(overwrite_refused),
    ),
    ("one winner", Needed::ForWriting, check!(one_winner)),
    ("lost answer", Needed::ForWriting, check!(lost_answer)),
    ("late request", Needed::ForWriting, check!(late_request)),
    ("listing", Needed::ForWriting, check!(listing)),
    ("long listing", Needed::ForWriting, check!(long_listing)),
    ("upload in parts", Needed::ForWriting, check!(upload)),
    (
        "upload given up",
        Needed::ForWriting,
        check!(upload_given_up),
    ),
    ("copy", Needed::ForWriting, check!(copy)),
    ("unfinished uploads", Needed::Never, check!(unfinished)),
    ("odd names", Needed::ForWriting, check!(odd_names)),
    ("delete", Needed::ForWriting, check!(delete)),
    ("clock", Needed::Never, check!(clock)),
    ("free space", Needed::Never, check!(free_space)),
    ("syncs", Needed::Never, check!(syncs)),
];

pub(super) fn text(error: StoreError) -> String {
    error.to_string()
}

pub(super) fn passed(detail: impl Into<String>) -> Answer {
    Ok(Seen::Passed(detail.into()))
}

fn expect(right: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if right { Ok(()) } else { Err(otherwise()) }
}

/// Content that differs everywhere and with the seed.
pub(super) fn content(seed: u64, len: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(len + 8);
    let mut word = seed;
    while bytes.len() < len {
        word = mix(word);
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(len);
    bytes.into()
}

impl Trial {
    fn seed(&self) -> u64 {
        self.options.seed
    }

    pub(super) async fn clean_up(&self) -> Result<(), String> {
        if self.store.capabilities().lists_unfinished {
            for unfinished in self.store.list_unfinished("").await.map_err(text)? {
                self.store
                    .discard_unfinished(&unfinished)
                    .await
                    .map_err(text)?;
            }
        }
        let paths: Vec<String> = self
            .store
            .list("")
            .await
            .map_err(text)?
            .into_iter()
            .map(|object| object.path)
            .collect();
        for result in self.store.delete_many(&paths).await {
            result.map_err(text)?;
        }
        self.store.remove_dirs("").await.map_err(text)
    }

    async fn reach(&self) -> Answer {
        let found = self.store.list_names("").await.map_err(text)?;
        expect(found.is_empty(), || {
            format!("a new directory holds {} names", found.len())
        })?;
        passed("answers a listing")
    }

    async fn write(&self) -> Answer {
        let written = self.store.write_once("written", "anything".into()).await;
        written.map_err(|error| {
            let way_out = match error.kind() {
                ErrorKind::PermissionDenied => {
                    "to write tables here, give this account the right to; reading needs no more than it has"
                }
                ErrorKind::Full => "make room",
                _ => return text(error),
            };
            format!("{error}: {way_out}")
        })?;
        passed("one object")
    }

    async fn copy(&self) -> Answer {
        if self.store.capabilities().copies_up_to == 0 {
            return Ok(Seen::Skipped("not asked of this store".to_owned()));
        }
        let (from, to) = ("copy/from it", "copy/deep/to it");
        let absent = self.store.copy_once(from, to).await;
        expect(absent.as_ref().is_err_and(StoreError::is_not_found), || {
            format!("an absent object was copied: {absent:?}")
        })?;
        let bytes = content(self.seed(), 100_000);
        let written = self.store.write_once(from, bytes.clone()).await;
        written.map_err(text)?;
        for _ in 0..2 {
            self.store.copy_once(from, to).await.map_err(text)?;
        }
        self.store.delete(from).await.map_err(text)?;
        let copied = self.store.get(to).await.map_err(text)?;
        expect(copied == bytes, || "the copy has other bytes".to_owned())?;
        passed("100 kB, again, and the copy outlives its source")
    }

    async fn write_then_read(&self) -> Answer {
        let path = "read/back";
        for round in 0..5 {
            let bytes = content(self.seed() + round, 10_000);
            self.store
                .write_once(path, bytes.clone())
                .await
                .map_err(text)?;
            let read = self.store.get(path).await.map_err(text)?;
            expect(read == bytes, || "other bytes come back".to_owned())?;
            let meta = self.store.head(path).await.map_err(text)?;
            let size = meta.map(|meta| meta.size);
            expect(size == Some(10_000), || format!("the size is {size:?}"))?;
        }
        passed("5 objects of 10 kB came back at once")
    }

    async fn empty_object(&self) -> Answer {
        self.store
            .write_once("empty", Bytes::new())
            .await
            .map_err(text)?;
        let read = self.store.get("empty").await.map_err(text)?;
        let meta = self.store.head("empty").await.map_err(text)?;
        expect(read.is_empty() && meta.is_some_and(|m| m.size == 0), || {
            "an empty object does not come back empty".to_owned()
        })?;
        let made = self
            .store
            .create_if_absent("empty-created", Bytes::new())
            .await;
        expect(matches!(made, Create::Created), || format!("{made:?}"))?;
        passed("")
    }

    async fn replace(&self) -> Answer {
        for bytes in ["old and longer", "new"] {
            self.store
                .put("replaced", bytes.into())
                .await
                .map_err(text)?;
        }
        let read = self.store.get("replaced").await.map_err(text)?;
        expect(read == "new", || format!("{read:?} after replacing"))?;
        passed("")
    }

    async fn ranged_read(&self) -> Answer {
        let bytes = content(self.seed(), 100_000);
        self.store
            .write_once("range", bytes.clone())
            .await
            .map_err(text)?;
        for (start, end) in [
            (0, 1),
            (0, 100_000),
            (99_999, 100_000),
            (12_345, 54_321),
            (7, 7),
        ] {
            let read = self
                .store
                .get_range("range", start as u64..end as u64)
                .await
                .map_err(text)?;
            expect(bytes.get(start..end) == Some(&read[..]), || {
                format!("bytes {start}..{end} are others")
            })?;
        }
        for range in [99_990..100_001, 100_000..100_010] {
            match self.store.get_range("range", range.clone()).await {
                Err(error) if error.kind() == ErrorKind::Corrupt => {}
                Err(error) => return Err(text(error)),
                Ok(_) => return Err(format!("bytes {range:?} of 100000 are given")),
            }
        }
        passed("")
    }

    async fn absent_object(&self) -> Answer {
        let got = self.store.get_opt("absent/x").await.map_err(text)?;
        let head = self.store.head("absent/x").await.map_err(text)?;
        let range = self.store.get_range("absent/x", 0..1).await;
        let names = self.store.list_names("absent").await.map_err(text)?;
        let right = got.is_none()
            && head.is_none()
            && range.is_err_and(|error| error.is_not_found())
            && names.is_empty();
        expect(right, || {
            "an absent object is not plainly absent".to_owned()
        })?;
        passed("")
    }

    async fn overwrite_refused(&self) -> Answer {
        let path = "refused";
        let first = content(self.seed(), 300);
        let made = self.store.create_if_absent(path, first.clone()).await;
        expect(matches!(made, Create::Created), || format!("{made:?}"))?;
        for round in 1..4 {
            let other = content(self.seed() + round, 200);
            match self.store.create_if_absent(path, other).await {
                Create::Exists(theirs) if theirs == first => {}
                Create::Created => {
                    return Err(
                        "a second creation replaced the object: conditional writes are ignored, \
                         two writers would both win"
                            .to_owned(),
                    );
                }
                other => return Err(format!("{other:?}")),
            }
        }
        let read = self.store.get(path).await.map_err(text)?;
        expect(read == first, || {
            "a refused creation changed the object".to_owned()
        })?;
        passed("3 of 3 refused")
    }

    async fn one_winner(&self) -> Answer {
        let Options {
            rounds, creators, ..
        } = self.options;
        for round in 0..rounds {
            let path = format!("race/{round}");
            let mut racers = tokio::task::JoinSet::new();
            for racer in 0..creators {
                let store = self.store.clone();
                let path = path.clone();
                // Different lengths and contents, so that a mixture would show.
                let bytes = content(u64::from(racer) + 1, 100 + 17 * racer as usize);
                racers.spawn(async move {
                    let outcome = store.create_if_absent(&path, bytes.clone()).await;
                    (bytes, outcome)
                });
            }
            let mut winners = Vec::new();
            let mut seen = Vec::new();
            while let Some(racer) = racers.join_next().await {
                match racer.map_err(|error| error.to_string())? {
                    (bytes, Create::Created) => winners.push(bytes),
                    (_, Create::Exists(theirs)) => seen.push(theirs),
                    (_, other) => return Err(format!("round {round}: {other:?}")),
                }
            }
            let read = self.store.get(&path).await.map_err(text)?;
            expect(winners.len() == 1, || {
                format!("round {round}: {} of {creators} won", winners.len())
            })?;
            expect(winners.first() == Some(&read), || {
                format!("round {round}: the object does not hold the winner's bytes")
            })?;
            expect(seen.iter().all(|theirs| *theirs == read), || {
                format!("round {round}: a loser saw other bytes than the winner's")
            })?;
        }
        passed(format!("{rounds} races of {creators}, one winner each"))
    }

    /// Our own creation whose answer is lost is found to be ours by its bytes.
    async fn lost_answer(&self) -> Answer {
        let faults = Faults::new();
        faults.rule(Rule::new(Fault::After).on(Op::Create));
        let store = self
            .store
            .clone()
            .with_retry(RetryPolicy::none())
            .with_faults(faults);
        let bytes = content(self.seed(), 500);
        let first = store.create_if_absent("lost", bytes.clone()).await;
        expect(matches!(first, Create::Unknown(_)), || format!("{first:?}"))?;
        let second = store.create_if_absent("lost", bytes.clone()).await;
        expect(
            matches!(second, Create::Exists(_)) && second.holds(&bytes),
            || format!("offered again: {second:?}"),
        )?;
        passed("the repeated request finds its own bytes")
    }

    /// A creation that arrives after its repetition changes nothing.
    async fn late_request(&self) -> Answer {
        let faults = Faults::new();
        faults.rule(Rule::new(Fault::Late).on(Op::Create));
        let store = self
            .store
            .clone()
            .with_retry(RetryPolicy::none())
            .with_faults(faults.clone());
        let late = store
            .create_if_absent("late", content(self.seed(), 500))
            .await;
        expect(matches!(late, Create::Unknown(_)), || format!("{late:?}"))?;
        let other = content(self.seed() + 1, 400);
        let made = store.create_if_absent("late", other.clone()).await;
        expect(matches!(made, Create::Created), || format!("{made:?}"))?;
        let released = faults.release().await;
        let read = store.get("late").await.map_err(text)?;
        expect(released == 1 && read == other, || {
            "a late creation replaced the object".to_owned()
        })?;
        passed("refused when it arrived")
    }

    async fn listing(&self) -> Answer {
        let mut expected = BTreeSet::new();
        for i in 0..12 {
            let path = format!("list/{}/f-{i}", i % 3);
            self.store
                .write_once(&path, content(i, i as usize))
                .await
                .map_err(text)?;
            expected.insert(path);
            let found: BTreeSet<String> = self
                .store
                .list("list")
                .await
                .map_err(text)?
                .into_iter()
                .map(|object| object.path)
                .collect();
            expect(found == expected, || {
                format!("after {} writes {} are listed", i + 1, found.len())
            })?;
        }
        let names: Vec<(String, bool)> = self
            .store
            .list_names("list")
            .await
            .map_err(text)?
            .into_iter()
            .map(|entry| (entry.name, entry.is_dir))
            .collect();
        expect(
            names
                == [
                    ("0".to_owned(), true),
                    ("1".to_owned(), true),
                    ("2".to_owned(), true),
                ],
            || format!("one level lists {names:?}"),
        )?;
        passed("never stale in 12 listings")
    }

    async fn long_listing(&self) -> Answer {
        let wanted = self.options.long_listing;
        if wanted == 0 {
            return Ok(Seen::Skipped("not asked for".to_owned()));
        }
        let mut writers = tokio::task::JoinSet::new();
        for lane in 0..16 {
            let store = self.store.clone();
            writers.spawn(async move {
                for i in (lane..wanted).step_by(16) {
                    store
                        .write_once(&format!("long/{i:06}"), Bytes::new())
                        .await?;
                }
                Ok::<_, StoreError>(())
            });
        }
        while let Some(writer) = writers.join_next().await {
            writer.map_err(|error| error.to_string())?.map_err(text)?;
        }
        let found = self.store.list("long").await.map_err(text)?;
        let names = self.store.list_names("long").await.map_err(text)?;
        let distinct: BTreeSet<_> = found.iter().map(|object| &object.path).collect();
        let counts = (found.len(), distinct.len(), names.len());
        let wanted = wanted as usize;
        expect(counts == (wanted, wanted, wanted), || {
            format!("{wanted} objects, listed as {counts:?}")
        })?;
        let paths: Vec<String> = found.into_iter().map(|object| object.path).collect();
        for result in self.store.delete_many(&paths).await {
            result.map_err(text)?;
        }
        let left = self.store.list("long").await.map_err(text)?.len();
        expect(left == 0, || format!("{left} are left after deletion"))?;
        passed(format!("{wanted} objects listed and deleted"))
    }

    async fn upload(&self) -> Answer {
        let size = self.options.upload;
        if size == 0 {
            return Ok(Seen::Skipped("not asked for".to_owned()));
        }
        let bytes = content(self.seed(), size);
        let mut upload = self
            .store
            .upload_with("upload/whole", small_parts())
            .await
            .map_err(text)?;
        for at in (0..size).step_by(1_000_003) {
            let piece = bytes.slice(at..size.min(at + 1_000_003));
            upload.write(piece).await.map_err(text)?;
        }
        let early = self.store.head("upload/whole").await.map_err(text)?;
        expect(early.is_none(), || {
            "the object is visible before its end".to_owned()
        })?;
        let confirmed = upload.finish().await.map_err(text)?;
        expect(confirmed == size as u64, || {
            format!("{size} bytes sent, {confirmed} confirmed")
        })?;
        let read = self.store.get("upload/whole").await.map_err(text)?;
        expect(read == bytes, || "other bytes come back".to_owned())?;
        passed(format!("{size} bytes"))
    }

    async fn upload_given_up(&self) -> Answer {
        if self.options.upload == 0 {
            return Ok(Seen::Skipped("not asked for".to_owned()));
        }
        let mut upload = self
            .store
            .upload_with("upload/none", small_parts())
            .await
            .map_err(text)?;
        upload
            .write(content(self.seed(), 6 << 20))
            .await
            .map_err(text)?;
        upload.abort().await.map_err(text)?;
        let found = self.store.head("upload/none").await.map_err(text)?;
        expect(found.is_none(), || "an object appeared".to_owned())?;
        if self.store.capabilities().lists_unfinished {
            let left = self.store.list_unfinished("upload").await.map_err(text)?;
            expect(left.is_empty(), || {
                format!("{} unfinished uploads stay", left.len())
            })?;
        }
        passed("nothing appears")
    }

    async fn unfinished(&self) -> Answer {
        if !self.store.capabilities().lists_unfinished {
            return Ok(Seen::Skipped("this store has none to list".to_owned()));
        }
        if self.options.upload == 0 {
            return Ok(Seen::Skipped("not asked for".to_owned()));
        }
        let faults = Faults::new();
        let store = self.store.clone().with_faults(faults.clone());
        let mut upload = store
            .upload_with("unfinished/x", small_parts())
            .await
            .map_err(text)?;
        upload
            .write(content(self.seed(), 6 << 20))
            .await
            .map_err(text)?;
        // The process that uploads dies here.
        faults.rule(Rule::new(Fault::DieBefore));
        let died = upload.finish().await;
        expect(died.is_err(), || "the dead finished an upload".to_owned())?;
        let found = self
            .store
            .list_unfinished("unfinished")
            .await
            .map_err(text)?;
        let [only] = &found[..] else {
            return Err(format!(
                "1 upload is unfinished, {} are listed",
                found.len()
            ));
        };
        expect(only.target == "unfinished/x", || {
            format!("listed as {:?}", only.target)
        })?;
        self.store.discard_unfinished(only).await.map_err(text)?;
        let left = self
            .store
            .list_unfinished("unfinished")
            .await
            .map_err(text)?;
        expect(left.is_empty(), || "it stays after discarding".to_owned())?;
        passed("listed and discarded")
    }

    /// No backslash: Azure takes it for a slash, and tables escape it.
    async fn odd_names(&self) -> Answer {
        let names = [
            "dt=a%2Fb",
            "a b",
            "é",
            "😀",
            "a+b&c=d",
            "100%",
            "%20",
            "q?x",
            "h#x",
            "t~'(x)!",
            "..x",
            "[x]{y}",
            "a:b;c,d@$",
        ];
        for name in names {
            let path = format!("odd/{name}/{name}");
            let bytes = Bytes::copy_from_slice(name.as_bytes());
            let wrote = self.store.write_once(&path, bytes.clone()).await;
            wrote.map_err(|error| format!("{name:?}: {error}"))?;
            let read = self.store.get(&path).await;
            let read = read.map_err(|error| format!("{name:?}: {error}"))?;
            expect(read == bytes, || format!("{name:?}: other bytes"))?;
        }
        let listed: BTreeSet<String> = self
            .store
            .list_names("odd")
            .await
            .map_err(text)?
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        for name in names {
            expect(listed.contains(name), || {
                format!("{name:?} is listed as another name: {listed:?}")
            })?;
            let inner = self
                .store
                .list(&format!("odd/{name}"))
                .await
                .map_err(text)?;
            let right = matches!(&inner[..], [one] if one.path == format!("odd/{name}/{name}"));
            expect(right, || format!("{name:?} lists {inner:?}"))?;
        }
        passed(format!("{} names byte for byte", names.len()))
    }

    async fn delete(&self) -> Answer {
        let paths: Vec<String> = (0..5).map(|i| format!("del/{i}")).collect();
        for path in &paths {
            self.store
                .write_once(path, "x".into())
                .await
                .map_err(text)?;
        }
        self.store.delete("del/0").await.map_err(text)?;
        self.store
            .delete("del/0")
            .await
            .map_err(|error| format!("deleting what is absent: {error}"))?;
        let results = self.store.delete_many(&paths).await;
        expect(results.len() == paths.len(), || {
            format!("{} results for {} paths", results.len(), paths.len())
        })?;
        for result in results {
            result.map_err(text)?;
        }
        let left = self.store.list("del").await.map_err(text)?;
        expect(left.is_empty(), || format!("{} are left", left.len()))?;
        // After deletion a name is free again.
        let made = self.store.create_if_absent("del/0", "new".into()).await;
        expect(matches!(made, Create::Created), || format!("{made:?}"))?;
        let scheme = self.store.capabilities().scheme;
        passed(match scheme {
            Scheme::S3 => "singly and in one request",
            _ => "",
        })
    }
}

/// Parts small enough for a test and large enough for S3.
fn small_parts() -> UploadOptions {
    UploadOptions {
        part_size: Some(5 << 20),
        parts_under_way: None,
    }
}
