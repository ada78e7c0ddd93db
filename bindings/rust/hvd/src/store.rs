// SPDX-License-Identifier: Apache-2.0
//! Rendezvous at a key-value store of the program's own.

use std::ffi::{c_char, c_void, CStr};
use std::time::Duration;

use hvd_sys as sys;

use crate::callback::{inside, Place};

/// Why a [`Store`] could not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// The key did not appear in time.
    Timeout,
    /// Anything else.
    Failed,
}

/// A key-value store that all ranks reach. Used during [`InitOptions::init`](crate::InitOptions::init) only, on its thread.
/// Keys are printable ASCII of at most 200 bytes.
pub trait Store {
    /// Stores a value, replacing an older one.
    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError>;
    /// Waits until the key exists, at most so long (`None`: for ever), and returns its value.
    fn get(&self, key: &str, timeout: Option<Duration>) -> Result<Vec<u8>, StoreError>;
    /// Adds to a counter that starts at 0, atomically among all ranks, and returns the sum.
    fn add(&self, key: &str, delta: i64) -> Result<i64, StoreError>;
    /// Removes a key, which may be absent.
    fn remove(&self, key: &str) -> Result<(), StoreError>;
}

/// The store as the library calls it. Valid as long as the reference to the reference is.
pub(crate) fn table(store: &&dyn Store) -> sys::hvd_store {
    let mut table = sys::hvd_store::init();
    table.self_ = std::ptr::from_ref(store).cast_mut().cast();
    table.set = Some(set);
    table.get = Some(get);
    table.add = Some(add);
    table.remove = Some(remove);
    table
}

/// # Safety
/// `self_` is that of a table whose store is alive, and `key` is a text.
unsafe fn call(
    self_: *mut c_void,
    key: *const c_char,
    answer: impl FnOnce(&dyn Store, &str) -> Result<(), StoreError>,
) -> sys::hvd_status {
    // SAFETY: the caller's promise.
    let (store, key) = unsafe { (*self_.cast_const().cast::<&dyn Store>(), CStr::from_ptr(key)) };
    let Ok(key) = key.to_str() else { return sys::HVD_ERR_INVALID_ARGUMENT };
    match inside(Place::Outside, || answer(store, key)) {
        Some(Ok(())) => sys::HVD_OK,
        Some(Err(StoreError::Timeout)) => sys::HVD_ERR_TIMEOUT,
        Some(Err(StoreError::Failed)) | None => sys::HVD_ERR_IO,
    }
}

/// # Safety
/// As hvd.h says of hvd_store.
unsafe extern "C" fn set(self_: *mut c_void, key: *const c_char, value: *const c_void, size: usize) -> sys::hvd_status {
    // SAFETY: `size` bytes lie at `value`, which may be anything if there are none.
    let value = if size == 0 { &[] } else { unsafe { std::slice::from_raw_parts(value.cast(), size) } };
    // SAFETY: the library's promise.
    unsafe { call(self_, key, |store, key| store.set(key, value)) }
}

/// # Safety
/// As hvd.h says of hvd_store.
unsafe extern "C" fn get(
    self_: *mut c_void,
    key: *const c_char,
    timeout_ns: i64,
    value: *mut c_void,
    size: *mut usize,
) -> sys::hvd_status {
    let mut found = Vec::new();
    let timeout = u64::try_from(timeout_ns).ok().map(Duration::from_nanos);
    let answer = |store: &dyn Store, key: &str| store.get(key, timeout).map(|bytes| found = bytes);
    // SAFETY: the library's promise.
    let status = unsafe { call(self_, key, answer) };
    if status != sys::HVD_OK {
        return status;
    }
    // SAFETY: `size` holds the room at `value`, and no more is copied there; the two do not overlap.
    unsafe {
        let room = size.replace(found.len());
        if found.len() > room {
            return sys::HVD_ERR_INVALID_ARGUMENT;
        }
        std::ptr::copy_nonoverlapping(found.as_ptr(), value.cast(), found.len());
    }
    sys::HVD_OK
}

/// # Safety
/// As hvd.h says of hvd_store.
unsafe extern "C" fn add(self_: *mut c_void, key: *const c_char, delta: i64, result: *mut i64) -> sys::hvd_status {
    let mut sum = 0;
    // SAFETY: the library's promise.
    let status = unsafe { call(self_, key, |store, key| store.add(key, delta).map(|found| sum = found)) };
    if status == sys::HVD_OK {
        // SAFETY: `result` is writable.
        unsafe { result.write(sum) };
    }
    status
}

/// # Safety
/// As hvd.h says of hvd_store.
unsafe extern "C" fn remove(self_: *mut c_void, key: *const c_char) -> sys::hvd_status {
    // SAFETY: the library's promise.
    unsafe { call(self_, key, |store, key| store.remove(key)) }
}
