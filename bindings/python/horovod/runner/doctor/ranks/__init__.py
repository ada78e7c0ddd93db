# SPDX-License-Identifier: Apache-2.0
"""Programs that the doctor runs as a rank would be run, so they see Horovod as a rank does."""
