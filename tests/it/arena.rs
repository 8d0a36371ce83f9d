//! A root, a part of it, and something else that is to be exchanged for that part.

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// In the content or the name of everything that is never to be seen.
pub const OUTSIDE: &str = "OUTSIDE";

/// The contents that may be seen: of the root's own files, of others beneath it, and of those whose directory is moved in.
pub const CONTENTS: [&str; 3] = ["the file INSIDE", "another file INSIDE", "a file moved INSIDE"];

/// Files of the root that lie in it and deep in it, directories, and the root's own path; as seen from above the root.
pub const PARTS: [&str; 4] = ["root/a/b/f.txt", "root/a/b", "root/a", "root"];

/// What is exchanged for a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Other {
    /// To the part's counterpart in `evil`.
    Link,
    Fifo,
    /// `/dev/zero`, which never ends.
    Device,
    /// From beneath the root, with the same names in it; an empty one for the root itself.
    Directory,
    /// From beside the root, with the same names in it.
    Outside,
}

pub const OTHERS: [Other; 5] = [Other::Link, Other::Fifo, Other::Device, Other::Directory, Other::Outside];

/// A root with `f.txt` and `a/b/f.txt`, and two look-alikes beside it: `evil`, to which links lead, and `moved`, whose
/// directories are moved into the root.
pub struct Arena {
    dir: TempDir,
    part: &'static str,
    other: Other,
}

impl Arena {
    /// `None` for a device, which only root can make. Where `CI` is set, it has to be made.
    pub fn new(part: &'static str, other: Other) -> Option<Self> {
        let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
        if other == Other::Device && !root {
            assert!(std::env::var_os("CI").is_none(), "a device needs root, and CI runs all races");
            return None;
        }
        let arena = Self { dir: tempfile::tempdir().unwrap(), part, other };
        arena.fill("root", CONTENTS[0]);
        match other {
            Other::Directory if part != "root" => arena.fill("root/other", CONTENTS[1]),
            Other::Outside => {
                arena.fill("moved", CONTENTS[2]);
                // A directory that is moved in may be seen, what lay beside it may not.
                std::fs::write(arena.path("moved/OUTSIDE.txt"), OUTSIDE).unwrap();
            }
            _ => arena.make_other(),
        }
        arena.fill("evil", OUTSIDE);
        for directory in ["evil", "evil/a", "evil/a/b"] {
            std::fs::write(arena.path(directory).join("OUTSIDE.txt"), OUTSIDE).unwrap();
        }
        Some(arena)
    }

    fn fill(&self, top: &str, content: &str) {
        std::fs::create_dir_all(self.path(top).join("a/b")).unwrap();
        for file in ["f.txt", "a/b/f.txt"] {
            std::fs::write(self.path(top).join(file), content).unwrap();
        }
    }

    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Where the part lies, and where the other, at first.
    pub fn places(&self) -> [PathBuf; 2] {
        // A file is exchanged for a directory, too.
        let directory = match self.counterpart() {
            "f.txt" => "a",
            counterpart => counterpart.trim_end_matches("/f.txt"),
        };
        let other = match self.other {
            Other::Directory if self.part != "root" => self.path("root/other").join(directory),
            Other::Outside => self.path("moved").join(directory),
            _ => self.path("beside"),
        };
        [self.path(self.part), other]
    }

    /// The part by its path beneath the root.
    fn counterpart(&self) -> &'static str {
        self.part.trim_start_matches("root").trim_start_matches('/')
    }

    pub fn make_other(&self) {
        let place = &self.places()[1];
        match self.other {
            Other::Link => std::os::unix::fs::symlink(self.path("evil").join(self.counterpart()), place).unwrap(),
            Other::Fifo => mknodat(CWD, place, FileType::Fifo, Mode::RWXU, 0).unwrap(),
            Other::Device => mknodat(CWD, place, FileType::CharacterDevice, Mode::RWXU, makedev(1, 5)).unwrap(),
            Other::Directory | Other::Outside => std::fs::create_dir_all(place).unwrap(),
        }
    }

    /// No unfinished write lies in the root, wherever that is now.
    pub fn nothing_is_left_over(&self) {
        for place in [self.path("root"), self.places()[1].clone()] {
            let Ok(entries) = std::fs::read_dir(place) else { continue };
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            assert_eq!(names.filter(|name| name.starts_with(".ptc-fs-mcp-")).count(), 0);
        }
    }

    /// Nothing was written where links lead, nor left behind there.
    pub fn evil_is_untouched(&self) {
        for (directory, names) in [
            ("evil", vec!["OUTSIDE.txt", "a", "f.txt"]),
            ("evil/a", vec!["OUTSIDE.txt", "b"]),
            ("evil/a/b", vec!["OUTSIDE.txt", "f.txt"]),
        ] {
            let directory = self.path(directory);
            let entries = std::fs::read_dir(&directory).unwrap();
            let mut found: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            found.sort();
            assert_eq!(found, names);
            for file in names.iter().filter(|name| name.ends_with(".txt")) {
                assert_eq!(std::fs::read_to_string(directory.join(file)).unwrap(), OUTSIDE);
            }
        }
    }
}
