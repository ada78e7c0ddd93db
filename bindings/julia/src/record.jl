# SPDX-License-Identifier: Apache-2.0
# The flight recorder: what this rank's last operations were, and where their time went.

"""
    records(context::Context=default(); after=0)

The last operations of this rank, as named tuples with the fields of `hvd_record`: up to 4,096 that have ended, from the
number `after` + 1 on, oldest first, then those in flight, whose `number` is 0. Times are nanoseconds as of `time_ns()`,
0 where the operation has not come so far.
"""
function records(context::Context=default(); after::Integer=0)
    pointer = pointer_of(context, "records")
    GC.@preserve context begin
        snapshot(out, count, error) = Native.hvd_records_snapshot(pointer, UInt64(after), out, count, error)
        return [named_tuple(raw) for raw in sized(snapshot, Native.hvd_record)]
    end
end

"""
    start_timeline(path, context::Context=default(); mark_cycles=false)

Writes the operations that this rank submits from now on to a file in Chrome's trace format: rank 0 to `path`, rank 1 of
"name.json" to "name.rank1.json". `mark_cycles` adds an event for each group of operations that run together.
"""
function start_timeline(path::AbstractString, context::Context=default(); mark_cycles::Bool=false)
    pointer = pointer_of(context, "start_timeline")
    GC.@preserve context checked(error -> Native.hvd_timeline_start(pointer, path, mark_cycles, error))
end

"""
    stop_timeline(context::Context=default())

Ends the file of the timeline; nothing if there is none.
"""
function stop_timeline(context::Context=default())
    pointer = pointer_of(context, "stop_timeline")
    GC.@preserve context checked(error -> Native.hvd_timeline_stop(pointer, error))
end

function named_tuple(raw::Native.hvd_record)
    names = fieldnames(Native.hvd_record)
    return NamedTuple{names}(map(name -> julia_value(getfield(raw, name)), names))
end
julia_value(number::Number) = number
julia_value(numbers::NTuple{N,Int64}) where {N} = numbers
julia_value(text::Cstring) = unsafe_string(text)
julia_value(bytes::NTuple{N,UInt8}) where {N} = String(collect(Iterators.takewhile(!iszero, bytes)))

"""
    arrivals(set, use)

When each member of the set announced the operation with that `use` of its record, in nanoseconds as of `time_ns()`, 0 for a
member that has not. The lowest rank of the set knows.
"""
function arrivals(given::AnySet, use::Integer)
    set = resolve(given)
    pointer = full_pointer(set, "arrivals")
    GC.@preserve set begin
        return sized((out, count, error) -> Native.hvd_record_arrivals(pointer, UInt64(use), out, count, error), Int64)
    end
end
