// SPDX-License-Identifier: Apache-2.0
//! One rank that runs vectors.

use std::time::Duration;

use hvd::{AnyMut, AnyRef, AnyTensor, Context, Element, Error, OpOptions, ProcessSet, Tensor};

use crate::vectors::{difference, Number, Part, Vector};
use crate::with_element;

/// Where the result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Into the caller's memory.
    Given,
    /// Into the library's.
    Library,
    /// Where the input is.
    Input,
    /// Asynchronously, with memory given away.
    Owned,
}

pub fn possible(vector: &Vector, place: Place) -> bool {
    let op = vector.parts[0].op.as_str();
    let same_shape = matches!(op, "allreduce" | "broadcast");
    match place {
        Place::Input if vector.expect_status.is_some() => false,
        Place::Input => same_shape || op == "allgather" && !vector.grouped,
        // An output of the right size that must stay untouched can be given where the input's shape tells the size.
        Place::Given if vector.expect_status.is_some() => same_shape,
        Place::Given => !matches!(op, "barrier" | "join" | "gather"),
        Place::Library | Place::Owned => true,
    }
}

/// What an operation gave besides an error.
#[derive(Default)]
struct Outcome {
    tensors: Vec<AnyTensor>,
    splits: Option<Vec<usize>>,
    last_joined: Option<usize>,
}

impl<T: Element> From<Tensor<T>> for Outcome {
    fn from(tensor: Tensor<T>) -> Self {
        Outcome { tensors: vec![tensor.into()], ..Outcome::default() }
    }
}

impl From<Vec<AnyTensor>> for Outcome {
    fn from(tensors: Vec<AnyTensor>) -> Self {
        Outcome { tensors, ..Outcome::default() }
    }
}

/// The result, and the memory that was given for it if there is none.
type Attempt = Result<Outcome, (Error, Vec<AnyTensor>)>;

/// Bytes that no result of the vectors has everywhere.
fn untouched<T: Number>(count: usize, shape: &[usize]) -> Tensor<T> {
    let element = T::from_bytes(&vec![0xa5; size_of::<T>()]);
    Tensor::new(vec![element; count], shape).expect("as many as the shape has")
}

fn is_untouched(tensor: &AnyTensor) -> bool {
    with_element!(tensor.dtype(), T => {
        let elements = tensor.as_slice::<T>().unwrap_or_default();
        elements.iter().all(|element| element.to_bytes().iter().all(|&byte| byte == 0xa5))
    })
}

/// An error vector's output has the input's shape: it is only there to stay untouched.
fn output<T: Number>(part: &Part, index: usize) -> Tensor<T> {
    let like = part.expect.get(index).map_or(&part.input[index], |expected| &expected.given);
    untouched(like.count(), &like.shape)
}

fn without_memory<R: Into<Outcome>>(result: hvd::Result<R>) -> Attempt {
    result.map(Into::into).map_err(|error| (error, Vec::new()))
}

fn with_memory<T: Element>(result: hvd::Result<()>, memory: Tensor<T>) -> Attempt {
    match result {
        Ok(()) => Ok(memory.into()),
        Err(error) => Err((error, vec![memory.into()])),
    }
}

pub struct Rank {
    context: Context,
    failures: Vec<String>,
}

impl Rank {
    pub fn new(context: Context) -> Self {
        Rank { context, failures: Vec::new() }
    }

    /// Leaves the job and tells what went wrong.
    pub fn leave(mut self) -> Vec<String> {
        if let Err(error) = self.context.shutdown(Duration::from_secs(10)) {
            self.failures.push(format!("shutdown: {error}"));
        }
        self.failures
    }

    pub fn run(&mut self, vector: &Vector, place: Place) {
        let own = format!("{}, rank {} of {}, {place:?}", vector.name, self.context.rank(), vector.size);
        let found = self.run_once(vector, place);
        self.failures.extend(found.into_iter().map(|failure| format!("{own}: {failure}")));
    }

    fn run_once(&self, vector: &Vector, place: Place) -> Vec<String> {
        let mut found = Vec::new();
        let set = match vector.set.as_deref().map(|ranks| self.context.create_process_set(ranks)).transpose() {
            Ok(set) => set,
            Err(error) => return vec![format!("process set: {error}")],
        };
        let part = &vector.parts[self.context.rank()];
        if part.member && !part.joins {
            let options = self.options(&format!("{} {place:?}", vector.name), part, set.as_ref());
            match self.operate(vector, part, place, &options) {
                Ok(outcome) => check_results(vector, part, &outcome, &mut found),
                Err((error, memory)) => check_failure(vector, &error, &memory, &mut found),
            }
        }
        if vector.any_joined {
            let options = self.options(&format!("{} join", vector.name), &Part::default(), set.as_ref());
            match self.context.join(&options) {
                Ok(last) => check_last_joined(vector, last, &mut found),
                Err(error) => found.push(format!("join: {error}")),
            }
        }
        if vector.expect_status.is_some() {
            // After a failed operation the next one is right.
            let (own, size) = (self.context.rank() as f32 + 1.0, vector.size as f32);
            match self.context.allreduce(&[own], &OpOptions::named(format!("after {}", vector.name))) {
                Ok(sum) if sum[0] == size * (size + 1.0) / 2.0 => {}
                other => found.push(format!("the next operation gave {other:?}")),
            }
        }
        if let Some(Err(error)) = set.map(ProcessSet::destroy) {
            found.push(format!("process set: {error}"));
        }
        found
    }

