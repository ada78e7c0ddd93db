# SPDX-License-Identifier: Apache-2.0
"""Training on parts of every batch equals training one process on whole batches, for optimizers and their company."""

import itertools

import torch

import horovod.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
ROWS, STEPS, VOCABULARY = 12, 4, 16  # rows: divisible by 1, 2, 3 and 4

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, lr=0.02),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.1),
}


class NoScaler:
    """Scales nothing."""

    def __init__(self, *_device, enabled, **_options):
        assert not enabled

    def scale(self, loss):
        return loss

    def unscale_(self, optimizer):
        pass

    def step(self, optimizer):
        optimizer.step()

    def update(self):
        pass


GradScaler = getattr(torch.amp, "GradScaler", NoScaler)  # before 2.3 PyTorch had none for the CPU


class Model(torch.nn.Module):
    """Words to a class; parts of it are used as the check asks."""

    def __init__(self, norm, sparse, dtype):
        super().__init__()
        torch.manual_seed(11)
        self.words = torch.nn.Embedding(VOCABULARY, 8, sparse=sparse, dtype=dtype)
        self.first = torch.nn.Linear(8, 10, dtype=dtype)
        self.norm = norm(10, dtype=dtype) if norm else torch.nn.Identity()
        self.last = torch.nn.Linear(10, 3, dtype=dtype)
        self.unused = torch.nn.Parameter(torch.ones(2, dtype=dtype))

    def forward(self, words):
        return self.last(torch.tanh(self.norm(self.first(self.words(words).mean(1)))))


def batch(step):
    generator = torch.Generator().manual_seed(step)
    words = torch.randint(VOCABULARY // 2, (ROWS, 3), generator=generator)
    return words, words.sum(1) % 3


def whole(tensor):
    return tensor


def part(tensor):
    rows = ROWS // SIZE
    return tensor[RANK * rows : (RANK + 1) * rows]


def train(make, own, wrap, *, norm=None, sparse=False, passes=1, clip=False, amp=None, dtype=torch.float64):
    model = Model(norm, sparse, dtype)
    optimizer = wrap(make(model.parameters()), model)
    scaler = GradScaler("cpu", enabled=amp is torch.float16, init_scale=2.0**10)
    for step in range(STEPS):
        optimizer.zero_grad()
        for micro in range(passes):
            words, classes = (own(t) for t in batch(step * passes + micro))
            with torch.autocast("cpu", dtype=amp or torch.bfloat16, enabled=amp is not None):
                loss = torch.nn.functional.cross_entropy(model(words).float() if amp else model(words), classes)
            scaler.scale(loss / passes).backward()
        if clip:
            if hasattr(optimizer, "synchronize"):
                optimizer.synchronize()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        scaler.step(optimizer)
        scaler.update()
    return model


def compare(name, tolerance, wrap_options, make=None, norm=False, **options):
    def wrap(optimizer, model):
        return hvd.DistributedOptimizer(optimizer, model.named_parameters(), **wrap_options)

    make = make or OPTIMIZERS[name]
    wanted = train(make, whole, lambda optimizer, _model: optimizer, norm=norm and torch.nn.BatchNorm1d, **options)
    found = train(make, part, wrap, norm=norm and hvd.SyncBatchNorm, **options)
    found_state, wanted_state = found.state_dict(), wanted.state_dict()
    assert found_state.keys() == wanted_state.keys()
    for key, value in wanted_state.items():
        where = f"{name} {key} {options}"
        torch.testing.assert_close(found_state[key], value, msg=lambda m, where=where: f"{where}: {m}", **tolerance)
    everywhere = hvd.allgather(torch.cat([p.detach().flatten() for p in found.parameters()])[None])
    assert torch.equal(everywhere, everywhere[:1].expand_as(everywhere)), (name, options)


EXACT = {"rtol": 1e-8, "atol": 1e-9}  # float64
SINGLE = {"rtol": 2e-4, "atol": 2e-4}  # float32 through Adam's division
HALF = {"rtol": 5e-2, "atol": 2e-2}


def check_dense():
    for name, passes, clip, norm in itertools.product(OPTIMIZERS, (1, 3), (False, True), (False, True)):
        wrap = {"backward_passes_per_step": passes, "groups": 2 if clip else None}
        compare(name, EXACT, wrap, passes=passes, clip=clip, norm=norm)


def check_passes_not_announced():
    for name in OPTIMIZERS:
        compare(name, EXACT, {}, passes=3, norm=True)


def check_sparse():
    sgd = lambda p: torch.optim.SGD(p, lr=0.1)  # noqa: E731 - without momentum, which sparse gradients cannot have
    for dense, passes in itertools.product((False, True), (1, 2)):
        wrap = {"sparse_as_dense": dense, "backward_passes_per_step": passes}
        compare("sgd sparse", EXACT, wrap, make=sgd, sparse=True, passes=passes)


def check_single_precision():
    for name in OPTIMIZERS:
        # The bias before a normalisation has no gradient but rounding errors, by which Adam would divide.
        compare(name, SINGLE, {}, dtype=torch.float32, norm=name == "sgd", clip=True)


def check_amp():
    # Matrix products of half precision round sums over the rows of a batch, so parts differ from the whole.
    sgd = lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)  # noqa: E731
    kinds = [torch.bfloat16, torch.float16]
    if GradScaler is NoScaler:
        kinds.pop()
        print(f"float16: not checked, PyTorch {torch.__version__} has no GradScaler for the CPU")
    for amp, clip in itertools.product(kinds, (False, True)):
        compare("sgd amp", HALF, {}, make=sgd, amp=amp, clip=clip, dtype=torch.float32, norm=True)


for check in (check_dense, check_passes_not_announced, check_sparse, check_single_precision, check_amp):
    check()
print("torch_training: ok")
