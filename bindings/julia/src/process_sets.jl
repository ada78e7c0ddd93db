# SPDX-License-Identifier: Apache-2.0
# Sets of ranks, and the default context with its set of all ranks.

"""
    ProcessSet(ranks; context=default())

A set of ranks with operations of its own, which run at the same time as those of other sets. Collective over the whole
job: every rank makes it with the same ranks, members or not, in the same order as other sets. Blocks the thread until
all have. It is the last argument of every collective; [`COMM_WORLD`](@ref) is all ranks. [`destroy!`](@ref) ends it.
"""
mutable struct ProcessSet
    context::Context
    pointer::Ptr{Native.hvd_process_set} # C_NULL once destroyed; also for all ranks
    id::Int
    rank::Int
    size::Int

    function ProcessSet(context::Context, pointer::Ptr{Native.hvd_process_set})
        id, size = Native.hvd_process_set_id(pointer), Native.hvd_process_set_size(pointer)
        return finalizer(forget, new(context, pointer, id, Native.hvd_process_set_rank(pointer), size))
    end
    # The set of all ranks. The library wants no pointer for it.
    ProcessSet(context::Context) = new(context, C_NULL, 0, context.topology.rank, context.topology.size)
end

function ProcessSet(ranks; context::Context=default())
    numbers = collect(Int32, ranks)
    out = Ref{Ptr{Native.hvd_process_set}}(C_NULL)
    pointer = pointer_of(context, "process set")
    GC.@preserve context checked() do error
        Native.hvd_process_set_create(pointer, numbers, length(numbers), out, error)
    end
    return ProcessSet(context, out[])
end

# Drops this reference; the set lives on.
function forget(set::ProcessSet)
    pointer, set.pointer = set.pointer, C_NULL
    pointer == C_NULL || Native.hvd_process_set_free(pointer)
    return nothing
end

"""
    COMM_WORLD

All ranks of the default context.
"""
struct World end
const COMM_WORLD = World()
Base.show(io::IO, ::World) = print(io, "Hvd.COMM_WORLD")

const AnySet = Union{World,ProcessSet}
const DEFAULT = Ref{Union{Nothing,ProcessSet}}(nothing)

function resolve(::World)
    set = DEFAULT[]
    set === nothing && throw(InvalidStateError("Hvd.Init has not been called, or Hvd.Finalize since"))
    return set
end
resolve(set::ProcessSet) = set

"""
    default()

The context that [`Init`](@ref) has made.
"""
default() = resolve(COMM_WORLD).context

"""
    world(context::Context)

All ranks of a context.
"""
world(context::Context) = ProcessSet(context)

is_destroyed(set::ProcessSet) = set.id < 0

"""
    Init(; rank=-1, size=0, rendezvous=nothing, timeout=nothing, options=())

Joins a job: under horovodrun, mpirun, srun or torchrun the one that was launched, else one of a single rank. Returns
the [`Context`](@ref) when every rank has arrived, and makes it the default. Blocks the thread meanwhile.

`rendezvous` is a URL of `hvd.h` (`file:///directory`, `tcp://host:port/job`, `mem://name`, …), `timeout` is in seconds,
`options` are pairs of a setting's name and value, see [`option_table`](@ref). A second call without arguments returns
the same context.
"""
function Init(; arguments...)
    if Initialized()
        isempty(arguments) && return default()
        throw(InvalidStateError("Hvd.Init has been called already; call Hvd.Finalize first"))
    end
    context = Context(; arguments...)
    DEFAULT[] = world(context)
    return context
end

"""
    Initialized()

Whether [`Init`](@ref) has been called, and [`Finalize`](@ref) not since.
"""
Initialized() = DEFAULT[] !== nothing

"""
    Finalize(; timeout=$SHUTDOWN_SECONDS)

Leaves the job that [`Init`](@ref) joined; see `close(context)`. Done at the end of the process too. After it a new
`Init` may follow.
"""
function Finalize(; timeout::Real=SHUTDOWN_SECONDS)
    set, DEFAULT[] = DEFAULT[], nothing
    set === nothing || close(set.context; timeout=timeout)
    return nothing
end

"""
    Comm_rank(set=COMM_WORLD)

This rank's number in a set; -1 if it is no member.
"""
Comm_rank(set::AnySet=COMM_WORLD) = resolve(set).rank

"""
    Comm_size(set=COMM_WORLD)

The number of ranks in a set.
"""
Comm_size(set::AnySet=COMM_WORLD) = resolve(set).size

"""
    is_member(set)

Whether this rank is in a set.
"""
is_member(set::AnySet) = resolve(set).rank >= 0

"""
    set_id(set)

The number of a set: 0 for all ranks, -1 once destroyed.
"""
set_id(set::AnySet) = resolve(set).id

"""
    set_ranks(set)

The ranks in a set, ascending.
"""
function set_ranks(given::AnySet)
    set = resolve(given)
    pointer = full_pointer(set, "process set")
    GC.@preserve set begin
        found = sized((ranks, count, error) -> Native.hvd_process_set_ranks(pointer, ranks, count, error), Int32)
        return Int.(found)
    end
end

# Also for the set of all ranks, which most calls name by a null pointer.
function full_pointer(set::ProcessSet, what::String)
    pointer = set_pointer(set, what)
    return set.id == 0 ? Native.hvd_process_set_world(pointer_of(set.context, what)) : pointer
end

"""
    set_ids(context=default())

The numbers of all sets, ascending.
"""
function set_ids(context::Context=default())
    pointer = pointer_of(context, "process set")
    GC.@preserve context begin
        return Int.(sized((ids, count, error) -> Native.hvd_process_set_ids(pointer, ids, count, error), Int32))
    end
end

"""
    find_set(id, context=default())

The set with this number.
"""
function find_set(id::Integer, context::Context=default())
    out = Ref{Ptr{Native.hvd_process_set}}(C_NULL)
    pointer = pointer_of(context, "process set")
    id == 0 && return ProcessSet(context)
    GC.@preserve context checked(error -> Native.hvd_process_set_find(pointer, id, out, error))
    return ProcessSet(context, out[])
end

"""
    destroy!(set)

Ends a set; collective over the whole job. Its waiting operations end with [`CancelledError`](@ref).
"""
function destroy!(set::ProcessSet)
    set.id == 0 && throw(InvalidArgumentError("process set 0: all ranks; it is not to be destroyed"))
    pointer = set_pointer(set, "process set")
    GC.@preserve set checked(error -> Native.hvd_process_set_destroy(pointer, error))
    # The library has taken this reference.
    set.pointer = C_NULL
    set.id, set.rank = -1, -1
    return nothing
end

# What goes into hvd_op_options: no pointer for all ranks, never a pointer to a set that is gone.
function set_pointer(set::ProcessSet, what::String)
    is_destroyed(set) && throw(InvalidStateError("$what: the process set has been destroyed"))
    return set.pointer
end

function Base.show(io::IO, set::ProcessSet)
    is_destroyed(set) && return print(io, "Hvd.ProcessSet(destroyed)")
    print(io, "Hvd.ProcessSet(", set.id, ": rank ", set.rank, " of ", set.size, ")")
end
