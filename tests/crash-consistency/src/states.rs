//! Every state that a disk may be in after a power failure, each once.
//!
//! Owns what is enumerated and what is cut: after every call, subsets of the operations that are not
//! durable, times what of un-synced data is there.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::call::{Call, Name};
use crate::disk::{Data, Disk, Inode, Misfit, Rule};
use crate::judge::Duty;
use crate::tree::{Blob, Tree, hash, is_temporary};

/// How much is enumerated.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// All subsets of up to so many pending operations; of more of them: none, all, each one alone,
    /// each one left out, pairs of these, and random subsets.
    pub all_subsets: usize,
    /// Whether pairs are taken.
    pub pairs: bool,
    /// Random subsets beyond that.
    pub random: usize,
    /// All combinations of contents up to so many; of more: all files alike, each file once
    /// different, and as many random ones.
    pub contents: usize,
    /// Of the states that appear with a call, as readers see them, so many are kept.
    pub most: usize,
    /// Calls before this one are made and no state is taken there.
    pub from: usize,
    /// Of the random subsets.
    pub seed: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            all_subsets: 8,
            pairs: true,
            random: 64,
            contents: 256,
            most: usize::MAX,
            from: 0,
            seed: 20_261_130,
        }
    }
}

/// How to make a state: the first so many calls, these of the pending operations, these contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Calls that were made before the power failed.
    pub calls: usize,
    /// Which of the operations that were not durable came through.
    pub kept: Vec<bool>,
    /// What there is of files whose data was not durable.
    pub data: Vec<(Inode, Data)>,
}

/// A state as readers see it: temporary files do not count.
#[derive(Clone, Debug)]
pub struct Seen {
    /// One of the trees that look so.
    pub tree: Tree,
    /// How it comes about; where in several ways, the one with the largest duty.
    pub choice: Choice,
    /// What had been acknowledged by then.
    pub duty: Duty,
}

/// What was enumerated.
#[derive(Debug, Default)]
pub struct Explored {
    /// States, the same tree in different ways counted each.
    pub states: u64,
    /// Different trees.
    pub trees: u64,
    /// Trees that differ in more than temporary files, by their hash.
    pub seen: BTreeMap<u128, Seen>,
    /// Points at which only a part of the subsets or contents was taken.
    pub cut: u64,
    /// Most operations that were pending at once.
    pub pending: usize,
    /// One of each different tree, temporary files included, evenly spread: for restarts.
    pub sample: Vec<Choice>,
}

