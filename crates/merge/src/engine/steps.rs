//! Steps: what each version of a key does to a column, worked out once per lane for all columns in it.

use super::RowRef;

/// What a version does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// The column is what the row has, whatever was before.
    Set,
    /// The row's value is added to what is there.
    Add,
    /// The same where the row is older than what is there: arguments the other way round.
    AddOlder,
    /// The row's value is taken back.
    Retract,
    /// The same where the row is older than what is there.
    RetractOlder,
}

/// Steps of many groups, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    steps: Vec<(Op, RowRef)>,
    ends: Vec<u32>,
}

impl Steps {
    pub(crate) fn push(&mut self, op: Op, row: RowRef) {
        self.steps.push((op, row));
    }

    /// The group is whole.
    pub(crate) fn end_group(&mut self) {
        self.ends
            .push(u32::try_from(self.steps.len()).unwrap_or(u32::MAX));
    }

    /// The open group is not wanted.
    pub(crate) fn drop_group(&mut self) {
        self.steps
            .truncate(self.ends.last().copied().unwrap_or(0) as usize);
    }

    /// Groups in order.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &[(Op, RowRef)]> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let end = *end as usize;
            let group = self.steps.get(start..end).unwrap_or_default();
            start = end;
            group
        })
    }

    /// How many groups.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}
