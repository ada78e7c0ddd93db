// SPDX-License-Identifier: Apache-2.0
//! Operations whose owners do not behave: dropped, forgotten, panicking, late. Memory must stay valid until an operation has
//! ended, and must not stay longer.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::future::Future;
use std::mem;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::{pin, Pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Barrier, Mutex};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use common::{alone, block_on, fresh_job, named, opening, ranks, scaled};
use hvd::{Context, OpOptions, Pending, Status};

/// Elements of the tensors whose memory is watched; no other allocation of these programs has as many bytes.
const WATCHED: usize = 54_321;
static WATCHED_ALIVE: AtomicUsize = AtomicUsize::new(0);

/// Counts the allocations of watched tensors.
struct Watch;

// SAFETY: passes everything on.
unsafe impl GlobalAlloc for Watch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() == WATCHED * size_of::<f64>() {
            WATCHED_ALIVE.fetch_add(1, Ordering::SeqCst);
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if layout.size() == WATCHED * size_of::<f64>() {
            WATCHED_ALIVE.fetch_sub(1, Ordering::SeqCst);
        }
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static WATCH: Watch = Watch;

/// Tests that count watched tensors run one at a time.
static COUNTING: Mutex<()> = Mutex::new(());

fn watched() -> Vec<f64> {
    let mut tensor = Vec::with_capacity(WATCHED);
    tensor.resize(WATCHED, 1.0);
    tensor
}

/// Two ranks as threads. The second does its part when it gets word from the first.
fn two<R: Send>(
    first: impl FnOnce(Context, mpsc::Sender<()>) -> R + Send,
    second: impl FnOnce(Context, mpsc::Receiver<()>) + Send,
) -> R {
    let job = fresh_job();
    let (go, word) = mpsc::channel();
    thread::scope(|scope| {
        let job = &job;
        let thread = scope.spawn(move || first(opening(job, 0, 2).init().expect("init"), go));
        scope.spawn(move || {
            let context = opening(job, 1, 2).init().expect("init");
            word.recv().expect("word from rank 0");
            second(context, word);
        });
        thread.join().expect("rank 0 panicked")
    })
}

fn second_half(name: &'static str) -> impl FnOnce(Context, mpsc::Receiver<()>) + Send {
    move |context, _word| {
        context.allreduce(&watched(), &named(name)).expect(name);
        context.barrier(&named("end")).expect("end");
    }
}

#[test]
fn dropped_in_flight_frees_its_memory_at_the_end() {
    let _one = COUNTING.lock();
    two(
        |context, go| {
            let pending = context.allreduce_async(watched(), &named("dropped")).unwrap();
            drop(pending);
            assert_eq!(WATCHED_ALIVE.load(Ordering::SeqCst), 1, "in use, so not freed");
            go.send(()).unwrap();
            context.barrier(&named("end")).unwrap();
        },
        second_half("dropped"),
    );
    // The contexts are gone, and with them the thread that frees.
    assert_eq!(WATCHED_ALIVE.load(Ordering::SeqCst), 0);
}

#[test]
fn forgotten_in_flight_leaks_and_no_more() {
    let _one = COUNTING.lock();
    two(
        |context, go| {
            mem::forget(context.allreduce_async(watched(), &named("forgotten")).unwrap());
            go.send(()).unwrap();
            context.barrier(&named("end")).unwrap();
            assert_eq!(context.allreduce(&[1.0], &OpOptions::new()).unwrap()[0], 2.0);
            context.shutdown(scaled(Duration::from_secs(10))).unwrap();
        },
        |context, _word| {
            context.allreduce(&watched(), &named("forgotten")).unwrap();
            context.barrier(&named("end")).unwrap();
            assert_eq!(context.allreduce(&[1.0], &OpOptions::new()).unwrap()[0], 2.0);
        },
    );
    assert_eq!(WATCHED_ALIVE.swap(0, Ordering::SeqCst), 1, "the forgotten tensor alone");
}

#[test]
fn polled_then_dropped_frees_its_memory_at_the_end() {
    let _one = COUNTING.lock();
    two(
        |context, go| {
            {
                let mut pending = pin!(context.allreduce_async(watched(), &named("polled")).unwrap());
                assert!(pending.as_mut().poll(&mut TaskContext::from_waker(&asleep())).is_pending());
            }
            assert_eq!(WATCHED_ALIVE.load(Ordering::SeqCst), 1);
            go.send(()).unwrap();
            context.barrier(&named("end")).unwrap();
        },
        second_half("polled"),
    );
    assert_eq!(WATCHED_ALIVE.load(Ordering::SeqCst), 0);
}

/// A waker that wakes nobody.
fn asleep() -> Waker {
    struct Nobody;
    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }
    Arc::new(Nobody).into()
}

