# SPDX-License-Identifier: Apache-2.0
# Every collective, with results that differ by rank.
# ranks: 1 2 3
using Test
import Hvd

Hvd.Init()
const rank, size = Hvd.Comm_rank(), Hvd.Comm_size()
const ranks = 0:size - 1

# The conformance vectors have all types.
for T in (Int32, Float16, Hvd.BFloat16)
    mine = T[rank + 1, 2, 3]
    @test Hvd.Allreduce(mine, +; name="sum") == T.([sum(ranks .+ 1), 2size, 3size])
    @test Hvd.Allreduce(mine, max) == T.([size, 2, 3])
    @test Hvd.Allreduce(mine, min) == T.([1, 2, 3])
    @test Hvd.Bcast(mine, size - 1) == T.([size, 2, 3])
    @test Hvd.Allgather(mine[1:1]) == T.(ranks .+ 1)
end
@test Hvd.Allreduce([rank == 0, false], max) == [true, false]
@test Hvd.Allreduce(Float64[rank], Hvd.AVERAGE) == [(size - 1) / 2]
@test Hvd.Allreduce(rank, +) == sum(ranks)

# Along the last dimension, and as many columns as the rank says.
gathered = Hvd.Allgather(fill(Float32(rank), 3, rank + 1))
@test gathered == hcat((fill(Float32(r), 3, r + 1) for r in ranks)...)
recv = zeros(Float32, 3, sum(ranks .+ 1))
@test Hvd.Allgatherv!(fill(Float32(rank), 3, rank + 1), recv) === recv == gathered
offset = sum(Int[r + 1 for r in 0:rank - 1])
recv .= 0
own = view(recv, :, offset + 1:offset + rank + 1)
own .= rank
@test Hvd.Allgatherv!(own, recv) == gathered

rows = [(rank + j) % 3 for j in ranks]
received, splits = Hvd.Alltoallv(fill(Int32(rank), sum(rows)), rows)
@test splits == [(r + rank) % 3 for r in ranks]
@test received == vcat((fill(Int32(r), (r + rank) % 3) for r in ranks)...)
@test Hvd.Alltoall(collect(10rank .+ ranks)) == [10r + rank for r in ranks]
given = zeros(Int32, sum(splits))
@test Hvd.Alltoallv!(fill(Int32(rank), sum(rows)), given, rows) == splits
@test given == received

part = Hvd.Reducescatter(ones(2, 2size + 1), +)
@test part == fill(Float64(size), 2, 2 + (rank == 0))
@test Hvd.Reducescatter!(ones(size), zeros(1), +) == [size]

arrays = [fill(Float32(rank), n) for n in (1, 10, 100)]
@test Hvd.GroupedAllreduce!(arrays, +; name="group") == [fill(Float32(sum(ranks)), n) for n in (1, 10, 100)]
@test Hvd.GroupedAllgather((fill(rank, 1), fill(rank, 2))) == [collect(ranks), repeat(collect(ranks); inner=2)]

tree = (w=fill(Float64(rank), 2), b=Dict("x" => Float32(rank)))
@test Hvd.average_gradients!(tree) == (w=fill((size - 1) / 2, 2), b=Dict("x" => Float32((size - 1) / 2)))
@test Hvd.broadcast_parameters!((w=[rank, 7], n=rank), size - 1) == (w=[size - 1, 7], n=size - 1)

# Started in an order of this rank's own.
names = rank % 2 == 1 ? ["b", "a"] : ["a", "b"]
requests = Dict(name => Hvd.Iallreduce([rank + (name == "b" ? 10.0 : 0.0)], +; name=name) for name in names)
@test wait(requests["a"]) == [sum(ranks)]
@test wait(requests["b"]) == [sum(ranks) + 10size]

Hvd.Barrier()
if size > 1 && rank == 0
    @test Hvd.Allreduce([1.0], +; name="before join") == [size]
    last = Hvd.Join()
else
    size > 1 && @test Hvd.Allreduce([1.0], +; name="before join") == [size]
    size > 1 && @test Hvd.Allreduce([1.0], +; name="after join") <= [size]
    last = Hvd.Join()
end
@test last in ranks
Hvd.Finalize()
