//! Hashes and buckets against Java's.

use crate::support::{data_type, golden, hex, list};
use tidegate_model::BinaryRow;
use tidegate_model::bucket::{BucketFunction, hash};

#[test]
fn the_hash_is_javas_for_every_length() {
    for case in list(&golden("murmur.json")) {
        let bytes = hex(case["bytes"].as_str().unwrap());
        assert_eq!(i64::from(hash(&bytes)), case["hashBytes"].as_i64().unwrap());
        if let Some(words) = case["hashBytesByWords"].as_i64() {
            assert_eq!(i64::from(hash(&bytes)), words);
        }
    }
}

#[test]
fn every_row_of_java_lands_in_javas_bucket() {
    let mut answers = 0;
    for group in list(&golden("binary-row.json")) {
        let types: Vec<_> = list(&group["types"])
            .iter()
            .map(|t| data_type(t.as_str().unwrap()))
            .collect();
        for case in list(&group["rows"]) {
            let row = hex(case["row"].as_str().unwrap());
            assert_eq!(i64::from(hash(&row)), case["hash"].as_i64().unwrap());
            for (name, buckets) in case["buckets"].as_object().unwrap() {
                let function = BucketFunction::from_option(name).unwrap();
                for (count, wanted) in buckets.as_object().unwrap() {
                    let got = function.bucket(&row, &types, count.parse().unwrap());
                    match wanted.as_i64() {
                        Some(wanted) => {
                            assert_eq!(i64::from(got.unwrap()), wanted, "{name} {count} {case}");
                        }
                        None => assert!(got.is_err(), "{name} {types:?} {got:?}"),
                    }
                    answers += 1;
                }
            }
        }
    }
    assert!(answers > 10_000, "{answers}");
}

/// The table of [F-7.2]: key, hash, buckets of 4, 5 and 16, mod of 4 and 5, hive of 4 and 16.
#[test]
fn the_table_of_the_format_sheet_holds() {
    let table = [
        "INT|01000000 00000000|1465514398|2 3 14|1 1|1 1",
        "INT|ffffffff 00000000|1133687267|3 2 3|3 4|3 15",
        "INT|null|-1748325344|0 4 0|0 0|0 0",
        "BIGINT|2a00000000000000|907821237|1 2 5|2 2|2 10",
        "BIGINT|fdffffffffffffff|-1512827124|0 4 4|1 2|2 2",
        "STRING|68656c6c6f000085|243722546|2 1 2|-|2 2",
        "STRING|0000000000000080|302122119|3 4 7|-|0 0",
        "STRING|6162636465666787|-1431907323|3 3 11|-|0 4",
        "STRING|0800000010000000 6162636465666768|-843760178|2 3 2|-|0 4",
        "STRING|0b00000010000000 68656c6c6f20776f726c640000000000|161593394|2 4 2|-|0 4",
        "BOOLEAN|0100000000000000|1465514398|2 3 14|-|1 1",
        "TINYINT|fe00000000000000|1831745471|3 1 15|-|2 14",
        "SMALLINT|2c01000000000000|690796707|3 2 3|-|0 12",
        "FLOAT|0000c03f00000000|-173842779|3 4 11|-|0 0",
        "DATE|0b4d000000000000|-1439008885|1 0 5|-|3 11",
        "DECIMAL(10,2)|3930000000000000|767607022|2 2 14|-|1 9",
        "DECIMAL(20,2)|0200000010000000 30390000000000000000000000000000|-118192725|1 0 5|-|1 9",
        "DECIMAL(20,2)|null 0000000010000000 00000000000000000000000000000000|-1380280760|0 0 8|-|0 0",
        "TIMESTAMP(3)|7bf451c28c010000|985649424|0 4 0|-|-",
        "TIMESTAMP(6)|40f5060010000000 7bf451c28c010000|941252157|1 2 13|-|-",
        "TIMESTAMP(6)|null 0000000010000000 0000000000000000|-340882661|1 1 5|-|0 0",
        "BYTES|cafebabe00000084|323831486|2 1 14|-|0 8",
    ];
    for line in table {
        let columns: Vec<_> = line.split('|').collect();
        let types = [data_type(columns[0])];
        let row = match columns[1].strip_prefix("null") {
            Some("") => hex("0001000000000000 0000000000000000"),
            Some(rest) => hex(&format!("0001000000000000 {rest}")),
            None => hex(&format!("0000000000000000 {}", columns[1])),
        };
        assert_eq!(hash(&row).to_string(), columns[2], "{line}");
        for (function, counts, wanted) in [
            (BucketFunction::Default, &[4, 5, 16][..], columns[3]),
            (BucketFunction::Mod, &[4, 5], columns[4]),
            (BucketFunction::Hive, &[4, 16], columns[5]),
        ] {
            let got: Result<Vec<_>, _> = counts
                .iter()
                .map(|n| function.bucket(&row, &types, *n))
                .collect();
            let got = got.map_or("-".to_owned(), |b| {
                b.iter().map(i32::to_string).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(got, wanted, "{line}");
        }
    }
    assert_eq!(hash(BinaryRow::empty().bytes()), -1_670_924_195);
}

#[test]
fn a_function_says_beforehand_which_keys_it_does_not_know() {
    let types = |list: &[&str]| list.iter().map(|t| data_type(t)).collect::<Vec<_>>();
    assert_eq!(
        BucketFunction::Default.unfit(&types(&["TIMESTAMP(9)", "DOUBLE"])),
        None
    );
    assert_eq!(BucketFunction::Mod.unfit(&types(&["BIGINT"])), None);
    assert!(BucketFunction::Mod.unfit(&types(&["STRING"])).is_some());
    assert!(BucketFunction::Mod.unfit(&types(&["INT", "INT"])).is_some());
    assert!(
        BucketFunction::Hive
            .unfit(&types(&["INT", "TIMESTAMP(3)"]))
            .is_some()
    );
    let error = BucketFunction::from_option("md5").unwrap_err().to_string();
    assert_eq!(
        error,
        "option 'bucket-function.type' = 'md5': must be default, mod or hive"
    );
    assert!(BucketFunction::Default.bucket(&[0; 8], &[], 0).is_err());
}
