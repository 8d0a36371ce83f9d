//! `write_text_file`: what a replacement keeps of the file, and which destinations it leaves alone.

use crate::harness::{NOT_WRITABLE, Refusal, Tree, both_back_ends, is_root};
use crate::write::{serve_after, write};
use rustix::fs::{XattrFlags, getxattr, lgetxattr, setxattr};
use serde_json::json;
use std::fs::Permissions;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    assert_eq!(self::mode(path), mode);
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 4096];
    let length = getxattr(path, name, value.as_mut_slice()).ok()?;
    value.truncate(length);
    Some(value)
}

/// An access list as the kernel stores it: `owner`, user 1234, `group`, mask, `others`.
fn access_list(owner: u16, named: u16, group: u16, mask: u16, others: u16) -> Vec<u8> {
    let anyone = u32::MAX;
    let entries = [(1, owner, anyone), (2, named, 1234), (4, group, anyone), (16, mask, anyone), (32, others, anyone)];
    let mut list = Vec::from(2_u32.to_le_bytes());
    for (tag, permissions, id) in entries {
        let tag: u16 = tag;
        list.extend(tag.to_le_bytes().into_iter().chain(permissions.to_le_bytes()).chain(id.to_le_bytes()));
    }
    list
}

/// An inode attribute of `chattr`, taken off on drop so that the tree can be removed.
struct Flag {
    path: PathBuf,
    flag: &'static str,
}

impl Flag {
    fn set(path: PathBuf, flag: &'static str) -> Self {
        let guard = Self { path, flag };
        assert!(guard.chattr('+'));
        guard
    }

    fn chattr(&self, sign: char) -> bool {
        Command::new("chattr").arg(format!("{sign}{}", self.flag)).arg(&self.path).status().unwrap().success()
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        self.chattr('-');
    }
}

