# SPDX-License-Identifier: Apache-2.0
# Every function on a job of one rank.

const ALL_TYPES = first.(Hvd.ELEMENTS)

@testset "init and finalize" begin
    @test !Hvd.Initialized()
    @test_throws Hvd.InvalidStateError Hvd.Comm_rank()
    @test_throws Hvd.InvalidStateError Hvd.Barrier()
    context = Hvd.Init()
    @test Hvd.Initialized() && isopen(context)
    @test Hvd.Init() === context === Hvd.default()
    @test_throws Hvd.InvalidStateError Hvd.Init(; size=1)
    @test (Hvd.Comm_rank(), Hvd.Comm_size()) == (0, 1)
    @test (Hvd.local_rank(), Hvd.local_size(), Hvd.cross_rank(), Hvd.cross_size()) == (0, 1, 0, 1)
    @test Hvd.is_homogeneous()
    @test Hvd.membership().epoch == 0  # the members of this job are fixed
    @test_throws Hvd.InvalidStateError Hvd.leave()
    @test Hvd.check() === nothing
    Hvd.Finalize()
    @test !Hvd.Initialized() && !isopen(context)
    Hvd.Finalize()
    close(context)
    @test_throws Hvd.InvalidStateError Hvd.check(context)
    @test_throws Hvd.InvalidStateError Hvd.Barrier(Hvd.world(context))
    Hvd.Init()
    @test Hvd.Allreduce(2.5, +) == 2.5
end

@testset "bursts" begin
    requests = Hvd.burst() do
        Hvd.burst(() -> @test(Hvd.Allreduce(1.5, +) == 1.5))
        [Hvd.Iallreduce!([Float32(i)], +; name="burst $i") for i in 1:20]
    end
    @test [wait(request)[1] for request in requests] == 1:20
    @test_throws ErrorException Hvd.burst(() -> error("in a burst"))
    other = Hvd.Context(; rank=0, size=1, rendezvous="mem://julia-burst")
    @test Hvd.burst(() -> close(other), other) === nothing
    @test_throws Hvd.InvalidStateError Hvd.burst(() -> 1, other)
    @test Hvd.Allreduce(1, +) == 1
end

@testset "several contexts" begin
    other = Hvd.Context(; rank=0, size=1, rendezvous="mem://julia-several")
    set = Hvd.world(other)
    @test Hvd.Allreduce([1, 2], +, set) == [1, 2]
    close(other)
    @test_throws Hvd.InvalidStateError Hvd.Allreduce([1, 2], +, set)
    @test Hvd.Allreduce([1, 2], +) == [1, 2]
end

@testset "$T" for T in ALL_TYPES
    values = T[0, 1, 1]
    operators = T <: Complex ? (Hvd.SUM, +) : (Hvd.MAX, max, Hvd.SUM, +, *, min)
    constant, operator = operators[1:2]
    for op in operators
        @test Hvd.Allreduce(values, op; name="x") == values
    end
    T <: Complex && @test_throws Hvd.UnsupportedError Hvd.Allreduce(values, *)
    @test Hvd.Allreduce!(copy(values), constant) == values
    @test Hvd.Allreduce!(values, similar(values), constant) == values
    @test Hvd.Bcast(values, 0) == values
    @test Hvd.Allgather(values)::Vector{T} == values
    @test Hvd.Alltoall(values)::Vector{T} == values
    @test Hvd.Reducescatter(values, operator)::Vector{T} == values
    @test Hvd.GroupedAllreduce((values, values), operator) == (values, values)
    T === Bool || @test Hvd.Allreduce(values, Hvd.AVERAGE) == values
end

@testset "shapes" begin
    for size in ((), (0,), (3,), (2, 3), (2, 0, 3), (1, 2, 3, 4))
        array = Array{Float32}(undef, size)
        array .= 1.5
        @test Hvd.Allreduce(array, +)::typeof(array) == array
        @test Hvd.Bcast(array, 0)::typeof(array) == array
        gathered = Hvd.Allgather(array)
        @test gathered == (size == () ? [1.5f0] : array)
        size == () || @test Hvd.Reducescatter(array, +) == array
    end
    @test Hvd.Allgather(7) == [7]
    @test Hvd.Gather(7, 0) == [7]
    @test wait(Hvd.Igather([1 2; 3 4], 0)) == [1 2; 3 4]
    @test Hvd.Bcast(3, 0) === 3
    @test Hvd.Allreduce(2f0, Hvd.AVERAGE) === 2f0
end

@testset "arrays that are no Array" begin
    matrix = reshape(collect(1.0:12.0), 3, 4)
    @test Hvd.Allreduce(view(matrix, 1:2:3, :), +) == matrix[1:2:3, :]
    @test Hvd.Allreduce(1.0:3.0, +) == [1, 2, 3]
    @test Hvd.Allreduce(trues(5), max) == trues(5)
    column = view(matrix, :, 2:3)
    @test Hvd.Allreduce!(column, +; postscale=2) === column
    @test matrix[:, 2] == [8, 10, 12]
    bits = reinterpret(Hvd.BFloat16, UInt16[0x3f80, 0x4000])
    @test Float32.(Hvd.Allreduce(bits, +)) == [1, 2]
    complex = reinterpret(Float64, [1.0 + 2im])
    @test Hvd.Allreduce(complex, +) == [1, 2]
end

