//! Bounds: cutting, order, and statistics over partitions.

use crate::support::{base64, data_type, datum, golden, list};
use proptest::prelude::*;
use std::cmp::Ordering;
use tidegate_model::statistics::{StatsCollector, truncate_max, truncate_max_bytes, truncate_min};
use tidegate_model::{BinaryRow, Datum, LogicalType, SimpleStats, StatsMode};

#[test]
fn bounds_are_cut_as_java_cuts_them() {
    let mut seen = 0;
    for case in list(&golden("stats-truncation.json")) {
        let t = data_type(case["type"].as_str().unwrap());
        let n = case["length"].as_u64().unwrap() as usize;
        let values: Vec<_> = list(&case["values"])
            .iter()
            .filter_map(|v| datum(v, &t))
            .collect();
        // Java's collector keeps no bounds of byte strings at all; its Parquet reader does, cut by
        // the rule of [F-4.4], and so do we.
        // Java steps from U+D7FF onto a surrogate, which its encoder turns into '?': a maximum below
        // its value. Ours is U+E000 (B55).
        let surrogate = case["max"].as_str().is_some_and(|m| m.ends_with('?'));
        if surrogate || matches!(t, LogicalType::VarBinary(_)) || values.is_empty() {
            continue;
        }
        let min = values.iter().cloned().reduce(|a, b| {
            if b.compare(&a) == Some(Ordering::Less) {
                b
            } else {
                a
            }
        });
        let max = values.iter().cloned().reduce(|a, b| {
            if b.compare(&a) == Some(Ordering::Greater) {
                b
            } else {
                a
            }
        });
        let got = StatsMode::Truncate(n).bounds(min.unwrap(), max.unwrap());
        let wanted = datum(&case["min"], &t).zip(datum(&case["max"], &t));
        assert_eq!(got, wanted, "{case}");
        seen += 1;
    }
    assert!(seen > 60, "{seen}");
}

/// B55: every file of the case.
#[test]
fn long_bounds_are_never_below_their_values_nor_invalid() {
    let max = |text: &str| truncate_max(text, 16);
    assert_eq!(
        max(&format!("{}•text", "a".repeat(15))),
        Some(format!("{}‣", "a".repeat(15)))
    );
    assert_eq!(max(&"a".repeat(17)), Some(format!("{}b", "a".repeat(15))));
    assert_eq!(
        max(&"\u{d7ff}".repeat(20)),
        Some(format!("{}\u{e000}", "\u{d7ff}".repeat(15)))
    );
    assert_eq!(max(&"\u{10ffff}".repeat(20)), None);
    assert_eq!(
        max(&format!("b{}", "\u{10ffff}".repeat(20))),
        Some("c".to_owned())
    );
    assert_eq!(
        max(&"🦀".repeat(20)),
        Some(format!("{}🦁", "🦀".repeat(15)))
    );
    assert_eq!(max(""), Some(String::new()));
    assert_eq!(
        max(&"x".repeat(1 << 20)),
        Some(format!("{}y", "x".repeat(15)))
    );
    assert_eq!(truncate_min(&"🦀".repeat(20), 16), "🦀".repeat(16));
    assert_eq!(truncate_max_bytes(&[0xff; 20], 16), None);
    assert_eq!(truncate_max_bytes(&[0xff; 16], 16), Some(vec![0xff; 16]));
    assert_eq!(truncate_max_bytes(&[1, 0xff, 0xff], 2), Some(vec![2]));
    // Where the upper bound is impossible the lower one goes too.
    let all = Datum::String("\u{10ffff}".repeat(20));
    assert_eq!(
        StatsMode::Truncate(16).bounds(all.clone(), all.clone()),
        None
    );
    assert_eq!(
        StatsMode::Full.bounds(all.clone(), all.clone()),
        Some((all.clone(), all.clone()))
    );
    assert_eq!(StatsMode::Counts.bounds(all.clone(), all), None);
}