/// Enumerates the states of a recorded run.
///
/// # Errors
/// [`Misfit`] where the record cannot have happened.
pub fn explore(disk: &Disk, calls: &[Call], bounds: &Bounds) -> Result<Explored, Misfit> {
    let mut disk = disk.clone();
    let mut random = SmallRng::seed_from_u64(bounds.seed);
    let mut found = Explored::default();
    let mut known: HashSet<u128> = HashSet::new();
    let mut names = Names::default();
    let mut duty = Duty::default();
    let mut progress = Progress::default();
    for made in 0..=calls.len() {
        if let Some(call) = made.checked_sub(1).map(|last| &calls[last]) {
            disk.apply(call)?;
            progress.made(call);
            duty = progress.duty(call, duty);
        }
        if made < bounds.from {
            continue;
        }
        let pending = disk.pending().len();
        found.pending = found.pending.max(pending);
        let (subsets, all) = subsets(pending, disk.rule(), bounds, &mut random);
        let mut cut = !all;
        let before = found.seen.len();
        for kept in subsets {
            let entries = disk.names(&kept);
            let mut dirty: Vec<Dirty<'_>> = Vec::new();
            let (mut whole, mut visible) = (0u128, 0u128);
            for (name, inode) in &entries {
                let contents = inode.map(|inode| (inode, disk.contents(inode)));
                let blob = match contents {
                    None => None,
                    Some((inode, contents)) if contents.len() > 1 => {
                        dirty.push((name, inode, contents));
                        continue;
                    }
                    Some((_, contents)) => contents.first().map(|(_, blob)| blob.hash),
                };
                let hash = names.hash(name, blob);
                whole = whole.wrapping_add(hash);
                if !is_temporary(name) {
                    visible = visible.wrapping_add(hash);
                }
            }
            let files: Vec<Inode> = dirty.iter().map(|(_, inode, _)| *inode).collect();
            let counts: Vec<usize> = dirty.iter().map(|(.., contents)| contents.len()).collect();
            let (combinations, all) = combinations(&files, &counts, bounds, &mut random);
            cut |= !all;
            for picks in combinations {
                let (mut whole, mut visible) = (whole, visible);
                for ((name, _, contents), pick) in dirty.iter().zip(&picks) {
                    let hash = names.hash(name, Some(contents[*pick].1.hash));
                    whole = whole.wrapping_add(hash);
                    if !is_temporary(name) {
                        visible = visible.wrapping_add(hash);
                    }
                }
                found.states += 1;
                let new = known.insert(whole);
                let choice = || Choice {
                    calls: made,
                    kept: kept.clone(),
                    data: dirty
                        .iter()
                        .zip(&picks)
                        .map(|((_, inode, contents), pick)| (*inode, contents[*pick].0))
                        .collect(),
                };
                if new {
                    found.trees += 1;
                    found.sample.push(choice());
                }
                let full = found.seen.len() >= before.saturating_add(bounds.most);
                match found.seen.get_mut(&visible) {
                    Some(seen) if seen.duty == duty => {}
                    // Duties grow along the calls.
                    Some(seen) => {
                        seen.duty = duty;
                        seen.choice = choice();
                    }
                    None if full => cut = true,
                    None => {
                        let choice = choice();
                        let tree = tree(&disk, &choice);
                        let seen = Seen { tree, choice, duty };
                        found.seen.insert(visible, seen);
                    }
                }
            }
        }
        found.cut += u64::from(cut);
    }
    Ok(found)
}

/// Makes the state of a choice.
///
/// # Errors
/// [`Misfit`]
pub fn state(disk: &Disk, calls: &[Call], choice: &Choice) -> Result<Tree, Misfit> {
    Ok(tree(&at(disk, calls, choice)?, choice))
}

/// A choice in words: where the power failed, what came through and what did not.
///
/// # Errors
/// [`Misfit`]
pub fn words(disk: &Disk, calls: &[Call], choice: &Choice) -> Result<String, Misfit> {
    let last = choice.calls.checked_sub(1).map(|last| &calls[last]);
    let mut text = match last {
        Some(last) => format!("power failed after call {}, {last}", choice.calls),
        None => "power failed before the first call".to_owned(),
    };
    for line in at(disk, calls, choice)?.describe(calls, &choice.kept, &choice.data) {
        text.push_str("\n      ");
        text.push_str(&line);
    }
    Ok(text)
}

fn at(disk: &Disk, calls: &[Call], choice: &Choice) -> Result<Disk, Misfit> {
    let mut disk = disk.clone();
    for call in &calls[..choice.calls] {
        disk.apply(call)?;
    }
    Ok(disk)
}

fn tree(disk: &Disk, choice: &Choice) -> Tree {
    let data: HashMap<Inode, Data> = choice.data.iter().copied().collect();
    let names = disk.names(&choice.kept).into_iter();
    let content = |inode| disk.content(inode, data.get(&inode).copied().unwrap_or(Data::New));
    Tree(
        names
            .map(|(name, inode)| (name, inode.map(content)))
            .collect(),
    )
}

/// A name of a file with data that is not durable, and what it may hold.
type Dirty<'a> = (&'a Name, Inode, Vec<(Data, Blob)>);

/// Hashes of names with a content, remembered.
#[derive(Default)]
struct Names(HashMap<(Name, Option<u128>), u128>);

