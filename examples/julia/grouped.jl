# SPDX-License-Identifier: Apache-2.0
# Reduces several arrays as one operation, and gathers arrays of different lengths:
# `horovodrun -np 2 julia --project=bindings/julia examples/julia/grouped.jl`.

import Hvd

Hvd.Init()
rank, size = Hvd.Comm_rank(), Hvd.Comm_size()
# The last dimension is the one that ranks share out: rows there are columns here.
gradients = [fill(Float32(rank), 3, columns) for columns in (1, 2, 5)]

# The group is reduced together or not at all, whatever the order in which the ranks submit other operations.
means = Hvd.GroupedAllreduce(gradients, Hvd.AVERAGE; name="gradients")
sizes = join(("($(join(reverse(Base.size(mean)), ", ")))" for mean in means), ", ")
println("rank $rank: mean of the ranks $(means[1][1, 1]), shapes [$sizes]")
all(mean -> all(mean .≈ (size - 1) / 2), means) || error("the mean should be $((size - 1) / 2)")

# Rank r brings r + 1 columns.
rows = Hvd.Allgather(fill(rank, 2, rank + 1); name="rows")
println("rank $rank: gathered $(Base.size(rows, 2)) rows, first column [$(join(rows[1, :], ", "))]")
Base.size(rows, 2) == sum(1:size) || error("there should be $(sum(1:size)) rows")

# Asynchronous: start, do something else, then wait.
request = Hvd.Iallreduce([0.0, 1.0, 2.0], +; name="later")
println("rank $rank: later [$(join(wait(request), ", "))]")
