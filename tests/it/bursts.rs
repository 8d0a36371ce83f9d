//! A file that is changed in bursts beside calls, with rest in between: without the bursts nothing would be disturbed,
//! and without the rest no call might succeed.

use crate::harness::DEADLINE;
use std::fmt::Debug;
use std::sync::mpsc::{TrySendError, sync_channel};
use std::time::Instant;

/// Runs `call` until it says that enough was seen. A burst begins with a call unless the last one still goes on, and
/// no second one begins within a call.
pub fn beside<T: Debug>(mut seen: T, mut burst: impl FnMut(usize) + Send, mut call: impl FnMut(&mut T) -> bool) -> T {
    std::thread::scope(|scope| {
        // Dropped also when a call panics. It holds nothing: an order reaches a thread that waits for one, or nobody.
        let (order, orders) = sync_channel(0);
        scope.spawn(move || orders.iter().enumerate().for_each(|(number, ())| burst(number)));
        let started = Instant::now();
        loop {
            assert!(started.elapsed() < DEADLINE, "not enough was seen: {seen:?}");
            assert_ne!(order.try_send(()), Err(TrySendError::Disconnected(())), "the bursts ended early");
            if call(&mut seen) {
                return seen;
            }
        }
    })
}
