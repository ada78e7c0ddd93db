# SPDX-License-Identifier: Apache-2.0
# Gradients and parameters as programs have them: arrays inside tuples, named tuples, dictionaries, vectors and structs.

# Calls `change(leaf)` for every array of numbers and every number, and puts what it returns in the leaf's place where
# that can be done; returns the tree. Containers that can change are changed, others are made anew. The order is the
# same on every rank that has the same tree. `seen` holds what has been visited: an array that appears twice is one
# leaf.
function map_leaves!(change, tree, seen::IdDict=IdDict())
    is_leaf(tree) && return visit(change, tree, seen)
    tree isa Union{Tuple,NamedTuple} && return map(part -> map_leaves!(change, part, seen), tree)
    haskey(seen, tree) && return tree
    ismutable(tree) && (seen[tree] = tree)
    return map_container!(change, tree, seen)
end

# Base has it since Julia 1.5 for values.
is_leaf(tree) = tree isa Number || (tree isa AbstractArray && eltype(tree) <: Number && isconcretetype(eltype(tree)))

function visit(change, leaf, seen::IdDict)
    leaf isa Number && return change(leaf)
    return get!(() -> change(leaf), seen, leaf)
end

function map_container!(change, array::AbstractArray, seen)
    for index in eachindex(array)
        isassigned(array, index) || continue
        old = array[index]
        new = map_leaves!(change, old, seen)
        new === old || (array[index] = new)
    end
    return array
end

function map_container!(change, table::AbstractDict, seen)
    if table isa IdDict
        throw(InvalidArgumentError("tree: an IdDict has no order that ranks could agree on; a Dict or a Vector has"))
    end
    for key in sort!(collect(keys(table)); by=key -> (string(typeof(key)), repr(key)))
        old = table[key]
        new = map_leaves!(change, old, seen)
        new === old || (table[key] = new)
    end
    return table
end

# Numbers in structs are settings (a momentum, a size) rather than gradients: they stay as they are.
function map_container!(change, object, seen)
    for index in 1:nfields(object)
        isdefined(object, index) || continue
        part = getfield(object, index)
        part isa Number || map_leaves!(change, part, seen)
    end
    return object
end

for type in (AbstractString, Symbol, Nothing, Missing, Module, Type, Task, IO, Ptr)
    @eval map_container!(change, object::$type, seen) = object
end

function map_container!(change, ref::Ref, seen)
    isassigned(ref) || return ref
    old = ref[]
    new = map_leaves!(change, old, seen)
    new === old || (ref[] = new)
    return ref
end

# Runs `exchange!` on the leaves that `wanted` names, as arrays without gaps, and puts the results back into the tree.
function exchange_leaves!(exchange!, wanted, tree)
    arrays, copies = AbstractArray[], Pair{AbstractArray,AbstractArray}[]
    map_leaves!(tree) do leaf
        wanted(leaf) || return leaf
        buffer = leaf isa Number ? fill(leaf) : is_gapless(leaf) ? leaf : copy_of(leaf)
        leaf isa AbstractArray && buffer !== leaf && push!(copies, leaf => buffer)
        push!(arrays, buffer)
        return leaf
    end
    isempty(arrays) || exchange!(arrays)
    foreach(pair -> copyto!(first(pair), last(pair)), copies)
    place = 0
    return map_leaves!(tree) do leaf
        wanted(leaf) || return leaf
        place += 1
        return leaf isa Number ? arrays[place][] : leaf
    end
end

function is_gradient(leaf)
    type = leaf isa Number ? typeof(leaf) : eltype(leaf)
    return type <: Union{AbstractFloat, Complex{<:AbstractFloat}}
end

"""
    average_gradients!(tree, set=COMM_WORLD; name="gradients", op=Hvd.AVERAGE, …)

Averages all floating and complex arrays in a nest of tuples, named tuples, dictionaries, vectors, `Ref`s and structs over the
ranks, in place and as one operation. Returns the tree; numbers in tuples, named tuples, dictionaries and vectors are
averaged too, in the returned tree. Everything else, like integers, `nothing` and numbers that are fields of structs,
stays as it is. An array that appears twice is averaged once. The tree must have the same form on every rank.
"""
function average_gradients!(tree, set::AnySet=COMM_WORLD; name::AbstractString="gradients", op=AVERAGE, options...)
    return exchange_leaves!(is_gradient, tree) do arrays
        GroupedAllreduce!(arrays, op, set; name=name, options...)
    end
end

"""
    broadcast_parameters!(tree, root=0, set=COMM_WORLD; name="parameters", …)

Gives every rank the arrays of rank `root`, of all types, so that all begin alike; the forms of trees are those of
[`average_gradients!`](@ref).
"""
function broadcast_parameters!(tree, root::Integer=0, set::AnySet=COMM_WORLD;
                               name::AbstractString="parameters", options...)
    return exchange_leaves!(leaf -> true, tree) do arrays
        requests = [Ibcast!(array, root, set; name="$name.$i", options...) for (i, array) in enumerate(arrays)]
        wait(requests)
    end
end
