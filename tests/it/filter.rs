//! A process to which the kernel, or the filter of a container, gives no `openat2`.

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// The number of `openat2`, the same on all architectures.
const OPENAT2: i64 = 437;

/// Runs something in a thread for which, as for each process that it starts, `openat2` answers with this error.
pub fn without_openat2<T: Send>(error: Errno, run: impl FnOnce() -> T + Send) -> T {
    let answer = SeccompAction::Errno(error.raw_os_error().try_into().unwrap());
    let rules = [(OPENAT2, vec![])].into_iter().collect();
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, architecture).unwrap();
    let program = BpfProgram::try_from(filter).unwrap();
    std::thread::scope(|scope| {
        let filtered = scope.spawn(|| {
            seccompiler::apply_filter(&program).unwrap();
            let opened = openat2(CWD, ".", OFlags::PATH, Mode::empty(), ResolveFlags::empty());
            assert_eq!(opened.unwrap_err(), error, "the filter is in force");
            run()
        });
        filtered.join().unwrap()
    })
}
