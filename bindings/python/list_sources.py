# SPDX-License-Identifier: Apache-2.0
"""Prints the files of the package, so that the build can not forget one. Run by meson at configure time.

Those in C++ are compiled on the user's machine, against the framework that is there.
"""

from pathlib import Path

here = Path(__file__).resolve().parent
for path in sorted((here / "horovod").rglob("*")):
    if path.suffix in (".py", ".cc", ".h"):
        print(path.relative_to(here).as_posix())
