# SPDX-License-Identifier: Apache-2.0
# The last rank dies; the others get the cause, also tasks that are parked, and a new context works.
# ranks: 3
using Test
import Hvd

Hvd.Init()
const rank, size = Hvd.Comm_rank(), Hvd.Comm_size()
Hvd.Barrier()
if rank == size - 1
    # At once and without a word to the others, but with the exit code of success.
    ccall(:_exit, Cvoid, (Cint,), 0)
end
function caught(call)
    try
        call()
    catch problem
        return problem
    end
end
problems = [@async caught(() -> Hvd.Allreduce([1.0], +; name="after death $i")) for i in 1:3]
for problem in fetch.(problems)
    @test problem isa Hvd.PeerLostError && problem isa Hvd.ContextError
    @test occursin("rank $(size - 1) (host ", problem.message)
    @test problem.rank == size - 1
end
@test caught(Hvd.check) isa Hvd.PeerLostError
@test caught(() -> Hvd.Barrier()) isa Hvd.PeerLostError
Hvd.Finalize()
Hvd.Init(; rank=0, size=1, rendezvous="mem://after")
@test Hvd.Allreduce(3, +) == 3
Hvd.Finalize()
