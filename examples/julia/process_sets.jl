# SPDX-License-Identifier: Apache-2.0
# Even and odd ranks reduce apart, at the same time:
# `horovodrun -np 4 julia --project=bindings/julia examples/julia/process_sets.jl`.

import Hvd

Hvd.Init()
rank, size = Hvd.Comm_rank(), Hvd.Comm_size()
if size < 2
    println(stderr, "start this with at least 2 ranks: horovodrun -np 4 julia examples/julia/process_sets.jl")
    exit(1)
end

# Every rank makes every set, also those it is not in, in the same order.
even = Hvd.ProcessSet(0:2:size - 1)
odd = Hvd.ProcessSet(1:2:size - 1)
mine = Hvd.is_member(even) ? even : odd

total = Hvd.Allreduce(rank, +, mine; name="total")
ranks = Hvd.set_ranks(mine)
println("rank $rank is $(Hvd.Comm_rank(mine)) of $(Hvd.Comm_size(mine)) in [$(join(ranks, ", "))]: sum of the ranks $total")
total == sum(ranks) || error("the sum should be $(sum(ranks))")

Hvd.destroy!(odd)
Hvd.destroy!(even)
