# SPDX-License-Identifier: Apache-2.0
# Every rank says who and where it is: `horovodrun -np 2 julia --project=bindings/julia examples/julia/hello.jl`.

import Hvd

Hvd.Init()
println("rank $(Hvd.Comm_rank()) of $(Hvd.Comm_size()) on $(gethostname())")
