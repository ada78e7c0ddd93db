# SPDX-License-Identifier: Apache-2.0
"""What the workers share: the device, numbers that are exact in every dtype, streams with late work."""

import contextlib
import os

import numpy as np
import torch

import horovod.torch as hvd
from horovod.torch import _gradient_optimizer

DEVICE = torch.device(os.environ.get("HVD_GPU_TEST_DEVICE", "cuda:0"))  # all ranks share one GPU; cpu: a rehearsal
ON_GPU = DEVICE.type == "cuda"
CYCLES_PER_MS = 2_000_000  # about that, at the full clock of a large card; slower clocks sleep longer


def start(**options):
    """Rank and number of ranks."""
    if ON_GPU:
        torch.cuda.set_device(DEVICE)
    hvd.init(**options)
    return hvd.rank(), hvd.size()


def reduce_alone():
    """From here on an optimizer of one rank alone reduces gradients as if there were others: only so they go through NCCL."""
    _gradient_optimizer.has_others = lambda process_set, who: True


def numbers(of, shape, least=0, different=7):
    """The numbers of a rank, as NumPy has them: small ones, so that their sums are exact in every dtype."""
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) * (of + 1) + of) % different + least


def tensor(array, dtype=torch.float32):
    """Those on the device."""
    return torch.from_numpy(np.array(array, dtype=np.float64, order="C")).to(dtype).to(DEVICE)


def same(found, wanted):
    """Fails unless the tensor is on the device and has the numbers, which are converted to its dtype."""
    assert isinstance(found, torch.Tensor) and found.device == DEVICE, (type(found), getattr(found, "device", None))
    expected = torch.from_numpy(np.array(wanted, dtype=np.float64)).to(found.dtype)
    here = found.detach().cpu()
    assert here.shape == expected.shape, (here.shape, expected.shape)
    if not torch.equal(here, expected):
        wrong = (here != expected).flatten().nonzero().flatten()
        at = wrong[:5].tolist()
        raise AssertionError(
            f"{len(wrong)} of {here.numel()} {here.dtype} differ, at {at}: {here.flatten()[at].tolist()} "
            f"instead of {expected.flatten()[at].tolist()}"
        )


def raised(kinds, text, function, *arguments, **options):
    """The exception, which must be of that kind and say that."""
    try:
        function(*arguments, **options)
    except kinds as error:
        assert text in str(error), f"{type(error).__name__}: {error}; it does not say {text!r}"
        return error
    raise AssertionError(f"no error that says {text!r}")


def side_stream():
    """A new stream, or nothing in a rehearsal."""
    return torch.cuda.Stream(DEVICE) if ON_GPU else None


def on(stream):
    """What is queued inside goes to that stream."""
    return torch.cuda.stream(stream) if ON_GPU else contextlib.nullcontext()


def delay(milliseconds):
    """Keeps the current stream busy; returns a function that says whether it still is. The host does not wait."""
    if not ON_GPU:
        return lambda: True
    torch.cuda._sleep(int(milliseconds * CYCLES_PER_MS))
    event = torch.cuda.Event()
    event.record()
    return lambda: not event.query()


def wait_for_device():
    if ON_GPU:
        torch.cuda.synchronize()
