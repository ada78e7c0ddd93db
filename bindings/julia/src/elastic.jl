# SPDX-License-Identifier: Apache-2.0
# Training that goes on after a failure; docs/elastic.md says what a job can go on after.

const MOST_FAILURES = 3

# Leaves a training function whose commit has found that members are about to come or go.
struct MembersChanged <: Exception end
Base.showerror(io::IO, ::MembersChanged) =
    print(io, "the members of the job change; let this exception leave the training function")

"""
    Elastic

One call of a training that [`elastic`](@ref) goes on with: `state` is what the training changes, [`commit!`](@ref) keeps it.
"""
mutable struct Elastic{T}
    state::T
    committed::T
    commits::Int64 # of the whole job; -1 until this process has a state of it
end

"""
    elastic(train, state; synchronize=broadcast_parameters!, options=())

Joins the job and calls `train(here)` with an [`Elastic`](@ref), again and again, each time as a member of the job's next epoch,
until `train` returns; gives what it returns, and stays in the job. Under `horovodrun --min-np` other ranks may die, leave and
come meanwhile; in a job of fixed members `train` begins again after an operation that failed.

    Hvd.elastic((weights=zeros(3), step=[0])) do here
        while here.state.step[1] < 100
            train_step!(here.state)
            Hvd.commit!(here)
        end
    end

`here.state` is the state. A commit keeps a `deepcopy`; `synchronize(state)` gives all ranks the values of rank 0, and returns the
state that has them. A failed operation brings back the latest commit. The third failure in a row without a commit in between is
thrown, except for ranks that died, which the launcher counts. A process that has no place in the job any more ends here, with exit
code 0. `options` are those of [`Init`](@ref).
"""
function elastic(train, state; synchronize=broadcast_parameters!, options=())
    here = Elastic(state, deepcopy(state), Int64(-1))
    failures, commits_at_failure = 0, here.commits
    while true
        join_epoch(here.commits, options)
        try
            take_over!(here, synchronize)
            return train(here)
        catch problem
            if !(problem isa MembersChanged)
                problem isa Union{OperationError,ProcessSetError,ContextError} || rethrow()
                here.commits == commits_at_failure || (failures = 0)
                commits_at_failure = here.commits
                lost = problem isa PeerLostError
                lost && is_elastic() || (failures += 1)
                failures < MOST_FAILURES && (!lost || is_elastic()) || rethrow()
                here.state = deepcopy(here.committed)
            end
        end
        try
            Finalize()
        catch problem
            problem isa HvdError || rethrow() # the job is over, whatever became of it
        end
    end
end

"""
    commit!(here::Elastic)

Keeps a copy of the state, to which a failure from now on goes back. All ranks commit after the same steps. If members are about
to come or go, the training is left by an exception, and called again.
"""
function commit!(here::Elastic)
    here.committed = deepcopy(here.state)
    here.commits += 1
    members = membership()
    members.epoch == 0 && return nothing
    changes = (members.removed ? Native.HVD_MEMBERS_REMOVED : 0) | (members.added ? Native.HVD_MEMBERS_ADDED : 0)
    # Every language does the same, so that ranks of several languages can be one job.
    Allreduce!(Int32[changes], max; name="hvd.elastic.commit") == [0] || throw(MembersChanged())
    return nothing
end

# Whether the launcher of this process lets ranks come and go.
is_elastic() = !isempty(get(ENV, "HOROVOD_MEMBERSHIP", ""))

function join_epoch(commits, options)
    while true
        try
            return Init(; options=(options..., "membership_position" => commits))
        catch problem
            problem isa DismissedError && problem.sys_errno == 0 && exit(0)  # in order, and not expelled
            # Where another member has ended on its way, the launcher knows, and decides anew.
            problem isa Union{PeerLostError,ShutDownError,TimeoutError} && is_elastic() || rethrow()
        end
    end
end

function take_over!(here::Elastic, synchronize)
    members = membership()
    members.synchronize || members.epoch == 0 || return nothing
    here.state = synchronize(here.state)
    here.commits = Bcast!(Int64[max(0, here.commits)], 0; name="hvd.elastic.commits")[1]
    here.committed = deepcopy(here.state)
    return nothing
end
