//! Every decision of a schedule, drawn one after the other as a small number.
//!
//! Owns where the numbers come from: a generator with a seed, or a script. A script that ends goes on
//! with zeros, and zero is always the tamest answer (one job, the request that waits longest, no
//! fault), so that numbers can be taken out and lowered one by one until only what matters is left.

/// One decision that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// What was chosen.
    pub(crate) value: u32,
    /// What the choice was about.
    pub(crate) what: &'static str,
}

enum Origin {
    Seed(u64),
    Script(Vec<u32>),
}

/// Where decisions come from, and which were made.
pub(crate) struct Choices {
    from: Origin,
    made: Vec<Choice>,
}

/// A well mixed number from another one (splitmix64).
pub(crate) fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Choices {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self {
            from: Origin::Seed(mix(seed)),
            made: Vec::new(),
        }
    }

    pub(crate) fn script(numbers: Vec<u32>) -> Self {
        Self {
            from: Origin::Script(numbers),
            made: Vec::new(),
        }
    }

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(*state)
    }

    /// A number below `n`; nothing is drawn where there is no choice.
    pub(crate) fn below(&mut self, what: &'static str, n: u32) -> u32 {
        if n <= 1 {
            return 0;
        }
        let at = self.made.len();
        let value = match &mut self.from {
            Origin::Seed(state) => (Self::random(state) % u64::from(n)) as u32,
            Origin::Script(numbers) => numbers.get(at).copied().unwrap_or(0).min(n - 1),
        };
        self.made.push(Choice { value, what });
        value
    }

    /// An index, as often as its weight says.
    pub(crate) fn weighted(&mut self, what: &'static str, weights: &[u32]) -> usize {
        let at = self.made.len();
        let last = weights.len().saturating_sub(1);
        let value = match &mut self.from {
            Origin::Seed(state) => {
                let sum: u32 = weights.iter().sum();
                let mut draw = (Self::random(state) % u64::from(sum.max(1))) as u32;
                let mut chosen = last;
                for (i, weight) in weights.iter().enumerate() {
                    if draw < *weight {
                        chosen = i;
                        break;
                    }
                    draw -= weight;
                }
                chosen
            }
            Origin::Script(numbers) => (numbers.get(at).copied().unwrap_or(0) as usize).min(last),
        };
        let number = value as u32;
        self.made.push(Choice {
            value: number,
            what,
        });
        value
    }

    /// Yes in so many of a hundred cases.
    pub(crate) fn chance(&mut self, what: &'static str, percent: u32) -> bool {
        self.weighted(what, &[100 - percent.min(100), percent]) == 1
    }

    pub(crate) fn made(&self) -> &[Choice] {
        &self.made
    }
}
