//! Values to text and back.

use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_model::ids::{
    BucketId, CommitIdentifier, CommitUser, Digest, Epoch, JobName, Level, SchemaId, SnapshotId,
};
use tidegate_model::snapshot::CommitKind;
use tidegate_model::{BinaryRow, Datum, LogicalType};
use tidegate_protocol::merge::{ManifestSummary, MergePlan, Piece};
use tidegate_protocol::*;

pub(crate) type Res<T> = Result<T, String>;

/// The words of a line: plain ones in order, `key=value` ones by key.
pub(crate) struct Words<'a> {
    plain: std::collections::VecDeque<&'a str>,
    keys: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    pub(crate) fn new(line: &'a str) -> Self {
        let (mut plain, mut keys) = (std::collections::VecDeque::new(), BTreeMap::new());
        for word in line.split_whitespace() {
            match word.split_once('=') {
                Some((key, value)) => {
                    keys.insert(key, value);
                }
                None => plain.push_back(word),
            }
        }
        Self { plain, keys }
    }

    pub(crate) fn take(&mut self) -> Res<&'a str> {
        self.plain
            .pop_front()
            .ok_or_else(|| "a word is missing".to_owned())
    }

    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.plain.len();
        self.plain.retain(|w| *w != name);
        before != self.plain.len()
    }

    pub(crate) fn key(&mut self, name: &str) -> Option<&'a str> {
        self.keys.remove(name)
    }

    pub(crate) fn rest(&mut self) -> Vec<&'a str> {
        self.plain.drain(..).collect()
    }

    pub(crate) fn end(&self) -> Res<()> {
        match self.plain.is_empty() && self.keys.is_empty() {
            true => Ok(()),
            false => Err(format!("not understood: {:?} {:?}", self.plain, self.keys)),
        }
    }
}

