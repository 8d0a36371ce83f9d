//! Links: symbolic ones are followed at no position, hard ones are files.

use super::{BAD_BASENAME, NOT_WRITABLE, nothing_is_at, nothing_is_written_at, still_usable};
use crate::harness::{SECRET, Tree, both_back_ends};
use serde_json::json;

both_back_ends! {
    // CWE-59: a link at the end of a path is followed.
    fn a_link_at_the_end_of_a_path_is_nothing_to_every_tool(backend) {
        let tree = Tree::with(&[("ok.txt", "fine"), ("in.txt", "INSIDE"), ("d/f.txt", "INSIDE")]);
        let outside = tree.outside();
        for (target, name) in [
            (outside.join("s.txt"), "absolute"),
            ("../outside/s.txt".into(), "relative"),
            (outside.clone(), "directory"),
            ("in.txt".into(), "in-root"),
            ("d".into(), "in-root-directory"),
            ("absolute".into(), "chain"),
            ("loop-b".into(), "loop-a"),
            ("loop-a".into(), "loop-b"),
            ("self".into(), "self"),
            (".".into(), "here"),
            ("..".into(), "up"),
            ("/proc/self/root".into(), "proc-root"),
            ("/proc/self/cwd".into(), "proc-cwd"),
            // Links that the kernel resolves without a path; the first is to the server's own descriptor of the root.
            ("/proc/self/fd/3".into(), "proc-root-descriptor"),
            ("/proc/self/environ".into(), "proc-environ"),
            ("/dev/zero".into(), "zero"),
        ] {
            tree.link(target, name);
        }
        let names = tree.names();
        let mut server = tree.serve(backend);
        for name in names.iter().filter(|name| !["ok.txt", "in.txt", "d"].contains(&name.as_str())) {
            nothing_is_at(&mut server, name);
            nothing_is_at(&mut server, &format!("{name}/"));
            nothing_is_written_at(&mut server, name);
        }
        assert_eq!(server.all("list_directory", json!({}), "name"), ["d", "in.txt", "ok.txt"]);
        assert_eq!(server.ok("list_directory", json!({})).skipped(), &json!(null), "links are policy, which is not counted");
        assert_eq!(server.all("search_text", json!({ "query": "INSIDE" }), "path"), ["d/f.txt", "in.txt"]);
        still_usable(&mut server);
        assert_eq!((tree.names(), tree.read("in.txt")), (names, b"INSIDE".to_vec()));
        tree.outside_is_untouched();
    }

    // CWE-59: a link in the middle of a path is followed.
    fn a_link_in_the_middle_of_a_path_is_refused_like_one_at_its_end(backend) {
        let tree = Tree::with(&[("ok.txt", "fine"), ("real/deep/s.txt", "INSIDE"), ("a/b/keep", "S")]);
        tree.link(tree.outside(), "out");
        tree.link("../../outside", "a/out");
        tree.link(tree.outside(), "a/b/out");
        tree.link("real", "in");
        tree.link("../real/deep", "a/in");
        tree.link("out", "chain");
        tree.link("/proc/self/root", "proc");
        tree.link(".", "here");
        assert_eq!(std::fs::read_to_string(tree.path("a/b/out/s.txt")).unwrap(), SECRET, "the links lead there");
        let mut server = tree.serve(backend);
        for path in [
            "out/s.txt", "a/out/s.txt", "a/b/out/s.txt", "in/deep/s.txt", "in/deep", "a/in/s.txt", "chain/s.txt",
            "here/ok.txt", "here/here/here/ok.txt", "here/out/s.txt", "proc/etc/passwd", "out/missing",
        ] {
            nothing_is_at(&mut server, path);
            assert_eq!(server.refused("write_text_file", json!({ "path": path, "content": "x" })), BAD_BASENAME);
        }
        assert_eq!(server.text("real/deep/s.txt"), "INSIDE");
        assert_eq!(server.all("search_files", json!({ "query": "s.txt" }), "path"), ["real/deep/s.txt"]);
        still_usable(&mut server);
        tree.outside_is_untouched();
    }

    // CWE-59: a link is a second name for what an exclude hides.
    fn a_link_leads_past_no_exclude(backend) {
        let tree = Tree::with(&[("ok.txt", "fine"), ("hidden/f.txt", "INSIDE")]);
        tree.link("hidden", "door");
        tree.link("hidden/f.txt", "window");
        let mut server = tree.serve_with(backend, &["--include", "**", "--exclude", "hidden"]);
        for path in ["door", "door/f.txt", "window"] {
            nothing_is_at(&mut server, path);
        }
        assert_eq!(server.all("search_text", json!({ "query": "INSIDE" }), "path"), Vec::<String>::new());
        still_usable(&mut server);
    }

    // CWE-59: a write creates what a link points to.
    fn a_write_through_a_dangling_link_creates_nothing(backend) {
        let tree = Tree::with(&[("ok.txt", "fine")]);
        tree.link(tree.outside().join("new.txt"), "out");
        tree.link("new.txt", "in");
        let names = tree.names();
        let mut server = tree.serve(backend);
        for name in ["out", "in"] {
            nothing_is_at(&mut server, name);
            nothing_is_written_at(&mut server, name);
        }
        assert_eq!(tree.names(), names);
        still_usable(&mut server);
        tree.outside_is_untouched();
    }

    // CWE-62: a write changes a file that has another name outside.
    fn a_hard_link_is_served_and_a_write_leaves_its_inode_alone(backend) {
        let tree = Tree::new();
        let other = tree.above().join("other");
        std::fs::write(&other, "SHARED").unwrap();
        std::fs::hard_link(&other, tree.path("h")).unwrap();
        let mut server = tree.serve(backend);
        assert_eq!(server.text("h"), "SHARED");
        assert_eq!(server.all("list_directory", json!({}), "path"), ["h"]);
        assert_eq!(server.all("search_text", json!({ "query": "SHARED" }), "path"), ["h"]);
        server.ok("write_text_file", json!({ "path": "h", "content": "OWN" }));
        assert_eq!((server.text("h").as_str(), std::fs::read_to_string(&other).unwrap().as_str()), ("OWN", "SHARED"));
    }

    // CWE-62: a file of the outside is read by its second name.
    fn deny_hardlinks_hides_a_file_with_a_second_name_and_no_other(backend) {
        let tree = Tree::with(&[("ok.txt", "fine"), ("one", "SHARED"), ("only/two", "x")]);
        std::fs::remove_file(tree.path("only/two")).unwrap();
        std::fs::hard_link(tree.path("one"), tree.path("only/two")).unwrap();
        let mut server = tree.serve_with(backend, &["--include", "**", "--deny-hardlinks"]);
        for path in ["one", "only/two", "only"] {
            nothing_is_at(&mut server, path);
        }
        assert_eq!(server.refused("write_text_file", json!({ "path": "one", "content": "x" })), NOT_WRITABLE);
        assert_eq!(server.all("list_directory", json!({}), "name"), ["ok.txt"]);
        assert_eq!(server.ok("search_files", json!({ "query": "o" })).skipped(), &json!(null));
        std::fs::remove_file(tree.path("only/two")).unwrap();
        assert_eq!(server.text("one"), "SHARED");
        still_usable(&mut server);
    }
}
