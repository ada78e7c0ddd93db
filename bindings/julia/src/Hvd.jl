# SPDX-License-Identifier: Apache-2.0
"""
    Hvd

Collective communication for data-parallel programs, on the engine that Horovod's Python package, C, C++, Rust and Java
use too.

    import Hvd
    Hvd.Init()
    total = Hvd.Allreduce(ones(Float32, 4), +; name="total")

Nothing is exported: names are used with the module's, as in MPI.jl.
"""
module Hvd

import Libdl

include("native.jl")
include("library.jl")
include("errors.jl")
include("dtypes.jl")
include("log.jl")
include("context.jl")
include("process_sets.jl")
include("record.jl")
include("operations.jl")
include("submit.jl")
include("collectives.jl")
include("groups.jl")
include("trees.jl")
include("elastic.jl")

function __init__()
    load_library()
    start_waker()
    atexit(close_all)
end

end