    fn options(&self, name: &str, part: &Part, set: Option<&ProcessSet>) -> OpOptions {
        let options = OpOptions::named(name).timeout(Duration::from_secs(30)).reduce(part.reduce);
        let options = options.prescale(part.prescale).postscale(part.postscale);
        set.map_or(options.clone(), |set| options.on(set))
    }

    fn operate(&self, vector: &Vector, part: &Part, place: Place, options: &OpOptions) -> Attempt {
        match part.op.as_str() {
            "barrier" => {
                let owned = |context: &Context| context.barrier_async(options)?.wait();
                let ended = if place == Place::Owned { owned(&self.context) } else { self.context.barrier(options) };
                without_memory(ended.map(|()| Outcome::default()))
            }
            "join" => {
                let owned = |context: &Context| context.join_async(options)?.wait();
                let ended = if place == Place::Owned { owned(&self.context) } else { self.context.join(options) };
                without_memory(ended.map(|last| Outcome { last_joined: Some(last), ..Outcome::default() }))
            }
            _ if vector.grouped => self.group(part, place, options),
            _ => with_element!(part.input[0].dtype, T => self.single::<T>(vector, part, place, options)),
        }
    }

    fn single<T: Number>(&self, vector: &Vector, part: &Part, place: Place, options: &OpOptions) -> Attempt {
        let (context, mut input, root) = (&self.context, part.input[0].tensor::<T>(), part.root);
        let owned = |pending: hvd::Result<hvd::Pending<Tensor<T>>>| without_memory(pending.and_then(|pending| pending.wait()));
        let mut out = if place == Place::Given { output(part, 0) } else { Tensor::<T>::from(Vec::new()) };
        match (part.op.as_str(), place) {
            ("allreduce", Place::Library) => without_memory(context.allreduce(&input, options)),
            ("allreduce", Place::Given) => with_memory(context.allreduce_into(&input, &mut out, options), out),
            ("allreduce", Place::Input) => with_memory(context.allreduce_in_place(&mut input, options), input),
            ("allreduce", Place::Owned) => owned(context.allreduce_async(input, options)),
            ("broadcast", Place::Library) => without_memory(context.broadcast(&input, root, options)),
            ("broadcast", Place::Given) => with_memory(context.broadcast_into(&input, &mut out, root, options), out),
            ("broadcast", Place::Input) => with_memory(context.broadcast_in_place(&mut input, root, options), input),
            ("broadcast", Place::Owned) => owned(context.broadcast_async(input, root, options)),
            ("allgather", Place::Library) => without_memory(context.allgather(&input, options)),
            ("allgather", Place::Given) => with_memory(context.allgather_into(&input, &mut out, options), out),
            ("allgather", Place::Input) => self.gather_in_place(vector, part, &input, options),
            ("allgather", Place::Owned) => owned(context.allgather_async(input, options)),
            ("reducescatter", Place::Library) => without_memory(context.reducescatter(&input, options)),
            ("reducescatter", Place::Given) => with_memory(context.reducescatter_into(&input, &mut out, options), out),
            ("reducescatter", Place::Owned) => owned(context.reducescatter_async(input, options)),
            ("gather", Place::Library) => without_memory(context.gather(&input, root, options)),
            ("gather", Place::Owned) => owned(context.gather_async(input, root, options)),
            ("alltoall", _) => self.alltoall(input, out, part, place, options),
            (op, place) => unreachable!("the runner knows no {op}, {place:?}"),
        }
    }

    fn alltoall<T: Number>(
        &self,
        input: Tensor<T>,
        mut out: Tensor<T>,
        part: &Part,
        place: Place,
        options: &OpOptions,
    ) -> Attempt {
        let context = &self.context;
        let outcome = |received: hvd::Received<T>| Outcome { splits: Some(received.splits), ..received.tensor.into() };
        match (&part.splits, place) {
            (splits, Place::Given) => match context.alltoall_into(&input, splits.as_deref(), &mut out, options) {
                Ok(splits) => Ok(Outcome { splits: Some(splits), ..out.into() }),
                Err(error) => Err((error, vec![out.into()])),
            },
            (None, Place::Owned) => without_memory(context.alltoall_async(input, options).and_then(|pending| pending.wait())),
            (None, _) => without_memory(context.alltoall(&input, options)),
            (Some(splits), Place::Owned) => {
                let pending = context.alltoallv_async(input, splits, options);
                without_memory(pending.and_then(|pending| pending.wait()).map(outcome))
            }
            (Some(splits), _) => without_memory(context.alltoallv(&input, splits, options).map(outcome)),
        }
    }

