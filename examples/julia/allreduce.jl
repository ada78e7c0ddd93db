# SPDX-License-Identifier: Apache-2.0
# Sums an array over all ranks, then averages it in place:
# `horovodrun -np 2 julia --project=bindings/julia examples/julia/allreduce.jl`.

import Hvd

Hvd.Init()
rank, size = Hvd.Comm_rank(), Hvd.Comm_size()
mine = fill(Float32(rank + 1), 4)

total = Hvd.Allreduce(mine, +; name="total")
println("rank $rank of $size: sum [$(join(total, ", "))]")

Hvd.Allreduce!(mine, Hvd.AVERAGE; name="mean")
println("rank $rank of $size: mean [$(join(mine, ", "))]")

expected = sum(1:size)
total == fill(expected, 4) && mine ≈ fill(expected / size, 4) || error("the sum should be $expected")
