# SPDX-License-Identifier: Apache-2.0
"""The NCCL library that libhvd has loaded."""

import ctypes
import os


def loaded_version():
    """Its version code, 22703 for 2.27.3. OSError if this process has loaded none."""
    number = ctypes.c_int(0)
    # By the name that the dynamic linker knows it by, wherever its file is.
    ctypes.CDLL("libnccl.so.2", mode=os.RTLD_NOLOAD | os.RTLD_NOW).ncclGetVersion(ctypes.byref(number))
    return number.value
