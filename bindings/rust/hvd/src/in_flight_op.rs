// SPDX-License-Identifier: Apache-2.0
//! An operation that has been submitted: its handle, and who is to be woken when it ends.

use std::ffi::c_void;
use std::mem;
use std::ptr::{null_mut, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use hvd_sys as sys;

use crate::callback::{self, LogFn, Place};
use crate::context::Core;
use crate::error::{Report, Result};
use crate::tensor::AnyTensor;

/// Memory that belongs to an operation for as long as it moves data.
pub(crate) enum Keep {
    Nothing,
    One(AnyTensor),
    Many(Vec<AnyTensor>),
}

/// A handle that is given back when this is dropped.
pub(crate) struct Handle(pub(crate) NonNull<sys::hvd_handle>);

// SAFETY: hvd.h allows every function on any thread; that calls do not overlap is what `InFlightOp` sees to.
unsafe impl Send for Handle {}
// SAFETY: the methods by shared reference are hvd_wait and hvd_test, which may overlap.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: this is the reference that the submitting call gave out, given back once.
        unsafe { sys::hvd_handle_free(self.0.as_ptr()) }
    }
}

impl Handle {
    /// True unless the library still moves the operation's data. In the child of a fork, where the library does nothing
    /// any more, it is true.
    pub(crate) fn has_ended(&self) -> bool {
        // SAFETY: the handle is valid; the report may be NULL.
        unsafe { sys::hvd_test(self.0.as_ptr(), null_mut()) != sys::HVD_PENDING }
    }

    /// Waits at most `timeout_ns`; negative: for ever. `None` if time ran out. The operation may also be under way still if
    /// waiting itself was refused: ask `has_ended` before its memory is used.
    pub(crate) fn wait(&self, timeout_ns: i64) -> Option<Result<()>> {
        if let Err(refused) = callback::refuse_while_logging("wait") {
            return Some(Err(refused));
        }
        let mut report = Report::new();
        // SAFETY: the handle is valid, and the report is one.
        let status = unsafe { sys::hvd_wait(self.0.as_ptr(), timeout_ns, report.raw()) };
        (status != sys::HVD_PENDING).then(|| report.check(status))
    }

    /// Waits until the operation has ended, also where waiting is refused: afterwards its memory is the caller's again.
    pub(crate) fn finish(&self) -> Result<()> {
        let mut result = self.wait(-1).unwrap_or(Ok(()));
        // A call that borrows cannot return earlier. Refused waits are those on the context's callback thread, where
        // whoever wakes tasks has no business to wait: rare, and slow rather than wrong. The operation may also have ended
        // just after the refusal, so it is asked again in any case.
        if result.is_err() {
            while !self.has_ended() {
                std::thread::yield_now();
            }
            result = self.wait(0).unwrap_or(Ok(()));
        }
        result
    }
}

#[derive(Default)]
struct Ending {
    /// The library will call back, or has done so.
    registered: bool,
    ended: bool,
    waker: Option<Waker>,
    /// What nobody waits for any more, freed when the operation ends.
    abandoned: Option<Keep>,
}

/// A submitted operation. It does not keep its context: when that is gone the operation has ended, and its handle and results
/// stay valid.
pub(crate) struct InFlightOp {
    handle: Handle,
    ending: Mutex<Ending>,
    /// Declared after the handle: the library may log until that is given back.
    _log: Option<Arc<LogFn>>,
}

impl InFlightOp {
    pub(crate) fn new(handle: Handle, core: &Core) -> Arc<Self> {
        Arc::new(InFlightOp { handle, ending: Mutex::default(), _log: core.log() })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    fn ending(&self) -> MutexGuard<'_, Ending> {
        // Nothing that runs under the lock leaves it half done.
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits at most so long. `None` if time ran out.
    pub(crate) fn wait_for(&self, timeout: Duration) -> Option<Result<()>> {
        self.handle.wait(i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX))
    }

