# SPDX-License-Identifier: Apache-2.0
# Element types and reductions.

"""
    BFloat16(x::Real)

The 16 upper bits of a `Float32`, as a wrapper of raw `UInt16` bits: enough to send and reduce such arrays. `Float32(x)`
goes back. `reinterpret(BFloat16, bits)` takes an array of bits, also of other packages' types of this layout.
"""
struct BFloat16 <: AbstractFloat
    bits::UInt16
    BFloat16(bits::UInt16, ::Val{:bits}) = new(bits)
end

function BFloat16(x::Real)
    word = reinterpret(UInt32, Float32(x))
    isnan(x) && return BFloat16((word >> 16) % UInt16 | 0x0040, Val(:bits))
    # To the nearest, ties to even.
    return BFloat16(((word + 0x7fff + ((word >> 16) & 1)) >> 16) % UInt16, Val(:bits))
end
BFloat16(x::BFloat16) = x

Base.Float32(x::BFloat16) = reinterpret(Float32, UInt32(x.bits) << 16)
Base.Float64(x::BFloat16) = Float64(Float32(x))
Base.convert(::Type{BFloat16}, x::Real) = BFloat16(x)
Base.promote_rule(::Type{BFloat16}, ::Type{T}) where {T<:Union{Float32,Float64}} = T
Base.promote_rule(::Type{BFloat16}, ::Type{<:Integer}) = BFloat16
Base.:(==)(x::BFloat16, y::BFloat16) = Float32(x) == Float32(y)
Base.isnan(x::BFloat16) = isnan(Float32(x))
Base.zero(::Type{BFloat16}) = BFloat16(0x0000, Val(:bits))
Base.show(io::IO, x::BFloat16) = print(io, "BFloat16(", Float32(x), ")")

const ELEMENTS = (
    UInt8 => Native.HVD_UINT8, Int8 => Native.HVD_INT8, UInt16 => Native.HVD_UINT16, Int16 => Native.HVD_INT16,
    Int32 => Native.HVD_INT32, Int64 => Native.HVD_INT64, Float16 => Native.HVD_FLOAT16, Float32 => Native.HVD_FLOAT32,
    Float64 => Native.HVD_FLOAT64, Bool => Native.HVD_BOOL, BFloat16 => Native.HVD_BFLOAT16,
    UInt32 => Native.HVD_UINT32, UInt64 => Native.HVD_UINT64, ComplexF32 => Native.HVD_COMPLEX64,
    ComplexF64 => Native.HVD_COMPLEX128,
)

# The library's number of an element type, or nothing.
dtype_number(::Type) = nothing
for (type, number) in ELEMENTS
    @eval dtype_number(::Type{$type}) = $number
end

function dtype_of(::Type{T}, what::String) where {T}
    number = dtype_number(T)
    number === nothing || return number
    known = join((first(pair) for pair in ELEMENTS), " ")
    throw(UnsupportedError("$what: elements of type $T are not offered; there are $known"))
end

"""
    ReduceOp

A reduction: `Hvd.AVERAGE`, `Hvd.SUM`, `Hvd.PRODUCT`, `Hvd.MIN`, `Hvd.MAX`, `Hvd.ADASUM`. The functions `+`, `*`, `min`
and `max` mean the same as the four in the middle.
"""
struct ReduceOp
    number::Int32
end

const AVERAGE = ReduceOp(Native.HVD_AVERAGE)
const SUM = ReduceOp(Native.HVD_SUM)
const ADASUM = ReduceOp(Native.HVD_ADASUM)
const MIN = ReduceOp(Native.HVD_MIN)
const MAX = ReduceOp(Native.HVD_MAX)
const PRODUCT = ReduceOp(Native.HVD_PRODUCT)

function Base.show(io::IO, op::ReduceOp)
    name = get(Native.REDUCE_OP_NAMES, op.number, "")
    print(io, "Hvd.", isempty(name) ? "ReduceOp($(op.number))" : uppercase(name))
end

op_number(op::ReduceOp) = op.number
op_number(::typeof(+)) = Native.HVD_SUM
op_number(::typeof(*)) = Native.HVD_PRODUCT
op_number(::typeof(min)) = Native.HVD_MIN
op_number(::typeof(max)) = Native.HVD_MAX
function op_number(op)
    throw(UnsupportedError("reduction $op is not offered; there are Hvd.AVERAGE + * min max Hvd.ADASUM"))
end
