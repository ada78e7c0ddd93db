# SPDX-License-Identifier: Apache-2.0
# Which library is loaded, and what is said if there is none.

function julia(code; environment...)
    settings = merge(Dict(ENV), Dict(string(name) => value for (name, value) in environment))
    command = setenv(`$(Base.julia_cmd()) --project=$PROJECT -e $code`, settings)
    errors = Pipe()
    process = run(pipeline(ignorestatus(command); stdout=errors, stderr=errors); wait=false)
    close(errors.in)
    text = read(errors, String)
    wait(process)
    return process.exitcode, text
end

@testset "a missing library is named" begin
    missing_library = joinpath(mktempdir(), "libhvd.so.1")
    code, text = julia("import Hvd"; HVD_LIBRARY=missing_library)
    @test code == 1
    @test occursin("libhvd not found; HVD_LIBRARY is set; tried: $missing_library (no such file)", text)
end

@testset "something that is no library is named" begin
    path = joinpath(mktempdir(), "libhvd.so.1")
    write(path, "no library")
    code, text = julia("import Hvd"; HVD_LIBRARY=path)
    @test code == 1
    @test occursin("libhvd not found; HVD_LIBRARY is set; tried: $path (", text)
end

@testset "the library of horovodrun is there for want of another" begin
    code, text = julia("import Hvd; print(Hvd.version().major)"; HVD_LIBRARY="", HVD_LAUNCHER_LIBRARY=ENV["HVD_LIBRARY"])
    @test (code, text) == (0, "1")
    nowhere = joinpath(mktempdir(), "libhvd.so.1")
    code, text = julia("import Hvd"; HVD_LIBRARY=nowhere, HVD_LAUNCHER_LIBRARY=ENV["HVD_LIBRARY"])
    @test code == 1 && occursin("tried: $nowhere (no such file); let HVD_LIBRARY name", text)
end

@testset "the version" begin
    @test Hvd.version() isa VersionNumber
    @test Hvd.version().major == 1
    @test Hvd.version_string() == string(Hvd.version())
    @test Hvd.has_feature("tcp")
    @test !Hvd.has_feature("no such feature")
end

@testset "a process that never closes its context ends cleanly" begin
    code, text = julia("import Hvd; Hvd.Init(); kept = Hvd.Iallreduce!(ones(10), +); other = Hvd.Allgather(ones(3))")
    @test (code, text) == (0, "")
end
