//! Cursors fail rather than tear: what makes each reader's cursor fail, and what it survives.

use crate::harness::{Backend, Refusal, Server, Success, Tree, both_back_ends};
use serde_json::{Value, json};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};

pub const INVALID: &str = "cursor is not valid";
pub const OTHER: &str = "cursor was issued for a different traversal";
pub const STALE: &str = "the filesystem changed since this cursor was issued; start the traversal again";

/// Larger files are not served here.
const MOST: u64 = 20_000;

/// What is served everywhere in this file.
const OPTIONS: &[&str] = &["--include", "**", "--exclude", "**/hidden", "--max-file-bytes", "20000"];

pub fn tree() -> Tree {
    let tree = Tree::with(&[
        ("d/a.md", "needle one\nneedle two\n"),
        ("d/b.md", "nothing here\n"),
        ("d/c.md", "needle three\n"),
        ("d/plain.txt", "plain\n"),
        ("d/sub/x.md", "needle four\n"),
        ("d/hidden/h.md", "needle hidden\n"),
        ("other/o.txt", "needle five\n"),
    ]);
    tree.write("d/long.txt", "line of text\n".repeat(800));
    tree.write("d/over.md", vec![b'n'; MOST as usize + 1]);
    tree
}

pub fn read(path: &str) -> (&'static str, Value) {
    ("read_text_file", json!({ "path": path, "limit": 1 }))
}

pub fn list(path: &str) -> (&'static str, Value) {
    ("list_directory", json!({ "path": path, "limit": 1 }))
}

pub fn files(query: &str) -> (&'static str, Value) {
    ("search_files", json!({ "query": query, "limit": 1 }))
}

pub fn text(query: &str, path: &str) -> (&'static str, Value) {
    ("search_text", json!({ "query": query, "path": path, "limit": 1 }))
}

pub fn with_cursor(arguments: &Value, cursor: &str) -> Value {
    let mut arguments = arguments.clone();
    arguments["cursor"] = json!(cursor);
    arguments
}

/// The cursor of the first page, which is there.
pub fn first(server: &mut Server, (tool, arguments): &(&str, Value)) -> String {
    server.ok(tool, arguments.clone()).cursor().expect("more than one page")
}

pub fn stale() -> Refusal {
    Refusal { text: STALE.to_owned(), kind: "stale_cursor".to_owned() }
}

