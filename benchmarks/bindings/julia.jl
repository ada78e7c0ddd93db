# SPDX-License-Identifier: Apache-2.0
# What the Julia package adds to a call of the library: a synchronous allreduce in place on one rank, through the
# native layer's plain functions and through Hvd.Allreduce!, in turns. Prints one JSON line per size.
#
#     HVD_LIBRARY=… julia --project=bindings/julia benchmarks/bindings/julia.jl [BATCHES [CALLS]]

import Hvd
const Native = Hvd.Native

const BATCHES = length(ARGS) > 0 ? parse(Int, ARGS[1]) : 30
const CALLS = length(ARGS) > 1 ? parse(Int, ARGS[2]) : 2000

# Everything that a program in C would make once is made once here too.
struct NativeCall
    context::Ptr{Native.hvd_context}
    tensor::Base.RefValue{Native.hvd_tensor}
    options::Base.RefValue{Native.hvd_op_options}
    handle::Base.RefValue{Ptr{Native.hvd_handle}}
    error::Hvd.ErrorMemory
end

function through_native(call::NativeCall)
    status = Native.hvd_allreduce_async(call.context, call.tensor, call.tensor, call.options, call.handle, call.error)
    status == 0 || error("submit: $status")
    handle = call.handle[]
    status = Native.hvd_wait(handle, -1, call.error)
    status == 0 || error("wait: $status")
    Native.hvd_handle_free(handle)
    return nothing
end

function native_batch(call)
    began = time_ns()
    for _ in 1:CALLS
        through_native(call)
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
        tensor = Native.hvd_tensor(pointer(array), pointer(shape), 1, Native.HVD_FLOAT32, Native.HVD_CPU, 0, (0, 0))
        options = Native.hvd_op_options(; name=Base.unsafe_convert(Cstring, name))
        handle = Ref{Ptr{Native.hvd_handle}}(C_NULL)
        call = NativeCall(context.pointer, Ref(tensor), Ref(options), handle, Hvd.ErrorMemory())
        native_batch(call), api_batch(array, set) # compiles both
        pairs = [(native_batch(call), api_batch(array, set)) for _ in 1:BATCHES]
        native, api = median(first.(pairs)), median(last.(pairs))
        println("{\"language\": \"julia\", \"bytes\": $bytes, \"native_ns\": $(round(native; digits=1)), ",
                "\"api_ns\": $(round(api; digits=1))}")
    end
end

context = Hvd.Context(; rank=0, size=1, rendezvous="mem://bindings-julia")
foreach(bytes -> measure(context, bytes), (8, 4096))
close(context)
