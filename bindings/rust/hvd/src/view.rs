// SPDX-License-Identifier: Apache-2.0
//! Borrowed tensors: slices with a shape.

use std::fmt;
use std::marker::PhantomData;

use hvd_sys as sys;

use crate::element::{DType, Element};
use crate::error::{Error, Result, Status};
use crate::tensor::Tensor;

/// Where a tensor lies, without saying who may use it.
#[derive(Clone, Copy)]
pub(crate) struct Span<'a> {
    pub(crate) data: *mut u8,
    pub(crate) count: usize,
    /// None: one dimension.
    pub(crate) shape: Option<&'a [usize]>,
    pub(crate) dtype: DType,
}

impl Span<'_> {
    /// As the library takes it. Points into this object.
    pub(crate) fn raw(&self) -> sys::hvd_tensor {
        let dims = self.shape.unwrap_or(std::slice::from_ref(&self.count));
        sys::hvd_tensor {
            data: self.data.cast(),
            shape: dims.as_ptr().cast(),
            // More than the library's 32 dimensions it refuses, however many they are.
            ndim: dims.len().min(64) as i32,
            dtype: self.dtype.raw(),
            device_type: sys::HVD_CPU,
            device_id: 0,
            reserved: [0; 2],
        }
    }
}

/// As of `AnyTensor`: the elements may be in use.
impl fmt::Debug for Span<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:?}", self.dtype, self.shape.unwrap_or(std::slice::from_ref(&self.count)))
    }
}

macro_rules! debug_as_span {
    ([$($generic:tt)*] $type:ty, $first:ident $(. $then:ident)*) => {
        impl<$($generic)*> fmt::Debug for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.$first$(.$then)*.fmt(formatter)
            }
        }
    };
}

debug_as_span!([] AnyRef<'_>, span);
debug_as_span!([] AnyMut<'_>, span);
debug_as_span!([T: Element] TensorRef<'_, T>, any.span);
debug_as_span!([T: Element] TensorMut<'_, T>, any.span);

/// Whether `count` elements fill this shape.
pub(crate) fn check_shape(count: usize, shape: &[usize]) -> Result<()> {
    // A dimension beyond i64 would be a negative one to the library; with a 0 beside it the product would not tell.
    let fits = shape.iter().all(|&dim| i64::try_from(dim).is_ok());
    let elements =
        if shape.contains(&0) { Some(0) } else { shape.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim)) };
    if fits && elements == Some(count) {
        return Ok(());
    }
    Err(Error::new(Status::InvalidArgument, format!("tensor: {count} elements are given for the shape {shape:?}")))
}

/// A borrowed tensor of whichever dtype, for operations on several tensors.
#[derive(Clone, Copy)]
pub struct AnyRef<'a> {
    pub(crate) span: Span<'a>,
    pub(crate) lives: PhantomData<&'a [u8]>,
}

/// A borrowed tensor of whichever dtype that an operation may write to.
pub struct AnyMut<'a> {
    pub(crate) span: Span<'a>,
    pub(crate) lives: PhantomData<&'a mut [u8]>,
}

/// A borrowed tensor. Slices, arrays, vectors and [`Tensor`]s turn into one; a slice has one dimension.
#[derive(Clone, Copy)]
pub struct TensorRef<'a, T: Element> {
    pub(crate) any: AnyRef<'a>,
    pub(crate) element: PhantomData<&'a [T]>,
}

/// A borrowed tensor that an operation may write to.
pub struct TensorMut<'a, T: Element> {
    pub(crate) any: AnyMut<'a>,
    pub(crate) element: PhantomData<&'a mut [T]>,
}

// SAFETY: like the slices that they were made from, whose elements are Send and Sync.
unsafe impl Send for AnyRef<'_> {}
// SAFETY: as above.
unsafe impl Sync for AnyRef<'_> {}
// SAFETY: as above.
unsafe impl Send for AnyMut<'_> {}
// SAFETY: as above; a shared reference to it gives no way to write.
unsafe impl Sync for AnyMut<'_> {}

impl<'a, T: Element> TensorRef<'a, T> {
    /// A slice with dimensions. Fails if the shape has not as many elements.
    pub fn shaped(data: &'a [T], shape: &'a [usize]) -> Result<Self> {
        check_shape(data.len(), shape)?;
        Ok(Self::of(data, Some(shape)))
    }

