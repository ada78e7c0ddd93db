# SPDX-License-Identifier: Apache-2.0
"""The models that are trained, with made-up data: small inputs, so that communication is a real part of a step."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import torch
from torch import nn
from torch.nn import functional

WORDS, LENGTH = 8000, 32  # of the transformer
TABLES, ROWS, WIDTH, LOOKUPS = 4, 50_000, 32, 4  # of the recommender


@dataclass(frozen=True)
class Case:
    """A model and its data. ``data``: (inputs, targets) of one rank's batch, made by the generator of that batch."""

    title: str
    model: Callable[[], nn.Module]
    data: Callable[[torch.Generator], tuple]
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = functional.cross_entropy
    momentum: float = 0.9

    def batch(self, number, rank):
        """The batch of a rank, the same whoever asks for it."""
        return self.data(torch.Generator().manual_seed(1000 * number + rank))


class _Block(nn.Module):
    """Two convolutions and the way around them."""

    def __init__(self, width_in, width, stride):
        super().__init__()
        self.first = nn.Conv2d(width_in, width, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(width)
        self.around = nn.Identity()
        if stride != 1 or width_in != width:
            self.around = nn.Sequential(nn.Conv2d(width_in, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        inner = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(inner)) + self.around(x))


def _resnet18():
    """11.2 million parameters in 62 tensors."""
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    width_in = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [_Block(width_in, width, stride), _Block(width, width, 1)]
        width_in = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 100))


def _images(generator):
    return torch.randn(4, 3, 64, 64, generator=generator), torch.randint(100, (4,), generator=generator)


class _Transformer(nn.Module):
    """A small language model: 10.4 million parameters."""

    def __init__(self, width=256, layers=8):
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.places = nn.Parameter(torch.randn(LENGTH, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH), persistent=False)
        self.to_words = nn.Linear(width, WORDS, bias=False)

    def forward(self, words):
        inner = self.layers(self.words(words) + self.places, mask=self.mask, is_causal=True)
        return self.to_words(inner).flatten(0, 1)


def _sentences(generator):
    words = torch.randint(WORDS, (2, LENGTH + 1), generator=generator)
    return words[:, :-1], words[:, 1:].flatten()


class _Deep(nn.Module):
    """300 small layers: 600 tensors, of 64 KB and of 512 bytes."""

    def __init__(self, width=128, layers=300):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = x + 0.05 * torch.tanh(layer(x))
        return x


def _points(generator):
    return torch.randn(16, 128, generator=generator), torch.randint(128, (16,), generator=generator)


class _Recommender(nn.Module):
    """Four tables of 1.6 million numbers each, and a small network on top."""

    def __init__(self, sparse):
        super().__init__()
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(ROWS, WIDTH, mode="sum", sparse=sparse) for _ in range(TABLES)
        )
        wide, narrow = nn.Linear(TABLES * WIDTH, 128), nn.Linear(128, 64)
        self.top = nn.Sequential(wide, nn.ReLU(), narrow, nn.ReLU(), nn.Linear(64, 1))

    def forward(self, ids):
        found = [table(ids[:, number]) for number, table in enumerate(self.tables)]
        return self.top(torch.cat(found, 1)).squeeze(1)


def _clicks(generator):
    ids = torch.randint(ROWS, (128, TABLES, LOOKUPS), generator=generator)
    return ids, torch.randint(2, (128,), generator=generator).float()


_score = functional.binary_cross_entropy_with_logits
CASES = {
    "resnet18": Case("ResNet-18, 4 images of 64x64", _resnet18, _images),
    "transformer": Case("transformer, 10 M parameters, 2x32 words", _Transformer, _sentences),
    "mlp300": Case("MLP, 300 small layers, 16 points", _Deep, _points),
    "recommender": Case("recommender, sparse embeddings", lambda: _Recommender(True), _clicks, _score, momentum=0.0),
    "recommender_dense": Case(
        "recommender, dense embeddings", lambda: _Recommender(False), _clicks, _score, momentum=0.0
    ),
}
