#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles libhvdjni.so, which is linked against the C library only, and copies LIBHVD beside it if one is given:
# compile.sh INCLUDE_DIR JAVA_HOME C_FOLDER OUTPUT_FOLDER [LIBHVD]
set -eu
here=$(dirname "$0")
include=${HVD_INCLUDE_DIR:-$1}
mkdir -p "$4"
# SWIG takes int64_t for "long long" and casts between integers and pointers as it likes; our own code is checked.
flags="-std=gnu11 -O2 -fPIC -fvisibility=hidden -I$include -I$2/include -I$2/include/linux -I$here"
${CC:-gcc} $flags -fno-strict-aliasing -Wall -Werror -Wno-incompatible-pointer-types -c "$3/hvd_wrap.c" -o "$3/hvd_wrap.o"
for name in table memory events; do
  ${CC:-gcc} $flags -Wall -Wextra -Werror -c "$here/$name.c" -o "$3/$name.o"
done
${CC:-gcc} -shared -Wl,-z,defs -Wl,-soname,libhvdjni.so -o "$4/libhvdjni.so" \
  "$3/hvd_wrap.o" "$3/table.o" "$3/memory.o" "$3/events.o" -pthread -ldl
rm -f "$4/libhvd.so.1"
if [ -n "${5:-}" ]; then
  cp -L "$5" "$4/libhvd.so.1"
fi
