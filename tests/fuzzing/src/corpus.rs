//! Seeds as a corpus: between them they reach every variant of their decoder's error.

use crate::sweep::{Change, Quiet, each, read};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// With this in the environment, a seed is written for each variant that only a changed seed reaches.
const WRITE: &str = "TIDEGATE_WRITE_SEEDS";

/// Changed copies of all seeds of a target at most: [`sweep`](crate::sweep) tries more, and this must be quick.
const MOST: usize = 400;

/// The variants of errors, as [`variants!`](crate::variants) names them, that the seeds of `target` reach as
/// they are. `errors` runs the decoder and gives the variants of what it said.
///
/// # Panics
///
/// Where a seed that is cut or changed reaches one that no seed reaches as it is.
#[allow(clippy::panic, reason = "a panic is how a check reports")]
pub fn reached(
    folder: &str,
    target: &str,
    errors: impl Fn(&[u8]) -> Vec<&'static str>,
) -> BTreeSet<&'static str> {
    let folder = Path::new(folder).join("fuzz/seeds").join(target);
    let seeds = match read(&folder) {
        Ok(seeds) => seeds,
        Err(e) => panic!("{}: {e}", folder.display()),
    };
    let quiet = Quiet::begin();
    let mut reached = BTreeSet::new();
    let mut changed: BTreeMap<&'static str, (String, Vec<u8>)> = BTreeMap::new();
    each(&seeds, MOST, |seed, change, input| {
        for variant in errors(input) {
            if change == Change::Nothing {
                reached.insert(variant);
                continue;
            }
            let shorter = |known: &(String, Vec<u8>)| input.len() < known.1.len();
            if changed.get(variant).is_none_or(shorter) {
                changed.insert(variant, (format!("{seed}, {change}"), input.to_vec()));
            }
        }
    });
    // What is said from here on is to be heard.
    drop(quiet);
    changed.retain(|variant, _| !reached.contains(variant));
    if std::env::var_os(WRITE).is_some() {
        for (variant, (_, input)) in &changed {
            let name = folder.join(format!("error-{}", variant.to_lowercase()));
            if let Err(e) = fs::write(&name, input) {
                panic!("{}: {e}", name.display());
            }
            reached.insert(variant);
        }
        changed.clear();
    }
    let missing: Vec<String> = changed
        .iter()
        .map(|(variant, (how, _))| format!("{variant} ({how})"))
        .collect();
    assert!(
        missing.is_empty(),
        "no seed of {target} reaches {}; run this with {WRITE}=1 and commit what it writes",
        missing.join(", ")
    );
    reached
}

/// Gives every variant of an error its name, and says which of them decoders give: `variants!(Error { A, B(..)
/// } elsewhere { C { .. } })` makes `name(&Error) -> &'static str`, `DECODERS` and `ELSEWHERE`. A new variant does not compile until
/// it stands there.
#[macro_export]
macro_rules! variants {
    (
        $error:ident {
            $($seen:ident $({ $($sf:tt)* })? $(( $($st:tt)* ))?),* $(,)?
        } elsewhere {
            $($other:ident $({ $($of:tt)* })? $(( $($ot:tt)* ))?),* $(,)?
        }
    ) => {
        /// Which variant it is.
        fn name(error: &$error) -> &'static str {
            match error {
                $($error::$seen $({ $($sf)* })? $(( $($st)* ))? => stringify!($seen),)*
                $($error::$other $({ $($of)* })? $(( $($ot)* ))? => stringify!($other),)*
            }
        }
        /// What decoders give.
        const DECODERS: &[&str] = &[$(stringify!($seen)),*];
        /// What others give.
        #[allow(dead_code, reason = "not every error has such")]
        const ELSEWHERE: &[&str] = &[$(stringify!($other)),*];
    };
}

#[cfg(test)]
mod tests {
    use super::reached;
    use std::fs;

    enum Wrong {
        Short,
        Odd { byte: u8 },
        Elsewhere,
    }
    crate::variants!(Wrong { Short, Odd { .. } } elsewhere { Elsewhere });

    fn errors(input: &[u8]) -> Vec<&'static str> {
        let found = match input {
            [_, _, ..] => input
                .iter()
                .find(|b| **b >= 0x80)
                .map(|byte| Wrong::Odd { byte: *byte }),
            _ => Some(Wrong::Short),
        };
        if let Some(Wrong::Odd { byte }) = &found {
            assert!(*byte >= 0x80);
        }
        found.iter().map(name).collect()
    }

    #[test]
    fn a_variant_that_only_a_changed_seed_reaches_is_missed() {
        let folder = std::env::temp_dir().join(format!("corpus-{}", std::process::id()));
        fs::create_dir_all(folder.join("fuzz/seeds/t")).unwrap();
        let put = |name: &str, bytes: &[u8]| {
            fs::write(folder.join("fuzz/seeds/t").join(name), bytes).unwrap()
        };
        let path = folder.to_str().unwrap().to_owned();
        put("good", b"abcd");
        let all = || std::panic::catch_unwind(|| reached(&path, "t", errors));
        let said = *all().unwrap_err().downcast::<String>().unwrap();
        assert!(
            said.contains("Short (good, cut at byte 0)") && said.contains("Odd"),
            "{said}"
        );
        put("short", b"");
        put("odd", b"a\xff");
        let found: Vec<_> = all().unwrap().into_iter().collect();
        fs::remove_dir_all(folder).unwrap();
        assert_eq!(found, ["Odd", "Short"]);
        assert_eq!(
            (DECODERS, ELSEWHERE),
            (&["Short", "Odd"][..], &["Elsewhere"][..])
        );
        assert_eq!(name(&Wrong::Elsewhere), "Elsewhere");
    }
}
