# SPDX-License-Identifier: Apache-2.0
"""Prints the Python files of the package, so that the build can not forget one. Run by meson at configure time."""

from pathlib import Path

here = Path(__file__).resolve().parent
for path in sorted((here / "horovod").rglob("*.py")):
    print(path.relative_to(here).as_posix())
