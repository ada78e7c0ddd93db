// SPDX-License-Identifier: Apache-2.0
//! Process sets: some of the ranks, with operations of their own.

use std::fmt;
use std::ptr;
use std::sync::Arc;

use hvd_sys as sys;

use crate::callback;
use crate::context::{sized_array, Context, Core};
use crate::error::{Error, Report, Result, Status};

/// Some of the ranks of a job. Operations are told it by [`OpOptions::on`](crate::OpOptions::on). Cheap to clone.
///
/// Dropping one does not end the set, which is a matter of all ranks: [`destroy`](Self::destroy).
#[derive(Clone)]
pub struct ProcessSet {
    inner: Arc<Inner>,
}

struct Inner {
    raw: *mut sys::hvd_process_set,
    rank: Option<usize>,
    ranks: Vec<usize>,
    /// Declared last: the reference to the set is given back before the context may be.
    core: Arc<Core>,
}

// SAFETY: hvd.h allows every call on any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: a reference of ours; for the set of all ranks it does nothing.
        unsafe { sys::hvd_process_set_free(self.raw) }
    }
}

impl ProcessSet {
    pub(crate) fn world(context: &Context) -> Self {
        // SAFETY: the context is valid.
        let raw = unsafe { sys::hvd_process_set_world(context.raw()) };
        let (rank, ranks) = (Some(context.rank()), (0..context.size()).collect());
        ProcessSet { inner: Arc::new(Inner { raw, rank, ranks, core: Arc::clone(&context.core) }) }
    }

    pub(crate) fn create(context: &Context, ranks: &[usize]) -> Result<Self> {
        callback::refuse_while_logging("process set create")?;
        // What is no i32 is no rank either; the library says which one it is.
        let numbers: Vec<i32> = ranks.iter().map(|&rank| i32::try_from(rank).unwrap_or(i32::MAX)).collect();
        let (mut report, mut raw) = (Report::new(), ptr::null_mut());
        // SAFETY: the context is valid and `numbers` has that many ranks.
        let status =
            unsafe { sys::hvd_process_set_create(context.raw(), numbers.as_ptr(), numbers.len(), &mut raw, report.raw()) };
        report.check(status)?;
        Self::known(context, raw)
    }

    pub(crate) fn find(context: &Context, id: usize) -> Result<Self> {
        Self::known(context, find(&context.core, i32::try_from(id).unwrap_or(i32::MAX))?)
    }

    /// Takes over a reference.
    fn known(context: &Context, raw: *mut sys::hvd_process_set) -> Result<Self> {
        let mut inner = Inner { raw, rank: None, ranks: Vec::new(), core: Arc::clone(&context.core) };
        // SAFETY: the set is valid.
        inner.rank = usize::try_from(unsafe { sys::hvd_process_set_rank(raw) }).ok();
        let ranks = sized_array(|room, count, report| {
            // SAFETY: the set is valid; room and count are as the size protocol wants them.
            unsafe { sys::hvd_process_set_ranks(raw, room, count, report) }
        })?;
        inner.ranks = ranks.into_iter().map(|rank| usize::try_from(rank).unwrap_or(0)).collect();
        Ok(ProcessSet { inner: Arc::new(inner) })
    }

    pub(crate) fn raw(&self) -> *mut sys::hvd_process_set {
        self.inner.raw
    }

    /// Its number, 0 for all ranks; none once it has been destroyed.
    pub fn id(&self) -> Option<usize> {
        // SAFETY: the reference is ours.
        usize::try_from(unsafe { sys::hvd_process_set_id(self.inner.raw) }).ok()
    }

    /// This rank's place in the set; none if it is no member.
    pub fn rank(&self) -> Option<usize> {
        self.inner.rank
    }

    /// Whether this rank is a member.
    pub fn is_member(&self) -> bool {
        self.inner.rank.is_some()
    }

    /// How many members it has.
    pub fn size(&self) -> usize {
        self.inner.ranks.len()
    }

    /// The members' ranks in the job, ascending.
    pub fn ranks(&self) -> &[usize] {
        &self.inner.ranks
    }

    /// Ends the set. Every rank of the job calls it, members or not. Operations of the set that wait end with
    /// [`Status::Cancelled`]; clones of this stay, without an id.
    pub fn destroy(self) -> Result<()> {
        callback::refuse_while_logging("process set destroy")?;
        let id =
            self.id().ok_or_else(|| Error::new(Status::InvalidState, "process set destroy: has been destroyed already"))?;
        // The call takes a reference away. That of `inner` has to outlive its clones, so this is another one.
        let raw = find(&self.inner.core, id as i32)?;
        let mut report = Report::new();
        // SAFETY: a reference of ours, which the call takes only if it succeeds.
        let status = unsafe { sys::hvd_process_set_destroy(raw, report.raw()) };
        if status < 0 {
            // SAFETY: still ours.
            unsafe { sys::hvd_process_set_free(raw) };
        }
        report.check(status)
    }
}

fn find(core: &Core, id: i32) -> Result<*mut sys::hvd_process_set> {
    let (mut report, mut raw) = (Report::new(), ptr::null_mut());
    // SAFETY: the context is valid.
    let status = unsafe { sys::hvd_process_set_find(core.raw.as_ptr(), id, &mut raw, report.raw()) };
    report.check(status)?;
    Ok(raw)
}

impl fmt::Debug for ProcessSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ProcessSet({:?}, ranks {:?})", self.id(), self.ranks())
    }
}
