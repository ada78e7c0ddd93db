# SPDX-License-Identifier: Apache-2.0
# The collectives on one array. Each has a form whose name begins with I: it returns a Request at once.
#
# The pattern of all: `start_…` submits, `blocking` runs that to its end, `Request` leaves it in flight. The arrays are
# preserved where they stand on the stack, and kept by the operation where they do not.

# ---- allreduce ----

function start_allreduce(send, recv, settings::Settings, set)
    return launch(Native.hvd_allreduce_async, nothing_to_take, describe("allreduce", send, recv), set, settings)
end

"""
    Allreduce!(send, recv, op, set=COMM_WORLD; name, prescale, postscale, priority, timeout)
    Allreduce!(array, op, set=COMM_WORLD; …)

Reduces the arrays of all ranks with `op` (see [`ReduceOp`](@ref)) into `recv`, or in place. The array has the same size
everywhere. `name` matches the calls of different ranks; without one the order of calls counts. Inputs are multiplied by
`prescale` before, results by `postscale` after. `timeout` is in seconds; of operations that are ready together those of
higher `priority` run first.
"""
function Allreduce!(send::AbstractArray, recv::AbstractArray, op, set::AnySet=COMM_WORLD; options...)
    settings, from, to = reducing(op; options...), readable(send), writable(recv, "allreduce")
    GC.@preserve from to blocking(start_allreduce(from, to, settings, set), (from, to))
    return recv
end
Allreduce!(array::AbstractArray, op, set::AnySet=COMM_WORLD; options...) = Allreduce!(array, array, op, set; options...)

"""
    Allreduce(array, op, set=COMM_WORLD; …)
    Allreduce(number, op, set=COMM_WORLD; …)

The same with a new array, or a number, as result.
"""
function Allreduce(send::AbstractArray{T,N}, op, set::AnySet=COMM_WORLD; options...) where {T,N}
    return Allreduce!(send, Array{T,N}(undef, size(send)), op, set; options...)
end
Allreduce(number::Real, op, set::AnySet=COMM_WORLD; options...) = Allreduce!(fill(number), op, set; options...)[]

function Iallreduce!(send::AbstractArray, recv::AbstractArray, op, set::AnySet=COMM_WORLD; options...)
    settings, from, to = reducing(op; options...), readable(send), writable(recv, "allreduce")
    return GC.@preserve from to Request(start_allreduce(from, to, settings, set), (from, to), recv)
end

"""
    Iallreduce!(send, recv, op, set=COMM_WORLD; …)
    Iallreduce!(array, op, set=COMM_WORLD; …)

Starts [`Allreduce!`](@ref); the result of the [`Request`](@ref) is the array that it fills.
"""
Iallreduce!(array::AbstractArray, op, set::AnySet=COMM_WORLD; options...) = Iallreduce!(array, array, op, set; options...)

"""
    Iallreduce(array, op, set=COMM_WORLD; …)

Starts [`Allreduce`](@ref).
"""
function Iallreduce(send::AbstractArray{T,N}, op, set::AnySet=COMM_WORLD; options...) where {T,N}
    return Iallreduce!(send, Array{T,N}(undef, size(send)), op, set; options...)
end

# ---- broadcast ----

function start_broadcast(array, settings::Settings, set)
    return launch(Native.hvd_broadcast_async, nothing_to_take, describe("broadcast", array, array), set, settings)
end

"""
    Bcast!(array, root, set=COMM_WORLD; name, priority, timeout)

Overwrites the array with that of rank `root`, a number of the job also inside a set. The same size everywhere.
"""
function Bcast!(array::AbstractArray, root::Integer, set::AnySet=COMM_WORLD; options...)
    settings, buffer = plain(; root=root, options...), writable(array, "broadcast")
    GC.@preserve buffer blocking(start_broadcast(buffer, settings, set), buffer)
    return array
end

"""
    Bcast(array, root, set=COMM_WORLD; …)
    Bcast(number, root, set=COMM_WORLD; …)

The same with a new array, or a number, as result; `array` gives the size and the type.
"""
function Bcast(array::AbstractArray, root::Integer, set::AnySet=COMM_WORLD; options...)
    return Bcast!(copy_of(array), root, set; options...)
end
Bcast(number::Real, root::Integer, set::AnySet=COMM_WORLD; options...) = Bcast!(fill(number), root, set; options...)[]

"""
    Ibcast!(array, root, set=COMM_WORLD; …)

Starts [`Bcast!`](@ref).
"""
function Ibcast!(array::AbstractArray, root::Integer, set::AnySet=COMM_WORLD; options...)
    settings, buffer = plain(; root=root, options...), writable(array, "broadcast")
    return GC.@preserve buffer Request(start_broadcast(buffer, settings, set), buffer, array)
end

copy_of(array::AbstractArray{T,N}) where {T,N} = copyto!(Array{T,N}(undef, size(array)), array)

# ---- allgather ----

function start_allgather(send, recv, settings::Settings, set)
    take = recv === nothing ? TakeOutput(send) : nothing_to_take
    return launch(Native.hvd_allgatherv_async, take, describe("allgather", send, recv), set, settings)
