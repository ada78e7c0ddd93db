# SPDX-License-Identifier: Apache-2.0
"""A small transformer learns to continue text, character by character; the text comes with Python.

    horovodrun -np 2 python examples/python/transformer_torch.py --steps 100

The text is Python's licence and the documentation strings of the standard library. The batch of a step is the same for
any number of ranks, each of which takes its share, so that one rank and several learn the same.
"""

import argparse
import builtins
import contextlib
import inspect
import io
import math
import textwrap

import torch
import torch.nn.functional as F
from torch import nn

import horovod.torch as hvd


def text():
    """The Zen of Python, the licence, and what the built-in functions and classes say about themselves."""
    with contextlib.redirect_stdout(io.StringIO()):
        import this
    zen = "".join(this.d.get(character, character) for character in this.s)
    parts = [zen, str(getattr(builtins, "copyright", "")), inspect.getdoc(str) or ""]
    for module in (builtins, argparse, contextlib, inspect, textwrap):
        for name in sorted(vars(module)):
            documentation = inspect.getdoc(getattr(module, name)) or ""
            parts.append(f"{name}: {documentation}" if documentation else "")
    whole = "\n".join(part for part in parts if part)
    return "".join(one for one in whole if one.isascii() and (one.isprintable() or one == "\n"))


class LanguageModel(nn.Module):
    """Characters in, the next character's odds out."""

    def __init__(self, characters, length, width, heads, layers):
        super().__init__()
        self.tokens, self.places = nn.Embedding(characters, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, characters)

    def forward(self, tokens):
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=tokens.device)
        hidden = self.tokens(tokens) + self.places(torch.arange(length, device=tokens.device))
        return self.out(self.layers(hidden, mask=mask, is_causal=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=16, help="lines per step, all ranks together")
    parser.add_argument("--length", type=int, default=48, help="characters per line")
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    options = parser.parse_args()

    hvd.init()
    device = torch.device("cuda", hvd.local_rank()) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    torch.manual_seed(5)
    # Every rank may have another Python: what rank 0 has read is the text.
    characters = hvd.broadcast_object(text(), root_rank=0, name="text")
    known = sorted(set(characters))
    numbers = torch.tensor([known.index(character) for character in characters], device=device)

    model = LanguageModel(len(known), options.length, width=64, heads=4, layers=2).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    forward = torch.compile(model) if options.compile else model

    mine = slice(hvd.rank() * options.batch_size // hvd.size(), (hvd.rank() + 1) * options.batch_size // hvd.size())
    first = last = None
    for step in range(options.steps):
        generator = torch.Generator().manual_seed(step)
        starts = torch.randint(len(numbers) - options.length - 1, (options.batch_size,), generator=generator)[mine]
        lines = torch.stack([numbers[start : start + options.length + 1] for start in starts])
        optimizer.zero_grad()
        odds = forward(lines[:, :-1])
        # The sum over my lines as a part of the mean over all: right also when shares differ.
        loss = F.cross_entropy(odds.flatten(0, 1), lines[:, 1:].flatten(), reduction="sum")
        loss = loss * hvd.size() / (options.batch_size * options.length)
        loss.backward()
        optimizer.synchronize()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with optimizer.skip_synchronize():
            optimizer.step()
        if step % 20 == 0 or step == options.steps - 1:
            last = hvd.allreduce(loss.detach(), name="loss").item()
            first = last if first is None else first
            if hvd.rank() == 0:
                print(f"step {step:4d}  loss {last:.3f}  perplexity {math.exp(last):.1f}", flush=True)
    if hvd.rank() == 0:
        print(f"{len(numbers)} characters, {len(known)} different; from {first:.3f} to {last:.3f}")
    assert options.steps < 100 or last < 0.85 * first, (first, last)


if __name__ == "__main__":
    main()
