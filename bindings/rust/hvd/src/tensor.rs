// SPDX-License-Identifier: Apache-2.0
//! Tensors that own their memory, and the memory behind them.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use hvd_sys as sys;

use crate::element::{DType, Element};
use crate::error::{Error, Result, Status};
use crate::in_flight_op::InFlightOp;
use crate::view::{check_shape, AnyMut, AnyRef, Span, TensorMut, TensorRef};

/// Dimensions. Few of them need no memory of their own.
#[derive(Clone)]
pub(crate) enum Shape {
    Small(u8, [usize; 4]),
    Large(Box<[usize]>),
}

impl Shape {
    pub(crate) fn new(dims: &[usize]) -> Self {
        let mut small = [0; 4];
        match small.get_mut(..dims.len()) {
            Some(room) => {
                room.copy_from_slice(dims);
                Shape::Small(dims.len() as u8, small)
            }
            None => Shape::Large(dims.into()),
        }
    }

    fn as_slice(&self) -> &[usize] {
        match self {
            Shape::Small(count, dims) => &dims[..usize::from(*count)],
            Shape::Large(dims) => dims,
        }
    }
}

/// A `Vec` taken apart, so that nothing but raw pointers leads to memory that the library writes to meanwhile.
struct Parts {
    data: NonNull<u8>,
    capacity: usize,
    free: unsafe fn(NonNull<u8>, usize),
}

impl Parts {
    fn new<T: Element>(vec: Vec<T>) -> Self {
        let mut vec = ManuallyDrop::new(vec);
        // SAFETY: a vector's pointer is never null.
        let data = unsafe { NonNull::new_unchecked(vec.as_mut_ptr()) }.cast();
        Parts { data, capacity: vec.capacity(), free: free_vec::<T> }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // SAFETY: the parts are those of a vector of the element type that `free` was made for, and nobody has put them
        // together again: who does that forgets the parts.
        unsafe { (self.free)(self.data, self.capacity) }
    }
}

/// # Safety
/// The arguments are the parts of a `Vec<T>`, which is not used again. Elements need no drop.
unsafe fn free_vec<T: Element>(data: NonNull<u8>, capacity: usize) {
    // SAFETY: the caller's promise.
    drop(unsafe { Vec::<T>::from_raw_parts(data.cast().as_ptr(), 0, capacity) });
}

enum Memory {
    Own(Parts),
    /// A result that the library allocated: lives as long as the handle.
    Library(Arc<InFlightOp>, NonNull<u8>),
}

/// A tensor of whichever dtype: what operations on several tensors take and give, since their dtypes may differ.
pub struct AnyTensor {
    memory: Memory,
    shape: Shape,
    count: usize,
    dtype: DType,
}

// SAFETY: it owns its memory, which holds plain numbers. A handle may be given back on any thread.
unsafe impl Send for AnyTensor {}
// SAFETY: through a shared reference it can only be read.
unsafe impl Sync for AnyTensor {}

impl AnyTensor {
    /// The `index`-th result of an operation that has succeeded, in the library's own memory.
    pub(crate) fn of_result(op: &Arc<InFlightOp>, index: usize) -> Result<Self> {
        let raw = op.output(index)?;
        let dtype = DType::from_raw(raw.dtype)
            .ok_or_else(|| Error::new(Status::Internal, format!("dtype {} is not known to this crate", raw.dtype)))?;
        let dims = if raw.ndim > 0 {
            // SAFETY: the library says that `shape` has ndim numbers, none negative; i64 and usize have the same layout.
            unsafe { std::slice::from_raw_parts(raw.shape.cast::<usize>(), raw.ndim as usize) }
        } else {
            &[]
        };
        let memory = match NonNull::new(raw.data.cast::<u8>()) {
            Some(data) => Memory::Library(Arc::clone(op), data),
            // 16 is the largest alignment of an element; there is nothing to read or write.
            None => Memory::Library(Arc::clone(op), NonNull::<u128>::dangling().cast()),
        };
        Ok(AnyTensor { memory, shape: Shape::new(dims), count: dims.iter().product(), dtype })
    }

    /// The dimensions; none of a scalar.
    pub fn shape(&self) -> &[usize] {
        self.shape.as_slice()
    }

    /// What it is made of.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The elements, if they are of this type.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        // SAFETY: `count` elements of this dtype lie at `data`, initialised by whoever filled the memory.
        (T::DTYPE == self.dtype).then(|| unsafe { std::slice::from_raw_parts(self.data().cast().as_ptr(), self.count) })
    }

    /// The tensor with its type known; itself again if the type is another one.
    pub fn downcast<T: Element>(self) -> std::result::Result<Tensor<T>, Self> {
        if T::DTYPE == self.dtype {
            Ok(Tensor { any: self, element: PhantomData })
        } else {
            Err(self)
        }
    }

    /// Borrows it for an operation.
    pub fn view(&self) -> AnyRef<'_> {
        AnyRef { span: self.span(), lives: PhantomData }
    }

    /// Borrows it for an operation that writes to it.
    pub fn view_mut(&mut self) -> AnyMut<'_> {
        AnyMut { span: self.span(), lives: PhantomData }
    }

    pub(crate) fn span(&self) -> Span<'_> {
        Span { data: self.data().as_ptr(), count: self.count, shape: Some(self.shape()), dtype: self.dtype }
    }

    fn data(&self) -> NonNull<u8> {
        match &self.memory {
            Memory::Own(parts) => parts.data,
            Memory::Library(_, data) => *data,
        }
    }
}

