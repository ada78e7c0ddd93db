# SPDX-License-Identifier: Apache-2.0
# From arrays of Julia to a call of the library.
#
# Julia stores the first dimension closest together, the library the last one. So an array goes out with its dimensions
# in reverse: what the library calls dimension 0, along which it gathers and deals out, is the last dimension here.

# What an operation can be told; plain() and reducing() are the keyword arguments of the collectives.
struct Settings
    name::Union{Nothing,String}
    priority::Int32
    timeout_ns::Int64
    op::Int32
    root::Int32
    prescale::Float64
    postscale::Float64
end

function plain(; name::Union{Nothing,AbstractString}=nothing, priority::Integer=0, timeout::Union{Nothing,Real}=nothing,
               root::Integer=0)
    given = name === nothing ? nothing : String(name)
    return Settings(given, priority, nanoseconds(timeout), Native.HVD_SUM, root, 1.0, 1.0)
end

function reducing(op; name::Union{Nothing,AbstractString}=nothing, priority::Integer=0,
                  timeout::Union{Nothing,Real}=nothing, prescale::Real=1.0, postscale::Real=1.0)
    given = name === nothing ? nothing : String(name)
    return Settings(given, priority, nanoseconds(timeout), op_number(op), 0, prescale, postscale)
end

# Memory for the arguments of one call, used again by the next.
mutable struct Call
    error::ErrorMemory
    tensors::Vector{Native.hvd_tensor} # inputs, then outputs
    shapes::Vector{Int64}
    options::Base.RefValue{Native.hvd_op_options}
    handle::Base.RefValue{Ptr{Native.hvd_handle}}
    what::String # the operation, for messages
    inputs::Int
    outputs::Int # 0: the library makes them
    Call() = new(ErrorMemory(), Vector{Native.hvd_tensor}(undef, 2), zeros(Int64, 16), Ref(Native.hvd_op_options()),
                 Ref{Ptr{Native.hvd_handle}}(C_NULL), "", 0, 0)
end

const CALLS = Call[]
const CALLS_LOCK = Threads.SpinLock()

function borrow_call(what::String, inputs::Int, outputs::Int, dimensions::Int)
    lock(CALLS_LOCK)
    call = isempty(CALLS) ? nothing : pop!(CALLS)
    unlock(CALLS_LOCK)
    call === nothing && (call = Call())
    call.what, call.inputs, call.outputs = what, inputs, outputs
    length(call.tensors) < inputs + outputs && resize!(call.tensors, inputs + outputs)
    # Before the first pointer into it is taken. One more, so that an array without dimensions has an address too.
    length(call.shapes) <= dimensions && resize!(call.shapes, dimensions + 1)
    return call
end

function give_back(call::Call)
    lock(CALLS_LOCK)
    push!(CALLS, call)
    unlock(CALLS_LOCK)
    return nothing
end

# ---- arrays ----

is_gapless(::Array) = true
is_gapless(::AbstractArray) = false
is_gapless(array::Union{DenseArray,StridedArray}) = strides(array) == Base.size_to_strides(1, size(array)...)

# An array that the library can read as it is; a copy if this one has gaps or is not in memory at all.
readable(array::Array) = array
readable(array::AbstractArray) = is_gapless(array) ? array : Array(array)

# An array that the library can write to.
function writable(array::AbstractArray, what::String)
    is_gapless(array) && return array
    place = "a $(typeof(array)) of size $(size(array))"
    throw(InvalidArgumentError("$what: $place cannot be written to; an array without gaps in memory is needed"))
end

# Puts an array at `index` of the tensors, and its dimensions from `place` of the shapes on; the next place.
function describe!(call::Call, index::Int, place::Int, array::AbstractArray{T,N}) where {T,N}
    for dimension in 1:N
        @inbounds call.shapes[place + N - dimension] = size(array, dimension)
    end
    data, shape, type = pointer(array), pointer(call.shapes, place), dtype_of(T, call.what)
    @inbounds call.tensors[index] = Native.hvd_tensor(data, shape, N, type, Native.HVD_CPU, 0, (UInt64(0), UInt64(0)))
    return place + N
end

# The calls for no array, for an input, for an input and an output, and for groups. Only these know the arrays' types:
# the rest is compiled once.
describe(what::String) = borrow_call(what, 0, 0, 0)

