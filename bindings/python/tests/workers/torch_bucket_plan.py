# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer once gradients travel together, and how ranks find back where one of them has other gradients.

    torch_bucket_plan.py           as one of many workers of a job
    torch_bucket_plan.py session   with shutdown() and init(), alone
    torch_bucket_plan.py error     with an error that one rank alone has, alone
    torch_bucket_plan.py others    with other parameters on one rank, alone
"""

import copy
import gc
import sys

import torch
from errors import raises

import horovod.torch as hvd
from horovod.torch import _bucket

# So few gradients are several buckets, until this ends.
APART, GRADIENTS = 3, _bucket.GRADIENTS
_bucket.GRADIENTS = APART, GRADIENTS[1]
hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
TOTAL = SIZE * (SIZE + 1) / 2  # the sum of rank + 1
COUNT = 7


def parameters(count=COUNT):
    return [torch.nn.Parameter(torch.zeros(2, 3)) for _ in range(count)]


def tables(count=3):
    """Parameters whose gradients are sparse."""
    made = parameters(count)
    for parameter in made:
        parameter.rows = torch.arange(len(parameter))
    return made


def total(parameter):
    """The sum of its numbers."""
    if not hasattr(parameter, "rows"):
        return parameter.sum()
    return torch.nn.functional.embedding(parameter.rows, parameter, sparse=True).sum()


def sgd(params, **options):
    return hvd.DistributedOptimizer(torch.optim.SGD(params, lr=1.0), op=hvd.Sum, **options)


def step(optimizer, params, used=None):
    """Trains with a gradient of (rank + 1) * (place + 1) for each parameter in ``used``; checks those that all ranks have."""
    optimizer.zero_grad()
    sum(total(params[place]) * (RANK + 1) * (place + 1) for place in (range(len(params)) if used is None else used)).backward()
    optimizer.step()


def is_sum(params, factors=None):
    """Every gradient is the sum over all ranks, or ``factors[place]`` instead of the sum of rank + 1."""
    for place, parameter in enumerate(params):
        wanted = (TOTAL if factors is None else factors.get(place, TOTAL)) * (place + 1)
        found = parameter.grad.to_dense()
        torch.testing.assert_close(found, torch.full_like(parameter, wanted), msg=lambda text: f"{place}: {text}")


def buckets(optimizer):
    return [len(bucket.gradients) for bucket in optimizer._hvd.plan.buckets]


def parts(count):
    """Lengths of the buckets of so many dense gradients."""
    return ([APART] * (count // APART) + [count % APART] * (count % APART > 0)) * (SIZE > 1)


def laid_out(optimizer, params, steps=1):
    for _ in range(steps):
        step(optimizer, params)
        is_sum(params)
    dense = sum(not hasattr(parameter, "rows") for parameter in params)
    sparse = [len(params) - dense] * (dense < len(params) and SIZE > 1)
    assert buckets(optimizer) == parts(dense) + sparse, buckets(optimizer)


def check_first_steps():
    params = parameters()
    optimizer = sgd(params)
    assert buckets(optimizer) == []
    laid_out(optimizer, params)
    if SIZE > 1:
        departed = []
        collect = optimizer._hvd.collect
        optimizer._hvd.collect = lambda buckets: (departed.append(optimizer._hvd.departed), collect(buckets))[1]
        laid_out(optimizer, params, 3)
        assert departed == [3, 3, 3], departed


def check_order_of_first_rank():
    """Ranks get their gradients ready in different orders."""
    params = parameters()
    optimizer = sgd(params)
    order = list(range(COUNT)) if RANK == 0 else list(range(COUNT))[::-1]
    for _ in range(3):
        step(optimizer, params, order)
        is_sum(params)
    found = [gradient.parameter for bucket in optimizer._hvd.plan.buckets for gradient in bucket.gradients]
    wanted = params[::-1] if SIZE > 1 else []
    assert len(found) == len(wanted) and all(one is other for one, other in zip(found, wanted))


def check_missing_on_one_rank():
    params = parameters()
    optimizer = sgd(params)
    laid_out(optimizer, params)
    for _ in range(3):
        step(optimizer, params, [0, 1, 3, 4, 5, 6] if RANK == SIZE - 1 else None)
        is_sum(params, {2: TOTAL - SIZE}) if SIZE > 1 else None
        laid_out(optimizer, params)


def check_unused_on_all_ranks():
    """What nobody uses is in no bucket; where it is used after all, everybody gets to know."""
    params = parameters()
    optimizer = sgd(params)
    some = [0, 1, 2, 4, 5, 6]
    for _ in range(3):
        step(optimizer, params, some)
        assert params[3].grad is None
    assert buckets(optimizer) == parts(COUNT - 1)
    step(optimizer, params, None if RANK == 0 else some)
    is_sum(params, {3: 1})
    for _ in range(2):
        step(optimizer, params)
        is_sum(params)
    assert buckets(optimizer) == [*parts(COUNT - 1), 1] * (SIZE > 1), buckets(optimizer)


def check_frozen_meanwhile():
    params = parameters()
    optimizer = sgd(params)
    laid_out(optimizer, params)
    params[4].requires_grad_(False)
    some = [0, 1, 2, 3, 5, 6]
    for _ in range(4):
        step(optimizer, params, some)
        is_sum([params[place] for place in (0, 1, 2, 3)])
    # The others of its bucket travel together, and it alone when it is back.
    assert buckets(optimizer) == [3, 1, 2] * (SIZE > 1), buckets(optimizer)
    params[4].requires_grad_(True)
    for _ in range(6):
        step(optimizer, params)
        is_sum(params)
    assert buckets(optimizer) == [3, 1, 2, 1] * (SIZE > 1), buckets(optimizer)


def check_gradients_in_another_form():
    """Gradients that the engine cannot use where they lie travel with their bucket all the same."""
    params = parameters()
    optimizer = sgd(params)
    laid_out(optimizer, params)
    if RANK == 0:
        params[2].register_hook(lambda gradient: gradient.t().contiguous().t())
    laid_out(optimizer, params, 3)


def check_sparse_on_one_rank():
    params = parameters()
    sparse = False

    def make_sparse(parameter):
        if sparse:
            parameter.grad = parameter.grad.to_sparse(1)

    # Before the optimizer's own hook.
    params[2].register_post_accumulate_grad_hook(make_sparse)
    optimizer = sgd(params)
    laid_out(optimizer, params)
    if SIZE == 1:
        return
    sparse = RANK == 1
    raises(ValueError, "kind differs", step, optimizer, params)
    sparse = False
    laid_out(optimizer, params, 3)


def with_tables():
    """Parameters of which three have sparse gradients, laid out."""
    params = parameters(3) + tables()
    optimizer = sgd(params)
    laid_out(optimizer, params)
    return optimizer, params


def check_sparse_together():
    """Sparse gradients are one operation, and what ranks tell each other is what they always tell."""
    gc.collect()  # an optimizer that is gone on some ranks only is something to tell
    optimizer, params = with_tables()
    starts, method = [], optimizer._hvd.method
    start_sums = method.start_sums
    method.start_sums = lambda name, gradients: (starts.append(len(gradients)), start_sums(name, gradients))[1]
    reduce = optimizer._hvd.reduce
    optimizer._hvd.reduce = lambda *heard: (starts.append("differing"), reduce(*heard))[1]
    laid_out(optimizer, params, 2)
    assert starts == [3, 3] * (SIZE > 1), starts
    # Rows that only some ranks have; the last rank has none at all.
    if RANK == SIZE - 1 and SIZE > 1:
        params[4].rows = params[4].rows[:0]
    step(optimizer, params)
    is_sum(params, {4: TOTAL - SIZE} if SIZE > 1 else None)


def check_equal_indices():
    """They are added before they travel where that leaves far fewer; where it does not, that is found out in some steps only."""
    optimizer, params = with_tables()
    laid_out(optimizer, params)  # in which all indices differ
    params[3].rows = torch.tensor([0, 1, 1, 0])
    numbers = []
    for _ in range(35):
        step(optimizer, params)
        is_sum(params, {3: 2 * TOTAL})
        numbers.append(params[3].grad._nnz() // SIZE)
    assert SIZE == 1 or numbers == [4] * 30 + [2] * 5, numbers


def check_sparse_missing_on_one_rank():
    optimizer, params = with_tables()
    some = [0, 1, 2, 3, 5]
    step(optimizer, params, some if RANK == SIZE - 1 else None)
    is_sum(params, {4: TOTAL - SIZE}) if SIZE > 1 else None
    laid_out(optimizer, params, 3)
    # Nobody has it: the other two are one operation all the same.
    for _ in range(3):
        step(optimizer, params, some)
        assert params[4].grad is None
        is_sum([params[place] for place in range(4)])
    assert sorted(buckets(optimizer)) == [2, 3] * (SIZE > 1), buckets(optimizer)


def check_sparse_became_dense():
    """On one rank, which all learn of, then on all."""
    optimizer, params = with_tables()
    rows = params[5].rows
    if SIZE > 1:
        if RANK == 1:
            del params[5].rows
        raises(ValueError, "kind differs", step, optimizer, params)
        params[5].rows = rows
        laid_out(optimizer, params, 3)
    del params[5].rows
    for _ in range(4):
        step(optimizer, params)
        is_sum(params)
    assert sorted(buckets(optimizer)) == [1, 2, 3] * (SIZE > 1), buckets(optimizer)


def check_made_again():
    """Where some ranks keep the old one a little longer, and the first has copies that it never uses."""
    params = parameters()
    optimizer = sgd(params)
    laid_out(optimizer, params)
    kept = [optimizer] if RANK == 0 else []
    for _ in range(3):
        unused = copy.deepcopy(optimizer) if RANK == 0 else None
        optimizer = sgd(params)
        laid_out(optimizer, params, 2)
        del unused
    kept.clear()
    laid_out(optimizer, params, 2)


def check_more_parameters():
    params = parameters()
    optimizer = sgd(params)
    laid_out(optimizer, params)
    more = parameters(2)
    optimizer.add_param_group({"params": more})
    for _ in range(3):
        step(optimizer, params + more)
        is_sum(params + more)
    assert buckets(optimizer) == [*parts(COUNT), 2] * (SIZE > 1), buckets(optimizer)


def check_joined():
    """Who has joined learns of no layout; afterwards all begin afresh."""
    for before in (0, 1):
        params = parameters()
        optimizer = sgd(params)
        for _ in range(before):
            step(optimizer, params)
        if RANK == SIZE - 1:
            hvd.join()
        else:
            for _ in range(3):
                step(optimizer, params)
            hvd.join()
        laid_out(optimizer, params, 3)


def check_two_at_once():
    """Optimizers whose parameters have the same names, one of them with groups."""
    first, second = parameters(), parameters()
    one, two = sgd(first), sgd(second, groups=2)
    for _ in range(3):
        for optimizer, params in ((one, first), (two, second)):
            optimizer.zero_grad()
            sum(params[place].sum() * (RANK + 1) * (place + 1) for place in range(COUNT)).backward()
        one.step()
        two.step()
        is_sum(first)
        is_sum(second)
    assert buckets(one) == parts(COUNT) and sorted(buckets(two)) == [3, 4] * (SIZE > 1)


def check_process_set():
    if SIZE < 3:
        return
    half = hvd.add_process_set(list(range(0, SIZE, 2)))
    params = parameters()
    optimizer = sgd(params, process_set=half) if RANK % 2 == 0 else None
    for _ in range(3 if optimizer else 0):
        step(optimizer, params)
        is_sum(params, dict.fromkeys(range(COUNT), sum(range(1, SIZE + 1, 2))))
    if optimizer:
        assert buckets(optimizer) == parts(COUNT), buckets(optimizer)
    hvd.remove_process_set(half)


def session():
    """After shutdown() and init() other ranks may know of no layout; the buckets that are left over mean nothing."""
    optimizer, params = with_tables()
    hvd.shutdown()
    hvd.init()
    if RANK == 0:
        optimizer = sgd(params)
    step(optimizer, params)
    is_sum(params)
    laid_out(optimizer, params, 2)


def error():
    """One rank alone has an error in a round, whose operations the others wait for: all learn of it, and can begin afresh."""
    params = parameters()
    optimizer = sgd(params)
    step(optimizer, params[:1])
    reduce = optimizer._hvd.reduce

    def fail(*_arguments):
        raise MemoryError("made up")

    if RANK == 0:
        optimizer._hvd.reduce = fail
        raises(hvd.HorovodInternalError, "MemoryError: made up", step, optimizer, params)
        optimizer._hvd.reduce = reduce
    else:
        raises(hvd.HorovodShutDownError, "rank 0 (host", step, optimizer, params)
    hvd.shutdown()
    hvd.init()
    laid_out(optimizer, params, 3)


def others():
    params = parameters(COUNT + (RANK == 1))
    told = f"allreduce.noname.0.{COUNT} differs: rank 0 has none, rank 1 has [2, 3]"
    raises(hvd.HorovodMismatchError, told, step, sgd(params), params)


ALONE = {"session": session, "error": error, "others": others}
if sys.argv[1:]:
    ALONE[sys.argv[1]]()
else:
    for check in [value for name, value in list(globals().items()) if name.startswith("check_")]:
        check()
_bucket.GRADIENTS = GRADIENTS
print("torch_bucket_plan: ok")