pub(crate) fn number<T: std::str::FromStr>(text: &str) -> Res<T> {
    let text = match text {
        "max" => "9223372036854775807",
        "min" => "-9223372036854775808",
        other => other,
    };
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

fn prefixed(prefix: char, text: &str) -> Res<u64> {
    text.strip_prefix(prefix)
        .map_or_else(|| Err(format!("`{text}` is no {prefix}N")), number)
}

pub(crate) fn maybe<T>(text: &str, parse: impl Fn(&str) -> Res<T>) -> Res<Option<T>> {
    if text == "none" {
        Ok(None)
    } else {
        parse(text).map(Some)
    }
}

pub(crate) fn list<T>(text: Option<&str>, parse: impl Fn(&str) -> Res<T>) -> Res<Vec<T>> {
    let text = text.filter(|t| *t != "none");
    text.into_iter()
        .flat_map(|t| t.split(','))
        .map(parse)
        .collect()
}

pub(crate) fn object(text: &str) -> Res<ObjectId> {
    prefixed('o', text).map(ObjectId)
}

pub(crate) fn file(text: &str) -> Res<FileId> {
    prefixed('f', text).map(FileId)
}

pub(crate) fn partition(text: &str) -> Res<PartitionId> {
    prefixed('p', text).map(PartitionId)
}

pub(crate) fn garbage(text: &str) -> Res<Garbage> {
    if let Some(id) = text.strip_prefix("snapshot-") {
        return Ok(Garbage::Snapshot(SnapshotId(number(id)?)));
    }
    object(text)
        .map(Garbage::Object)
        .or_else(|_| file(text).map(Garbage::File))
}

pub(crate) fn digest(text: &str) -> Res<Digest> {
    let mut bytes = [0; 32];
    let most = bytes.len();
    let start = bytes.get_mut(..text.len());
    start
        .ok_or_else(|| format!("`{text}` is longer than {most} bytes"))?
        .copy_from_slice(text.as_bytes());
    Ok(Digest(bytes))
}

pub(crate) fn user(text: &str) -> Res<CommitUser> {
    CommitUser::new(text).map_err(|e| e.0)
}

fn job(text: &str) -> Res<JobName> {
    JobName::new(text).map_err(|e| e.0)
}

pub(crate) fn identifier(text: &str) -> Res<CommitIdentifier> {
    number(text).map(CommitIdentifier)
}

fn epoch(text: &str) -> Res<Epoch> {
    number(text).map(Epoch)
}

/// `7/t7`
pub(crate) fn id_token(text: &str) -> Res<(SnapshotId, Token)> {
    let (id, token) = text
        .split_once('/')
        .ok_or_else(|| format!("`{text}` is no id/token"))?;
    Ok((SnapshotId(number(id)?), Token::new(token)))
}

fn user_identifier(text: &str) -> Res<(CommitUser, CommitIdentifier)> {
    let (who, which) = text
        .split_once('/')
        .ok_or_else(|| format!("`{text}` is no user/identifier"))?;
    Ok((user(who)?, identifier(which)?))
}

fn kind(text: &str) -> Res<CommitKind> {
    Ok(match text {
        "append" => CommitKind::Append,
        "compact" => CommitKind::Compact,
        "overwrite" => CommitKind::Overwrite,
        "analyze" => CommitKind::Analyze,
        other => return Err(format!("`{other}` is no kind")),
    })
}

pub(crate) fn half(text: &str) -> Res<Half> {
    Half::of(kind(text)?).ok_or_else(|| format!("`{text}` is no half"))
}

/// `7/t7 u1/5 append digest=d5 epoch=1 positions=p5 on=t6 job=j`
pub(crate) fn snapshot(words: &mut Words<'_>) -> Res<SnapshotFact> {
    let (id, token) = id_token(words.take()?)?;
    let (user, identifier) = user_identifier(words.take()?)?;
    Ok(SnapshotFact {
        id,
        token,
        user,
        identifier,
        kind: kind(words.take()?)?,
        job: words.key("job").map(job).transpose()?,
        epoch: words.key("epoch").map(epoch).transpose()?,
        digest: words.key("digest").map(digest).transpose()?,
        positions: words.key("positions").map(digest).transpose()?,
        based_on: words.key("on").map(Token::new),
        empty: words.flag("empty"),
    })
}

/// `5 append 7/t7 digest=d5 epoch=1 positions=p5 on=t6`
pub(crate) fn entry(words: &mut Words<'_>) -> Res<Entry> {
    let identifier = identifier(words.take()?)?;
    let half = half(words.take()?)?;
    let (id, token) = id_token(words.take()?)?;
    Ok(Entry {
        identifier,
        half,
        id,
        token,
        digest: words.key("digest").map(digest).transpose()?,
        epoch: words.key("epoch").map(epoch).transpose()?,
        positions: words.key("positions").map(digest).transpose()?,
        based_on: words.key("on").map(Token::new),
        empty: words.flag("empty"),
    })
}

/// `p0/b0/4`, each part from the left; `b-2` is where rows wait for their bucket
fn place(text: Option<&str>) -> Res<(PartitionId, BucketId, i32)> {
    let mut parts = text.unwrap_or("p0/b0/-1").split('/');
    let p = parts.next().map_or(Ok(PartitionId(0)), partition)?;
    let b = match parts.next() {
        Some("b-2") => BucketId::POSTPONE.0,
        Some(b) => prefixed('b', b)? as i32,
        None => 0,
    };
    let total = parts.next().map_or(Ok(-1), number)?;
    Ok((p, BucketId(b), total))
}

/// `f1:10@p0/b0/4`; of a keyed table `f1:10@p0/b0/4#2[3-9]`: level 2, keys 3 to 9; `f1^…` is lifted.
fn change(text: &str) -> Res<FileChange> {
    let (text, place_in) = match text.split_once('#') {
        None => (text, None),
        Some((text, at)) => (text, level_and_keys(at)?),
    };
    let (what, at) = text
        .split_once('@')
        .map_or((text, None), |(w, a)| (w, Some(a)));
    let (name, rows) = what.split_once(':').unwrap_or((what, "0"));
    let (partition, bucket, total_buckets) = place(at)?;
    let (name, lifted) = match name.strip_suffix('^') {
        Some(name) => (name, true),
        None => (name, false),
    };
    Ok(FileChange {
        place: place_in,
        lifted,
        file: file(name)?,
        partition,
        bucket,
        total_buckets,
        rows: number(rows)?,
    })
}

/// `2[3-9]`
fn level_and_keys(text: &str) -> Res<Option<Arc<Place>>> {
    let wanted = "a level and its keys, `2[3-9]`, wanted";
    let (level, keys) = text.split_once('[').ok_or(wanted)?;
    let (low, high) = keys
        .strip_suffix(']')
        .and_then(|keys| keys.split_once('-'))
        .ok_or(wanted)?;
    let key = |text: &str| -> Res<BinaryRow> {
        let value = [Some(Datum::Int(number(text)?))];
        BinaryRow::from_datums(&value, &[LogicalType::Int]).map_err(|e| e.to_string())
    };
    Ok(Some(Arc::new(Place {
        level: Level(number(level)?),
        min_key: key(low)?,
        max_key: key(high)?,
    })))
}

fn index(text: &str, deletion_vectors: bool) -> Res<IndexChange> {
    let (name, at) = text
        .split_once('@')
        .map_or((text, None), |(w, a)| (w, Some(a)));
    let (partition, bucket, _) = place(at)?;
    Ok(IndexChange {
        file: file(name)?,
        partition,
        bucket,
        deletion_vectors,
    })
}

fn changes(words: &mut Words<'_>, c: &str) -> Res<Changes> {
    let mut get = |key: &str| words.key(&format!("{c}{key}")).map(str::to_owned);
    let mut index_added = list(get("index-add").as_deref(), |t| index(t, false))?;
    index_added.extend(list(get("dv-add").as_deref(), |t| index(t, true))?);
    let mut index_deleted = list(get("index-del").as_deref(), |t| index(t, false))?;
    index_deleted.extend(list(get("dv-del").as_deref(), |t| index(t, true))?);
    Ok(Changes {
        added: list(get("add").as_deref(), change)?,
        deleted: list(get("del").as_deref(), change)?,
        changelog: list(get("log").as_deref(), change)?,
        index_added,
        index_deleted,
    })
}

/// `u1/5 d5 epoch=1 add=f1:10 positions=p5 replaces=p4 seen=3/t3 restored …`
pub(crate) fn committable(words: &mut Words<'_>) -> Res<Committable> {
    let restored = words.flag("restored");
    let (user, identifier) = user_identifier(words.take()?)?;
    let seen = match words.key("seen") {
        None => Seen::Unknown,
        Some("none") => Seen::Empty,
        Some(text) => {
            let (id, token) = id_token(text)?;
            Seen::Snapshot { id, token }
        }
    };
    Ok(Committable {
        user,
        identifier,
        digest: digest(words.take()?)?,
        job: words.key("job").map(job).transpose()?,
        epoch: words.key("epoch").map(epoch).transpose()?,
        restored,
        seen,
        positions: words.key("positions").map(digest).transpose()?,
        replaces: words.key("replaces").map(digest).transpose()?,
        watermark: words.key("watermark").map(number).transpose()?,
        append: changes(words, "")?,
        compact: changes(words, "c-")?,
    })
}

pub(crate) fn settings(s: &mut Settings, words: &mut Words<'_>) -> Res<()> {
    macro_rules! set {
        ($($key:literal => $field:expr),* $(,)?) => {
            $(if let Some(text) = words.key($key) { $field = number(text)?; })*
        };
    }
    set! {
        "max-retries" => s.max_retries,
        "max-unknown" => s.max_unknown,
        "min-wait" => s.min_retry_wait_millis,
        "max-wait" => s.max_retry_wait_millis,
        "chunk" => s.history_chunk,
        "target" => s.merge.target_size,
        "min-count" => s.merge.min_count,
        "full-threshold" => s.merge.full_threshold,
        "max-rewrite" => s.merge.max_rewrite,
    }
    if words.flag("publish-empty") {
        s.empty = EmptyCommits::Publish;
    }
    s.fixed_buckets |= words.flag("fixed-buckets");
    words.end()
}

/// `o1:100:3:0` = size, added, deleted
pub(crate) fn manifest(text: &str) -> Res<ManifestSummary> {
    let mut parts = text.split(':');
    let id = object(parts.next().unwrap_or_default())?;
    let mut next = |default: u64| parts.next().map_or(Ok(default), number);
    Ok(ManifestSummary {
        id,
        size: next(100)?,
        added: next(1)?,
        deleted: next(0)?,
    })
}

fn latest(words: &mut Words<'_>, n: u32) -> Res<LatestFact> {
    let fact = LatestFact {
        base: None,
        schema: SchemaId(words.key("schema").map_or(Ok(0), number)?),
        now_millis: words.key("now").map_or(Ok(1000), number)?,
        token: Token::new(
            words
                .key("fresh")
                .map_or_else(|| format!("n{n}"), str::to_owned),
        ),
    };
    if words.flag("none") {
        return Ok(fact);
    }
    let total = words.key("total").unwrap_or("0");
    let stats = words.key("stats").map(|text| {
        let (name, schema) = text.split_once('@').unwrap_or((text, "0"));
        Ok::<_, String>((object(name)?, SchemaId(number(schema)?)))
    });
    let base = BaseFact {
        time_millis: words.key("time").map_or(Ok(500), number)?,
        total_records: maybe(total, number)?,
        watermark: words.key("watermark").map(number).transpose()?,
        index: words.key("index").map(object).transpose()?,
        statistics: stats.transpose()?,
        next_row_id: words.key("rowid").map(number).transpose()?,
        manifests: list(words.key("manifests"), manifest)?.into(),
        snapshot: snapshot(words)?,
    };
    Ok(LatestFact {
        base: Some(base),
        ..fact
    })
}

/// `delta=o1,o2 list=o3 log=o4 log-list=o5 base=o6 merged=o7:9:9:9,o8+o9 index=o10`
fn written(words: &mut Words<'_>) -> Res<Written> {
    let manifests = list(words.key("delta"), manifest)?;
    let changelog = list(words.key("log"), object)?;
    let changelog = words
        .key("log-list")
        .map(|l| object(l).map(|l| (changelog, l)))
        .transpose()?;
    let delta = words.key("list").map(|l| {
        object(l).map(|list| DeltaObjects {
            manifests,
            list,
            changelog,
        })
    });
    Ok(Written {
        delta: delta.transpose()?,
        merged: list(words.key("merged"), |run| {
            run.split('+').map(manifest).collect::<Res<Vec<_>>>()
        })?,
        base_list: object(words.key("base").unwrap_or_default())?,
        index: words.key("index").map(object).transpose()?,
    })
}

/// Several snapshots, divided by `;`.
pub(crate) fn snapshots(words: &mut Words<'_>, line: &str) -> Res<Vec<SnapshotFact>> {
    words.rest();
    words.keys.clear();
    let parts = line
        .split(';')
        .map(str::trim)
        .filter(|p| !p.is_empty() && *p != "none");
    parts
        .map(|part| {
            let mut words = Words::new(part);
            let found = snapshot(&mut words)?;
            words.end().map(|()| found)
        })
        .collect()
}

pub(crate) fn fact(words: &mut Words<'_>, n: u32) -> Res<Fact> {
    Ok(match words.take()? {
        "latest" => Fact::Latest(latest(words, n)?),
        "live" => Fact::Live(
            words
                .rest()
                .into_iter()
                .map(|text| {
                    let vectors = text.strip_prefix("dv:");
                    let c = change(vectors.unwrap_or(text))?;
                    Ok(LiveFile {
                        file: c.file,
                        partition: c.partition,
                        bucket: c.bucket,
                        total_buckets: c.total_buckets,
                        place: c.place,
                        vectors: vectors.is_some(),
                    })
                })
                .collect::<Res<_>>()?,
        ),
        "buckets" => Fact::Buckets(
            words
                .rest()
                .into_iter()
                .map(|text| {
                    let (p, n) = text.split_once('/').ok_or("p0/4 wanted")?;
                    Ok((partition(p)?, number(n)?))
                })
                .collect::<Res<_>>()?,
        ),
        "absent" => Fact::Absent(words.rest().into_iter().map(file).collect::<Res<_>>()?),
        "written" => Fact::Written(written(words)?),
        "created" => Fact::Created,
        "exists-ours" => Fact::ExistsOurs,
        "exists" => Fact::ExistsTheirs(snapshot(words)?),
        "unknown" => Fact::Unknown,
        "put-refused" => Fact::PutRefused(words.take()?.to_owned()),
        "again" if words.flag("none") => Fact::Again(None),
        "again" => Fact::Again(Some(snapshot(words)?)),
        "retained" if words.flag("none") => Fact::Retained(None),
        "retained" => {
            let (from, to) = words.take()?.split_once("..").ok_or("1..9 wanted")?;
            Fact::Retained(Some((SnapshotId(number(from)?), SnapshotId(number(to)?))))
        }
        "announced" => Fact::Announced,
        "deleted" => Fact::Deleted(Vec::new()),
        "not-deleted" => Fact::Deleted(words.rest().into_iter().map(garbage).collect::<Res<_>>()?),
        "waited" => Fact::Waited,
        "timed-out" => Fact::TimedOut,
        "failed" => Fact::Failed {
            retryable: words.flag("retryable"),
            left: list(words.key("left"), object)?,
            why: words.rest().join("_"),
        },
        other => return Err(format!("no fact {other}")),
    })
}

// ---- values to text

pub(crate) fn some<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "none".to_owned(), |v| v.to_string())
}

