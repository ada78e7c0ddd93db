# SPDX-License-Identifier: Apache-2.0
# A task that waits lets others run; dropped and interrupted operations end well.
# ranks: 2 3
using Test
import Hvd

Hvd.Init()
const rank, size = Hvd.Comm_rank(), Hvd.Comm_size()

# Rank 0 comes to "late" only when everybody's other task has counted, and those wait on timers of libuv. Would a
# waiting task block the scheduler, nobody would ever come.
counting = @async begin
    for _ in 1:10
        sleep(0.001)
    end
    Hvd.Barrier(; name="counted")
end
rank == 0 && wait(counting)
@test Hvd.Allreduce([1.0], +; name="late") == [size]
wait(counting)

# Two tasks wait for one request, twenty for one of their own.
if rank > 0
    request = Hvd.Iallreduce!([1.0], +; name="shared")
    results = [@async wait(request) for _ in 1:2]
    others = [@async Hvd.Allreduce([Float64(i)], +; name="task $i") for i in 1:20]
    while length(Hvd.PARKED) < 21
        sleep(0.001)
    end
    Hvd.Barrier(; name="parked")
    @test fetch.(results) == [[size], [size]]
    @test fetch.(others) == [[Float64(i * size)] for i in 1:20]
else
    Hvd.Barrier(; name="parked")
    foreach(i -> Hvd.Allreduce([Float64(i)], +; name="task $i"), 20:-1:1)
    Hvd.Allreduce([1.0], +; name="shared")
end
@test isempty(Hvd.PARKED)

# test() says how it is, without waiting.
if rank > 0
    request = Hvd.Iallgather([rank]; name="polled")
    @test !any(_ -> Hvd.test(request), 1:10)
    Hvd.Barrier(; name="go")
    while !Hvd.test(request)
        sleep(0.001)
    end
    @test wait(request) == collect(0:size - 1)
else
    Hvd.Barrier(; name="go")
    @test Hvd.Allgather([rank]; name="polled") == collect(0:size - 1)
end

# Dropped in flight: collections do not take the buffers, which other ranks need; the results are right.
start(i) = (Hvd.Iallreduce!(fill(Float32(i), 20_000), +; name="dropped $i"); nothing)
if rank > 0
    foreach(start, 1:30)
    for _ in 1:5
        GC.gc()
        garbage = [rand(20_000) for _ in 1:50]
    end
    @test length(Hvd.KEPT) == 30
    @test Hvd.ABANDONED[] > 0
    Hvd.Barrier(; name="dropped")
else
    Hvd.Barrier(; name="dropped")
    for i in 1:30
        @test Hvd.Allreduce(fill(Float32(i), 20_000), +; name="dropped $i") == fill(Float32(i * size), 20_000)
    end
end

# What is abandoned goes as soon as it has ended.
function nothing_is_kept()
    deadline = time() + 30 * parse(Float64, get(ENV, "HVD_TEST_TIME_SCALE", "1"))
    while !isempty(Hvd.KEPT) && time() < deadline
        GC.gc()
        Hvd.sweep()
        sleep(0.001)
    end
    return isempty(Hvd.KEPT)
end
@test nothing_is_kept()

# A task that is interrupted while it waits: the operation goes on, and its buffers stay.
if rank > 0
    task = @async Hvd.Allreduce(fill(1.0, 1000), +; name="interrupted")
    while isempty(Hvd.PARKED)
        sleep(0.001)
    end
    schedule(task, InterruptException(); error=true)
    @test_throws Exception wait(task)
    @test length(Hvd.KEPT) == 1
    GC.gc()
    Hvd.Barrier(; name="interrupted now")
else
    Hvd.Barrier(; name="interrupted now")
    @test Hvd.Allreduce(fill(1.0, 1000), +; name="interrupted") == fill(size, 1000)
end
Hvd.Barrier(; name="end")
@test nothing_is_kept()
Hvd.Finalize()
