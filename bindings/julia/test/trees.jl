# SPDX-License-Identifier: Apache-2.0
# Averaging over nested arrays. One rank with postscale 2 shows which leaves were touched.

struct Layer
    weight::Matrix{Float32}
    bias::Vector{Float32}
    activation::Function
    momentum::Float64
end

mutable struct Model
    layers::Tuple{Layer,Layer}
    steps::Vector{Int}
    next::Any
end

twice(tree) = Hvd.average_gradients!(tree; postscale=2)

Hvd.Init()

@testset "containers" begin
    @test twice([1.0, 2.0]) == [2, 4]
    @test twice(([1f0], (b=[2.0], c=nothing))) == ([2f0], (b=[4.0], c=nothing))
    @test twice((1.5, 2f0, 3, "text", :symbol, missing)) === (3.0, 4f0, 3, "text", :symbol, missing)
    @test twice((a=1.5, b=(c=Float16(1),))) === (a=3.0, b=(c=Float16(2),))
    @test twice(Dict("x" => [1.0], "y" => Dict(:z => 2.0))) == Dict("x" => [2.0], "y" => Dict(:z => 4.0))
    @test twice([[1.0], [2.0 3.0]]) == [[2.0], [4.0 6.0]]
    @test twice(Any[1.0, [2f0], nothing, Ref(3.0)])[1:2] == [2.0, [4f0]]
    @test twice(Ref([1.0]))[] == [2.0]
    @test twice(nothing) === nothing
    @test twice(()) === ()
    @test twice((Float64[], zeros(0, 3))) == (Float64[], zeros(0, 3))
end

@testset "structs by fields" begin
    layer() = Layer(ones(Float32, 2, 3), ones(Float32, 2), tanh, 0.9)
    model = Model((layer(), layer()), [3], nothing)
    model.next = model # a cycle
    @test twice(model) === model
    @test all(layer -> layer.weight == fill(2f0, 2, 3) && layer.bias == [2, 2] && layer.momentum == 0.9, model.layers)
    @test model.steps == [3]
end

@testset "an array that appears twice is averaged once" begin
    shared = [1.0]
    @test twice((shared, [shared], (x=shared,))) == ([2.0], [[2.0]], (x=[2.0],))
end

@testset "complex numbers" begin
    @test twice(([1.0 + 2im], 1f0im)) == ([2.0 + 4im], 2f0im)
end

@testset "views" begin
    matrix = ones(4, 4)
    @test twice((view(matrix, 1:2, :),))[1] == fill(2.0, 2, 4)
    @test matrix == [fill(2.0, 2, 4); ones(2, 4)]
end

@testset "what cannot be averaged is named" begin
    @test_throws Hvd.InvalidArgumentError twice(IdDict([1.0] => [2.0]))
    @test_throws Hvd.UnsupportedError twice(([ComplexF16(1)],))
    @test_throws Hvd.UnsupportedError twice(([big(1.0)],))
end

@testset "parameters of all types" begin
    tree = (w=[1.0], n=[1, 2], flags=[true], step=4)
    @test Hvd.broadcast_parameters!(tree) == tree
end

Hvd.Finalize()