pub(crate) fn join<T: ToString>(values: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<String> = values.into_iter().map(|v| v.to_string()).collect();
    if texts.is_empty() {
        "none".to_owned()
    } else {
        texts.join(",")
    }
}

pub(crate) fn name(digest: Digest) -> String {
    let end = digest.0.iter().position(|b| *b == 0).unwrap_or(32);
    String::from_utf8_lossy(&digest.0[..end]).into_owned()
}

pub(crate) fn of_garbage(garbage: &Garbage) -> String {
    match garbage {
        Garbage::Object(o) => o.to_string(),
        Garbage::File(f) => f.to_string(),
        Garbage::Snapshot(id) => format!("snapshot-{id}"),
    }
}

pub(crate) fn place_of(entry: &Entry) -> String {
    format!("{}/{}", entry.id, entry.token)
}

pub(crate) fn place_of_fact(fact: &SnapshotFact) -> String {
    format!("{}/{}", fact.id, fact.token)
}

pub(crate) fn plan(plan: &MergePlan) -> String {
    let ids = |list: &[ManifestSummary]| join(list.iter().map(|m| m.id));
    let mut keep: Vec<ManifestSummary> = Vec::new();
    let mut out: Vec<String> = Vec::new();
    for piece in &plan.pieces {
        if let Piece::Keep(m) = piece {
            keep.push(*m);
            continue;
        }
        if !keep.is_empty() {
            out.push(format!("keep({})", ids(&std::mem::take(&mut keep))));
        }
        out.push(match piece {
            Piece::Merge {
                inputs,
                drop_deletes: false,
            } => format!("merge({})", ids(inputs)),
            Piece::Merge {
                inputs,
                drop_deletes: true,
            } => format!("merge-all({})", ids(inputs)),
            Piece::Reuse { inputs, outputs } => format!("reuse({}>{})", ids(inputs), ids(outputs)),
            Piece::Keep(_) => unreachable!(),
        });
    }
    if !keep.is_empty() {
        out.push(format!("keep({})", ids(&keep)));
    }
    if out.is_empty() {
        "nothing".to_owned()
    } else {
        out.join(" ")
    }
}

