// SPDX-License-Identifier: Apache-2.0
//! What tensors are made of.

use std::fmt;

use half::{bf16, f16};
use hvd_sys as sys;

/// The number of a dtype and what is true of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum DType {
    UInt8,
    Int8,
    UInt16,
    Int16,
    Int32,
    Int64,
    Float16,
    Float32,
    Float64,
    Bool,
    BFloat16,
    UInt32,
    UInt64,
}

impl DType {
    pub(crate) const ALL: [DType; 13] = [
        DType::UInt8,
        DType::Int8,
        DType::UInt16,
        DType::Int16,
        DType::Int32,
        DType::Int64,
        DType::Float16,
        DType::Float32,
        DType::Float64,
        DType::Bool,
        DType::BFloat16,
        DType::UInt32,
        DType::UInt64,
    ];

    pub(crate) const fn raw(self) -> sys::hvd_dtype {
        match self {
            DType::UInt8 => sys::HVD_UINT8,
            DType::Int8 => sys::HVD_INT8,
            DType::UInt16 => sys::HVD_UINT16,
            DType::Int16 => sys::HVD_INT16,
            DType::Int32 => sys::HVD_INT32,
            DType::Int64 => sys::HVD_INT64,
            DType::Float16 => sys::HVD_FLOAT16,
            DType::Float32 => sys::HVD_FLOAT32,
            DType::Float64 => sys::HVD_FLOAT64,
            DType::Bool => sys::HVD_BOOL,
            DType::BFloat16 => sys::HVD_BFLOAT16,
            DType::UInt32 => sys::HVD_UINT32,
            DType::UInt64 => sys::HVD_UINT64,
        }
    }

    pub(crate) fn from_raw(raw: sys::hvd_dtype) -> Option<Self> {
        DType::ALL.into_iter().find(|dtype| dtype.raw() == raw)
    }

    /// Bytes per element.
    pub fn size(self) -> usize {
        // SAFETY: takes any number.
        unsafe { sys::hvd_dtype_size(self.raw()) }
    }

    /// `"float32"`.
    pub fn name(self) -> &'static str {
        // SAFETY: takes any number; the text is static.
        unsafe { crate::error::static_text(sys::hvd_dtype_name(self.raw())) }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A type that tensors can be made of. Sealed: each is a dtype of the library, and every pattern of bits is a value of it,
/// because what other ranks send is not looked at.
pub trait Element: sealed::Sealed + Copy + Default + Send + Sync + fmt::Debug + PartialEq + 'static {
    /// The library's name for it.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($element:ty => $dtype:ident,)*) => {$(
        impl sealed::Sealed for $element {}
        impl Element for $element {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}

elements! {
    u8 => UInt8,
    i8 => Int8,
    u16 => UInt16,
    i16 => Int16,
    i32 => Int32,
    i64 => Int64,
    f16 => Float16,
    f32 => Float32,
    f64 => Float64,
    Bool => Bool,
    bf16 => BFloat16,
    u32 => UInt32,
    u64 => UInt64,
}

/// One byte, 0 or 1, as other languages send it. Rust's own `bool` would be undefined behaviour if another rank sent 2.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct Bool(u8);

impl Bool {
    /// Any byte; those other than 0 are true.
    pub const fn from_byte(byte: u8) -> Self {
        Bool(byte)
    }

    /// The byte as it came.
    pub const fn to_byte(self) -> u8 {
        self.0
    }

    /// Its meaning.
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    fn from(value: bool) -> Self {
        Bool(u8::from(value))
    }
}

impl From<Bool> for bool {
    fn from(value: Bool) -> Self {
        value.get()
    }
}

impl PartialEq for Bool {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Bool {}

impl fmt::Debug for Bool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(formatter)
    }
}
