// SPDX-License-Identifier: Apache-2.0
//! What an operation is told besides its tensors.

use std::ffi::CString;
use std::time::Duration;

use hvd_sys as sys;

use crate::context::nanoseconds;
use crate::error::{Error, Result, Status};
use crate::process_set::ProcessSet;

/// How values of several ranks become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReduceOp {
    /// The sum divided by the size of the process set; integers truncate toward zero. Not for [`Bool`](crate::Bool).
    Average,
    /// Integers wrap around; "or" for [`Bool`](crate::Bool).
    #[default]
    Sum,
    /// The adaptive sum. Floating dtypes and allreduce only.
    Adasum,
    /// NaN if any input is NaN; "and" for [`Bool`](crate::Bool).
    Min,
    /// NaN if any input is NaN; "or" for [`Bool`](crate::Bool).
    Max,
    /// "And" for [`Bool`](crate::Bool).
    Product,
}

impl ReduceOp {
    fn raw(self) -> sys::hvd_reduce_op {
        match self {
            ReduceOp::Average => sys::HVD_AVERAGE,
            ReduceOp::Sum => sys::HVD_SUM,
            ReduceOp::Adasum => sys::HVD_ADASUM,
            ReduceOp::Min => sys::HVD_MIN,
            ReduceOp::Max => sys::HVD_MAX,
            ReduceOp::Product => sys::HVD_PRODUCT,
        }
    }
}

/// What an operation is told besides its tensors. The defaults are those of `hvd.h`: no name, all ranks, the sum.
///
/// Made once and used in every step of a loop it costs nothing; names must differ between operations in flight only.
///
/// ```
/// use hvd::{OpOptions, ReduceOp};
/// let options = OpOptions::named("gradients").reduce(ReduceOp::Average).prescale(0.5);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct OpOptions {
    name: Option<CString>,
    name_has_nul: bool,
    set: Option<ProcessSet>,
    reduce_op: ReduceOp,
    priority: i32,
    prescale: f64,
    postscale: f64,
    timeout_ns: i64,
}

impl Default for OpOptions {
    fn default() -> Self {
        OpOptions {
            name: None,
            name_has_nul: false,
            set: None,
            reduce_op: ReduceOp::Sum,
            priority: 0,
            prescale: 1.0,
            postscale: 1.0,
            timeout_ns: 0,
        }
    }
}

impl OpOptions {
    /// The defaults. Unnamed operations of a process set are matched by the order of the calls.
    pub fn new() -> Self {
        Self::default()
    }

    /// Operations of this name on all ranks belong together, in whatever order the ranks submit them. The name is unique among
    /// the set's operations in flight, and has at most 4,096 bytes.
    pub fn named(name: impl Into<Vec<u8>>) -> Self {
        let name = CString::new(name).ok();
        OpOptions { name_has_nul: name.is_none(), name, ..Self::default() }
    }

    /// Among the members of this set only.
    pub fn on(mut self, set: &ProcessSet) -> Self {
        self.set = Some(set.clone());
        self
    }

    /// Of allreduce and reducescatter.
    pub fn reduce(mut self, op: ReduceOp) -> Self {
        self.reduce_op = op;
        self
    }

    /// Of operations that are ready together, higher ones run first.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Inputs are multiplied by it before the reduction. A factor 1/n divides exactly.
    pub fn prescale(mut self, factor: f64) -> Self {
        self.prescale = factor;
        self
    }

    /// Results are multiplied by it.
    pub fn postscale(mut self, factor: f64) -> Self {
        self.postscale = factor;
        self
    }

    /// The operation fails if it has not ended by then; without it the option `op_timeout` counts.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout_ns = nanoseconds(limit);
        self
    }

    /// The operation waits as long as it takes, whatever the option `op_timeout` says.
    pub fn no_timeout(mut self) -> Self {
        self.timeout_ns = -1;
        self
    }

    pub(crate) fn set(&self) -> Option<&ProcessSet> {
        self.set.as_ref()
    }

    /// The name as messages have it.
    pub(crate) fn subject(&self, kind: &str) -> String {
        let name = self.name.as_ref().map_or("unnamed".into(), |name| name.to_string_lossy());
        format!("{kind} \"{name}\"")
    }

    /// As the library takes it. Points into this object.
    #[inline]
    pub(crate) fn raw(&self, root: i32) -> Result<sys::hvd_op_options> {
        if self.name_has_nul {
            return Err(Error::new(Status::InvalidArgument, "the name of an operation has a NUL byte in it"));
        }
        let mut raw = sys::hvd_op_options::init();
        raw.name = self.name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
        raw.set = self.set.as_ref().map_or(std::ptr::null_mut(), ProcessSet::raw);
        raw.reduce_op = self.reduce_op.raw();
        raw.priority = self.priority;
        (raw.prescale, raw.postscale) = (self.prescale, self.postscale);
        (raw.timeout_ns, raw.root) = (self.timeout_ns, root);
        Ok(raw)
    }
}
