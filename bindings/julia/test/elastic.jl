# SPDX-License-Identifier: Apache-2.0
# Training that goes on after a failure, in a job of one rank, whose members are fixed. Jobs whose ranks die are run by
# scripts/suites/elastic.py.

# An operation that fails because the job has been left.
function fail()
    set = Hvd.world(Hvd.default())
    handle = Hvd.pointer_of(Hvd.default(), "fail")
    Hvd.checked(error -> Hvd.Native.hvd_shutdown(handle, 0, error))
    Hvd.Barrier(set)
end

@testset "a failure brings back the latest commit" begin
    Hvd.Finalize()
    begun = Int[]
    result = Hvd.elastic((step=[0], rate=0.5)) do here
        push!(begun, here.state.step[1])
        while here.state.step[1] < 10
            here.state.step[1] += 1
            here.state.step[1] == 5 && length(begun) == 1 && fail()
            iseven(here.state.step[1]) && Hvd.commit!(here)
        end
        here.state
    end
    @test begun == [0, 4]
    @test result == (step=[10], rate=0.5)
    @test Hvd.Comm_size() == 1
end

@testset "the third failure without a commit is thrown" begin
    Hvd.Finalize()
    calls = 0
    train(here) = (calls += 1; calls == 2 && Hvd.commit!(here); fail())
    @test_throws Hvd.ShutDownError Hvd.elastic(train, [0])
    @test calls == 4
end

@testset "what is no failure of an operation is thrown at once" begin
    cases = [(() -> Hvd.option("nonsense"), Hvd.UsageError), (() -> error("planned"), ErrorException)]
    for (wrong, type) in cases
        Hvd.Finalize()
        calls = 0
        @test_throws type Hvd.elastic(here -> (calls += 1; wrong()), [0])
        @test calls == 1
    end
end
