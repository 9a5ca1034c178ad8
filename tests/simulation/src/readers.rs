//! What readers saw, judged.

use crate::others::Reading;
use crate::world::World;

impl World<'_> {
    /// Readers see one whole snapshot, and none that is older than the newest when they began.
    pub(crate) fn judge_reading(
        &mut self,
        newest: Option<i64>,
        reading: Result<Reading, String>,
    ) -> Result<(), String> {
        let disturbed = self.checker.disturbed;
        let reading = match reading {
            Ok(reading) => reading,
            // What it read was taken away under it.
            Err(_) if disturbed.any() => return Ok(()),
            Err(why) => return Err(format!("C5: a reader failed: {why}")),
        };
        self.record.readings += 1;
        if newest > reading.snapshot && !disturbed.rewound {
            return Err(format!(
                "C5: a reader saw snapshot {:?}, and {newest:?} was there when it began",
                reading.snapshot
            ));
        }
        let Some(id) = reading.snapshot else {
            return Ok(());
        };
        let seen = self
            .checker
            .ever
            .get(&id)
            .map(Vec::as_slice)
            .unwrap_or_default();
        match seen.iter().any(|seen| seen.rows == reading.rows) {
            true => Ok(()),
            false => Err(format!(
                "C5: a reader saw {:?} in snapshot {id}, which never had these rows",
                reading.rows
            )),
        }
    }
}
