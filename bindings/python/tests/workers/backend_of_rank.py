# SPDX-License-Identifier: Apache-2.0
"""Rank 1 asks for another data plane than rank 0."""

import os

import horovod as hvd

hvd.init(cpu_operations="gloo" if os.environ["HOROVOD_RANK"] == "1" else "native")
