//! Filesystems below the root that never answer. Who may mount one there would otherwise hold every call.

use super::{nothing_is_at, nothing_is_written_at, still_usable};
use crate::harness::{Tree, both_back_ends, has, is_root};
use serde_json::json;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Mounts a FUSE filesystem without a server on a directory and on a file, until its input ends.
const SILENT: &str = r"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for path, kind in (sys.argv[1], 0o040000), (sys.argv[2], 0o100000):
    fuse = os.open('/dev/fuse', os.O_RDWR)
    options = f'fd={fuse},rootmode={kind:o},user_id=0,group_id=0'.encode()
    if libc.mount(b'silent', path.encode(), b'fuse', 0, options):
        sys.exit(os.strerror(ctypes.get_errno()))
print('mounted', flush=True)
sys.stdin.read()
for path in sys.argv[1:]:
    libc.umount2(path.encode(), 2)
";

/// Mounted until drop. Whoever waits for an answer then is given an error.
struct Silent(Child);

impl Silent {
    fn mount(directory: &Path, file: &Path) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", SILENT]).args([directory, file]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut silent = Self(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(silent.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "mounted\n");
        silent
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let unmounted = self.0.wait().is_ok_and(|status| status.success());
        assert!(unmounted || std::thread::panicking());
    }
}

both_back_ends! {
    // CWE-400: a call waits for ever for a filesystem that somebody mounted below the root.
    fn a_filesystem_that_never_answers_holds_no_call(backend) {
        if !is_root() || !has("python3") {
            return;
        }
        let tree = Tree::with(&[("ok.txt", "fine"), ("d/keep", "x"), ("f.txt", "")]);
        std::fs::create_dir(tree.path("d/m")).unwrap();
        let silent = Silent::mount(&tree.path("d/m"), &tree.path("f.txt"));
        let mut waiting = ["d/m", "f.txt"]
            .map(|path| Command::new("stat").arg(tree.path(path)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        for options in [["--include", "**"].as_slice(), &["--include", "**", "--max-file-bytes", "1000000"]] {
            let mut server = tree.serve_with(backend, options);
            for path in ["d/m", "d/m/x"] {
                nothing_is_at(&mut server, path);
            }
            assert!(server.call("read_text_file", json!({ "path": "f.txt" })).is_err());
            nothing_is_written_at(&mut server, "f.txt");
            let page = server.ok("search_text", json!({ "query": "i" }));
            assert_eq!((page.column("path"), page.skipped()), (vec!["ok.txt".to_owned()], &json!({ "mount_points": 2 })));
            still_usable(&mut server);
        }
        for asks in &mut waiting {
            assert!(asks.try_wait().unwrap().is_none(), "whoever asks it waits");
        }
        drop(silent);
        for asks in &mut waiting {
            assert!(!asks.wait().unwrap().success());
        }
    }
}
