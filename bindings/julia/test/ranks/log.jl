# SPDX-License-Identifier: Apache-2.0
# The library's log comes by Julia's: a rank that does not come is told while the others wait.
# ranks: 2
using Test
import Hvd
using Base.CoreLogging: AbstractLogger, LogLevel, Warn

struct Collector <: AbstractLogger
    lines::Vector{Any}
end
Base.CoreLogging.min_enabled_level(::Collector) = LogLevel(-3000)
Base.CoreLogging.shouldlog(::Collector, arguments...) = true
function Base.CoreLogging.handle_message(logger::Collector, level, message, _module, group, id, file, line; rank=nothing, other...)
    push!(logger.lines, (level=level, message=message, group=group, rank=rank))
end
const lines = Collector([]).lines
Base.CoreLogging.global_logger(Collector(lines))

Hvd.Init(; options=("stall_check_time_seconds" => 1, "log_level" => "debug"))
told() = any(line -> line.level == Warn && startswith(line.message, "stall: ") && occursin("late", line.message), lines)
if Hvd.Comm_rank() == 0
    @test any(line -> line.level == Base.CoreLogging.Info && line.group == :hvd && line.rank == 0, lines)
    request = Hvd.Iallreduce!([1.0], +; name="late")
    @test timedwait(told, 30.0) == :ok
    Hvd.Barrier(; name="told")
    @test wait(request) == [3.0]
else
    Hvd.Barrier(; name="told")
    @test Hvd.Allreduce([2.0], +; name="late") == [3.0]
end
Hvd.Finalize()
# Lines that are none of the library's form, or that have no rank, are told too.
Hvd.tell("something else")
Hvd.tell("[E context] no rank yet")
@test lines[end - 1].message == "something else" && lines[end].message == "context: no rank yet" && lines[end].rank === nothing
