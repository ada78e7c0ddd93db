// SPDX-License-Identifier: Apache-2.0
//! Errors, by what is broken.

use std::ffi::CStr;
use std::fmt;

use hvd_sys as sys;

/// The result of every call that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// What is broken, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Class {
    /// The call was wrong, and nothing happened; correct it and go on.
    Usage,
    /// This operation failed, on every rank that submitted it; the process set is still usable.
    Operation,
    /// This process set can not be used any more; others can.
    ProcessSet,
    /// The whole context is broken. Drop it; a new one may be opened in the same process.
    Context,
    /// A bug of the library.
    Internal,
}

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $number:ident,)*) => {
        /// Why a call failed: the statuses of `hvd.h`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Status {
            $($(#[$doc])* $name,)*
            /// A number that this version of the crate does not know.
            Other(i32),
        }

        impl Status {
            pub(crate) fn from_raw(status: sys::hvd_status) -> Self {
                match status {
                    $(sys::$number => Status::$name,)*
                    other => Status::Other(other),
                }
            }

            /// The number of `hvd.h`.
            pub fn number(self) -> i32 {
                match self {
                    $(Status::$name => sys::$number,)*
                    Status::Other(number) => number,
                }
            }
        }
    };
}

statuses! {
    /// A value is outside what the function allows; the message has both.
    InvalidArgument = HVD_ERR_INVALID_ARGUMENT,
    /// Right call, wrong time: in a forked child, on a destroyed process set.
    InvalidState = HVD_ERR_INVALID_STATE,
    /// No option, process set or metric of that name or id.
    NotFound = HVD_ERR_NOT_FOUND,
    /// The name is in flight, or a process set has the same ranks.
    AlreadyExists = HVD_ERR_ALREADY_EXISTS,
    /// Valid, but not offered: a dtype for this operation, an address.
    Unsupported = HVD_ERR_UNSUPPORTED,
    /// This crate and the library that was loaded do not fit together.
    Version = HVD_ERR_VERSION,
    /// The operating system gave no memory.
    OutOfMemory = HVD_ERR_OUT_OF_MEMORY,
    /// A call that blocks, on the thread that wakes tasks or that logs.
    WouldDeadlock = HVD_ERR_WOULD_DEADLOCK,
    /// Ranks disagree; the message has what each said.
    Mismatch = HVD_ERR_MISMATCH,
    /// The process set was destroyed while the operation waited.
    Cancelled = HVD_ERR_CANCELLED,
    /// The operation's time ran out; the message names the missing ranks.
    Timeout = HVD_ERR_TIMEOUT,
    /// The process set is broken.
    SetBroken = HVD_ERR_SET_BROKEN,
    /// A rank died or closed its connection; the message names rank, host, pid and cause.
    PeerLost = HVD_ERR_PEER_LOST,
    /// This rank or another one has shut down.
    ShutDown = HVD_ERR_SHUT_DOWN,
    /// The operating system failed a call that the context cannot live without.
    Io = HVD_ERR_IO,
    /// An elastic job gives this process no place any more; the message says why.
    Dismissed = HVD_ERR_DISMISSED,
    /// A bug of the library.
    Internal = HVD_ERR_INTERNAL,
}

impl Status {
    /// What is broken.
    pub fn class(self) -> Class {
        match self.number() {
            -19..=-1 => Class::Usage,
            -39..=-20 => Class::Operation,
            -59..=-40 => Class::ProcessSet,
            -79..=-60 => Class::Context,
            _ => Class::Internal,
        }
    }

    /// `"HVD_ERR_MISMATCH"` for [`Status::Mismatch`].
    pub fn name(self) -> &'static str {
        // SAFETY: takes any number; the text is static, ASCII and NUL-terminated.
        unsafe { static_text(sys::hvd_status_name(self.number())) }
    }
}

/// A failed call or operation. Displays as the library's message, unchanged.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Details>);

#[derive(Clone, PartialEq, Eq)]
struct Details {
    status: Status,
    rank: Option<usize>,
    os_error: Option<i32>,
    message: String,
}

impl Error {
    /// Why it failed.
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// What is broken.
    pub fn class(&self) -> Class {
        self.0.status.class()
    }

    /// The rank at fault, if there is one and it is known.
    pub fn rank(&self) -> Option<usize> {
        self.0.rank
    }

    /// `errno` of a failed system call.
    pub fn raw_os_error(&self) -> Option<i32> {
        self.0.os_error
    }

    /// One line.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Error(Box::new(Details { status, rank: None, os_error: None, message: message.into() }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.0.status.name(), self.0.message)
    }
}

impl std::error::Error for Error {}

/// Room for the library's account of a failure. Only the part that the library reads is written beforehand: the whole
/// struct is a kilobyte, which most calls never look at.
pub(crate) struct Report(std::mem::MaybeUninit<sys::hvd_error>);

impl Report {
    pub(crate) fn new() -> Self {
        let mut room = std::mem::MaybeUninit::<sys::hvd_error>::uninit();
        let raw = room.as_mut_ptr();
        // SAFETY: the pointer is valid for writes of every field.
        unsafe {
            (*raw).struct_size = size_of::<sys::hvd_error>() as u32;
            (*raw).status = sys::HVD_OK;
            (*raw).rank = -1;
            (*raw).sys_errno = 0;
            (*raw).message[0] = 0;
        }
        Report(room)
    }

    pub(crate) fn raw(&mut self) -> *mut sys::hvd_error {
        self.0.as_mut_ptr()
    }

    /// Turns a status into a result. `HVD_PENDING` is success: callers for whom it is something else look at it first.
    pub(crate) fn check(&self, status: sys::hvd_status) -> Result<()> {
        if status >= 0 {
            return Ok(());
        }
        Err(self.error(status))
    }

    #[cold]
    fn error(&self, status: sys::hvd_status) -> Error {
        let raw = self.0.as_ptr();
        // SAFETY: `new` wrote every field that is read here; of the message only what lies before its NUL is looked at, which
        // either `new` or the library wrote.
        let (rank, os_error, message) = unsafe {
            let text = std::ptr::addr_of!((*raw).message).cast::<std::ffi::c_char>();
            ((*raw).rank, (*raw).sys_errno, CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        Error(Box::new(Details {
            status: Status::from_raw(status),
            rank: usize::try_from(rank).ok(),
            os_error: Some(os_error).filter(|&number| number != 0),
            message,
        }))
    }
}

/// A static text of the library.
///
/// # Safety
/// `text` points to a NUL-terminated string that lives for ever.
pub(crate) unsafe fn static_text(text: *const std::ffi::c_char) -> &'static str {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("?")
}
