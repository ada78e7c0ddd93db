# SPDX-License-Identifier: Apache-2.0
# Operations in flight: who keeps their buffers, who waits for them, and how.
#
# A wait first looks inside the library for a moment: most operations end there, driven by this very thread. Then the
# task parks, and others run. The library calls uv_async_send from a thread of its own, the one function of libuv that
# any thread may call, and it needs no runtime of Julia. It takes one argument; the two that follow in a completion
# callback are left in registers that it does not read, on every processor with 64 bits that Julia runs on.

# How long a wait looks before it parks: about what parking costs.
const LOOK_NS = Int64(100_000)
# A task that only communicates lets others run this often.
const YIELD_NS = UInt64(1_000_000)

# Guards everything below, and is never held while waiting.
const LOCK = ReentrantLock()

"""
    Operation

One operation of the library that somebody may still wait for. From its submission until it has ended it stands in KEPT,
and with it stand its buffers, whatever becomes of the Request.
"""
mutable struct Operation
    handle::Ptr{Native.hvd_handle} # C_NULL once it has ended and nobody looks
    context::Context
    buffers::Any
    take::Any # makes the result out of the handle
    users::Int # tasks that are using the handle right now
    ended::Bool
    abandoned::Bool
    result::Any
    error::Union{Nothing,HvdError}
    woken::Union{Nothing,Base.Event} # set when somebody parks
    place::Int # in KEPT
    Operation(handle, context, buffers, take) =
        new(handle, context, buffers, take, 0, false, false, nothing, nothing, nothing, 0)
end

const KEPT = Operation[]
const PARKED = Operation[]
const ABANDONED = Threads.Atomic{Int}(0)
# Made when the module is loaded; never closed while an operation may still be called back.
const WAKER = Ref{Base.AsyncCondition}()

# What a launch gives: an operation that nobody keeps yet. The caller keeps its buffers until it has done something with
# it.
struct Launched{F}
    handle::Ptr{Native.hvd_handle}
    context::Context
    take::F
end

function keep(launched::Launched, @nospecialize(buffers))
    operation = Operation(launched.handle, launched.context, buffers, launched.take)
    lock(LOCK)
    push!(KEPT, operation)
    operation.place = length(KEPT)
    unlock(LOCK)
    return operation
end

# With LOCK held: the operation has ended; its outcome is taken, its buffers are let go.
function conclude!(operation::Operation, status::Int32)
    operation.ended && return nothing
    if status == Native.HVD_OK
        try
            taken = operation.take(operation.handle)
            taken === nothing || (operation.result = taken)
        catch problem
            problem isa HvdError || (problem = NoMemoryError("no memory for the result: $(sprint(showerror, problem))"))
            operation.error = problem
        end
    else
        operation.error = failure(operation.handle)
    end
    operation.ended = true
    operation.buffers = operation.take = nothing
    last = pop!(KEPT)
    if last !== operation
        KEPT[operation.place] = last
        last.place = operation.place
    end
    operation.woken === nothing || notify(operation.woken)
    release!(operation)
    return nothing
end

# With LOCK held.
function release!(operation::Operation)
    if operation.ended && operation.users == 0 && operation.handle != C_NULL
        Native.hvd_handle_free(operation.handle)
        operation.handle = C_NULL
    end
    return nothing
end

# The error of an operation that has failed.
function failure(handle::Ptr{Native.hvd_handle})
    error = ErrorMemory()
    status = Native.hvd_wait(handle, 0, error)
    return exception(error, status)
end

# Asks the library how an operation stands; `ask` takes the handle. Whether it has ended.
function look!(ask::F, operation::Operation) where {F}
    Base.sigatomic_begin() # Ctrl-C must not leave the lock locked
    lock(LOCK)
    if !operation.ended
        operation.users += 1
        unlock(LOCK)
        status = ask(operation.handle)::Int32
        lock(LOCK)
        operation.users -= 1
        status == Native.HVD_PENDING || conclude!(operation, status)
        release!(operation)
    end
    unlock(LOCK)
    Base.sigatomic_end()
    return operation.ended
end

# Waits until an operation has ended, while other tasks run.
function await(operation::Operation)
    if !look!(handle -> Native.hvd_wait(handle, LOOK_NS, C_NULL), operation)
        park!(operation)
        wait(operation.woken)
        look!(handle -> Native.hvd_wait(handle, 0, C_NULL), operation)
    end
    return nothing
end

# Gives an operation the event that its end will set; one for all tasks that wait for it.
function park!(operation::Operation)
    Base.disable_sigint() do
        lock(LOCK) do
            operation.woken === nothing || return nothing
            woken = Base.Event()
            if operation.ended
                notify(woken)
            else
                checked() do error
                    Native.hvd_handle_then(operation.handle, cglobal(:uv_async_send), WAKER[].handle, error)
                end
                push!(PARKED, operation)
            end
            operation.woken = woken
            return nothing
        end
    end
end

