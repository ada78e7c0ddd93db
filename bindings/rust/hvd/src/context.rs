// SPDX-License-Identifier: Apache-2.0
//! Membership in a job.

use std::ffi::{c_void, CString};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use hvd_sys as sys;

use crate::callback::{self, LogFn, LogLine, Place};
use crate::error::{Error, Report, Result, Status};
use crate::process_set::ProcessSet;
use crate::store::{self, Store};

/// A time limit as the library counts it; one that is too long for that is none.
pub(crate) fn nanoseconds(limit: Duration) -> i64 {
    // 0 would mean the default; no time at all is the shortest there is.
    i64::try_from(limit.as_nanos()).map_or(-1, |ns| ns.max(1))
}

pub(crate) fn text(what: &str, text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::new(Status::InvalidArgument, format!("{what}: the text has a NUL byte in it")))
}

/// An array whose size the library says first.
pub(crate) fn sized_array<T: Copy>(
    call: impl Fn(*mut T, *mut usize, *mut sys::hvd_error) -> sys::hvd_status,
) -> Result<Vec<T>> {
    let mut count = 0;
    loop {
        let mut report = Report::new();
        let status = call(ptr::null_mut(), &mut count, report.raw());
        report.check(status)?;
        let mut items = Vec::<T>::with_capacity(count);
        let room = items.capacity();
        count = room;
        let status = call(items.as_mut_ptr(), &mut count, report.raw());
        if status == sys::HVD_ERR_INVALID_ARGUMENT && count > room {
            continue; // it has grown meanwhile
        }
        report.check(status)?;
        // SAFETY: the call has succeeded, so it has written `count` items, which fit.
        unsafe { items.set_len(count) };
        return Ok(items);
    }
}

/// Where this rank stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Topology {
    /// Its number in the job.
    pub rank: usize,
    /// Ranks in the job.
    pub size: usize,
    /// Its number among those of its host.
    pub local_rank: usize,
    /// Ranks on its host.
    pub local_size: usize,
    /// Its number among the ranks that have its `local_rank`, one per host.
    pub cross_rank: usize,
    /// How many those are.
    pub cross_size: usize,
    /// Every host has the same number of ranks.
    pub homogeneous: bool,
}

/// What a rank knows of the members of an elastic job (`horovodrun --min-np`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Membership {
    /// Counts the memberships of the job from 1; 0 where members are fixed.
    pub epoch: u64,
    /// Members are about to go.
    pub removed: bool,
    /// Members are about to come.
    pub added: bool,
    /// States of members differ, and all take over that of rank 0.
    pub synchronize: bool,
}

/// How to join a job. Everything left out comes from the environment, as the launcher set it.
///
/// ```
/// let context = hvd::InitOptions::new().rank(0).size(1).rendezvous("mem://doc-init").init()?;
/// assert_eq!(context.size(), 1);
/// # Ok::<(), hvd::Error>(())
/// ```
#[derive(Default)]
pub struct InitOptions<'a> {
    rank: Option<usize>,
    size: Option<usize>,
    rendezvous: Option<String>,
    store: Option<&'a dyn Store>,
    timeout_ns: i64,
    options: Vec<(String, String)>,
    log: Option<LogFn>,
}

impl<'a> InitOptions<'a> {
    /// Everything from the environment.
    pub fn new() -> Self {
        Self::default()
    }

    /// This rank's number.
    pub fn rank(mut self, rank: usize) -> Self {
        self.rank = Some(rank);
        self
    }

    /// Ranks in the job.
    pub fn size(mut self, size: usize) -> Self {
        self.size = Some(size);
        self
    }

    /// Where the ranks meet: `"env:"`, `"file:///directory"`, `"tcp://host:port/job"`, `"unix://name"`, or `"mem://name"` for
    /// threads of this process.
    pub fn rendezvous(mut self, url: impl Into<String>) -> Self {
        self.rendezvous = Some(url.into());
        self
    }

    /// A key-value store of your own instead of a rendezvous; used by [`init`](Self::init) only.
    pub fn store(mut self, store: &'a dyn Store) -> Self {
        self.store = Some(store);
        self
    }

