# SPDX-License-Identifier: Apache-2.0
# Finds and loads libhvd.

const SUPPORTED_MAJOR = 1

# HVD_LIBRARY, the path of the library itself; else whatever the dynamic linker finds, else horovodrun's own, which it names.
function library_paths()
    chosen = get(ENV, "HVD_LIBRARY", "")
    isempty(chosen) || return [chosen]
    launchers = get(ENV, "HVD_LAUNCHER_LIBRARY", "")
    return isempty(launchers) ? [Native.LIBRARY] : [Native.LIBRARY, launchers]
end

# Nothing, or why the library at this path does not load.
function open_library(path)
    occursin('/', path) && !isfile(path) && return "no such file"
    try
        Libdl.dlopen(path, Libdl.RTLD_LAZY | Libdl.RTLD_GLOBAL)
        return nothing
    catch problem
        return problem isa ErrorException ? problem.msg : sprint(showerror, problem)
    end
end

# Loaded by path here, found by its name in Native: the dynamic linker knows what it has loaded by that name.
function load_library()
    tried = String[]
    for path in library_paths()
        fault = open_library(path)
        fault === nothing && return check_version(path)
        push!(tried, "$path ($fault)")
    end
    origin = isempty(get(ENV, "HVD_LIBRARY", "")) ? "HVD_LIBRARY is not set" : "HVD_LIBRARY is set"
    error("libhvd not found; $origin; tried: $(join(tried, "; ")); let HVD_LIBRARY name the file libhvd.so.1")
end

function check_version(path)
    found = Native.hvd_version()
    if found ÷ 10000 != SUPPORTED_MAJOR
        error("libhvd ($path): version $(version_of(found)) is installed, $SUPPORTED_MAJOR.x is needed")
    end
    return nothing
end

version_of(number) = VersionNumber(number ÷ 10000, number ÷ 100 % 100, number % 100)

"""
    version()

The version of the loaded library.
"""
version() = version_of(Int(Native.hvd_version()))

"""
    version_string()

The same as the library writes it.
"""
version_string() = unsafe_string(Native.hvd_version_string())

"""
    has_feature(name)

Whether this installation of the library has a feature: `"shm"`, `"tcp"`, `"gloo"`, `"mpi"`, … An unknown name is
`false`.
"""
has_feature(name::AbstractString) = Native.hvd_has_feature(name) != 0