# The task that wakes others. It never ends an operation itself: taking a result may copy much.
function wake_parked()
    while isopen(WAKER[])
        lock(LOCK)
        filter!(PARKED) do operation
            running = !operation.ended && Native.hvd_test(operation.handle, C_NULL) == Native.HVD_PENDING
            running || notify(operation.woken)
            running
        end
        unlock(LOCK)
        sweep()
        try
            wait(WAKER[])
        catch problem
            problem isa EOFError || rethrow()
        end
    end
end

# Lets go of what was abandoned and has ended meanwhile; returns how many have not.
function sweep()
    known, left = ABANDONED[], 0
    known > 0 || return 0
    for operation in lock(() -> filter(o -> o.abandoned, KEPT), LOCK)
        look!(handle -> Native.hvd_test(handle, C_NULL), operation) || (left += 1)
    end
    Threads.atomic_sub!(ABANDONED, known - left) # a finalizer may have added to it meanwhile
    return left
end

# What was in flight in a context that has just been shut down.
function conclude_all(context::Context)
    for operation in lock(() -> filter(o -> o.context === context, KEPT), LOCK)
        look!(handle -> Native.hvd_test(handle, C_NULL), operation)
    end
end

function abandon(operation::Operation)
    operation.ended && return nothing
    operation.abandoned = true
    Threads.atomic_add!(ABANDONED, 1)
    return nothing
end

"""
    Request

An operation that was started by a function whose name begins with `I`. `wait(request)` returns its result or throws its
error; [`test`](@ref)`(request)` says whether it has ended. The library uses the buffers until then, and this package
keeps them until then, also if the request is dropped. They must not be resized or, where they are written, read.
"""
struct Request
    operation::Operation
    owner::Base.RefValue{Operation} # its finalizer is the end of the request

    # The result is what `take` makes out of the handle, or `result` if that is given: an array that the operation
    # fills.
    function Request(launched::Launched, @nospecialize(buffers), @nospecialize(result=nothing))
        operation = keep(launched, buffers)
        operation.result = result
        Base.sigatomic_end()
        ABANDONED[] > 0 && sweep()
        # Only marks: a finalizer must neither wait nor take locks.
        return new(operation, finalizer(owner -> abandon(owner[]), Ref(operation)))
    end
end

function Base.show(io::IO, request::Request)
    operation = request.operation
    print(io, "Hvd.Request(", !operation.ended ? "in flight" : operation.error === nothing ? "done" : "failed", ")")
end

"""
    wait(request::Request)

Waits until the operation has ended, while other tasks run; returns its result or throws its error, every time it is
called.
"""
function Base.wait(request::Request)
    operation, owner = request.operation, request.owner
    GC.@preserve owner operation.ended || await(operation)
    operation.error === nothing || throw(operation.error)
    return operation.result
end

"""
    wait(requests)

Waits for several requests and returns their results in that order. All have ended when it returns or throws the first
error.
"""
Base.wait(requests::Union{Tuple{Vararg{Request}},AbstractVector{Request}}) = wait_all(requests)

function wait_all(requests)
    for request in requests
        request.operation.ended || await(request.operation)
    end
    return map(wait, requests)
end

"""
    test(request::Request)

Whether the operation has ended, with success or not. Does not wait; lets the library make progress.
"""
function test(request::Request)
    request.operation.ended && return true
    return look!(handle -> Native.hvd_test(handle, C_NULL), request.operation)
end

# Runs an operation to its end; the caller preserves its buffers.
function blocking(launched::Launched, @nospecialize(buffers))
    status = Native.hvd_wait(launched.handle, LOOK_NS, C_NULL)
    if status != Native.HVD_PENDING
        result = finish(launched, status)
        Base.sigatomic_end()
        now = time_ns()
        if now - launched.context.yielded > YIELD_NS
            launched.context.yielded = now
            yield()
        end
        return result
    end
    operation = keep(launched, buffers)
    Base.sigatomic_end()
    return blocking_slowly(operation)
end

@noinline function blocking_slowly(operation::Operation)
    try
        await(operation)
    catch
        abandon(operation) # interrupted: the other ranks still need it
        rethrow()
    end
    operation.context.yielded = time_ns()
    operation.error === nothing || throw(operation.error)
    return operation.result
end

function finish(launched::Launched, status::Int32)
    if status != Native.HVD_OK
        error = failure(launched.handle)
        Native.hvd_handle_free(launched.handle)
        throw(error)
    end
    try
        return launched.take(launched.handle)
    finally
        Native.hvd_handle_free(launched.handle)
    end
end

# Called when the module is loaded.
function start_waker()
    WAKER[] = Base.AsyncCondition()
    task = @async wake_parked()
    return task
end

# Called at the end of the process, before Julia closes the condition that the library calls.
function close_all()
    for context in lock(() -> [ref.value for ref in OPEN if ref.value !== nothing], LOCK)
        try
            close(context)
        catch problem
            problem isa HvdError || rethrow()
        end
    end
end
