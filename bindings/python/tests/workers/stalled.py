# SPDX-License-Identifier: Apache-2.0
"""A stall that ends the job: each rank's exception names its own operation, how long, who is missing, and what that one waits for."""

import numpy as np

import horovod as hvd

hvd.init()
try:
    if hvd.rank() == 0:
        hvd.allreduce(np.ones(1), name="valloss")  # the others never call it
    hvd.barrier()
except hvd.HorovodShutDownError as error:
    if hvd.rank() == 0:
        assert 'valloss": stalled for 3 s; missing ranks 1 of 2; rank 1 waits in barrier "' in str(error), error
    else:
        assert 'barrier "' in str(error) and '": stalled for 3 s; missing ranks 0 of 2; rank 0 waits in' in str(error), error
        assert 'valloss"' in str(error), error
    print("stalled: ok")
