# SPDX-License-Identifier: Apache-2.0
# The Julia rank of a job whose ranks are of several languages: the same operations as member.py, which explains them.

import Hvd

Hvd.Init()
const rank, size = Hvd.Comm_rank(), Hvd.Comm_size()

# This rank's input. The last dimension of an array here is the first one there.
values(T, count) = T[((rank + 1) * 7 + 3i) % 251 for i in 0:count - 1]

include(joinpath(@__DIR__, "..", "conformance", "crc32.jl"))

show_result(label, ::Nothing) = show_results(label, ())
show_result(label, array) = show_results(label, (array,))
show_result(label, arrays::Union{Tuple,Vector{<:AbstractArray}}) = show_results(label, arrays)
function show_results(label, arrays)
    bytes = Iterators.flatten(reinterpret(UInt8, vec(array)) for array in arrays)
    println("rank=$rank $label $(string(crc32(bytes); base=16, pad=8))")
    flush(stdout)
end

function alltoall(name)
    splits = [(rank + j) % 3 for j in 0:size - 1]
    return first(Hvd.Alltoallv(reshape(values(Int32, sum(splits)), 1, :), splits; name=name))
end

# In this order, because every rank waits for one before it begins the next.
const OPERATIONS = [
    "allreduce-f32-sum" => name -> Hvd.Allreduce(values(Float32, 1000) ./ 8f0, +; name=name),
    "allreduce-f64-avg" => name -> Hvd.Allreduce(values(Float64, 257) ./ 3, Hvd.AVERAGE; name=name),
    "allreduce-i64-max" => name -> Hvd.Allreduce(values(Int64, 33), max; name=name),
    "allreduce-i32-min" => name -> Hvd.Allreduce(values(Int32, 33), min; name=name),
    "allreduce-f32-product" => name -> Hvd.Allreduce(Float32[1 + (rank + i) % 3 for i in 0:4], *; name=name),
    "allreduce-f32-scaled" => name -> Hvd.Allreduce(values(Float32, 64), +; name=name, prescale=0.5, postscale=3.0),
    "grouped" => name -> Hvd.GroupedAllreduce([values(Float32, count) for count in (1, 10, 100)], +; name=name),
    "allgather-f32" => name -> Hvd.Allgather(reshape(values(Float32, 3 * (rank + 1)), 3, :); name=name),
    "broadcast-u8" => name -> Hvd.Bcast(values(UInt8, 4096), 1; name=name),
    "alltoall-i32" => alltoall,
    "reducescatter-f32" => name -> Hvd.Reducescatter(reshape(values(Float32, 2 * (2size + 1)), 2, :), +; name=name),
    "barrier" => name -> Hvd.Barrier(; name=name),
]
const AGAIN = ("allreduce-f32-sum", "allreduce-f64-avg", "allreduce-i64-max", "allgather-f32", "reducescatter-f32")

function set_of_even_ranks()
    even = Hvd.ProcessSet(0:2:size - 1)
    if Hvd.is_member(even)
        label = "set-allreduce-f64"
        show_result(label, Hvd.Allreduce(values(Float64, 100), +, even; name=label))
    end
    Hvd.destroy!(even)
end

function out_of_order()
    labels = ["async-a", "async-b"]
    start(label) = label => Hvd.Iallreduce(values(Float32, 10), +; name=label)
    requests = Dict(map(start, isodd(rank) ? reverse(labels) : labels))
    foreach(label -> show_result(label, wait(requests[label])), labels)
end

function die(victim)
    try
        Hvd.Barrier(; name="before-death")
        rank == victim && ccall(:raise, Cint, (Cint,), Base.SIGKILL)
        Hvd.Allreduce(values(Float32, 10), +; name="after-death")
    catch problem
        problem isa Hvd.HvdError || rethrow()
        println("rank=$rank error $(problem.message)")
    end
end

for (label, operation) in OPERATIONS
    show_result(label, operation(label))
end
set_of_even_ranks()
out_of_order()
for label in AGAIN
    show_result("again-$label", Dict(OPERATIONS)[label](label))
end
haskey(ENV, "HVD_TEST_DIE") && die(parse(Int, ENV["HVD_TEST_DIE"]))
println("rank=$rank done")
