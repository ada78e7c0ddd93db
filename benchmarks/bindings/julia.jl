# SPDX-License-Identifier: Apache-2.0
# What the Julia package adds to a call of the library: a synchronous allreduce in place on one rank, through the
# floor's plain functions and through Hvd.Allreduce!, in turns. Prints one JSON line per size.
#
#     HVD_LIBRARY=… julia --project=bindings/julia benchmarks/bindings/julia.jl [BATCHES [CALLS]]

import Hvd
const Floor = Hvd.Floor

const BATCHES = length(ARGS) > 0 ? parse(Int, ARGS[1]) : 30
const CALLS = length(ARGS) > 1 ? parse(Int, ARGS[2]) : 2000

# Everything that a program in C would make once is made once here too.
struct FloorCall
    context::Ptr{Floor.hvd_context}
    tensor::Base.RefValue{Floor.hvd_tensor}
    options::Base.RefValue{Floor.hvd_op_options}
    handle::Base.RefValue{Ptr{Floor.hvd_handle}}
    error::Hvd.ErrorMemory
end

function through_floor(call::FloorCall)
    status = Floor.hvd_allreduce_async(call.context, call.tensor, call.tensor, call.options, call.handle, call.error)
    status == 0 || error("submit: $status")
    handle = call.handle[]
    status = Floor.hvd_wait(handle, -1, call.error)
    status == 0 || error("wait: $status")
    Floor.hvd_handle_free(handle)
    return nothing
end

function floor_batch(call)
    began = time_ns()
    for _ in 1:CALLS
        through_floor(call)
    end
    return (time_ns() - began) / CALLS
end

function api_batch(array, set)
    began = time_ns()
    for _ in 1:CALLS
        Hvd.Allreduce!(array, Hvd.SUM, set; name="gradient")
    end
    return (time_ns() - began) / CALLS
end

median(values) = sort(values)[(end + 1) ÷ 2]

function measure(context, bytes)
    array, set, name, shape = zeros(Float32, bytes ÷ 4), Hvd.world(context), "gradient", Int64[bytes ÷ 4]
    GC.@preserve array name shape begin
        tensor = Floor.hvd_tensor(pointer(array), pointer(shape), 1, Floor.HVD_FLOAT32, Floor.HVD_CPU, 0, (0, 0))
        options = Floor.hvd_op_options(; name=Base.unsafe_convert(Cstring, name))
        handle = Ref{Ptr{Floor.hvd_handle}}(C_NULL)
        call = FloorCall(context.pointer, Ref(tensor), Ref(options), handle, Hvd.ErrorMemory())
        floor_batch(call), api_batch(array, set) # compiles both
        pairs = [(floor_batch(call), api_batch(array, set)) for _ in 1:BATCHES]
        floor, api = median(first.(pairs)), median(last.(pairs))
        println("{\"language\": \"julia\", \"bytes\": $bytes, \"floor_ns\": $(round(floor; digits=1)), ",
                "\"api_ns\": $(round(api; digits=1))}")
    end
end

context = Hvd.Context(; rank=0, size=1, rendezvous="mem://bindings-julia")
foreach(bytes -> measure(context, bytes), (8, 4096))
close(context)
