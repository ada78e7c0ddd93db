# SPDX-License-Identifier: Apache-2.0
"""Random training programs on the ranks of a job, each against one process on the joined batch.

Every rank runs both: its part of the data as a rank, and all of the data alone. After each step that an optimizer makes, the
parameters and rates must be the same to rounding; or the program, if it is one that may fail, ends with an error that
says something on all ranks. Arguments: seed, first number, how many, and the kinds of programs (with commas; all without).
"""

import faulthandler
import itertools
import os
import sys
import threading
import time
import warnings

import torch
from training_programs import KINDS, Program
from training_run import Run

import horovod.torch as hvd

LIMIT = 30  # seconds for one program, which takes about 50 ms
FAILED_IN_WORDS = (ValueError, RuntimeError)  # HorovodInternalError is one
COMPARED = ("step", "scaled_step", "closure", "schedule")
hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
SETS = {}


def distribute(program, set_of_program):
    def wrap(optimizer, model, given):
        mine = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        names = {parameter: name for name, parameter in model.named_parameters()}
        named = [(names[parameter], parameter) for parameter in mine] if given["named"] else None
        groups = None if program.sparse else [mine[: len(mine) // 2]] if given["groups"] == "half" else given["groups"]
        return hvd.DistributedOptimizer(
            optimizer,
            named,
            op=hvd.Average if program.average else hvd.Sum,
            backward_passes_per_step=given["passes"],
            groups=groups,
            gradient_predivide_factor=given["predivide"],
            sparse_as_dense=given["sparse_as_dense"],
            process_set=set_of_program,
        )

    return wrap


def spread(run):
    hvd.broadcast_parameters(run.model.state_dict(), 0)
    for optimizer, original, given in zip(run.optimizers, run.originals, run.program.optimizers):
        hvd.broadcast_optimizer_state(original if given["through"] == "original" else optimizer, 0)


def train(program):
    """What went wrong and where, or two empty texts; and whether it is an error that the library raised."""
    members = program.members or list(range(SIZE))
    taking_part = RANK in members
    mine = SETS[tuple(members)] if program.members else hvd.global_process_set
    alone = Run(program, members if taking_part else [RANK])
    try:
        rank = Run(program, [RANK], RANK, distribute(program, mine), spread)
    except FAILED_IN_WORDS as error:
        return _told("the beginning", error), True
    for number, step in enumerate(program.steps):
        begun = f"step {number} {step}"
        alone.do(step)
        try:
            rank.do(step)
        except FAILED_IN_WORDS as error:
            return _told(begun, error), True
        wrong = rank.difference(alone) if step[0] in COMPARED else ""
        if wrong:
            print(f"program {program.number}: rank {RANK}: {begun}: {wrong}", flush=True)  # other ranks may wait for this one now
            return f"{begun}: {wrong}", False
    return "", False


def _told(begun, error):
    return f"{begun}: {type(error).__name__}: {error}"


def watched(program):
    def end():
        sys.stderr.write(f"program {program.number} of seed {program.seed}: rank {RANK} waits for longer than {LIMIT} s\n")
        faulthandler.dump_traceback(all_threads=True)
        os._exit(9)

    timer = threading.Timer(LIMIT, end)
    timer.daemon = True
    timer.start()
    try:
        return train(program)
    finally:
        timer.cancel()


def judge(program, found):
    """All ranks compare what they found. Text of a failure, else "", and whether the program ended with an error."""
    text, raised = found
    code = torch.tensor([2 if raised else 1 if text else 0])
    most = hvd.allreduce(code, op=hvd.Max, name="most").item()
    if not most:
        return "", False
    everybody = hvd.allgather_object((text, raised), name="everybody")
    members = program.members or range(SIZE)
    inside = [everybody[rank] for rank in members]
    if program.may_fail and all(raised for _text, raised in inside) and all(len(text) > 40 for text, _raised in inside):
        return "", True
    return "\n".join(f"  rank {rank}: {text or 'right'}" for rank, (text, _raised) in enumerate(everybody)), True


def main(seed, first, count, chosen=""):
    warnings.filterwarnings("ignore", "Detected call of `lr_scheduler.step")  # where a GradScaler skips the first step
    kinds = set(chosen.split(",")) if chosen else set(KINDS)
    if not hasattr(torch.amp, "GradScaler"):
        kinds.discard("scaler")
    if SIZE > 2:
        for pair in itertools.combinations(range(SIZE), 2):
            SETS[pair] = hvd.add_process_set(list(pair))
    failed, errors, start = 0, 0, time.monotonic()
    for number in range(int(first), int(first) + int(count)):
        program = Program(int(seed), number, SIZE, kinds)
        if RANK == 0:
            print(f"begins {number}", flush=True)
        wrong, ended = judge(program, watched(program))
        errors += ended
        if wrong:
            failed += 1
            if RANK == 0:
                print(f"WRONG {program}\n{wrong}", flush=True)
    for pair in SETS.values():
        hvd.remove_process_set(pair)
    took = time.monotonic() - start
    if RANK == 0:
        print(f"{count} programs, {SIZE} ranks: {failed} wrong, {errors} ended with an error, {took:.0f} s", flush=True)
    if failed:
        sys.exit(1)
    print("random_trainings: ok")


main(*sys.argv[1:])