function describe(what::String, input::AbstractArray, ::Nothing)
    call = borrow_call(what, 1, 0, ndims(input))
    describe!(call, 1, 1, input)
    return call
end

function describe(what::String, input::AbstractArray, output::AbstractArray)
    call = borrow_call(what, 1, 1, ndims(input) + ndims(output))
    describe!(call, 2, describe!(call, 1, 1, input), output)
    return call
end

function describe_group(what::String, inputs::Vector{AbstractArray}, outputs::Vector{AbstractArray})
    dimensions = mapreduce(ndims, +, inputs; init=0) + mapreduce(ndims, +, outputs; init=0)
    call = borrow_call(what, length(inputs), length(outputs), dimensions)
    index, place = 1, 1
    for arrays in (inputs, outputs), array in arrays
        place = describe!(call, index, place, array)::Int
        index += 1
    end
    return call
end

# ---- the call ----

# Submits an operation: `submit` gets the context, the inputs, the outputs (NULL if the library is to make them), the
# options, where to put the handle, and the error. `take` makes the result out of the handle later. The caller preserves
# the arrays. On return Ctrl-C is held off, because the library writes to the arrays: blocking() and Request() let it in
# again.
function launch(submit::S, take::F, call::Call, given::AnySet, settings::Settings) where {S,F}
    set = resolve(given)
    context = set.context
    reset!(call.error)
    name = settings.name
    GC.@preserve call name set context begin
        text = name === nothing ? Cstring(C_NULL) : Base.unsafe_convert(Cstring, name)
        call.options[] = Native.hvd_op_options(
            sizeof(Native.hvd_op_options) % UInt32, settings.priority, text, set_pointer(set, call.what),
            settings.timeout_ns, settings.op, settings.root, settings.prescale, settings.postscale, C_NULL)
        inputs = pointer(call.tensors)
        outputs = call.outputs == 0 ? Ptr{Native.hvd_tensor}(C_NULL) : pointer(call.tensors, call.inputs + 1)
        Base.sigatomic_begin()
        status = submit(pointer_of(context, call.what), inputs, outputs, call.options, call.handle, call.error)
        handle = call.handle[]
    end
    status == Native.HVD_OK || throw_refusal(call, status)
    give_back(call)
    return Launched(handle, context, take)
end

@noinline function throw_refusal(call::Call, status::Int32)
    refusal = exception(call.error, status)
    give_back(call)
    throw(refusal)
end

# ---- results ----

# What a Launched knows to do with its handle once the operation has succeeded.
nothing_to_take(handle) = nothing

struct TakeOutput
    type::DataType
    ndims::Int
end
TakeOutput(array::AbstractArray) = TakeOutput(eltype(array), max(ndims(array), 1))
(take::TakeOutput)(handle) = take_output(handle, 0, take.type, Val(take.ndims))

struct TakeOutputs
    each::Vector{TakeOutput}
end
function (take::TakeOutputs)(handle)
    return AbstractArray[take_output(handle, i - 1, each.type, Val(each.ndims)) for (i, each) in enumerate(take.each)]
end

struct TakeWithSplits
    output::TakeOutput
end
(take::TakeWithSplits)(handle) = (take.output(handle), take_received_splits(handle))

# The index-th result (from 0) that the library has made, as an array of ours.
function take_output(handle::Ptr{Native.hvd_handle}, index::Int, ::Type{T}, ::Val{N}) where {T,N}
    tensor = Ref{Native.hvd_tensor}()
    checked(error -> Native.hvd_handle_output(handle, index, tensor, error))
    found = tensor[]
    result = Array{T,N}(undef, ntuple(i -> Int(unsafe_load(found.shape, N - i + 1)), Val(N)))
    GC.@preserve result unsafe_copyto!(Ptr{UInt8}(pointer(result)), Ptr{UInt8}(found.data), sizeof(result))
    return result
end

function take_received_splits(handle::Ptr{Native.hvd_handle})
    return Int.(sized((splits, count, error) -> Native.hvd_handle_received_splits(handle, splits, count, error), Int64))
end

function take_last_joined(handle::Ptr{Native.hvd_handle})
    rank = Ref{Int32}(-1)
    checked(error -> Native.hvd_handle_last_joined_rank(handle, rank, error))
    return Int(rank[])
end