    fn of(data: &'a [T], shape: Option<&'a [usize]>) -> Self {
        let data_pointer = data.as_ptr().cast_mut().cast();
        let span = Span { data: data_pointer, count: data.len(), shape, dtype: T::DTYPE };
        TensorRef { any: AnyRef { span, lives: PhantomData }, element: PhantomData }
    }
}

impl<'a, T: Element> TensorMut<'a, T> {
    /// A slice with dimensions. Fails if the shape has not as many elements.
    pub fn shaped(data: &'a mut [T], shape: &'a [usize]) -> Result<Self> {
        check_shape(data.len(), shape)?;
        Ok(Self::of(data, Some(shape)))
    }

    fn of(data: &'a mut [T], shape: Option<&'a [usize]>) -> Self {
        let span = Span { data: data.as_mut_ptr().cast(), count: data.len(), shape, dtype: T::DTYPE };
        TensorMut { any: AnyMut { span, lives: PhantomData }, element: PhantomData }
    }

    /// The slice again.
    pub fn into_slice(self) -> &'a mut [T] {
        let span = self.any.span;
        // SAFETY: it was made from a mutable slice of T that lives for 'a, and this was the only way to it.
        unsafe { std::slice::from_raw_parts_mut(span.data.cast(), span.count) }
    }
}

impl<'a, T: Element> From<&'a [T]> for TensorRef<'a, T> {
    fn from(data: &'a [T]) -> Self {
        Self::of(data, None)
    }
}

impl<'a, T: Element> From<&'a Vec<T>> for TensorRef<'a, T> {
    fn from(data: &'a Vec<T>) -> Self {
        Self::of(data, None)
    }
}

impl<'a, T: Element, const N: usize> From<&'a [T; N]> for TensorRef<'a, T> {
    fn from(data: &'a [T; N]) -> Self {
        Self::of(data, None)
    }
}

impl<'a, T: Element> From<&'a Tensor<T>> for TensorRef<'a, T> {
    fn from(tensor: &'a Tensor<T>) -> Self {
        tensor.view()
    }
}

impl<'a, T: Element> From<&'a mut [T]> for TensorMut<'a, T> {
    fn from(data: &'a mut [T]) -> Self {
        Self::of(data, None)
    }
}

impl<'a, T: Element> From<&'a mut Vec<T>> for TensorMut<'a, T> {
    fn from(data: &'a mut Vec<T>) -> Self {
        Self::of(data, None)
    }
}

impl<'a, T: Element, const N: usize> From<&'a mut [T; N]> for TensorMut<'a, T> {
    fn from(data: &'a mut [T; N]) -> Self {
        Self::of(data, None)
    }
}

impl<'a, T: Element> From<&'a mut Tensor<T>> for TensorMut<'a, T> {
    fn from(tensor: &'a mut Tensor<T>) -> Self {
        tensor.view_mut()
    }
}

impl<'a, T: Element> From<TensorRef<'a, T>> for AnyRef<'a> {
    fn from(tensor: TensorRef<'a, T>) -> Self {
        tensor.any
    }
}

impl<'a, T: Element> From<TensorMut<'a, T>> for AnyMut<'a> {
    fn from(tensor: TensorMut<'a, T>) -> Self {
        tensor.any
    }
}

macro_rules! any_from {
    ($any:ident, $typed:ident: $([$($generic:tt)*] $source:ty,)*) => {$(
        impl<'a, $($generic)*> From<$source> for $any<'a> {
            fn from(data: $source) -> Self {
                $typed::from(data).any
            }
        }
    )*};
}

any_from! { AnyRef, TensorRef:
    [T: Element] &'a [T],
    [T: Element] &'a Vec<T>,
    [T: Element, const N: usize] &'a [T; N],
    [T: Element] &'a Tensor<T>,
}

any_from! { AnyMut, TensorMut:
    [T: Element] &'a mut [T],
    [T: Element] &'a mut Vec<T>,
    [T: Element, const N: usize] &'a mut [T; N],
    [T: Element] &'a mut Tensor<T>,
}
