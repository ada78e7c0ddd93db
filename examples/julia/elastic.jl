# SPDX-License-Identifier: Apache-2.0
# Trains while ranks die and are replaced: `horovodrun -np 3 --min-np 1 julia --project=bindings/julia examples/julia/elastic.jl`.
# The result is the same whatever happens to the ranks; an argument of 500 makes 500 steps.

import Hvd
using Printf

const STEPS = isempty(ARGS) ? 40 : parse(Int, ARGS[1])
say(text) = (println(text); flush(stdout))
say("worker $(get(ENV, "HOROVOD_WORKER", "-")) pid $(getpid())")

function synchronize(state)
    Hvd.Bcast!(state.weights, 0; name="weights")
    Hvd.Bcast!(state.step, 0; name="step")
    return state
end

function train!(state)
    factor = 1 + state.step[1] % 3
    gradient = [(i * state.weights[i + 1] - 1) * factor for i in 0:2]
    Hvd.Allreduce!(gradient, Hvd.AVERAGE; name="gradient")
    for i in 1:3
        state.weights[i] -= 0.05 * gradient[i]
    end
    state.step[1] += 1
end

state = Hvd.elastic((weights=zeros(3), step=[0]); synchronize=synchronize) do here
    say("begins at step $(here.state.step[1])")
    while here.state.step[1] < STEPS
        train!(here.state)
        sleep(0.02)
        Hvd.commit!(here)
    end
    here.state
end

numbers = join(@sprintf(" %.9f", weight) for weight in state.weights)
bits = join(" " * string(reinterpret(UInt64, weight); base=16, pad=16) for weight in state.weights)
say("came to$numbers, bits$bits, as rank $(Hvd.Comm_rank()) of $(Hvd.Comm_size())")