type Change = (&'static str, fn(&Tree));

/// The second page before a change and after it, both under the first page's cursor.
fn across(backend: Backend, call: &(&'static str, Value), change: fn(&Tree)) -> (Success, Result<Success, Refusal>) {
    let tree = tree();
    let mut server = tree.serve_with(backend, OPTIONS);
    let cursor = first(&mut server, call);
    let arguments = with_cursor(&call.1, &cursor);
    let before = server.ok(call.0, arguments.clone());
    assert!(!before.items().is_empty());
    change(&tree);
    (before, server.call(call.0, arguments))
}

fn fails(backend: Backend, call: &(&'static str, Value), changes: &[Change]) {
    for (what, change) in changes {
        let (_, after) = across(backend, call, *change);
        assert_eq!(after.map(|page| page.structured).unwrap_err(), stale(), "{}: {what}", call.0);
    }
}

fn survives(backend: Backend, call: &(&'static str, Value), changes: &[Change]) {
    for (what, change) in changes {
        let (before, after) = across(backend, call, *change);
        let after = after.unwrap_or_else(|refused| panic!("{}: {what}: {refused:?}", call.0));
        assert_eq!((after.items(), after.hash()), (before.items(), before.hash()), "{}: {what}", call.0);
    }
}

/// Rewrites in place.
fn rewrite(tree: &Tree, path: &str, content: &str) {
    let file = File::options().write(true).open(tree.path(path)).unwrap();
    file.write_all_at(content.as_bytes(), 0).unwrap();
    file.set_len(content.len() as u64).unwrap();
}

/// The same length, other bytes, the same inode.
fn same_length(tree: &Tree, path: &str) {
    let other: String = fs::read_to_string(tree.path(path)).unwrap().replace('e', "E");
    assert_ne!(other.as_bytes(), tree.read(path));
    rewrite(tree, path, &other);
}

/// The same, and the modification time put back.
fn time_put_back(tree: &Tree, path: &str) {
    let modified = fs::metadata(tree.path(path)).unwrap().modified().unwrap();
    same_length(tree, path);
    let file = File::options().write(true).open(tree.path(path)).unwrap();
    file.set_modified(modified).unwrap();
    assert_eq!(fs::metadata(tree.path(path)).unwrap().modified().unwrap(), modified);
}

/// Another inode with the same content, size and modification time.
fn replaced_by_its_equal(tree: &Tree, path: &str) {
    let meta = fs::metadata(tree.path(path)).unwrap();
    let copy = tree.above().join("copy");
    fs::copy(tree.path(path), &copy).unwrap();
    File::options().write(true).open(&copy).unwrap().set_modified(meta.modified().unwrap()).unwrap();
    fs::rename(&copy, tree.path(path)).unwrap();
    assert_ne!(fs::metadata(tree.path(path)).unwrap().ino(), meta.ino());
}

fn touch(tree: &Tree, path: &str) {
    let file = File::options().write(true).open(tree.path(path)).unwrap();
    file.set_modified(std::time::SystemTime::now()).unwrap();
}

fn rename(tree: &Tree, from: &str, to: &str) {
    fs::rename(tree.path(from), tree.path(to)).unwrap();
}

fn remove(tree: &Tree, path: &str) {
    fs::remove_file(tree.path(path)).unwrap();
}

/// Changes that no reader's state rests on, whatever it reads below `d`.
const ELSEWHERE: &[Change] = &[
    ("an edit elsewhere", |tree| rewrite(tree, "other/o.txt", "changed")),
    ("a new file elsewhere", |tree| tree.write("other/new.txt", "needle")),
    ("a removal elsewhere", |tree| remove(tree, "other/o.txt")),
    ("an edit of an excluded file", |tree| rewrite(tree, "d/hidden/h.md", "needle")),
    ("a new excluded file", |tree| tree.write("d/hidden/i.md", "needle")),
    ("a link", |tree| tree.link("a.md", "d/link.md")),
    ("a link to a directory", |tree| tree.link("../other", "d/linked.md")),
    ("a FIFO", |tree| tree.fifo("d/fifo.md")),
    ("an empty directory", |tree| fs::create_dir(tree.path("d/empty.md")).unwrap()),
    ("an unfinished write", |tree| tree.write(&format!("d/.ptc-fs-mcp-{}", "0".repeat(32)), "needle")),
    ("an edit of a file that is too large", |tree| tree.write("d/over.md", vec![b'm'; MOST as usize + 2])),
    ("a new file that is too large", |tree| tree.write("d/over2.md", vec![b'm'; MOST as usize + 1])),
];

/// Changes of the set of files below `d` whose paths hold `.md`.
const MEMBERSHIP: &[Change] = &[
    ("a new file", |tree| tree.write("d/new.md", "needle")),
    ("a new file that sorts first", |tree| tree.write("d/0.md", "needle")),
    ("a removed file", |tree| remove(tree, "d/c.md")),
    ("a file of an earlier page removed", |tree| remove(tree, "d/a.md")),
    ("a renamed file", |tree| rename(tree, "d/b.md", "d/b2.md")),
    ("a file replaced by a link", |tree| {
        remove(tree, "d/b.md");
        tree.link("c.md", "d/b.md");
    }),
    ("a file that ceases to be served by its size", |tree| tree.write("d/c.md", vec![b'x'; MOST as usize + 1])),
    ("a file that begins to be served by its size", |tree| tree.write("d/over.md", vec![b'x'; MOST as usize])),
];

both_back_ends! {
    // CWE-367: pages of two listings, joined without a word of it.
    fn a_listings_cursor_fails_when_its_entries_change(backend) {
        fails(backend, &list("d"), MEMBERSHIP);
        fails(backend, &list("d"), &[
            ("a new directory with a served file", |tree| tree.write("d/new/x.txt", "")),
            ("a directory without served files gets one", |tree| {
                fs::create_dir(tree.path("d/empty")).unwrap();
                tree.write("d/empty/x.txt", "");
            }),
            ("a directory loses its last served file", |tree| remove(tree, "d/sub/x.md")),
            ("a file becomes a directory", |tree| {
                remove(tree, "d/c.md");
                tree.write("d/c.md/x.txt", "");
            }),
            ("the directory is removed", |tree| fs::remove_dir_all(tree.path("d")).unwrap()),
        ]);
    }

    // CWE-367: no cursor would last if what a listing does not show made it fail (the pair of the above).
    fn a_listings_cursor_survives_what_happens_deeper_and_to_content(backend) {
        survives(backend, &list("d"), ELSEWHERE);
        survives(backend, &list("d"), &[
            ("a new file deeper", |tree| tree.write("d/sub/y.md", "")),
            ("a new directory deeper", |tree| tree.write("d/sub/sub/y.md", "")),
            ("a file deeper exchanged for another", |tree| rename(tree, "d/sub/x.md", "d/sub/y.md")),
            ("an edit of a listed file", |tree| rewrite(tree, "d/b.md", "changed")),
            ("a touch of a listed file", |tree| touch(tree, "d/a.md")),
            ("a listed file replaced by its equal", |tree| replaced_by_its_equal(tree, "d/c.md")),
            ("a file removed and made anew", |tree| {
                remove(tree, "d/c.md");
                tree.write("d/c.md", "other");
            }),
        ]);
    }

    // CWE-367: a match missed or shown twice since the set that positions count is another.
    fn a_file_searchs_cursor_fails_when_the_set_of_matching_paths_changes(backend) {
        fails(backend, &files(".md"), MEMBERSHIP);
        fails(backend, &files(".md"), &[
            ("a match anywhere", |tree| tree.write("other/deep/er/new.md", "")),
            ("a match by its directory", |tree| tree.write("other/x.mdir/y", "")),
            ("a match deeper is renamed", |tree| rename(tree, "d/sub/x.md", "d/sub/y.md")),
            ("a directory of matches is renamed", |tree| rename(tree, "d", "e")),
        ]);
    }

    // CWE-367: no cursor would last if what the search does not show made it fail (the pair of the above).
    fn a_file_searchs_cursor_survives_content_and_other_paths(backend) {
        survives(backend, &files(".md"), ELSEWHERE);
        survives(backend, &files(".md"), &[
            ("an edit of a matched file", |tree| rewrite(tree, "d/b.md", "changed")),
            ("an edit of the page's own file", |tree| rewrite(tree, "d/a.md", "changed")),
            ("a touch", |tree| touch(tree, "d/b.md")),
            ("a matched file replaced by its equal", |tree| replaced_by_its_equal(tree, "d/b.md")),
            ("a matched file replaced by another", |tree| {
                remove(tree, "d/b.md");
                tree.write("d/b.md", "other");
            }),
            ("a new path that does not match", |tree| tree.write("d/new.txt", "")),
            ("such a path removed", |tree| remove(tree, "d/plain.txt")),
        ]);
    }

    // CWE-367: lines from before and after a change, joined as one result.
    fn a_text_searchs_cursor_fails_when_a_file_in_scope_changes(backend) {
        fails(backend, &text("needle", "d"), MEMBERSHIP);
        fails(backend, &text("needle", "d"), &[
            ("a new file without a match", |tree| tree.write("d/new.txt", "")),
            ("a new file deeper", |tree| tree.write("d/sub/new.txt", "")),
            ("an edit of a file of an earlier page", |tree| rewrite(tree, "d/a.md", "needle one\nneedle 2\n")),
            ("an edit of a file of a later page", |tree| rewrite(tree, "d/sub/x.md", "needle")),
            ("an edit of a file without a match", |tree| rewrite(tree, "d/b.md", "nothing at all")),
            ("a touch", |tree| touch(tree, "d/c.md")),
            ("a rewrite of the same length, searched", |tree| same_length(tree, "d/a.md")),
            ("a rewrite of the same length, to come", |tree| same_length(tree, "d/sub/x.md")),
            ("the same with its time put back, searched", |tree| time_put_back(tree, "d/a.md")),
            ("the same with its time put back, to come", |tree| time_put_back(tree, "d/c.md")),
            ("a searched file replaced by its equal", |tree| replaced_by_its_equal(tree, "d/a.md")),
            ("a file to come replaced by its equal", |tree| replaced_by_its_equal(tree, "d/c.md")),
            ("a searched file grows", |tree| rewrite(tree, "d/a.md", "needle one\nneedle two\nx")),
            ("a searched file shrinks", |tree| rewrite(tree, "d/a.md", "needle one\nneedle two")),
            ("nothing left of it", |tree| rewrite(tree, "d/a.md", "")),
            ("a file to come grows", |tree| rewrite(tree, "d/c.md", "needle three\nx")),
            ("a file to come shrinks", |tree| rewrite(tree, "d/c.md", "needle three")),
            ("nothing left to come of it", |tree| rewrite(tree, "d/c.md", "")),
            ("two files exchanged", |tree| {
                rename(tree, "d/b.md", "d/t");
                rename(tree, "d/c.md", "d/b.md");
                rename(tree, "d/t", "d/c.md");
            }),
        ]);
        fails(backend, &text("needle", "d/a.md"), &[
            ("an edit of the one file", |tree| rewrite(tree, "d/a.md", "needle one\nneedle 2\n")),
            ("the one file removed", |tree| remove(tree, "d/a.md")),
        ]);
        fails(backend, &text("needle", ""), &[("an edit anywhere", |tree| rewrite(tree, "other/o.txt", "x"))]);
    }

    // CWE-367: no search would end if changes elsewhere made its cursor fail (the pair of the above).
    fn a_text_searchs_cursor_survives_a_change_outside_its_path(backend) {
        survives(backend, &text("needle", "d"), ELSEWHERE);
        survives(backend, &text("needle", "d/a.md"), ELSEWHERE);
        survives(backend, &text("needle", "d/a.md"), &[
            ("an edit beside it", |tree| rewrite(tree, "d/b.md", "needle")),
            ("a new file beside it", |tree| tree.write("d/new.md", "needle")),
        ]);
    }

    // CWE-367: chunks of two states, joined to a text that was never in the file.
    fn a_reads_cursor_fails_when_its_file_changes(backend) {
        fails(backend, &read("d/long.txt"), &[
            ("an edit", |tree| rewrite(tree, "d/long.txt", &"other text\n".repeat(900))),
            ("a rewrite of the same length", |tree| same_length(tree, "d/long.txt")),
            ("the same with its time put back", |tree| time_put_back(tree, "d/long.txt")),
            ("a touch", |tree| touch(tree, "d/long.txt")),
            ("another mode", |tree| {
                fs::set_permissions(tree.path("d/long.txt"), Permissions::from_mode(0o640)).unwrap();
            }),
            ("a replacement by its equal", |tree| replaced_by_its_equal(tree, "d/long.txt")),
            ("a byte more", |tree| rewrite(tree, "d/long.txt", &("line of text\n".repeat(800) + "x"))),
            ("a byte less", |tree| rewrite(tree, "d/long.txt", "line of text\n".repeat(800).trim_end())),
            ("nothing left", |tree| rewrite(tree, "d/long.txt", "")),
            ("another file in its place", |tree| rename(tree, "d/a.md", "d/long.txt")),
        ]);
    }

    // CWE-367: no text would be read to its end if changes elsewhere made its cursor fail (the pair of the above).
    fn a_reads_cursor_survives_any_other_change(backend) {
        survives(backend, &read("d/long.txt"), ELSEWHERE);
        survives(backend, &read("d/long.txt"), MEMBERSHIP);
        survives(backend, &read("d/long.txt"), &[
            ("an edit beside it", |tree| rewrite(tree, "d/a.md", "changed")),
            ("its directory moved away and back", |tree| {
                rename(tree, "d", "e");
                rename(tree, "e", "d");
            }),
        ]);
    }

    // CWE-367: a file read on that is no longer served.
    fn a_file_that_is_no_longer_there_to_be_read_says_so_under_its_cursor_too(backend) {
        let cases: [(Change, &str); 3] = [
            (("path is not a readable regular file", |tree| remove(tree, "d/long.txt")), "not_readable"),
            (
                ("file exceeds the --max-file-bytes limit", |tree| {
                    tree.write("d/long.txt", vec![b'x'; MOST as usize + 1]);
                }),
                "limit",
            ),
            (
                ("path is not a readable regular file", |tree| {
                    rename(tree, "d/long.txt", "d/moved.txt");
                    tree.link("moved.txt", "d/long.txt");
                }),
                "not_readable",
            ),
        ];
        for ((text, change), kind) in cases {
            let (_, after) = across(backend, &read("d/long.txt"), change);
            let expected = Refusal { text: text.to_owned(), kind: kind.to_owned() };
            assert_eq!(after.map(|page| page.structured).unwrap_err(), expected);
        }
    }

    // CWE-367: a cursor that trusts the server's own writes.
    fn a_write_through_the_server_makes_cursors_fail_as_any_change_does(backend) {
        let tree = Tree::new();
        tree.write("long", "x".repeat(5_000));
        tree.write("other", "x");
        let mut server = tree.serve(backend);
        let calls = [read("long"), text("x", "")];
        let cursors: Vec<_> = [read("long"), list("")].iter().map(|call| first(&mut server, call)).collect();
        server.ok("write_text_file", json!({ "path": "long", "content": "x".repeat(5_000) }));
        let (tool, arguments) = &calls[0];
        assert_eq!(server.call(tool, with_cursor(arguments, &cursors[0])).unwrap_err(), stale());
        let (tool, arguments) = list("");
        assert!(server.call(tool, with_cursor(&arguments, &cursors[1])).is_ok(), "the same names");
        server.ok("write_text_file", json!({ "path": "new", "content": "" }));
        assert_eq!(server.call(tool, with_cursor(&arguments, &cursors[1])).unwrap_err(), stale());
    }

    // CWE-367: a traversal that never recovers from a change (the pair of all above).
    fn after_a_stale_cursor_a_new_traversal_succeeds(backend) {
        let tree = tree();
        let mut server = tree.serve_with(backend, OPTIONS);
        for (tool, arguments) in [list("d"), files(".md"), text("needle", "d")] {
            let cursor = first(&mut server, &(tool, arguments.clone()));
            tree.write(&format!("d/{tool}.md"), "needle");
            assert_eq!(server.call(tool, with_cursor(&arguments, &cursor)).unwrap_err(), stale());
            let paths = server.all(tool, arguments, "path");
            assert!(paths.contains(&format!("d/{tool}.md")));
        }
    }
}
