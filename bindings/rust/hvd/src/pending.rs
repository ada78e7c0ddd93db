// SPDX-License-Identifier: Apache-2.0
//! Operations that own their memory while they run.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use crate::blocking::{all, group_of, one, received, Received};
use crate::context::{Context, Core};
use crate::element::Element;
use crate::error::Result;
use crate::in_flight_op::{Handle, InFlightOp, Keep};
use crate::op_options::OpOptions;
use crate::request::{Collective, Request};
use crate::tensor::{AnyTensor, Tensor};

type Finish<R> = fn(&Arc<InFlightOp>, Keep) -> Result<R>;

/// An operation under way, which owns the memory that it uses. Wait for it, or await it: it is a [`Future`] of any executor.
///
/// Dropping it does not stop the operation, which other ranks need; its memory is freed when it has ended. Forgetting it
/// leaks the memory, and the context stays open until [`Context::shutdown`]. The result of a failed operation is the error
/// alone: its tensors are gone.
#[must_use = "the operation runs whether or not anybody waits, but its error is seen by waiting only"]
pub struct Pending<R> {
    /// Taken when the result is.
    op: Option<(Arc<InFlightOp>, Keep)>,
    finish: Finish<R>,
    /// Somebody waits, so this rank stays in the job. Given back after the operation.
    _core: Arc<Core>,
}

impl<R> Pending<R> {
    /// Waits for the result.
    pub fn wait(mut self) -> Result<R> {
        let result = match &self.op {
            Some((op, _)) => op.handle().wait(-1).unwrap_or(Ok(())),
            None => unreachable!("a result is taken with the Pending itself, or by poll"),
        };
        self.end(result)
    }

    /// Waits at most so long. Gives itself back if time ran out: the operation goes on.
    pub fn wait_timeout(mut self, limit: Duration) -> std::result::Result<Result<R>, Self> {
        let waited = self.op.as_ref().and_then(|(op, _)| op.wait_for(limit));
        match waited {
            Some(result) => Ok(self.end(result)),
            None => Err(self),
        }
    }

    /// Whether the operation has ended, well or not.
    pub fn has_ended(&self) -> bool {
        self.op.as_ref().map_or(true, |(op, _)| op.handle().has_ended())
    }

    /// The result of an operation that has ended; after a failure that is no end, dropping `self` keeps the memory safe.
    fn end(&mut self, result: Result<()>) -> Result<R> {
        result?;
        let Some((op, keep)) = self.op.take() else { unreachable!("checked by the callers") };
        (self.finish)(&op, keep)
    }
}

impl<R> fmt::Debug for Pending<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.has_ended() { "Pending(ended)" } else { "Pending(in flight)" })
    }
}

impl<R> Drop for Pending<R> {
    fn drop(&mut self) {
        if let Some((op, keep)) = self.op.take() {
            op.abandon(keep);
        }
    }
}

