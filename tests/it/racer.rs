//! A thread that exchanges what lies at two names beside calls, and the count of what came of it.
//!
//! A round is a call during which at least one exchange was completed; other calls do not count as rounds.

use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many rounds a race has: more than the least where this variable says so.
pub fn at_least(least: u64) -> u64 {
    std::env::var("PTC_FS_MCP_RACE_TIMES").map_or(least, |times| least * times.parse::<u64>().unwrap())
}

/// One race runs at a time: it keeps two processors busy, and with fewer most calls would have the tree for themselves.
static ALONE: Mutex<()> = Mutex::new(());

/// Of a burst: some times as long as a call takes, and not as long as a call tries.
const LONG: Duration = Duration::from_millis(5);

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two names, and how often what lies there was exchanged.
pub struct Pair {
    places: [PathBuf; 2],
    exchanges: AtomicU64,
}

impl Pair {
    pub fn new(places: [PathBuf; 2]) -> Self {
        Self { places, exchanges: AtomicU64::new(0) }
    }

    pub fn exchanges(&self) -> u64 {
        self.exchanges.load(SeqCst)
    }

    fn exchange(&self) {
        let [one, other] = &self.places;
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
        self.exchanges.fetch_add(1, SeqCst);
    }

    /// Makes calls beside a storm of exchanges, with up to `gap` between two, until so many were rounds. A gap of about
    /// a call's length lets some calls pass undisturbed.
    pub fn storm(&self, rounds: u64, gap: Duration, mut call: impl FnMut()) {
        let _alone = alone();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0_u32.. {
                    if ended.load(SeqCst) {
                        break;
                    }
                    self.exchange();
                    // Of different lengths, so that every step of a call meets an exchange at some time.
                    pause(gap * (turn % 41) / 40);
                }
            });
            let _ended = End(&ended);
            let (mut made, mut before) = (0, 0);
            while made < rounds {
                // Until the other thread runs: on a busy machine most calls would have the tree for themselves.
                while self.exchanges() == before {
                    std::thread::yield_now();
                }
                before = self.exchanges();
                call();
                made += u64::from(self.exchanges() > before);
            }
        });
    }

    /// Makes rounds, in turn beside a long burst of exchanges, in the midst of which the call begins, and beside a short
    /// one that begins with it. Then they rest, so that a call that tries again can succeed. A round makes its call and
    /// lets the exchanges `rest`; what it looks at afterwards keeps still.
    pub fn rounds(&self, rounds: u64, mut round: impl FnMut(&mut dyn FnMut())) {
        let _alone = alone();
        // Of the call.
        let over = AtomicBool::new(true);
        std::thread::scope(|scope| {
            let (order, orders) = channel::<u32>();
            let (end, ended) = channel();
            scope.spawn(|| {
                let (orders, end) = (orders, end);
                for turn in orders {
                    let gap = Duration::from_micros(u64::from(turn * 13 % 61));
                    let most = if turn % 2 == 0 { u32::MAX } else { 1 + turn * 7 % 24 };
                    let begun = Instant::now();
                    for _ in 0..most {
                        self.exchange();
                        pause(gap);
                        if over.load(SeqCst) || begun.elapsed() > LONG {
                            break;
                        }
                    }
                    if end.send(()).is_err() {
                        break;
                    }
                }
            });
            let _over = End(&over);
            let mut made = 0;
            for turn in (0..100_000).cycle() {
                over.store(false, SeqCst);
                let rested = self.exchanges();
                order.send(turn).unwrap();
                while turn % 2 == 0 && self.exchanges() == rested {
                    std::thread::yield_now();
                }
                let before = self.exchanges();
                round(&mut || {
                    made += u64::from(self.exchanges() > before);
                    over.store(turn % 2 == 0, SeqCst);
                    ended.recv().unwrap();
                });
                if made >= rounds {
                    break;
                }
            }
            drop(order);
        });
    }
}

/// Says that something is over, also when a call panics.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Far shorter than a thread could sleep.
fn pause(length: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < length {
        std::hint::spin_loop();
    }
}

/// What one call came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was given something, and all of it lies beneath the root.
    Inside,
    /// It was refused, or given nothing.
    Nothing,
    /// Anything else.
    Escaped,
}

/// What a race came to.
#[derive(Debug, Default)]
pub struct Tally {
    pub rounds: u64,
    pub calls: u64,
    pub exchanges: u64,
    pub inside: u64,
    pub nothing: u64,
    pub escaped: u64,
    pub example: String,
}

impl Tally {
    pub fn count(&mut self, outcome: Outcome, what: impl FnOnce() -> String) {
        self.calls += 1;
        match outcome {
            Outcome::Inside => self.inside += 1,
            Outcome::Nothing => self.nothing += 1,
            Outcome::Escaped => {
                self.escaped += 1;
                self.example = what();
            }
        }
    }

    pub fn add(&mut self, race: Self) {
        self.rounds += race.rounds;
        self.calls += race.calls;
        self.exchanges += race.exchanges;
        self.inside += race.inside;
        self.nothing += race.nothing;
        self.escaped += race.escaped;
        if race.escaped > 0 {
            self.example = race.example;
        }
    }

    /// Fails where anything escaped. Tells the counts also when all is well, which the test runner would keep to itself.
    pub fn conclude(&self, name: &str) {
        let Self { rounds, calls, exchanges, inside, nothing, escaped, example } = self;
        let line = format!(
            "race: {name}: {rounds} rounds in {calls} calls beside {exchanges} exchanges; {inside} answered from inside, \
             {nothing} with nothing, {escaped} escaped\n"
        );
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        assert_eq!(*escaped, 0, "{example}");
    }
}
