# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What scripts/quickstart and scripts/test share: steps with times, Debian packages, the virtual environment, PyPI packages,
# and the installation of this project. To be sourced from a script that has set `program` and `steps`.

set -Eeuo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${HVD_VENV:-$root/.venv}
log=$venv/$program.log
step_number=0
step_title="start"
step_began=$SECONDS
cd "$root"

# What this project needs from PyTorch's side: the tests and the first training. Said before it is downloaded.
torch_packages=(torch scikit-learn)
torch_gigabytes=8

trap 'failed $?' ERR

failed() {
  trap - ERR
  echo "$program: step \"$step_title\" failed (exit code $1); log: $log" >&2
  [ ! -s "$log" ] || tail -n 15 "$log" | sed 's/^/  /' >&2
  exit 1
}

die() {
  trap - ERR
  echo "$program: $*" >&2
  exit 1
}

step() {
  step_number=$((step_number + 1))
  step_title=$1
  step_began=$SECONDS
  echo "[$step_number/$steps] $step_title"
}

step_done() {
  echo "      ${1:-done} ($((SECONDS - step_began)) s)"
}

start_log() {
  mkdir -p "$venv"
  : >"$log"
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "not root, and sudo is not installed; as root: $*"
  fi
}

# Prints those of the given Debian packages that are not installed.
missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

# Updates the list of Debian packages once per run.
updated=
update_lists() {
  if [ -z "$updated" ]; then
    as_root apt-get -q -o DPkg::Lock::Timeout=300 update >>"$log" 2>&1
    updated=yes
  fi
}

# Installs what is missing of the given Debian packages, and says what.
need_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "this machine lacks ${missing[*]}, and has no apt-get to install them"
  echo "      installing Debian packages: ${missing[*]}"
  update_lists
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 --no-install-recommends install \
    "${missing[@]}" >>"$log" 2>&1
}

# The same for packages that only some suites need: what Debian does not offer is left out, and said.
want_packages() {
  local missing offered=() package
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  update_lists
  for package in "${missing[@]}"; do
    if apt-cache show "$package" >/dev/null 2>&1; then
      offered+=("$package")
    else
      echo "      Debian package $package is not offered here; what needs it is skipped"
    fi
  done
  [ ${#offered[@]} -eq 0 ] || need_packages "${offered[@]}"
}

# The Python to build with: HVD_PYTHON, else python3. With its own packages where it is Debian's.
need_python() {
  python=${HVD_PYTHON:-python3}
  command -v "$python" >/dev/null || need_packages python3
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' ||
    die "$("$python" --version) is too old: 3.9 or newer is needed; HVD_PYTHON=/path/to/python3 chooses another"
  if ! "$python" -c 'import ensurepip, venv, sysconfig, os, sys
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' >/dev/null 2>&1; then
    need_packages python3-venv python3-dev
  fi
}

need_venv() {
  if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -m pip --version >>"$log" 2>&1; then
    "$python" -m venv "$venv" >>"$log" 2>&1
  fi
  export PIP_DISABLE_PIP_VERSION_CHECK=1
}

have_modules() {
  "$venv/bin/python" - "$@" <<'PYTHON'
import importlib.util, sys
sys.exit(any(importlib.util.find_spec(name) is None for name in sys.argv[1:]))
PYTHON
}

# A package of PyPI that only some suites need.
want_module() {
  "$venv/bin/python" -m pip install --log "$log" "$1" >>"$log" 2>&1 ||
    echo "      PyPI package $1 is not offered here; what needs it is skipped"
}

# PyTorch with what it needs. pip's own progress is shown.
need_torch() {
  if have_modules torch sklearn numpy; then
    return 0
  fi
  if ! have_modules torch; then
    local free
    free=$(df -BG --output=avail "$venv" | tail -n 1 | tr -dc 0-9)
    echo "      PyTorch is not here yet. PyPI's build of it requires NVIDIA's CUDA libraries, also on machines without a GPU:"
    echo "      about 5.5 GB on disk when installed. This is downloaded once; $free GB are free."
    [ "$free" -ge "$torch_gigabytes" ] || die "PyTorch needs $torch_gigabytes GB of free disk for download and installation; $venv has $free"
  fi
  "$venv/bin/python" -m pip install --log "$log" "${torch_packages[@]}"
}

# Changes with every source that the installed package is made from.
source_hash() {
  find capi core bindings meson.build meson.options pyproject.toml -type f -not -path '*/tests/*' \
    -not -name '*.pyc' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1
}

# Installs this project unless these very sources are installed already.
stamp=$venv/.hvd-installed
need_project() {
  local hash
  hash=$(source_hash)
  if [ "$(cat "$stamp" 2>/dev/null)" != "$hash" ]; then
    rm -f "$stamp"
    "$venv/bin/python" -m pip install --log "$log" . >>"$log" 2>&1
    echo "$hash" >"$stamp"
  fi
}
