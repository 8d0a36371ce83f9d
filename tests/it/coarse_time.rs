//! A filesystem whose timestamps are whole seconds: a change within one of them leaves every stamp as it was.

use crate::bursts::{LETTERS, filled, filling, letters};
use crate::cursors::{first, stale, with_cursor};
use crate::cursors_rewritten::{Stamps, born_again, lines, on_ext4, readers};
use crate::harness::{Server, Tree, both_back_ends, is_root};
use crate::torn::{CALLS, MOST, a_plain_read_is_torn, traversals_are_of_one_state};
use crate::write::write;
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

/// So many bytes an inode leave no room for parts of a second.
const INODE: u32 = 128;

/// For so long after a change, stamps of whole seconds are no evidence.
const WINDOW: Duration = Duration::from_secs(2);

/// Tries at one second. One fails where its calls run into the next.
const TRIES: usize = 50;

type Call = (&'static str, Value);

/// Fills a file in place.
fn fill(tree: &Tree, path: &str, letter: u8) {
    File::options().write(true).open(tree.path(path)).unwrap().write_all_at(lines(letter).as_bytes(), 0).unwrap();
}

/// The cursors of the calls' first pages, after which a file was changed in the same second: its bytes are others, and
/// every stamp is what it was.
fn before_a_change(
    tree: &Tree,
    server: &mut Server,
    path: &str,
    calls: &[Call],
    change: impl Fn(&mut Server, u8),
) -> Vec<String> {
    for _ in 0..TRIES {
        change(server, b'a');
        let before = Stamps::of(&tree.path(path));
        let cursors = calls.iter().map(|call| first(server, call)).collect();
        change(server, b'b');
        assert_eq!(tree.read(path), lines(b'b').as_bytes());
        if Stamps::of(&tree.path(path)) == before {
            return cursors;
        }
    }
    panic!("no change left the stamps of {path}");
}

fn all_stale(server: &mut Server, calls: &[Call], cursors: &[String]) {
    for ((tool, arguments), cursor) in calls.iter().zip(cursors) {
        let after = server.call(tool, with_cursor(arguments, cursor));
        assert_eq!(after.map(|page| page.structured), Err(stale()), "{tool} {arguments}");
    }
}

both_back_ends! {
    // CWE-367: a rewrite under equal stamps, taken for the state that the cursor's page showed.
    fn a_rewrite_within_one_second_makes_cursors_fail(backend) {
        if !is_root() {
            return;
        }
        let (mounted, tree) = on_ext4(INODE);
        tree.write("f", lines(b'a'));
        tree.write("g", lines(b'x'));
        let mut server = tree.serve(backend);
        // In the middle of the file, and beyond it.
        let [one, two] = readers("f");
        let calls = [one, two, ("search_text", json!({ "query": "-", "limit": 4 }))];
        let cursors = before_a_change(&tree, &mut server, "f", &calls, |_, letter| fill(&tree, "f", letter));
        all_stale(&mut server, &calls, &cursors);
        drop(server);
        drop(mounted);
    }

    // CWE-367: the same of another file in the inode of a removed one.
    fn a_file_made_anew_in_its_inode_within_one_second_makes_cursors_fail(backend) {
        if !is_root() {
            return;
        }
        let (mounted, tree) = on_ext4(INODE);
        tree.write("f", lines(b'x'));
        let mut server = tree.serve(backend);
        let calls = readers("f");
        let cursors = before_a_change(&tree, &mut server, "f", &calls, |_, letter| match letter {
            b'a' => tree.write("f", lines(b'a')),
            _ => born_again(&tree.path("f"), &lines(letter)),
        });
        all_stale(&mut server, &calls, &cursors);
        drop(server);
        drop(mounted);
    }

    // CWE-367: the same of the server's own writes, of which every other one has the inode of the last but one.
    fn writes_of_the_server_within_one_second_make_cursors_fail(backend) {
        if !is_root() {
            return;
        }
        let (mounted, tree) = on_ext4(INODE);
        let mut server = tree.serve(backend);
        let calls = readers("f");
        let cursors = before_a_change(&tree, &mut server, "f", &calls, |server, letter| {
            write(server, "f", "between them").unwrap();
            write(server, "f", &lines(letter)).unwrap();
        });
        all_stale(&mut server, &calls, &cursors);
        drop(server);
        drop(mounted);
    }

    // CWE-367: lines of one file from before and after a rewrite that no stamp tells.
    fn a_file_to_come_that_is_rewritten_within_one_second_is_shown_in_one_state(backend) {
        if !is_root() {
            return;
        }
        // No page has read the file before it is rewritten, so its content is in no cursor.
        let (mounted, tree) = on_ext4(INODE);
        tree.write("f", lines(b'x'));
        tree.write("g", lines(b'a'));
        let mut server = tree.serve(backend);
        let call = ("search_text", json!({ "query": "-", "limit": 1 }));
        let calls = std::slice::from_ref(&call);
        let cursors = before_a_change(&tree, &mut server, "g", calls, |_, letter| fill(&tree, "g", letter));
        let texts = server.all(call.0, with_cursor(&call.1, &cursors[0]), "text");
        assert_eq!(texts.len(), 5, "two of the one file, three of the other");
        assert_eq!((letters(&texts[..2].concat()), letters(&texts[2..].concat())), (vec![b'x'], vec![b'b']));
        drop(server);
        drop(mounted);
    }

    // CWE-367: a rewrite that was judged by the time at which the next page came, when its stamps look old enough.
    fn when_the_second_has_passed_cursors_hold_what_they_held(backend) {
        if !is_root() {
            return;
        }
        let (mounted, tree) = on_ext4(INODE);
        tree.write("f", lines(b'x'));
        tree.write("g", lines(b'a'));
        let mut server = tree.serve(backend);
        let calls = [readers("f"), readers("g")].concat();
        let cursors = before_a_change(&tree, &mut server, "g", &calls, |_, letter| {
            if letter == b'a' {
                fill(&tree, "f", b'x');
            }
            fill(&tree, "g", letter);
        });
        server.until_older(&tree.path("g"), WINDOW);
        server.until_older(&tree.path("f"), WINDOW);
        all_stale(&mut server, &calls[2..], &cursors[2..]);
        // The pair. It was racy, too, when its cursors were issued; those that follow are bound to stamps alone.
        let follow = |server: &mut Server, call: &Call, cursor: &str| {
            server.ok(call.0, with_cursor(&call.1, cursor)).cursor().expect("three pages")
        };
        let next: Vec<String> =
            calls.iter().zip(&cursors).take(2).map(|(call, cursor)| follow(&mut server, call, cursor)).collect();
        for (call, cursor) in calls.iter().zip(&next) {
            assert_eq!(server.ok(call.0, with_cursor(&call.1, cursor)).cursor(), None);
        }
        fill(&tree, "f", b'y');
        all_stale(&mut server, &calls[..2], &next);
        drop(server);
        drop(mounted);
    }

    // CWE-367: a page of two states where stamps say nothing, so that two equal reads are all there is to go by.
    fn pages_beside_a_writer_are_of_one_state_where_stamps_are_whole_seconds(backend) {
        if !is_root() {
            return;
        }
        let (mounted, tree) = on_ext4(INODE);
        tree.write("f", filled(LETTERS[0], MOST));
        let path = tree.path("f");
        let burst = || filling(&path, |_| MOST);
        a_plain_read_is_torn(&tree, burst());
        for call in CALLS {
            let mut server = tree.serve(backend);
            traversals_are_of_one_state(&mut server, call, burst());
        }
        drop(mounted);
    }
}