#[test]
fn awaited_across_threads() {
    ranks(2, |context| {
        let pending = context.allreduce_async(vec![1.0f32; 3], &named("awaited")).unwrap();
        let sum = thread::spawn(move || block_on(async { pending.await.map(|sum| sum[0]) })).join().unwrap();
        assert_eq!(sum.unwrap(), 2.0);
        let both = async {
            let first = context.allreduce_async(vec![1i32], &named("first"))?;
            let second = context.allreduce_async(vec![2i32], &named("second"))?;
            Ok::<_, hvd::Error>((second.await?[0], first.await?[0]))
        };
        assert_eq!(block_on(both).unwrap(), (4, 2));
        context.barrier(&named("end")).unwrap();
    });
}

#[test]
fn time_runs_out_and_the_operation_lives_on() {
    two(
        |context, go| {
            let pending = context.allreduce_async(vec![1i64; 4], &named("slow")).unwrap();
            assert!(!pending.has_ended());
            let pending = pending.wait_timeout(Duration::from_millis(5)).expect_err("rank 1 has not begun");
            go.send(()).unwrap();
            assert_eq!(pending.wait().unwrap().into_vec(), [2; 4]);
        },
        |context, _word| {
            context.allreduce(&[1i64; 4], &named("slow")).unwrap();
        },
    );
}

#[test]
fn a_scope_waits_for_what_was_forgotten_in_it() {
    two(
        |context, go| {
            let mut lent = vec![1.0f64; 1000];
            let mut more = [1u8; 3];
            let ended = context.scope(|scope| {
                mem::forget(scope.allreduce_in_place(&mut lent, &named("lent"))?);
                drop(scope.allreduce_in_place(&mut more, &named("more"))?);
                go.send(()).unwrap();
                Ok("ended")
            });
            assert_eq!(ended.unwrap(), "ended");
            assert!(lent.iter().all(|&value| value == 2.0), "the scope returned before the operation had ended");
            assert_eq!(more, [2; 3]);
        },
        |context, _word| {
            context.allreduce(&vec![1.0f64; 1000], &named("lent")).unwrap();
            context.allreduce(&[1u8; 3], &named("more")).unwrap();
        },
    );
}

#[test]
fn a_scope_tells_errors_that_nobody_saw() {
    ranks(2, |context| {
        let mut lent = vec![0.0f32; 1 + context.rank()];
        let unseen = context.scope(|scope| scope.allreduce_in_place(&mut lent, &named("differ")).map(drop));
        assert_eq!(unseen.unwrap_err().status(), Status::Mismatch);
        let seen = context.scope(|scope| {
            let pending = scope.allreduce_in_place(&mut lent, &named("differ"))?;
            Ok(pending.wait().unwrap_err().status())
        });
        assert_eq!(seen.unwrap(), Status::Mismatch);
        let own: hvd::Result<()> = context.scope(|scope| {
            scope.allreduce_in_place(&mut lent, &named("differ")).map(drop)?;
            Err(context.option("no such option").unwrap_err())
        });
        assert_eq!(own.unwrap_err().status(), Status::NotFound);
        context.barrier(&named("end")).unwrap();
    });
}

#[test]
fn a_panic_in_a_scope_ends_its_operations() {
    two(
        |context, go| {
            let mut lent = [1.0f32; 8];
            let panic = catch_unwind(AssertUnwindSafe(|| {
                let _ = context.scope(|scope| -> hvd::Result<()> {
                    mem::forget(scope.allreduce_in_place(&mut lent, &named("never"))?);
                    panic!("expected by this test");
                });
            }));
            assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"expected by this test"));
            // Rank 1 has not submitted: only the end of the context could end the operation.
            assert_eq!(context.status().unwrap_err().status(), Status::ShutDown);
            lent.fill(3.0);
            go.send(()).unwrap();
        },
        |context, _word| {
            let error = context.allreduce(&[1.0f32; 8], &named("never")).unwrap_err();
            assert_eq!((error.status(), error.rank()), (Status::ShutDown, Some(0)), "{error}");
        },
    );
}

#[test]
fn a_panic_in_a_scope_without_operations_leaves_the_context() {
    let context = alone();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let _ = context.scope(|_| -> hvd::Result<()> { panic!("expected by this test") });
    }));
    assert!(panic.is_err());
    context.barrier(&OpOptions::new()).unwrap();
}

#[test]
fn a_scope_with_futures() {
    ranks(2, |context| {
        let (mut a, mut b) = ([1.0f32; 4], [2i32; 2]);
        let sums = context.scope(|scope| {
            block_on(async {
                let a = scope.allreduce_in_place(&mut a, &named("a"))?;
                let b = scope.allreduce_in_place(&mut b, &named("b"))?;
                let (b, a) = (b.await?, a.await?);
                Ok((a[0], b[0]))
            })
        });
        assert_eq!(sums.unwrap(), (2.0, 4));
    });
}

