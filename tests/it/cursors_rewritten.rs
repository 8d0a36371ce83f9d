//! Cursors across changes that leave as much as they were as they can: the inode, the size, the modification time.

use crate::bursts::LETTERS;
use crate::cursors::{first, read, stale, text, with_cursor};
use crate::harness::{Mounted, Tree, both_back_ends, is_root};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// After a change, timestamps that tick are no evidence for so long.
const WINDOW: Duration = Duration::from_millis(20);

/// Device, inode, size, modification and change time: all that a fingerprint is made of.
#[derive(Debug, PartialEq, Eq)]
pub struct Stamps {
    pub inode: (u64, u64),
    size: u64,
    modified: SystemTime,
    changed: Duration,
}

impl Stamps {
    pub fn of(path: &Path) -> Self {
        let meta = fs::metadata(path).unwrap();
        Self {
            inode: (meta.dev(), meta.ino()),
            size: meta.len(),
            modified: meta.modified().unwrap(),
            changed: Duration::new(meta.ctime().try_into().unwrap(), meta.ctime_nsec().try_into().unwrap()),
        }
    }
}

/// A root on a filesystem that nobody else uses, so that an inode that becomes free is the next one to be taken.
/// Unmounted before the tree goes, in which its image lies.
pub fn on_ext4(inode_bytes: u32) -> (Mounted, Tree) {
    let tree = Tree::new();
    (Mounted::ext4(inode_bytes, &tree.above().join("image"), tree.root()), tree)
}

/// Three lines of a letter, in two chunks and a bit: both readers have pages to come after the first.
pub fn lines(letter: u8) -> String {
    format!("-{}\n", char::from(letter).to_string().repeat(1500)).repeat(3)
}

/// The readers of a file whose state is its content.
pub fn readers(path: &str) -> [(&'static str, Value); 2] {
    [read(path), text("-", path)]
}

/// Removes a file and makes it anew in the same inode, with the same modification time.
pub fn born_again(path: &Path, content: &str) {
    let before = Stamps::of(path);
    fs::remove_file(path).unwrap();
    fs::write(path, content).unwrap();
    File::options().write(true).open(path).unwrap().set_modified(before.modified).unwrap();
    let after = Stamps::of(path);
    assert_eq!((after.inode, after.size, after.modified), (before.inode, before.size, before.modified));
}

both_back_ends! {
    // CWE-367: a cursor that takes another file for its own since it has the inode, size and time of the removed one.
    fn a_file_made_anew_in_its_old_inode_is_another_file(backend) {
        if !is_root() {
            return;
        }
        let (mounted, tree) = on_ext4(256);
        tree.write("f", lines(b'a'));
        let mut server = tree.serve(backend);
        for call in readers("f") {
            for age in [Duration::ZERO, Duration::from_millis(100)] {
                server.until_older(&tree.path("f"), age);
                let arguments = with_cursor(&call.1, &first(&mut server, &call));
                assert!(server.call(call.0, arguments.clone()).is_ok(), "nothing changed");
                // Not even its content differs.
                born_again(&tree.path("f"), &lines(b'a'));
                assert_eq!(server.call(call.0, arguments).map(|page| page.structured), Err(stale()), "{}", call.0);
            }
        }
        drop(server);
        drop(mounted);
    }

    // CWE-367: a rewrite within one tick of the clock after a page, under a stamp that the tick cannot tell apart.
    fn of_300_rewrites_right_after_a_page_none_is_accepted(backend) {
        let tree = Tree::with(&[("f", &lines(b'a'))]);
        let file = File::options().write(true).open(tree.path("f")).unwrap();
        let mut writes = 0;
        let mut rewrite = || {
            writes += 1;
            file.write_all_at(lines(LETTERS[writes % LETTERS.len()]).as_bytes(), 0).unwrap();
            Stamps::of(&tree.path("f"))
        };
        let mut server = tree.serve(backend);
        for call in readers("f") {
            let (mut accepted, mut refused, mut at_once) = (0, 0, 0);
            while refused < 300 {
                let before = rewrite();
                let arguments = with_cursor(&call.1, &first(&mut server, &call));
                // The pair: every fourth time it is left alone.
                if (accepted + refused) % 4 == 0 {
                    server.ok(call.0, arguments);
                    accepted += 1;
                    continue;
                }
                let after = rewrite();
                assert_eq!((after.inode, after.size), (before.inode, before.size));
                at_once += usize::from(after.changed - before.changed < WINDOW);
                assert_eq!(server.call(call.0, arguments).map(|page| page.structured), Err(stale()), "{}", call.0);
                refused += 1;
            }
            // On a machine that has time for it, all of them.
            assert!(accepted >= 100 && at_once >= 30, "{accepted} accepted, {at_once} at once");
        }
    }
}
