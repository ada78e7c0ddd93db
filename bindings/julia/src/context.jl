# SPDX-License-Identifier: Apache-2.0
# Joining and leaving a job, and what a rank can ask about it.

# How long leaving lets operations finish that are already moving data.
const SHUTDOWN_SECONDS = 5

# nothing: the library's default; Inf: none.
function nanoseconds(seconds::Union{Nothing,Real})
    seconds === nothing && return Int64(0)
    seconds > 0 || throw(InvalidArgumentError("timeout is $seconds s; it must be above 0, Inf for none"))
    # Beyond a hundred years a limit is none.
    return seconds > 3.2e9 ? Int64(-1) : max(Int64(1), round(Int64, seconds * 1e9))
end

"""
    Context(; rank=-1, size=0, rendezvous=nothing, timeout=nothing, options=())

Joins a job without making it the default of this process; [`Init`](@ref) explains the arguments. A process may have
several. [`world`](@ref)`(context)` is its set of all ranks; `close(context)` leaves the job.
"""
mutable struct Context
    pointer::Ptr{Native.hvd_context} # C_NULL once closed
    topology::Native.hvd_topology
    yielded::UInt64 # when a blocking operation last let other tasks run

    function Context(; rank::Integer=-1, size::Integer=0, rendezvous::Union{Nothing,AbstractString}=nothing,
                     timeout::Union{Nothing,Real}=nothing, options=())
        pointer = open_context(Int32(rank), Int32(size), rendezvous, nanoseconds(timeout), options)
        context = new(pointer, Native.hvd_topology(), time_ns())
        remember(context)
        topology = Ref(Native.hvd_topology())
        checked(error -> Native.hvd_topology_get(pointer, topology, error))
        context.topology = topology[]
        # Leaving a job may wait, and a finalizer must not: a task does it.
        finalizer(context -> context.pointer == C_NULL || @async(close(context)), context)
        return context
    end
end

function open_context(rank, size, rendezvous, timeout_ns, options)
    place = rendezvous === nothing ? nothing : String(rendezvous)
    texts = String[]
    for (name, value) in options
        push!(texts, string(name), string(value))
    end
    GC.@preserve place texts begin
        pairs = [Native.hvd_option(Base.unsafe_convert(Cstring, texts[i]), Base.unsafe_convert(Cstring, texts[i + 1]))
                 for i in 1:2:length(texts)]
        url = place === nothing ? Cstring(C_NULL) : Base.unsafe_convert(Cstring, place)
        out = Ref{Ptr{Native.hvd_context}}(C_NULL)
        GC.@preserve pairs begin
            settings = Ref(Native.hvd_init_options(; rank=rank, size=size, rendezvous=url, timeout_ns=timeout_ns,
                                                  options=isempty(pairs) ? C_NULL : pointer(pairs),
                                                  option_count=length(pairs), log_fn=log_function(),
                                                  log_user_data=log_target()))
            try
                checked(error -> Native.hvd_init(settings, out, error))
            finally
                flush_log() # what came while this call held the thread
            end
        end
        return out[]
    end
end

# Contexts that have not been closed, so that the end of the process can do it.
const OPEN = WeakRef[]

function remember(context::Context)
    lock(LOCK) do
        filter!(ref -> ref.value !== nothing && ref.value.pointer != C_NULL, OPEN)
        push!(OPEN, WeakRef(context))
    end
end

Base.isopen(context::Context) = context.pointer != C_NULL

function Base.show(io::IO, context::Context)
    t = context.topology
    print(io, "Hvd.Context(", isopen(context) ? "rank $(t.rank) of $(t.size)" : "closed", ")")
end

"""
    close(context::Context; timeout=$SHUTDOWN_SECONDS)

Leaves the job. Not collective: operations in flight end with [`ShutDownError`](@ref), here and on ranks that need this
one. Those that are already moving data get `timeout` seconds to finish. Closing twice is allowed.
"""
function Base.close(context::Context; timeout::Real=SHUTDOWN_SECONDS)
    limit = timeout == 0 ? Int64(0) : nanoseconds(timeout)
    pointer = lock(LOCK) do
        taken, context.pointer = context.pointer, C_NULL
        taken
    end
    pointer == C_NULL && return nothing
    error = ErrorMemory()
    status = Native.hvd_shutdown(pointer, limit, error)
    # What was in flight has ended now. Its outcome is taken here, because the library is about to forget the context.
    conclude_all(context)
    Native.hvd_context_free(pointer)
    flush_log()
    status == Native.HVD_OK || throw(exception(error, status))
    return nothing
end

function pointer_of(context::Context, what::String)
    context.pointer == C_NULL && throw(InvalidStateError("$what: the context has been closed"))
    return context.pointer
end

"""
    check(context::Context=default())

Returns if the context works; otherwise throws the reason why it does not, the same on every surviving rank.
"""
function check(context::Context=default())
    pointer = pointer_of(context, "check")
    GC.@preserve context checked(error -> Native.hvd_context_status(pointer, error))
end