    /// For the whole of `init`; without it the option `start_timeout` counts.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout_ns = nanoseconds(limit);
        self
    }

    /// A setting by name, see [`options`](crate::options()). It wins over the environment.
    pub fn option(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.push((name.into(), value.into()));
        self
    }

    /// Gets the library's log, which goes to standard error without. Called on any thread of the context, one call at a time; it must
    /// return soon and must not use the library: operations and waiting fail in there.
    pub fn log(mut self, function: impl Fn(LogLine<'_>) + Send + Sync + 'static) -> Self {
        self.log = Some(Box::new(function));
        self
    }

    /// Joins the job. Returns when every rank has arrived, or fails at the time limit and names those that have not.
    pub fn init(self) -> Result<Context> {
        callback::refuse_while_logging("init")?;
        let number = |what: &str, value: Option<usize>, none: i32| match value.map(i32::try_from) {
            None => Ok(none),
            Some(Ok(number)) => Ok(number),
            Some(Err(_)) => Err(Error::new(Status::InvalidArgument, format!("init: {what} is too large"))),
        };
        let mut raw = sys::hvd_init_options::init();
        raw.rank = number("rank", self.rank, -1)?;
        raw.size = number("size", self.size, 0)?;
        let rendezvous = self.rendezvous.as_deref().map(|url| text("init: rendezvous", url)).transpose()?;
        raw.rendezvous = rendezvous.as_ref().map_or(ptr::null(), |url| url.as_ptr());
        let store_table = self.store.as_ref().map(store::table);
        raw.store = store_table.as_ref().map_or(ptr::null(), ptr::from_ref);
        raw.timeout_ns = self.timeout_ns;
        let mut texts = Vec::with_capacity(self.options.len());
        for (name, value) in &self.options {
            texts.push((text("init: option", name)?, text("init: option", value)?));
        }
        let options: Vec<_> =
            texts.iter().map(|(name, value)| sys::hvd_option { name: name.as_ptr(), value: value.as_ptr() }).collect();
        (raw.options, raw.option_count) = (options.as_ptr(), options.len());
        // The library keeps a thin pointer, to the box inside.
        let log = self.log.map(Arc::new);
        raw.log_fn = Some(sys::hvd_log_to_fd as _);
        if let Some(function) = &log {
            raw.log_fn = Some(callback::log as _);
            raw.log_user_data = Arc::as_ptr(function).cast_mut().cast::<c_void>();
        }
        let (mut report, mut context) = (Report::new(), ptr::null_mut());
        // SAFETY: all pointers in `raw` are valid for the call; the log function lives until the context is freed.
        let status = unsafe { sys::hvd_init(&raw, &mut context, report.raw()) };
        let opened = report
            .check(status)
            .and_then(|()| NonNull::new(context).ok_or_else(|| Error::new(Status::Internal, "init: gave no context")));
        // Without a context nobody logs any more.
        Context::from_raw(Core { raw: opened?, log })
    }
}

/// The library's context, given back when nobody uses it any more.
pub(crate) struct Core {
    pub(crate) raw: NonNull<sys::hvd_context>,
    log: Option<Arc<LogFn>>,
}

impl Core {
    /// Threads of the library end with the last handle, which may outlive the context: so must what they may call.
    pub(crate) fn log(&self) -> Option<Arc<LogFn>> {
        self.log.clone()
    }
}

// SAFETY: hvd.h allows every call on any thread, and the log function is Send and Sync.
unsafe impl Send for Core {}
// SAFETY: as above.
unsafe impl Sync for Core {}

impl Drop for Core {
    fn drop(&mut self) {
        // SAFETY: a context of hvd_init, given back once.
        unsafe { sys::hvd_context_free(self.raw.as_ptr()) };
        // On a thread of the library the context ends later, and until then it may log: the function stays.
        if callback::place() != Place::Outside {
            std::mem::forget(self.log.take());
        }
    }
}

/// Membership in a job. Cheap to clone: clones are the same membership. When the last of them and of the [`Pending`]
/// operations and process sets made with it is dropped, this rank leaves the job.
///
/// [`Pending`]: crate::Pending
#[derive(Clone)]
pub struct Context {
    pub(crate) core: Arc<Core>,
    topology: Topology,
}

impl Context {
    /// Joins the job that the environment describes: that of horovodrun, mpirun, srun and others, or a job of one rank.
    pub fn init() -> Result<Self> {
        InitOptions::new().init()
    }

    fn from_raw(core: Core) -> Result<Self> {
        let (mut report, mut raw) = (Report::new(), sys::hvd_topology::init());
        // SAFETY: the context is valid and `raw` has its size written.
        let status = unsafe { sys::hvd_topology_get(core.raw.as_ptr(), &mut raw, report.raw()) };
        report.check(status)?;
        let number = |value: i32| usize::try_from(value).unwrap_or(0);
        let topology = Topology {
            rank: number(raw.rank),
            size: number(raw.size),
            local_rank: number(raw.local_rank),
            local_size: number(raw.local_size),
            cross_rank: number(raw.cross_rank),
            cross_size: number(raw.cross_size),
            homogeneous: raw.homogeneous != 0,
        };
        Ok(Context { core: Arc::new(core), topology })
    }

    pub(crate) fn raw(&self) -> *mut sys::hvd_context {
        self.core.raw.as_ptr()
    }

