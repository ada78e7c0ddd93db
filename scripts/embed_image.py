#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the kernels that nvcc has compiled into C++: embed_image.py IMAGE OUTPUT. Used by core/device/meson.build."""
import sys
from pathlib import Path

PER_LINE = 24
HEAD = """// Generated from core/device/cuda/kernels.cu.
#include "device/image.h"

namespace hvd::device {

namespace {

alignas(16) constexpr unsigned char kImage[] = {
"""
TAIL = """};

}  // namespace

std::span<const unsigned char> kernel_image() noexcept { return kImage; }

}  // namespace hvd::device
"""


def main() -> None:
    image, output = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2])
    lines = (image[at : at + PER_LINE] for at in range(0, len(image), PER_LINE))
    output.write_text(HEAD + "".join(",".join(map(str, line)) + ",\n" for line in lines) + TAIL)


if __name__ == "__main__":
    main()
