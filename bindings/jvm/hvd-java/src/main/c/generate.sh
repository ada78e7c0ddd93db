#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Generates the native layer, Raw.java and hvd_wrap.c, from hvd.h: generate.sh INCLUDE_DIR JAVA_FOLDER C_FOLDER
set -eu
here=$(dirname "$0")
include=${HVD_INCLUDE_DIR:-$1}
if ! command -v swig >/dev/null; then
  echo "generate.sh: swig is not installed; Debian's package is swig" >&2
  exit 1
fi
mkdir -p "$2" "$3"
swig -java -package io.hvd -I"$include" -outdir "$2" -o "$3/hvd_wrap.c" "$here/../swig/hvd.i"
