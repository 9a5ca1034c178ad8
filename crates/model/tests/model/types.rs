//! The text of types.

use proptest::prelude::*;
use tidegate_model::{DataField, DataType, LogicalType};

fn reads(text: &str) -> String {
    text.parse::<DataType>()
        .unwrap_or_else(|e| panic!("{e}"))
        .to_string()
}

#[test]
fn every_accepted_form_is_spelled_as_java_does() {
    for (text, wanted) in [
        ("boolean", "BOOLEAN"),
        ("Integer", "INT"),
        ("  bigint   not\n null ", "BIGINT NOT NULL"),
        ("INT NULL", "INT"),
        ("double precision", "DOUBLE"),
        ("DECIMAL", "DECIMAL(10, 0)"),
        ("dec(5)", "DECIMAL(5, 0)"),
        ("NUMERIC(38,38)", "DECIMAL(38, 38)"),
        ("CHAR", "CHAR(1)"),
        ("varchar", "VARCHAR(1)"),
        ("VARCHAR(2147483647)", "STRING"),
        ("binary", "BINARY(1)"),
        ("VARBINARY( 3 )", "VARBINARY(3)"),
        ("VARBINARY(2147483647) NOT NULL", "BYTES NOT NULL"),
        ("TIME", "TIME(0)"),
        ("TIME(3) WITHOUT TIME ZONE", "TIME(3)"),
        ("TIMESTAMP", "TIMESTAMP(6)"),
        ("timestamp(9) without time zone", "TIMESTAMP(9)"),
        (
            "TIMESTAMP(3) with local time zone",
            "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        ),
        ("TIMESTAMP_LTZ", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("GEOMETRY", "GEOMETRY(OGC:CRS84)"),
        (
            "GEOGRAPHY(OGC:CRS84, spherical)",
            "GEOGRAPHY(OGC:CRS84, spherical)",
        ),
        ("VECTOR<FLOAT, 3>", "VECTOR<FLOAT, 3>"),
        ("INT ARRAY", "ARRAY<INT>"),
        (
            "INT NOT NULL ARRAY NOT NULL MULTISET",
            "MULTISET<ARRAY<INT NOT NULL> NOT NULL>",
        ),
        ("array<int>", "ARRAY<INT>"),
        (
            "MAP<STRING,ROW<a INT NOT NULL>>",
            "MAP<STRING, ROW<`a` INT NOT NULL>>",
        ),
        (
            "ROW<a INT 'it''s', `b c` STRING COMMENT 'x'>",
            "ROW<`a` INT COMMENT 'it''s', `b c` STRING COMMENT 'x'>",
        ),
        (
            "ROW(a INT, b ROW<c DATE> NOT NULL)",
            "ROW<`a` INT, `b` ROW<`c` DATE> NOT NULL>",
        ),
        ("ROW<größe INT>", "ROW<`größe` INT>"),
        ("ROW<>", "ROW<>"),
    ] {
        assert_eq!(reads(text), wanted, "{text}");
        assert_eq!(reads(wanted), wanted, "{text}");
    }
}

#[test]
fn errors_say_where_and_what_is_expected() {
    for (text, wanted) in [
        (
            "",
            "at character 0: expected a type such as BIGINT, STRING or ARRAY<INT>, found the end of the text",
        ),
        (
            "TEXT",
            "at character 0: expected a type such as BIGINT, STRING or ARRAY<INT>, found 'TEXT'",
        ),
        ("INT NOT", "at character 7: expected NULL"),
        (
            "INT UNSIGNED",
            "at character 4: expected the end of the type, found 'UNSIGNED'",
        ),
        (
            "DECIMAL(39)",
            "at character 8: expected a number from 1 to 38, found '39'",
        ),
        (
            "DECIMAL(5,6)",
            "at character 10: expected a number from 0 to 5",
        ),
        (
            "TIMESTAMP(10)",
            "at character 10: expected a number from 0 to 9",
        ),
        (
            "TIMESTAMP(3) WITH TIME ZONE",
            "at character 18: expected LOCAL, found 'TIME'",
        ),
        (
            "VARCHAR(99999999999)",
            "at character 8: expected a number up to 2147483647",
        ),
        ("CHAR(0)", "expected a number from 1 to"),
        (
            "ARRAY<INT",
            "at character 9: expected '>', found the end of the text",
        ),
        ("MAP<INT>", "at character 7: expected ','"),
        (
            "ROW<a INT, a INT>",
            "at character 11: expected a field name that has not occurred yet",
        ),
        ("ROW<a INT 'x>", "expected a closing '"),
        ("INTÄ", "found 'INTÄ'"),
    ] {
        let error = text.parse::<DataType>().unwrap_err().to_string();
        assert!(error.contains(wanted), "{text}: {error}");
    }
}

#[test]
fn depth_is_bounded() {
    let nested = |n: usize| format!("{}INT{}", "ARRAY<".repeat(n), ">".repeat(n));
    assert!(nested(60).parse::<DataType>().is_ok());
    assert!(nested(70).parse::<DataType>().is_err());
    assert!(nested(100_000).parse::<DataType>().is_err());
    let suffixes = |n: usize| format!("INT{}", " ARRAY".repeat(n));
    assert!(suffixes(60).parse::<DataType>().is_ok());
    assert!(suffixes(100_000).parse::<DataType>().is_err());
    assert!(
        format!(
            "{}INT{}{}",
            "ARRAY<".repeat(40),
            ">".repeat(40),
            " ARRAY".repeat(40)
        )
        .parse::<DataType>()
        .is_err()
    );
}

#[test]
fn ids_are_given_depth_first() {
    // [F-2.2]: r = 5, a = 6, b = 7, m = 8.
    let mut fields = [
        DataField::new("r", "ROW<a INT, b ARRAY<STRING>>".parse().unwrap()),
        DataField::new("m", "MAP<INT, ROW<x INT>>".parse().unwrap()),
    ];
    let next = fields.iter_mut().fold(5, |next, f| f.assign_ids(next));
    assert_eq!((fields[0].id.0, fields[1].id.0, next), (5, 8, 10));
    assert_eq!(fields[0].highest_id().0, 7);
    assert_eq!(fields[1].highest_id().0, 9);
}

#[test]
fn same_as_ignores_ids_and_comments_only() {
    let a: DataType = "ROW<a INT, b ARRAY<ROW<c STRING>>>".parse().unwrap();
    let mut b: DataType = "ROW<a INT 'comment', b ARRAY<ROW<c STRING>>>"
        .parse()
        .unwrap();
    b.assign_ids(40);
    assert_ne!(a, b);
    assert!(a.same_as(&b));
    for other in [
        "ROW<a INT, b ARRAY<ROW<c STRING NOT NULL>>>",
        "ROW<a INT>",
        "ROW<a INT, x ARRAY<ROW<c STRING>>>",
    ] {
        assert!(!a.same_as(&other.parse().unwrap()), "{other}");
    }
}

#[test]
fn validation_covers_types_that_were_not_parsed() {
    for bad in [
        LogicalType::Decimal {
            precision: 0,
            scale: 0,
        },
        LogicalType::Decimal {
            precision: 5,
            scale: 6,
        },
        LogicalType::Char(0),
        LogicalType::Timestamp(10),
        LogicalType::Array(Box::new(DataType::nullable(LogicalType::Time(10)))),
    ] {
        assert!(bad.validate().is_err(), "{bad}");
    }
    let mut deep = LogicalType::Int;
    for _ in 0..100 {
        deep = LogicalType::Array(Box::new(DataType::nullable(deep)));
    }
    assert!(deep.validate().is_err());
}

fn any_type() -> impl Strategy<Value = DataType> {
    let leaf = prop_oneof![
        Just(LogicalType::Boolean),
        Just(LogicalType::Int),
        Just(LogicalType::STRING),
        Just(LogicalType::Date),
        Just(LogicalType::Variant),
        (1u32..=2_147_483_647).prop_map(LogicalType::VarChar),
        (1u32..=2_147_483_647).prop_map(LogicalType::Binary),
        (1u8..=38)
            .prop_flat_map(|p| (Just(p), 0..=p))
            .prop_map(|(precision, scale)| LogicalType::Decimal { precision, scale }),
        (0u8..=9).prop_map(LogicalType::TimestampLtz),
        (0u8..=9).prop_map(LogicalType::Time),
    ];
    let data_type =
        (leaf, any::<bool>()).prop_map(|(logical, nullable)| DataType { logical, nullable });
    data_type.prop_recursive(4, 30, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let constructed = prop_oneof![
            boxed.clone().prop_map(LogicalType::Array),
            boxed.clone().prop_map(LogicalType::Multiset),
            (boxed.clone(), boxed.clone()).prop_map(|(k, v)| LogicalType::Map(k, v)),
            prop::collection::btree_map(".{0,6}", (inner, prop::option::of(".{0,6}")), 0..4)
                .prop_map(|fields| {
                    LogicalType::Row(
                        fields
                            .into_iter()
                            .map(|(name, (data_type, description))| DataField {
                                description,
                                ..DataField::new(name, data_type)
                            })
                            .collect(),
                    )
                }),
        ];
        (constructed, any::<bool>()).prop_map(|(logical, nullable)| DataType { logical, nullable })
    })
}

proptest! {
    #[test]
    fn type_text_round_trips(mut t in any_type()) {
        t.assign_ids(0);
        prop_assert_eq!(t.to_string().parse::<DataType>().unwrap(), t);
    }

    #[test]
    fn arbitrary_text_never_panics(text in ".{0,60}") {
        let _ = text.parse::<DataType>();
    }

    #[test]
    fn near_types_never_panic(text in "(ROW|MAP|ARRAY|INT|DECIMAL|NOT|NULL|<|>|\\(|\\)|,| |`|'|a|7){0,20}") {
        let _ = text.parse::<DataType>();
    }
}
