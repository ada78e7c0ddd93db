# SPDX-License-Identifier: Apache-2.0
# The native layer against the C numbers, and the package against the native layer.

const Native = Hvd.Native

# {name => (size, {field => offset})} of a struct of Julia.
layout_of(type) = (size=sizeof(type), offsets=Dict(field => Int(fieldoffset(type, i)) for (i, field) in enumerate(fieldnames(type))))

@testset "layouts are those of the model" begin
    for (name, layout) in pairs(Native.LAYOUTS)
        found = layout_of(getfield(Native, name))
        @test found.size == layout.size
        @test found.offsets == Dict(pairs(layout.offsets))
    end
end

# A C program that prints what its compiler does. HVD_INCLUDE_DIR is the folder of hvd/hvd.h.
function compiled_layouts(headers, compiler)
    lines = ["#include <hvd/hvd.h>", "#include <stdio.h>", "int main(void) {"]
    for (name, layout) in pairs(Native.LAYOUTS)
        push!(lines, "printf(\"$name size %zu\\n\", sizeof($name));")
        append!(lines, ["printf(\"$name $field %zu\\n\", offsetof($name, $field));" for field in keys(layout.offsets)])
    end
    folder = mktempdir()
    source, program = joinpath(folder, "layout.c"), joinpath(folder, "layout")
    write(source, join([lines; "return 0;"; "}"; ""], "\n"))
    run(`$compiler -I $headers -o $program $source`)
    return Set(readlines(`$program`))
end

@testset "layouts are those of the C compiler" begin
    headers = get(ENV, "HVD_INCLUDE_DIR", "")
    compiler = something(Sys.which("cc"), Sys.which("gcc"), Some(nothing))
    if isempty(headers) || compiler === nothing
        @info "skipped: " * (isempty(headers) ? "HVD_INCLUDE_DIR is not set" : "there is no C compiler")
    else
        mine = Set{String}()
        for name in keys(Native.LAYOUTS)
            found = layout_of(getfield(Native, name))
            push!(mine, "$name size $(found.size)")
            union!(mine, "$name $field $offset" for (field, offset) in found.offsets)
        end
        @test mine == compiled_layouts(headers, compiler)
    end
end

@testset "names and sizes are the library's" begin
    for (number, name) in Native.STATUS_NAMES
        @test unsafe_string(Native.hvd_status_name(number)) == name
    end
    for (type, number) in Hvd.ELEMENTS
        @test Native.hvd_dtype_size(number) == sizeof(type)
        julias = type <: Complex ? "complex$(8 * sizeof(type))" : lowercase(string(nameof(type)))
        @test unsafe_string(Native.hvd_dtype_name(number)) == Native.DTYPE_NAMES[number] == julias
    end
    # Dtypes that can only be moved have no type in Julia.
    @test sort(collect(setdiff(keys(Native.DTYPE_NAMES), last.(Hvd.ELEMENTS)))) == Native.HVD_BYTES:Native.HVD_UINT4
    @test sort(collect(keys(Hvd.ERROR_TYPES))) == sort([number for number in keys(Native.STATUS_NAMES) if number < 0])
end

@testset "every function of the header is reachable, or there is a reason" begin
    reasons = Dict(
        :hvd_completions_fd => "its queue would cost every operation; hvd_handle_then wakes only tasks that wait",
        :hvd_completions_pop => "see hvd_completions_fd",
        :hvd_handle_output_count => "the package knows how many results it has asked for",
        :hvd_dtype_size => "sizeof says it",
        :hvd_dtype_name => "the type's name says it",
    )
    folder = joinpath(dirname(@__DIR__), "src")
    text = join(read(joinpath(folder, file), String) for file in readdir(folder) if !(file in ("native.jl", "native_functions.jl")))
    used = Set(Symbol(found.captures[1]) for found in eachmatch(r"Native\.(hvd_\w+)\b", text))
    for name in Native.FUNCTIONS
        @test (name in used) != haskey(reasons, name)
        @test isdefined(Native, name)
    end
end

@testset "what _INIT macros say" begin
    @test Native.hvd_op_options().reduce_op == Native.HVD_SUM
    @test Native.hvd_op_options().postscale == 1.0
    @test Native.hvd_init_options().rank == -1
    @test Native.hvd_error().struct_size == 1024
    @test Native.hvd_error().rank == -1
end
