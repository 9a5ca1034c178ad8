//! The rules of the model, one by one.

use super::*;

fn create(path: &str, inode: i64) -> Call {
    let path = path.into();
    Call::Create { path, inode }
}

fn write(path: &str, inode: i64, offset: usize, text: &str) -> Call {
    Call::Write {
        inode,
        offset,
        bytes: text.as_bytes().into(),
        path: path.into(),
    }
}

fn sync(path: &str, inode: i64) -> Call {
    let path = path.into();
    Call::SyncFile { inode, path }
}

fn sync_dir(path: &str) -> Call {
    Call::SyncDir { path: path.into() }
}

fn make_dir(path: &str) -> Call {
    Call::MakeDir { path: path.into() }
}

fn link(from: &str, to: &str) -> Call {
    let (from, to) = (from.into(), to.into());
    Call::Link { from, to }
}

fn rename(from: &str, to: &str) -> Call {
    let (from, to) = (from.into(), to.into());
    Call::Rename { from, to }
}

fn unlink(path: &str) -> Call {
    Call::Unlink { path: path.into() }
}

fn after(rule: Rule, calls: &[Call]) -> Disk {
    let mut disk = Disk::new(rule, &Tree::default(), &BTreeMap::new());
    for call in calls {
        disk.apply(call).unwrap();
    }
    disk
}

/// Names that are there if nothing pending is on the disk.
fn least(disk: &Disk) -> Vec<String> {
    let none = vec![false; disk.pending().len()];
    let mut names: Vec<String> = disk
        .names(&none)
        .iter()
        .map(|(n, _)| n.to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn a_name_is_durable_by_fsync_of_its_directory_and_not_of_its_file() {
    let calls = [create("a", 1), write("a", 1, 0, "x"), sync("a", 1)];
    assert_eq!(least(&after(Rule::Posix, &calls)), [""; 0]);
    // In a journal the creation lies before the last change of the file that was fsynced.
    assert_eq!(least(&after(Rule::Journal, &calls)), ["a"]);
    for rule in [Rule::Posix, Rule::Journal] {
        let disk = after(rule, &[&calls[..], &[sync_dir("")]].concat());
        assert_eq!(least(&disk), ["a"]);
        assert!(disk.pending().is_empty());
    }
}

#[test]
fn what_lies_in_a_directory_that_is_lost_is_lost_with_it() {
    let calls = [
        make_dir("d"),
        create("d/a", 1),
        sync("d/a", 1),
        sync_dir("d"),
    ];
    let disk = after(Rule::Posix, &calls);
    assert_eq!(least(&disk), [""; 0]);
    assert_eq!(disk.names(&[true]).len(), 2, "d and d/a");
    // fsync of the parent of the parent does not help, of the parent does.
    let disk = after(Rule::Posix, &[&calls[..], &[sync_dir("")]].concat());
    assert_eq!(least(&disk), ["d", "d/a"]);
}

#[test]
fn a_journal_keeps_the_order_and_an_fsync_covers_what_changed_the_file_and_all_before() {
    let calls = [
        create("a", 1),
        write("a", 1, 0, "x"),
        create("b", 2),
        sync("a", 1),
    ];
    // `b` came after the last change of `a`.
    assert_eq!(least(&after(Rule::Journal, &calls)), ["a"]);
    let calls = [create("a", 1), create("b", 2), link("a", "c"), sync("a", 1)];
    assert_eq!(least(&after(Rule::Journal, &calls)), ["a", "b", "c"]);
}

#[test]
fn a_rename_in_a_directory_is_one_operation_and_replaces() {
    let calls = [
        create("a", 1),
        create("t", 2),
        sync_dir(""),
        rename("t", "a"),
    ];
    let disk = after(Rule::Posix, &calls);
    assert_eq!(disk.pending().len(), 1);
    assert_eq!(disk.names(&[false]).len(), 2);
    let after = disk.names(&[true]);
    assert_eq!(after.len(), 1);
    assert_eq!(after[0].0.as_ref(), "a");
    assert_ne!(
        after[0].1,
        disk.names(&[false])[0].1,
        "another file has the name"
    );
}

#[test]
fn a_rename_between_directories_may_be_half_done_unless_there_is_a_journal() {
    let calls = [
        make_dir("d"),
        create("a", 1),
        sync_dir(""),
        rename("a", "d/a"),
    ];
    let disk = after(Rule::Posix, &calls);
    assert_eq!(disk.pending().len(), 2);
    assert_eq!(disk.names(&[true, false]).len(), 3, "both names");
    assert_eq!(disk.names(&[false, true]).len(), 1, "neither name");
    assert_eq!(after(Rule::Journal, &calls).pending().len(), 1);
}

#[test]
fn data_that_was_not_fsynced_may_be_there_absent_or_there_in_part() {
    let text = "x".repeat(1000);
    let calls = [create("a", 1), write("a", 1, 0, &text), sync_dir("")];
    let disk = after(Rule::Posix, &calls);
    let (_, inode) = disk.names(&[])[0].clone();
    let contents = disk.contents(inode.unwrap());
    let lengths: Vec<(Data, usize, usize)> = contents
        .iter()
        .map(|(data, blob)| {
            let there = blob.bytes.iter().filter(|b| **b == b'x').count();
            (*data, blob.bytes.len(), there)
        })
        .collect();
    assert_eq!(
        lengths,
        [
            (Data::Old, 0, 0),
            (Data::New, 1000, 1000),
            (Data::Zeros, 1000, 0),
            (Data::FirstSector, 1000, 512),
            (Data::LastSector, 1000, 488),
        ]
    );
    let disk = after(Rule::Posix, &[&calls[..], &[sync("a", 1)]].concat());
    let contents = disk.contents(inode.unwrap());
    assert_eq!(contents.len(), 1);
    assert_eq!(contents[0].1.bytes.len(), 1000);
}

#[test]
fn a_page_of_a_larger_file_may_be_missing() {
    let text = "x".repeat(9000);
    let disk = after(
        Rule::Posix,
        &[create("a", 1), write("a", 1, 0, &text), sync_dir("")],
    );
    let inode = disk.names(&[])[0].1.unwrap();
    let there = |data| {
        let bytes = disk.content(inode, data).bytes;
        let there = bytes.iter().filter(|b| **b == b'x').count();
        (bytes.len(), there)
    };
    assert_eq!(there(Data::FirstPage), (9000, 4096));
    assert_eq!(there(Data::LastPage), (9000, 9000 - 8192));
    assert_eq!(there(Data::Short), (4096, 4096));
}

#[test]
fn a_number_used_again_is_another_file() {
    let calls = [
        create("a", 1),
        write("a", 1, 0, "old"),
        unlink("a"),
        create("b", 1),
        write("b", 1, 0, "new"),
        sync("b", 1),
        sync_dir(""),
    ];
    let seen = after(Rule::Posix, &calls).seen();
    let content = seen.0["b"].as_ref().unwrap();
    assert_eq!(content.bytes.as_slice(), b"new");
    assert_eq!(seen.0.len(), 1);
}

#[test]
fn a_call_that_does_not_fit_says_that_one_before_it_escaped() {
    let mut disk = after(Rule::Posix, &[]);
    let misfit = disk.apply(&write("a", 9, 0, "x")).unwrap_err();
    assert_eq!(misfit.0, "a was never created");
    let misfit = disk.apply(&unlink("b")).unwrap_err();
    assert_eq!(misfit.0, "b is not there");
    disk.apply(&make_dir("c")).unwrap();
    let misfit = disk.apply(&make_dir("c")).unwrap_err();
    assert_eq!(misfit.0, "c is there already");
}
