//! A file that is there when its directory is read, and gone when it is looked at.

use crate::harness::{Tree, both_back_ends, has, is_root};
use crate::tracer::Tracer;
use serde_json::json;

both_back_ends! {
    fn a_file_that_vanishes_beside_a_page_shifts_no_other(backend) {
        if !is_root() || !has("strace") {
            return;
        }
        let lines = "needle\n".repeat(3);
        let tree = Tree::with(&[("a", &lines), ("b", "none"), ("c", &lines), ("d", &lines)]);
        let first = json!({ "query": "needle", "limit": 4 });
        let fresh = || {
            let mut server = tree.serve(backend);
            server.ok("list_directory", json!({}));
            server
        };
        // At which call it is looked at, an undisturbed page tells.
        let mut server = fresh();
        let whole = server.all("search_text", json!({ "query": "needle" }), "path");
        let tracer = Tracer::attach(&server, &tree, None);
        assert!(server.ok("search_text", first.clone()).cursor().is_some());
        let log = tracer.detach();
        let asked = log.lines().filter(|line| line.contains(" statx(")).position(|line| line.contains("\"b\"")).unwrap() + 1;

        let mut server = fresh();
        let tracer = Tracer::attach(&server, &tree, Some(&format!("statx:error=ENOENT:when={asked}")));
        let page = server.ok("search_text", first.clone());
        drop(tracer);
        assert_eq!(page.skipped(), &json!({ "vanished_files": 1 }));
        std::fs::remove_file(tree.path("b")).unwrap();
        let mut paths = page.column("path");
        let mut rest = first;
        rest["cursor"] = json!(page.cursor().unwrap());
        paths.extend(server.all("search_text", rest, "path"));
        assert_eq!(paths, whole);
    }
}
