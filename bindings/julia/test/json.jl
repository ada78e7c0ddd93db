# SPDX-License-Identifier: Apache-2.0
# A reader of JSON for the conformance vectors: the package has no dependencies, and its tests none but Test.

module Json

mutable struct Reader
    text::String
    place::Int
end

fault(reader, what) = error("JSON: $what at byte $(reader.place)")

"The value of a JSON text: Dict{String,Any}, Vector{Any}, String, Int, Float64, Bool or nothing."
function parse_json(text::AbstractString)
    reader = Reader(String(text), 1)
    value = read_value(reader)
    peek_byte(reader) == 0x00 || fault(reader, "text after the value")
    return value
end

# The next byte that is no white space; 0 at the end.
function peek_byte(reader)
    while reader.place <= ncodeunits(reader.text)
        byte = codeunit(reader.text, reader.place)
        byte in (0x20, 0x09, 0x0a, 0x0d) || return byte
        reader.place += 1
    end
    return 0x00
end

function expect(reader, byte)
    peek_byte(reader) == UInt8(byte) || fault(reader, "no $byte")
    reader.place += 1
end

function read_value(reader)
    byte = Char(peek_byte(reader))
    byte == '{' && return read_object(reader)
    byte == '[' && return read_array(reader)
    byte == '"' && return read_string(reader)
    for (word, value) in ("true" => true, "false" => false, "null" => nothing)
        if startswith(SubString(reader.text, reader.place), word)
            reader.place += length(word)
            return value
        end
    end
    return read_number(reader)
end

function read_object(reader)
    object = Dict{String,Any}()
    expect(reader, '{')
    while peek_byte(reader) != UInt8('}')
        isempty(object) || expect(reader, ',')
        peek_byte(reader) == UInt8('"') || fault(reader, "no name")
        name = read_string(reader)
        expect(reader, ':')
        object[name] = read_value(reader)
    end
    expect(reader, '}')
    return object
end

function read_array(reader)
    array = Any[]
    expect(reader, '[')
    while peek_byte(reader) != UInt8(']')
        isempty(array) || expect(reader, ',')
        push!(array, read_value(reader))
    end
    expect(reader, ']')
    return array
end

const ESCAPES = Dict('"' => '"', '\\' => '\\', '/' => '/', 'b' => '\b', 'f' => '\f', 'n' => '\n', 'r' => '\r', 't' => '\t')

function read_string(reader)
    expect(reader, '"')
    first = reader.place
    stop = findnext(isequal('"'), reader.text, first)
    stop === nothing && fault(reader, "a text without an end")
    # Nearly all, and the long ones: nothing to translate.
    plain = SubString(reader.text, first, prevind(reader.text, stop))
    if !occursin('\\', plain)
        reader.place = stop + 1
        return String(plain)
    end
    return read_escaped(reader)
end

function read_escaped(reader)
    result, place = IOBuffer(), reader.place
    while true
        place <= ncodeunits(reader.text) || fault(reader, "a text without an end")
        char = reader.text[place]
        place = nextind(reader.text, place)
        if char == '"'
            reader.place = place
            return String(take!(result))
        elseif char == '\\'
            char = reader.text[place]
            place = nextind(reader.text, place)
            if char == 'u'
                print(result, Char(parse(UInt16, SubString(reader.text, place, place + 3); base=16)))
                place += 4
            else
                print(result, get(() -> fault(reader, "an unknown escape"), ESCAPES, char))
            end
        else
            print(result, char)
        end
    end
end

function read_number(reader)
    found = match(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", reader.text, reader.place)
    found !== nothing && found.offset == reader.place || fault(reader, "no value")
    reader.place += length(found.match)
    whole = found.captures[1] === nothing && found.captures[2] === nothing
    return whole ? parse(Int, found.match) : parse(Float64, found.match)
end

end
