//! `docs/a-row-lands.md` is a test: its job runs, its commands are run in order, and its outputs are theirs,
//! line by line, but for names that no two runs have in common.
//!
//! `TIDEGATE_WRITE_DOCS=1` writes the outputs into the page instead.

use std::fs;
use std::path::Path;
use std::process::Command;

use tidegate_tests::binary;

/// Ends the page's job where a test fails before the page does.
struct Job<'a>(&'a Path);

impl Drop for Job<'_> {
    fn drop(&mut self) {
        if let Ok(pid) = fs::read_to_string(self.0.join("job.pid")) {
            let _ended = Command::new("kill").args(["-9", pid.trim()]).output();
        }
    }
}

/// What stands for prefixes of runs and for uuids, in the order in which they are met.
#[derive(Default)]
struct Names {
    jobs: Vec<String>,
    others: Vec<String>,
}

/// The place of a text in a list, to which it is added where it is new.
fn nth(list: &mut Vec<String>, text: &str) -> usize {
    let known = list.iter().position(|o| o == text);
    known.unwrap_or_else(|| {
        list.push(text.to_owned());
        list.len() - 1
    })
}

impl Names {
    fn shorten(&mut self, mut rest: &str) -> String {
        let mut out = String::new();
        while let Some(next) = rest.chars().next() {
            let taken = if rest.get(..36).is_some_and(is_uuid) {
                let letter = b'a' + nth(&mut self.others, &rest[..36]) as u8;
                out.push_str(&format!("‹{}›", char::from(letter)));
                36
            } else if rest.get(..11).is_some_and(is_prefix) {
                // The page's job, then the command that compacts.
                let job = nth(&mut self.jobs, &rest[2..10]);
                out.push_str(["tg‹job›", "tg‹compaction›"][job]);
                10
            } else {
                out.push(next);
                next.len_utf8()
            };
            rest = &rest[taken..];
        }
        out
    }
}

/// `tg`, eight hex digits that stand for a commit user, then the epoch.
fn is_prefix(text: &str) -> bool {
    let digits = text.strip_prefix("tg").and_then(|t| t.strip_suffix('e'));
    digits.is_some_and(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn is_uuid(text: &str) -> bool {
    text.char_indices().all(|(at, c)| match at {
        8 | 13 | 18 | 23 => c == '-',
        _ => c.is_ascii_hexdigit() && !c.is_ascii_uppercase(),
    })
}

/// The page with the outputs of its commands as they are.
fn page_as_it_is(page: &str, place: &Path) -> String {
    let tools = binary::tidegate().parent().unwrap();
    // The tool is called `tidegate`, whatever the name of the binary under test.
    let shims = place.join("bin");
    fs::create_dir(&shims).unwrap();
    std::os::unix::fs::symlink(binary::tidegate(), shims.join("tidegate")).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{}:{path}", shims.display(), tools.display());
    let warehouse = place.display().to_string();
    let (mut out, mut names, mut file) = (String::new(), Names::default(), None);
    let mut block = "";
    for line in page.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            if let Some((name, text)) = file.take() {
                fs::write(place.join::<String>(name), text as String).unwrap();
            }
            block = if block.is_empty() { kind.trim() } else { "" };
        } else if block == "yaml" {
            if let Some(name) = line.strip_prefix("# file: ") {
                file = Some((name.trim().to_owned(), String::new()));
            }
            if let Some((_, text)) = &mut file {
                text.push_str(line);
                text.push('\n');
            }
        } else if block == "console" {
            let Some(command) = line.strip_prefix("$ ") else {
                continue; // What it printed when the page was written.
            };
            let done = Command::new("bash")
                .args(["-c", command])
                .current_dir(place)
                .env("PATH", &path)
                .env_remove("TIDEGATE_WAREHOUSE")
                .output()
                .unwrap();
            let error = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{command}: {error}");
            out.push_str(line);
            out.push('\n');
            let text = String::from_utf8(done.stdout).unwrap();
            for printed in text.lines() {
                let printed = printed.replace(&warehouse, "…");
                out.push_str(&names.shorten(&printed));
                out.push('\n');
            }
            continue;
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

#[test]
fn the_page_on_where_a_row_lands_shows_what_the_tool_prints() {
    let at = binary::root().join("docs/a-row-lands.md");
    let page = fs::read_to_string(&at).unwrap();
    let place = tempfile::tempdir().unwrap();
    let job = Job(place.path());
    let now = page_as_it_is(&page, &place.path().canonicalize().unwrap());
    drop(job);
    if std::env::var_os("TIDEGATE_WRITE_DOCS").is_some() {
        fs::write(&at, &now).unwrap();
    }
    let (now, page): (Vec<&str>, Vec<&str>) = (now.lines().collect(), page.lines().collect());
    let differs = now.iter().zip(&page).position(|(a, b)| a != b);
    let differs = differs.or((now.len() != page.len()).then_some(now.len().min(page.len())));
    if let Some(line) = differs {
        panic!(
            "{}:{}: the page has\n  {}\nit is\n  {}\n(TIDEGATE_WRITE_DOCS=1 writes it)",
            at.display(),
            line + 1,
            page.get(line).unwrap_or(&"(no such line)"),
            now.get(line).unwrap_or(&"(no such line)")
        );
    }
    assert!(binary::root().join("docs/a-row-lands.svg").is_file());
}
