# SPDX-License-Identifier: Apache-2.0
"""Process sets of an elastic job of four ranks that loses some: sets with a lost member are gone, the others keep their ids.

    elastic_sets.py VICTIM ...

Each rank prints what it knows of its sets, in workers, at the beginning of every training and at the end.
"""

import os
import signal
import sys

import numpy as np

import horovod as hvd

WORKER = int(os.environ["HOROVOD_WORKER"])
VICTIMS = [int(victim) for victim in sys.argv[1:]]
low, high, odd = (hvd.ProcessSet(ranks) for ranks in ([0, 1], [2, 3], [1, 3]))
hvd.init(process_sets=[low, high])
assert hvd.add_process_set(odd) is odd


def workers(process_set):
    """The sum of 10 ** worker over the set; 'gone' if it cannot be used."""
    if not (process_set.included() or process_set.process_set_id is None):
        return None
    try:
        summed = hvd.allreduce(np.array([10**WORKER]), op=hvd.Sum, name="members", process_set=process_set)
    except ValueError as error:
        assert "is gone" in str(error), error
        return "gone"
    assert process_set.size() == len(process_set.ranks)
    return process_set.process_set_id, int(summed[0])


@hvd.elastic.run
def train(state):
    print(f"worker {WORKER} size {hvd.size()} low {workers(low)} high {workers(high)} odd {workers(odd)}", flush=True)
    while not (state.lost and hvd.size() == 4):
        if state.step == 3 and WORKER in VICTIMS:
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(np.ones(1), name="step")
        state.step, state.lost = state.step + 1, state.lost or hvd.size() < 4
        state.commit()


train(hvd.elastic.ObjectState(step=0, lost=False))
kept, lost = (low, high) if high.process_set_id is None else (high, low)
if len(VICTIMS) == 1:  # else the numbers of the ranks are those of the other set
    hvd.add_process_set(lost)
# A set of the same ranks as one that has come from earlier epochs is that one.
again = hvd.add_process_set(list(kept.ranks))
print(f"worker {WORKER} ends: kept {workers(kept)} again {workers(again)} lost {workers(lost)}", flush=True)
for process_set in (low, high):
    assert hvd.remove_process_set(process_set) == (process_set is kept or len(VICTIMS) == 1)
assert again.process_set_id is None and not hvd.remove_process_set(odd)
