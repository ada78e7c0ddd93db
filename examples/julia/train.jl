# SPDX-License-Identifier: Apache-2.0
# Trains a logistic regression, alone or with several ranks, to the same weights:
# `horovodrun -np 2 julia --project=bindings/julia examples/julia/train.jl`.
#
# Every rank has each size-th sample. In each step the ranks sum up their gradients, so that all go the same way; at the end
# rank 0 trains on all samples alone and compares.

import Hvd
using Printf

const SAMPLES, STEPS, FEATURES, RATE = 600, 200, 8, 2.0

# Between -1 and 1, and the label: whether a plane that the training must find has the sample above it.
function sample(i)
    inputs = [(i * i * 7 + i * (j + 1) * 31 + j * 57) % 199 / 99.0 - 1 for j in 0:FEATURES - 1]
    return inputs, sum(inputs[j + 1] * (j - 2.5) for j in 0:FEATURES - 1) > 0.5
end

# The gradient, and loss and correct answers, each summed over some samples.
function step(weights, samples)
    sums = (gradient=zero(weights), report=zeros(2))
    for i in samples
        inputs, above = sample(i)
        score = weights[end] + sum(inputs .* weights[1:FEATURES])
        off = 1 / (1 + exp(-score)) - above
        sums.gradient[1:FEATURES] .+= off .* inputs
        sums.gradient[end] += off
        sums.report[1] += log1p(exp(-abs(score))) + max(score, 0.0) - above * score
        sums.report[2] += (score > 0) == above
    end
    return sums
end

# Loss and share of correct answers in the last step; `together!` adds up the sums of all ranks.
function train!(weights, samples, together!)
    report = zeros(2)
    for _ in 1:STEPS
        sums = step(weights, samples)
        together!(sums)
        weights .-= RATE .* sums.gradient ./ SAMPLES
        report = sums.report ./ SAMPLES
    end
    return report
end

function main()
    Hvd.Init()
    rank, size = Hvd.Comm_rank(), Hvd.Comm_size()
    # The ranks begin differently; then all have what rank 0 has.
    weights = fill(0.01 * (rank + 1), FEATURES + 1)
    Hvd.broadcast_parameters!(weights; name="start")
    start = copy(weights)

    together!(sums) = Hvd.average_gradients!(sums; name="step", op=Hvd.SUM)
    loss, accuracy = train!(weights, rank:size:SAMPLES - 1, together!)
    good = accuracy > 0.95
    if rank == 0
        @printf("%d rank%s: loss %.6f, accuracy %.1f%%\n", size, size > 1 ? "s" : "", loss, 100 * accuracy)
        alone, _ = train!(start, 0:SAMPLES - 1, sums -> nothing)
        @printf("alone: loss %.6f\n", alone)
        good = good && abs(loss - alone) < 1e-9 && all(abs.(weights .- start) .< 1e-9)
    end
    return good ? 0 : 1
end

exit(main())
