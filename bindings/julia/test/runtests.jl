# SPDX-License-Identifier: Apache-2.0
# Tests of the package: in this process with one rank, then in jobs of one to three processes.
#
#     HVD_LIBRARY=…/libhvd.so.1 julia --project=bindings/julia bindings/julia/test/runtests.jl

using Test
import Hvd

include("jobs.jl")

@testset "Hvd" begin
    @testset "native" begin include("native.jl") end
    @testset "loading" begin include("loading.jl") end
    @testset "one rank" begin include("one_rank.jl") end
    @testset "arguments" begin include("arguments.jl") end
    @testset "lifetime" begin include("lifetime.jl") end
    @testset "trees" begin include("trees.jl") end
    @testset "elastic" begin include("elastic.jl") end
    @testset "$(basename(program)) on $size ranks" for program in rank_programs(), size in rank_counts(program)
        job = run_job(program, size)
        @test job.codes == zeros(size)
        all(iszero, job.codes) || print(job.text)
    end
end
