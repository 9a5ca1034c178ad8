//! Which process a run is, so that another one on the same host can tell that it is gone.
//!
//! Owns the text `BOOT/PID/START`: the boot of the host, the process, and when it started in ticks since the boot, since
//! numbers of processes are used again. Where the system tells none of it, nothing is written, and nothing is known.

use std::fs;

/// This process; `None` where the system does not say.
pub(crate) fn this() -> Option<String> {
    let id = std::process::id();
    Some(format!("{}/{id}/{}", boot()?, started(id)?))
}

/// True where the process ran on this host and is gone; false also where that is not known.
pub(crate) fn is_gone(text: &str) -> bool {
    let mut parts = text.split('/');
    let (Some(boot_then), Some(id), Some(start)) = (parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let (Some(boot), Ok(id)) = (boot(), id.parse()) else {
        return false;
    };
    boot != boot_then || started(id).is_none_or(|now| now != start)
}

fn boot() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// Field 22 of `/proc/PID/stat`; the name before may hold blanks and brackets.
fn started(id: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    // A process that only waits to be asked how it ended is gone.
    if matches!(fields.next(), Some("Z" | "X")) {
        return None;
    }
    fields.nth(18).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_there_and_others_of_its_number_are_not_it() {
        let Some(this) = this() else { return };
        assert!(!is_gone(&this));
        let (rest, start) = this.rsplit_once('/').unwrap();
        assert!(
            is_gone(&format!("{rest}/{start}9")),
            "another one of this number"
        );
        let (_, id_and_start) = this.split_once('/').unwrap();
        assert!(is_gone(&format!("another-boot/{id_and_start}")));
        assert!(!is_gone("nonsense"));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let id = child.id();
        let alive = started(id).map(|start| format!("{}/{id}/{start}", boot().unwrap()));
        child.wait().unwrap();
        assert!(alive.is_none_or(|text| is_gone(&text)));
    }
}