end

"""
    Allgatherv!(send, recv, set=COMM_WORLD; name, priority, timeout)

Puts the arrays of all ranks one after another along the last dimension, which may differ per rank, into `recv`, whose
size is exactly that of all together. In place: `send` is a view of this rank's part of `recv`.
"""
function Allgatherv!(send::AbstractArray, recv::AbstractArray, set::AnySet=COMM_WORLD; options...)
    settings, from, to = plain(; options...), readable(send), writable(recv, "allgather")
    GC.@preserve from to blocking(start_allgather(from, to, settings, set), (from, to))
    return recv
end

"""
    Allgather(array, set=COMM_WORLD; …)

The same with a new array as result. An array without dimensions counts as one element.
"""
function Allgather(send::AbstractArray{T,N}, set::AnySet=COMM_WORLD; options...) where {T,N}
    settings, from = plain(; options...), readable(send)
    result = GC.@preserve from blocking(start_allgather(from, nothing, settings, set), from)
    return result::Array{T,max(N, 1)}
end
Allgather(number::Real, set::AnySet=COMM_WORLD; options...) = Allgather(fill(number), set; options...)

function Iallgatherv!(send::AbstractArray, recv::AbstractArray, set::AnySet=COMM_WORLD; options...)
    settings, from, to = plain(; options...), readable(send), writable(recv, "allgather")
    return GC.@preserve from to Request(start_allgather(from, to, settings, set), (from, to), recv)
end

function Iallgather(send::AbstractArray, set::AnySet=COMM_WORLD; options...)
    settings, from = plain(; options...), readable(send)
    return GC.@preserve from Request(start_allgather(from, nothing, settings, set), from)
end

const Allgather! = Allgatherv!
const Allgatherv = Allgather
const Iallgather! = Iallgatherv!
const Iallgatherv = Iallgather

@doc "`Iallgatherv!(send, recv, set=COMM_WORLD; …)` starts [`Allgatherv!`](@ref)." Iallgatherv!
@doc "`Iallgather(array, set=COMM_WORLD; …)` starts [`Allgather`](@ref)." Iallgather

# ---- gather ----

function start_gather(send, settings::Settings, set)
    return launch(Native.hvd_gatherv_async, TakeOutput(send), describe("gather", send, nothing), set, settings)
end

"""
    Gather(array, root, set=COMM_WORLD; name, priority, timeout)
    Gather(number, root, set=COMM_WORLD; …)

The arrays of all ranks one after another along the last dimension, which may differ per rank, as a new array on rank
`root`, a number of the job also inside a set. On the other ranks the result has no elements: its last dimension is 0.
"""
function Gather(send::AbstractArray{T,N}, root::Integer, set::AnySet=COMM_WORLD; options...) where {T,N}
    settings, from = plain(; root=root, options...), readable(send)
    result = GC.@preserve from blocking(start_gather(from, settings, set), from)
    return result::Array{T,max(N, 1)}
end
Gather(number::Real, root::Integer, set::AnySet=COMM_WORLD; options...) = Gather(fill(number), root, set; options...)

"""
    Igather(array, root, set=COMM_WORLD; …)

Starts [`Gather`](@ref).
"""
function Igather(send::AbstractArray, root::Integer, set::AnySet=COMM_WORLD; options...)
    settings, from = plain(; root=root, options...), readable(send)
    return GC.@preserve from Request(start_gather(from, settings, set), from)
end

# ---- alltoall ----

function start_alltoall(send, splits, recv, settings::Settings, given)
    set = resolve(given)
    if splits !== nothing && length(splits) != set.size
        throw(InvalidArgumentError("alltoall: $(length(splits)) splits are given; the process set has $(set.size) ranks"))
    end
    rows = splits === nothing ? Ptr{Int64}(C_NULL) : pointer(splits)
    submit(context, input, output, options, handle, error) =
        Native.hvd_alltoallv_async(context, input, rows, output, options, handle, error)
    take = recv === nothing ? TakeWithSplits(TakeOutput(send)) : take_received_splits
    return launch(submit, take, describe("alltoall", send, recv), set, settings)
end

splits_of(splits) = convert(Vector{Int64}, collect(Int64, splits))
splits_of(::Nothing) = nothing

"""
    Alltoallv!(send, recv, splits, set=COMM_WORLD; name, priority, timeout)

Sends `splits[i]` slices along the last dimension to the i-th rank of the set, and fills `recv`, which has exactly the
size of what arrives, with the slices received in the order of ranks. `splits` may be `nothing`: equal parts. Returns
how many slices each rank has sent.
"""
function Alltoallv!(send::AbstractArray, recv::AbstractArray, splits, set::AnySet=COMM_WORLD; options...)
    settings, from, to, rows = plain(; options...), readable(send), writable(recv, "alltoall"), splits_of(splits)
    received = GC.@preserve from to rows blocking(start_alltoall(from, rows, to, settings, set), (from, to, rows))
    return received::Vector{Int}
end

