#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One rank of a job of two languages: rank 0 is the C program ../c/allreduce.c, all others are ../python/allreduce_numpy.py, which does
# the same under the same names. horovodrun -np 3 sh examples/mixed/rank.sh ./allreduce
here=$(dirname "$0")
case "$HOROVOD_RANK" in
  0) exec "${1:-./allreduce}" ;;
  *) exec "${PYTHON:-python}" "$here/../python/allreduce_numpy.py" ;;
esac
