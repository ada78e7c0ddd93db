# SPDX-License-Identifier: Apache-2.0
"""hvd.elastic of PyTorch in a job of fixed members: weights are those of a run without failures, and each sample counts once."""

import torch
from torch.utils.data import DataLoader, TensorDataset

import horovod.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
BATCH, EPOCHS = 2, 3
SAMPLES = 12 * 2 * BATCH  # for 1 to 4 ranks nothing is left over
torch.manual_seed(5)
DATA = TensorDataset(torch.randn(SAMPLES, 4), torch.arange(SAMPLES))


def made(passes=1):
    torch.manual_seed(RANK)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3), torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    return model, hvd.DistributedOptimizer(optimizer, model.named_parameters(), backward_passes_per_step=passes)


class Ledger:
    """Which samples all ranks have used in the steps that were committed."""

    def __init__(self):
        self.committed, self.since = [], []

    def used(self, numbers):
        self.since += hvd.allgather(numbers).tolist()

    def commit(self):
        self.committed += self.since
        self.since = []


def trained(faults=(), passes=1):
    """The model after all epochs, and the ledger. ``faults``: functions of the place that they are called at once, by (epoch, step)."""
    left, ledger, begun = dict(faults), Ledger(), []
    model, optimizer = made(passes)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    sampler = hvd.elastic.ElasticSampler(DATA, seed=3)
    loader = DataLoader(DATA, batch_size=BATCH, sampler=sampler)

    @hvd.elastic.run
    def train(state):
        begun.append((state.epoch, state.batch))
        ledger.since = []
        while state.epoch < EPOCHS:
            for inputs, numbers in loader:
                optimizer.zero_grad()
                fault = left.pop((state.epoch, state.batch), None)
                loss = model(inputs).square().mean()
                if fault is not None:
                    fault(model, loss)
                loss.backward()
                if passes == 2:
                    model(inputs).square().mean().backward()
                optimizer.step()
                ledger.used(numbers)
                sampler.record_batch(state.batch, BATCH)
                state.batch += 1
                if state.batch % 2 == 0:
                    state.commit()
                    ledger.commit()
            scheduler.step()
            state.epoch, state.batch = state.epoch + 1, 0
            sampler.set_epoch(state.epoch)
            state.commit()
            ledger.commit()
        return model

    # The scheduler has a state_dict, but no handler: what it says is an object among others.
    hvd.elastic.state.set_handler_registry([*REGISTRY, (torch.optim.lr_scheduler.LRScheduler, SchedulerHandler)])
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, scheduler=scheduler, epoch=0, batch=0)
    assert state.model is model and state.sampler is sampler
    train(state)
    return model, ledger, begun


class SchedulerHandler(hvd.elastic.state.StateHandler):
    """A handler of a program's own."""

    def __init__(self, value):
        super().__init__(value)
        self.save()

    def save(self):
        self._saved = dict(self.value.state_dict())

    def restore(self):
        self.value.load_state_dict(dict(self._saved))

    def sync(self):
        self.value.load_state_dict(hvd.broadcast_object(self.value.state_dict(), 0))
        self.save()


REGISTRY = list(hvd.elastic.state.get_handler_registry())


def before_backward(_model, _loss):
    if RANK == SIZE - 1:
        raise hvd.HorovodInternalError("this rank alone, before backward")


def within_backward(model, loss):
    """Some gradients are on their way, on some ranks."""
    if RANK == 0:

        def fail(_gradient):
            raise hvd.HorovodInternalError("this rank alone, within backward")

        loss.register_hook(lambda gradient: gradient)
        handle = model[0].weight.register_hook(fail)
        try:
            loss.backward()
        finally:
            handle.remove()


def after_backward(_model, loss):
    loss.backward(retain_graph=True)
    if RANK == SIZE - 1:
        raise hvd.HorovodInternalError("this rank alone, after backward")


def check_goes_on(passes):
    expected, ledger, begun = trained(passes=passes)
    assert begun == [(0, 0)]
    every_epoch = sorted(ledger.committed)
    assert every_epoch == sorted(EPOCHS * list(range(SAMPLES)))
    faults = {(0, 3): before_backward, (1, 1): within_backward, (1, 4): after_backward, (2, 0): before_backward}
    model, ledger, begun = trained(faults, passes)
    assert len(begun) == 5 and begun[0] == (0, 0) and begun[1] == (0, 2), begun
    for name, value in model.state_dict().items():
        # To rounding: which gradients travel together depends on when they get ready, and with that the order of a sum of three.
        torch.testing.assert_close(value, expected.state_dict()[name])
    assert sorted(ledger.committed) == every_epoch


def check_sampler():
    """Rows that are left are dealt out evenly, some twice at the end of an epoch only."""
    sampler = hvd.elastic.ElasticSampler(range(2 * SIZE + 1), shuffle=False)
    assert len(sampler) == 3 and len(list(sampler)) == 3
    assert list(sampler)[:2] == [RANK, RANK + SIZE]
    sampler.record_batch(0, 2)
    assert len(list(sampler)) == 3, "dealt out when the epoch began"
    again = hvd.elastic.ElasticSampler(range(2 * SIZE + 1), shuffle=False)
    again.load_state_dict(sampler.state_dict())
    assert list(again) == [2 * SIZE]
    again.record_batch(0, 2)
    assert again.processed_num == 2 * SIZE + 1
    again.reset()
    assert list(again) == [] and len(again) == 0
    shuffled = [list(hvd.elastic.ElasticSampler(range(100), seed=seed)) for seed in (0, 0, 1)]
    assert shuffled[0] == shuffled[1] != shuffled[2]


def check_values_that_are_assigned():
    model, _optimizer = made()
    state = hvd.elastic.TorchState(model=model, step=1)
    other, _ = made()
    state.model = other
    with torch.no_grad():
        other[0].weight += 1
    saved = other[0].weight - 1
    state.restore()
    assert torch.allclose(other[0].weight, saved)


check_goes_on(1)
check_goes_on(2)
check_sampler()
check_values_that_are_assigned()
print("elastic_torch: ok")