    /// This rank's rows lie in the result after those of the ranks before it.
    fn gather_in_place<T: Number>(&self, vector: &Vector, part: &Part, input: &Tensor<T>, options: &OpOptions) -> Attempt {
        let rows = |part: &Part| part.input.first().map_or(0, |given| given.shape.first().copied().unwrap_or(1));
        let first: usize = vector.parts.iter().take(self.context.rank()).map(rows).sum();
        let mut whole = output::<T>(part, 0);
        let row: usize = whole.shape().iter().skip(1).product();
        whole[first * row..][..input.len()].copy_from_slice(input);
        with_memory(self.context.allgather_in_place(&mut whole, first..first + rows(part), options), whole)
    }

    fn group(&self, part: &Part, place: Place, options: &OpOptions) -> Attempt {
        let context = &self.context;
        let mut inputs: Vec<AnyTensor> = part.input.iter().map(|given| given.any()).collect();
        let wait =
            |pending: hvd::Result<hvd::Pending<Vec<AnyTensor>>>| without_memory(pending.and_then(|pending| pending.wait()));
        let views: Vec<AnyRef<'_>> = inputs.iter().map(AnyTensor::view).collect();
        match (part.op.as_str(), place) {
            ("allreduce", Place::Library) => without_memory(context.grouped_allreduce(&views, options)),
            ("allgather", Place::Library) => without_memory(context.grouped_allgather(&views, options)),
            ("reducescatter", Place::Library) => without_memory(context.grouped_reducescatter(&views, options)),
            ("allreduce", Place::Owned) => wait(context.grouped_allreduce_async(inputs, options)),
            ("allgather", Place::Owned) => wait(context.grouped_allgather_async(inputs, options)),
            ("reducescatter", Place::Owned) => wait(context.grouped_reducescatter_async(inputs, options)),
            ("allreduce", Place::Input) => {
                let mut places: Vec<AnyMut<'_>> = inputs.iter_mut().map(AnyTensor::view_mut).collect();
                let result = context.grouped_allreduce_in_place(&mut places, options);
                result.map(|()| inputs.into()).map_err(|error| (error, Vec::new()))
            }
            (op, _) => {
                let count = 0..part.input.len();
                let any = |index: usize| with_element!(part.input[index].dtype, T => output::<T>(part, index).into());
                let mut outputs: Vec<AnyTensor> = count.map(any).collect();
                let mut places: Vec<AnyMut<'_>> = outputs.iter_mut().map(AnyTensor::view_mut).collect();
                let result = match op {
                    "allreduce" => context.grouped_allreduce_into(&views, &mut places, options),
                    "allgather" => context.grouped_allgather_into(&views, &mut places, options),
                    "reducescatter" => context.grouped_reducescatter_into(&views, &mut places, options),
                    op => unreachable!("the runner knows no grouped {op}"),
                };
                match result {
                    Ok(()) => Ok(outputs.into()),
                    Err(error) => Err((error, outputs)),
                }
            }
        }
    }
}

fn check_results(vector: &Vector, part: &Part, outcome: &Outcome, found: &mut Vec<String>) {
    if vector.expect_status.is_some() {
        return found.push("got a result".into());
    }
    if outcome.tensors.len() != part.expect.len() {
        return found.push(format!("{} outputs", outcome.tensors.len()));
    }
    for (index, (expected, actual)) in part.expect.iter().zip(&outcome.tensors).enumerate() {
        let different = difference(expected, actual, vector.bitwise);
        if !different.is_empty() {
            found.push(format!("tensor {index}: {different}"));
        }
    }
    if let (Some(expected), Some(splits)) = (&part.expect_splits, &outcome.splits) {
        if splits != expected {
            found.push(format!("received splits {splits:?}, expected {expected:?}"));
        }
    }
    if let Some(last) = outcome.last_joined {
        check_last_joined(vector, last, found);
    }
}

fn check_last_joined(vector: &Vector, last: usize, found: &mut Vec<String>) {
    // Ranks that first wait for a reduction join after those whose joining lets it run.
    match vector.parts.get(last) {
        None => found.push(format!("last joined rank {last}")),
        Some(part) if part.joins => found.push(format!("rank {last} joined early but is named as the last")),
        Some(_) => {}
    }
}

fn check_failure(vector: &Vector, error: &Error, memory: &[AnyTensor], found: &mut Vec<String>) {
    if vector.expect_status.as_deref() != Some(error.status().name()) {
        let expected = vector.expect_status.as_deref().unwrap_or("a result");
        return found.push(format!("expected {expected}, got {error:?}"));
    }
    for text in vector.expect_message_has.iter().filter(|text| !error.message().contains(*text)) {
        found.push(format!("message lacks {text:?}: {error}"));
    }
    if !memory.iter().all(is_untouched) {
        found.push("the output of a failed operation was written to".into());
    }
}
