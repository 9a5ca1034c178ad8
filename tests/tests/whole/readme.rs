//! The README is a test: its files are written, its commands are run in order, and what it shows
//! must be what they print.
//!
//! A `yaml` block whose first line is `# file: NAME` becomes that file. In a `console` block a line
//! that starts with `$ ` is a command; the lines below it must all be printed, `…` standing for
//! anything. `cargo` commands are not run inside a test, but their chore must exist.

use std::fs;
use std::process::Command;
use tidegate_tests::binary;

struct Block {
    kind: String,
    line: usize,
    text: String,
}

fn blocks(readme: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut open = false;
    for (n, line) in readme.lines().enumerate() {
        if let Some(kind) = line.strip_prefix("```") {
            open = !open;
            if open {
                found.push(Block {
                    kind: kind.trim().to_owned(),
                    line: n + 1,
                    text: String::new(),
                });
            }
        } else if open && let Some(block) = found.last_mut() {
            block.text.push_str(line);
            block.text.push('\n');
        }
    }
    assert!(!open, "a block is not closed");
    found
}

fn printed(shown: &str, output: &str) -> bool {
    output.lines().any(|line| {
        let mut rest = line.trim();
        let parts: Vec<&str> = shown.trim().split('…').collect();
        for (n, part) in parts.iter().enumerate() {
            let Some(at) = rest.find(part) else {
                return false;
            };
            if n == 0 && at != 0 {
                return false;
            }
            rest = &rest[at + part.len()..];
        }
        rest.is_empty() || shown.trim().ends_with('…')
    })
}

#[test]
fn every_command_of_the_readme_works_as_shown() {
    let readme = fs::read_to_string(binary::root().join("README.md")).unwrap();
    let chores = fs::read_to_string(binary::root().join("xtask/src/main.rs"))
        .unwrap()
        .to_lowercase();
    let place = tempfile::tempdir().unwrap();
    let tools = binary::tidegate().parent().unwrap().display().to_string();
    let path = format!("{tools}:{}", std::env::var("PATH").unwrap());
    let mut commands = 0;
    for block in blocks(&readme) {
        if block.kind == "yaml"
            && let Some(name) = block
                .text
                .lines()
                .next()
                .and_then(|l| l.strip_prefix("# file: "))
        {
            fs::write(place.path().join(name.trim()), &block.text).unwrap();
        }
        if block.kind != "console" {
            continue;
        }
        let mut output = String::new();
        for (n, line) in block.text.lines().enumerate() {
            let at = block.line + n + 1;
            let Some(command) = line.strip_prefix("$ ") else {
                assert!(
                    printed(line, &output),
                    "README.md:{at}: `{line}` is not in:\n{output}"
                );
                continue;
            };
            commands += 1;
            if let Some(cargo) = command.strip_prefix("cargo ") {
                let mut words = cargo.split_whitespace();
                match words.next() {
                    Some("xtask") => {
                        let chore = words.next().unwrap();
                        assert!(
                            chores.contains(&format!("    {}", chore.replace('-', ""))),
                            "README.md:{at}: no chore {chore}"
                        );
                    }
                    Some("build" | "install") => {}
                    other => panic!("README.md:{at}: cargo {other:?} is not tested"),
                }
                continue;
            }
            let (command, wanted) = match command.split_once("  # exit code ") {
                Some((command, code)) => (command, code.trim().parse().unwrap()),
                None => (command, 0),
            };
            let done = Command::new("bash")
                .args(["-c", command])
                .current_dir(place.path())
                .env("PATH", &path)
                .env_remove("TIDEGATE_WAREHOUSE")
                .output()
                .unwrap();
            output = format!(
                "{}{}",
                String::from_utf8_lossy(&done.stdout),
                String::from_utf8_lossy(&done.stderr)
            );
            assert_eq!(
                done.status.code(),
                Some(wanted),
                "README.md:{at}: `{command}`:\n{output}"
            );
        }
    }
    assert!(commands >= 10, "{commands} commands found");
}
