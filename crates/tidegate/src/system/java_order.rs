//! The order in which a Java `HashMap` gives its entries, since `$schemas` shows options in it.

/// Smallest number of bins.
const BINS: usize = 16;

/// Sorts `entries`, which are in the order of insertion, by the bin of their key.
///
/// Bins double while more than three quarters as many entries are in; entries of a bin keep their
/// order. Eight entries in one bin of a large map would become a tree: no list of options comes near.
pub(super) fn in_java_order<T>(entries: &mut [T], key: impl Fn(&T) -> &str) {
    let mut bins = BINS;
    while entries.len() > bins / 4 * 3 {
        bins *= 2;
    }
    entries.sort_by_key(|entry| {
        let hash = hash_code(key(entry));
        (hash ^ (hash >> 16)) as usize & (bins - 1)
    });
}

/// `String.hashCode`, as its bits.
fn hash_code(text: &str) -> u32 {
    let units = text.encode_utf16();
    units.fold(0, |hash: u32, unit| {
        hash.wrapping_mul(31).wrapping_add(u32::from(unit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_javas() {
        assert_eq!(hash_code(""), 0);
        assert_eq!(hash_code("Aa"), 2112);
        assert_eq!(hash_code("BB"), 2112);
        assert_eq!(hash_code("file.compression"), 3_584_404_468);
    }

    #[test]
    fn entries_of_one_bin_keep_their_order_and_more_entries_have_more_bins() {
        let ordered = |names: &[&'static str]| {
            let mut names = names.to_vec();
            in_java_order(&mut names, |n| n);
            names.join(" ")
        };
        assert_eq!(ordered(&["BB", "Aa"]), "BB Aa");
        assert_eq!(ordered(&["Aa", "BB"]), "Aa BB");
        // `q` is bin 1 of 16, and 17 of 32.
        assert_eq!(ordered(&["b", "q"]), "q b");
        let many = [
            "q", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m",
        ];
        assert_eq!(ordered(&many), "b c d e f g h i j k l m q");
    }
}
