//! A file that is changed in bursts beside calls, with rest in between: without the bursts nothing would be disturbed,
//! and without the rest no call might succeed.

use crate::harness::DEADLINE;
use std::fmt::Debug;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::mpsc::{TrySendError, sync_channel};
use std::time::Instant;

/// What a file is filled with, one letter at a time. A burst is shorter than a round of these, so that two reads of one
/// call cannot meet the same letter in two states.
pub const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

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

/// Lines of one letter, of which every tenth has a dash. 160 bytes a block.
pub fn filled(letter: u8, blocks: usize) -> String {
    let line = char::from(letter).to_string().repeat(15) + "\n";
    let block = line.repeat(9) + &line.replacen(char::from(letter), "-", 1);
    block.repeat(blocks)
}

/// Of so many calls one is disturbed, so that traversals go on and some come to their end.
pub const BURST: usize = 10;

/// Bursts that fill a file in place with one letter after the other, with as many blocks of it as `blocks` says.
pub fn filling(path: &Path, blocks: impl Fn(usize) -> usize + Send) -> impl FnMut(usize) + Send {
    let file = File::options().write(true).open(path).unwrap();
    let mut writes = 0;
    move |number| {
        if number % BURST > 0 {
            return;
        }
        for _ in 0..1 + number / BURST % 25 {
            writes += 1;
            let content = filled(LETTERS[writes % LETTERS.len()], blocks(writes));
            // It shrinks before it is filled: whenever nobody is at work it is of one letter.
            if file.metadata().unwrap().len() > content.len() as u64 {
                file.set_len(content.len() as u64).unwrap();
            }
            file.write_all_at(content.as_bytes(), 0).unwrap();
        }
    }
}

/// The letters that a text is made of.
pub fn letters(text: &str) -> Vec<u8> {
    let mut letters: Vec<u8> = text.bytes().filter(u8::is_ascii_alphabetic).collect();
    letters.sort_unstable();
    letters.dedup();
    letters
}