#[test]
fn values_are_ordered_as_java_orders_keys() {
    for case in list(&golden("key-order.json")) {
        let t = data_type(case["type"].as_str().unwrap());
        // Keys of these two compare by < and > only [F-14.1]; statistics by compareTo.
        if matches!(t, LogicalType::Float | LogicalType::Double) {
            continue;
        }
        let values: Vec<_> = list(&case["values"]).iter().map(|v| datum(v, &t)).collect();
        for (a, signs) in values.iter().zip(list(&case["signs"])) {
            for (b, sign) in values.iter().zip(list(signs)) {
                if let (Some(a), Some(b)) = (a, b) {
                    assert_eq!(
                        a.compare(b).unwrap() as i64,
                        sign.as_i64().unwrap(),
                        "{t} {a:?} {b:?}"
                    );
                }
            }
        }
    }
    let order = |a: f64, b: f64| Datum::Double(a).compare(&Datum::Double(b)).unwrap();
    assert_eq!(order(f64::NAN, f64::INFINITY), Ordering::Greater);
    assert_eq!(order(-f64::NAN, f64::NAN), Ordering::Equal);
    assert_eq!(order(-0.0, 0.0), Ordering::Less);
    assert_eq!(Datum::Int(1).compare(&Datum::BigInt(1)), None);
}

#[test]
fn modes_round_trip() {
    for text in ["none", "counts", "full", "truncate(16)"] {
        assert_eq!(StatsMode::parse(text).unwrap().to_string(), text);
    }
    assert_eq!(
        StatsMode::parse(" Truncate( 3 ) "),
        Some(StatsMode::Truncate(3))
    );
    for bad in [
        "",
        "truncate",
        "truncate(-1)",
        "truncate(0)",
        "truncate(99999999999)",
        "some",
    ] {
        assert_eq!(StatsMode::parse(bad), None, "{bad}");
    }
}

#[test]
fn partition_statistics_are_exact_and_count_nulls() {
    let types = vec![LogicalType::STRING, LogicalType::Int];
    let row = |s: Option<&str>, n| {
        BinaryRow::from_datums(
            &[s.map(|s| Datum::String(s.into())), Some(Datum::Int(n))],
            &types,
        )
        .unwrap()
    };
    let mut stats = StatsCollector::new(types.clone());
    for r in [
        row(Some("b"), 3),
        row(None, -3),
        row(Some("a long text, longer than sixteen"), 0),
    ] {
        stats.add(&r).unwrap();
    }
    assert!(stats.add(&BinaryRow::empty()).is_err());
    let stats = stats.finish().unwrap();
    assert_eq!(
        stats.min_values,
        row(Some("a long text, longer than sixteen"), -3)
    );
    assert_eq!(stats.max_values, row(Some("b"), 3));
    assert_eq!(stats.null_counts, Some(vec![Some(1), Some(0)]));
    assert_eq!(
        StatsCollector::new(vec![]).finish().unwrap(),
        SimpleStats::empty()
    );
}

#[test]
fn base64_of_the_vectors_is_read_right() {
    assert_eq!(base64("/////w=="), [0xff; 4]);
}

proptest! {
    #[test]
    fn cut_text_bounds_hold(text in any::<String>(), n in 1usize..20) {
        let min = truncate_min(&text, n);
        prop_assert!(min <= text.as_str() && min.chars().count() <= n);
        if let Some(max) = truncate_max(&text, n) {
            prop_assert!(text <= max && max.chars().count() <= n);
        } else {
            prop_assert!(text.chars().take(n).all(|c| c == char::MAX));
        }
    }

    #[test]
    fn cut_byte_bounds_hold(bytes in prop::collection::vec(prop_oneof![Just(0xffu8), any::<u8>()], 0..24), n in 1usize..20) {
        match truncate_max_bytes(&bytes, n) {
            Some(max) => prop_assert!(bytes <= max && max.len() <= n),
            None => prop_assert!(bytes[..n].iter().all(|b| *b == 0xff)),
        }
    }
}
