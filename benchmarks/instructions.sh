#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Instructions per operation, submit to completion, counted by callgrind: a number that a busy machine does not change.
#
#   benchmarks/instructions.sh PATH/OF/instructions [turns]
#
# Each line is the difference of two runs that differ only in the number of turns, so that start and end cancel out. With one
# rank it repeats to the instruction. With two, ranks wait for each other, and how often they look while valgrind runs the other
# one differs from run to run: take it as a size, not as a number to compare.
set -eu

program=${1:?"path of the program instructions, as meson built it"}
turns=${2:-1000}
command -v valgrind >/dev/null || { echo "valgrind is not installed (Debian: valgrind)" >&2; exit 77; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT

collected() { # turns, then arguments: all instructions of a run
  count=$1
  shift
  if ! valgrind --tool=callgrind --callgrind-out-file=/dev/null --fair-sched=try "$program" --turns "$count" "$@" \
    >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "$program $* failed under valgrind" >&2
    return 1
  fi
  sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$log"
}

report() { # title, operations per turn, then arguments
  title=$1
  operations=$2
  shift 2
  more=$(collected $((2 * turns)) "$@")
  less=$(collected "$turns" "$@")
  printf '%-46s %s\n' "$title" $(((more - less) / (turns * operations)))
}

printf '%-46s %s\n' 'instructions per operation' "$turns turns"
report '1 rank, 8 B' 1 --np 1 --bytes 8
report '1 rank, 100 x 4 KB submitted together' 100 --np 1 --bytes 4096 --tensors 100
report '2 ranks (sum of both), 8 B' 1 --np 2 --bytes 8
report '2 ranks (sum of both), 100 x 4 KB together' 100 --np 2 --bytes 4096 --tensors 100