both_back_ends! {
    // CWE-732: a replacement gives a file to others, or takes it from them.
    fn a_replacement_keeps_the_mode_whatever_the_umask(backend) {
        for umask in ["000", "077"] {
            let tree = Tree::new();
            let mut server = serve_after(&tree, backend, &format!("umask {umask}"), &[]);
            for kept in [0o600, 0o644, 0o664, 0o666, 0o755, 0o777, 0o640, 0o700] {
                tree.write("a", "old");
                set_mode(&tree.path("a"), kept);
                write(&mut server, "a", "new").unwrap();
                assert_eq!(mode(&tree.path("a")), kept, "{kept:o} under umask {umask}");
                assert_eq!(tree.read("a"), b"new");
                std::fs::remove_file(tree.path("a")).unwrap();
            }
        }
    }

    // CWE-732: new content runs with the old file's privileges.
    fn set_id_and_sticky_bits_are_dropped(backend) {
        let tree = Tree::new();
        let mut server = tree.serve(backend);
        for special in [0o4755, 0o2755, 0o6777, 0o1644] {
            tree.write("a", "old");
            set_mode(&tree.path("a"), special);
            write(&mut server, "a", "new").unwrap();
            assert_eq!(mode(&tree.path("a")), special & 0o777, "{special:o}");
            std::fs::remove_file(tree.path("a")).unwrap();
        }
    }

    fn a_replacement_keeps_owner_and_group(backend) {
        if !is_root() {
            return;
        }
        let tree = Tree::with(&[("a", "old")]);
        set_mode(&tree.path("a"), 0o640);
        chown(tree.path("a"), Some(1234), Some(2345)).unwrap();
        write(&mut tree.serve(backend), "a", "new").unwrap();
        let new = std::fs::metadata(tree.path("a")).unwrap();
        assert_eq!((new.uid(), new.gid(), new.mode() & 0o7777), (1234, 2345, 0o640));
        assert_eq!(tree.read("a"), b"new");
    }

    // CWE-732: new content runs with the old file's privileges.
    fn set_id_bits_are_dropped_of_a_file_of_another_owner_too(backend) {
        if !is_root() {
            return;
        }
        let tree = Tree::with(&[("a", "old")]);
        chown(tree.path("a"), Some(1234), Some(2345)).unwrap();
        set_mode(&tree.path("a"), 0o6755);
        write(&mut tree.serve(backend), "a", "new").unwrap();
        assert_eq!(mode(&tree.path("a")), 0o755);
    }

    fn a_group_that_cannot_be_given_refuses_the_write(backend) {
        if !is_root() {
            return;
        }
        let tree = Tree::with(&[("a", "old")]);
        set_mode(&tree.root(), 0o777);
        set_mode(tree.above(), 0o755);
        set_mode(&tree.path("a"), 0o666);
        chown(tree.path("a"), Some(1234), Some(2345)).unwrap();
        // A server of another user may write to the file and its directory, but cannot give the new file away.
        let run = "exec setpriv --reuid 4321 --regid 4321 --clear-groups \"$@\"";
        let mut server = serve_after(&tree, backend, run, &[]);
        let refused = write(&mut server, "a", "new").unwrap_err();
        assert_eq!(refused, Refusal::new("destination's owner or access list cannot be kept", "not_writable"));
        assert_eq!(tree.read("a"), b"old");
        assert_eq!(tree.names(), ["a"]);
        assert!(write(&mut server, "b", "its own").is_ok(), "it may write in this directory");
    }

    fn a_replacement_keeps_the_access_list(backend) {
        let tree = Tree::with(&[("a", "old")]);
        let list = access_list(6, 6, 4, 6, 0);
        setxattr(tree.path("a"), ACCESS, &list, XattrFlags::empty()).unwrap();
        let before = mode(&tree.path("a"));
        write(&mut tree.serve(backend), "a", "new").unwrap();
        assert_eq!(attribute(&tree.path("a"), ACCESS), Some(list));
        assert_eq!(mode(&tree.path("a")), before);
        assert_eq!(tree.read("a"), b"new");
    }

    fn the_default_access_list_of_the_directory_does_not_widen_a_replaced_file(backend) {
        let tree = Tree::with(&[("a", "old"), ("listed", "old")]);
        set_mode(&tree.path("a"), 0o640);
        let list = access_list(6, 4, 4, 4, 0);
        setxattr(tree.path("listed"), ACCESS, &list, XattrFlags::empty()).unwrap();
        setxattr(tree.root(), DEFAULT, &access_list(7, 7, 7, 7, 7), XattrFlags::empty()).unwrap();
        tree.write("witness", "");
        assert!(attribute(&tree.path("witness"), ACCESS).is_some(), "new files inherit a list here");
        let mut server = tree.serve(backend);
        write(&mut server, "a", "new").unwrap();
        assert_eq!(attribute(&tree.path("a"), ACCESS), None);
        assert_eq!(mode(&tree.path("a")), 0o640);
        write(&mut server, "listed", "new").unwrap();
        assert_eq!(attribute(&tree.path("listed"), ACCESS), Some(list));
        write(&mut server, "fresh", "new").unwrap();
        assert_eq!(mode(&tree.path("fresh")), 0o600, "the mask gives nobody else anything");
    }

    fn a_replacement_keeps_user_attributes(backend) {
        let tree = Tree::with(&[("a", "old"), ("plain", "old")]);
        let bytes: Vec<u8> = (0..=255).collect();
        for (name, value) in [("user.origin", b"somewhere".as_slice()), ("user.bytes", &bytes), ("user.empty", b"")] {
            setxattr(tree.path("a"), name, value, XattrFlags::empty()).unwrap();
        }
        let mut server = tree.serve(backend);
        write(&mut server, "a", "new").unwrap();
        assert_eq!(attribute(&tree.path("a"), "user.origin"), Some(b"somewhere".to_vec()));
        assert_eq!(attribute(&tree.path("a"), "user.bytes"), Some(bytes));
        assert_eq!(attribute(&tree.path("a"), "user.empty"), Some(Vec::new()));
        write(&mut server, "plain", "new").unwrap();
        assert_eq!(attribute(&tree.path("plain"), "user.origin"), None);
        assert_eq!(tree.read("a"), b"new");
    }

    // CWE-59: a write goes through a link or into a device.
    fn what_is_no_regular_file_is_refused_and_unchanged(backend) {
        let tree = Tree::with(&[("dir/kept", "kept"), ("target", "kept")]);
        tree.link("target", "in-root");
        tree.link("nothing", "dangling");
        tree.link("../outside/new.txt", "dangling-outside");
        tree.link("../outside/s.txt", "to-outside");
        tree.link(tree.outside().join("s.txt"), "absolute");
        tree.link("dir", "to-dir");
        tree.link("loop", "loop");
        tree.fifo("fifo");
        let socket = UnixListener::bind(tree.path("socket")).unwrap();
        let mut destinations = vec![
            "dir", "in-root", "dangling", "dangling-outside", "to-outside", "absolute", "to-dir", "loop", "fifo", "socket",
        ];
        if is_root() {
            for (name, number) in [("null", "3"), ("full", "7")] {
                let made = Command::new("mknod").arg(tree.path(name)).args(["c", "1", number]).status().unwrap();
                assert!(made.success());
            }
            destinations.extend(["null", "full"]);
        }
        let inode = |name: &str| {
            let meta = std::fs::symlink_metadata(tree.path(name)).unwrap();
            (meta.ino(), meta.mode(), meta.ctime(), meta.ctime_nsec())
        };
        let (names, before): (_, Vec<_>) = (tree.names(), destinations.iter().map(|name| inode(name)).collect());
        let mut server = tree.serve(backend);
        for _ in 0..20 {
            for name in &destinations {
                let refused = write(&mut server, name, "CLOBBER").unwrap_err();
                assert_eq!(refused, Refusal::new(NOT_WRITABLE, "not_writable"), "{name}");
            }
        }
        let after: Vec<_> = destinations.iter().map(|name| inode(name)).collect();
        assert_eq!(after, before);
        assert_eq!(tree.names(), names);
        assert_eq!(tree.read("target"), b"kept");
        assert!(std::fs::symlink_metadata(tree.path("fifo")).unwrap().file_type().is_fifo());
        tree.outside_is_untouched();
        assert!(write(&mut server, "target", "new").is_ok(), "a regular file beside them is written");
        drop(socket);
    }

    // CWE-732: a rename replaces what its owner forbids to change.
    fn a_file_without_any_write_bit_is_refused_even_for_root(backend) {
        let tree = Tree::with(&[("a", "old")]);
        let mut server = tree.serve(backend);
        for mode in [0o444, 0o400, 0o555, 0o000] {
            set_mode(&tree.path("a"), mode);
            let before = std::fs::metadata(tree.path("a")).unwrap().ino();
            assert_eq!(write(&mut server, "a", "new").unwrap_err(), Refusal::new(NOT_WRITABLE, "not_writable"), "{mode:o}");
            assert_eq!(std::fs::metadata(tree.path("a")).unwrap().ino(), before);
        }
        set_mode(&tree.path("a"), 0o600);
        assert_eq!(tree.read("a"), b"old");
        assert_eq!(tree.names(), ["a"]);
        assert!(write(&mut server, "a", "new").is_ok());
    }

    // CWE-732: a rename replaces what its owner forbids to change.
    fn an_immutable_or_append_only_file_is_refused(backend) {
        if !is_root() {
            return;
        }
        for flag in ["i", "a"] {
            let tree = Tree::with(&[("a", "old")]);
            let mut server = tree.serve(backend);
            let guard = Flag::set(tree.path("a"), flag);
            assert_eq!(write(&mut server, "a", "new").unwrap_err(), Refusal::new(NOT_WRITABLE, "not_writable"), "+{flag}");
            assert_eq!(tree.read("a"), b"old");
            assert_eq!(tree.names(), ["a"]);
            drop(guard);
            assert!(write(&mut server, "a", "new").is_ok());
        }
    }

    // CWE-755: a directory that takes no names loses a file.
    fn an_immutable_directory_takes_no_write_and_keeps_its_files(backend) {
        if !is_root() {
            return;
        }
        let tree = Tree::with(&[("a", "old")]);
        let mut server = tree.serve(backend);
        let guard = Flag::set(tree.root(), "i");
        for name in ["a", "new"] {
            assert!(write(&mut server, name, "new").is_err());
        }
        assert_eq!(tree.read("a"), b"old");
        assert_eq!(tree.names(), ["a"]);
        drop(guard);
        assert!(write(&mut server, "a", "new").is_ok());
    }

    fn a_file_hidden_by_its_size_is_not_overwritten(backend) {
        let tree = Tree::with(&[("over", "12345678901"), ("exact", "1234567890")]);
        let mut server = tree.serve_with(backend, &["--include", "**", "--max-file-bytes", "10"]);
        assert_eq!(server.all("list_directory", json!({}), "path"), ["exact"]);
        assert_eq!(write(&mut server, "over", "new").unwrap_err(), Refusal::new(NOT_WRITABLE, "not_writable"));
        assert_eq!(tree.read("over"), b"12345678901");
        assert!(write(&mut server, "exact", "new").is_ok());
    }

    fn a_file_with_two_links_is_not_overwritten_where_links_are_denied(backend) {
        let tree = Tree::with(&[("a", "old"), ("single", "old")]);
        std::fs::hard_link(tree.path("a"), tree.path("b")).unwrap();
        let mut server = tree.serve_with(backend, &["--include", "**", "--deny-hardlinks"]);
        for name in ["a", "b"] {
            assert_eq!(write(&mut server, name, "new").unwrap_err(), Refusal::new(NOT_WRITABLE, "not_writable"));
            assert_eq!(tree.read(name), b"old");
        }
        assert_eq!(tree.names(), ["a", "b", "single"]);
        assert!(write(&mut server, "single", "new").is_ok());
    }

    // CWE-62: a write changes a file that has another name outside.
    fn an_inode_that_is_linked_from_outside_is_never_modified(backend) {
        let tree = Tree::new();
        std::fs::hard_link(tree.outside().join("s.txt"), tree.path("h")).unwrap();
        let before = std::fs::metadata(tree.path("h")).unwrap();
        assert_eq!(before.nlink(), 2);
        write(&mut tree.serve(backend), "h", "CLOBBER").unwrap();
        assert_eq!(tree.read("h"), b"CLOBBER");
        let (inside, outside) =
            (std::fs::metadata(tree.path("h")).unwrap(), std::fs::metadata(tree.outside().join("s.txt")).unwrap());
        assert_ne!(inside.ino(), before.ino(), "the write went to a new inode");
        assert_eq!((outside.ino(), outside.nlink()), (before.ino(), 1));
        tree.outside_is_untouched();
    }
}

#[test]
fn an_access_list_is_spelled_as_the_kernel_does() {
    // Guards the fixtures above: a list that the kernel took comes back as it was given.
    let tree = Tree::with(&[("a", "")]);
    let list = access_list(6, 4, 0, 4, 0);
    setxattr(tree.path("a"), ACCESS, &list, XattrFlags::empty()).unwrap();
    let mut back = vec![0; 4096];
    let length = lgetxattr(tree.path("a"), ACCESS, back.as_mut_slice()).unwrap();
    assert_eq!(back[..length], list);
    assert_eq!(mode(&tree.path("a")), 0o640);
}
