// SPDX-License-Identifier: Apache-2.0
//! From tensors and options to a submitted operation.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use hvd_sys as sys;

use crate::callback;
use crate::context::Context;
use crate::error::{Error, Report, Result, Status};
use crate::in_flight_op::{Handle, InFlightOp};
use crate::op_options::OpOptions;

/// The collectives of hvd.h, with what only some of them need.
#[derive(Clone, Copy)]
pub(crate) enum Collective<'r> {
    Allreduce,
    Allgather,
    Broadcast { root: usize },
    Alltoall { splits: Option<&'r [usize]> },
    Reducescatter,
    Gather { root: usize },
    Barrier,
    Join,
}

/// An operation that can be submitted.
#[derive(Clone, Copy)]
pub(crate) struct Request<'r> {
    pub(crate) collective: Collective<'r>,
    /// Several tensors as one operation.
    pub(crate) grouped: bool,
    pub(crate) inputs: &'r [sys::hvd_tensor],
    /// None: the library allocates. Otherwise as many as there are inputs.
    pub(crate) outputs: Option<&'r [sys::hvd_tensor]>,
    pub(crate) options: &'r OpOptions,
}

impl Request<'_> {
    /// # Safety
    /// Inputs and outputs describe memory that stays valid until the operation has ended, and that nobody writes to
    /// meanwhile; outputs nobody reads either, and they overlap no input except as hvd.h allows in place. There is one input
    /// unless the request is grouped, a barrier or a join.
    #[inline]
    pub(crate) unsafe fn submit(&self, context: &Context) -> Result<Handle> {
        callback::refuse_while_logging("submit")?;
        let root = match self.collective {
            // What is no i32 is no rank either; the library says which ones it has.
            Collective::Broadcast { root } | Collective::Gather { root } => i32::try_from(root).unwrap_or(i32::MAX),
            _ => 0,
        };
        let options = self.options.raw(root)?;
        let splits = self.splits(context)?;
        let (mut report, mut handle) = (Report::new(), ptr::null_mut());
        let (context, error, out_handle) = (context.raw(), report.raw(), &mut handle);
        let (inputs, count) = (self.inputs.as_ptr(), self.inputs.len());
        debug_assert!(self.outputs.map_or(true, |outputs| outputs.len() == count));
        let outputs = self.outputs.map_or(ptr::null(), <[_]>::as_ptr);
        // SAFETY: context, options and report are valid for the call; about the tensors the caller has promised; `splits` has
        // one number for each rank of the set, or is NULL.
        let status = unsafe {
            match (self.collective, self.grouped) {
                (Collective::Allreduce, false) => {
                    sys::hvd_allreduce_async(context, inputs, outputs, &options, out_handle, error)
                }
                (Collective::Allreduce, true) => {
                    sys::hvd_grouped_allreduce_async(context, inputs, outputs, count, &options, out_handle, error)
                }
                (Collective::Allgather, false) => {
                    sys::hvd_allgatherv_async(context, inputs, outputs, &options, out_handle, error)
                }
                (Collective::Allgather, true) => {
                    sys::hvd_grouped_allgatherv_async(context, inputs, outputs, count, &options, out_handle, error)
                }
                (Collective::Broadcast { .. }, _) => {
                    sys::hvd_broadcast_async(context, inputs, outputs, &options, out_handle, error)
                }
                (Collective::Alltoall { .. }, _) => {
                    sys::hvd_alltoallv_async(context, inputs, splits, outputs, &options, out_handle, error)
                }
                (Collective::Reducescatter, false) => {
                    sys::hvd_reducescatter_async(context, inputs, outputs, &options, out_handle, error)
                }
                (Collective::Reducescatter, true) => {
                    sys::hvd_grouped_reducescatter_async(context, inputs, outputs, count, &options, out_handle, error)
                }
                (Collective::Gather { .. }, _) => sys::hvd_gatherv_async(context, inputs, outputs, &options, out_handle, error),
                (Collective::Barrier, _) => sys::hvd_barrier_async(context, &options, out_handle, error),
                (Collective::Join, _) => sys::hvd_join_async(context, &options, out_handle, error),
            }
        };
        report.check(status)?;
        match NonNull::new(handle) {
            Some(raw) => Ok(Handle(raw)),
            None => Err(Error::new(Status::Internal, "submit: gave no handle")),
        }
    }

    /// Submits and waits: memory that the request borrows is the caller's again when this returns.
    ///
    /// # Safety
    /// As of `submit`, except that the memory need only be valid until this returns.
    #[inline]
    pub(crate) unsafe fn run(&self, context: &Context) -> Result<Handle> {
        // SAFETY: as the caller promised, until the end of the call, and `finish` returns after the end of the operation.
        let handle = unsafe { self.submit(context) }?;
        handle.finish()?;
        Ok(handle)
    }

    /// As `run`, for results that the library allocates.
    ///
    /// # Safety
    /// As of `run`.
    pub(crate) unsafe fn run_to_results(&self, context: &Context) -> Result<Arc<InFlightOp>> {
        // SAFETY: the caller's promise.
        let handle = unsafe { self.run(context) }?;
        Ok(InFlightOp::new(handle, &context.core))
    }

    /// One number for each rank of the set, or NULL. Negative numbers the library refuses, and so it does what is too large
    /// for it.
    fn splits(&self, context: &Context) -> Result<*const i64> {
        let Collective::Alltoall { splits: Some(splits) } = self.collective else { return Ok(ptr::null()) };
        let size = self.options.set().map_or(context.size(), |set| set.size());
        if splits.len() == size {
            return Ok(splits.as_ptr().cast());
        }
        let text = format!("splits has {} numbers, the process set has {size} ranks", splits.len());
        Err(Error::new(Status::InvalidArgument, format!("{}: {text}", self.options.subject("alltoall"))))
    }
}