fn draft(d: &Draft) -> String {
    format!(
        "publish {} {} {} on={} token={} user={} identifier={} job={} epoch={} digest={} positions={} \
         schema={} base={} delta-list={} log-list={} index={} time={} total={} delta={} log={} \
         watermark={} stats={} rowid={}",
        d.id,
        d.half,
        d.kind,
        some(d.based_on.as_ref()),
        d.token,
        d.user,
        d.identifier,
        some(d.job.as_ref()),
        some(d.epoch),
        name(d.digest),
        some(d.positions.map(name)),
        d.schema,
        d.base_list,
        d.delta_list,
        some(d.changelog_list),
        some(d.index),
        d.time_millis,
        d.total_records,
        d.delta_records,
        some(d.changelog_records),
        some(d.watermark),
        some(d.statistics),
        some(d.next_row_id),
    )
}

pub(crate) fn step(step: &Step) -> String {
    match step {
        Step::ReadLatest => "read-latest".to_owned(),
        Step::ReadHistory { from, to } => format!("read-history {from}..{to}"),
        Step::ReadLive { base, partitions } => {
            format!("read-live {base} {}", join(partitions))
        }
        Step::ReadBuckets { base, partitions } => {
            format!("read-buckets {base} {}", join(partitions))
        }
        Step::CheckFiles(files) => format!("check-files {}", join(files)),
        Step::Write(w) => {
            let delta = w
                .delta
                .as_ref()
                .map(|c| join(c.added.iter().map(|f| f.file)));
            let index = w.index.as_ref().map(|i| some(i.from));
            format!(
                "write {} adds={} {} index-from={}",
                w.half,
                delta.unwrap_or_else(|| "again".to_owned()),
                plan(&w.base),
                index.unwrap_or_else(|| "carried".to_owned()),
            )
        }
        Step::Publish(d) => draft(d),
        Step::ReadAgain(id) => format!("read-again {id}"),
        Step::FindRetained => "find-retained".to_owned(),
        Step::Announce(d) => format!("announce {}/{}", d.id, d.token),
        Step::Delete(g) => format!("delete {}", join(g.iter().map(of_garbage))),
        Step::BackOff(n) => format!("back-off {n}"),
        Step::Done(outcome) => format!("done {}", self::outcome(outcome)),
    }
}

