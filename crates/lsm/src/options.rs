//! What a table's options say about compaction \[W-40], parsed once.

use crate::error::Result;
use tidegate_model::{Error, Options, TableOptions, TableSchema};

/// When and how a bucket is compacted; defaults are Paimon's.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionOptions {
    /// `num-sorted-run.compaction-trigger`: from so many runs on, sizes decide.
    pub trigger: usize,
    /// `num-sorted-run.stop-trigger`: above so many runs writers wait. Never below the trigger.
    pub stop_trigger: usize,
    /// `num-levels`, level 0 included.
    pub num_levels: usize,
    /// `compaction.max-size-amplification-percent`
    pub max_size_amplification_percent: u64,
    /// `compaction.size-ratio`, percent
    pub size_ratio: u64,
    /// `compaction.offpeak.*`
    pub off_peak: Option<OffPeak>,
    /// `compaction.optimization-interval`, milliseconds
    pub optimization_interval_millis: Option<i64>,
    /// `compaction.total-size-threshold`, bytes
    pub total_size_threshold: Option<u64>,
    /// `compaction.incremental-size-threshold`, bytes
    pub incremental_size_threshold: Option<u64>,
    /// Whether level 0 is lifted where sizes alone would not.
    pub lift: LiftLevel0,
    /// `compaction.force-rewrite-all-files`
    pub rewrite_all_files: bool,
    /// `target-file-size` × `compaction.small-file-ratio`: smaller files are rewritten with their
    /// neighbours, larger ones only lifted.
    pub small_file_size: u64,
}

/// Hours in which a larger size ratio holds \[W-40].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffPeak {
    /// First hour.
    pub start_hour: u8,
    /// The hour after the last one; may be below the start: over midnight.
    pub end_hour: u8,
    /// Percent added to the size ratio.
    pub ratio: u64,
}

impl OffPeak {
    /// What is added at this hour.
    pub fn ratio_at(&self, hour: u8) -> u64 {
        let within = if self.start_hour <= self.end_hour {
            (self.start_hour..self.end_hour).contains(&hour)
        } else {
            hour < self.end_hour || self.start_hour <= hour
        };
        if within { self.ratio } else { 0 }
    }
}

/// Whether level 0 is lifted although sizes give no reason \[W-43].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiftLevel0 {
    /// No.
    Never,
    /// At every trigger: `compaction.force-up-level-0`, or a look-up with `lookup-compact` = radical.
    Always,
    /// At every so manyth trigger that found nothing else: `lookup-compact` = gentle.
    Every(usize),
}

fn wrong<T>(options: &Options, key: &str, expected: &str) -> Result<T> {
    let error = Error::Option {
        key: key.to_owned(),
        value: options.get(key).unwrap_or_default().to_owned(),
        expected: expected.to_owned(),
    };
    Err(error.into())
}

impl CompactionOptions {
    /// Reads a table's options.
    ///
    /// # Errors
    /// Names the key, its text and what is accepted.
    pub fn of(schema: &TableSchema) -> Result<Self> {
        let options = schema.effective_options();
        let count = |key: &str| -> Result<Option<usize>> {
            Ok(options
                .positive(key)?
                .map(|n| usize::try_from(n).unwrap_or(usize::MAX)))
        };
        let trigger = count("num-sorted-run.compaction-trigger")?.unwrap_or(5);
        let stop = count("num-sorted-run.stop-trigger")?;
        let num_levels = match count("num-levels")? {
            Some(1) => {
                return wrong(
                    &options,
                    "num-levels",
                    "must be at least 2: level 0 is never compacted into",
                );
            }
            Some(n) => n,
            None => trigger.saturating_add(1),
        };
        Ok(Self {
            trigger,
            stop_trigger: stop.unwrap_or(trigger.saturating_add(3)).max(trigger),
            num_levels,
            max_size_amplification_percent: percent(
                &options,
                "compaction.max-size-amplification-percent",
                200,
            )?,
            size_ratio: percent(&options, "compaction.size-ratio", 1)?,
            off_peak: off_peak(&options)?,
            optimization_interval_millis: options
                .duration("compaction.optimization-interval")?
                .map(|d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX)),
            total_size_threshold: options.bytes("compaction.total-size-threshold")?,
            incremental_size_threshold: options.bytes("compaction.incremental-size-threshold")?,
            lift: lift(&options, trigger)?,
            rewrite_all_files: options
                .bool("compaction.force-rewrite-all-files")?
                .unwrap_or(false),
            small_file_size: small_file_size(schema, &options)?,
        })
    }
}

fn percent(options: &Options, key: &str, default: u64) -> Result<u64> {
    match options.i32(key)? {
        None => Ok(default),
        Some(n) => match u64::try_from(n) {
            Ok(n) => Ok(n),
            Err(_) => wrong(options, key, "must be a percentage, 0 or above"),
        },
    }
}

fn off_peak(options: &Options) -> Result<Option<OffPeak>> {
    let hour = |key: &str| -> Result<Option<u8>> {
        match options.i32(key)? {
            None | Some(-1) => Ok(None),
            Some(n) => match u8::try_from(n) {
                Ok(n) if n < 24 => Ok(Some(n)),
                _ => wrong(options, key, "must be an hour from 0 to 23, or -1 for none"),
            },
        }
    };
    let start = hour("compaction.offpeak.start.hour")?;
    let end = hour("compaction.offpeak.end.hour")?;
    let ratio = percent(options, "compaction.offpeak-ratio", 0)?;
    Ok(match (start, end) {
        (Some(start_hour), Some(end_hour)) if start_hour != end_hour => Some(OffPeak {
            start_hour,
            end_hour,
            ratio,
        }),
        _ => None,
    })
}