impl fmt::Debug for AnyTensor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:?}", self.dtype, self.shape())
    }
}

impl<T: Element> From<Tensor<T>> for AnyTensor {
    fn from(tensor: Tensor<T>) -> Self {
        tensor.any
    }
}

impl<T: Element> From<Vec<T>> for AnyTensor {
    fn from(vec: Vec<T>) -> Self {
        Tensor::from(vec).any
    }
}

/// An array in row-major order that owns its memory. Results of operations are tensors, still in the memory in which the
/// library put them; one made from a `Vec` uses the vector's.
///
/// It is a slice wherever one is expected:
///
/// ```
/// let mut tensor = hvd::Tensor::new(vec![1.0, 2.0, 3.0, 4.0], &[2, 2])?;
/// tensor[3] += 1.0;
/// assert_eq!(tensor.iter().sum::<f64>(), 11.0);
/// assert_eq!(tensor.shape(), [2, 2]);
/// # Ok::<(), hvd::Error>(())
/// ```
pub struct Tensor<T: Element> {
    any: AnyTensor,
    element: PhantomData<T>,
}

impl<T: Element> Tensor<T> {
    /// The vector's elements in this shape. Fails if the shape has not as many.
    pub fn new(data: Vec<T>, shape: &[usize]) -> Result<Self> {
        check_shape(data.len(), shape)?;
        Ok(Self::with_shape(data, Shape::new(shape)))
    }

    /// One element without dimensions.
    pub fn scalar(value: T) -> Self {
        Self::with_shape(vec![value], Shape::new(&[]))
    }

    fn with_shape(data: Vec<T>, shape: Shape) -> Self {
        let count = data.len();
        let any = AnyTensor { memory: Memory::Own(Parts::new(data)), shape, count, dtype: T::DTYPE };
        Tensor { any, element: PhantomData }
    }

    /// The dimensions; none of a scalar.
    pub fn shape(&self) -> &[usize] {
        self.any.shape()
    }

    /// The elements as a vector: the one it was made from, or a copy of what the library allocated.
    pub fn into_vec(self) -> Vec<T> {
        let count = self.any.count;
        match self.any.memory {
            Memory::Own(parts) => {
                let parts = ManuallyDrop::new(parts);
                // SAFETY: these are the parts of a Vec<T>, which are forgotten here; all elements are initialised.
                unsafe { Vec::from_raw_parts(parts.data.cast().as_ptr(), count, parts.capacity) }
            }
            // SAFETY: the library's result has `count` elements, and the handle is alive.
            Memory::Library(_op, data) => unsafe { std::slice::from_raw_parts(data.cast().as_ptr(), count) }.to_vec(),
        }
    }

    /// Borrows it for an operation.
    pub fn view(&self) -> TensorRef<'_, T> {
        TensorRef { any: self.any.view(), element: PhantomData }
    }

    /// Borrows it for an operation that writes to it.
    pub fn view_mut(&mut self) -> TensorMut<'_, T> {
        TensorMut { any: self.any.view_mut(), element: PhantomData }
    }
}

impl<T: Element> Deref for Tensor<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `count` initialised elements of T lie at `data`, and nobody writes to them while this is borrowed.
        unsafe { std::slice::from_raw_parts(self.any.data().cast().as_ptr(), self.any.count) }
    }
}

impl<T: Element> DerefMut for Tensor<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the memory has no other owner: each result of a handle is given out once.
        unsafe { std::slice::from_raw_parts_mut(self.any.data().cast().as_ptr(), self.any.count) }
    }
}

impl<T: Element> From<Vec<T>> for Tensor<T> {
    fn from(vec: Vec<T>) -> Self {
        let shape = Shape::new(&[vec.len()]);
        Self::with_shape(vec, shape)
    }
}

impl<T: Element> From<Tensor<T>> for Vec<T> {
    fn from(tensor: Tensor<T>) -> Self {
        tensor.into_vec()
    }
}

impl<T: Element> Clone for Tensor<T> {
    fn clone(&self) -> Self {
        Self::with_shape(self.to_vec(), self.any.shape.clone())
    }
}

impl<T: Element> PartialEq for Tensor<T> {
    fn eq(&self, other: &Self) -> bool {
        self.shape() == other.shape() && self[..] == other[..]
    }
}

impl<T: Element> fmt::Debug for Tensor<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} {:?}", self.shape(), &self[..])
    }
}

/// The tensors as the library takes them. What they point to lives as long as the spans.
pub(crate) fn raw_tensors(spans: &[Span<'_>]) -> Vec<sys::hvd_tensor> {
    spans.iter().map(Span::raw).collect()
}
