// SPDX-License-Identifier: Apache-2.0
//! Asynchronous operations on borrowed memory.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use crate::blocking::{all, group_of, one, received, Received};
use crate::context::Context;
use crate::element::Element;
use crate::error::Result;
use crate::in_flight_op::InFlightOp;
use crate::op_options::OpOptions;
use crate::request::{Collective, Request};
use crate::tensor::{AnyTensor, Tensor};
use crate::view::{AnyMut, AnyRef, TensorMut, TensorRef};

/// Starts operations on borrowed memory; made by [`Context::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    context: &'env Context,
    /// Operations that nobody has waited for yet, each at the place that its `ScopedPending` knows.
    in_flight: Mutex<Vec<Option<Arc<InFlightOp>>>>,
    // Neither lifetime may be shortened or stretched: what is lent for 'scope is lent until the scope has ended.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// What an operation borrows, to be given back with the result.
enum Lent<'scope> {
    Nothing,
    One(AnyMut<'scope>),
    Many(Vec<AnyMut<'scope>>),
}

type Finish<'scope, R> = fn(&Arc<InFlightOp>, Lent<'scope>) -> Result<R>;

/// An operation of a [`Scope`] under way. Wait for it or await it; the scope waits for those that were dropped or forgotten,
/// and fails with the error of one that nobody has waited for.
pub struct ScopedPending<'scope, R> {
    in_flight: &'scope Mutex<Vec<Option<Arc<InFlightOp>>>>,
    place: usize,
    /// Taken when the result is.
    op: Option<(Arc<InFlightOp>, Lent<'scope>)>,
    finish: Finish<'scope, R>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that runs under the lock leaves it half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Context {
    /// Runs asynchronous operations on borrowed memory, as [`std::thread::scope`] does with threads: all operations that were
    /// started in the scope have ended when this returns, also those whose [`ScopedPending`] was dropped or forgotten.
    ///
    /// If the function fails, its error is the scope's. Otherwise it is the first error of an operation that nobody has
    /// waited for. If it panics while operations are under way, the context is shut down: other ranks may never do their
    /// part, and memory that is lent can not be given back before the operations have ended.
    ///
    /// ```
    /// # use hvd::OpOptions;
    /// # let context = hvd::InitOptions::new().rank(0).size(1).rendezvous("mem://doc-scope").init()?;
    /// let (mut weights, mut biases) = (vec![1.0f32; 8], [0.5f32; 2]);
    /// context.scope(|scope| {
    ///     let weights = scope.allreduce_in_place(&mut weights, &OpOptions::named("weights"))?;
    ///     scope.allreduce_in_place(&mut biases, &OpOptions::named("biases"))?; // the scope waits for it
    ///     weights.wait()?.fill(0.0);
    ///     Ok(())
    /// })?;
    /// assert_eq!(weights, [0.0; 8]);
    /// # Ok::<(), hvd::Error>(())
    /// ```
    ///
    /// What is lent can not be used before the operation has ended:
    ///
    /// ```compile_fail,E0499
    /// # let context = hvd::Context::init()?;
    /// let mut weights = vec![1.0f32; 8];
    /// context.scope(|scope| {
    ///     let pending = scope.allreduce_in_place(&mut weights, &hvd::OpOptions::new())?;
    ///     weights[0] = 2.0;
    ///     pending.wait().map(drop)
    /// })?;
    /// # Ok::<(), hvd::Error>(())
    /// ```
    ///
    /// and nothing can be lent that does not outlive the scope:
    ///
    /// ```compile_fail,E0597
    /// # let context = hvd::Context::init()?;
    /// context.scope(|scope| {
    ///     let mut local = vec![1.0f32; 8];
    ///     std::mem::forget(scope.allreduce_in_place(&mut local, &hvd::OpOptions::new())?);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hvd::Error>(())
    /// ```
    pub fn scope<'env, F, R>(&'env self, function: F) -> Result<R>
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R>,
    {
        let scope = Scope { context: self, in_flight: Mutex::default(), scope: PhantomData, env: PhantomData };
        // Whatever the function does, what it has lent is in use until the operations have ended.
        let outcome = catch_unwind(AssertUnwindSafe(|| function(&scope)));
        let left: Vec<_> = std::mem::take(&mut *locked(&scope.in_flight)).into_iter().flatten().collect();
        if outcome.is_err() && left.iter().any(|op| !op.handle().has_ended()) {
            // Where this is refused, on the callback thread, the operations are waited for as they are.
            let _ = self.shutdown(Duration::ZERO);
        }
        let mut first_error = Ok(());
        for op in left {
            let result = op.handle().finish();
            first_error = first_error.and(result);
        }
        match outcome {
            Ok(result) => result.and_then(|value| first_error.map(|()| value)),
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl<'scope, R> ScopedPending<'scope, R> {
    /// Waits for the result.
    pub fn wait(mut self) -> Result<R> {
        let result = match &self.op {
            Some((op, _)) => op.handle().wait(-1).unwrap_or(Ok(())),
            None => unreachable!("a result is taken with the ScopedPending itself, or by poll"),
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

    fn end(&mut self, result: Result<()>) -> Result<R> {
        let Some((op, lent)) = self.op.take() else { unreachable!("checked by the callers") };
        // A wait that was refused is no end: then the scope keeps the operation.
        if result.is_ok() || op.handle().has_ended() {
            if let Some(place) = locked(self.in_flight).get_mut(self.place) {
                *place = None;
            }
        }
        result?;
        (self.finish)(&op, lent)
    }
}

impl<R> fmt::Debug for ScopedPending<'_, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.has_ended() { "ScopedPending(ended)" } else { "ScopedPending(in flight)" })
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Scope(of {:?}, {} not waited for)", self.context, locked(&self.in_flight).iter().flatten().count())
    }
}

/// # Panics
/// If polled again after it was ready.
impl<R> Future for ScopedPending<'_, R> {
    type Output = Result<R>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let (op, _) = self.op.as_ref().expect("a ScopedPending was polled after it was ready");
        match op.poll(task) {
            Poll::Ready(result) => Poll::Ready(self.end(result)),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<R> Unpin for ScopedPending<'_, R> {}

fn returned<'scope, T: Element>(_op: &Arc<InFlightOp>, lent: Lent<'scope>) -> Result<&'scope mut [T]> {
    match lent {
        Lent::One(any) => Ok(TensorMut { any, element: PhantomData }.into_slice()),
        _ => unreachable!("submitted with one tensor"),
    }
}

fn returned_group<'scope>(_op: &Arc<InFlightOp>, lent: Lent<'scope>) -> Result<Vec<AnyMut<'scope>>> {
    match lent {
        Lent::Many(tensors) => Ok(tensors),
        _ => unreachable!("submitted with several tensors"),
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// # Safety
    /// As of `Request::submit`; memory that is valid for 'scope is valid long enough.
    unsafe fn start<R>(
        &'scope self,
        request: Request<'_>,
        lent: Lent<'scope>,
        finish: Finish<'scope, R>,
    ) -> Result<ScopedPending<'scope, R>> {
        // SAFETY: the scope waits for the operation before 'scope ends, because it is noted right below.
        let handle = unsafe { request.submit(self.context) }?;
        let op = InFlightOp::new(handle, &self.context.core);
        let mut in_flight = locked(&self.in_flight);
        let place = in_flight.iter().position(Option::is_none).unwrap_or(in_flight.len());
        match in_flight.get_mut(place) {
            Some(free) => *free = Some(Arc::clone(&op)),
            None => in_flight.push(Some(Arc::clone(&op))),
        }
        drop(in_flight);
        Ok(ScopedPending { in_flight: &self.in_flight, place, op: Some((op, lent)), finish })
    }

    fn in_place<T: Element>(
        &'scope self,
        collective: Collective<'_>,
        data: TensorMut<'scope, T>,
        options: &OpOptions,
    ) -> Result<ScopedPending<'scope, &'scope mut [T]>> {
        let span = data.any.span;
        let raw = [span.raw()];
        let request = Request { collective, grouped: false, inputs: &raw, outputs: Some(&raw), options };
        // SAFETY: the tensor is lent for 'scope and given back when the operation has ended.
        unsafe { self.start(request, Lent::One(data.any), returned) }
    }

    fn into<T: Element>(
        &'scope self,
        collective: Collective<'_>,
        input: TensorRef<'scope, T>,
        output: TensorMut<'scope, T>,
        options: &OpOptions,
    ) -> Result<ScopedPending<'scope, &'scope mut [T]>> {
        let (input, given) = (input.any.span, output.any.span);
        let (inputs, outputs) = ([input.raw()], [given.raw()]);
        let request = Request { collective, grouped: false, inputs: &inputs, outputs: Some(&outputs), options };
        // SAFETY: both are lent for 'scope, the output mutably, so they do not overlap.
        unsafe { self.start(request, Lent::One(output.any), returned) }
    }

    fn to_result<T: Element, R>(
        &'scope self,
        collective: Collective<'_>,
        input: TensorRef<'scope, T>,
        options: &OpOptions,
        finish: Finish<'scope, R>,
    ) -> Result<ScopedPending<'scope, R>> {
        let inputs = [input.any.span.raw()];
        let request = Request { collective, grouped: false, inputs: &inputs, outputs: None, options };
        // SAFETY: the input is lent for 'scope.
        unsafe { self.start(request, Lent::Nothing, finish) }
    }

    fn group_to_results(
        &'scope self,
        collective: Collective<'_>,
        inputs: &[AnyRef<'scope>],
        options: &OpOptions,
    ) -> Result<ScopedPending<'scope, Vec<AnyTensor>>> {
        let (_spans, raw) = group_of(inputs.iter().map(|input| input.span));
        let request = Request { collective, grouped: true, inputs: &raw, outputs: None, options };
        // SAFETY: the inputs are lent for 'scope.
        unsafe { self.start(request, Lent::Nothing, |op, _| all(op)) }
    }

    /// [`Context::allreduce_in_place`]; gives the slice back.
    pub fn allreduce_in_place<T: Element>(
        &'scope self,
        data: impl Into<TensorMut<'scope, T>>,
        options: &OpOptions,
    ) -> Result<ScopedPending<'scope, &'scope mut [T]>> {
        self.in_place(Collective::Allreduce, data.into(), options)
    }

    /// [`Context::allreduce_into`]; gives the output back.
    pub fn allreduce_into<T: Element>(
        &'scope self,
        input: impl Into<TensorRef<'scope, T>>,
        output: impl Into<TensorMut<'scope, T>>,
        options: &OpOptions,
    ) -> Result<ScopedPending<'scope, &'scope mut [T]>> {
        self.into(Collective::Allreduce, input.into(), output.into(), options)
    }

    /// [`Context::grouped_allreduce_in_place`]; gives the tensors back.
    pub fn grouped_allreduce_in_place(
        &'scope self,
        data: Vec<AnyMut<'scope>>,
        options: &OpOptions,
    ) -> Result<ScopedPending<'scope, Vec<AnyMut<'scope>>>> {
        let (_spans, raw) = group_of(data.iter().map(|tensor| tensor.span));
        let collective = Collective::Allreduce;
        let request = Request { collective, grouped: true, inputs: &raw, outputs: Some(&raw), options };
        // SAFETY: the tensors are lent for 'scope, mutably, so none overlaps another.
        unsafe { self.start(request, Lent::Many(data), returned_group) }
    }

    /// [`Context::broadcast_in_place`]; gives the slice back.
    pub fn broadcast_in_place<T: Element>(
        &'scope self,
        data: impl Into<TensorMut<'scope, T>>,
        root: usize,
        options: &OpOptions,
    ) -> Result<ScopedPending<'scope, &'scope mut [T]>> {
        self.in_place(Collective::Broadcast { root }, data.into(), options)
    }

    /// [`Context::allgather`].
    pub fn allgather<T: Element>(
        &'scope self,
        input: impl Into<TensorRef<'scope, T>>,
        options: &OpOptions,
    ) -> Result<ScopedPending<'scope, Tensor<T>>> {
        self.to_result(Collective::Allgather, input.into(), options, |op, _| one(op))
    }

    /// [`Context::allgather_into`]; gives the output back.
    pub fn allgather_into<T: Element>(
        &'scope self,
        input: impl Into<TensorRef<'scope, T>>,
        output: impl Into<TensorMut<'scope, T>>,
        options: &OpOptions,
    ) -> Result<ScopedPending<'scope, &'scope mut [T]>> {
        self.into(Collective::Allgather, input.into(), output.into(), options)
    }

    /// [`Context::grouped_allgather`].
    pub fn grouped_allgather(
        &'scope self,
        inputs: &[AnyRef<'scope>],
        options: &OpOptions,
    ) -> Result<ScopedPending<'scope, Vec<AnyTensor>>> {
        self.group_to_results(Collective::Allgather, inputs, options)
    }

    /// [`Context::alltoallv`].
    pub fn alltoallv<T: Element>(
        &'scope self,
        input: impl Into<TensorRef<'scope, T>>,
        splits: &[usize],
        options: &OpOptions,
    ) -> Result<ScopedPending<'scope, Received<T>>> {
        let collective = Collective::Alltoall { splits: Some(splits) };
        self.to_result(collective, input.into(), options, |op, _| received(op))
    }

    /// [`Context::alltoall`].
    pub fn alltoall<T: Element>(
        &'scope self,
        input: impl Into<TensorRef<'scope, T>>,
        options: &OpOptions,
    ) -> Result<ScopedPending<'scope, Tensor<T>>> {
        self.to_result(Collective::Alltoall { splits: None }, input.into(), options, |op, _| one(op))
    }

    /// [`Context::reducescatter`].
    pub fn reducescatter<T: Element>(
        &'scope self,
        input: impl Into<TensorRef<'scope, T>>,
        options: &OpOptions,
    ) -> Result<ScopedPending<'scope, Tensor<T>>> {
        self.to_result(Collective::Reducescatter, input.into(), options, |op, _| one(op))
    }

    /// [`Context::reducescatter_into`]; gives the output back.
    pub fn reducescatter_into<T: Element>(
        &'scope self,
        input: impl Into<TensorRef<'scope, T>>,
        output: impl Into<TensorMut<'scope, T>>,
        options: &OpOptions,
    ) -> Result<ScopedPending<'scope, &'scope mut [T]>> {
        self.into(Collective::Reducescatter, input.into(), output.into(), options)
    }

    /// [`Context::grouped_reducescatter`].
    pub fn grouped_reducescatter(
        &'scope self,
        inputs: &[AnyRef<'scope>],
        options: &OpOptions,
    ) -> Result<ScopedPending<'scope, Vec<AnyTensor>>> {
        self.group_to_results(Collective::Reducescatter, inputs, options)
    }
}