    /// The context of `hvd.h`, for what this crate has no words for. It is valid as long as `self` or a clone of it, and is
    /// not to be freed.
    pub fn as_ptr(&self) -> *mut sys::hvd_context {
        self.raw()
    }

    /// This rank's number in the job.
    pub fn rank(&self) -> usize {
        self.topology.rank
    }

    /// Ranks in the job.
    pub fn size(&self) -> usize {
        self.topology.size
    }

    /// Where this rank stands.
    pub fn topology(&self) -> Topology {
        self.topology
    }

    /// What this rank knows of the members of an elastic job. Never blocks.
    pub fn membership(&self) -> Result<Membership> {
        let (mut report, mut raw) = (Report::new(), sys::hvd_membership::init());
        // SAFETY: the context is valid and `raw` has its size written.
        let status = unsafe { sys::hvd_membership_get(self.raw(), &mut raw, report.raw()) };
        report.check(status)?;
        let is_told = |flag: i32| raw.changes & flag as u32 != 0;
        Ok(Membership {
            epoch: u64::try_from(raw.epoch).unwrap_or(0),
            removed: is_told(sys::HVD_MEMBERS_REMOVED),
            added: is_told(sys::HVD_MEMBERS_ADDED),
            synchronize: raw.synchronize != 0,
        })
    }

    /// Announces that this rank wants to leave an elastic job. The next context of this process is an error then.
    pub fn leave(&self) -> Result<()> {
        let mut report = Report::new();
        // SAFETY: the context is valid.
        let status = unsafe { sys::hvd_membership_leave(self.raw(), report.raw()) };
        report.check(status)
    }

    /// Why the context does not work, if so: the same on every surviving rank.
    pub fn status(&self) -> Result<()> {
        let mut report = Report::new();
        // SAFETY: the context is valid.
        let status = unsafe { sys::hvd_context_status(self.raw(), report.raw()) };
        report.check(status)
    }

    /// What is started while the result lives is announced to the other ranks together, when it is dropped at the latest: for
    /// many small operations in a row. Bursts nest; waiting works as ever within one.
    pub fn burst(&self) -> Burst<'_> {
        // SAFETY: the context is valid.
        unsafe { sys::hvd_burst_begin(self.raw(), std::ptr::null_mut()) };
        Burst { context: self }
    }

    /// Leaves the job. Operations in flight end with [`Status::ShutDown`], here and on ranks that need this one. Waits at
    /// most so long for those that already move data. A second call is fine.
    pub fn shutdown(&self, limit: Duration) -> Result<()> {
        callback::refuse_while_logging("shutdown")?;
        let mut report = Report::new();
        // SAFETY: the context is valid.
        let status = unsafe { sys::hvd_shutdown(self.raw(), nanoseconds(limit), report.raw()) };
        report.check(status)
    }

    /// The set of all ranks.
    pub fn world(&self) -> ProcessSet {
        ProcessSet::world(self)
    }

    /// Makes a process set of these ranks, in any order. Every rank of the job calls it with the same ranks, members or not,
    /// in the same order relative to other sets made and destroyed.
    pub fn create_process_set(&self, ranks: &[usize]) -> Result<ProcessSet> {
        ProcessSet::create(self, ranks)
    }

    /// The process set with this id.
    pub fn find_process_set(&self, id: usize) -> Result<ProcessSet> {
        ProcessSet::find(self, id)
    }

    /// The ids of all process sets, ascending; 0 is the set of all ranks.
    pub fn process_set_ids(&self) -> Result<Vec<usize>> {
        let ids = sized_array(|room, count, report| {
            // SAFETY: the context is valid; room and count are as the size protocol wants them.
            unsafe { sys::hvd_process_set_ids(self.raw(), room, count, report) }
        })?;
        Ok(ids.into_iter().map(|id| usize::try_from(id).unwrap_or(0)).collect())
    }
}

/// See [`Context::burst`].
#[must_use = "a burst ends when it is dropped"]
#[derive(Debug)]
pub struct Burst<'context> {
    context: &'context Context,
}

impl Drop for Burst<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is valid as long as it is borrowed.
        unsafe { sys::hvd_burst_end(self.context.raw(), std::ptr::null_mut()) };
    }
}

/// What has been said; a store and a log function as whether there is one.
impl fmt::Debug for InitOptions<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = formatter.debug_struct("InitOptions");
        text.field("rank", &self.rank).field("size", &self.size).field("rendezvous", &self.rendezvous);
        text.field("store", &self.store.is_some()).field("timeout_ns", &self.timeout_ns);
        text.field("options", &self.options).field("log", &self.log.is_some()).finish()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Context(rank {} of {})", self.rank(), self.size())
    }
}