"""
    membership(context::Context=default())

What this rank knows of the members of an elastic job (`horovodrun --min-np`): `epoch` counts the memberships from 1 and is 0
where members are fixed, `removed` and `added` say whether members are about to go or come, `synchronize` that states differ and all
take over that of rank 0.
"""
function membership(context::Context=default())
    pointer = pointer_of(context, "membership")
    found = Ref(Native.hvd_membership())
    GC.@preserve context checked(error -> Native.hvd_membership_get(pointer, found, error))
    changes = found[].changes
    return (
        epoch=Int(found[].epoch), removed=changes & Native.HVD_MEMBERS_REMOVED != 0,
        added=changes & Native.HVD_MEMBERS_ADDED != 0, synchronize=found[].synchronize != 0,
    )
end

"""
    leave(context::Context=default())

Announces that this rank wants to leave an elastic job. The next context of this process is an error then.
"""
function leave(context::Context=default())
    pointer = pointer_of(context, "leave")
    GC.@preserve context checked(error -> Native.hvd_membership_leave(pointer, error))
end

for (name, text) in (
    :local_rank => "this rank's number on its host", :local_size => "the number of ranks on this host",
    :cross_rank => "this rank's number among those with its `local_rank`",
    :cross_size => "the number of hosts that have a rank with this `local_rank`",
)
    @eval begin
        @doc $("    $name(context::Context=default())\n\nGives $text.") function $name(context::Context=default())
            return Int(context.topology.$name)
        end
    end
end

"""
    is_homogeneous(context::Context=default())

Whether every host has the same number of ranks.
"""
is_homogeneous(context::Context=default()) = context.topology.homogeneous != 0

"""
    Option

One setting of the library, as [`option_table`](@ref) lists it: `name`, `default` and `help`.
"""
struct Option
    name::String
    default::String
    help::String
end

"""
    option_table()

All settings. Each can be given to [`Init`](@ref) and as an environment variable: `HOROVOD_` and the name in upper case.
"""
function option_table()
    table = Option[]
    while true
        index = length(table)
        name = Native.hvd_option_name(index)
        name == C_NULL && return table
        texts = unsafe_string.((name, Native.hvd_option_default(index), Native.hvd_option_help(index)))
        push!(table, Option(texts...))
    end
end

"""
    option(name, context::Context=default())

The value of a setting that is in force, as text.
"""
function option(name::AbstractString, context::Context=default())
    pointer = pointer_of(context, "option")
    GC.@preserve context begin
        bytes = sized(UInt8) do value, size, error
            Native.hvd_option_get(pointer, name, value, size, error)
        end
        return String(bytes[1:end - 1])
    end
end

"""
    option!(name, value, context::Context=default())

Changes a setting that may change while running, for this rank only.
"""
function option!(name::AbstractString, value, context::Context=default())
    pointer = pointer_of(context, "option!")
    GC.@preserve context checked(error -> Native.hvd_option_set(pointer, name, string(value), error))
end

"""
    burst(f, context::Context=default())

Announces what `f()` starts to the other ranks together, when it returns at the latest: for many small operations in a row.
Returns what `f` does. Waiting works as ever in it; bursts nest.

    requests = Hvd.burst() do
        [Hvd.Iallreduce!(gradient, +) for gradient in gradients]
    end
"""
function burst(f, context::Context=default())
    pointer = pointer_of(context, "burst")
    GC.@preserve context checked(error -> Native.hvd_burst_begin(pointer, error))
    try
        return f()
    finally
        if isopen(context)
            GC.@preserve context checked(error -> Native.hvd_burst_end(pointer_of(context, "burst"), error))
        end
    end
end

"""
    Metric

A counter of this rank: `name`, `unit` (`"1"`, `"bytes"`, `"ns"`) and `value`.
"""
struct Metric
    name::String
    unit::String
    value::Float64
end

"""
    metrics(context::Context=default())

All counters of this rank since it joined.
"""
function metrics(context::Context=default())
    pointer = pointer_of(context, "metrics")
    GC.@preserve context begin
        raw = sized((out, count, error) -> Native.hvd_metrics_snapshot(pointer, out, count, error), Native.hvd_metric)
        return [Metric(unsafe_string(m.name), unsafe_string(m.unit), m.value) for m in raw]
    end
end

"""
How often this rank has seen which values: `name`, `unit` (`"1"`, `"bytes"`, `"ns"`), their number `count` and `sum`, and
`buckets`. `buckets[i]` counts the values of at most `2^(i-1)` that no bucket before counts, the last one all the rest.
"""
struct Histogram
    name::String
    unit::String
    count::Int
    sum::Int
    buckets::Vector{Int}
end

"""
    histograms(context::Context=default())

The sizes, times and waits of this rank's operations since it joined, as a vector of `Histogram`.
"""
function histograms(context::Context=default())
    pointer = pointer_of(context, "histograms")
    GC.@preserve context begin
        snapshot(out, count, error) = Native.hvd_histograms_snapshot(pointer, out, count, error)
        return [
            Histogram(unsafe_string(h.name), unsafe_string(h.unit), h.value_count, h.sum, collect(Int, h.buckets)) for
            h in sized(snapshot, Native.hvd_histogram)
        ]
    end
end

"""
    metric_help(name)

What the counter or histogram of that name tells, in a line; `nothing` for an unknown name.
"""
function metric_help(name::AbstractString)
    text = Native.hvd_metric_help(name)
    return text == C_NULL ? nothing : unsafe_string(text)
end
