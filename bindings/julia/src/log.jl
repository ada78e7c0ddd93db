# SPDX-License-Identifier: Apache-2.0
# The library's log. Its lines come from threads of the library, which must not call into Julia before 1.9; so the library writes
# them into a pipe, and a task gives what it reads there to Julia's logging.

using Base.CoreLogging: LogLevel, @logmsg

const LOG_LEVELS = Dict('E' => Base.CoreLogging.Error, 'W' => Base.CoreLogging.Warn, 'I' => Base.CoreLogging.Info,
                        'D' => Base.CoreLogging.Debug, 'T' => LogLevel(-2000))
# As hvd_log_to_fd writes them, with or without the time.
const LOG_LINE = r"^\[(?:\d.*: )?([EWIDT]) (\S+)\](?: \[(\d+)\]:)? (.*)$"

# Made with the first context, and open until the process ends: threads of the library may write as long as a handle lives.
const LOG_PIPE = Ref{Base.Pipe}()
# How many flushes the reading task has seen.
const LOG_FLUSHED = Ref(0)
const FLUSH = "flush"

# What the library's log function is given: the descriptor that it writes to.
function log_target()
    if !isassigned(LOG_PIPE)
        pipe = Base.Pipe()
        Base.link_pipe!(pipe; reader_supports_async=true, writer_supports_async=true)
        LOG_PIPE[] = pipe
        @async foreach(tell, eachline(pipe.out))
    end
    return Ptr{Cvoid}(Int(reinterpret(Int32, Base._fd(LOG_PIPE[].in))))
end

# Resolved here, because the library is told by its address.
log_function() = Libdl.dlsym(Libdl.dlopen(Native.LIBRARY), :hvd_log_to_fd)

function tell(line::String)
    found = match(LOG_LINE, line)
    if found === nothing
        @logmsg Base.CoreLogging.Warn line _group=:hvd
        return nothing
    end
    letter, component, rank, text = found.captures
    if component == FLUSH
        LOG_FLUSHED[] += 1
        return nothing
    end
    level = LOG_LEVELS[letter[1]]
    @logmsg level "$component: $text" _group=:hvd rank=(rank === nothing ? nothing : parse(Int, rank))
    return nothing
end

# Lets the task tell what the library has written so far; for the moments after which nobody might.
function flush_log()
    isassigned(LOG_PIPE) || return nothing
    before = LOG_FLUSHED[]
    Native.hvd_log_to_fd(log_target(), Native.HVD_LOG_TRACE, -1, FLUSH, "")
    timedwait(() -> LOG_FLUSHED[] > before, 1.0; pollint=0.001)
    return nothing
end