impl Names {
    fn hash(&mut self, name: &Name, blob: Option<u128>) -> u128 {
        let key = (name.clone(), blob);
        *self.0.entry(key).or_insert_with_key(|key| hash(key))
    }
}

/// What the process has made and acknowledged so far.
#[derive(Default)]
struct Progress {
    record: Option<u64>,
    snapshot: Option<u64>,
    ended: bool,
}

impl Progress {
    fn made(&mut self, call: &Call) {
        if let Call::Link { to, .. } | Call::Rename { to, .. } = call {
            let last = to.rsplit('/').next().unwrap_or(to);
            let number = |prefix| last.strip_prefix(prefix).and_then(|n| n.parse().ok());
            self.record = number("checkpoint-").or(self.record);
            self.snapshot = number("snapshot-").or(self.snapshot);
            // A start that finds nothing new marks nothing.
            self.ended |= last.starts_with("ended-");
        }
    }

    /// A mark promises what was made before it.
    fn duty(&self, call: &Call, before: Duty) -> Duty {
        let Call::Mark { name } = call else {
            return before;
        };
        match &**name {
            "recorded" => Duty {
                record: self.record.max(before.record),
                ..before
            },
            "published" | "answered" | "notified" => Duty {
                snapshot: self.snapshot.max(before.snapshot),
                ..before
            },
            Call::ENDED => Duty {
                record: self.record.max(before.record),
                snapshot: self.snapshot.max(before.snapshot),
                ended: self.ended,
            },
            _ => before,
        }
    }
}

/// Subsets of so many operations, and whether these are all that the rule permits.
fn subsets(n: usize, rule: Rule, bounds: &Bounds, random: &mut SmallRng) -> (Vec<Vec<bool>>, bool) {
    if rule == Rule::Journal {
        let prefix = |kept: usize| (0..n).map(|at| at < kept).collect();
        return ((0..=n).map(prefix).collect(), true);
    }
    if n <= bounds.all_subsets {
        let of = |bits: usize| (0..n).map(|at| bits >> at & 1 == 1).collect();
        return ((0..1usize << n).map(of).collect(), true);
    }
    let mut found: Vec<Vec<bool>> = Vec::new();
    for all in [false, true] {
        found.push(vec![all; n]);
        for one in 0..n {
            let mut subset = vec![all; n];
            subset[one] = !all;
            found.push(subset.clone());
            for two in (one + 1..n).filter(|_| bounds.pairs) {
                let mut pair = subset.clone();
                pair[two] = !all;
                found.push(pair);
            }
        }
    }
    for _ in 0..bounds.random {
        found.push((0..n).map(|_| random.random()).collect());
    }
    (found, false)
}