/// Tables whose compaction looks up old rows must not leave level 0 lying.
fn lift(options: &Options, trigger: usize) -> Result<LiftLevel0> {
    let looks_up = options.word(
        "merge-engine",
        &["first-row", "deduplicate", "partial-update", "aggregation"],
    )? == Some("first-row")
        || options.word(
            "changelog-producer",
            &["lookup", "none", "input", "full-compaction"],
        )? == Some("lookup")
        || options.bool("deletion-vectors.enabled")?.unwrap_or(false)
        || options.bool("force-lookup")?.unwrap_or(false);
    if looks_up {
        return Ok(
            match options.word("lookup-compact", &["radical", "gentle"])? {
                Some("gentle") => {
                    let given = options.positive("lookup-compact.max-interval")?;
                    let interval = given.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
                    LiftLevel0::Every(interval.unwrap_or(trigger.saturating_mul(2)).max(trigger))
                }
                _ => LiftLevel0::Always,
            },
        );
    }
    Ok(
        match options
            .bool("compaction.force-up-level-0")?
            .unwrap_or(false)
        {
            true => LiftLevel0::Always,
            false => LiftLevel0::Never,
        },
    )
}

fn small_file_size(schema: &TableSchema, options: &Options) -> Result<u64> {
    let key = "compaction.small-file-ratio";
    let ratio: f64 = match options.get(key) {
        None => 0.7,
        Some(text) => match text.trim().parse::<f64>() {
            Ok(ratio) if (0.0..=1.0).contains(&ratio) => ratio,
            _ => return wrong(options, key, "must be a number from 0 to 1"),
        },
    };
    let target = TableOptions::of(schema)?.data_file.target_size;
    Ok((target as f64 * ratio) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_model::DataField;

    fn of(options: &[(&str, &str)]) -> Result<CompactionOptions> {
        let columns = vec![DataField::new("id", "INT".parse().unwrap())];
        let options = options.iter().copied().chain([("bucket", "1")]).collect();
        CompactionOptions::of(
            &TableSchema::create(columns, vec![], vec!["id".into()], options, None, 0).unwrap(),
        )
    }

    #[test]
    fn defaults_are_those_of_paimon() {
        let options = of(&[]).unwrap();
        assert_eq!(
            (options.trigger, options.stop_trigger, options.num_levels),
            (5, 8, 6)
        );
        assert_eq!(
            (options.max_size_amplification_percent, options.size_ratio),
            (200, 1)
        );
        assert_eq!((options.lift, options.off_peak), (LiftLevel0::Never, None));
        assert_eq!(options.small_file_size, (f64::from(128 << 20) * 0.7) as u64);
    }

    #[test]
    fn what_follows_from_other_options() {
        let options = of(&[
            ("num-sorted-run.compaction-trigger", "3"),
            ("num-sorted-run.stop-trigger", "2"),
        ])
        .unwrap();
        assert_eq!((options.stop_trigger, options.num_levels), (3, 4));
        for looks_up in [
            ("merge-engine", "first-row"),
            ("changelog-producer", "lookup"),
            ("deletion-vectors.enabled", "true"),
            ("force-lookup", "true"),
            ("compaction.force-up-level-0", "true"),
        ] {
            assert_eq!(
                of(&[looks_up]).unwrap().lift,
                LiftLevel0::Always,
                "{looks_up:?}"
            );
        }
        let gentle = [
            ("changelog-producer", "lookup"),
            ("lookup-compact", "gentle"),
        ];
        assert_eq!(of(&gentle).unwrap().lift, LiftLevel0::Every(10));
        let every = |n| [gentle[0], gentle[1], ("lookup-compact.max-interval", n)];
        assert_eq!(of(&every("7")).unwrap().lift, LiftLevel0::Every(7));
        assert_eq!(
            of(&every("2")).unwrap().lift,
            LiftLevel0::Every(5),
            "never below the trigger"
        );
    }

    #[test]
    fn off_peak_hours_may_wrap_midnight() {
        let day = OffPeak {
            start_hour: 8,
            end_hour: 10,
            ratio: 50,
        };
        assert_eq!([7, 8, 9, 10].map(|h| day.ratio_at(h)), [0, 50, 50, 0]);
        let night = OffPeak {
            start_hour: 22,
            end_hour: 2,
            ratio: 50,
        };
        assert_eq!(
            [21, 22, 23, 0, 1, 2].map(|h| night.ratio_at(h)),
            [0, 50, 50, 50, 50, 0]
        );
        let hours = [
            ("compaction.offpeak.start.hour", "22"),
            ("compaction.offpeak.end.hour", "2"),
        ];
        assert_eq!(of(&hours).unwrap().off_peak.unwrap().start_hour, 22);
        assert_eq!(of(&hours[..1]).unwrap().off_peak, None);
    }

    #[test]
    fn texts_that_mean_nothing_are_refused_by_key() {
        for (key, value) in [
            ("num-levels", "1"),
            ("num-sorted-run.compaction-trigger", "0"),
            ("compaction.size-ratio", "-1"),
            ("compaction.offpeak.start.hour", "24"),
            ("compaction.small-file-ratio", "1.5"),
            ("compaction.small-file-ratio", "NaN"),
            ("lookup-compact.max-interval", "soon"),
        ] {
            let all = [
                ("changelog-producer", "lookup"),
                ("lookup-compact", "gentle"),
                (key, value),
            ];
            let message = of(&all).unwrap_err().to_string();
            assert!(
                message.contains(key) && message.contains(value),
                "{message}"
            );
        }
    }
}
