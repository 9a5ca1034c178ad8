//! A tournament over the runs of a merge: the smallest is known, and replacing it costs one comparison
//! per round instead of two.

/// Which run stands where; what is compared lies with the caller.
#[derive(Debug, Default)]
pub(crate) struct LoserTree {
    /// Node n lost against what went on to node n/2; node 0 is not used.
    losers: Vec<usize>,
    winner: usize,
}

impl LoserTree {
    /// Plays all rounds. `less(a, b)`: run a goes before run b.
    pub(crate) fn new(runs: usize, mut less: impl FnMut(usize, usize) -> bool) -> Self {
        let mut winners: Vec<usize> = (0..2 * runs).map(|n| n.saturating_sub(runs)).collect();
        let mut losers = vec![0; runs];
        for node in (1..runs).rev() {
            let at = |n: usize| winners.get(n).copied().unwrap_or(0);
            let (a, b) = (at(2 * node), at(2 * node + 1));
            let (first, second) = if less(b, a) { (b, a) } else { (a, b) };
            if let (Some(w), Some(l)) = (winners.get_mut(node), losers.get_mut(node)) {
                (*w, *l) = (first, second);
            }
        }
        Self {
            winner: winners.get(1).copied().unwrap_or(0),
            losers,
        }
    }

    /// The smallest run.
    pub(crate) fn winner(&self) -> usize {
        self.winner
    }

    /// The winner has changed its row: plays its rounds again.
    pub(crate) fn replay(&mut self, mut less: impl FnMut(usize, usize) -> bool) {
        let mut run = self.winner;
        let mut node = (run + self.losers.len()) / 2;
        while node >= 1 {
            if let Some(loser) = self.losers.get_mut(node)
                && less(*loser, run)
            {
                std::mem::swap(loser, &mut run);
            }
            node /= 2;
        }
        self.winner = run;
    }

    /// The run that would win without the winner: it lost against it directly.
    pub(crate) fn runner_up(&self, mut less: impl FnMut(usize, usize) -> bool) -> Option<usize> {
        let mut node = (self.winner + self.losers.len()) / 2;
        let mut best = None;
        while node >= 1 {
            if let Some(loser) = self.losers.get(node).copied() {
                best = match best {
                    Some(b) if !less(loser, b) => Some(b),
                    _ => Some(loser),
                };
            }
            node /= 2;
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_come_in_order_and_the_runner_up_is_the_next_one() {
        for runs in 1..10usize {
            let mut rows: Vec<Vec<u32>> = (0..runs)
                .map(|r| {
                    (0..7)
                        .map(|i| ((i * 31 + r as u32 * 17) % 23) / 2)
                        .collect()
                })
                .collect();
            rows.iter_mut().for_each(|r| {
                r.sort_unstable();
                r.reverse();
            });
            let less = |rows: &[Vec<u32>], a: usize, b: usize| {
                let at = |r: usize| (rows[r].last().copied().unwrap_or(u32::MAX), r);
                at(a) < at(b)
            };
            let mut tree = LoserTree::new(runs, |a, b| less(&rows, a, b));
            let mut out = Vec::new();
            while let Some(row) = rows[tree.winner()].last().copied() {
                let winner = tree.winner();
                let second = (0..runs)
                    .filter(|r| *r != winner)
                    .reduce(|a, b| if less(&rows, b, a) { b } else { a });
                assert_eq!(tree.runner_up(|a, b| less(&rows, a, b)), second);
                out.push((row, winner));
                rows[winner].pop();
                tree.replay(|a, b| less(&rows, a, b));
            }
            assert!(out.is_sorted());
            assert_eq!(out.len(), runs * 7);
        }
    }
}
