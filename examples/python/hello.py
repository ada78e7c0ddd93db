# SPDX-License-Identifier: Apache-2.0
"""Every rank says who and where it is: `horovodrun -np 2 python examples/python/hello.py`."""

import socket

import horovod as hvd

hvd.init()
print(f"rank {hvd.rank()} of {hvd.size()} on {socket.gethostname()}")
