// SPDX-License-Identifier: Apache-2.0
//! Where the library calls Rust: what runs there must not unwind, and some calls are refused.

use std::cell::Cell;
use std::ffi::{c_char, c_void, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};

use hvd_sys as sys;

use crate::error::{Error, Result, Status};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Not called by the library.
    Outside,
    /// On the callback thread of a context.
    Completion,
    /// On whichever thread has something to log, perhaps with locks held.
    Log,
}

thread_local! {
    static PLACE: Cell<Place> = const { Cell::new(Place::Outside) };
}

pub(crate) fn place() -> Place {
    PLACE.get()
}

/// Runs what belongs to the user. A panic ends here: it was reported by the panic hook, and there is nobody to give it to.
pub(crate) fn inside<R>(place: Place, call: impl FnOnce() -> R) -> Option<R> {
    let before = PLACE.replace(place);
    let result = catch_unwind(AssertUnwindSafe(call)).ok();
    PLACE.set(before);
    result
}

/// The library must not be called by what logs: it may hold locks.
pub(crate) fn refuse_while_logging(what: &str) -> Result<()> {
    if place() == Place::Log {
        return Err(Error::new(Status::WouldDeadlock, format!("{what}: called inside the log function")));
    }
    Ok(())
}

/// How much a line of the log matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// One line of the log.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LogLine<'a> {
    /// How much it matters.
    pub level: LogLevel,
    /// The rank that says it; none before it is known.
    pub rank: Option<usize>,
    /// The part of the library.
    pub component: &'a str,
    /// The line, without a newline.
    pub message: &'a str,
}

pub(crate) type LogFn = Box<dyn Fn(LogLine<'_>) + Send + Sync>;

/// # Safety
/// `user_data` points to a `LogFn` that is alive; the texts are NUL-terminated.
pub(crate) unsafe extern "C" fn log(
    user_data: *mut c_void,
    level: sys::hvd_log_level,
    rank: i32,
    component: *const c_char,
    message: *const c_char,
) {
    // SAFETY: the context keeps the function until the library does not call any more.
    let function = unsafe { &*user_data.cast::<LogFn>() };
    // SAFETY: hvd.h says that both are texts; they live until this returns.
    let (component, message) = unsafe { (CStr::from_ptr(component), CStr::from_ptr(message)) };
    let level = match level {
        sys::HVD_LOG_ERROR => LogLevel::Error,
        sys::HVD_LOG_WARN => LogLevel::Warn,
        sys::HVD_LOG_INFO => LogLevel::Info,
        sys::HVD_LOG_DEBUG => LogLevel::Debug,
        _ => LogLevel::Trace,
    };
    inside(Place::Log, || {
        let (component, message) = (component.to_string_lossy(), message.to_string_lossy());
        function(LogLine { level, rank: usize::try_from(rank).ok(), component: &component, message: &message });
    });
}
