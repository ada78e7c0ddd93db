# SPDX-License-Identifier: Apache-2.0
"""SyncBatchNorm on the parts equals BatchNorm of one process on the whole."""

import torch
from errors import raises

import horovod.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
CHANNELS = 3
PLAIN = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d, 5: torch.nn.BatchNorm3d}
# Half precision: inputs, outputs and gradients are rounded to it, everything between is float32.
TOLERANCE = {
    torch.float64: {"rtol": 1e-9, "atol": 1e-10},
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
    torch.bfloat16: {"rtol": 1.6e-2, "atol": 1e-2},
    torch.float16: {"rtol": 2e-3, "atol": 2e-3},
}


def rows_of(rank, kind):
    """Equal parts, different ones, and a rank without any rows."""
    return {"even": 4, "uneven": 2 + 3 * rank, "empty": 0 if rank == 1 else 5}[kind]


def randomised(module, seed=1):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in module.parameters():
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.5 + 1)
    return module


def data(kind, shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    counts = [rows_of(r, kind) for r in range(SIZE)]
    whole = torch.randn((sum(counts), CHANNELS, *shape), generator=generator, dtype=torch.float64) * 3 + 7
    start = sum(counts[:RANK])
    return whole.to(dtype), slice(start, start + counts[RANK])


def close(found, wanted, dtype):
    torch.testing.assert_close(found, wanted, **TOLERANCE[dtype])


def compare(kind, shape, dtype, parameter_dtype, **options):
    sync = randomised(hvd.SyncBatchNorm(CHANNELS, dtype=parameter_dtype, **options))
    # The reference sees the same rounded numbers, and computes with them in float64.
    plain = PLAIN[2 + len(shape)](CHANNELS, dtype=torch.float64, **options)
    plain.load_state_dict(sync.state_dict())
    for step in range(3):
        whole, part = data(kind, shape, dtype, step)
        upstream, _part = data(kind, shape, dtype, 100 + step)
        x = whole[part].clone().requires_grad_()
        every = whole.double().requires_grad_()
        y, wanted = sync(x), plain(every)
        assert y.dtype == dtype and y.shape == x.shape
        close(y.double(), wanted[part], dtype)
        sync.zero_grad()
        plain.zero_grad()
        y.backward(upstream[part])
        wanted.backward(upstream.double())
        close(x.grad.double(), every.grad[part], dtype)
        for found, expected in zip(sync.parameters(), plain.parameters()):
            total = hvd.allreduce(found.grad.double(), op=hvd.Sum)
            torch.testing.assert_close(total, expected.grad, rtol=1e-4, atol=1e-4)
        for (name, found), (_name, expected) in zip(sync.named_buffers(), plain.named_buffers()):
            torch.testing.assert_close(found.double(), expected.double(), rtol=2e-5, atol=1e-5, msg=name)
    sync.eval()
    plain.eval()
    whole, part = data(kind, shape, dtype, 50)
    close(sync(whole[part]).double(), plain(whole.double())[part], dtype)


def has_half_batch_norm():
    try:
        torch.nn.BatchNorm1d(2).eval()(torch.ones(2, 2, dtype=torch.float16))
    except RuntimeError as error:
        print(f"float16: not checked, PyTorch {torch.__version__}: {error}")
        return False
    return True


def check_equality():
    for kind in ("even", "uneven", "empty"):
        compare(kind, (5, 2), torch.float32, torch.float32)
    compare("uneven", (), torch.float64, torch.float64)
    compare("uneven", (4,), torch.float32, torch.float32, momentum=None, eps=1e-3)
    compare("uneven", (2, 2, 2), torch.float32, torch.float32, affine=False)
    compare("uneven", (5, 2), torch.bfloat16, torch.float32)
    if has_half_batch_norm():
        compare("uneven", (5, 2), torch.float16, torch.float32)
    compare("uneven", (5, 2), torch.float32, torch.float32, momentum=0.3)


def check_without_running_statistics():
    """Then evaluation uses the statistics of the batches, too."""
    whole, part = data("uneven", (4,), torch.float32, 1)
    sync = hvd.SyncBatchNorm(CHANNELS, track_running_stats=False).eval()
    plain = torch.nn.BatchNorm1d(CHANNELS, track_running_stats=False).eval()
    close(sync(whole[part]), plain(whole)[part], torch.float32)


def check_far_from_zero():
    """Sums of squares lose all digits of the variance here when they are made in float32."""
    whole, part = data("even", (50,), torch.float32, 1)
    whole = whole + 3000
    found = hvd.SyncBatchNorm(CHANNELS)(whole[part])
    wanted = torch.nn.BatchNorm1d(CHANNELS, dtype=torch.float64)(whole.double())[part]
    torch.testing.assert_close(found.double(), wanted, rtol=1e-3, atol=2e-3)


def check_gradient_numerically():
    """gradcheck of the whole: the loss of this rank as a function of its own input, others' inputs fixed."""
    whole, part = data("even", (2,), torch.float64, 3)
    sync = randomised(hvd.SyncBatchNorm(CHANNELS, dtype=torch.float64, track_running_stats=False))
    weights = torch.arange(float(whole.numel()), dtype=torch.float64).view(whole.shape).sin()
    x = whole[part].clone().requires_grad_()
    (sync(x) * weights[part]).sum().backward()
    step, everything = 1e-5, []
    for sign in (1, -1):
        moved = x.detach().clone()
        moved[0, 1, 1] += sign * step * (RANK == 0)
        everything.append(hvd.allreduce((sync(moved) * weights[part]).sum().detach(), op=hvd.Sum))
    slope = (everything[0] - everything[1]) / (2 * step)
    if RANK == 0:
        torch.testing.assert_close(x.grad[0, 1, 1], slope, rtol=1e-6, atol=1e-8)


def check_join():
    """A rank without further batches joins: the others' statistics are those of their batches."""
    sync = hvd.SyncBatchNorm(CHANNELS)
    if RANK == 0:
        for seed in range(2):
            x = data("even", (4,), torch.float32, seed)[0]
            close(sync(x), torch.nn.BatchNorm1d(CHANNELS)(x), torch.float32)
    assert hvd.join() in range(SIZE)


def check_process_set():
    if SIZE < 3:
        print(f"process sets: not checked, a set of two needs 3 ranks, there are {SIZE}")
        return
    members = hvd.add_process_set([0, 2])
    whole, _part = data("even", (4,), torch.float32, 1)
    parts = whole.split(4)
    sync = hvd.SyncBatchNorm(CHANNELS, process_set=members)
    mine = torch.cat([parts[0], parts[2]]) if members.included() else parts[RANK]
    wanted = torch.nn.BatchNorm1d(CHANNELS)(mine)
    close(sync(parts[RANK]), wanted[4:] if RANK == 2 else wanted[:4], torch.float32)
    hvd.remove_process_set(members)


def check_converted():
    model = torch.nn.Sequential(torch.nn.Conv1d(3, 3, 2), torch.nn.Sequential(torch.nn.BatchNorm1d(3, momentum=0.2)))
    randomised(model[1][0]).eval()
    converted = hvd.SyncBatchNorm.convert_sync_batchnorm(model)
    layer = converted[1][0]
    assert type(layer) is hvd.SyncBatchNorm and layer.momentum == 0.2 and not layer.training
    assert converted is model and len(model.state_dict()) == 7
    assert type(hvd.SyncBatchNorm.convert_sync_batchnorm(torch.nn.BatchNorm2d(3))) is hvd.SyncBatchNorm
    assert isinstance(layer, torch.nn.modules.batchnorm._BatchNorm)


def check_errors():
    sync = hvd.SyncBatchNorm(CHANNELS)
    one = torch.ones(1 if RANK == 0 else 0, CHANNELS)
    for x, text in ((torch.ones(3), "dimensions"), (torch.ones(2, 4), "4 features"), (one, "one value per channel")):
        raises(ValueError, "" if SIZE == 1 else text, sync, x)
    close(sync(torch.ones(2, CHANNELS)), torch.zeros(2, CHANNELS), torch.float32)


checks = [value for name, value in list(globals().items()) if name.startswith("check_")]
for check in checks:
    check()
print("torch_sync_bn: ok")
