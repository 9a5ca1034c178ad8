//! What the taking half of a writer knows of its groups while the other half works.
//!
//! Owns two notes: which groups have rows waiting, and how the core stood when it was last idle. Decides
//! nothing.

use crate::route::GroupId;

/// Groups with rows in the generation.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(crate) groups: Vec<GroupId>,
    is: Vec<bool>,
    /// Those of them without an open file.
    pub(crate) fresh: usize,
}

/// What is known of the core while it works.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) is_open: Vec<bool>,
    pub(crate) open: usize,
    pub(crate) open_bytes: usize,
    pub(crate) most_open: usize,
    pub(crate) spilled: bool,
}

impl Touched {
    pub(crate) fn add(&mut self, groups: impl Iterator<Item = GroupId>, summary: &Summary) {
        for group in groups {
            let index = group.index();
            if index >= self.is.len() {
                self.is.resize(index + 1, false);
            }
            if let Some(is) = self.is.get_mut(index).filter(|is| !**is) {
                *is = true;
                self.groups.push(group);
                if !summary.is_open(group) {
                    self.fresh += 1;
                }
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        for group in self.groups.drain(..) {
            if let Some(is) = self.is.get_mut(group.index()) {
                *is = false;
            }
        }
        self.fresh = 0;
    }

    pub(crate) fn count(&mut self, summary: &Summary) {
        self.fresh = self
            .groups
            .iter()
            .filter(|group| !summary.is_open(**group))
            .count();
    }
}

impl Summary {
    pub(crate) fn is_open(&self, group: GroupId) -> bool {
        self.is_open.get(group.index()).copied().unwrap_or(false)
    }
}
