#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the path of a julia of version 1.5 or newer: the one on PATH, else one below PREFIX, unpacked there once.
#
#   scripts/get_julia.sh PREFIX
#
# Unpacked is Julia 1.5.3 of Debian 11 (bullseye), the oldest version that the package supports, on x86-64 or AArch64, from
# the archive of Debian that this machine's apt uses. Nothing is installed into the system; about 310 MB in PREFIX.
set -euo pipefail

[ $# = 1 ] || { echo "usage: get_julia.sh PREFIX" >&2; exit 2; }
say() { echo "get_julia: $*" >&2; }

recent() { "$1" -e 'exit(VERSION >= v"1.5" ? 0 : 1)' >/dev/null 2>&1; }

if julia=$(command -v julia) && recent "$julia"; then
  echo "$julia"
  exit 0
fi
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
julia=$prefix/bin/julia
if [ -x "$julia" ] && recent "$julia"; then
  echo "$julia"
  exit 0
fi

command -v apt-get >/dev/null && command -v dpkg >/dev/null || { say "julia 1.5 is not installed, and there is no apt-get to get it"; exit 1; }
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r "$keys" ] || { say "$keys is missing (package debian-archive-keyring)"; exit 1; }
# The archive of this machine, whatever its address; bullseye is in it as long as Debian keeps it there.
archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1 || true)
[ -n "$archive" ] || { say "apt has no list of packages; run apt-get update"; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
state=$work/apt
mkdir -p "$state"/{lists/partial,cache/archives/partial,parts}
: >"$state/status"
: >"$state/preferences"
echo "deb [signed-by=$keys] $archive bullseye main" >"$state/sources.list"
cat >"$state/apt.conf" <<CONF
Dir::State "$state";
Dir::State::Lists "$state/lists";
Dir::State::status "$state/status";
Dir::Cache "$state/cache";
Dir::Etc::SourceList "$state/sources.list";
Dir::Etc::SourceParts "$state/parts";
Dir::Etc::Preferences "$state/preferences";
Dir::Etc::PreferencesParts "$state/parts";
APT::Sandbox::User "root";
Acquire::Languages "none";
CONF
apt=(apt-get -qq -c "$state/apt.conf")
"${apt[@]}" update >&2

# Julia and those of its libraries that a newer Debian does not have in this version.
packages=(julia julia-common libjulia1 libdsfmt-19937-1 libgit2-1.1 libllvm9 libmbedcrypto3 libmbedtls12 libmbedx509-0
  libopenlibm3 libutf8proc2 libhttp-parser2.9 libffi7 libpcre2-8-0 libgmp10 libmpfr6 libunwind8 libssh2-1 libgfortran5
  libpcre3 libedit2 libbsd0 libmd0 libz3-4)
[ "$(dpkg --print-architecture)" != amd64 ] || packages+=(libquadmath0)
(cd "$state/cache/archives" && "${apt[@]}" download "${packages[@]}" >&2)
for package in "$state"/cache/archives/*.deb; do
  dpkg -x "$package" "$prefix"
done

libraries=$(dirname "$(dirname "$(find "$prefix/usr/lib" -path '*/julia/sys.so' | head -n 1)")")
paths="$libraries:$libraries/julia:${libraries/#$prefix\/usr/$prefix}"  # some lie in /lib
mkdir -p "$prefix/bin"
cat >"$julia" <<RUN
#!/bin/sh
export LD_LIBRARY_PATH="$paths\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
exec "$prefix/usr/bin/julia" "\$@"
RUN
chmod +x "$julia"
recent "$julia" || { say "what was unpacked in $prefix does not start: $("$julia" --version 2>&1 | tail -n 1)"; exit 1; }
echo "$julia"
