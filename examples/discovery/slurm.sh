#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Hosts of this Slurm allocation that are up, four slots each: horovodrun --min-np 2 --host-discovery-script ./slurm.sh ...
sinfo --noheader --nodes "$SLURM_JOB_NODELIST" --states idle,alloc,mix --format "%n:4"