#[test]
fn after_shutdown_everything_is_refused() {
    let context = alone();
    let set = context.create_process_set(&[0]);
    assert_eq!(set.unwrap_err().status(), Status::AlreadyExists);
    let result = context.allreduce(&[1.0f32], &OpOptions::new()).unwrap();
    context.shutdown(scaled(Duration::from_secs(10))).unwrap();
    context.shutdown(scaled(Duration::from_secs(10))).unwrap();
    let error = context.allreduce(&[1.0f32], &OpOptions::new()).unwrap_err();
    assert_eq!(error.status(), Status::ShutDown, "{error}");
    assert_eq!(context.allreduce_async(vec![1u8], &OpOptions::new()).err().unwrap().status(), Status::ShutDown);
    assert_eq!(context.status().unwrap_err().class(), hvd::Class::Context);
    assert!(context.option("op_timeout").is_ok() && context.metrics().is_ok());
    drop(context);
    assert_eq!(result[0], 1.0, "results outlive the context");
}

#[test]
fn pending_operations_and_sets_keep_their_context() {
    ranks(2, |context| {
        let set = context.create_process_set(&[0]).unwrap();
        let pending = context.allreduce_async(vec![1.0f32], &named("kept")).unwrap();
        drop(context);
        assert_eq!((set.id(), set.size()), (Some(1), 1));
        assert_eq!(pending.wait().unwrap()[0], 2.0);
    });
}

#[test]
fn shut_down_while_another_thread_waits() {
    two(
        |context, go| {
            let pending = context.allreduce_async(vec![1.0f32], &named("cut")).unwrap();
            let waiting = thread::spawn(move || pending.wait());
            context.shutdown(scaled(Duration::from_secs(10))).unwrap();
            assert_eq!(waiting.join().unwrap().unwrap_err().status(), Status::ShutDown);
            go.send(()).unwrap();
        },
        |_context, _word| {},
    );
}

/// Does something on the context's callback thread: there a waker runs.
struct OnWake<F: Fn() + Send + Sync>(F, Barrier);

impl<F: Fn() + Send + Sync> Wake for OnWake<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
        self.1.wait();
    }
}

#[test]
fn wakers_may_use_the_context_and_panic() {
    two(
        |context, go| {
            let found = Arc::new(Mutex::new(Vec::new()));
            let (inside, seen) = (context.clone(), Arc::clone(&found));
            let wake = Arc::new(OnWake(
                move || {
                    let mut seen = seen.lock().unwrap();
                    let pending = inside.allreduce_async(vec![1.0f32; 16], &named("inside")).unwrap();
                    seen.push(pending.wait().map(drop).map_err(|error| error.status()));
                    seen.push(inside.shutdown(Duration::ZERO).map_err(|error| error.status()));
                    // What borrows has to wait until it has ended, also here.
                    let mut lent = [1.0f32; 16];
                    inside.allreduce_in_place(&mut lent, &named("borrowed inside")).unwrap();
                    assert_eq!(lent[0], 2.0);
                },
                Barrier::new(2),
            ));
            let mut pending = pin!(context.allreduce_async(vec![1.0f32; 4], &named("outside")).unwrap());
            let waker = Waker::from(Arc::clone(&wake));
            assert!(pending.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
            go.send(()).unwrap();
            wake.1.wait();
            go.send(()).unwrap();
            let expected = [Err(Status::WouldDeadlock), Err(Status::WouldDeadlock)];
            assert_eq!(*found.lock().unwrap(), expected);
            assert!(matches!(pending.as_mut().poll(&mut TaskContext::from_waker(&waker)), Poll::Ready(Ok(_))));

            // A waker that panics harms nobody else.
            let wake: Waker = Arc::new(OnWake(|| panic!("expected by this test"), Barrier::new(1))).into();
            let mut pending = pin!(context.allreduce_async(vec![1.0f32; 4], &named("panicking")).unwrap());
            let _ = pending.as_mut().poll(&mut TaskContext::from_waker(&wake));
            context.barrier(&named("end")).unwrap();
            block_on(context.barrier_async(&named("very end")).unwrap()).unwrap();
        },
        |context, word| {
            let reduce = |name: &str, count| context.allreduce(&vec![1.0f32; count], &named(name)).map(drop).expect(name);
            reduce("outside", 4);
            reduce("borrowed inside", 16);
            word.recv().expect("word that the waker has run");
            reduce("inside", 16);
            reduce("panicking", 4);
            context.barrier(&named("end")).unwrap();
            block_on(context.barrier_async(&named("very end")).unwrap()).unwrap();
        },
    );
}

#[test]
fn the_last_reference_may_go_on_the_callback_thread() {
    two(
        |context, go| {
            type Held = Mutex<Option<(Context, Pin<Box<Pending<()>>>)>>;
            let pending = Box::pin(context.barrier_async(&named("last")).unwrap());
            let held = Arc::new(Held::new(Some((context, pending))));
            let dropping = Arc::clone(&held);
            let wake = Arc::new(OnWake(move || drop(dropping.lock().unwrap().take()), Barrier::new(2)));
            {
                let mut held = held.lock().unwrap();
                let (_, pending) = held.as_mut().unwrap();
                assert!(pending.as_mut().poll(&mut TaskContext::from_waker(&Waker::from(Arc::clone(&wake)))).is_pending());
            }
            go.send(()).unwrap();
            wake.1.wait();
            assert!(held.lock().unwrap().is_none());
        },
        |context, _word| context.barrier(&named("last")).unwrap(),
    );
}
