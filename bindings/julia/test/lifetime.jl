# SPDX-License-Identifier: Apache-2.0
# Buffers, requests and contexts under garbage collection.

# Reads its log only after all collections, so that nothing but the package keeps what is in flight.
function drop_requests(set, count)
    for i in 1:count
        Hvd.Iallreduce!(fill(Float64(i), 1000), +, set; name="dropped $i")
    end
end

@testset "dropped requests" begin
    context = Hvd.Init()
    drop_requests(Hvd.COMM_WORLD, 50)
    for _ in 1:3
        GC.gc()
    end
    Hvd.Barrier()
    deadline = time() + scaled(10)
    while Hvd.sweep() + length(Hvd.KEPT) > 0 && time() < deadline
        GC.gc()
        yield()
    end
    @test isempty(Hvd.KEPT)
    Hvd.Finalize()
end

@testset "collections while operations run" begin
    Hvd.Init()
    for round in 1:20
        arrays = [fill(Float32(i), 500 * i) for i in 1:10]
        requests = [Hvd.Iallreduce!(array, +; name="r$i") for (i, array) in enumerate(arrays)]
        garbage = [zeros(1000) for _ in 1:100]
        round % 5 == 0 ? GC.gc() : GC.gc(false)
        @test all(all(==(Float32(i)), result) for (i, result) in enumerate(wait(requests)))
    end
    for _ in 1:200
        gathered = Hvd.Allgather(rand(Float32, 1000))
        @test length(gathered) == 1000
    end
    @test isempty(Hvd.KEPT)
    Hvd.Finalize()
end

@testset "contexts that nobody closes" begin
    make() = (Hvd.Context(; rank=0, size=1, rendezvous="mem://julia-dropped"); nothing)
    make()
    for _ in 1:3
        GC.gc()
        sleep(0.01)
    end
    @test count(ref -> ref.value !== nothing && isopen(ref.value), Hvd.OPEN) == 0
end

@testset "requests outlive their context" begin
    Hvd.Init()
    array = ones(1000)
    requests = [Hvd.Iallreduce!(array, copy(array), +; name="late $i") for i in 1:20]
    Hvd.Finalize()
    outcomes = map(requests) do request
        try
            wait(request)
        catch problem
            problem
        end
    end
    @test all(outcome -> outcome == array || outcome isa Hvd.ShutDownError, outcomes)
    @test all(Hvd.test, requests)
    @test isempty(Hvd.KEPT)
end

@testset "sets outlive their context" begin
    Hvd.Init()
    set = Hvd.find_set(0)
    Hvd.Finalize()
    set = nothing
    GC.gc()
    @test !Hvd.Initialized()
end
