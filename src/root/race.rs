//! The resolver and the walk beside a storm of exchanges, in process: what is opened is always something that lies, or
//! lay, beneath the root. Tests only.
#![cfg(test)]
#![allow(
    dead_code,
    unreachable_pub,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a hostile process has ambient authority; the races through the binary use all of its tools"
)]

#[path = "../../tests/it/arena.rs"]
mod arena;
#[path = "../../tests/it/racer.rs"]
mod racer;

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use super::fact::Fact;
use super::resolve::{Lookup, Obstacle};
use super::{Root, Watch, Work};
use crate::Config;
use crate::path::RelPath;
use arena::{Arena, OTHERS, PARTS};
use racer::{Outcome, Pair, Tally};

/// Rounds for each of the twenty pairs of names: 20,000 on each back end.
const ROUNDS: u64 = 1_000;

/// Device and inode.
type Identity = (u64, u64);

/// Files and directories from a path downwards.
fn collect(path: &Path, found: &mut BTreeSet<Identity>) {
    let metadata = std::fs::symlink_metadata(path).unwrap();
    // As `statx` tells it: major and minor number.
    let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    if metadata.is_file() || metadata.is_dir() {
        found.insert(((u64::from(major) << 32) | u64::from(minor), metadata.ino()));
    }
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            collect(&entry.unwrap().path(), found);
        }
    }
}

/// Runs a race for every part and other. `call` returns what it opened, or nothing; `gap` is about as long as it takes.
fn race(name: &str, gap: Duration, call: impl Fn(&Root) -> BTreeSet<Identity>) {
    for (lookup, how) in [(Lookup::Openat2, "openat2"), (Lookup::Components, "component walk")] {
        let mut total = Tally::default();
        for (part, other) in PARTS.into_iter().flat_map(|part| OTHERS.map(|other| (part, other))) {
            let Some(arena) = Arena::new(part, other) else { continue };
            let places = arena.places();
            let mut allowed = BTreeSet::new();
            collect(&arena.path("root"), &mut allowed);
            if part != "root" {
                collect(&places[1], &mut allowed);
            }
            let config = Config::builder().root(arena.path("root")).include("**").build().unwrap();
            let root = Root { lookup, ..Root::open_ambient(&config).unwrap() };
            let pair = Pair::new(places);
            let mut tally = Tally { rounds: racer::at_least(ROUNDS), ..Tally::default() };
            pair.storm(tally.rounds, gap, || {
                let opened = call(&root);
                let outcome = match opened.is_subset(&allowed) {
                    false => Outcome::Escaped,
                    true if opened.is_empty() => Outcome::Nothing,
                    true => Outcome::Inside,
                };
                tally.count(outcome, || format!("{part} {other:?}: {opened:?}"));
            });
            tally.exchanges = pair.exchanges();
            assert!(tally.inside > 0, "{name} {part} {other:?}: nothing was opened");
            // The pinned root is not reached by its path.
            assert!(part != "root" || tally.nothing == 0, "{name} {other:?}: {tally:?}");
            total.add(tally);
        }
        total.conclude(&format!("{name} in process, {how}"));
    }
}

/// A failure of the system, or a mount, is none of a race's outcomes.
fn unless_raced<T>(result: Result<T, Obstacle>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Obstacle::Absent | Obstacle::Changing) => None,
        Err(other) => panic!("{other:?}"),
    }
}

// CWE-367: what is opened is not what was judged.
#[test]
fn the_resolver_opens_nothing_outside() {
    race("resolver", Duration::from_micros(4), |root| {
        let Some(dir) = unless_raced(root.directory_at("a/b")) else { return BTreeSet::new() };
        let file = unless_raced(root.open_in(&dir, "f.txt")).map(|file| file.fact().unwrap());
        file.into_iter().chain([Fact::of(&dir).unwrap()]).map(|fact| fact.identity()).collect()
    });
}

// CWE-367: what is opened is not what was judged.
#[test]
fn the_walk_opens_nothing_outside() {
    race("walk", Duration::from_micros(60), |root| {
        let watch = Watch::default();
        let mut opened = BTreeSet::new();
        let walked = root.visit(&RelPath::root(), &mut Work::new(&watch), &mut |found, work| {
            if let Some(file) = found.open(work)?.filter(|_| found.path.starts_with("a/b")) {
                opened.insert(file.fact().unwrap().identity());
            }
            Ok(())
        });
        assert_eq!(walked, Ok(()));
        opened
    });
}
