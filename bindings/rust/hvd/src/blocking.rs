// SPDX-License-Identifier: Apache-2.0
//! Operations that return when they have ended. They borrow their tensors.

use std::ops::Range;
use std::sync::Arc;

use hvd_sys as sys;

use crate::context::Context;
use crate::element::Element;
use crate::error::{Error, Result, Status};
use crate::in_flight_op::InFlightOp;
use crate::op_options::OpOptions;
use crate::request::{Collective, Request};
use crate::tensor::{raw_tensors, AnyTensor, Tensor};
use crate::view::{AnyMut, AnyRef, Span, TensorMut, TensorRef};

/// What an alltoall brought.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Received<T: Element> {
    /// The rows, in the order of the ranks that sent them.
    pub tensor: Tensor<T>,
    /// How many of them came from each rank of the set.
    pub splits: Vec<usize>,
}

pub(crate) fn one<T: Element>(op: &Arc<InFlightOp>) -> Result<Tensor<T>> {
    let tensor = AnyTensor::of_result(op, 0)?;
    tensor
        .downcast()
        .map_err(|other| Error::new(Status::Internal, format!("the result is {}, not {}", other.dtype(), T::DTYPE)))
}

pub(crate) fn all(op: &Arc<InFlightOp>) -> Result<Vec<AnyTensor>> {
    (0..op.output_count()).map(|index| AnyTensor::of_result(op, index)).collect()
}

pub(crate) fn received<T: Element>(op: &Arc<InFlightOp>) -> Result<Received<T>> {
    Ok(Received { tensor: one(op)?, splits: op.received_splits()? })
}

/// As many outputs as inputs: the library takes one count for both.
pub(crate) fn check_counts(options: &OpOptions, kind: &str, inputs: usize, outputs: usize) -> Result<()> {
    if inputs == outputs {
        return Ok(());
    }
    let text = format!("{inputs} inputs and {outputs} outputs are given");
    Err(Error::new(Status::InvalidArgument, format!("{}: {text}", options.subject(kind))))
}

/// The rows `own` of a tensor, as the input of an allgather in place.
pub(crate) fn rows_of<'a>(whole: &Span<'a>, own: &Range<usize>, shape: &'a mut Vec<usize>) -> Result<Span<'a>> {
    *shape = whole.shape.map_or_else(|| vec![whole.count], <[usize]>::to_vec);
    let rows = shape.first().copied().unwrap_or(1);
    if own.start > own.end || own.end > rows {
        let text = format!("allgather in place: the rows are {own:?} of {rows}");
        return Err(Error::new(Status::InvalidArgument, text));
    }
    let row: usize = shape.iter().skip(1).product();
    match shape.first_mut() {
        Some(first) => *first = own.len(),
        None => shape.push(own.len()),
    }
    // SAFETY: the rows lie inside the tensor.
    let data = unsafe { whole.data.add(own.start * row * whole.dtype.size()) };
    Ok(Span { data, count: own.len() * row, shape: Some(shape), dtype: whole.dtype })
}

/// The description of a group.
pub(crate) fn group_of<'a>(spans: impl IntoIterator<Item = Span<'a>>) -> (Vec<Span<'a>>, Vec<sys::hvd_tensor>) {
    let spans: Vec<_> = spans.into_iter().collect();
    let raw = raw_tensors(&spans);
    (spans, raw)
}

impl Context {
    #[inline]
    fn borrow_in_place(&self, collective: Collective<'_>, data: &AnyMut<'_>, options: &OpOptions) -> Result<()> {
        let raw = [data.span.raw()];
        let request = Request { collective, grouped: false, inputs: &raw, outputs: Some(&raw), options };
        // SAFETY: the tensor is borrowed mutably until the end of the call.
        unsafe { request.run(self) }.map(drop)
    }

    #[inline]
    fn borrow_into(
        &self,
        collective: Collective<'_>,
        input: &AnyRef<'_>,
        output: &AnyMut<'_>,
        options: &OpOptions,
    ) -> Result<()> {
        let (inputs, outputs) = ([input.span.raw()], [output.span.raw()]);
        let request = Request { collective, grouped: false, inputs: &inputs, outputs: Some(&outputs), options };
        // SAFETY: both are borrowed until the end of the call, the output mutably, so they do not overlap.
        unsafe { request.run(self) }.map(drop)
    }

