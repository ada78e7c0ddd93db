# SPDX-License-Identifier: Apache-2.0
# Runs the conformance vectors through Hvd.jl, one process per rank.
#
#     HVD_LIBRARY=… julia --project=bindings/julia tests/conformance/run_vectors.jl [FILE.json...]
#
# All files of tests/vectors by default. Each vector runs with a given output, with one that the library makes, and in place,
# where Hvd.jl has such a function. None is left out.

import Hvd

include("../../bindings/julia/test/json.jl")
include("../../bindings/julia/test/jobs.jl")
include("vectors.jl")

const TIME_LIMIT = 400 # seconds for all vectors of one size
const OPS = Dict("average" => Hvd.AVERAGE, "sum" => Hvd.SUM, "adasum" => Hvd.ADASUM, "min" => Hvd.MIN, "max" => Hvd.MAX,
                 "product" => Hvd.PRODUCT)
const FAILURES = String[]
const RUNS = Ref(0)

function load(path)
    vectors = Json.parse_json(read(path, String))["vectors"]
    isempty(vectors) && error("$path: no vectors")
    return vectors
end

# ---- one rank ----

# How a vector can run: the kinds of output that make sense for it.
function places(vector, op)
    op in ("barrier", "join") && return ["plain"]
    op == "gather" && return ["made"]
    in_place = op in ("allreduce", "broadcast", "allgather") ? ["in place"] : String[]
    # A failing one has no size that its output should have, other than its input's.
    haskey(vector, "expect_status") && return op in ("allreduce", "broadcast") ? ["given"] : ["made"]
    return op == "broadcast" ? ["made"; in_place] : ["given"; "made"; in_place]
end

function run_vector(vector, rank)
    for place in places(vector, vector["op"])
        where = "$(vector["op"]) $(vector["name"]), rank $rank of $(vector["size"]), $place"
        try
            run_once(vector, rank, place, where)
        catch problem # a bug of ours: report it, and keep the ranks in step
            push!(FAILURES, "$where: $(sprint(showerror, problem, catch_backtrace()))")
        end
        RUNS[] += 1
    end
end

function run_once(vector, rank, place, where)
    set = haskey(vector, "set") ? Hvd.ProcessSet(vector["set"]) : Hvd.COMM_WORLD
    joined = get(vector, "joined", [])
    vector["input"][rank + 1] === nothing || rank in joined || operate(vector, rank, place, set, where)
    if haskey(vector, "joined")
        last = Hvd.Join(set; name="$(vector["name"]) join")
        last in joined && push!(FAILURES, "$where: rank $last joined early but is named as the last")
    end
    if haskey(vector, "expect_status")
        total, size = Hvd.Allreduce(rank + 1.0, +; name="after $(vector["name"])"), vector["size"]
        total == size * (size + 1) / 2 || push!(FAILURES, "$where: the next operation gave $total")
    end
    set === Hvd.COMM_WORLD || Hvd.destroy!(set)
end

function operate(vector, rank, place, set, where)
    own = haskey(vector, "per_rank") ? merge(vector, vector["per_rank"][rank + 1]) : vector
    results = try
        call(own, rank, place, set, "$(vector["name"]) $place", where)
    catch problem
        problem isa Hvd.HvdError && haskey(vector, "expect_status") || rethrow()
        return check_failure(vector, problem, where)
    end
    if haskey(vector, "expect_status")
        return push!(FAILURES, "$where: expected $(vector["expect_status"]), got a result")
    end
    results === nothing && return
    expected = vector["expect"][rank + 1]
    for (index, (wanted, got)) in enumerate(zip(expected isa Vector ? expected : [expected], results))
        found = difference(wanted, vector, got)
        isempty(found) || push!(FAILURES, "$where: tensor $index: $found")
    end
end

function check_failure(vector, problem, where)
    status = Hvd.status_name(problem)
    if status != vector["expect_status"]
        push!(FAILURES, "$where: expected $(vector["expect_status"]), got $status: $(problem.message)")
    end
    for part in vector["expect_message_has"]
        occursin(part, problem.message) || push!(FAILURES, "$where: message lacks \"$part\": $(problem.message)")
    end
end

# An output of the expected size; for a vector that fails, of the input's.
function output_for(vector, rank, index, input)
    haskey(vector, "expect") || return similar(input)
    expected = vector["expect"][rank + 1]
    tensor = expected isa Vector ? expected[index] : expected
    return Array{type_of(tensor, vector)}(undef, shape_of(tensor))
end

# Calls the functions of a vector and returns its results as a list; nothing if it has none.
function call(vector, rank, place, set, name, where)
    op = vector["op"]
    op == "barrier" && return Hvd.Barrier(set; name=name)
    if op == "join"
        last = Hvd.Join(set; name=name)
        0 <= last < vector["size"] || push!(FAILURES, "$where: join returned $last")
        return nothing
    end
    given = vector["input"][rank + 1]
    reduce = OPS[get(vector, "reduce", "sum")]
    scales = (prescale=get(vector, "prescale", 1.0), postscale=get(vector, "postscale", 1.0))
    if get(vector, "grouped", false)
        inputs = AbstractArray[array_of(tensor, vector) for tensor in given]
        outputs = AbstractArray[output_for(vector, rank, i, input) for (i, input) in enumerate(inputs)]
        return call_group(op, vector, rank, inputs, outputs, place, reduce, set, (name=name, scales...))
    end
    input = array_of(given, vector)
    op == "allreduce" && return [allreduce(input, output_for(vector, rank, 1, input), place, reduce, set, (name=name, scales...))]
    op == "broadcast" && return [broadcast(input, get(vector, "root", 0), place, set, name)]
    op == "gather" && return [Hvd.Gather(input, get(vector, "root", 0), set; name=name)]
    op == "alltoall" && return alltoall(vector, rank, input, place, set, name, where)
    place == "made" && op == "allgather" && return [Hvd.Allgather(input, set; name=name)]
    place == "made" && return [Hvd.Reducescatter(input, reduce, set; name=name, scales...)]
    output = output_for(vector, rank, 1, input)
    op == "reducescatter" && return [Hvd.Reducescatter!(input, output, reduce, set; name=name, scales...)]
    place == "in place" && (input = own_part!(output, input, offset_of(vector, rank, 1)))
    return [Hvd.Allgatherv!(input, output, set; name=name)]
