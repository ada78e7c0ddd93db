# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.pipelining on hvd: every schedule gives the gradients of the whole model in one process."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, schedules

import horovod.torch  # noqa: F401 - registers the backend

ROWS, WIDTH, PARTS = 16, 6, 8
# How many stages each rank has, and whether they are dealt out in a V.
SCHEDULES = {
    "ScheduleGPipe": (1, False),
    "Schedule1F1B": (1, False),
    "ScheduleLoopedBFS": (2, False),
    "ScheduleInterleaved1F1B": (2, False),
    "ScheduleInterleavedZeroBubble": (2, False),
    "ScheduleZBVZeroBubble": (2, True),
    "ScheduleDualPipeV": (2, True),
}


def layers(count):
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(count)]


def loss_of(output, target):
    return (output - target).pow(2).mean()


def check(name, per_rank, in_v):
    count = per_rank * size
    torch.manual_seed(1)
    inputs, targets = torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)
    whole = nn.Sequential(*layers(count))
    loss_of(whole(inputs), targets).backward()
    own = [rank, count - 1 - rank] if in_v else list(range(rank, count, size))
    modules = layers(count)
    stages = [PipelineStage(modules[place], place, count, torch.device("cpu")) for place in own[:per_rank]]
    schedule = getattr(schedules, name)(stages[0] if per_rank == 1 else stages, PARTS, loss_fn=loss_of)
    losses = []
    schedule.step(*([inputs] if 0 in own else []), **({"target": targets, "losses": losses} if count - 1 in own else {}))
    if losses:
        torch.testing.assert_close(torch.stack(losses).mean(), loss_of(whole(inputs), targets))
    for place in own[:per_rank]:
        for found, wanted in zip(modules[place].parameters(), whole[place].parameters()):
            torch.testing.assert_close(found.grad, wanted.grad, msg=lambda text: f"{name}, stage {place}: {text}")


dist.init_process_group("hvd")
rank, size = dist.get_rank(), dist.get_world_size()
for name, (per_rank, in_v) in SCHEDULES.items():
    if size > 1 and hasattr(schedules, name):
        check(name, per_rank, in_v)
        print(f"{name}: ok")
dist.barrier()
dist.destroy_process_group()
print("torch_dist_pipeline: ok")