    fn borrow(&self, collective: Collective<'_>, input: &AnyRef<'_>, options: &OpOptions) -> Result<Arc<InFlightOp>> {
        let inputs = [input.span.raw()];
        let request = Request { collective, grouped: false, inputs: &inputs, outputs: None, options };
        // SAFETY: the input is borrowed until the end of the call.
        unsafe { request.run_to_results(self) }
    }

    fn borrow_group(&self, collective: Collective<'_>, inputs: &[AnyRef<'_>], options: &OpOptions) -> Result<Vec<AnyTensor>> {
        let (_spans, raw) = group_of(inputs.iter().map(|input| input.span));
        let request = Request { collective, grouped: true, inputs: &raw, outputs: None, options };
        // SAFETY: the inputs are borrowed until the end of the call.
        all(&unsafe { request.run_to_results(self) }?)
    }

    fn borrow_group_into(
        &self,
        collective: Collective<'_>,
        kind: &str,
        inputs: &[AnyRef<'_>],
        outputs: &mut [AnyMut<'_>],
        options: &OpOptions,
    ) -> Result<()> {
        check_counts(options, kind, inputs.len(), outputs.len())?;
        let (_spans, inputs) = group_of(inputs.iter().map(|input| input.span));
        let (_spans, outputs) = group_of(outputs.iter().map(|output| output.span));
        let request = Request { collective, grouped: true, inputs: &inputs, outputs: Some(&outputs), options };
        // SAFETY: all are borrowed until the end of the call, the outputs mutably, so none overlaps another tensor.
        unsafe { request.run(self) }.map(drop)
    }

    /// The reduction of all ranks' tensors, which have the same shape.
    ///
    /// ```
    /// # let context = hvd::InitOptions::new().rank(0).size(1).rendezvous("mem://doc-allreduce").init()?;
    /// let sum = context.allreduce(&[1.5f32, 2.5], &hvd::OpOptions::named("sum"))?;
    /// assert_eq!(&sum[..], [1.5, 2.5]); // a job of one rank
    /// # Ok::<(), hvd::Error>(())
    /// ```
    pub fn allreduce<'a, T: Element>(&self, input: impl Into<TensorRef<'a, T>>, options: &OpOptions) -> Result<Tensor<T>> {
        one(&self.borrow(Collective::Allreduce, &input.into().any, options)?)
    }

    /// The same, in place of this rank's tensor.
    #[inline]
    pub fn allreduce_in_place<'a, T: Element>(&self, data: impl Into<TensorMut<'a, T>>, options: &OpOptions) -> Result<()> {
        self.borrow_in_place(Collective::Allreduce, &data.into().any, options)
    }

    /// The same, into another tensor of this shape.
    #[inline]
    pub fn allreduce_into<'a, 'b, T: Element>(
        &self,
        input: impl Into<TensorRef<'a, T>>,
        output: impl Into<TensorMut<'b, T>>,
        options: &OpOptions,
    ) -> Result<()> {
        self.borrow_into(Collective::Allreduce, &input.into().any, &output.into().any, options)
    }

    /// Several allreduces as one operation: none starts before all tensors are ready on every rank.
    pub fn grouped_allreduce(&self, inputs: &[AnyRef<'_>], options: &OpOptions) -> Result<Vec<AnyTensor>> {
        self.borrow_group(Collective::Allreduce, inputs, options)
    }

    /// The same, in place of this rank's tensors.
    pub fn grouped_allreduce_in_place(&self, data: &mut [AnyMut<'_>], options: &OpOptions) -> Result<()> {
        let (_spans, raw) = group_of(data.iter().map(|tensor| tensor.span));
        let collective = Collective::Allreduce;
        let request = Request { collective, grouped: true, inputs: &raw, outputs: Some(&raw), options };
        // SAFETY: the tensors are borrowed mutably until the end of the call, so none overlaps another.
        unsafe { request.run(self) }.map(drop)
    }

    /// The same, into other tensors.
    pub fn grouped_allreduce_into(&self, inputs: &[AnyRef<'_>], outputs: &mut [AnyMut<'_>], options: &OpOptions) -> Result<()> {
        self.borrow_group_into(Collective::Allreduce, "grouped allreduce", inputs, outputs, options)
    }

    /// The tensors of all ranks, one after another along dimension 0, which may differ between ranks.
    pub fn allgather<'a, T: Element>(&self, input: impl Into<TensorRef<'a, T>>, options: &OpOptions) -> Result<Tensor<T>> {
        one(&self.borrow(Collective::Allgather, &input.into().any, options)?)
    }

    /// The same, into a tensor of exactly the size of all.
    pub fn allgather_into<'a, 'b, T: Element>(
        &self,
        input: impl Into<TensorRef<'a, T>>,
        output: impl Into<TensorMut<'b, T>>,
        options: &OpOptions,
    ) -> Result<()> {
        self.borrow_into(Collective::Allgather, &input.into().any, &output.into().any, options)
    }

    /// The same, where this rank's rows lie in the result already. `own` is those that the ranks before this one leave to it.
    pub fn allgather_in_place<'a, T: Element>(
        &self,
        whole: impl Into<TensorMut<'a, T>>,
        own: Range<usize>,
        options: &OpOptions,
    ) -> Result<()> {
        let whole = whole.into().any;
        let mut shape = Vec::new();
        let input = rows_of(&whole.span, &own, &mut shape)?;
        let (inputs, outputs) = ([input.raw()], [whole.span.raw()]);
        let collective = Collective::Allgather;
        let request = Request { collective, grouped: false, inputs: &inputs, outputs: Some(&outputs), options };
        // SAFETY: the tensor is borrowed mutably until the end of the call. That the input lies elsewhere in the output than
        // at its own place the library refuses.
        unsafe { request.run(self) }.map(drop)
    }

    /// Several allgathers as one operation.
    pub fn grouped_allgather(&self, inputs: &[AnyRef<'_>], options: &OpOptions) -> Result<Vec<AnyTensor>> {
        self.borrow_group(Collective::Allgather, inputs, options)
    }

    /// The same, into tensors of exactly the sizes of all.
    pub fn grouped_allgather_into(&self, inputs: &[AnyRef<'_>], outputs: &mut [AnyMut<'_>], options: &OpOptions) -> Result<()> {
        self.borrow_group_into(Collective::Allgather, "grouped allgather", inputs, outputs, options)
    }

    /// The tensor of rank `root`, a number in the job, everywhere. Other ranks' input gives shape and dtype only.
    pub fn broadcast<'a, T: Element>(
        &self,
        input: impl Into<TensorRef<'a, T>>,
        root: usize,
        options: &OpOptions,
    ) -> Result<Tensor<T>> {
        one(&self.borrow(Collective::Broadcast { root }, &input.into().any, options)?)
    }

    /// The same, in place of this rank's tensor.
    pub fn broadcast_in_place<'a, T: Element>(
        &self,
        data: impl Into<TensorMut<'a, T>>,
        root: usize,
        options: &OpOptions,
    ) -> Result<()> {
        self.borrow_in_place(Collective::Broadcast { root }, &data.into().any, options)
    }

    /// The same, into another tensor of this shape.
    pub fn broadcast_into<'a, 'b, T: Element>(
        &self,
        input: impl Into<TensorRef<'a, T>>,
        output: impl Into<TensorMut<'b, T>>,
        root: usize,
        options: &OpOptions,
    ) -> Result<()> {
        self.borrow_into(Collective::Broadcast { root }, &input.into().any, &output.into().any, options)
    }

    /// On rank `root`, a number in the job, the tensors of all ranks one after another along dimension 0, which may differ
    /// between ranks. On the other ranks a tensor without rows.
    pub fn gather<'a, T: Element>(
        &self,
        input: impl Into<TensorRef<'a, T>>,
        root: usize,
        options: &OpOptions,
    ) -> Result<Tensor<T>> {
        one(&self.borrow(Collective::Gather { root }, &input.into().any, options)?)
    }

    /// The i-th of equal parts of dimension 0 goes to the i-th rank of the set.
    pub fn alltoall<'a, T: Element>(&self, input: impl Into<TensorRef<'a, T>>, options: &OpOptions) -> Result<Tensor<T>> {
        one(&self.borrow(Collective::Alltoall { splits: None }, &input.into().any, options)?)
    }

    /// `splits[i]` rows of dimension 0 go to the i-th rank of the set. Rows beyond their sum are not sent.
    pub fn alltoallv<'a, T: Element>(
        &self,
        input: impl Into<TensorRef<'a, T>>,
        splits: &[usize],
        options: &OpOptions,
    ) -> Result<Received<T>> {
        received(&self.borrow(Collective::Alltoall { splits: Some(splits) }, &input.into().any, options)?)
    }

    /// The same, into a tensor of exactly the size of what comes, with equal parts where there are no splits. Gives the rows
    /// received from each rank of the set.
    pub fn alltoall_into<'a, 'b, T: Element>(
        &self,
        input: impl Into<TensorRef<'a, T>>,
        splits: Option<&[usize]>,
        output: impl Into<TensorMut<'b, T>>,
        options: &OpOptions,
    ) -> Result<Vec<usize>> {
        let (input, output) = (input.into().any, output.into().any);
        let (inputs, outputs) = ([input.span.raw()], [output.span.raw()]);
        let collective = Collective::Alltoall { splits };
        let request = Request { collective, grouped: false, inputs: &inputs, outputs: Some(&outputs), options };
        // SAFETY: both are borrowed until the end of the call, the output mutably, so they do not overlap.
        unsafe { request.run_to_results(self) }?.received_splits()
    }

    /// The reduction, its rows dealt out: the i-th of n ranks gets one n-th of them, and one more if i is less than the
    /// remainder.
    pub fn reducescatter<'a, T: Element>(&self, input: impl Into<TensorRef<'a, T>>, options: &OpOptions) -> Result<Tensor<T>> {
        one(&self.borrow(Collective::Reducescatter, &input.into().any, options)?)
    }

    /// The same, into a tensor of this rank's share.
    pub fn reducescatter_into<'a, 'b, T: Element>(
        &self,
        input: impl Into<TensorRef<'a, T>>,
        output: impl Into<TensorMut<'b, T>>,
        options: &OpOptions,
    ) -> Result<()> {
        self.borrow_into(Collective::Reducescatter, &input.into().any, &output.into().any, options)
    }

    /// Several reducescatters as one operation.
    pub fn grouped_reducescatter(&self, inputs: &[AnyRef<'_>], options: &OpOptions) -> Result<Vec<AnyTensor>> {
        self.borrow_group(Collective::Reducescatter, inputs, options)
    }

    /// The same, into tensors of this rank's shares.
    pub fn grouped_reducescatter_into(
        &self,
        inputs: &[AnyRef<'_>],
        outputs: &mut [AnyMut<'_>],
        options: &OpOptions,
    ) -> Result<()> {
        self.borrow_group_into(Collective::Reducescatter, "grouped reducescatter", inputs, outputs, options)
    }

    /// Returns on no rank before every rank of the set has called it.
    pub fn barrier(&self, options: &OpOptions) -> Result<()> {
        let request = Request { collective: Collective::Barrier, grouped: false, inputs: &[], outputs: None, options };
        // SAFETY: there are no tensors.
        unsafe { request.run(self) }.map(drop)
    }

    /// This rank has no more data: until every rank of the set has joined it takes part in the allreduces of the others
    /// without contributing. Gives the rank that joined last.
    pub fn join(&self, options: &OpOptions) -> Result<usize> {
        let request = Request { collective: Collective::Join, grouped: false, inputs: &[], outputs: None, options };
        // SAFETY: there are no tensors.
        unsafe { request.run_to_results(self) }?.last_joined_rank()
    }
}
