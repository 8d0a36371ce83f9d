//! Many files, long lines, and files that grow: a bound that is met is told, and nothing takes memory by what it is shown.

use super::{empty_page, still_usable};
use crate::harness::{BUSY, Backend, DEADLINE, Mounted, Server, Tree, both_back_ends, is_root};
use crate::lifecycle::{call, cancel};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use serde_json::{Value, json};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Instant;

const TOO_LARGE: &str = "file exceeds the --max-file-bytes limit";

/// A tree in memory, gone with its mount however many files it has. Every file is a name of one inode.
fn in_memory() -> (Mounted, Tree) {
    let tree = Tree::new();
    let mounted = Mounted::new(&["-t", "tmpfs", "-o", "nr_inodes=0"], Path::new("none"), tree.root());
    tree.write("ok.txt", "fine");
    (mounted, tree)
}

/// Names `0000000.txt` and so on in one directory.
fn fill(tree: &Tree, directory: &str, names: std::ops::Range<usize>) {
    let held = rustix::fs::openat(CWD, tree.path(directory), OFlags::PATH, Mode::empty()).unwrap();
    let root = rustix::fs::openat(CWD, tree.root(), OFlags::PATH, Mode::empty()).unwrap();
    for number in names {
        rustix::fs::linkat(&root, "ok.txt", &held, format!("{number:07}.txt"), AtFlags::empty()).unwrap();
    }
}

