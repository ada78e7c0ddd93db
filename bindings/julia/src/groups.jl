# SPDX-License-Identifier: Apache-2.0
# Collectives on several arrays as one operation: none starts before all are ready on every rank. Types may differ.

const Arrays = Union{Tuple{Vararg{AbstractArray}},AbstractVector{<:AbstractArray}}

# Starts a group whose results the library makes if `recv` is empty and `send` is not.
function start_group(function_of_group, what::String, send, recv, settings::Settings, set)
    submit(context, inputs, outputs, options, handle, error) =
        function_of_group(context, inputs, outputs, length(send), options, handle, error)
    take = isempty(recv) ? TakeOutputs(map(TakeOutput, send)) : nothing_to_take
    return launch(submit, take, describe_group(what, send, recv), set, settings)
end

# Vectors of our own, so that nobody can take an array out of them while it is in use.
all_readable(arrays) = AbstractArray[readable(array) for array in arrays]
all_writable(arrays, what) = AbstractArray[writable(array, what) for array in arrays]

function check_pairs(send, recv, what::String)
    length(send) == length(recv) && return nothing
    throw(InvalidArgumentError("$what: $(length(send)) inputs and $(length(recv)) outputs are given"))
end

function run_group(function_of_group, what, send, recv, settings, set)
    GC.@preserve send recv blocking(start_group(function_of_group, what, send, recv, settings, set), (send, recv))
end

"""
    GroupedAllreduce!(arrays, op, set=COMM_WORLD; …)
    GroupedAllreduce!(sends, recvs, op, set=COMM_WORLD; …)

[`Allreduce!`](@ref) of several arrays (a tuple or a vector) as one operation; the keyword arguments are the same.
"""
function GroupedAllreduce!(sends::Arrays, recvs::Arrays, op, set::AnySet=COMM_WORLD; options...)
    check_pairs(sends, recvs, "grouped allreduce")
    settings, from, to = reducing(op; options...), all_readable(sends), all_writable(recvs, "grouped allreduce")
    run_group(Native.hvd_grouped_allreduce_async, "grouped allreduce", from, to, settings, set)
    return recvs
end
function GroupedAllreduce!(arrays::Arrays, op, set::AnySet=COMM_WORLD; options...)
    return GroupedAllreduce!(arrays, arrays, op, set; options...)
end

"""
    GroupedAllreduce(arrays, op, set=COMM_WORLD; …)

The same with new arrays as result.
"""
function GroupedAllreduce(arrays::Arrays, op, set::AnySet=COMM_WORLD; options...)
    results = map(array -> similar(Array{eltype(array)}, size(array)), arrays)
    return GroupedAllreduce!(arrays, results, op, set; options...)
end

function IgroupedAllreduce!(sends::Arrays, recvs::Arrays, op, set::AnySet=COMM_WORLD; options...)
    check_pairs(sends, recvs, "grouped allreduce")
    settings, from, to = reducing(op; options...), all_readable(sends), all_writable(recvs, "grouped allreduce")
    GC.@preserve from to begin
        launched = start_group(Native.hvd_grouped_allreduce_async, "grouped allreduce", from, to, settings, set)
        return Request(launched, (from, to), recvs)
    end
end

"""
    IgroupedAllreduce!(arrays, op, set=COMM_WORLD; …)
    IgroupedAllreduce!(sends, recvs, op, set=COMM_WORLD; …)

Starts [`GroupedAllreduce!`](@ref).
"""
function IgroupedAllreduce!(arrays::Arrays, op, set::AnySet=COMM_WORLD; options...)
    return IgroupedAllreduce!(arrays, arrays, op, set; options...)
end

"""
    GroupedAllgather(arrays, set=COMM_WORLD; name, priority, timeout)

[`Allgather`](@ref) of several arrays as one operation; returns a vector of new arrays.
"""
function GroupedAllgather(arrays::Arrays, set::AnySet=COMM_WORLD; options...)
    settings, from, made = plain(; options...), all_readable(arrays), AbstractArray[]
    return run_group(Native.hvd_grouped_allgatherv_async, "grouped allgather", from, made, settings, set)
end

"""
    GroupedAllgatherv!(sends, recvs, set=COMM_WORLD; …)

The same into given arrays.
"""
function GroupedAllgatherv!(sends::Arrays, recvs::Arrays, set::AnySet=COMM_WORLD; options...)
    check_pairs(sends, recvs, "grouped allgather")
    settings, from, to = plain(; options...), all_readable(sends), all_writable(recvs, "grouped allgather")
    run_group(Native.hvd_grouped_allgatherv_async, "grouped allgather", from, to, settings, set)
    return recvs
end

"""
    IgroupedAllgather(arrays, set=COMM_WORLD; …)

Starts [`GroupedAllgather`](@ref).
"""
function IgroupedAllgather(arrays::Arrays, set::AnySet=COMM_WORLD; options...)
    settings, from, made = plain(; options...), all_readable(arrays), AbstractArray[]
    GC.@preserve from begin
        launched = start_group(Native.hvd_grouped_allgatherv_async, "grouped allgather", from, made, settings, set)
        return Request(launched, from)
    end
end

"""
    GroupedReducescatter(arrays, op, set=COMM_WORLD; …)

[`Reducescatter`](@ref) of several arrays as one operation; returns a vector of new arrays.
"""
function GroupedReducescatter(arrays::Arrays, op, set::AnySet=COMM_WORLD; options...)
    settings, from, made = reducing(op; options...), all_readable(arrays), AbstractArray[]
    return run_group(Native.hvd_grouped_reducescatter_async, "grouped reducescatter", from, made, settings, set)
end

"""
    GroupedReducescatter!(sends, recvs, op, set=COMM_WORLD; …)

The same into given arrays.
"""
function GroupedReducescatter!(sends::Arrays, recvs::Arrays, op, set::AnySet=COMM_WORLD; options...)
    check_pairs(sends, recvs, "grouped reducescatter")
    settings, from, to = reducing(op; options...), all_readable(sends), all_writable(recvs, "grouped reducescatter")
    run_group(Native.hvd_grouped_reducescatter_async, "grouped reducescatter", from, to, settings, set)
    return recvs
end

"""
    IgroupedReducescatter(arrays, op, set=COMM_WORLD; …)

Starts [`GroupedReducescatter`](@ref).
"""
function IgroupedReducescatter(arrays::Arrays, op, set::AnySet=COMM_WORLD; options...)
    settings, from, made = reducing(op; options...), all_readable(arrays), AbstractArray[]
    GC.@preserve from begin
        launched = start_group(Native.hvd_grouped_reducescatter_async, "grouped reducescatter", from, made, settings, set)
        return Request(launched, from)
    end
end
