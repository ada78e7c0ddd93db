# SPDX-License-Identifier: Apache-2.0
# Process sets, and errors that every rank gets.
# ranks: 2 3
using Test
import Hvd

Hvd.Init()
const rank, size = Hvd.Comm_rank(), Hvd.Comm_size()

function caught(call)
    try
        call()
    catch problem
        return problem
    end
end

even = Hvd.ProcessSet(0:2:size - 1)
odd = Hvd.ProcessSet(1:2:size - 1)
mine = iseven(rank) ? even : odd
@test Hvd.set_ranks(even) == collect(0:2:size - 1)
@test Hvd.is_member(mine) && !Hvd.is_member(iseven(rank) ? odd : even)
@test Hvd.Comm_rank(mine) == rank ÷ 2
@test sort(Hvd.set_ids()) == [0, 1, 2]
@test Hvd.set_ranks(Hvd.find_set(Hvd.set_id(odd))) == Hvd.set_ranks(odd)
@test Hvd.Allreduce([rank], +, mine; name="total") == [sum(Hvd.set_ranks(mine))]
@test Hvd.Bcast(rank, first(Hvd.set_ranks(mine)), mine) == first(Hvd.set_ranks(mine))
@test caught(() -> Hvd.Barrier(iseven(rank) ? odd : even)) isa Hvd.UsageError
Hvd.Barrier()
Hvd.destroy!(odd)
Hvd.destroy!(even)
@test Hvd.set_id(even) == -1
@test caught(() -> Hvd.Allreduce([1], +, even)) isa Hvd.InvalidStateError
@test repr(even) == "Hvd.ProcessSet(destroyed)"

problem = caught(() -> Hvd.Allreduce(zeros(rank == 0 ? Float32 : Float64, 3), +; name="types"))
@test problem isa Hvd.MismatchError
@test occursin("allreduce \"types\": dtype differs: rank 0 float32, ", problem.message)
problem = caught(() -> Hvd.Allreduce(zeros(2 + rank, 5), +; name="sizes"))
@test problem isa Hvd.MismatchError
@test occursin("rank 0 [5, 2], rank 1 [5, 3]", problem.message)
problem = caught(() -> wait(Hvd.Iallreduce!(zeros(Int, 3), rank == 0 ? (+) : min; name="op")))
@test problem isa Hvd.MismatchError && occursin("rank 0 sum", problem.message)
@test Hvd.Allreduce(1, +) == size

# In flight twice under one name: the second is refused, the first lives on. The others come when that has been seen.
if rank == 0
    request = Hvd.Iallreduce!([1.0], +; name="twice")
    again = caught(() -> Hvd.Iallreduce!([1.0], +; name="twice"))
    @test again isa Hvd.AlreadyExistsError && occursin("twice", again.message)
    Hvd.Barrier(; name="seen")
    @test wait(request) == [size]
else
    Hvd.Barrier(; name="seen")
    @test Hvd.Allreduce([1.0], +; name="twice") == [size]
end

# A rank that does not come is named.
if rank == 0
    late = caught(() -> Hvd.Allreduce([1.0], +; name="late", timeout=0.3))
    @test late isa Hvd.TimeoutError && occursin("missing ranks 1", late.message)
end
Hvd.Barrier()
Hvd.Finalize()