/// The most memory that a server ever had, in bytes.
fn peak(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// The first pages of a traversal, joined, and whether there are more.
fn some_pages(server: &mut Server, tool: &str, mut arguments: Value, pages: usize) -> (Vec<String>, bool) {
    let mut found = Vec::new();
    for _ in 0..pages {
        let page = server.ok(tool, arguments.clone());
        assert_eq!(page.skipped(), &json!(null), "nothing is left out");
        found.extend(page.column("path"));
        let Some(cursor) = page.cursor() else { return (found, false) };
        arguments["cursor"] = json!(cursor);
    }
    (found, true)
}

/// One directory of so many files is listed from its beginning and searched to its end.
fn one_directory_of(files: usize, memory: u64) {
    if !is_root() {
        return;
    }
    let (_mounted, tree) = in_memory();
    std::fs::create_dir(tree.path("d")).unwrap();
    fill(&tree, "d", 0..files);
    for backend in [Backend::Openat2, Backend::Components] {
        let mut server = tree.serve(backend);
        still_usable(&mut server);
        let descriptors = server.descriptors();
        let (listed, more) = some_pages(&mut server, "list_directory", json!({ "path": "d" }), 2);
        assert_eq!((listed, more), ((0..400).map(|number| format!("d/{number:07}.txt")).collect(), true));
        let last = format!("{:07}", files - 1);
        assert_eq!(server.all("search_files", json!({ "query": last }), "path"), [format!("d/{last}.txt")]);
        assert_eq!(server.all("list_directory", json!({}), "name"), ["d", "ok.txt"]);
        assert_eq!(server.descriptors(), descriptors);
        assert!(peak(&server) < memory, "{} bytes", peak(&server));
        still_usable(&mut server);
    }
    tree.outside_is_untouched();
}

// CWE-770: a directory of very many entries ends the process, or is cut without a word.
#[test]
fn a_directory_of_a_million_files_is_paged_through_and_searched_whole() {
    // About 130 bytes for each name while a page is made.
    one_directory_of(1_000_000, 200_000_000);
}

// CWE-770: a directory of very many entries is cut without a word.
#[test]
fn a_directory_of_100_001_files_is_paged_through_and_searched_whole() {
    one_directory_of(100_001, 40_000_000);
}

// CWE-400: a tree of very many files ends the process, or a walk that nobody waits for goes on.
#[test]
fn a_tree_of_a_million_files_is_paged_through_and_searched_whole_and_its_walks_can_be_stopped() {
    if !is_root() {
        return;
    }
    let (_mounted, tree) = in_memory();
    for directory in 0..1000 {
        let name = format!("d{directory:03}");
        std::fs::create_dir(tree.path(&name)).unwrap();
        fill(&tree, &name, directory * 1000..(directory + 1) * 1000);
    }
    let path = |number: usize| format!("d{:03}/{number:07}.txt", number / 1000);
    for backend in [Backend::Openat2, Backend::Components] {
        let mut server = tree.serve_with(backend, &["--include", "**", "--max-scan-bytes", "10000000"]);
        still_usable(&mut server);
        let descriptors = server.descriptors();
        let (found, more) = some_pages(&mut server, "search_files", json!({ "query": ".txt" }), 2);
        assert_eq!((found, more), ((0..400).map(path).collect(), true));
        assert_eq!(server.all("search_files", json!({ "query": "0999999" }), "path"), [path(999_999)]);
        let (listed, more) = some_pages(&mut server, "list_directory", json!({}), 1);
        assert_eq!((listed, more), ((0..200).map(|number| format!("d{number:03}")).collect(), true));
        let page = server.ok("search_text", json!({ "query": "absent" }));
        assert!(page.items().is_empty() && page.cursor().is_some(), "a page looks at a bounded number of files");
        for walk in 0..4 {
            server.send_line(&call(&json!(format!("w{walk}")), "search_files", json!({ "query": "absent" })));
            server.send_line(&cancel(&json!(format!("w{walk}"))));
        }
        assert_eq!(server.all("search_files", json!({ "query": "0500000" }), "path"), [path(500_000)]);
        assert_eq!(server.descriptors(), descriptors);
        assert!(peak(&server) < 40_000_000, "{} bytes", peak(&server));
        still_usable(&mut server);
    }
    tree.outside_is_untouched();
}

/// A file of so many bytes on one line, all NUL but for the end. It takes no space.
fn one_line(tree: &Tree, path: &str, bytes: u64, end: &str) {
    let file = std::fs::File::create(tree.path(path)).unwrap();
    file.write_all_at(end.as_bytes(), bytes - end.len() as u64).unwrap();
}

both_back_ends! {
    // CWE-789: a line is held whole, whatever its length.
    fn a_needle_at_the_end_of_a_line_of_100_mb_is_found_in_bounded_memory(backend) {
        let tree = Tree::with(&[("ok.txt", "fine")]);
        one_line(&tree, "line", 100_000_000, "needle");
        let mut server = tree.serve(backend);
        let started = Instant::now();
        let pages = server.pages("search_text", json!({ "query": "needle" }));
        assert!(started.elapsed() < DEADLINE);
        let items: Vec<&Value> = pages.iter().flat_map(|page| page.items()).collect();
        let evidence = format!("{}needle", "\0".repeat(512));
        assert_eq!(items, [&json!({ "path": "line", "line": 1, "text": evidence })]);
        assert!(pages.iter().all(|page| page.skipped() == &json!(null)));
        assert!(peak(&server) < 40_000_000, "{} bytes", peak(&server));
        still_usable(&mut server);
    }

    // CWE-367: a limit is held to the size that a file had at first.
    fn a_file_that_grows_past_the_limit_after_its_first_page_is_served_by_no_tool_any_more(backend) {
        let tree = Tree::with(&[("ok.txt", "fine")]);
        tree.write("d/grows", "needle\n".repeat(5000));
        let mut server = tree.serve_with(backend, &["--include", "**", "--max-file-bytes", "35000"]);
        let calls = [
            ("read_text_file", json!({ "path": "d/grows", "limit": 1 })),
            ("search_text", json!({ "query": "needle", "limit": 1 })),
        ];
        let cursors = calls.clone().map(|(tool, arguments)| server.ok(tool, arguments).cursor().unwrap());
        tree.write("d/grows", "needle\n".repeat(5000) + "S");
        for ((tool, mut arguments), cursor) in calls.into_iter().zip(cursors) {
            arguments["cursor"] = json!(cursor);
            let refusal = server.call(tool, arguments).unwrap_err();
            let expected = match tool {
                "read_text_file" => (TOO_LARGE, "limit"),
                _ => ("the filesystem changed since this cursor was issued; start the traversal again", "stale_cursor"),
            };
            assert_eq!((refusal.text.as_str(), refusal.kind.as_str()), expected, "{tool}");
        }
        for (tool, arguments) in [
            ("search_text", json!({ "query": "needle" })),
            ("search_files", json!({ "query": "grows" })),
            ("list_directory", json!({ "path": "d" })),
        ] {
            assert_eq!(server.ok(tool, arguments).structured, empty_page(), "{tool}");
        }
        tree.write("d/grows", "needle\n".repeat(5000));
        assert_eq!(server.text("d/grows"), "needle\n".repeat(5000));
        still_usable(&mut server);
    }

    // CWE-367: what a file grew by between a look at its size and a read is shown.
    fn a_file_that_grows_and_shrinks_around_the_limit_is_never_shown_beyond_it(backend) {
        let tree = Tree::with(&[("ok.txt", "fine"), ("f", &"x".repeat(1000))]);
        let mut server = tree.serve_with(backend, &["--include", "**", "--max-file-bytes", "1000"]);
        let file = std::fs::File::options().write(true).open(tree.path("f")).unwrap();
        let (mut within, mut beyond, mut found) = (0, 0, 0);
        std::thread::scope(|scope| {
            let (sender, bursts) = channel::<usize>();
            scope.spawn(move || {
                for burst in bursts {
                    for change in 0..burst {
                        match change % 2 {
                            0 => file.write_all_at(b"S", 1000).unwrap(),
                            _ => file.set_len(1000).unwrap(),
                        }
                    }
                }
            });
            for round in 0..300 {
                // An odd burst leaves the file beyond its limit, an even one within.
                sender.send(round % 24).unwrap();
                match server.call("read_text_file", json!({ "path": "f" })) {
                    Ok(page) => {
                        assert_eq!(page.column("text"), ["x".repeat(1000)]);
                        within += 1;
                    }
                    Err(refusal) if refusal.text == TOO_LARGE => beyond += 1,
                    Err(refusal) => assert_eq!(refusal.text, BUSY),
                }
                let lines = server.ok("search_text", json!({ "query": "x" })).column("text");
                assert!(lines.is_empty() || lines == ["x".repeat(1000)], "{lines:?}");
                found += lines.len();
            }
        });
        assert!(within > 0 && beyond > 0 && found > 0, "{within} {beyond} {found}");
        still_usable(&mut server);
    }
}
