// SPDX-License-Identifier: Apache-2.0
//! Ranks as threads, and an executor of one future.
#![allow(dead_code)] // each test program uses some of it

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Wake};
use std::thread::{self, Thread};
use std::time::Duration;

use hvd::{Context, InitOptions, OpOptions};

/// A job's name that no other test uses.
pub fn fresh_job() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("mem://rust-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A limit of time on this machine. Limits are for a machine that does nothing else; HVD_TEST_TIME_SCALE=3 allows three times as
/// long.
pub fn scaled(limit: Duration) -> Duration {
    let scale = std::env::var("HVD_TEST_TIME_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    limit.mul_f64(scale)
}

/// How every rank of a test opens its context: no operation waits longer than a test should.
pub fn opening(job: &str, rank: usize, size: usize) -> InitOptions<'static> {
    let limit = scaled(Duration::from_secs(30));
    let seconds = limit.as_secs_f64().to_string();
    InitOptions::new().rank(rank).size(size).rendezvous(job).timeout(limit).option("op_timeout", &seconds)
}

/// Runs the body as each of `size` ranks and returns what they gave. A panic of one is a panic of the test.
pub fn ranks<R: Send>(size: usize, body: impl Fn(Context) -> R + Sync) -> Vec<R> {
    let (job, body) = (fresh_job(), &body);
    thread::scope(|scope| {
        let job = &job;
        let start = |rank| scope.spawn(move || body(opening(job, rank, size).init().expect("init")));
        let threads: Vec<_> = (0..size).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank panicked")).collect()
    })
}

/// A job of one rank.
pub fn alone() -> Context {
    opening(&fresh_job(), 0, 1).init().expect("init")
}

pub fn named(name: &str) -> OpOptions {
    OpOptions::named(name)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut task = TaskContext::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut task) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