end

function allreduce(input, output, place, reduce, set, options)
    place == "made" && return Hvd.Allreduce(input, reduce, set; options...)
    place == "given" && return Hvd.Allreduce!(input, output, reduce, set; options...)
    return Hvd.Allreduce!(input, reduce, set; options...)
end

function broadcast(input, root, place, set, name)
    return (place == "in place" ? Hvd.Bcast! : Hvd.Bcast)(input, root, set; name=name)
end

function alltoall(vector, rank, input, place, set, name, where)
    splits = haskey(vector, "splits") ? vector["splits"][rank + 1] : nothing
    if place == "made"
        output, received = Hvd.Alltoallv(input, splits, set; name=name)
    else
        output = output_for(vector, rank, 1, input)
        received = Hvd.Alltoallv!(input, output, splits, set; name=name)
    end
    if haskey(vector, "expect_splits") && received != vector["expect_splits"][rank + 1]
        push!(FAILURES, "$where: received splits $received")
    end
    return [output]
end

function call_group(op, vector, rank, inputs, outputs, place, reduce, set, options)
    if op == "allreduce"
        place == "made" && return Hvd.GroupedAllreduce(inputs, reduce, set; options...)
        place == "given" && return Hvd.GroupedAllreduce!(inputs, outputs, reduce, set; options...)
        return Hvd.GroupedAllreduce!(inputs, reduce, set; options...)
    elseif op == "allgather"
        place == "made" && return Hvd.GroupedAllgather(inputs, set; name=options.name)
        if place == "in place"
            offsets = [offset_of(vector, rank, i) for i in eachindex(inputs)]
            inputs = AbstractArray[own_part!(outputs[i], inputs[i], offsets[i]) for i in eachindex(inputs)]
        end
        return Hvd.GroupedAllgatherv!(inputs, outputs, set; name=options.name)
    end
    place == "made" && return Hvd.GroupedReducescatter(inputs, reduce, set; options...)
    return Hvd.GroupedReducescatter!(inputs, outputs, reduce, set; options...)
end

# Elements of the gathered array before this rank's.
function offset_of(vector, rank, index)
    tensors = [input isa Vector ? input[index] : input for input in vector["input"][1:rank] if input !== nothing]
    return sum(Int[prod(shape_of(tensor)) for tensor in tensors])
end

# This rank's part of a gathered array, with the input in it.
function own_part!(output, input, offset)
    part = reshape(view(vec(output), offset + 1:offset + length(input)), size(input))
    isempty(part) || copy_bytes!(part, bytes_of(input))
    return part
end

function rank_main(size, output, files)
    Hvd.Init()
    rank = Hvd.Comm_rank()
    for file in files, vector in load(file)
        vector["size"] == size && run_vector(vector, rank)
    end
    Hvd.Finalize()
    write(output, join(["$(RUNS[])"; replace.(FAILURES, '\n' => " | ")], "\n"))
end

# ---- the driver ----

# Runs one job of `size` processes; (runs, failures).
function run_size(size, files)
    results = mktempdir()
    job = run_job(@__FILE__, size; limit=TIME_LIMIT, arguments=`--as-rank-of $size $results $files`,
                  flags=`-O0`, environment=("HOROVOD_OP_TIMEOUT" => "120",))
    runs, failures = 0, String[]
    for rank in 0:size - 1
        path = joinpath(results, "$rank")
        if job.codes[rank + 1] != 0 || !isfile(path)
            push!(failures, "rank $rank of $size: exit $(job.codes[rank + 1])")
            continue
        end
        lines = readlines(path)
        runs += parse(Int, lines[1])
        append!(failures, lines[2:end])
    end
    isempty(failures) || print(job.text)
    return runs, failures
end

function drive(files)
    vectors = collect(Iterators.flatten(map(load, files)))
    runs, failures = 0, String[]
    for size in sort(unique(vector["size"] for vector in vectors))
        more, found = run_size(size, files)
        runs += more
        append!(failures, found)
        foreach(println, found[1:min(end, 20)])
        println("$size ranks: $more runs, $(length(found)) failures")
        flush(stdout)
    end
    println("run_vectors: $(length(vectors)) vectors run, $runs runs, $(length(failures)) failures")
    return isempty(failures) && runs >= length(vectors) ? 0 : 1
end

function main(arguments)
    if length(arguments) > 3 && arguments[1] == "--as-rank-of"
        size = parse(Int, arguments[2])
        rank_main(size, joinpath(arguments[3], ENV["HOROVOD_RANK"]), arguments[4:end])
        return 0
    end
    folder = joinpath(@__DIR__, "..", "vectors")
    return drive(isempty(arguments) ? filter(endswith(".json"), readdir(folder; join=true)) : arguments)
end

exit(main(ARGS))
