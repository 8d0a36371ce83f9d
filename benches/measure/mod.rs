//! What the measurements share.

use std::time::{Duration, Instant};

pub const RUNS: usize = 21;

/// The middle one of the measured times.
pub fn median(times: impl IntoIterator<Item = Duration>) -> Duration {
    let mut times = Vec::from_iter(times);
    times.sort_unstable();
    times[times.len() / 2]
}

pub fn timed(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