    /// Has the task woken when the operation ends, or gives the result.
    pub(crate) fn poll(self: &Arc<Self>, task: &mut TaskContext<'_>) -> Poll<Result<()>> {
        {
            let mut ending = self.ending();
            if !ending.ended && !self.handle.has_ended() {
                self.register(&mut ending)?;
                match &mut ending.waker {
                    Some(waker) => waker.clone_from(task.waker()),
                    none => *none = Some(task.waker().clone()),
                }
                return Poll::Pending;
            }
            ending.waker = None;
        }
        Poll::Ready(self.handle.wait(0).unwrap_or(Ok(())))
    }

    /// Leaves the operation to itself: what it uses is freed when it has ended.
    pub(crate) fn abandon(self: &Arc<Self>, keep: Keep) {
        let mut ending = self.ending();
        ending.waker = None;
        if ending.ended || self.handle.has_ended() {
            drop(ending);
            return drop(keep);
        }
        match self.register(&mut ending) {
            Ok(()) => ending.abandoned = Some(keep),
            // Without word of the end the memory must stay for ever.
            Err(_) => mem::forget(keep),
        }
    }

    /// Asks the library to call `ended` once.
    fn register(self: &Arc<Self>, ending: &mut Ending) -> Result<()> {
        if ending.registered {
            return Ok(());
        }
        let own = Arc::into_raw(Arc::clone(self));
        let mut report = Report::new();
        // SAFETY: the handle is valid, and calls on it do not overlap: the lock is held, and only hvd_wait and hvd_test are
        // made without it. `own` is a reference that `ended` takes.
        let status = unsafe { sys::hvd_handle_then(self.handle.0.as_ptr(), Some(ended), own.cast_mut().cast(), report.raw()) };
        if status < 0 {
            // SAFETY: made by into_raw above, and the library has refused to take it.
            drop(unsafe { Arc::from_raw(own) });
            return report.check(status);
        }
        ending.registered = true;
        Ok(())
    }

    /// The `index`-th result. The operation has succeeded.
    pub(crate) fn output(&self, index: usize) -> Result<sys::hvd_tensor> {
        let mut report = Report::new();
        let mut tensor = mem::MaybeUninit::uninit();
        // SAFETY: the handle is valid and `tensor` has room for the description.
        let status = unsafe { sys::hvd_handle_output(self.handle.0.as_ptr(), index, tensor.as_mut_ptr(), report.raw()) };
        report.check(status)?;
        // SAFETY: written by a call that succeeded.
        Ok(unsafe { tensor.assume_init() })
    }

    /// How many results there are.
    pub(crate) fn output_count(&self) -> usize {
        // SAFETY: the handle is valid.
        unsafe { sys::hvd_handle_output_count(self.handle.0.as_ptr()) }
    }

    /// Rows received from each rank by an alltoall.
    pub(crate) fn received_splits(&self) -> Result<Vec<usize>> {
        crate::context::sized_array(|room: *mut i64, count, report| {
            // SAFETY: the handle is valid; room and count are as the size protocol wants them.
            unsafe { sys::hvd_handle_received_splits(self.handle.0.as_ptr(), room, count, report) }
        })
        .map(|rows| rows.into_iter().map(|row| usize::try_from(row).unwrap_or(0)).collect())
    }

    /// The rank that joined last.
    pub(crate) fn last_joined_rank(&self) -> Result<usize> {
        let (mut report, mut rank) = (Report::new(), -1);
        // SAFETY: the handle is valid and `rank` is writable.
        let status = unsafe { sys::hvd_handle_last_joined_rank(self.handle.0.as_ptr(), &mut rank, report.raw()) };
        report.check(status)?;
        Ok(usize::try_from(rank).unwrap_or(0))
    }
}

/// The library's word that an operation has ended, on the context's callback thread.
///
/// # Safety
/// `user_data` is the reference that `register` gave away.
unsafe extern "C" fn ended(user_data: *mut c_void, _handle: *mut sys::hvd_handle, _status: sys::hvd_status) {
    // SAFETY: the library calls exactly once for each registration.
    let op = unsafe { Arc::from_raw(user_data.cast_const().cast::<InFlightOp>()) };
    callback::inside(Place::Completion, move || {
        let (waker, abandoned) = {
            let mut ending = op.ending();
            ending.ended = true;
            (ending.waker.take(), ending.abandoned.take())
        };
        drop(abandoned);
        drop(op);
        if let Some(waker) = waker {
            waker.wake();
        }
    });
}