"""
    Alltoallv(send, splits, set=COMM_WORLD; …)

The same with a new array: `(recv, received splits)`.
"""
function Alltoallv(send::AbstractArray{T,N}, splits, set::AnySet=COMM_WORLD; options...) where {T,N}
    settings, from, rows = plain(; options...), readable(send), splits_of(splits)
    result = GC.@preserve from rows blocking(start_alltoall(from, rows, nothing, settings, set), (from, rows))
    return result::Tuple{Array{T,max(N, 1)},Vector{Int}}
end

"""
    Alltoall(send, set=COMM_WORLD; …)

Sends equal parts, and returns what was received.
"""
Alltoall(send::AbstractArray, set::AnySet=COMM_WORLD; options...) = first(Alltoallv(send, nothing, set; options...))

"""
    Ialltoallv(send, splits, set=COMM_WORLD; …)

Starts [`Alltoallv`](@ref).
"""
function Ialltoallv(send::AbstractArray, splits, set::AnySet=COMM_WORLD; options...)
    settings, from, rows = plain(; options...), readable(send), splits_of(splits)
    return GC.@preserve from rows Request(start_alltoall(from, rows, nothing, settings, set), (from, rows))
end

# ---- reducescatter ----

function start_reducescatter(send, recv, settings::Settings, set)
    take = recv === nothing ? TakeOutput(send) : nothing_to_take
    return launch(Native.hvd_reducescatter_async, take, describe("reducescatter", send, recv), set, settings)
end

"""
    Reducescatter!(send, recv, op, set=COMM_WORLD; name, prescale, postscale, priority, timeout)

Reduces as [`Allreduce!`](@ref) does, then deals the last dimension out: of D slices the i-th of n ranks (from 0) gets D
÷ n, and one more if i < D mod n, in rank order.
"""
function Reducescatter!(send::AbstractArray, recv::AbstractArray, op, set::AnySet=COMM_WORLD; options...)
    settings, from, to = reducing(op; options...), readable(send), writable(recv, "reducescatter")
    GC.@preserve from to blocking(start_reducescatter(from, to, settings, set), (from, to))
    return recv
end

"""
    Reducescatter(send, op, set=COMM_WORLD; …)

The same with a new array as result.
"""
function Reducescatter(send::AbstractArray{T,N}, op, set::AnySet=COMM_WORLD; options...) where {T,N}
    settings, from = reducing(op; options...), readable(send)
    result = GC.@preserve from blocking(start_reducescatter(from, nothing, settings, set), from)
    return result::Array{T,max(N, 1)}
end

"""
    Ireducescatter!(send, recv, op, set=COMM_WORLD; …)

Starts [`Reducescatter!`](@ref).
"""
function Ireducescatter!(send::AbstractArray, recv::AbstractArray, op, set::AnySet=COMM_WORLD; options...)
    settings, from, to = reducing(op; options...), readable(send), writable(recv, "reducescatter")
    return GC.@preserve from to Request(start_reducescatter(from, to, settings, set), (from, to), recv)
end

"""
    Ireducescatter(send, op, set=COMM_WORLD; …)

Starts [`Reducescatter`](@ref).
"""
function Ireducescatter(send::AbstractArray, op, set::AnySet=COMM_WORLD; options...)
    settings, from = reducing(op; options...), readable(send)
    return GC.@preserve from Request(start_reducescatter(from, nothing, settings, set), from)
end

# ---- barrier and join ----

function start_barrier(settings::Settings, set)
    submit(context, inputs, outputs, options, handle, error) = Native.hvd_barrier_async(context, options, handle, error)
    return launch(submit, nothing_to_take, describe("barrier"), set, settings)
end

"""
    Barrier(set=COMM_WORLD; name, priority, timeout)

Returns on no rank before every rank of the set has called it.
"""
function Barrier(set::AnySet=COMM_WORLD; options...)
    settings = plain(; options...)
    blocking(start_barrier(settings, set), nothing)
    return nothing
end

"""
    Ibarrier(set=COMM_WORLD; …)

Starts [`Barrier`](@ref).
"""
function Ibarrier(set::AnySet=COMM_WORLD; options...)
    settings = plain(; options...)
    return Request(start_barrier(settings, set), nothing)
end

function start_join(settings::Settings, set)
    submit(context, inputs, outputs, options, handle, error) = Native.hvd_join_async(context, options, handle, error)
    return launch(submit, take_last_joined, describe("join"), set, settings)
end

"""
    Join(set=COMM_WORLD; name, priority, timeout)

This rank has no more data: until every rank of the set has joined it takes part in allreduces of the others without
contributing. Returns the rank that joined last.
"""
function Join(set::AnySet=COMM_WORLD; options...)
    settings = plain(; options...)
    return blocking(start_join(settings, set), nothing)::Int
end

"""
    Ijoin(set=COMM_WORLD; …)

Starts [`Join`](@ref).
"""
function Ijoin(set::AnySet=COMM_WORLD; options...)
    settings = plain(; options...)
    return Request(start_join(settings, set), nothing)
end
