# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on the GPU, each rank with its part of a batch, and compares with plain PyTorch on the whole batch."""

import copy

import torch
import torch.nn.functional as F
from common import DEVICE, ON_GPU, reduce_alone, start
from torch import nn

import horovod.torch as hvd

BATCH, STEPS = 24, 12
rank, size = start()
reduce_alone()
torch.backends.cudnn.benchmark = False
torch.backends.cudnn.deterministic = True


def network():
    torch.manual_seed(1)
    layers = (nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(16 * 8 * 8, 10)).to(DEVICE, torch.float64)


def batch(step):
    generator = torch.Generator().manual_seed(step)
    images = torch.randn(BATCH, 3, 16, 16, generator=generator, dtype=torch.float64)
    return images.to(DEVICE), torch.randint(10, (BATCH,), generator=generator).to(DEVICE)


def train(model, optimizer, part):
    for step in range(STEPS):
        images, labels = (whole[part] for whole in batch(step))
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return model


def compare(make, title):
    """The parameters after some steps; without a wait for the device anywhere."""
    plain = network()
    model = copy.deepcopy(plain)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(rank)  # the broadcast makes them alike
    optimizer = hvd.DistributedOptimizer(make(model.parameters()), named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    train(model, optimizer, slice(rank, None, size))
    train(plain, make(plain.parameters()), slice(None))
    for (name, found), wanted in zip(model.named_parameters(), plain.parameters()):
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-7, msg=lambda text: f"{title}, {name}: {text}")


def mixed_precision():
    """Autocast, a scaler for gradients, several passes per step, gradients that travel as halves: it learns, all ranks the same."""
    model = network().float()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    optimizer = hvd.DistributedOptimizer(
        optimizer, model.named_parameters(), backward_passes_per_step=2, compression=hvd.Compression.fp16
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    scaler = torch.amp.GradScaler(DEVICE.type, enabled=ON_GPU)
    images, labels = (whole[rank::size] for whole in batch(0))
    losses = []
    for _step in range(30):
        optimizer.zero_grad()
        for _pass in range(2):
            with torch.autocast(DEVICE.type, dtype=torch.float16 if ON_GPU else torch.bfloat16):
                loss = F.cross_entropy(model(images.float()), labels) / 2
            scaler.scale(loss).backward()
        optimizer.synchronize()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
    assert losses[-1] < 0.5 * losses[0], (losses[0], losses[-1])
    sums = hvd.allgather(torch.stack([parameter.detach().double().sum() for parameter in model.parameters()])[None])
    assert bool((sums == sums[0]).all()), sums


def batch_norm():
    """SyncBatchNorm over the parts is BatchNorm over the whole."""
    plain = nn.BatchNorm2d(3).to(DEVICE, torch.float64)
    model = hvd.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain))
    images, _labels = batch(0)
    torch.testing.assert_close(model(images[rank::size]), plain(images)[rank::size])
    torch.testing.assert_close(model.running_var, plain.running_var)


compare(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9), "SGD")
compare(lambda parameters: torch.optim.Adam(parameters, lr=1e-3), "Adam")
mixed_precision()
batch_norm()
hvd.shutdown()
print("training: ok", flush=True)
