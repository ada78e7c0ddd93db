# SPDX-License-Identifier: Apache-2.0
# The conformance vectors as Julia sees them: arrays from their texts, and comparing. The file format: scripts/gen_vectors.py.

const TYPES = Dict(lowercase(string(nameof(type))) => type for (type, _) in Hvd.ELEMENTS)
const FLOATS = (Float16, Float32, Float64, Hvd.BFloat16)

# Shapes are of C's order, Julia's is the reverse.
shape_of(tensor) = Tuple(reverse(Int.(tensor["shape"])))

type_of(tensor, vector) = TYPES[get(tensor, "dtype", vector["dtype"])]

function array_of(tensor, vector)
    type, shape = type_of(tensor, vector), shape_of(tensor)
    array = Array{type}(undef, shape)
    if haskey(tensor, "fill")
        a, b, m, c = tensor["fill"]
        for i in 0:length(array) - 1
            array[i + 1] = (a * i + b) % m + c
        end
    else
        copy_bytes!(array, hex2bytes(tensor["hex"]))
    end
    return array
end

size_of(array) = length(array) * sizeof(eltype(array))

# Byte by byte: a byte that is neither 0 nor 1 is no Bool, but must reach the library as it is.
function copy_bytes!(array, bytes)
    size_of(array) == length(bytes) || error("contents do not fit the shape")
    GC.@preserve array bytes unsafe_copyto!(Ptr{UInt8}(pointer(array)), pointer(bytes), length(bytes))
    return array
end

function bytes_of(array)
    bytes = Vector{UInt8}(undef, size_of(array))
    GC.@preserve array bytes unsafe_copyto!(pointer(bytes), Ptr{UInt8}(pointer(array)), length(bytes))
    return bytes
end

include("crc32.jl")

# Floats as integers whose neighbours differ by one.
function place_on_line(value)
    bits = value isa Hvd.BFloat16 ? Int64(reinterpret(Int16, value.bits)) : line_bits(value)
    width = 8 * sizeof(value) - 1
    magnitude = bits & (Int64(2)^(width - 1) - 1 + Int64(2)^(width - 1))
    return bits < 0 ? -magnitude : magnitude
end
line_bits(value::Float16) = Int64(reinterpret(Int16, value))
line_bits(value::Float32) = Int64(reinterpret(Int32, value))
line_bits(value::Float64) = reinterpret(Int64, value)

is_negative(value) = signbit(value isa Hvd.BFloat16 ? Float32(value) : value)

function near(wanted, got, ulp)
    isnan(wanted) && isnan(got) && return true
    wanted == got && is_negative(wanted) == is_negative(got) && return true
    (isnan(wanted) || isnan(got) || ulp == 0) && return false
    return abs(place_on_line(wanted) - place_on_line(got)) <= ulp
end

# Empty, or how a result differs.
function difference(expected, vector, got)
    type, shape = type_of(expected, vector), shape_of(expected)
    if eltype(got) !== type || size(got) != shape
        return "got $(eltype(got)) $(size(got)), expected $type $shape"
    end
    bytes = bytes_of(got)
    if haskey(expected, "crc32")
        crc32(bytes) == expected["crc32"] && return ""
        return "crc32 $(crc32(bytes)), begins $(bytes2hex(bytes[1:min(end, 32)]))"
    end
    bytes2hex(bytes) == expected["hex"] && return ""
    if !(type in FLOATS) || get(vector, "bitwise", false)
        return "got $(bytes2hex(bytes)), expected $(expected["hex"])"
    end
    wanted = array_of(expected, vector)
    bad = [i for i in eachindex(wanted) if !near(wanted[i], got[i], expected["ulp"])]
    isempty(bad) && return ""
    return "elements $bad: got $(got[bad]), expected $(wanted[bad])"
end