@testset "results into given arrays" begin
    send, recv = Float32[1 2; 3 4], zeros(Float32, 2, 2)
    @test Hvd.Allgatherv!(send, recv) === recv == send
    recv .= 0
    @test Hvd.Reducescatter!(send, recv, +) === recv == send
    recv .= 0
    @test Hvd.Alltoallv!(send, recv, [2]) == [2]
    @test recv == send
    received, splits = Hvd.Alltoallv(send, [1])
    @test received == reshape(Float32[1, 3], 2, 1)
    @test splits == [1]
end

@testset "scales" begin
    @test Hvd.Allreduce([1.0, 2.0], +; prescale=0.5, postscale=3) == [1.5, 3.0]
    @test Hvd.Reducescatter([1, 2], +; postscale=2) == [2, 4]
end

@testset "groups" begin
    arrays = [Float32[1, 2], Float32[3 4; 5 6]]
    @test Hvd.GroupedAllreduce!(arrays, +; name="group", postscale=2) === arrays == [[2, 4], [6 8; 10 12]]
    @test Hvd.GroupedAllgather(arrays) == arrays
    @test Hvd.GroupedAllgatherv!(arrays, deepcopy(arrays)) == arrays
    @test Hvd.GroupedReducescatter(arrays, +) == arrays
    @test Hvd.GroupedReducescatter!(arrays, deepcopy(arrays), +) == arrays
    @test Hvd.GroupedAllreduce((Int32[1], [2.0]), +) == (Int32[1], [2.0])
    @test_throws Hvd.InvalidArgumentError Hvd.GroupedAllreduce!(arrays, arrays[1:1], +)
    @test wait(Hvd.IgroupedAllreduce!(arrays, +)) === arrays
    @test wait(Hvd.IgroupedAllgather(arrays)) == arrays
    @test wait(Hvd.IgroupedReducescatter(arrays, +)) == arrays
end

@testset "requests" begin
    array = [1.0, 2.0]
    request = Hvd.Iallreduce!(array, +)
    @test wait(request) === array === wait(request)
    @test Hvd.test(request)
    @test repr(request) == "Hvd.Request(done)"
    @test wait([Hvd.Iallreduce(array, +), Hvd.Iallgather(array), Hvd.Ibcast!(array, 0)]) == [array, array, array]
    @test wait((Hvd.Ireducescatter(array, +), Hvd.Ireducescatter!(array, similar(array), +))) == (array, array)
    @test wait(Hvd.Iallgatherv!(array, similar(array))) == array
    @test wait(Hvd.Ialltoallv(array, [1])) == ([1.0], [1])
    @test wait(Hvd.Ibarrier()) === nothing
    @test wait(Hvd.Ijoin()) == 0
    @test Hvd.Join() == 0
end

@testset "process sets" begin
    set = Hvd.find_set(0)
    @test (Hvd.set_id(set), Hvd.set_ranks(set), Hvd.set_ids()) == (0, [0], [0])
    @test Hvd.is_member(Hvd.COMM_WORLD)
    @test_throws Hvd.AlreadyExistsError Hvd.ProcessSet([0])
    @test_throws Hvd.InvalidArgumentError Hvd.ProcessSet([1])
    @test_throws Hvd.NotFoundError Hvd.find_set(7)
    @test_throws Hvd.InvalidArgumentError Hvd.destroy!(set)
    @test repr(set) == "Hvd.ProcessSet(0: rank 0 of 1)"
end

@testset "options and metrics" begin
    table = Hvd.option_table()
    @test length(table) > 10
    @test all(option -> !isempty(option.help), table)
    names = [option.name for option in table]
    @test "op_timeout" in names
    Hvd.option!("op_timeout", 17)
    @test parse(Float64, Hvd.option("op_timeout")) == 17
    @test_throws Hvd.NotFoundError Hvd.option("no_such_option")
    @test_throws Hvd.NotFoundError Hvd.option!("no_such_option", 1)
    before = Dict(metric.name => metric.value for metric in Hvd.metrics())
    Hvd.Barrier()
    after = Dict(metric.name => metric.value for metric in Hvd.metrics())
    @test after["operations_completed"] == before["operations_completed"] + 1
    Hvd.Allreduce(ones(Float32, 10), +; name="recorded")
    sizes = only(filter(one -> one.name == "operation_size", Hvd.histograms()))
    @test occursin("operation", Hvd.metric_help("operation_size")) && Hvd.metric_help("nonsense") === nothing
    @test sizes.unit == "bytes" && sum(sizes.buckets) == sizes.count && sizes.buckets[7] >= 1
    record = last(filter(one -> one.name == "recorded", Hvd.records()))
    @test record.kind == "allreduce" && record.bytes == 40 && record.shape[1] == 10 && record.ended >= record.submitted
    @test isempty(Hvd.records(after=record.number))
    @test length(Hvd.arrivals(Hvd.COMM_WORLD, record.use)) == 1
    mktempdir() do folder
        path = joinpath(folder, "timeline.json")
        Hvd.start_timeline(path; mark_cycles=true)
        Hvd.Allreduce(ones(Float32, 10), +; name="on the timeline")
        Hvd.stop_timeline()
        @test occursin("\"on the timeline\"", read(path, String))
        @test_throws Hvd.HvdError Hvd.start_timeline(joinpath(folder, "none", "t.json"))
    end
    Hvd.Finalize()
    Hvd.Init(; options=["op_timeout" => 3])
    @test parse(Float64, Hvd.option("op_timeout")) == 3
    Hvd.Finalize()
    @test_throws Hvd.HvdError Hvd.Init(; options=Dict("no_such_option" => 1))
    @test !Hvd.Initialized()
end
Hvd.Initialized() && Hvd.Finalize()
