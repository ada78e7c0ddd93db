# SPDX-License-Identifier: Apache-2.0
# Whatever is passed, the answer is an error that names it, and the next operation works.

Hvd.Init()

function refused(type, parts...; call)
    problem = try
        call()
        nothing
    catch caught
        caught
    end
    @test problem isa type
    text = problem === nothing ? "" : sprint(showerror, problem)
    for part in parts
        @test occursin(part, text)
    end
    @test Hvd.Allreduce([1, 2], +) == [1, 2]
    return problem
end

@testset "types" begin
    for array in (["a"], Any[1], [1 // 2], [Int128(1)], ComplexF16[1], [nothing], [[1.0]], ['a'])
        refused(Hvd.UnsupportedError, "allreduce: elements of type", "$(eltype(array))", "Float32";
                call=() -> Hvd.Allreduce(array, +))
    end
    refused(Hvd.UnsupportedError, "reduction sin is not offered"; call=() -> Hvd.Allreduce([1.0], sin))
    refused(Hvd.UnsupportedError, "int64"; call=() -> Hvd.Allreduce([1], Hvd.ADASUM))
    refused(Hvd.UnsupportedError, "bool"; call=() -> Hvd.Allreduce([true], Hvd.AVERAGE))
    refused(Hvd.InvalidArgumentError, "77"; call=() -> Hvd.Allreduce([1], Hvd.ReduceOp(77)))
    @test_throws MethodError Hvd.Allreduce([1], +; nme="typo")
    @test_throws MethodError Hvd.Bcast!([1], 0; prescale=2)
end

@testset "arrays with gaps cannot be written to" begin
    matrix = zeros(4, 4)
    refused(Hvd.InvalidArgumentError, "allreduce", "without gaps"; call=() -> Hvd.Allreduce!(view(matrix, 1:2, :), +))
    refused(Hvd.InvalidArgumentError, "broadcast", "BitArray"; call=() -> Hvd.Bcast!(trues(3), 0))
    refused(Hvd.InvalidArgumentError, "allgather"; call=() -> Hvd.Allgatherv!(zeros(2), 1.0:2.0))
end

@testset "sizes" begin
    refused(Hvd.InvalidArgumentError, "[3]", "[2]"; call=() -> Hvd.Allreduce!(zeros(3), zeros(2), +))
    refused(Hvd.InvalidArgumentError, "float64", "float32"; call=() -> Hvd.Allreduce!(zeros(2), zeros(Float32, 2), +))
    refused(Hvd.HvdError; call=() -> Hvd.Allgatherv!(zeros(3), zeros(2)))
    refused(Hvd.HvdError; call=() -> Hvd.Reducescatter!(zeros(3), zeros(2), +))
    refused(Hvd.InvalidArgumentError, "scalar"; call=() -> Hvd.Reducescatter(fill(1.0), +))
    refused(Hvd.InvalidArgumentError; call=() -> Hvd.Allreduce(zeros(ntuple(_ -> 1, 33)), +))
    array = zeros(4)
    refused(Hvd.InvalidArgumentError, "overlap"; call=() -> Hvd.Allreduce!(view(array, 1:3), view(array, 2:4), +))
    refused(Hvd.InvalidArgumentError; call=() -> Hvd.GroupedAllreduce!((), +))
end

@testset "alltoall's splits" begin
    refused(Hvd.InvalidArgumentError, "2 splits are given; the process set has 1 ranks";
            call=() -> Hvd.Alltoallv([1, 2], [1, 1]))
    refused(Hvd.InvalidArgumentError, "0 splits"; call=() -> Hvd.Alltoallv([1, 2], Int[]))
    refused(Hvd.InvalidArgumentError, "-1"; call=() -> Hvd.Alltoallv([1, 2], [-1]))
    refused(Hvd.InvalidArgumentError, "3"; call=() -> Hvd.Alltoallv([1, 2], [3]))
    refused(Hvd.InvalidArgumentError, "scalar"; call=() -> Hvd.Alltoall(fill(1)))
end

@testset "roots, names, times" begin
    refused(Hvd.InvalidArgumentError, "root is 1"; call=() -> Hvd.Bcast!([1], 1))
    refused(Hvd.InvalidArgumentError, "root is -1"; call=() -> Hvd.Bcast!([1], -1))
    refused(InexactError; call=() -> Hvd.Bcast!([1], 2^40))
    refused(ArgumentError, "NUL"; call=() -> Hvd.Allreduce([1], +; name="a\0b"))
    refused(Hvd.InvalidArgumentError, "4096"; call=() -> Hvd.Allreduce([1], +; name="x"^5000))
    refused(Hvd.InvalidArgumentError, "timeout is -1 s"; call=() -> Hvd.Allreduce([1], +; timeout=-1))
    @test Hvd.Allreduce([1], +; timeout=Inf, priority=3, name="naïve ∑") == [1]
    @test Hvd.Allreduce([1], +; timeout=1e-9) == [1]
end

@testset "errors" begin
    problem = refused(Hvd.InvalidArgumentError; call=() -> Hvd.Bcast!([1], 5))
    @test (problem.status, Hvd.status_name(problem)) == (-1, "HVD_ERR_INVALID_ARGUMENT")
    @test (problem.rank, problem.sys_errno) == (-1, 0)
    @test problem isa Hvd.UsageError && problem isa Hvd.HvdError
    @test startswith(sprint(showerror, problem), "Hvd.InvalidArgumentError: broadcast")
    @test_throws Hvd.HvdError Hvd.Context(; rendezvous="nonsense://x")
    @test_throws Hvd.HvdError Hvd.Context(; rank=3, size=2, rendezvous="mem://julia-wrong-rank")
    @test_throws Hvd.TimeoutError Hvd.Context(; rank=0, size=2, rendezvous="mem://julia-alone", timeout=0.2)
end

@testset "scratch memory survives errors" begin
    for i in 1:300
        try
            Hvd.Bcast!([1], 5)
        catch
        end
    end
    @test length(Hvd.CALLS) < 5
end

Hvd.Finalize()
