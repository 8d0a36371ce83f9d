//! `read_text_file`.

use crate::harness::{Tree, both_back_ends, sha256};
use serde_json::json;

both_back_ends! {
    fn an_empty_file_is_one_page_without_items(backend) {
        let tree = Tree::with(&[("empty", "")]);
        let page = tree.serve(backend).ok("read_text_file", json!({ "path": "empty" }));
        assert_eq!(page.structured, json!({ "items": [], "next_cursor": null, "content_hash": sha256(b"") }));
    }

    fn text_comes_back_byte_for_byte(backend) {
        for content in ["a\r\nb\rc\n", "\u{feff}bom", "no final newline", "\n\n", "cost $& $1 $$", "tab\tnul\0del\u{7f}"] {
            let tree = Tree::with(&[("f", content)]);
            let mut server = tree.serve(backend);
            let page = server.ok("read_text_file", json!({ "path": "f" }));
            assert_eq!(page.column("text").concat(), content);
            assert_eq!(page.hash(), sha256(content.as_bytes()));
        }
    }
}
