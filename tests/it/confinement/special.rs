//! FIFOs, sockets and devices: never opened, never in the way.

use super::{nothing_is_at, nothing_is_written_at, still_usable};
use crate::harness::{Tree, both_back_ends, is_root, while_touched};
use serde_json::json;
use std::os::unix::fs::FileTypeExt as _;
use std::process::Command;

both_back_ends! {
    // CWE-66: an open waits for the other end of a FIFO.
    fn a_fifo_blocks_no_call_and_stays_a_fifo(backend) {
        let tree = Tree::with(&[("ok.txt", "fine"), ("d/ok.txt", "x")]);
        tree.fifo("fifo");
        tree.fifo("d/fifo");
        let mut server = tree.serve(backend);
        for _ in 0..5 {
            nothing_is_at(&mut server, "fifo");
            nothing_is_at(&mut server, "fifo/x");
            nothing_is_at(&mut server, "d/fifo");
            nothing_is_written_at(&mut server, "fifo");
            still_usable(&mut server);
        }
        assert_eq!(server.ok("list_directory", json!({})).skipped(), &json!(null));
        assert!(std::fs::symlink_metadata(tree.path("fifo")).unwrap().file_type().is_fifo());
    }

    // CWE-66: a socket is taken for a file.
    fn a_socket_is_nothing_to_every_tool(backend) {
        let tree = Tree::with(&[("ok.txt", "fine")]);
        let _socket = std::os::unix::net::UnixListener::bind(tree.path("socket")).unwrap();
        let mut server = tree.serve(backend);
        nothing_is_at(&mut server, "socket");
        nothing_is_written_at(&mut server, "socket");
        still_usable(&mut server);
    }

    // CWE-66: a device is read or written.
    fn a_device_is_nothing_to_every_tool(backend) {
        if !is_root() {
            return;
        }
        let tree = Tree::with(&[("ok.txt", "fine")]);
        // The first is /dev/zero, which never ends.
        for (name, kind, major, minor) in [("character", "c", "1", "5"), ("block", "b", "7", "250")] {
            let status = Command::new("mknod").arg(tree.path(name)).args([kind, major, minor]).status().unwrap();
            assert!(status.success());
        }
        let mut server = tree.serve(backend);
        for name in ["character", "block"] {
            nothing_is_at(&mut server, name);
            nothing_is_written_at(&mut server, name);
        }
        assert_eq!(server.all("list_directory", json!({}), "name"), ["ok.txt"]);
        still_usable(&mut server);
    }

    // CWE-66: a special file counts as something served.
    fn a_directory_with_special_files_only_is_not_listed(backend) {
        let tree = Tree::with(&[("ok.txt", "fine")]);
        std::fs::create_dir(tree.path("d")).unwrap();
        tree.fifo("d/fifo");
        tree.link("../ok.txt", "d/link");
        let mut server = tree.serve(backend);
        assert_eq!(server.all("list_directory", json!({}), "name"), ["ok.txt"]);
        tree.write("d/f", "x");
        assert_eq!(server.all("list_directory", json!({}), "name"), ["d", "ok.txt"]);
        still_usable(&mut server);
    }

    // CWE-789: memory is taken by the size that a file claims.
    fn a_sparse_file_is_read_a_page_at_a_time(backend) {
        let tree = Tree::with(&[("ok.txt", "fine")]);
        std::fs::File::create(tree.path("sparse")).unwrap().set_len(1 << 33).unwrap();
        let mut server = tree.serve(backend);
        server.until_quiet(&tree.path("sparse"));
        let page = server.ok("read_text_file", json!({ "path": "sparse", "limit": 1 }));
        assert_eq!(page.column("text"), ["\0".repeat(2048)]);
        assert!(page.cursor().is_some());
        assert!(server.resident() < 256 << 20);
        still_usable(&mut server);
    }

    // CWE-400: a file of 1 TiB is read to its end, over and over.
    fn a_page_of_a_sparse_file_that_is_being_touched_is_bounded(backend) {
        let tree = Tree::with(&[("ok.txt", "fine")]);
        std::fs::File::create(tree.path("sparse")).unwrap().set_len(1 << 40).unwrap();
        let mut server = tree.serve(backend);
        let arguments = json!({ "path": "sparse", "limit": 1 });
        match while_touched(&tree.path("sparse"), || server.call("read_text_file", arguments)) {
            Ok(page) => assert_eq!(page.column("text"), ["\0".repeat(2048)]),
            Err(refusal) => assert_eq!(refusal.text, "the file is changing; try again"),
        }
        still_usable(&mut server);
    }
}
