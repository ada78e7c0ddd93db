# SPDX-License-Identifier: Apache-2.0
"""horovod.elastic in a job of fixed members: what failed is done again, and the result is that of a run without failures."""

import numpy as np
from errors import raises

import horovod as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
STEPS = 20


def gradient(state):
    return (state.weights - np.arange(3.0)) * (RANK + 1 + state.step % 3)


def trained(faults=(), commit_every=3):
    """The weights after all steps. ``faults``: functions of the state that are called once, at the step of their index."""
    left, begun = dict(faults), []

    @hvd.elastic.run
    def train(state):
        begun.append(state.step)
        while state.step < STEPS:
            fault = left.pop(state.step, None)
            if fault is not None:
                fault(state)
            state.weights -= 0.01 * hvd.allreduce(gradient(state), op=hvd.Sum, name="gradient")
            state.step += 1
            if state.step % commit_every == 0:
                state.commit()
        return state.weights

    state = hvd.elastic.ObjectState(weights=np.full(3, float(RANK)), step=0)
    called = []
    state.register_reset_callbacks([lambda: called.append("first"), lambda: called.append("second")])
    weights = train(state)
    assert called == ["first", "second"] * (len(begun) - 1), (called, begun)
    return weights, begun


def by_itself(_state):
    if RANK == SIZE - 1:
        raise hvd.HorovodInternalError("this rank alone")


def other_shape(_state):
    hvd.allreduce(np.ones(3 + RANK), name="gradient")


def interrupt(_state):
    raise hvd.HostsUpdatedInterrupt(skip_sync=True)


def updated(state):
    state.on_hosts_updated(0, hvd.common.elastic.HostUpdateResult.added)  # the next commit interrupts


def check_goes_on():
    expected, begun = trained()
    assert begun == [0]
    assert (expected == hvd.broadcast(expected, 0)).all()
    faults = {4: by_itself, 11: other_shape if SIZE > 1 else by_itself, 13: interrupt, 16: updated}
    weights, begun = trained(faults)
    # Three steps are committed before the first failure, nine before the second; an interrupt goes back by nothing.
    assert begun == [0, 3, 9, 13, 18], begun
    assert (weights == expected).all(), (weights, expected)


def check_process_sets():
    """They are there again, for the same objects."""
    if SIZE < 3:
        return
    first, second = hvd.add_process_set([0, 1]), hvd.add_process_set([0, 2])
    numbers = first.process_set_id, second.process_set_id
    weights, begun = trained({4: by_itself})
    assert len(begun) == 2 and (first.process_set_id, second.process_set_id) == numbers
    if second.included():
        assert hvd.allreduce(np.ones(1), op=hvd.Sum, process_set=second)[0] == 2
    for each in (first, second):
        hvd.remove_process_set(each)


def check_the_same_failure_again():
    calls = []

    @hvd.elastic.run
    def train(state):
        calls.append(state.step)
        state.step += 1
        raise hvd.HorovodInternalError("at the same step")

    raises(hvd.HorovodInternalError, "at the same step", train, hvd.elastic.ObjectState(step=5))
    assert calls == [5, 5, 5], calls


def check_state():
    state = hvd.elastic.ObjectState(values=[1, 2], step=1)
    state.values.append(3)
    state.restore()
    assert state.values == [1, 2]
    state.values.append(4)
    state.save()
    state.values.append(5)
    state.restore()
    assert state.values == [1, 2, 4]
    state.step = RANK
    state.sync()
    assert state.step == 0 and state.values == [1, 2, 4]
    state.step = 7
    state.restore()
    assert state.step == 0, "sync saves"
    raises(ValueError, "commit is not a name", hvd.elastic.ObjectState, commit=1)


def check_other_errors_are_the_callers():
    @hvd.elastic.run
    def train(state):
        raise KeyError("mine")

    raises(KeyError, "mine", train, hvd.elastic.ObjectState())


for check in (check_goes_on, check_process_sets, check_the_same_failure_again, check_state, check_other_errors_are_the_callers):
    check()
    hvd.barrier()
print("elastic_numpy: ok")