/// Contents of files, as numbers of their possible ones, and whether these are all.
fn combinations(
    files: &[Inode],
    counts: &[usize],
    bounds: &Bounds,
    random: &mut SmallRng,
) -> (Vec<Vec<usize>>, bool) {
    // Two names of one file have the same content.
    let same: Vec<Option<usize>> = (0..files.len())
        .map(|at| files[..at].iter().position(|file| *file == files[at]))
        .collect();
    let free: Vec<usize> = (0..files.len()).filter(|at| same[*at].is_none()).collect();
    let spread = |picks: &[usize]| {
        let mut whole = vec![0; files.len()];
        free.iter()
            .zip(picks)
            .for_each(|(at, pick)| whole[*at] = *pick);
        for at in 0..files.len() {
            if let Some(first) = same[at] {
                whole[at] = whole[first];
            }
        }
        whole
    };
    let counts: Vec<usize> = free.iter().map(|at| counts[*at]).collect();
    let product = counts
        .iter()
        .try_fold(1usize, |all, count| all.checked_mul(*count));
    if let Some(product) = product.filter(|product| *product <= bounds.contents) {
        let of = |mut number: usize| {
            let picks: Vec<usize> = counts
                .iter()
                .map(|count| {
                    let pick = number % count;
                    number /= count;
                    pick
                })
                .collect();
            spread(&picks)
        };
        return ((0..product).map(of).collect(), true);
    }
    let most = counts.iter().copied().max().unwrap_or(1);
    let alike = |pick: usize| counts.iter().map(|count| pick.min(count - 1)).collect();
    let mut found: Vec<Vec<usize>> = (0..most).map(alike).collect();
    let bases = if bounds.pairs { 3 } else { 1 };
    for base in found.clone().into_iter().take(bases) {
        for (at, count) in counts.iter().enumerate() {
            for pick in 0..*count {
                let mut picks = base.clone();
                picks[at] = pick;
                found.push(picks);
            }
        }
    }
    for _ in 0..bounds.random {
        let picks = counts.iter().map(|count| random.random_range(0..*count));
        found.push(picks.collect());
    }
    (found.iter().map(|picks| spread(picks)).collect(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds() -> Bounds {
        Bounds {
            all_subsets: 3,
            random: 5,
            contents: 9,
            ..Bounds::default()
        }
    }

    #[test]
    fn few_operations_are_enumerated_whole_and_a_journal_by_its_prefixes() {
        let mut random = SmallRng::seed_from_u64(1);
        let (all, whole) = subsets(3, Rule::Posix, &bounds(), &mut random);
        assert!(whole);
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 8);
        let (prefixes, whole) = subsets(5, Rule::Journal, &bounds(), &mut random);
        assert!(whole);
        assert_eq!(prefixes.len(), 6);
        assert_eq!(prefixes[2], [true, true, false, false, false]);
        let (some, whole) = subsets(5, Rule::Posix, &bounds(), &mut random);
        assert!(!whole, "of 32 subsets only a part");
        let some: HashSet<_> = some.into_iter().collect();
        for one in 0..5 {
            let alone: Vec<bool> = (0..5).map(|at| at == one).collect();
            let missing: Vec<bool> = (0..5).map(|at| at != one).collect();
            assert!(some.contains(&alone) && some.contains(&missing));
        }
    }

    #[test]
    fn contents_are_combined_whole_or_each_file_once_and_two_names_have_one_content() {
        let mut random = SmallRng::seed_from_u64(1);
        let (all, whole) = combinations(&[4, 5], &[3, 2], &bounds(), &mut random);
        assert!(whole);
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 6);
        let (all, whole) = combinations(&[4, 5, 4], &[3, 2, 3], &bounds(), &mut random);
        assert!(whole);
        assert_eq!(all.len(), 6);
        assert!(all.iter().all(|picks| picks[0] == picks[2]));
        let (some, whole) = combinations(&[1, 2, 3], &[3, 3, 3], &bounds(), &mut random);
        assert!(!whole);
        let some: HashSet<_> = some.into_iter().collect();
        assert!(some.contains(&vec![0, 2, 0]) && some.contains(&vec![1, 1, 1]));
        let (none, whole) = combinations(&[], &[], &bounds(), &mut random);
        assert!(whole);
        assert_eq!(none, [Vec::<usize>::new()]);
    }

    #[test]
    fn a_mark_promises_what_was_made_before_it() {
        let mut progress = Progress::default();
        let link = |to: &str| Call::Link {
            from: "t".into(),
            to: to.into(),
        };
        let mark = |name: &str| Call::Mark { name: name.into() };
        let mut duty = Duty::default();
        for call in [
            link("c/checkpoint-3"),
            mark("recorded"),
            link("s/snapshot-2"),
        ] {
            progress.made(&call);
            duty = progress.duty(&call, duty);
        }
        assert_eq!((duty.record, duty.snapshot), (Some(3), None));
        duty = progress.duty(&mark("published"), duty);
        assert_eq!((duty.record, duty.snapshot), (Some(3), Some(2)));
    }
}
