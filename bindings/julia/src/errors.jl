# SPDX-License-Identifier: Apache-2.0
# Exceptions, one type per status of the library, grouped by what is broken.

"""
    HvdError

What every error of the library is. The fields: `message` (the library's text, unchanged), `status` (number of `hvd.h`),
`rank` (the rank at fault, or -1) and `sys_errno` (errno of a failed system call, or 0). [`status_name`](@ref) gives the
name.
"""
abstract type HvdError <: Exception end

"The call was wrong and nothing happened; correct the call and go on."
abstract type UsageError <: HvdError end
"This operation failed on every rank that took part; the process set is still usable."
abstract type OperationError <: HvdError end
"This process set is broken; others are usable."
abstract type ProcessSetError <: HvdError end
"The whole context is broken: `Finalize`, then a new `Init` in the same process."
abstract type ContextError <: HvdError end

const ERROR_TYPES = Dict{Int32,Type}()

macro status_error(name, parent, status)
    return esc(quote
        struct $name <: $parent
            message::String
            status::Int32
            rank::Int32
            sys_errno::Int32
        end
        $name(message::AbstractString) = $name(message, Native.$status, -1, 0)
        ERROR_TYPES[Native.$status] = $name
    end)
end

@status_error InvalidArgumentError UsageError HVD_ERR_INVALID_ARGUMENT
@status_error InvalidStateError UsageError HVD_ERR_INVALID_STATE
@status_error NotFoundError UsageError HVD_ERR_NOT_FOUND
@status_error AlreadyExistsError UsageError HVD_ERR_ALREADY_EXISTS
@status_error UnsupportedError UsageError HVD_ERR_UNSUPPORTED
@status_error VersionError UsageError HVD_ERR_VERSION
@status_error NoMemoryError UsageError HVD_ERR_OUT_OF_MEMORY
@status_error WouldDeadlockError UsageError HVD_ERR_WOULD_DEADLOCK
@status_error MismatchError OperationError HVD_ERR_MISMATCH
@status_error CancelledError OperationError HVD_ERR_CANCELLED
@status_error TimeoutError OperationError HVD_ERR_TIMEOUT
@status_error SetBrokenError ProcessSetError HVD_ERR_SET_BROKEN
@status_error PeerLostError ContextError HVD_ERR_PEER_LOST
@status_error ShutDownError ContextError HVD_ERR_SHUT_DOWN
@status_error SystemCallError ContextError HVD_ERR_IO
@status_error DismissedError ContextError HVD_ERR_DISMISSED
@status_error InternalError HvdError HVD_ERR_INTERNAL

"""
    status_name(error::HvdError)

The name of the error's status as in `hvd.h`, for example `"HVD_ERR_MISMATCH"`.
"""
status_name(error::HvdError) = unsafe_string(Native.hvd_status_name(error.status))

Base.showerror(io::IO, error::HvdError) = print(io, "Hvd.", nameof(typeof(error)), ": ", error.message)

# An hvd_error as plain memory: a struct of Julia with 1,008 bytes of message would be copied at every touch.
const ERROR_SIZE = sizeof(Native.hvd_error)
const ERROR_MESSAGE = fieldoffset(Native.hvd_error, Base.fieldindex(Native.hvd_error, :message))

struct ErrorMemory
    bytes::Vector{UInt8}
    ErrorMemory() = reset!(new(zeros(UInt8, ERROR_SIZE)))
end

Base.unsafe_convert(::Type{Ptr{Native.hvd_error}}, error::ErrorMemory) = Ptr{Native.hvd_error}(pointer(error.bytes))

# HVD_ERROR_INIT without the message.
function reset!(error::ErrorMemory)
    GC.@preserve error begin
        words = Ptr{Int32}(pointer(error.bytes))
        unsafe_store!(words, ERROR_SIZE % Int32, 1)
        unsafe_store!(words, Int32(0), 2)
        unsafe_store!(words, Int32(-1), 3)
        unsafe_store!(words, Int32(0), 4)
        unsafe_store!(Ptr{UInt8}(words) + ERROR_MESSAGE, 0x00)
    end
    return error
end

# The exception for what a failed call has left. A status of a newer library than this package is an InternalError.
function exception(error::ErrorMemory, status::Int32)
    GC.@preserve error begin
        words = Ptr{Int32}(pointer(error.bytes))
        message = unsafe_string(Ptr{UInt8}(words) + ERROR_MESSAGE)
        type = get(ERROR_TYPES, status, InternalError)
        return type(message, status, unsafe_load(words, 3), unsafe_load(words, 4))::HvdError
    end
end

# Calls `call` with memory for an error, and throws what it reports.
function checked(call::F) where {F}
    error = ErrorMemory()
    status = call(error)::Int32
    status == Native.HVD_OK || throw(exception(error, status))
    return nothing
end

# Fills a vector by the header's protocol of sizes: the count first, then the values, again if there are more by then.
function sized(call::F, ::Type{T}) where {F,T}
    count = Ref{Csize_t}(0)
    checked(error -> call(C_NULL, count, error))
    while true
        values = Vector{T}(undef, max(count[], 1))
        count[] = length(values)
        error = ErrorMemory()
        status = call(values, count, error)::Int32
        status == Native.HVD_OK && return resize!(values, count[])
        grown = status == Native.HVD_ERR_INVALID_ARGUMENT && count[] > length(values)
        grown || throw(exception(error, status))
    end
end