/// # Panics
/// If polled again after it was ready.
impl<R> Future for Pending<R> {
    type Output = Result<R>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let (op, _) = self.op.as_ref().expect("a Pending was polled after it was ready");
        match op.poll(task) {
            Poll::Ready(result) => {
                let result = self.end(result);
                if let Some((op, keep)) = self.op.take() {
                    op.abandon(keep);
                }
                Poll::Ready(result)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

// Nothing in it refers to itself: the library knows the memory behind the tensors, which does not move with them.
impl<R> Unpin for Pending<R> {}

fn returned<T: Element>(_op: &Arc<InFlightOp>, keep: Keep) -> Result<Tensor<T>> {
    match keep {
        Keep::One(tensor) => Ok(tensor.downcast().unwrap_or_else(|_| unreachable!("the tensor that was submitted"))),
        _ => unreachable!("submitted with one tensor"),
    }
}

fn returned_group(_op: &Arc<InFlightOp>, keep: Keep) -> Result<Vec<AnyTensor>> {
    match keep {
        Keep::Many(tensors) => Ok(tensors),
        _ => unreachable!("submitted with several tensors"),
    }
}

impl Context {
    fn pending<R>(&self, handle: Handle, keep: Keep, finish: Finish<R>) -> Pending<R> {
        Pending { op: Some((InFlightOp::new(handle, &self.core), keep)), finish, _core: Arc::clone(&self.core) }
    }

    /// One tensor that the operation owns.
    fn start<R>(
        &self,
        collective: Collective<'_>,
        tensor: AnyTensor,
        in_place: bool,
        options: &OpOptions,
        finish: Finish<R>,
    ) -> Result<Pending<R>> {
        let raw = [tensor.span().raw()];
        let outputs = if in_place { Some(&raw[..]) } else { None };
        let request = Request { collective, grouped: false, inputs: &raw, outputs, options };
        // SAFETY: the memory belongs to `Pending`, which gives it to nobody before the operation has ended.
        let handle = unsafe { request.submit(self) }?;
        Ok(self.pending(handle, Keep::One(tensor), finish))
    }

    fn start_group(
        &self,
        collective: Collective<'_>,
        tensors: Vec<AnyTensor>,
        in_place: bool,
        options: &OpOptions,
        finish: Finish<Vec<AnyTensor>>,
    ) -> Result<Pending<Vec<AnyTensor>>> {
        let (spans, raw) = group_of(tensors.iter().map(AnyTensor::span));
        let outputs = if in_place { Some(&raw[..]) } else { None };
        let request = Request { collective, grouped: true, inputs: &raw, outputs, options };
        // SAFETY: as in `start`.
        let handle = unsafe { request.submit(self) }?;
        drop(spans);
        Ok(self.pending(handle, Keep::Many(tensors), finish))
    }

    fn start_empty<R>(&self, collective: Collective<'_>, options: &OpOptions, finish: Finish<R>) -> Result<Pending<R>> {
        let request = Request { collective, grouped: false, inputs: &[], outputs: None, options };
        // SAFETY: there are no tensors.
        let handle = unsafe { request.submit(self) }?;
        Ok(self.pending(handle, Keep::Nothing, finish))
    }

    /// [`allreduce`](Self::allreduce) in the memory of a tensor given away, which comes back as the result.
    ///
    /// ```
    /// # let context = hvd::InitOptions::new().rank(0).size(1).rendezvous("mem://doc-pending").init()?;
    /// let pending = context.allreduce_async(vec![1i64, 2, 3], &hvd::OpOptions::named("later"))?;
    /// // other work
    /// assert_eq!(pending.wait()?.into_vec(), [1, 2, 3]);
    /// # Ok::<(), hvd::Error>(())
    /// ```
    pub fn allreduce_async<T: Element>(&self, data: impl Into<Tensor<T>>, options: &OpOptions) -> Result<Pending<Tensor<T>>> {
        self.start(Collective::Allreduce, data.into().into(), true, options, returned)
    }

    /// [`grouped_allreduce`](Self::grouped_allreduce) in the memory of tensors given away.
    pub fn grouped_allreduce_async(&self, data: Vec<AnyTensor>, options: &OpOptions) -> Result<Pending<Vec<AnyTensor>>> {
        self.start_group(Collective::Allreduce, data, true, options, returned_group)
    }

    /// [`allgather`](Self::allgather) of a tensor given away.
    pub fn allgather_async<T: Element>(&self, input: impl Into<Tensor<T>>, options: &OpOptions) -> Result<Pending<Tensor<T>>> {
        self.start(Collective::Allgather, input.into().into(), false, options, |op, _| one(op))
    }

    /// [`grouped_allgather`](Self::grouped_allgather) of tensors given away.
    pub fn grouped_allgather_async(&self, inputs: Vec<AnyTensor>, options: &OpOptions) -> Result<Pending<Vec<AnyTensor>>> {
        self.start_group(Collective::Allgather, inputs, false, options, |op, _| all(op))
    }

    /// [`broadcast`](Self::broadcast) in the memory of a tensor given away, which comes back as the result.
    pub fn broadcast_async<T: Element>(
        &self,
        data: impl Into<Tensor<T>>,
        root: usize,
        options: &OpOptions,
    ) -> Result<Pending<Tensor<T>>> {
        self.start(Collective::Broadcast { root }, data.into().into(), true, options, returned)
    }

    /// [`gather`](Self::gather) of a tensor given away.
    pub fn gather_async<T: Element>(
        &self,
        input: impl Into<Tensor<T>>,
        root: usize,
        options: &OpOptions,
    ) -> Result<Pending<Tensor<T>>> {
        self.start(Collective::Gather { root }, input.into().into(), false, options, |flight, _| one(flight))
    }

    /// [`alltoall`](Self::alltoall) of a tensor given away.
    pub fn alltoall_async<T: Element>(&self, input: impl Into<Tensor<T>>, options: &OpOptions) -> Result<Pending<Tensor<T>>> {
        self.start(Collective::Alltoall { splits: None }, input.into().into(), false, options, |op, _| one(op))
    }

    /// [`alltoallv`](Self::alltoallv) of a tensor given away.
    pub fn alltoallv_async<T: Element>(
        &self,
        input: impl Into<Tensor<T>>,
        splits: &[usize],
        options: &OpOptions,
    ) -> Result<Pending<Received<T>>> {
        let collective = Collective::Alltoall { splits: Some(splits) };
        self.start(collective, input.into().into(), false, options, |op, _| received(op))
    }

    /// [`reducescatter`](Self::reducescatter) of a tensor given away.
    pub fn reducescatter_async<T: Element>(
        &self,
        input: impl Into<Tensor<T>>,
        options: &OpOptions,
    ) -> Result<Pending<Tensor<T>>> {
        self.start(Collective::Reducescatter, input.into().into(), false, options, |op, _| one(op))
    }

    /// [`grouped_reducescatter`](Self::grouped_reducescatter) of tensors given away.
    pub fn grouped_reducescatter_async(&self, inputs: Vec<AnyTensor>, options: &OpOptions) -> Result<Pending<Vec<AnyTensor>>> {
        self.start_group(Collective::Reducescatter, inputs, false, options, |op, _| all(op))
    }

    /// [`barrier`](Self::barrier) that others may be waited for besides.
    pub fn barrier_async(&self, options: &OpOptions) -> Result<Pending<()>> {
        self.start_empty(Collective::Barrier, options, |_, _| Ok(()))
    }

    /// [`join`](Self::join) that others may be waited for besides.
    pub fn join_async(&self, options: &OpOptions) -> Result<Pending<usize>> {
        self.start_empty(Collective::Join, options, |op, _| op.last_joined_rank())
    }
}
