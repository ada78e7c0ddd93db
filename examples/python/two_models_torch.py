# SPDX-License-Identifier: Apache-2.0
"""Two models train at the same time, each on a half of the ranks.

    horovodrun -np 4 python examples/python/two_models_torch.py

Process sets keep the halves apart; at the end all ranks compare what they have learnt.
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

import horovod.torch as hvd


def main():
    hvd.init(process_sets="dynamic")
    if hvd.size() < 2:
        raise SystemExit("start this with at least 2 ranks: horovodrun -np 4 python two_models_torch.py")
    device = torch.device("cuda", hvd.local_rank()) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    half = hvd.size() // 2
    sets = [hvd.add_process_set(range(half)), hvd.add_process_set(range(half, hvd.size()))]
    which = 0 if sets[0].included() else 1
    mine = sets[which]

    torch.manual_seed(hvd.rank())
    hidden = (16, 96)[which]
    model = torch.nn.Sequential(torch.nn.Linear(64, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 10)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), process_set=mine)
    for name, tensor in model.state_dict().items():
        hvd.broadcast_(tensor, mine.ranks[0], name=name, process_set=mine)

    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32, device=device) / 16
    labels = torch.tensor(digits.target, device=device)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    test, training = order[:360], order[360:]
    share = training[: len(training) // mine.size() * mine.size()].view(-1, mine.size())[:, mine.rank()]
    for _epoch in range(5):
        for batch in share.split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()

    with torch.no_grad():
        accuracy = (model(images[test]).argmax(1) == labels[test]).float().mean()
    results = hvd.allgather(torch.stack([accuracy.new_tensor(which), accuracy]).view(1, 2), name="results")
    if hvd.rank() == 0:
        for number in (0, 1):
            found = results[results[:, 0] == number, 1]
            print(f"model {number} on ranks {sets[number].ranks}: accuracy {found[0]:.2%}")
            assert torch.equal(found, found[0].expand_as(found)), "ranks of one set have the same model"
            assert found[0] > 0.8, found


if __name__ == "__main__":
    main()
