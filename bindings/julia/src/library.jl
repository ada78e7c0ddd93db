# SPDX-License-Identifier: Apache-2.0
# Finds and loads libhvd.

const SUPPORTED_MAJOR = 1

# HVD_LIBRARY, the path of the library itself; else whatever the dynamic linker finds.
library_path() = get(ENV, "HVD_LIBRARY", "") |> path -> isempty(path) ? Floor.LIBRARY : path

# Loaded by path here, found by its name in Floor: the dynamic linker knows what it has loaded by that name.
function load_library()
    path = library_path()
    origin = isempty(get(ENV, "HVD_LIBRARY", "")) ? "HVD_LIBRARY is not set" : "HVD_LIBRARY is set"
    if occursin('/', path) && !isfile(path)
        error("libhvd not found; $origin; tried: $path (no such file)")
    end
    try
        Libdl.dlopen(path, Libdl.RTLD_LAZY | Libdl.RTLD_GLOBAL)
    catch problem
        reason = problem isa ErrorException ? problem.msg : sprint(showerror, problem)
        error("libhvd not found; $origin; tried: $path ($reason)")
    end
    found = Floor.hvd_version()
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
version() = version_of(Int(Floor.hvd_version()))

"""
    version_string()

The same as the library writes it.
"""
version_string() = unsafe_string(Floor.hvd_version_string())

"""
    has_feature(name)

Whether this installation of the library has a feature: `"shm"`, `"tcp"`, `"gloo"`, `"mpi"`, … An unknown name is
`false`.
"""
has_feature(name::AbstractString) = Floor.hvd_has_feature(name) != 0