fn halves(done: &Done) -> String {
    let dropped = done.dropped.iter().map(|d| match d.met.as_slice() {
        [] => format!("{}/b{}({})", d.partition, d.bucket, join(&d.dead)),
        met => format!("{}/b{}(meets-{})", d.partition, d.bucket, join(met)),
    });
    format!(
        "append={} compact={} dropped={} left={}",
        some(done.append.as_ref().map(place_of)),
        some(done.compact.as_ref().map(place_of)),
        join(dropped),
        join(done.left.iter().map(of_garbage)),
    )
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Published(done) => format!("published {}", halves(done)),
        Outcome::AlreadyPublished(done) => format!("already {}", halves(done)),
        Outcome::Empty => "empty".to_owned(),
        Outcome::Fenced(Fence::Content { found }) => {
            format!("fenced content {}", place_of(found))
        }
        Outcome::Fenced(Fence::Overtaken { found }) => {
            format!("fenced overtaken {}", place_of(found))
        }
        Outcome::Fenced(Fence::Epoch { found }) => {
            format!("fenced epoch {}", place_of_fact(found))
        }
        Outcome::Fenced(Fence::Positions { expected, found }) => format!(
            "fenced positions expected={} found={}",
            some(expected.map(name)),
            some(found.map(name))
        ),
        Outcome::Refused(refusal) => format!("refused {}", self::refusal(refusal)),
        Outcome::Undecided(u) => format!(
            "undecided {}/{} kept={} {}",
            u.draft.id,
            u.draft.token,
            join(&u.kept),
            halves(&u.done)
        ),
        Outcome::Replaced(r) => format!(
            "replaced {} by={} {}",
            place_of(&r.ours),
            some(r.by.as_ref().map(place_of_fact)),
            if r.offer_again {
                "offer-again"
            } else {
                "behind"
            }
        ),
    }
}

fn refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::FileTwice(f) => format!("file-twice {f}"),
        Refusal::AlreadyLive(files) => format!("already-live {}", join(files)),
        Refusal::NotLive(files) => format!("not-live {}", join(files)),
        Refusal::FilesMissing(files) => format!("files-missing {}", join(files)),
        Refusal::BucketCount {
            partition,
            found,
            ours,
        } => {
            format!("bucket-count {partition} found={found} ours={ours}")
        }
        Refusal::HistoryMissing { from, to } => format!("history-missing {from}..{to}"),
        Refusal::CountOverflow => "count-overflow".to_owned(),
        Refusal::IdsExhausted => "ids-exhausted".to_owned(),
        Refusal::UserClosed => "user-closed".to_owned(),
        Refusal::RetriesExhausted { attempts, why } => {
            format!("retries-exhausted {attempts} {}", why.replace(' ', "_"))
        }
        Refusal::Store(why) => format!("store {}", why.replace(' ', "_")),
    }
}
